"""What commands print: results to standard output, everything else to standard error."""

import csv
import io
import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

_PIPE_WIDTH = 100_000
"""Tables are not wrapped where no terminal limits them."""

Row = Mapping[str, Any]


def show_table(table: Table) -> None:
    """Print a table: wrapped at a terminal's width, and not at all in a pipe."""
    if sys.stdout.isatty():
        Console(highlight=False).print(table)
        return
    console = Console(file=io.StringIO(), width=_PIPE_WIDTH, highlight=False)
    with console.capture() as lines:
        console.print(table)
    for line in lines.get().splitlines():
        sys.stdout.write(line.rstrip() + "\n")


def amount(number: int, noun: str) -> str:
    """Return a number of things: ``1 file``, ``2,000 files``."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def to_json(value: Any) -> str:
    """Return plain values as one line of JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def print_json(value: Any) -> None:
    """Print plain values as JSON; never through rich, which wraps lines."""
    sys.stdout.write(to_json(value) + "\n")


def print_json_rows(rows: Iterable[Row]) -> None:
    """Print rows as one JSON array, a row a line."""
    start = "["
    for row in rows:
        sys.stdout.write(start + to_json(row))
        start = ",\n"
    sys.stdout.write("[]\n" if start == "[" else "]\n")


def print_csv(columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Print rows as CSV with a header; null is empty, lists and structs are JSON."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[name], null="") for name in columns])


def print_table(columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Print rows as a table for people: numbers to the right, null as a dash."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in columns:
        values = [row[name] for row in rows if row[name] is not None]
        numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        table.add_column(Text(name), justify="right" if numeric and values else "left")
    for row in rows:
        table.add_row(*(Text(_cell(row[name], null="-")) for name in columns))
    show_table(table)


def print_facts(facts: Mapping[str, Any]) -> None:
    """Print a mapping as two columns, nested ones indented."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    _add_facts(table, facts, "")
    show_table(table)


def _add_facts(table: Table, facts: Mapping[str, Any], indent: str) -> None:
    for name, value in facts.items():
        if isinstance(value, Mapping) and value:
            table.add_row(Text(indent + name), Text(""))
            _add_facts(table, value, indent + "  ")
        elif isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
            for index, item in enumerate(value):
                table.add_row(Text(f"{indent}{name} {index}"), Text(""))
                _add_facts(table, item, indent + "  ")
        else:
            table.add_row(Text(indent + name), Text(_cell(value, null="-")))


def _cell(value: Any, *, null: str) -> str:
    if value is None:
        return null
    return value if isinstance(value, str) else to_json(value)


def say(text: str) -> None:
    """Print a line for the user, beside the results."""
    sys.stderr.write(text + "\n")


def say_next(*commands: Sequence[str]) -> None:
    """End a command by naming the next useful ones, ready to be pasted."""
    sys.stdout.flush()
    for index, command in enumerate(commands):
        say(f"{'  or:' if index else 'next:'} {shlex.join(['drystone', *command])}")
    sys.stderr.flush()

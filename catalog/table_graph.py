"""From tables with keys to a graph."""

import datetime
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from catalog.relational import read_tables
from catalog.table_keys import Table, columns_left
from transforms.ingest import Reject
from transforms.synthesis.graph_input import DANGLING
from transforms.synthesis.graph_raw import Place
from transforms.synthesis.graph_settle import LoadedGraph, NamedGraph, settle
from transforms.synthesis.graph_tables import (
    NamedAttribute,
    NamedEntity,
    NamedRelation,
    places,
)
from transforms.synthesis.graph_values import Literals, take_literals
from transforms.synthesis.names import singular, words_of

Keys = dict[str, dict[str, str]]
"""Id of an entity by table and key."""


def load_tables(path: Path, name: str | None = None) -> LoadedGraph:
    """Read tables as a graph.

    Args:
        path: a DuckDB file, a CSV file, or a folder of Parquet and CSV files.
        name: the graph's name; default: the file's or folder's.

    Raises:
        RecordError: a file cannot be read, or no keys can be found.
    """
    named = NamedGraph({}, {}, {})
    tables = read_tables(path, named.rejects)
    keys = {table.name: _rows(table, named) for table in tables.values()}
    facts: dict[str, list[tuple[str, str]]] = {}
    literals: list[Literals] = []
    for table in tables.values():
        if table.key is None:
            _relate(table, keys, named, facts)
            continue
        for column, other in table.foreign.items():
            _refer(table, column, other, keys, named, facts)
        for column in columns_left(table):
            literals += _values(table, column, keys[table.name], named)
    labels = {one.relation: words_of(one.relation.rpartition(".")[2]) for one in literals}
    valued = take_literals(literals, labels, named.entities)
    named.entities.update(valued.entities)
    named.attributes.update(valued.attributes)
    for relation, pairs in valued.facts.items():
        domain = relation.rpartition(".")[0]
        named.relations[relation] = NamedRelation(labels[relation], domain, complete=True)
        facts[relation] = pairs
    named.facts = {one: places(named.entities, pairs) for one, pairs in facts.items() if pairs}
    named.type_labels = {table.name: words_of(singular(table.name)) for table in tables.values()}
    named.counters = {
        "tables": len(tables),
        "rows": sum(table.data.num_rows for table in tables.values()),
        "literals not used": valued.unused.total(),
        "entities made of literals": len(valued.entities),
    }
    return settle(named, name or path.name.partition(".")[0], str(path))


def _rows(table: Table, named: NamedGraph) -> dict[str, str]:
    """Make an entity of each row; return ids by key."""
    found: dict[str, str] = {}
    if table.key is None:
        return found
    labels = table.column(table.label) if table.label else table.column(table.key)
    texts = table.column(table.description) if table.description else [None] * len(labels)
    rows = zip(table.lines, table.column(table.key), labels, texts, strict=True)
    for line, key, label, text in rows:
        if key is None or not str(key).strip():
            detail = f"{table.key} is empty"
            named.rejects.append(Reject(line, "malformed row", detail, table.path))
        elif str(key) in found:
            detail = f"{table.key} {key!r} names an earlier row"
            named.rejects.append(Reject(line, "repeated entity", detail, table.path))
        else:
            entity = found[str(key)] = f"{table.name}/{key}"
            words = str(label) if label is not None else str(key)
            named.entities[entity] = NamedEntity(words, (), str(text or ""), (table.name,))
            named.described_at[entity] = Place(table.path, line)
    return found


def _refer(
    table: Table,
    column: str,
    other: str,
    keys: Keys,
    named: NamedGraph,
    facts: dict[str, list[tuple[str, str]]],
) -> None:
    """Make a relation of a foreign key."""
    relation = f"{table.name}.{column}"
    label = words_of(_without_id(column))
    named.relations[relation] = NamedRelation(label, table.name, other, True, complete=True)
    pairs = facts.setdefault(relation, [])
    seen: set[str] = set()
    rows = zip(table.lines, table.column(str(table.key)), table.column(column), strict=True)
    for line, key, value in rows:
        head = keys[table.name].get(str(key))
        if value is None or head is None or head in seen:
            continue
        seen.add(head)
        tail = keys[other].get(str(value))
        if tail is None:
            detail = f"{column} {value!r} is no key of {other}"
            named.rejects.append(Reject(line, DANGLING, detail, table.path))
        else:
            pairs.append((head, tail))


def _relate(
    table: Table, keys: Keys, named: NamedGraph, facts: dict[str, list[tuple[str, str]]]
) -> None:
    """Make relations of a table that has foreign keys alone: from the first to each other one."""
    (first, start), *others = table.foreign.items()
    for column, other in others:
        relation = table.name if len(others) == 1 else f"{table.name}.{column}"
        both = {start, other, singular(start), singular(other)}
        named_so = set(table.name.lower().replace("__", "_").split("_")) <= both
        label = words_of(_without_id(column) if named_so or len(others) > 1 else table.name)
        named.relations[relation] = NamedRelation(label, start, other, complete=True)
        pairs = facts.setdefault(relation, [])
        rows = zip(table.lines, table.column(first), table.column(column), strict=True)
        for line, one, two in rows:
            if one is None or two is None:
                continue
            head, tail = keys[start].get(str(one)), keys[other].get(str(two))
            if head is None or tail is None:
                named_side, value, missing = (
                    (first, one, start) if head is None else (column, two, other)
                )
                detail = f"{named_side} {value!r} is no key of {missing}"
                named.rejects.append(Reject(line, DANGLING, detail, table.path))
            else:
                pairs.append((head, tail))


def _without_id(column: str) -> str:
    for end in ("_id", "_key", "_code", "Id", "ID"):
        if column.endswith(end) and len(column) > len(end):
            return column.removesuffix(end)
    return column


def _values(table: Table, column: str, ids: Mapping[str, str], named: NamedGraph) -> list[Literals]:
    """Make an attribute of a column of numbers or dates; return one of texts as literals."""
    kind = table.data.schema.field(column).type
    attribute = f"{table.name}.{column}"
    values: dict[str, Any] = {}
    for key, value in zip(table.column(str(table.key)), table.column(column), strict=True):
        entity = ids.get(str(key))
        if entity is not None and value is not None:
            values.setdefault(entity, value)
    label = words_of(column)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = {one: (str(value), float(value)) for one, value in values.items()}
        good = {one: value for one, value in numbers.items() if np.isfinite(value[1])}
        named.attributes[attribute] = NamedAttribute(label, "number", "", good)
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        dates = {one: (_day(value), math.nan) for one, value in values.items()}
        named.attributes[attribute] = NamedAttribute(label, "date", "", dates)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_boolean(kind):
        texts = [
            str(value).lower() if isinstance(value, bool) else value for value in values.values()
        ]
        if texts:
            return [Literals(attribute, list(values), texts, True, 0)]
    return []


def _day(value: Any) -> str:
    day = value.date() if isinstance(value, datetime.datetime) else value
    return str(day.isoformat())

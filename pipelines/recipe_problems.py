"""Mistakes in a recipe, each as one line: the key, what is wrong, what was found, what to do."""

import datetime
import difflib
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from pipelines.recipe_reference import (
    default_of,
    describe,
    hints,
    items_of,
    literals,
    settings_of,
    tables,
    toml,
    values_of,
)

Keys = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake of a recipe."""

    keys: Keys
    """Path of the key within the recipe; empty for the recipe as a whole."""
    text: str
    """What is wrong, what was found, and what to do."""

    def line(self, origin: str) -> str:
        """Return the mistake as one line; ``origin`` is the file, or the ``--set`` it stands in."""
        key = ".".join(str(part) for part in self.keys)
        text = " ".join(self.text.split())
        return f"{origin}: {key}: {text}" if key else f"{origin}: {text}"


def find_problems(
    adapter: TypeAdapter[Any], root: type, raw: dict[str, Any], rules: Sequence[Problem] = ()
) -> list[Problem]:
    """Return every mistake of a parsed recipe, in the order of its lines.

    A table's rules across fields run only when all its fields are valid, so the recipe is checked a
    second time with the wrong keys left out. A rule that speaks of a key left out is not repeated.

    Args:
        adapter: validator of the recipe's dataclass.
        root: the recipe's dataclass.
        raw: the parsed TOML.
        rules: mistakes found already by rules across tables, which are listed with the others.
    """
    clean, found = _plain_values(raw)
    problems = {problem.keys: problem for problem in (*rules, *found)}
    for error in _errors(adapter, clean):
        problem = _explain(root, error, clean)
        if problem.keys or not rules:
            problems.setdefault(problem.keys, problem)
    if problems:
        for problem in _hidden_rules(adapter, root, clean, list(problems)):
            problems.setdefault(problem.keys, problem)
    return sorted(problems.values(), key=lambda p: _position(raw, p.keys))


def _hidden_rules(
    adapter: TypeAdapter[Any], root: type, raw: Any, wrong: Sequence[Keys]
) -> Iterator[Problem]:
    """Yield the broken rules of tables that hold a wrong key, checked without that key."""
    remaining = _without(raw, set(wrong))
    for error in _errors(adapter, remaining):
        if error["type"] != "value_error":
            continue
        problem = _explain(root, error, remaining)
        inside = [keys for keys in wrong if keys[: len(problem.keys)] == problem.keys]
        named = re.findall(r"\w+", problem.text)
        if problem.keys and not any(keys and keys[-1] in named for keys in inside):
            yield problem


def _errors(adapter: TypeAdapter[Any], raw: Any) -> list[ErrorDetails]:
    """Validate as JSON, where strict mode takes lists for tuples, and return all errors."""
    try:
        adapter.validate_json(json.dumps(raw))
    except ValidationError as error:
        return error.errors(include_url=False)
    return []


def _plain_values(raw: Any, keys: Keys = ()) -> tuple[Any, list[Problem]]:
    """Replace dates and non-finite numbers, which no key takes, and name them."""
    if isinstance(raw, dict):
        pairs = {key: _plain_values(value, (*keys, key)) for key, value in raw.items()}
        return {k: v for k, (v, _) in pairs.items()}, [p for _, ps in pairs.values() for p in ps]
    if isinstance(raw, list):
        items = [_plain_values(value, (*keys, index)) for index, value in enumerate(raw)]
        return [value for value, _ in items], [p for _, ps in items for p in ps]
    if isinstance(raw, datetime.date | datetime.time):
        text = f'found a date or time, {raw}; put it in quotes: "{raw}"'
        return str(raw), [Problem(keys, text)]
    if isinstance(raw, float) and not math.isfinite(raw):
        return 0, [Problem(keys, f"expected a finite number, found {raw}; give one")]
    return raw, []


def _without(raw: Any, wrong: set[Keys], keys: Keys = ()) -> Any:
    """Return a copy of the recipe without the wrong keys."""
    if isinstance(raw, dict):
        return {
            key: _without(value, wrong, (*keys, key))
            for key, value in raw.items()
            if (*keys, key) not in wrong
        }
    if isinstance(raw, list):
        return [_without(value, wrong, (*keys, index)) for index, value in enumerate(raw)]
    return raw


def _position(raw: Any, keys: Keys) -> tuple[int, ...]:
    """Return where a key stands in the recipe, for sorting; a missing key follows its table."""
    place = []
    for key in keys:
        if isinstance(raw, dict):
            place.append(list(raw).index(key) if key in raw else len(raw))
            raw = raw.get(key)
        elif isinstance(raw, list) and isinstance(key, int) and key < len(raw):
            place.append(key)
            raw = raw[key]
    return tuple(place)


def _explain(root: type, error: ErrorDetails, raw: Any) -> Problem:
    """Turn one error of the validator into a mistake in the recipe's own words."""
    annotation: Any = root
    owner: type | None = None
    keys: Keys = ()
    for step in error["loc"]:
        table, item, value = settings_of(annotation), items_of(annotation), values_of(annotation)
        if table is not None and isinstance(step, str):
            owner, keys = table, (*keys, step)
            if step not in hints(table):
                return Problem(keys, _unknown(root, table, keys, error["input"]))
            annotation = hints(table)[step]
        elif item is not None and isinstance(step, int):
            annotation, keys = item, (*keys, step)
        elif value is not None:
            annotation, keys = value, (*keys, step)
        else:
            break  # a branch of a union: speak of the union as a whole
    if error["type"] == "value_error":
        return Problem(keys, str(error.get("ctx", {}).get("error", error["msg"])))
    if error["type"] == "missing":
        return Problem(keys, f"missing; give {describe(annotation)}{_example(keys)}")
    found = _lookup(raw, keys)
    return Problem(keys, _mismatch(owner, annotation, keys, found))


def _example(keys: Keys) -> str:
    """Return how a missing key is written, where a string stands for it."""
    samples = {"name": 'name = "my-run"', "path": 'path = "data/*.jsonl"'}
    sample = samples.get(str(keys[-1])) if keys else None
    return f", for example {sample}" if sample else ""


def _lookup(raw: Any, keys: Keys) -> Any:
    for key in keys:
        raw = raw[key]
    return raw


def _mismatch(owner: type | None, annotation: Any, keys: Keys, found: Any) -> str:
    """Say what a value should be, what it is, and how to repair it."""
    text = f"expected {describe(annotation)}, found {shown(found)}"
    return f"{text}; {_remedy(owner, annotation, keys, found)}"


def _remedy(owner: type | None, annotation: Any, keys: Keys, found: Any) -> str:
    """Return what to write instead of a value of the wrong type or range."""
    name = str(keys[-1]) if keys else ""
    expected = describe(annotation)
    if close := _close(found, literals(annotation)):
        return f"did you mean {toml(close)}?"
    if expected == "a list of tables" and isinstance(found, dict):
        return f"write it with two brackets: [[{name}]]"
    if settings_of(annotation) is not None and not isinstance(found, dict):
        return f"write it as a table: [{'.'.join(map(str, keys))}]"
    if expected.startswith("a string") and isinstance(found, int | float):
        return f"put it in quotes: {name} = {toml(toml(found))}"
    if expected.startswith("a list") and not isinstance(found, list | dict):
        return f"put it in brackets: {name} = [{toml(found)}]"
    if isinstance(found, str) and _is_number(found) and expected.startswith(("an int", "a num")):
        return f"remove the quotes: {name} = {found}"
    if isinstance(found, str) and found in ("true", "false") and expected.startswith("true"):
        return f"remove the quotes: {name} = {found}"
    default = (
        next((default_of(f) for f in fields(owner) if f.name == name), None) if owner else None
    )
    if default is not None and default is not MISSING and default != "":
        return f"give one, or remove the line for the default, {toml(default)}"
    return f"give {expected}"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def shown(value: Any) -> str:
    """Return a value as the recipe shows it, cut where it is long."""
    if isinstance(value, dict):
        return "a table"
    text = toml(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _close(word: Any, known: Sequence[Any]) -> str | None:
    """Return the known word that was probably meant."""
    if not isinstance(word, str):
        return None
    names = [name for name in known if isinstance(name, str)]
    folded = {name.casefold(): name for name in names}
    match = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=0.6)
    return folded[match[0]] if match else None


def _unknown(root: type, table: type, keys: Keys, value: Any) -> str:
    """Say that a key does not exist, and which one was probably meant."""
    name = str(keys[-1])
    is_table = isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, dict) for item in value)
    )
    text, found = ("unknown table", "") if is_table else ("unknown key", f", found {shown(value)}")
    if close := _close(name, list(hints(table))):
        return f"{text}{found}; did you mean {close}?"
    if elsewhere := list(_places(root, name)):
        return f"{text} here{found}; did you mean {' or '.join(elsewhere[:2])}?"
    parent = ".".join(str(part) for part in keys[:-1])
    where = f"[{parent}]" if parent else "a recipe"
    takes = f"takes {', '.join(hints(table))}" if hints(table) else "has no keys"
    return f"{text}{found}; remove it: {where} of this version {takes}"


def _places(root: type, name: str) -> Iterator[str]:
    """List the tables that have a key of this name."""
    for path, cls, repeated in tables(root):
        if name in hints(cls):
            head = ".".join(path)
            yield f"{name} in [[{head}]]" if repeated else f"{head}.{name}" if head else name

"""What the recipe's dataclasses say of themselves: types in words, defaults, attribute docstrings.

The error messages, the JSON Schema and ``docs/recipe.md`` all speak through this module, so that
they cannot disagree.
"""

import ast
import functools
import inspect
import itertools
import json
import textwrap
import types
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import annotated_types

_PLAIN = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}
_BOUNDS = ("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<=")


def attribute_docs(cls: type) -> dict[str, str]:
    """Return the docstring under each field of a dataclass, by field name, as one paragraph."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    docs: dict[str, str] = {}
    for field, text in itertools.pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            docs[field.target.id] = " ".join(text.value.value.split())
    return docs


@functools.cache
def hints(cls: type) -> Mapping[str, Any]:
    """Return the resolved annotations of a dataclass's fields, with their ranges."""
    found = get_type_hints(cls, include_extras=True)
    return {field.name: found[field.name] for field in fields(cls)}


def strip(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a type without ``Annotated`` and ``None``, and the ranges it carried."""
    bounds: tuple[Any, ...] = ()
    while True:
        if get_origin(annotation) is Annotated:
            bounds += annotation.__metadata__
            annotation = annotation.__origin__
            continue
        members = union_members(annotation)
        if len(members) != 1 or members[0] is annotation:
            return annotation, bounds
        annotation = members[0]


def union_members(annotation: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union without ``None``; a plain type is its own alternative."""
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(a for a in get_args(annotation) if a is not type(None))
    return (annotation,)


def literals(annotation: Any) -> tuple[Any, ...]:
    """Return the allowed values of a ``Literal``, else nothing."""
    plain, _ = strip(annotation)
    return get_args(plain) if get_origin(plain) is Literal else ()


def settings_of(annotation: Any) -> type | None:
    """Return the dataclass that a table of this type is read into, or None."""
    plain, _ = strip(annotation)
    return plain if isinstance(plain, type) and is_dataclass(plain) else None


def items_of(annotation: Any) -> Any | None:
    """Return the type of a list's items, or None where the type is not a list."""
    plain, _ = strip(annotation)
    if get_origin(plain) in (tuple, list) or (get_origin(plain) or plain).__name__ == "Sequence":
        return get_args(plain)[0]
    return None


def values_of(annotation: Any) -> Any | None:
    """Return the type of a free table's values, or None where the type is not a free table."""
    plain, _ = strip(annotation)
    origin = get_origin(plain)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return get_args(plain)[1]
    return None


def describe(annotation: Any) -> str:
    """Return a type in words, with its range: ``an integer > 0``, ``one of "a", "b"``."""
    plain, bounds = strip(annotation)
    members = union_members(plain)
    if len(members) > 1:
        return " or ".join(describe(member) for member in members)
    if choices := literals(plain):
        return "one of " + ", ".join(toml(value) for value in choices)
    if settings_of(plain) is not None:
        return "a table"
    if (item := items_of(plain)) is not None:
        inner = describe(item)
        return "a list of tables" if inner == "a table" else f"a list, each {inner}"
    if (value := values_of(plain)) is not None:
        return f"a table, each value {describe(value)}"
    return " ".join(filter(None, (_PLAIN.get(plain, str(plain)), _range(bounds))))


def _range(bounds: tuple[Any, ...]) -> str:
    """Return the ranges of an annotation in words, joined by ``and``."""
    parts = []
    for bound in bounds:
        for name, sign in _BOUNDS:
            limit = getattr(bound, name, None)
            if limit is not None:
                parts.append(f"{sign} {limit}")
        if isinstance(bound, annotated_types.MinLen) and bound.min_length == 1:
            parts.append("that is not empty")
        if isinstance(bound, annotated_types.MultipleOf):
            parts.append(f"that {bound.multiple_of} divides")
    return " and ".join(parts)


def toml(value: Any) -> str:
    """Write a value as TOML, on one line."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{key} = {toml(item)}" for key, item in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def default_of(field: "Field[Any]") -> Any:
    """Return a field's default, ``MISSING`` where it is required."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


def tables(cls: type, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type, bool]]:
    """List every table of a recipe, outermost first.

    Yields:
        The table's path, its dataclass, and whether it is a list of tables (``[[...]]``).
    """
    yield path, cls, False
    for name, annotation in hints(cls).items():
        here = (*path, name)
        if (inner := settings_of(annotation)) is not None:
            yield from tables(inner, here)
        elif (item := items_of(annotation)) is not None and (inner := settings_of(item)):
            yield here, inner, True
            for below, annotation_below in hints(inner).items():
                if (nested := settings_of(annotation_below)) is not None:
                    yield from tables(nested, (*here, below))

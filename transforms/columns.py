"""Typed columns from untyped values: what JSON and foreign Parquet types become.

A column of a part has one of five types: bool, int64, float64, string, or, from Parquet, lists of
float64. Integers beside floats become floats; any other mixture becomes strings, as their JSON text,
and so does what has none of these types. A value is first kept exactly,
so that the outcome depends on the part's values alone and not on how they came in batches.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import orjson
import pyarrow as pa

Values: TypeAlias = pa.Array | list[Any]
"""Some rows of a column: an array where all values have one type, else the values themselves."""

_TYPES = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
_NUMBERS = pa.list_(pa.float64())
_INT64 = range(-(2**63), 2**63)
_EXACT_IN_FLOAT = 2.0**53


def narrow(values: list[Any]) -> Values:
    """Return the values as an array if they have one type, unchanged if they do not.

    Nulls have any type. An integer that int64 cannot hold keeps the list as it is.
    """
    kinds = set(map(type, values)) - {type(None)}
    if not kinds:
        return pa.nulls(len(values))
    if len(kinds) > 1:
        return values
    [kind] = kinds
    if kind not in _TYPES or (kind is int and not _fits(values)):
        return values
    return pa.array(values, _TYPES[kind])


def from_arrow(array: pa.Array) -> Values:
    """Return a foreign Arrow array as one of the five types; other types as values."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind = array.type
    if pa.types.is_null(kind) or kind in _TYPES.values():
        return array
    if pa.types.is_integer(kind):
        return array.cast(pa.int64()) if kind != pa.uint64() else narrow(array.to_pylist())
    if pa.types.is_floating(kind):
        return array.cast(pa.float64())
    if _is_list(kind) and pa.types.is_floating(kind.value_type):
        return array.cast(_NUMBERS)
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.string())
    return narrow([_plain(value) for value in array.to_pylist()])


def widen(parts: Sequence[Values]) -> list[pa.Array]:
    """Return the parts of one column as arrays of one type, the narrowest that holds all values."""
    kinds = {kind for part in parts for kind in _kinds(part)}
    if not kinds:
        target = pa.null()
    elif len(kinds) == 1:
        [target] = kinds
    elif kinds <= {pa.int64(), pa.float64()}:
        target = pa.float64()
    else:
        target = pa.string()
    return [_convert(part, target) for part in parts]


def as_strings(values: Values) -> pa.Array:
    """Return the values as strings: strings as they are, all else as JSON text, nulls as nulls."""
    return _convert(values, pa.string())


def _kinds(part: Values) -> set[pa.DataType]:
    if isinstance(part, pa.Array):
        return set() if pa.types.is_null(part.type) else {part.type}
    kinds = {_TYPES.get(kind, pa.string()) for kind in set(map(type, part)) - {type(None)}}
    if pa.int64() in kinds and not _fits(part):
        kinds.add(pa.string())
    return kinds


def _is_list(kind: pa.DataType) -> bool:
    is_kind = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(check(kind) for check in is_kind)


def _fits(values: Sequence[Any]) -> bool:
    return all(value in _INT64 for value in values if type(value) is int)


def _convert(part: Values, target: pa.DataType) -> pa.Array:
    if isinstance(part, pa.Array) and part.type == target:
        return part
    values = part.to_pylist() if isinstance(part, pa.Array) else part
    if target == pa.string():
        return pa.array([None if value is None else _text(value) for value in values], target)
    if target == pa.float64():
        return pa.array([None if value is None else float(value) for value in values], target)
    return pa.array(values, target)


def _text(value: Any) -> str:
    """Return a string as it is and any other value as JSON; equal numbers give equal text."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        whole = value.is_integer() and abs(value) < _EXACT_IN_FLOAT
        return str(int(value)) if whole else repr(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return orjson.dumps(value, default=_plain).decode()


def _plain(value: Any) -> Any:
    """Return a value of another Arrow type as what JSON has: text for times, decimals and bytes."""
    if value is None or isinstance(value, bool | int | float | str | dict | list):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)

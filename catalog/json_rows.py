"""Query results as plain JSON values."""

import datetime
import decimal
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa

Convert = Callable[[Any], Any]


def to_json_rows(table: pa.Table) -> list[dict[str, Any]]:
    """Return a table as one dictionary of JSON values per row.

    Booleans are true and false, integers of any width numbers, decimals numbers (integers where
    they have no fraction), binary columns hexadecimal text, timestamps, dates and times ISO 8601
    text, maps and structs objects. NaN and infinities, which JSON does not have, are null. A
    column name that occurs twice gets ``_1``, ``_2`` for the later ones.

    Args:
        table: any number of rows; all of them are returned.
    """
    names = _distinct(table.column_names)
    columns = [to_json_values(column) for column in table.columns]
    if not columns:
        return []
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def to_json_values(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of one column as :func:`to_json_rows` does."""
    column = _to_microseconds(column)
    convert = _converter(column.type)
    values: list[Any] = column.to_pylist()
    return values if convert is None else [_apply(convert, v) for v in values]


def _distinct(names: list[str]) -> list[str]:
    """Number the later ones of equal names; a JSON object keeps only one of each."""
    result: list[str] = []
    for name in names:
        candidate, number = name, 0
        while candidate in result:
            number += 1
            candidate = f"{name}_{number}"
        result.append(candidate)
    return result


def _to_microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Round nanoseconds down: Python's own times have none."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pa.timestamp("us", column.type.tz), safe=False)
    if pa.types.is_time64(column.type) and column.type.unit == "ns":
        return column.cast(pa.time64("us"), safe=False)
    return column


def _apply(convert: Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _converter(kind: pa.DataType) -> Convert | None:
    """Return how a value of an Arrow type becomes JSON; None where it is JSON already."""
    if pa.types.is_map(kind):
        return _map_converter(kind)
    if pa.types.is_struct(kind):
        return _struct_converter(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        inner = _converter(kind.value_type)
        return None if inner is None else lambda values: [_apply(inner, v) for v in values]
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return None
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return None
    return _plain


def _map_converter(kind: pa.DataType) -> Convert:
    inner = _converter(kind.item_type) or _same
    return lambda entries: {str(_plain(key)): _apply(inner, value) for key, value in entries}


def _struct_converter(kind: pa.DataType) -> Convert:
    inner = {field.name: _converter(field.type) or _same for field in kind}
    return lambda value: {name: _apply(inner[name], item) for name, item in value.items()}


def _same(value: Any) -> Any:
    return value


def _plain(value: Any) -> Any:
    """Return one value of no known shape as JSON."""
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return str(value)

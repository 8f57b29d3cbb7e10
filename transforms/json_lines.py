"""JSON lines written from Arrow columns: strings are escaped where they lie, no Python strings are made.

The bytes are those of ``json.dumps(row, ensure_ascii=False, separators=(",", ":"))``.
"""

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.kernel import kernel
from transforms.text import string_buffers

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]


def json_lines(table: pa.Table, plain: Callable[[pa.ChunkedArray], Sequence[Any]]) -> Bytes:
    """Return the rows of a table as JSON objects, each with a line feed behind it.

    Args:
        table: columns of distinct names.
        plain: what gives the values of a column that holds neither strings nor integers, as the
            ``json`` module takes them.

    Returns:
        The lines, uint8.
    """
    n = len(table)
    names = [json.dumps(name, ensure_ascii=False) for name in table.column_names]
    prefixes = [
        np.frombuffer(f"{'{' if place == 0 else ','}{name}:".encode(), np.uint8)
        for place, name in enumerate(names)
    ]
    columns = [_rendered(column, plain) for column in table.columns]
    sizes = np.full(n, sum(map(len, prefixes)) + (2 if columns else 3), np.int64)
    for offsets, data, quoted in columns:
        _add_sizes(offsets, data, quoted, _escapes(), sizes)
    ends = np.cumsum(sizes)
    out = np.empty(int(ends[-1]) if n else 0, np.uint8)
    places = ends - sizes
    for prefix, (offsets, data, quoted) in zip(prefixes, columns, strict=True):
        _write(offsets, data, quoted, prefix, _escapes(), out, places)
    if not columns:
        out[places] = ord("{")
    out[ends - 2] = ord("}")
    out[ends - 1] = ord("\n")
    return out


_Rendered = tuple[Places, Bytes, npt.NDArray[np.bool_]]
"""Offsets and bytes of each value, and whether it is a string, to be escaped and quoted."""


def _rendered(
    column: pa.ChunkedArray, plain: Callable[[pa.ChunkedArray], Sequence[Any]]
) -> _Rendered:
    """Return the text of each value of a column."""
    kind = column.type
    if pa.types.is_string(kind):
        array = column.combine_chunks()
        valid = np.ones(len(array), np.bool_)
        if array.null_count:
            valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
            array = pc.fill_null(array, "null")
    else:
        if pa.types.is_integer(kind):
            array = pc.fill_null(column.cast(pa.string()).combine_chunks(), "null")
        else:
            values = [
                json.dumps(value, ensure_ascii=False, separators=(",", ":"))
                for value in plain(column)
            ]
            array = pa.array(values, pa.string())
        valid = np.zeros(len(array), np.bool_)
    offsets, data = string_buffers(array)
    return offsets, data, valid


_SHORT = {0x22: '"', 0x5C: "\\", 0x08: "b", 0x09: "t", 0x0A: "n", 0x0C: "f", 0x0D: "r"}
_LONG = 1
"""The entry of a character that is written as a number."""


@functools.cache
def _escapes() -> Bytes:
    """Return what stands behind the backslash for each byte, 0 where there is none, shape [256]."""
    escapes = np.zeros(256, np.uint8)
    escapes[:0x20] = _LONG
    for byte, letter in _SHORT.items():
        escapes[byte] = ord(letter)
    escapes.flags.writeable = False
    return escapes


@kernel
def _add_sizes(
    offsets: Places, data: Bytes, quoted: npt.NDArray[np.bool_], escapes: Bytes, sizes: Places
) -> None:
    """Add to the size of each row that of one of its values."""
    for row in range(len(sizes)):
        size = offsets[row + 1] - offsets[row]
        if quoted[row]:
            size += 2
            for place in range(offsets[row], offsets[row + 1]):
                escape = escapes[data[place]]
                # No branch, so that bytes are counted several at a time.
                size += np.int64(escape != 0) + np.int64(escape == _LONG) * 4
        sizes[row] += size


@kernel
def _write(
    offsets: Places,
    data: Bytes,
    quoted: npt.NDArray[np.bool_],
    prefix: Bytes,
    escapes: Bytes,
    out: Bytes,
    places: Places,
) -> None:
    """Write a value of each row where its line has come to; move that place on."""
    for row in range(len(places)):
        to = places[row]
        for byte in prefix:
            out[to] = byte
            to += 1
        if not quoted[row]:
            for place in range(offsets[row], offsets[row + 1]):
                out[to] = data[place]
                to += 1
            places[row] = to
            continue
        out[to] = 0x22
        to += 1
        for place in range(offsets[row], offsets[row + 1]):
            byte = data[place]
            escape = escapes[byte]
            if escape == 0:
                out[to] = byte
                to += 1
                continue
            out[to] = 0x5C
            if escape != _LONG:
                out[to + 1] = escape
                to += 2
                continue
            out[to + 1] = 0x75
            out[to + 2] = out[to + 3] = 0x30
            out[to + 4] = 0x30 + (byte >> 4)
            low = byte & 0xF
            out[to + 5] = low + (0x30 if low < 10 else 0x57)
            to += 6
        out[to] = 0x22
        places[row] = to + 1

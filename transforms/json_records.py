"""JSON lines read into Arrow columns, where they are as records of text are; no Python objects are made.

A block of lines is regular when each line is blank or an object whose wanted values are strings (or
null, or absent), and an id may be an integer. What the ``json`` module would not read, and what it
reads in a way of its own (numbers beyond 18 digits or with exponents, deep nesting, escapes in keys),
makes a block irregular: it is for a parser that knows them all.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.json_scan import (
    BLOCK,
    Bytes,
    copy_string,
    is_space,
    literal_end,
    most_bytes,
    number_end,
    value_end,
)
from transforms.kernel import kernel

Numbers = npt.NDArray[np.int64]

ABSENT, STRING, INTEGER = 0, 1, 2
"""What a value was: absent or null, a string, or an integer, whose digits stand for it."""

_SHORT = 1 << 14
"""Bytes of all ids, or languages, of a block, to begin with."""


@dataclass(frozen=True, slots=True)
class TextRecords:
    """The objects of a regular block of lines."""

    lines: Numbers
    """Which line each is, from 0, shape [records]."""
    text: pa.StringArray
    """No nulls."""
    id: pa.StringArray
    """Null where it is absent or null."""
    lang: pa.StringArray
    """Likewise."""


def text_records(block: bytes, text: str, id: str, lang: str) -> TextRecords | None:
    """Read a block of lines.

    Args:
        block: lines with line feeds between them, less than 2 GiB.
        text: key of the text, a string in every object.
        id: key of the id.
        lang: key of the language.

    Returns:
        The records; None where the block is not regular.
    """
    one, two, three = (
        np.frombuffer(key.encode("utf-8", "surrogatepass"), np.uint8) for key in (text, id, lang)
    )
    if len({text, id, lang}) < 3:
        return None
    data = np.frombuffer(block, np.uint8)
    rows = int(np.count_nonzero(data == 0x0A)) + 1
    lines = np.empty(rows, np.int64)
    kinds = np.empty((3, rows), np.uint8)
    ends = np.zeros((3, rows + 1), np.int32)
    texts = np.empty(len(data) + BLOCK, np.uint8)
    ids, langs = np.empty(_SHORT, np.uint8), np.empty(_SHORT, np.uint8)
    state = np.zeros(3, np.int64)
    # Where the room for ids and languages does not do it is doubled.
    while _read(data, one, two, three, lines, kinds, ends, texts, ids, langs, state) == _FULL:
        ids, langs = np.resize(ids, 2 * len(ids)), np.resize(langs, 2 * len(langs))
    values = (texts, ids, langs)
    if state[_PLACE] < len(data):
        return None
    n = int(state[_ROWS])
    columns = [
        pa.StringArray.from_buffers(
            n, pa.py_buffer(ends[k, : n + 1]), pa.py_buffer(values[k][: ends[k, n]])
        )
        for k in range(3)
    ]
    for k in (1, 2):
        absent = kinds[k, :n] == ABSENT
        if absent.any():
            columns[k] = pc.if_else(pa.array(absent), None, columns[k])
    return TextRecords(lines[:n], *columns)


_PLACE, _LINE, _ROWS = 0, 1, 2
"""Entries of the reader's state: the byte and the line to go on with, and the rows so far; whoever ends
before the last byte met a line that is not regular."""
_DONE, _IRREGULAR, _FULL = 0, 1, 2


@kernel
def _is_key(data: Bytes, start: int, end: int, key: Bytes) -> bool:
    if end - start != len(key):
        return False
    equal = True
    for k in range(len(key)):
        equal &= data[start + k] == key[k]
    return equal


@kernel
def _read(
    data: Bytes,
    text_key: Bytes,
    id_key: Bytes,
    lang_key: Bytes,
    lines: Numbers,
    kinds: npt.NDArray[np.uint8],
    ends: npt.NDArray[np.int32],
    texts: Bytes,
    ids: Bytes,
    langs: Bytes,
    state: Numbers,
) -> int:
    """Read lines from the state's place on, until one is irregular or has no room."""
    while state[_PLACE] < len(data):
        start = state[_PLACE]
        end = start
        row = state[_ROWS]
        outcome, end = _read_line(
            data, start, text_key, id_key, lang_key, row, kinds, ends, texts, ids, langs
        )
        if outcome < 0:
            return _FULL if outcome == -_FULL else _IRREGULAR
        if outcome:
            lines[row] = state[_LINE]
            state[_ROWS] += 1
        state[_LINE] += 1
        state[_PLACE] = end + 1
    return _DONE


@kernel
def _read_line(  # noqa: C901
    data: Bytes,
    place: int,
    text_key: Bytes,
    id_key: Bytes,
    lang_key: Bytes,
    row: int,
    kinds: npt.NDArray[np.uint8],
    ends: npt.NDArray[np.int32],
    texts: Bytes,
    ids: Bytes,
    langs: Bytes,
) -> tuple[int, int]:
    """Read the line that starts at ``place`` into a row.

    Returns:
        1 for a record, 0 for a blank line, below 0 for what cannot be read, and the line's end.
    """
    end = len(data)
    while place < end and is_space(data[place]):
        place += 1
    if place == end or data[place] == 0x0A:
        return 0, place
    if data[place] != 0x7B:
        return -_IRREGULAR, place
    for column in range(3):
        kinds[column, row] = ABSENT
        ends[column, row + 1] = ends[column, row]
    place += 1
    while place < end and is_space(data[place]):
        place += 1
    closed = place < end and data[place] == 0x7D
    while not closed:
        if place >= end or data[place] != 0x22:
            return -_IRREGULAR, place
        key = place + 1
        # The text of this row is behind what is kept: keys that are not its own go there meanwhile.
        place, to = copy_string(data, place, end, texts, ends[0, row + 1])
        if place < 0 or to - ends[0, row + 1] != place - 1 - key:
            return -_IRREGULAR, place  # a key with escapes
        last = place - 1
        while place < end and is_space(data[place]):
            place += 1
        if place >= end or data[place] != 0x3A:
            return -_IRREGULAR, place
        place += 1
        while place < end and is_space(data[place]):
            place += 1
        if place >= end:
            return -_IRREGULAR, place
        byte = data[place]
        column = -1
        if _is_key(data, key, last, text_key):
            column = 0
        elif _is_key(data, key, last, id_key):
            column = 1
        elif _is_key(data, key, last, lang_key):
            column = 2
        if column < 0:
            place = value_end(data, place, end, texts, ends[0, row + 1])
        elif column == 0:
            if byte != 0x22:
                return -_IRREGULAR, place
            place, to = copy_string(data, place, end, texts, ends[0, row])
            kinds[0, row] = STRING
            ends[0, row + 1] = to
        else:
            out = ids if column == 1 else langs
            # Strings and integers alike: as many bytes as stand here, at most.
            size = most_bytes(data, place, end)
            if ends[column, row] + size + BLOCK > len(out):
                return -_FULL, place
            to = ends[column, row]
            kinds[column, row] = STRING
            if byte == 0x22:
                place, to = copy_string(data, place, end, out, to)
            elif byte == 0x6E:
                place = literal_end(data, place, end)
                kinds[column, row] = ABSENT
            elif column == 1:
                digits = place
                place, whole = number_end(data, place, end)
                if not whole:
                    return -_IRREGULAR, place
                for k in range(digits, place):
                    out[to] = data[k]
                    to += 1
                kinds[1, row] = INTEGER
            else:
                return -_IRREGULAR, place
            ends[column, row + 1] = to
        if place < 0:
            return -_IRREGULAR, place
        while place < end and is_space(data[place]):
            place += 1
        if place >= end:
            return -_IRREGULAR, place
        if data[place] == 0x2C:
            place += 1
            while place < end and is_space(data[place]):
                place += 1
        elif data[place] == 0x7D:
            closed = True
        else:
            return -_IRREGULAR, place
    place += 1
    while place < end and is_space(data[place]):
        place += 1
    if (place < end and data[place] != 0x0A) or kinds[0, row] != STRING:
        return -_IRREGULAR, place
    if kinds[1, row] == STRING and ends[1, row] == ends[1, row + 1]:
        return -_IRREGULAR, place  # an id without a character
    return 1, place

"""Parquet: one record a row; a column may have any type that reads as text or as a number."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.formats.fields import ChatFields, Fields, RecordProblem, snippet
from pipelines.formats.lines import MAX_LINE_BYTES
from pipelines.formats.stream import CHUNK_BYTES, open_binary
from transforms.columns import as_strings, from_arrow
from transforms.ingest import Reject, Rows
from transforms.record import MAX_ROWS_PER_PART
from transforms.tokenize.given import spell

_READ_ERRORS = (pa.ArrowException, OSError, UnicodeDecodeError)


def row_group_sizes(path: str) -> list[tuple[int, int]] | None:
    """Return rows and decompressed bytes of each row group; None if the footer cannot be read."""
    try:
        with open_binary(path) as stream, pq.ParquetFile(stream) as file:
            groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
            return [(group.num_rows, group.total_byte_size) for group in groups]
    except _READ_ERRORS:
        return None


def read_row_groups(
    path: str, start: int, stop: int, *, rows_before: int, part_bytes: int, fields: Fields
) -> Iterator[Rows]:
    """Read the row groups [start, stop) of a file.

    The first part has the number ``start``. Where its texts exceed ``part_bytes``, the rest goes to
    parts with the numbers ``start`` + k * (row groups of the file), k = 1, 2, ..., which no other
    task has.

    Args:
        path: the file.
        start: the first row group.
        stop: the row group after the last; equal to ``start`` for a file without a footer, which
            becomes one reject.
        rows_before: rows in the row groups before ``start``.
        part_bytes: size of a part.
        fields: what to take from a record.
    """
    try:
        stream = open_binary(path)
        file = pq.ParquetFile(stream, page_checksum_verification=True, pre_buffer=False)
    except _READ_ERRORS as error:
        problem = Reject(None, "unreadable file", _first_line(error))
        yield _no_rows(start, [problem])
        return
    with stream, file:
        parts = _Parts(start, file.num_row_groups, part_bytes)
        row = rows_before
        for number in range(start, stop):
            for rows in _read_row_group(file, number, row, fields):
                yield from parts.deal(rows)
            row += file.metadata.row_group(number).num_rows


def _read_row_group(file: pq.ParquetFile, number: int, row: int, fields: Fields) -> Iterator[Rows]:
    """Read one row group; rows that cannot be read are rejects, one each."""
    group = file.metadata.row_group(number)
    wanted = {*fields.text_columns, fields.id, fields.lang, *fields.columns.values()}
    present = [name for name in file.schema_arrow.names if name in wanted]
    size = max(1, min(1 << 16, group.num_rows * CHUNK_BYTES // max(group.total_byte_size, 1)))
    done = 0
    try:
        needed = fields.text_columns[0]
        if needed not in present:
            detail = f"no column {needed!r} among {snippet(file.schema_arrow.names)}"
            reason = "missing text" if fields.chat is None else "missing messages"
            reason = reason if fields.tokens is None else "missing tokens"
            yield from _all_rejected(row, group.num_rows, reason, detail)
            return
        batches = file.iter_batches(size, row_groups=[number], columns=present, use_threads=False)
        for batch in itertools.chain.from_iterable(map(_pieces, batches)):
            rows = _parse(batch, row + done, fields)
            done += len(batch)
            yield rows
    except MemoryError:
        raise
    except _READ_ERRORS as error:
        detail = f"row group {number}: {_first_line(error)}"
        yield from _all_rejected(row + done, group.num_rows - done, "corrupt row group", detail)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in pieces that string columns with 32-bit offsets can hold."""
    if len(batch) > 1 and batch.nbytes > 1 << 30:
        half = len(batch) // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))
    else:
        yield batch


def _parse(batch: pa.RecordBatch, row: int, fields: Fields) -> Rows:
    """Turn some rows, the first of them row ``row`` of the file from 0, into rows and rejects."""
    numbers = np.arange(row + 1, row + 1 + len(batch))
    named = {
        name: _storage(column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    rejects: list[Reject] = []
    good = np.ones(len(batch), bool)
    for name, column in named.items():
        _reject(good, _not_unicode(column), rejects, numbers, "invalid UTF-8", f"column {name!r}")
    if fields.chat is not None:
        text = _conversations(named, good, numbers, fields.chat, rejects)
    elif fields.tokens is not None:
        text = _tokens(named[fields.tokens], good, numbers, fields.tokens, rejects)
    else:
        text = _texts(named[fields.text], good, numbers, fields, rejects)
    long = pc.fill_null(pc.binary_length(text), 0).to_numpy(zero_copy_only=False) > MAX_LINE_BYTES
    _reject(good, long, rejects, numbers, "record too long", f"more than {MAX_LINE_BYTES} bytes")
    ids = _ids(named.get(fields.id), good, numbers, fields, rejects)
    mask = pa.array(good)
    taken = {name: column.filter(mask) for name, column in named.items()}
    absent = pa.nulls(int(good.sum()))
    return Rows(
        part=0,
        text=text.filter(mask).cast(pa.string()),
        id=ids,
        lang=as_strings(from_arrow(taken.get(fields.lang, absent))),
        line=numbers[good],
        columns={name: from_arrow(taken.get(key, absent)) for name, key in fields.columns.items()},
        rejects=sorted(rejects, key=lambda reject: reject.line or 0),
    )


def _texts(
    column: pa.Array,
    good: npt.NDArray[np.bool_],
    numbers: npt.NDArray[np.int64],
    fields: Fields,
    rejects: list[Reject],
) -> pa.Array:
    """Return the texts; a row without one is no longer good."""
    text = _as_text(column)
    if text is None:
        detail = f"column {fields.text!r} has type {column.type}"
        _reject(good, good.copy(), rejects, numbers, "text is not a string", detail)
        text = pa.nulls(len(column), pa.string())
    missing = pc.is_null(text).to_numpy(zero_copy_only=False)
    _reject(good, missing, rejects, numbers, "text is null", None)
    return text


def _tokens(
    column: pa.Array,
    good: npt.NDArray[np.bool_],
    numbers: npt.NDArray[np.int64],
    name: str,
    rejects: list[Reject],
) -> pa.Array:
    """Return lists of ids as texts; a row without one is no longer good."""
    nested = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not nested or not pa.types.is_integer(column.type.value_type):
        detail = f"column {name!r} has type {column.type}"
        _reject(good, good.copy(), rejects, numbers, "tokens are no list of integers", detail)
        return pa.nulls(len(column), pa.string())
    missing = column.is_null().to_numpy(zero_copy_only=False)
    _reject(good, missing, rejects, numbers, "tokens are null", None)
    column = pc.fill_null(column.cast(pa.list_(pa.int64())), [])
    if column.flatten().null_count:
        values = [None in ids for ids in column.to_pylist()]
        holes = np.array(values, bool)
        _reject(good, holes, rejects, numbers, "a token is null", f"column {name!r}")
        column = pc.if_else(pa.array(holes), pa.scalar([], column.type), column)
    return spell(column)


def _conversations(
    named: dict[str, pa.Array],
    good: npt.NDArray[np.bool_],
    numbers: npt.NDArray[np.int64],
    chat: ChatFields,
    rejects: list[Reject],
) -> pa.StringArray:
    """Return the conversations as texts; a row without one is no longer good."""
    keys = [key for key in (chat.messages, chat.tools) if key in named]
    texts: list[str | None] = [None] * len(good)
    for place in np.flatnonzero(good).tolist():
        # A struct has every key of its type: null stands for a key that the record lacks.
        record = {key: _without_nulls(named[key][place].as_py()) for key in keys}
        try:
            texts[place] = chat.text(record)
        except RecordProblem as problem:
            rejects.append(Reject(int(numbers[place]), problem.reason, problem.detail))
            good[place] = False
    return pa.array(texts, pa.string())


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _storage(column: pa.Array) -> pa.Array:
    """Return a column in a type that Arrow's kernels know: extensions as what they store, no views."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    if pa.types.is_binary_view(column.type):
        return column.cast(pa.large_binary())
    return column


def _as_text(column: pa.Array) -> pa.Array | None:
    """Return a column of a string or binary type as strings, None for another type."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        wide = pa.types.is_large_binary(kind)
        return column.cast(pa.large_string() if wide else pa.string(), safe=False)
    return None


def _ids(
    column: pa.Array | None,
    good: npt.NDArray[np.bool_],
    numbers: npt.NDArray[np.int64],
    fields: Fields,
    rejects: list[Reject],
) -> pa.StringArray:
    """Return the ids of the good rows; a row without a usable one is no longer good."""
    if column is not None:
        strings = _as_text(column)
        column = column if strings is None else strings
        if strings is not None or pa.types.is_integer(column.type):
            ids = column.filter(pa.array(good)).cast(pa.string())
            if not ids.null_count and pc.all(pc.not_equal(ids, "")).as_py() is not False:
                return ids
    named = []
    for place in np.flatnonzero(good).tolist():
        number = int(numbers[place])
        try:
            value = None if column is None else column[place].as_py()
            named.append(fields.record_id(value, number))
        except RecordProblem as problem:
            rejects.append(Reject(number, problem.reason, problem.detail))
            good[place] = False
    return pa.array(named, pa.string())


def _not_unicode(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values hold strings that are not UTF-8, shape [len(column)]."""
    wrong = np.zeros(len(column), bool)
    strings = _as_text(column)
    column = column if strings is None else strings
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        for place in range(len(column)):
            try:
                column[place].as_py()
            except UnicodeDecodeError:
                wrong[place] = True
    return wrong


def _reject(
    good: npt.NDArray[np.bool_],
    wrong: npt.NDArray[np.bool_],
    rejects: list[Reject],
    numbers: npt.NDArray[np.int64],
    reason: str,
    detail: str | None,
) -> None:
    """Reject the rows that are good so far and have something wrong with them."""
    rejects += [Reject(int(number), reason, detail) for number in numbers[good & wrong]]
    good &= ~wrong


def _all_rejected(row: int, count: int, reason: str, detail: str) -> Iterator[Rows]:
    """Reject a run of rows, one by one; where a broken footer claims absurdly many, all as one."""
    if count > MAX_ROWS_PER_PART:
        yield _no_rows(0, [Reject(row + 1, reason, f"{count} rows, {detail}")])
        return
    for first in range(row, row + count, 1 << 16):
        last = min(first + (1 << 16), row + count)
        yield _no_rows(0, [Reject(number + 1, reason, detail) for number in range(first, last)])


def _no_rows(part: int, rejects: list[Reject]) -> Rows:
    nothing = pa.array([], pa.string())
    return Rows(part, nothing, nothing, nothing, np.empty(0, np.int64), {}, rejects)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


class _Parts:
    """Deals the rows of a task to parts by the bytes of text before them."""

    def __init__(self, first: int, step: int, part_bytes: int) -> None:
        self._first = first
        self._step = step
        self._part_bytes = part_bytes
        self._bytes = 0
        self._rows = 0

    def deal(self, rows: Rows) -> Iterator[Rows]:
        """Yield the rows with the numbers of their parts, split where a part ends."""
        sizes = pc.binary_length(rows.text).to_numpy(zero_copy_only=False).astype(np.int64)
        before = self._bytes + np.cumsum(sizes) - sizes
        count = self._rows + np.arange(len(sizes))
        # Both terms rise with the row, so that equal sums are runs of at most 2**24 rows.
        nth = before // self._part_bytes + count // MAX_ROWS_PER_PART
        self._bytes += int(sizes.sum())
        self._rows += len(sizes)
        starts = [0, *(np.flatnonzero(np.diff(nth)) + 1).tolist()]
        for place, (low, high) in enumerate(zip(starts, [*starts[1:], len(sizes)], strict=True)):
            number = int(nth[low]) if len(nth) else 0
            yield _slice(rows, low, high, self._first + self._step * number, first=place == 0)


def _slice(rows: Rows, low: int, high: int, part: int, *, first: bool) -> Rows:
    """Return some of the rows under the number of their part; the first slice takes the rejects."""
    return Rows(
        part=part,
        text=rows.text.slice(low, high - low),
        id=rows.id.slice(low, high - low),
        lang=rows.lang.slice(low, high - low),
        line=rows.line[low:high],
        columns={name: values[low:high] for name, values in rows.columns.items()},
        rejects=rows.rejects if first else [],
    )

"""One ``rows-*.parquet``: its row groups decoded into flat numpy columns, and checked.

Imports numpy, pyarrow and the standard library alone, so that it can be vendored with the reader.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from packing.format import ROW_SCHEMA, DatasetInfo, ShardError
from packing.rows import LossSpans, RowGroup, offsets_of

# What pyarrow raises on damaged bytes: its own errors, and Python's where a name or a count is odd.
_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    IndexError,
    OverflowError,
    MemoryError,
    pa.ArrowException,
)
_PIECE_COLUMNS = ("doc_uid", "doc_copy", "doc_offset", "next_token", "domain")


class ShardFile:
    """An open shard.

    Args:
        source: a path, or an open pyarrow file.
        name: name of the shard in messages.

    Raises:
        ShardError: it is no shard, or its footer is damaged.
    """

    def __init__(self, source: Any, name: str) -> None:
        self.name = name
        try:
            self._file = pq.ParquetFile(source, page_checksum_verification=True, pre_buffer=False)
        except _UNREADABLE as error:
            raise ShardError(
                f"{name}: cannot be opened as Parquet ({_brief(error)}); restore the file"
            ) from error
        metadata = self._file.metadata
        self.info = DatasetInfo.from_metadata(metadata.metadata, name)
        self.group_bounds = offsets_of(
            np.array([metadata.row_group(g).num_rows for g in range(metadata.num_row_groups)], int)
        )
        found = {field.name: field.type for field in self._file.schema_arrow}
        for field in ROW_SCHEMA:
            if found.get(field.name) != field.type:
                raise ShardError(
                    f"{name}: column {field.name} is {found.get(field.name, 'absent')}, expected "
                    f"{field.type}; restore the file"
                )

    @property
    def n_groups(self) -> int:
        """Number of row groups."""
        return len(self.group_bounds) - 1

    def read(self, group: int) -> RowGroup:
        """Decode one row group.

        Raises:
            ShardError: a page's checksum is wrong, or the columns contradict each other; the
                message names file, row group and column.
        """
        names = ROW_SCHEMA.names
        try:
            table = self._file.read_row_group(group, columns=names, use_threads=False)
        except _UNREADABLE as error:
            raise self._broken(group, self._culprit(group), _brief(error)) from error
        return self._columns(group, table)

    def read_columns(self, group: int, names: list[str]) -> pa.Table:
        """Read some columns of a row group as an Arrow table.

        Raises:
            ShardError: a page's checksum is wrong.
        """
        try:
            return self._file.read_row_group(group, columns=names, use_threads=False)
        except _UNREADABLE as error:
            raise self._broken(group, ", ".join(names), _brief(error)) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _broken(self, group: int, column: str, found: str) -> ShardError:
        return ShardError(
            f"{self.name}: row group {group}, column {column}: {found}; the file is damaged: "
            "restore it, or build the dataset again"
        )

    def _culprit(self, group: int) -> str:
        """Return the names of the columns that cannot be read alone."""
        bad = []
        for name in ROW_SCHEMA.names:
            try:
                self._file.read_row_group(group, columns=[name], use_threads=False)
            except _UNREADABLE:
                bad.append(name)
        return ", ".join(bad) or "unknown"

    def _columns(self, group: int, table: pa.Table) -> RowGroup:
        """Turn the Arrow columns into flat arrays, without copying the tokens."""
        n_rows = int(self.group_bounds[group + 1] - self.group_bounds[group])
        if len(table) != n_rows:
            raise self._broken(group, "row_id", f"{len(table)} rows, the footer says {n_rows}")
        n_tokens = _array(table, "n_tokens").to_numpy().astype(np.int64)
        ids, id_offsets = _list(table, "input_ids")
        self._expect(group, "input_ids", np.array_equal(np.diff(id_offsets), n_tokens))
        # One pass for both bounds: as uint32 a negative id is a large one.
        highest = int(ids.view(np.uint32).max(initial=0))
        if len(ids) and highest >= self.info.vocab_size:
            raise self._broken(
                group, "input_ids", f"an id outside the vocabulary of {self.info.vocab_size}"
            )
        starts, start_offsets = _list(table, "cu_seqlens")
        pieces = np.diff(start_offsets) - 1
        self._expect(group, "cu_seqlens", bool((pieces >= 0).all()))
        self._expect(group, "cu_seqlens", bool((starts[start_offsets[:-1]] == 0).all()))
        self._expect(group, "cu_seqlens", np.array_equal(starts[start_offsets[1:] - 1], n_tokens))
        inner = np.ones(max(len(starts) - 1, 0), np.bool_)
        inner[start_offsets[1:-1] - 1] = False
        length = np.diff(starts)[inner]
        self._expect(group, "cu_seqlens", bool((length > 0).all()))
        columns = {}
        for name in _PIECE_COLUMNS:
            columns[name], offsets = _list(table, name)
            self._expect(group, name, np.array_equal(np.diff(offsets), pieces))
        return RowGroup(
            row_id=_array(table, "row_id").to_numpy(),
            pieces_per_row=pieces.astype(np.int32),
            length=length,
            input_ids=ids,
            loss_spans=spans_of(_array(table, "loss_spans")),
            **columns,
        )

    def _expect(self, group: int, column: str, holds: bool) -> None:
        if not holds:
            raise self._broken(group, column, "does not agree with the other columns")


def spans_of(column: pa.ListArray) -> LossSpans | None:
    """Return a column of loss spans as flat arrays, or None where every one is null."""
    if column.null_count == len(column):
        return None
    offsets = column.offsets.to_numpy().astype(np.int64)
    values = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    return LossSpans(
        column.is_null().to_numpy(zero_copy_only=False),
        offsets - offsets[0],
        *(values.field(name).to_numpy() for name in ("start", "end", "weight")),
    )


def _array(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _list(table: pa.Table, name: str) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the values and offsets (from 0) of a list column without nulls."""
    column = _array(table, name)
    offsets = column.offsets.to_numpy().astype(np.int64)
    return column.values.to_numpy()[offsets[0] : offsets[-1]], offsets - offsets[0]


def _brief(error: Exception) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__

"""Reading and writing the narrow Parquet columns that stages exchange."""

import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.artifacts import FileEntry
from transforms.record import SHARD_BITS


def write_table(path: Path, table: pa.Table, *, kind: str = "data") -> FileEntry:
    """Write a small table atomically; the same table gives the same bytes."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    pq.write_table(
        table, temporary, compression="zstd", compression_level=1, row_group_size=1 << 20
    )
    temporary.replace(path)
    return FileEntry.of(path, rows=len(table), kind=kind)


def row_groups(path: Path, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    """Yield the row groups of a Parquet file, some columns of them (all for None)."""
    with pq.ParquetFile(path, memory_map=True) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(
                number, columns=None if columns is None else list(columns), use_threads=False
            )


def uid_partition(shard: npt.NDArray[np.int64], partitions: int) -> npt.NDArray[np.int64]:
    """Return the partitions of shards: ranges of equal width over the 39-bit shard numbers."""
    return shard * partitions >> SHARD_BITS


def partitions_for(rows: int, *, rows_each: int = 1 << 20) -> int:
    """Return how many partitions a global step over so many rows has; depends on nothing else."""
    return max(1, -(-rows // rows_each))


def split(
    table: pa.Table, number: npt.NDArray[np.int64], partitions: int
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the non-empty partitions of a table, rows in their order.

    Args:
        table: n rows.
        number: partition of each row, shape [n].
        partitions: how many there are.
    """
    if partitions == 1:
        if len(table):
            yield 0, table.combine_chunks()
        return
    order = np.argsort(number, kind="stable")
    bounds = np.searchsorted(number[order], np.arange(partitions + 1))
    table = table.take(pa.array(order))
    for p in range(partitions):
        if bounds[p] < bounds[p + 1]:
            yield p, table.slice(bounds[p], bounds[p + 1] - bounds[p]).combine_chunks()

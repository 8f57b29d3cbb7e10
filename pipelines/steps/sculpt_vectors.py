"""Vectors of documents: read from the files of stage ``embed``, and in scratch tables."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from packing.spherical import to_grid
from pipelines.corpus import Corpus
from pipelines.steps.columns import row_groups

Grid = npt.NDArray[np.int16]
Ints = npt.NDArray[np.int64]


def _vector_files(corpus: Corpus) -> Iterator[Path]:
    for entry in corpus.manifest("embed").entries():
        yield corpus.folder("embed") / entry.name


def sample_vectors(corpus: Corpus, uid: Ints, taken: Ints, width: int) -> tuple[Grid, Any]:
    """Read the vectors of some documents; also say which of all have a vector.

    Args:
        corpus: an embedded corpus.
        uid: addresses of all entries, ascending.
        taken: places of the wanted ones.
        width: width of the vectors.
    """
    known = np.zeros(len(uid), bool)
    found = np.zeros((len(taken), width), np.int16)
    place = np.full(len(uid), -1, np.int64)
    place[taken] = np.arange(len(taken))
    for path in _vector_files(corpus):
        with pq.ParquetFile(path, memory_map=True) as file:
            for number in range(file.num_row_groups):
                uids = file.read_row_group(number, columns=["doc_uid"], use_threads=False)
                at, entry = _entries_of(uids["doc_uid"].to_numpy(), uid)
                known[entry] = True
                wanted = place[entry] >= 0
                if wanted.any():
                    group = file.read_row_group(number, columns=["vector"], use_threads=False)
                    halves = fixed(group["vector"], "<f2")[at[wanted]]
                    found[place[entry[wanted]]] = to_grid(halves, uid[entry[wanted]], width)
    return found, known


def _entries_of(uids: Ints, all_uids: Ints) -> tuple[Ints, Ints]:
    """Return the entries of some documents: the place of each document, and of its entry."""
    low = np.searchsorted(all_uids, uids, side="left")
    count = np.searchsorted(all_uids, uids, side="right") - low
    at = np.repeat(np.arange(len(uids)), count)
    ends = np.cumsum(count)
    return at, low[at] + np.arange(len(at)) - (ends - count)[at]


def fixed(column: pa.ChunkedArray, kind: str) -> npt.NDArray[Any]:
    """Return fixed-size binary values as [n, width] of a kind; a single chunk is not copied."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    size = array.type.byte_width
    if not len(array):
        return np.empty((0, size // np.dtype(kind).itemsize), kind)
    values = np.frombuffer(array.buffers()[1], np.uint8)
    return values[array.offset * size :][: len(array) * size].view(kind).reshape(len(array), -1)


def binary(grid: Grid) -> pa.Array:
    """Return integers [n, width] as fixed-size binary values."""
    content = pa.py_buffer(np.ascontiguousarray(grid, "<i2"))
    kind = pa.binary(2 * grid.shape[1])
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(grid), [None, content])


def grids(path: Path, uid: Ints, width: int) -> Iterator[tuple[Grid, Ints]]:
    """Yield the rounded vectors of the entries of a file, and the places of these."""
    for group in row_groups(path, ("doc_uid", "vector")):
        uids = group["doc_uid"].to_numpy()
        at, entry = _entries_of(uids, uid)
        yield to_grid(fixed(group["vector"], "<f2"), uids, width)[at], entry

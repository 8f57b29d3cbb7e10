"""Megatron's token files: a document of the index, its sequences joined, is one record."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.formats.stream import CHUNK_BYTES, is_remote
from transforms.ingest import Rows
from transforms.record import MAX_ROWS_PER_PART, RecordError
from transforms.tokenize.given import spell

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MegatronFile:
    """An index with its data, checked against each other."""

    data: Path
    dtype: np.dtype[np.generic]
    lengths: Ints
    """Tokens of each sequence."""
    pointers: Ints
    """First byte of each sequence."""
    bounds: Ints
    """First sequence of each document, and the end of the last."""

    @property
    def tokens(self) -> Ints:
        """Tokens of each document."""
        before = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.lengths)])
        return np.diff(before[self.bounds]) if len(self.bounds) else np.empty(0, np.int64)


def data_path(index: str) -> Path:
    """Return where the tokens of an index lie.

    Raises:
        RecordError: the index is not on a local file system, or has another suffix than ``.idx``.
    """
    if is_remote(index):
        raise RecordError(f"{index}: Megatron's files are read from local folders; copy them")
    if not index.endswith(".idx"):
        raise RecordError(f"{index}: is no index of Megatron's; let path name the .idx files")
    return Path(index).with_suffix(".bin")


def open_megatron(index: str) -> MegatronFile:
    """Read an index and compare it with its data.

    Raises:
        RecordError: a file is absent, truncated or damaged, or offsets do not grow; it names the
            file, the document or sequence, what was found and what to do.
    """
    data = data_path(index)
    if not data.is_file():
        raise RecordError(f"{data}: is not there, and {index} points into it; restore it")
    # Loads kernels that no other source needs.
    from pipelines.audit.packed_tokens import megatron_index

    found = MegatronFile(data, *megatron_index(Path(index)))
    ends = found.pointers + found.lengths * found.dtype.itemsize
    fell = np.flatnonzero((np.diff(found.pointers) < 0) | (found.pointers[1:] < ends[:-1]))
    if len(fell):
        at = int(fell[0]) + 1
        raise RecordError(
            f"{index}: sequence {at} (document {_document(found, at)}) begins at byte "
            f"{found.pointers[at]}, before the end of the one before at {ends[at - 1]}; offsets must "
            "grow: write the files again"
        )
    size = data.stat().st_size
    if len(ends) and (ends[-1] > size or found.pointers[0] < 0):
        raise RecordError(
            f"{data}: has {size} bytes, but {index} points to byte {ends[-1]}; it is truncated or of "
            "another index: restore both"
        )
    return found


def _document(found: MegatronFile, sequence: int) -> int:
    return int(np.searchsorted(found.bounds, sequence, "right")) - 1


def document_runs(index: str, part_bytes: int) -> Iterator[tuple[int, int, int]]:
    """Yield runs of documents as (start, stop, bytes), as long as a part allows.

    Raises:
        RecordError: see :func:`open_megatron`.
    """
    # Spelled in decimal a token takes some six bytes.
    size = open_megatron(index).tokens * 6
    ends = np.cumsum(size)
    start = 0
    while start < len(size):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + part_bytes, "right")))
        stop = min(stop, start + MAX_ROWS_PER_PART)
        yield start, stop, int(ends[stop - 1]) - before
        start = stop


def read_megatron_documents(path: str, relative: str, start: int, stop: int) -> Iterator[Rows]:
    """Read the documents [start, stop) of an index; a document is named ``path#number`` from 1.

    Args:
        path: the index.
        relative: its path in the source.
        start: the first document; also the number of the part.
        stop: the document after the last.

    Raises:
        RecordError: see :func:`open_megatron`.
    """
    found = open_megatron(path)
    size = found.data.stat().st_size // found.dtype.itemsize * found.dtype.itemsize
    raw: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
    if size:
        raw = np.memmap(found.data, np.uint8, "r")
    most = CHUNK_BYTES // 6
    ends = np.cumsum(found.tokens[start:stop])
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + most, "right")))
        yield _rows(found, raw, relative, start + first, start + last, start)
        first = last


def _rows(
    found: MegatronFile, raw: npt.NDArray[np.uint8], relative: str, low: int, high: int, part: int
) -> Rows:
    """Return some documents, numbered from 0, as rows of a part."""
    sequences = range(int(found.bounds[low]), int(found.bounds[high]))
    width = found.dtype.itemsize
    runs = [
        raw[found.pointers[s] : found.pointers[s] + found.lengths[s] * width].view(found.dtype)
        for s in sequences
    ]
    values = np.concatenate([np.empty(0, np.int64), *runs]).astype(np.int64)
    counts = found.tokens[low:high]
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]).astype(np.int32)
    numbers = np.arange(low + 1, high + 1)
    return Rows(
        part=part,
        text=spell(pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))),
        id=pa.array([f"{relative}#{number}" for number in numbers.tolist()], pa.string()),
        lang=pa.nulls(high - low, pa.string()),
        line=numbers,
    )

"""Packing that is found in token files: Megatron's ``.bin`` and ``.idx``, folders of datasets."""

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.audit.packed import LONGEST, Ints, Packed, joined
from transforms.record import RecordError

_MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQQ")
_DTYPES = {
    1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16,
}  # fmt: skip
_CHUNK = 1 << 24
_LENGTHS = ("seq_lengths", "seq_lens")
_TOKENS = "input_ids"


class _Pieces:
    """Collects the pieces of rows whose tokens, positions or masks are looked through."""

    def __init__(self, eod: int | None) -> None:
        self.eod = eod
        self.rows = 0
        self.row: list[Ints] = []
        self.length: list[Ints] = []
        self.unfinished = 0

    def add(
        self,
        offsets: Ints,
        tokens: npt.NDArray[np.integer] | None,
        positions: npt.NDArray[np.integer] | None = None,
        mask: npt.NDArray[np.integer] | None = None,
    ) -> None:
        """Add rows, given as offsets into flat arrays of what is known of each token."""
        total = int(offsets[-1])
        starts = np.zeros(total + 1, dtype=bool)
        starts[offsets[:-1]] = True
        kept = np.ones(total, dtype=bool) if mask is None else mask > 0
        if positions is not None:
            starts[:total] |= positions == 0
        elif mask is not None and mask.max(initial=0) > 1:
            starts[1:total] |= mask[1:] != mask[:-1]
        if self.eod is not None and tokens is not None:
            end = tokens == self.eod
            if positions is None:
                starts[1:total] |= end[:-1]
            # Behind a document's end, ends alone are padding.
            padding = end[1:] & end[:-1] & ~np.isin(np.arange(1, total), offsets)
            kept[1:] &= ~padding
        starts = starts[:total]
        piece = np.cumsum(starts) - 1
        first = np.flatnonzero(starts)
        length = np.bincount(piece[kept], minlength=len(first)).astype(np.int64)
        row = self.rows + np.searchsorted(offsets, first, "right") - 1
        if self.eod is not None and tokens is not None:
            last = first + length - 1
            self.unfinished += int((tokens[last[length > 0]] != self.eod).sum())
        self.row.append(row[length > 0])
        self.length.append(length[length > 0])
        self.rows += len(offsets) - 1

    def add_lengths(self, offsets: Ints, length: Ints) -> None:
        """Add rows, given as offsets into the lengths of their pieces."""
        row = np.repeat(np.arange(self.rows, self.rows + len(offsets) - 1), np.diff(offsets))
        self.row.append(row[length > 0])
        self.length.append(length[length > 0])
        self.rows += len(offsets) - 1

    def packed(self, found: str, path: Path) -> Packed:
        """Return what was collected; every piece is a document."""
        length = np.concatenate([np.empty(0, dtype=np.int64), *self.length])
        if not len(length):
            raise RecordError(f"{path}: holds no token")
        row = np.unique(np.concatenate(self.row), return_inverse=True)[1].reshape(-1)
        known = self.eod is not None
        return Packed(
            row.astype(np.int64), length, np.arange(len(length)),
            self.unfinished if known else None, found, cuts_known=known,
        )  # fmt: skip


def read_megatron(prefix: Path, seq_len: int | None, eod: int | None) -> Packed:
    """Read an IndexedDataset (version 1), its tokens only where ``eod`` is given.

    Args:
        prefix: path without ``.bin`` and ``.idx``.
        seq_len: documents are joined in their order and cut, as Megatron does.
        eod: the token that ends a document: each sequence is then a row that was packed already.

    Raises:
        RecordError: files that are absent, truncated or do not agree; no ``seq_len``.
    """
    if prefix.suffix in (".bin", ".idx"):
        prefix = prefix.with_suffix("")
    index, data = (prefix.with_name(prefix.name + suffix) for suffix in (".idx", ".bin"))
    for path in (index, data):
        if not path.is_file():
            raise RecordError(f"{path}: is not there; give the path without .bin and .idx")
    dtype, lengths, pointers, documents = megatron_index(index)
    ends = pointers + lengths * dtype.itemsize
    size = data.stat().st_size
    if len(ends) and (int(ends.max()) > size or pointers.min() < 0):
        raise RecordError(
            f"{data}: has {size} bytes, but {index.name} points to byte {int(ends.max())}; it is "
            "truncated or of another index"
        )
    if eod is None:
        if seq_len is None:
            raise RecordError(
                f"{index}: gives documents, not rows; give --seq-len, or --eod where each sequence "
                "is a packed row"
            )
        before = np.concatenate([[0], np.cumsum(lengths)])
        of_document = np.diff(before[documents])
        found = "documents joined in their order and cut, as Megatron's GPTDataset does"
        if not (of_document > 0).any():
            raise RecordError(f"{index}: holds no token")
        return joined(of_document[of_document > 0], seq_len, found)
    pieces = _Pieces(eod)
    tokens = np.memmap(data, dtype=dtype, mode="r") if size else np.empty(0, dtype=dtype)
    for first, last in _spans(lengths):
        parts = [
            tokens[p : p + n]
            for p, n in zip(
                pointers[first:last] // dtype.itemsize, lengths[first:last], strict=True
            )
        ]
        offsets = np.concatenate([[0], np.cumsum(lengths[first:last])])
        pieces.add(offsets, np.concatenate(parts))
    return pieces.packed(f"sequences are rows, token {eod} ends a document", data)


def megatron_index(path: Path) -> tuple[np.dtype, Ints, Ints, Ints]:
    """Return type of a token, lengths and first bytes of sequences, bounds of documents.

    Raises:
        RecordError: it is no index, truncated, or its bounds do not grow.
    """
    content = path.read_bytes()
    if len(content) < _HEADER.size or not content.startswith(_MAGIC):
        raise RecordError(f"{path}: does not begin with MMIDIDX; it is no index of Megatron's")
    _, version, code, sequences, documents = _HEADER.unpack_from(content)
    if version != 1 or code not in _DTYPES:
        raise RecordError(
            f"{path}: has version {version} and token type {code}; version 1 with integer tokens "
            "(1 to 5 or 8) is read"
        )
    wanted = _HEADER.size + sequences * 12 + documents * 8
    if len(content) < wanted:
        raise RecordError(
            f"{path}: has {len(content)} bytes, and {sequences} sequences and {documents} document "
            f"bounds take {wanted}; it is truncated"
        )
    at = _HEADER.size
    lengths = np.frombuffer(content, "<i4", sequences, at).astype(np.int64)
    pointers = np.frombuffer(content, "<i8", sequences, at + sequences * 4)
    bounds = np.frombuffer(content, "<i8", documents, at + sequences * 12)
    if len(lengths) and lengths.min() < 0:
        raise RecordError(
            f"{path}: sequence {lengths.argmin()} has the length {lengths.min()}; the index is damaged"
        )
    fell = np.flatnonzero(np.diff(bounds) < 0)
    if len(fell):
        at_bound = int(fell[0]) + 1
        raise RecordError(
            f"{path}: document {at_bound} begins at sequence {bounds[at_bound]}, before document "
            f"{at_bound - 1} at {bounds[at_bound - 1]}; bounds must grow"
        )
    if len(bounds) and (bounds[0] != 0 or bounds[-1] != sequences):
        raise RecordError(
            f"{path}: documents go from sequence {bounds[0]} to {bounds[-1]}, and there are "
            f"{sequences} sequences; the index is damaged"
        )
    return np.dtype(_DTYPES[code]), lengths, pointers.astype(np.int64), bounds.astype(np.int64)


def _spans(lengths: Ints) -> Iterator[tuple[int, int]]:
    """Return runs of sequences of some 16M tokens."""
    ends = np.cumsum(lengths)
    first = 0
    while first < len(lengths):
        before = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _CHUNK, "right")))
        yield first, last
        first = last


def read_folder(folder: Path, eod: int | None) -> Packed:
    """Read a tokenized dataset: Arrow files as ``save_to_disk`` writes them, or Parquet.

    What is in a row is told by the first that is there: ``seq_lengths`` (or ``seq_lens``),
    ``position_ids`` that restart, an ``attention_mask`` that numbers its documents, ``eod``;
    otherwise a row is one document. Zeros of an attention mask are padding.

    Raises:
        RecordError: no such files, columns or types, or columns that do not agree.
    """
    files = sorted(p for p in folder.rglob("*") if p.suffix in (".arrow", ".parquet"))
    if folder.is_file() and folder.suffix in (".arrow", ".parquet"):
        files = [folder]
    if not files:
        raise RecordError(f"{folder}: has no .arrow or .parquet file; give a dataset's folder")
    pieces, found = _Pieces(eod), ""
    for path in files:
        for batch in _batches(path):
            found = _add_batch(pieces, batch, path)
    return pieces.packed(found or "no rows", folder)


def _batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Read a file's batches, of the columns that tell documents apart."""
    wanted = {_TOKENS, *_LENGTHS, "position_ids", "attention_mask"}
    try:
        if path.suffix == ".parquet":
            parquet = pq.ParquetFile(path)
            names = [n for n in parquet.schema_arrow.names if n in wanted]
            yield from parquet.iter_batches(batch_size=1024, columns=names)
        else:
            with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as stream:
                for batch in stream:
                    yield batch.select([n for n in batch.schema.names if n in wanted])
    except pa.ArrowException as error:
        raise RecordError(f"{path}: cannot be read: {error}") from None


def _add_batch(pieces: _Pieces, batch: pa.RecordBatch, path: Path) -> str:
    """Add a batch's rows, and return how their documents were told apart."""
    names = set(batch.schema.names)
    by_length = next((n for n in _LENGTHS if n in names), None)
    if _TOKENS not in names and by_length is None:
        raise RecordError(
            f"{path}: has no column {_TOKENS}, but {', '.join(sorted(names)) or 'none that is read'}"
        )
    if by_length is not None and pieces.eod is None:
        offsets, lengths = _flat(batch, by_length, path)
        pieces.add_lengths(offsets, lengths.astype(np.int64))
        return f"column {by_length}"
    offsets, tokens = _flat(batch, _TOKENS, path)
    given: dict[str, tuple[Ints, npt.NDArray[np.integer]]] = {}
    for name in ("position_ids", "attention_mask"):
        if name in names and batch[name].null_count < len(batch):
            given[name] = _flat(batch, name, path)
            if not np.array_equal(given[name][0], offsets):
                row = int(np.flatnonzero(given[name][0] != offsets)[0]) - 1
                raise RecordError(
                    f"{path}: row {row} has other numbers of {_TOKENS} and {name}; every token has one"
                )
    if by_length is not None:
        bounds, lengths = _flat(batch, by_length, path)
        given["position_ids"] = offsets, _restarts(offsets, bounds, lengths.astype(np.int64), path)
    positions, mask = (
        given[n][1] if n in given else None for n in ("position_ids", "attention_mask")
    )
    pieces.add(offsets, tokens, positions, mask)
    if by_length is not None:
        return f"column {by_length}, token {pieces.eod} ends a document"
    if positions is not None:
        return "position_ids that restart"
    if mask is not None and mask.max(initial=0) > 1:
        return "numbers in attention_mask"
    return (
        f"token {pieces.eod} ends a document" if pieces.eod is not None else "a row is a document"
    )


def _restarts(offsets: Ints, bounds: Ints, lengths: Ints, path: Path) -> Ints:
    """Return 0 for the first token of each piece, 1 for others."""
    before = np.concatenate([[0], np.cumsum(lengths)])
    filled = before[bounds[1:]] - before[bounds[:-1]]
    over = np.flatnonzero(filled > np.diff(offsets))
    if len(over):
        row = int(over[0])
        raise RecordError(
            f"{path}: the pieces of row {row} have {filled[row]} tokens, and {_TOKENS} "
            f"{offsets[row + 1] - offsets[row]}"
        )
    restarts = np.ones(int(offsets[-1]), dtype=np.int64)
    start = np.repeat(offsets[:-1] - before[bounds[:-1]], np.diff(bounds)) + before[:-1]
    restarts[start[lengths > 0]] = 0
    return restarts


def _flat(batch: pa.RecordBatch, name: str, path: Path) -> tuple[Ints, npt.NDArray[np.integer]]:
    """Return offsets from 0 and values of a list column."""
    column = batch[name]
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)) or not (
        pa.types.is_integer(column.type.value_type) or pa.types.is_boolean(column.type.value_type)
    ):
        raise RecordError(f"{path}: column {name} is {column.type}; a list of integers is read")
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    values = column.flatten()
    if values.null_count:
        raise RecordError(
            f"{path}: column {name} has {values.null_count} empty values in its lists"
        )
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.int8())
    if len(lengths) and lengths.max() > LONGEST:
        raise RecordError(f"{path}: column {name} has a row of {lengths.max()} values")
    return np.concatenate([[0], np.cumsum(lengths)]), values.to_numpy(zero_copy_only=False)

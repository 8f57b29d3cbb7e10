"""How somebody else packed documents into rows, from lengths, Megatron's files or a tokenized folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet as pq

from packing.fit import PackSettings, fit_rows
from transforms.record import RecordError

Ints = npt.NDArray[np.int64]
LONGEST = (1 << 31) - 1
_JSON_LINES = tuple(f".{kind}{end}" for kind in ("jsonl", "ndjson") for end in ("", ".gz", ".zst"))
_LENGTH_NAMES = ("length", "n_tokens", "num_tokens", "tokens", "token_len")


@dataclass(frozen=True, slots=True)
class Packed:
    """Parts of documents in rows, in the order in which rows are trained."""

    row: Ints
    """Row of each piece, int64[m], from 0 without holes; -1 for what is in no row."""
    length: Ints
    """Tokens of the piece, int64[m], at least 1."""
    document: Ints
    """Its document, int64[m], from 0 without holes."""
    unfinished: int | None
    """Pieces that stop before their document ends, where only that is known; None where the pieces
    of a document are known as such, so that its parts can be counted."""
    found: str
    """How rows and documents were told apart, for people."""
    cuts_known: bool = True
    """Whether it can be known which documents were cut."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.row.max()) + 1 if len(self.row) else 0

    def document_tokens(self) -> Ints:
        """Return the tokens of each document, int64[documents]."""
        return np.bincount(self.document, self.length).astype(np.int64)


def joined(lengths: Ints, seq_len: int, found: str) -> Packed:
    """Return documents joined in their order and cut every ``seq_len`` tokens."""
    order = np.arange(len(lengths), dtype=np.uint64)
    settings = PackSettings(seq_len=seq_len, strategy="concat")
    pieces = fit_rows(lengths.astype(np.int32), order, settings)
    return Packed(pieces.row, pieces.length.astype(np.int64), pieces.document, None, found)


def read_lengths(path: Path, columns: Sequence[str | None], seq_len: int | None) -> Packed:
    """Read lengths of documents, or of their pieces with the rows that hold them.

    Args:
        path: ``.npy`` (one array), ``.txt`` (lines of length, row, document; the latter two may be
            absent), ``.parquet`` or JSON lines.
        columns: names of the columns of length, row and document; None: the usual ones, where they
            are there.
        seq_len: where no rows are given documents are joined in their order and cut.

    Raises:
        RecordError: a file that cannot be read, values that are no lengths or rows, no ``seq_len``.
    """
    if path.suffix == ".npy":
        length, row, document = _array(path), None, None
    elif path.suffix in (".txt", ".csv", ".tsv"):
        length, row, document = _text(path)
    else:
        table = _table(path)
        length, row, document = _columns(table, columns, path)
    _check(length, path)
    if row is None:
        if seq_len is None:
            raise RecordError(f"{path}: has no rows, only lengths; give --seq-len")
        found = "documents joined in the file's order and cut, since no rows are given"
        return joined(length, seq_len, found)
    known = np.unique(row[row >= 0])
    row = np.where(row >= 0, np.searchsorted(known, row), -1)
    if document is None:
        document, found = np.arange(len(row)), "rows of the file; every line is a document"
    else:
        document = np.unique(document, return_inverse=True)[1].reshape(-1)
        found = "rows and documents of the file"
    order = np.argsort(row, kind="stable")
    return Packed(row[order], length[order], document[order].astype(np.int64), None, found)


def _array(path: Path) -> Ints:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise RecordError(
            f"{path}: is no array of numpy ({error}); save one with numpy.save"
        ) from None
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise RecordError(
            f"{path}: holds {array.dtype}{list(array.shape)}; save one length a document, int[n]"
        )
    return np.asarray(array, dtype=np.int64)


def _text(path: Path) -> tuple[Ints, Ints | None, Ints | None]:
    rows: list[list[int]] = []
    try:
        text = path.read_text()
    except UnicodeDecodeError as error:
        raise RecordError(f"{path}: is no text ({error})") from None
    for number, line in enumerate(text.splitlines(), 1):
        fields = line.replace(",", " ").split()
        try:
            values = [int(field) for field in fields]
        except ValueError:
            if not rows:
                continue  # a header
            raise RecordError(
                f"{path}:{number}: {line.strip()[:60]!r} is no length; write one number a line, "
                "then row and document where they are known"
            ) from None
        if not values:
            continue
        if len(values) > 3 or (rows and len(values) != len(rows[0])):
            raise RecordError(
                f"{path}:{number}: {len(values)} numbers; write length, row and document, and as "
                "many in every line"
            )
        rows.append(values)
    if not rows:
        raise RecordError(f"{path}: holds no lengths")
    table = np.array(rows, dtype=np.int64).T
    return table[0], table[1] if len(table) > 1 else None, table[2] if len(table) > 2 else None


def _table(path: Path) -> pa.Table:
    """Read Parquet or JSON lines."""
    name = path.name
    try:
        if name.endswith(".parquet"):
            return pq.read_table(path)
        if name.endswith(_JSON_LINES):
            with pa.input_stream(str(path), compression="detect") as stream:
                return pyarrow.json.read_json(stream)
    except pa.ArrowException as error:
        raise RecordError(f"{path}: cannot be read: {error}") from None
    raise RecordError(
        f"{path}: is neither .npy, .txt, .parquet nor .jsonl (also .gz, .zst); lengths are read from these"
    )


def _columns(
    table: pa.Table, columns: Sequence[str | None], path: Path
) -> tuple[Ints, Ints | None, Ints | None]:
    """Return the columns of length, row and document."""
    usual = (_LENGTH_NAMES, ("row", "row_id"), ("document", "doc_uid", "doc_id"))
    found: list[Ints | None] = []
    for what, given, names in zip(("length", "row", "document"), columns, usual, strict=True):
        name = given or next((n for n in names if n in table.column_names), None)
        if name is None and what != "length":
            found.append(None)
            continue
        if name not in table.column_names:
            raise RecordError(
                f"{path}: has no column {name or ' or '.join(names)!r} of {what}s, but "
                f"{', '.join(table.column_names)}; give --{what}-column"
            )
        found.append(_integers(table[name], what, str(name), path))
    length, row, document = found
    return (length if length is not None else np.empty(0, dtype=np.int64)), row, document


def _integers(column: pa.ChunkedArray, what: str, name: str, path: Path) -> Ints:
    """Return a column as numbers: lists count as their lengths, names of documents are numbered."""
    kind = column.type
    if what == "document" and not pa.types.is_integer(kind):
        codes = column.combine_chunks().dictionary_encode().indices
        return np.asarray(codes.to_numpy(), dtype=np.int64)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        column = pc.list_value_length(column)
    elif not pa.types.is_integer(kind):
        raise RecordError(f"{path}: column {name!r} is {kind}; {what}s are integers")
    if what == "row":
        column = pc.fill_null(column.cast(pa.int64()), -1)
    if column.null_count:
        raise RecordError(f"{path}: column {name!r} has {column.null_count} empty {what}s")
    return np.asarray(column.cast(pa.int64()).to_numpy())


def _check(length: Ints, path: Path) -> None:
    """Refuse what is no length."""
    wrong = np.flatnonzero((length < 1) | (length > LONGEST))
    if len(wrong):
        raise RecordError(
            f"{path}: document {wrong[0]} (from 0) has the length {length[wrong[0]]} ({len(wrong)} "
            f"such); lengths are 1 to {LONGEST}: leave out empty documents"
        )
    if not len(length):
        raise RecordError(f"{path}: holds no lengths")

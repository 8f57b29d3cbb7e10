"""Documents of files that are audited: any format the sources know, read as a run would."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.formats.documents import read_documents
from pipelines.formats.fields import Fields
from pipelines.formats.find import find_files
from pipelines.formats.jsonl import read_compressed, read_range
from pipelines.formats.parquet import read_row_groups, row_group_sizes
from pipelines.sources import SourceFile, SourceSettings, list_files
from transforms.exact import text_hashes
from transforms.ingest import Rows
from transforms.record import RecordError
from transforms.text import IngestSettings, normalize

_TABLES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson", ".ndjson.gz", ".ndjson.zst", ".parquet")
_TEXTS = (".txt", ".txt.gz", ".txt.zst", ".md", ".md.gz", ".md.zst")
_PART_BYTES = 64 << 20
_INGEST = IngestSettings()

Hashes128 = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Where a record has what."""

    text: str = "text"
    id: str = "id"


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive documents of one file."""

    file: int
    """Number of the file."""
    row: int
    """Number of the first document within the file, from 0; unreadable records do not count."""
    texts: pa.StringArray
    """As a run ingests them by default: NFC, LF, no control characters."""
    ids: pa.StringArray
    """Empty where a record has none."""
    lines: npt.NDArray[np.int64]
    """Place of each record in its file, from 1."""


@dataclass(slots=True)
class Unreadable:
    """Records that are no documents."""

    reasons: Counter[str] = field(default_factory=Counter)
    first: str | None = None
    """What the first one is, for messages."""

    @property
    def count(self) -> int:
        """How many there are."""
        return self.reasons.total()


class AuditedFiles:
    """Some files, folders or globs.

    Args:
        option: the command line option that names them, for messages.
        given: files, folders or globs. Of a folder its JSON lines and Parquet files at any depth
            are read; where there are none, its text files.
        columns: where a record has what.

    Raises:
        RecordError: there is no such file, or one of an unknown format.
    """

    def __init__(self, option: str, given: Sequence[str], columns: Columns) -> None:
        self.option = option
        self.columns = columns
        self.files = _list(option, given, columns)
        self.unreadable = Unreadable()

    def blocks(self, only: npt.NDArray[np.int64] | None = None) -> Iterator[Block]:
        """Yield all documents, some MiB at a time, in the order of the files.

        Args:
            only: numbers of files, None for all; unreadable records are counted for all alone.
        """
        for number, file in enumerate(self.files):
            if only is not None and number not in only:
                continue
            row = 0
            for rows in _read(file, number, self.columns):
                if only is None:
                    self._count(file, rows)
                if len(rows):
                    texts, _ = normalize(rows.text, _INGEST)
                    yield Block(number, row, texts, rows.id, rows.line)
                    row += len(rows)

    def _count(self, file: SourceFile, rows: Rows) -> None:
        for reject in rows.rejects:
            self.unreadable.reasons[reject.reason] += 1
            if self.unreadable.first is None:
                where = "" if reject.line is None else f" line {reject.line}"
                detail = f": {reject.detail}" if reject.detail else ""
                self.unreadable.first = (
                    f"{reject.path or file.path}{where}: {reject.reason}{detail}"
                )


@dataclass(frozen=True, slots=True)
class Identities:
    """What tells documents apart, without their text."""

    ids: Hashes128
    """128 bits of each id, shape [documents, 2]."""
    has_id: npt.NDArray[np.bool_]
    texts: Hashes128
    """128 bits of each text, shape [documents, 2]."""

    def __len__(self) -> int:
        return len(self.has_id)


class IdentityList:
    """Identities, block by block."""

    def __init__(self) -> None:
        self._ids: list[Hashes128] = []
        self._has_id: list[npt.NDArray[np.bool_]] = []
        self._texts: list[Hashes128] = []

    def add(self, block: Block) -> Hashes128:
        """Take the documents of a block; return the hashes of their texts."""
        texts = _words(text_hashes(block.texts))
        self._texts.append(texts)
        self._ids.append(_words(text_hashes(block.ids)))
        lengths = block.ids.to_numpy(zero_copy_only=False) != ""
        self._has_id.append(lengths.astype(bool))
        return texts

    def finish(self) -> Identities:
        """Return those of all blocks."""
        nothing = np.empty((0, 2), np.uint64)
        return Identities(
            np.concatenate([nothing, *self._ids]),
            np.concatenate([np.empty(0, bool), *self._has_id]),
            np.concatenate([nothing, *self._texts]),
        )


def identities(files: AuditedFiles) -> Identities:
    """Return the identities of all documents of some files."""
    found = IdentityList()
    for block in files.blocks():
        found.add(block)
    return found.finish()


def refuse_unreadable(files: AuditedFiles, documents: int) -> None:
    """Check that some records could be read.

    Raises:
        RecordError: there is no document.
    """
    if documents:
        return
    if files.unreadable.first is None:
        raise RecordError(f"{files.option}: {len(files.files)} files without a record")
    raise RecordError(
        f"{files.option}: none of {files.unreadable.count} records can be read "
        f"({files.unreadable.first}); name their columns by --text and --id"
    )


class _OptionalId(Fields):
    """Fields of records that may have no id: it is empty then."""

    def record_id(self, value: Any, number: int) -> str:
        if value is None or value == "":
            return ""
        return super().record_id(value, number)


def _words(hashes: pa.FixedSizeBinaryArray) -> Hashes128:
    return np.frombuffer(hashes.buffers()[1], np.uint64).reshape(-1, 2)


def _list(option: str, given: Sequence[str], columns: Columns) -> list[SourceFile]:
    found: dict[str, SourceFile] = {}
    for path in given:
        for pattern in _patterns(option, path):
            settings = SourceSettings(name=option, path=pattern, text=columns.text)
            found |= {file.path: file for file in list_files(settings)}
    return list(found.values())


def _patterns(option: str, path: str) -> list[str]:
    """Return the globs of what is read for a path."""
    if not Path(path).is_dir():
        return [path]
    for endings in (_TABLES, _TEXTS):
        patterns = [f"{path.rstrip('/')}/**/*{ending}" for ending in endings]
        found = [pattern for pattern in patterns if find_files(pattern)]
        if found:
            return found
    raise RecordError(
        f"{option}: {path} holds no file that can be read ({', '.join(_TABLES + _TEXTS)}); "
        "name files or another folder"
    )


def _read(file: SourceFile, number: int, columns: Columns) -> Iterator[Rows]:
    """Read a file by the reader of its format."""
    fields = _OptionalId(file.relative, columns.text, columns.id, "", {})
    if file.format == "parquet":
        groups = row_group_sizes(file.path) or []
        return read_row_groups(
            file.path, 0, len(groups), rows_before=0, part_bytes=_PART_BYTES, fields=fields
        )
    if file.format in ("txt", "md"):
        return read_documents([(file.path, file.relative, number)], file.compression)
    if file.compression:
        return read_compressed(file.path, file.compression, part_bytes=_PART_BYTES, fields=fields)
    return read_range(file.path, 0, file.size, line_feeds=0, part_bytes=_PART_BYTES, fields=fields)

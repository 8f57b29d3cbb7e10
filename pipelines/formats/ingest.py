"""The work of one ingest task: a part of a source becomes shards of documents and rejects."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.artifacts import FileEntry
from pipelines.formats.documents import read_documents
from pipelines.formats.fields import Fields
from pipelines.formats.jsonl import read_compressed, read_range
from pipelines.formats.megatron import read_megatron_documents
from pipelines.formats.parquet import read_row_groups
from pipelines.formats.writer import RejectWriter, ShardWriter
from pipelines.parts import MANY, SourcePart
from pipelines.sources import SourceSettings
from transforms.ingest import Documents, Reject, Rows, make_documents
from transforms.record import doc_uids, shard_number
from transforms.text import IngestSettings


@dataclass(frozen=True, slots=True)
class PartResult:
    """What a task left."""

    files: list[FileEntry]
    """Kind ``data`` (documents, one file a part) and ``rejects`` (at most one)."""
    counters: dict[str, int]
    """lines, ingested, rejected, dropped_min_chars, chars and bytes (of the text ingested)."""
    found: dict[str, int] = field(default_factory=dict)
    """How many documents have a value in ``lang`` and in each of the source's own columns."""


def ingest_part(
    part: SourcePart, source: SourceSettings, ingest: IngestSettings, folder: Path, task: str
) -> PartResult:
    """Ingest one part; reading what another task of the same fingerprint reads gives the same bytes.

    Memory is the part's text (``part_size_mib``), or a few times its longest line.

    Args:
        part: what to read.
        source: the source's settings.
        ingest: normalization and limits.
        folder: where the files go.
        task: what the files are named by beside their shard; the first digits of the task's
            fingerprint.

    Raises:
        RecordError: the file is no longer the one that was listed.
        OSError: the file cannot be read any more.
    """
    part.check_unchanged()
    path = part.files[0].relative
    first = shard_number(part.source, path, part.part)
    run = _Run(part, source, ingest, folder, task)
    with RejectWriter(folder / f"rejects-{first:010x}-{task}.parquet", part.source) as rejects:
        for rows in _read(part, source, ingest):
            documents = run.take(rows)
            rejects.add(rows.rejects, path)
            rejects.add(documents.rejects, path)
        run.finish_shard()
        counted = rejects.count
        last = rejects.finish()
    counters = {"lines": run.counters["ingested"] + counted, "rejected": counted, **run.counters}
    return PartResult([*run.files, *([last] if last else [])], counters, run.found)


class _Run:
    """Documents of a task on their way into the shards of its parts."""

    def __init__(
        self,
        part: SourcePart,
        source: SourceSettings,
        ingest: IngestSettings,
        folder: Path,
        task: str,
    ) -> None:
        self._part = part
        self._source = source
        self._ingest = ingest
        self._folder = folder
        self._task = task
        self._number: int | None = None
        self._rows = 0
        self._writer = ShardWriter()
        self.files: list[FileEntry] = []
        self.counters = {"ingested": 0, "dropped_min_chars": 0, "chars": 0, "bytes": 0}
        self.found = dict.fromkeys(("lang", *source.columns), 0)

    def take(self, rows: Rows) -> Documents:
        """Turn rows into documents of their part's shard; begin another shard for another part."""
        if len(rows) and rows.part != self._number:
            self.finish_shard()
            self._number = rows.part
        uids = rows.uid
        if uids is None:
            shard = shard_number(self._part.source, self._part.files[0].relative, rows.part)
            uids = doc_uids(shard, self._rows + len(rows))[self._rows :]
        self._rows += len(rows)
        documents = make_documents(
            rows,
            uids,
            source=self._part.source,
            domain=self._source.domain_name,
            path=self._part.files[0].relative,
            settings=self._ingest,
        )
        self._count(documents)
        self._writer.add(documents)
        return documents

    def finish_shard(self) -> None:
        """Write the shard of the part that is complete."""
        if self._number is not None:
            shard = shard_number(self._part.source, self._part.files[0].relative, self._number)
            many = len(self._part.files) > 1
            ending = MANY if self._part.one_document_files and many else ".parquet"
            entry = self._writer.write(self._folder / f"{shard:010x}-{self._task}{ending}")
            if entry:
                self.files.append(entry)
        self._number, self._rows = None, 0

    def _count(self, documents: Documents) -> None:
        table = documents.table
        self.counters["ingested"] += len(table)
        self.counters["dropped_min_chars"] += len(table) - table["reason"].null_count
        self.counters["chars"] += int(np.sum(table["n_chars"].to_numpy()))
        self.counters["bytes"] += int(np.sum(table["n_bytes"].to_numpy()))
        self.found["lang"] += len(table) - table["lang"].null_count
        for name, values in documents.columns.items():
            nulls = values.null_count if isinstance(values, pa.Array) else values.count(None)
            self.found[name] += len(table) - nulls


def _read(part: SourcePart, source: SourceSettings, ingest: IngestSettings) -> Iterator[Rows]:
    """Read a part by the reader of its format."""
    file = part.files[0]
    fields = Fields.of(source, file.relative, ingest)
    if file.sha256 is None:
        nothing = pa.array([], pa.string())
        problem = Reject(None, "unreadable file", file.problem)
        return iter(
            [Rows(part.part, nothing, nothing, nothing, np.empty(0, np.int64), {}, [problem])]
        )
    if part.format == "parquet":
        return read_row_groups(
            file.path,
            part.start,
            part.stop,
            rows_before=part.before,
            part_bytes=part.part_bytes,
            fields=fields,
        )
    if part.format == "megatron":
        return read_megatron_documents(file.path, file.relative, part.start, part.stop)
    if part.format in ("txt", "md"):
        return read_documents(part.addresses(), part.compression)
    if part.compression:
        return read_compressed(
            file.path, part.compression, part_bytes=part.part_bytes, fields=fields
        )
    return read_range(
        file.path,
        part.start,
        part.stop,
        line_feeds=part.before,
        part_bytes=part.part_bytes,
        fields=fields,
    )

"""Documents in and out of somebody else's pipeline: rows of any Beam source, and rows again."""

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import orjson
import pyarrow as pa

from pipelines.artifacts import Receipt, fingerprint, link_or_copy
from pipelines.barrier import Barrier
from pipelines.corpus import Corpus
from pipelines.failures import failures_recorded
from pipelines.formats.writer import RejectWriter, ShardWriter
from pipelines.runners import keep_elements_whole
from pipelines.steps.columns import row_groups, write_table
from pipelines.steps.removed import id_overlay, kept_rows, removed_by_file
from pipelines.steps.stage import Stage, settings_json
from pipelines.tasks import Result
from transforms.columns import narrow
from transforms.ids import ID_SCHEMA, apply_ids, resolve_repeated_ids
from transforms.ingest import Reject, Rows, make_documents
from transforms.record import doc_uids, shard_number
from transforms.text import IngestSettings

Row = Mapping[str, Any]


class IngestDocuments(beam.PTransform):
    """Take documents from any Beam source: rows in, Corpus out.

    Rows are mappings with ``text`` and ``id`` (strings), if they like ``lang``, and any further
    columns. They are dealt to a set number of shards by the hash of their id and sorted there, so
    that the corpus is the same for any order, bundling and number of workers.

    Args:
        workdir: folder that every worker can reach.
        source: name of the source.
        domain: mixture domain; the source's name by default.
        shards: how many shards the documents are dealt to; part of every document's address.
        settings: normalization and limits.
    """

    def __init__(
        self,
        workdir: str,
        *,
        source: str = "documents",
        domain: str | None = None,
        shards: int = 16,
        settings: IngestSettings | None = None,
    ) -> None:
        super().__init__(f"ingest {source}")
        self._corpus = Corpus(str(Path(workdir).absolute()))
        self._work = _Documents(source, domain or source, shards, settings or IngestSettings())

    def expand(self, rows: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        keep_elements_whole()
        corpora = rows.pipeline | "Corpus" >> beam.Create([self._corpus], reshuffle=False)
        shards = (
            rows
            | "By id" >> beam.Map(self._work.keyed).with_output_types(tuple[int, bytes])
            | "Shards" >> beam.GroupByKey()
            | "Write" >> beam.ParDo(_WriteShard(self._work, self._corpus))
        )
        return (corpora, (shards,)) | "Commit" >> Barrier(self._work.commit)


class _Documents:
    """What a worker needs to know to ingest rows."""

    def __init__(self, source: str, domain: str, shards: int, settings: IngestSettings) -> None:
        self.source = source
        self.domain = domain
        self.shards = shards
        self.settings = settings

    def keyed(self, row: Row) -> tuple[int, bytes]:
        """Return the row's shard and the row as JSON."""
        name = str(row.get("id", "")).encode("utf-8", "surrogatepass")
        number = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "big")
        return number % self.shards, orjson.dumps(dict(row), option=orjson.OPT_SORT_KEYS)

    def write(self, corpus: Corpus, part: int, encoded: Iterable[bytes]) -> Result:
        """Write one shard into the scratch folder."""
        scratch = corpus.store.scratch / uuid.uuid4().hex
        scratch.mkdir(parents=True)
        rows, rejects = self._parse(encoded)
        shard = shard_number(self.source, "", part)
        uids = doc_uids(shard, len(rows))
        documents = make_documents(
            rows, uids, source=self.source, domain=self.domain, path="", settings=self.settings
        )
        writer = ShardWriter()
        writer.add(documents)
        files = [writer.write(scratch / f"{shard:010x}-000000000000.parquet")]
        table = documents.table.select(ID_SCHEMA.names).cast(ID_SCHEMA)
        overlay, repeated = resolve_repeated_ids(table, self.settings.ids)
        if len(overlay):
            files.append(write_table(scratch / f"ids-{part:05d}.parquet", overlay, kind="ids"))
        with RejectWriter(scratch / f"rejects-{shard:010x}.parquet", self.source) as quarantine:
            quarantine.add([*rejects, *documents.rejects], "")
            quarantine.add(
                [Reject(r["line"], r["reason"], r["detail"]) for r in repeated.to_pylist()], ""
            )
            files.append(quarantine.finish())
            rejected = quarantine.count
        kept = apply_ids(documents.table, overlay)
        counters = {
            "lines": len(kept) + rejected,
            "rejected": rejected,
            "ingested": len(kept),
            "bytes": int(kept["n_bytes"].to_numpy().sum()),
            "dropped_min_chars": len(kept) - kept["reason"].null_count,
            "repeated ids": len(overlay),
        }
        found = tuple(entry for entry in files if entry is not None)
        return Result(part, Receipt(task="", files=found, counters=counters), str(scratch))

    def _parse(self, encoded: Iterable[bytes]) -> tuple[Rows, list[Reject]]:
        """Sort rows by id bytewise and check what every row must have."""
        parsed = sorted(((orjson.loads(row), row) for row in encoded), key=_place)
        good, rejects = [], []
        for number, (row, _) in enumerate(parsed, 1):
            reason = _problem(row)
            if reason:
                rejects.append(Reject(number, reason, repr(row.get("id"))[:200]))
            else:
                good.append((number, row))
        names = sorted({name for _, row in good for name in row} - {"id", "text", "lang"})
        rows = Rows(
            part=0,
            text=pa.array([row["text"] for _, row in good], pa.string()),
            id=pa.array([str(row["id"]) for _, row in good], pa.string()),
            lang=pa.array([row.get("lang") for _, row in good], pa.string()),
            line=np.array([number for number, _ in good], np.int64),
            columns={name: narrow([row.get(name) for _, row in good]) for name in names},
        )
        return rows, rejects

    def commit(self, corpus: Corpus, results: list[Result]) -> Corpus:
        """Name the artifact by its content and commit it."""
        content = sorted((e.name, e.sha256) for result in results for e in result.receipt.files)
        stage = RowsStage(self.source, self.settings, fingerprint(files=content))
        folder = corpus.store.folder(stage.name, stage.fingerprint(corpus))
        folder.mkdir(parents=True, exist_ok=True)
        for result in results:
            for entry in result.receipt.files:
                link_or_copy(Path(result.value) / entry.name, folder / entry.name)
        return stage.commit(corpus, (result.receipt for result in results))


@dataclass(frozen=True)
class RowsStage(Stage):
    """The ingest stage of documents that came as rows: named by what they are."""

    source: str
    settings: IngestSettings
    content: str
    """Fingerprint of the shards' bytes."""

    name: ClassVar[str] = "ingest"

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        settings = settings_json(self.settings, without=("max_rejected",))
        return {**settings, "sources": [self.source]}

    def identity(self) -> dict[str, Any]:
        """Return what the fingerprint holds."""
        return {**self.config(), "content": self.content}


def _place(parsed: tuple[dict[str, Any], bytes]) -> tuple[bytes, bytes]:
    return str(parsed[0].get("id", "")).encode(), parsed[1]


def _problem(row: dict[str, Any]) -> str | None:
    if "text" not in row:
        return "missing text"
    if not isinstance(row["text"], str):
        return "text is null" if row["text"] is None else "text is not a string"
    if not isinstance(row.get("id"), str | int) or row["id"] == "":
        return "missing id"
    if not isinstance(row.get("lang"), str | None):
        return "lang is not a string"
    return None


class _WriteShard(beam.DoFn):
    def __init__(self, work: _Documents, corpus: Corpus) -> None:
        self._work = work
        self._corpus = corpus

    def process(self, grouped: tuple[int, Iterable[bytes]]) -> Iterator[Result]:
        with failures_recorded(self._corpus.store):
            result = self._work.write(self._corpus, grouped[0], grouped[1])
        yield result


class ReadDocuments(beam.PTransform):
    """Give the documents that no stage has dropped so far back as rows: Corpus -> dicts.

    A row has ``doc_uid, id, source, domain, lang, text`` and the source's own columns.
    """

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the transform."""
        keep_elements_whole()
        return (
            corpora
            | "List shards" >> beam.FlatMap(_shards)
            | "Spread" >> beam.Reshuffle()
            | "Read" >> beam.FlatMap(_rows)
        )


def _shards(corpus: Corpus) -> Iterator[tuple[Corpus, str, Any]]:
    removed = removed_by_file(corpus)
    for entry, path in corpus.documents():
        yield corpus, str(path), removed.get(entry.name)


_MEASURES = {"n_chars", "n_bytes", "exact_hash", "reason", "source_path", "source_line"}


def _rows(shard: tuple[Corpus, str, Any]) -> Iterator[dict[str, Any]]:
    corpus, path, removed = shard
    overlay = id_overlay(corpus, Path(path))
    for group in row_groups(Path(path), None):
        kept = apply_ids(group.filter(kept_rows(group, removed)), overlay)
        names = [column for column in kept.column_names if column not in _MEASURES]
        yield from kept.select(names).to_pylist()

"""Stage ``ingest``: source files become shards of documents, and a quarantine."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.artifacts import Receipt, Workdir, fingerprint
from pipelines.barrier import Barrier
from pipelines.corpus import Corpus
from pipelines.formats.ingest import ingest_part
from pipelines.parts import SourcePart, list_parts, refuse_shared_shards
from pipelines.runners import ShuffleKind
from pipelines.shuffle import Partition, Partitioned, Shuffle
from pipelines.sources import SourceSettings, refuse_absent_columns
from pipelines.steps.columns import partitions_for, row_groups, split, write_table
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.tasks import ListTasks, Phase, Result, Task, Work, dealt
from transforms.ids import ID_SCHEMA, id_keys, may_repeat, resolve_repeated_ids
from transforms.record import RecordError
from transforms.text import IngestSettings


@dataclass(frozen=True, slots=True)
class Ingested:
    """The corpus with its parts ingested, on the way to unique ids."""

    corpus: Corpus
    receipts: tuple[Receipt, ...]

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.corpus.store


@dataclass(frozen=True)
class IngestStage(Stage):
    """Each part of each file is a task; then repeated ids are resolved over all shards.

    Shards keep ids as they were read, so that a part's result depends on its file alone; new ids
    are an overlay, ``ids-*.parquet``.
    """

    sources: tuple[SourceSettings, ...] = ()
    settings: IngestSettings = field(default_factory=IngestSettings)
    inputs: str = ""
    """Fingerprint of the input files' contents and relative paths."""
    parts: int = 0
    size: int = 0
    shuffle: ShuffleKind = "files"

    name: ClassVar[str] = "ingest"
    version: ClassVar[int] = 2

    @classmethod
    def prepare(
        cls,
        sources: Sequence[SourceSettings],
        settings: IngestSettings,
        workdir: str,
        shuffle: ShuffleKind = "files",
    ) -> "IngestStage":
        """List and hash the source files.

        Raises:
            RecordError: a source names no files.
        """
        stage = cls(tuple(sources), settings, shuffle=shuffle)
        parts = stage.list_parts(Workdir(workdir))
        return replace(
            stage,
            inputs=_inputs_of(parts),
            parts=len(parts),
            size=sum(file.size for part in parts for file in part.files if part.part == 0),
        )

    def list_parts(self, store: Workdir) -> list[SourcePart]:
        """Return the parts of all sources, in the order of the sources and paths."""
        cache = store.path / "cache" / "sources.json"
        return list_parts(self.sources, self.settings, cache)

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        return {
            **settings_json(self.settings, without=("max_rejected",)),
            "sources": [source.name for source in self.sources],
        }

    def identity(self) -> dict[str, Any]:
        """Return what the fingerprint holds: settings, and the inputs by content."""
        return {
            **self.config(),
            "details": [self._source_identity(source) for source in self.sources],
            "inputs": self.inputs,
        }

    @staticmethod
    def _source_identity(source: SourceSettings) -> dict[str, Any]:
        domain = {"domain": source.domain_name}
        chat = ("messages", "tools", "train_on", "train_turns", "weights")
        # Not there where it says nothing, so that other sources keep their artifacts.
        left_out = ("path", "domain", *(chat if source.messages is None else ()))
        left_out += ("tokens",) if source.tokens is None else ()
        return {**settings_json(source, without=left_out), **domain}

    def expected_tasks(self) -> int | None:
        """Return the number of parts."""
        return self.parts

    def expected_bytes(self) -> int | None:
        """Return the size of the input."""
        return self.size

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        ingested = corpora | "Parts" >> Phase("Parts", self._tasks, self._ingest, self._ingested)
        listed = ingested | "List shards" >> beam.ParDo(ListTasks(self._id_tasks)).with_outputs(
            "adopted", main="missing"
        )
        overlays = (
            dealt(listed.missing, "Shards")
            | "By id" >> Shuffle(self._by_id, self.shuffle)
            | "Resolve ids" >> beam.FlatMap(self._resolve)
        )
        return (ingested, (overlays,)) | "Barrier" >> Barrier(self._finish)

    def _tasks(self, corpus: Corpus) -> list[Task]:
        parts = self.list_parts(corpus.store)
        if _inputs_of(parts) != self.inputs:
            raise RecordError("source files changed while the run was starting; run it again")
        sources = {source.name: source for source in self.sources}
        settings = settings_json(self.settings, without=("max_rejected", "ids"))
        artifact = self.fingerprint(corpus)
        return [
            Task(
                fingerprint=fingerprint(
                    stage=self.name,
                    version=self.version,
                    settings=settings,
                    source=self._source_identity(sources[part.source]),
                    part=part.fingerprint_fields(),
                ),
                corpus=corpus,
                stage=self.name,
                artifact=artifact,
                payload=(part, sources[part.source]),
                weight=part.weight,
            )
            for part in parts
        ]

    def _ingest(self, task: Task) -> Work:
        part, source = task.payload
        result = ingest_part(part, source, self.settings, task.folder, task.fingerprint[:12])
        detail = {"source": part.source, "found": result.found}
        return Work(result.files, dict(result.counters), detail)

    def _ingested(self, corpus: Corpus, results: list[Result]) -> Ingested:
        receipts = tuple(result.receipt for result in results)
        folder = corpus.store.folder(self.name, self.fingerprint(corpus))
        refuse_shared_shards(folder / e.name for r in receipts for e in r.files if e.kind == "data")
        for source in self.sources:
            of_source = [r for r in receipts if r.detail.get("source") == source.name]
            found: Counter[str] = Counter()
            for receipt in of_source:
                found.update(receipt.detail["found"])
            documents = sum(receipt.counters["ingested"] for receipt in of_source)
            refuse_absent_columns(source, documents, found)
        return Ingested(corpus, receipts)

    # Ids that repeat within a source, over all its shards.

    def _id_tasks(self, ingested: Ingested) -> list[Task]:
        artifact = self.fingerprint(ingested.corpus)
        files = [e for r in ingested.receipts for e in r.files if e.kind == "data"]
        partitions = partitions_for(sum(entry.rows for entry in files))
        folder = ingested.store.folder(self.name, artifact)
        return [
            Task(
                fingerprint=fingerprint(stage=self.name, ids=entry.sha256),
                corpus=ingested.corpus,
                stage=self.name,
                artifact=artifact,
                payload=str(folder / entry.name),
                shared=partitions,
                weight=entry.bytes,
                cached=False,
            )
            for entry in sorted(files, key=lambda entry: entry.name)
        ]

    def _by_id(self, task: Task) -> Partitioned:
        tables = []
        for group in row_groups(Path(task.payload), (*ID_SCHEMA.names, "reason")):
            group = group.combine_chunks()
            if len(group):
                keys, bases = id_keys(group["id"].combine_chunks(), group["source"][0].as_py())
                group = group.append_column("key", pa.array(keys))
                tables.append(group.append_column("base", pa.array(bases)))
        if tables:
            table = pa.concat_tables(tables)
            head = (table["base"].to_numpy().view(np.uint64) >> np.uint64(32)).astype(np.int64)
            yield from split(table, head * task.shared >> 32, task.shared)

    def _resolve(self, partition: Partition) -> Iterator[Result]:
        table = pa.concat_tables(partition.tables())
        suspects = may_repeat(table["key"].to_numpy(), table["base"].to_numpy())
        if not suspects.any():
            return
        rows = table.filter(pa.array(suspects)).select(ID_SCHEMA.names)
        overlay, rejects = resolve_repeated_ids(rows.cast(ID_SCHEMA), self.settings.ids)
        number = f"{partition.order:05d}"
        files, counters = [], {"repeated ids": len(overlay)}
        if len(overlay):
            path = partition.folder / f"ids-{number}.parquet"
            files.append(write_table(path, overlay, kind="ids"))
        if len(rejects):
            path = partition.folder / f"rejects-ids-{number}.parquet"
            files.append(write_table(path, rejects, kind="rejects"))
            gone = table.filter(pc.is_in(table["doc_uid"], overlay["doc_uid"].combine_chunks()))
            short = len(gone) - gone["reason"].null_count
            counters |= {"rejected": len(rejects), "ingested": -len(rejects)}
            counters["dropped_min_chars"] = -short
        yield Result(partition.order, Receipt(task="", files=tuple(files), counters=counters))

    def _finish(self, ingested: Ingested, results: list[Result]) -> Corpus:
        receipts = [*ingested.receipts, *(result.receipt for result in results)]
        empty = dict.fromkeys(("lines", "rejected", "ingested", "bytes", "dropped_min_chars"), 0)
        return self.commit(ingested.corpus, receipts, counters=empty)


def _inputs_of(parts: Sequence[SourcePart]) -> str:
    return fingerprint(parts=[part.fingerprint_fields() for part in parts])


class IngestFiles(Apply):
    """Read source files: Corpus (of an empty work directory) -> Corpus."""

    def __init__(
        self,
        sources: Sequence[SourceSettings],
        workdir: str,
        settings: IngestSettings | None = None,
        *,
        shuffle: ShuffleKind = "files",
    ) -> None:
        super().__init__(
            IngestStage.prepare(sources, settings or IngestSettings(), workdir, shuffle)
        )

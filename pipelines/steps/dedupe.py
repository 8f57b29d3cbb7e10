"""Stage ``dedupe.exact``: documents with equal text, all but one removed."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.artifacts import Receipt, fingerprint
from pipelines.barrier import Barrier
from pipelines.corpus import Corpus
from pipelines.runners import ShuffleKind
from pipelines.shuffle import Partition, Partitioned, Shuffle
from pipelines.steps.columns import partitions_for, row_groups, split, uid_partition, write_table
from pipelines.steps.removed import id_overlay
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.tasks import ListTasks, Result, Task, dealt
from transforms.exact import ExactSettings, exact_duplicates
from transforms.ids import apply_ids
from transforms.record import ROW_BITS

_COLUMNS = ("doc_uid", "id", "source", "n_chars", "exact_hash", "reason")


@dataclass(frozen=True)
class ExactDedupeStage(Stage):
    """Group by hash, keep one of each group, and send the removals back to their shards' ranges."""

    settings: ExactSettings = field(default_factory=ExactSettings)
    shuffle: ShuffleKind = "files"

    name: ClassVar[str] = "dedupe.exact"
    parents: ClassVar[tuple[str, ...]] = ("ingest",)

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        return settings_json(self.settings)

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        listed = corpora | "List shards" >> beam.ParDo(ListTasks(self._tasks)).with_outputs(
            "adopted", main="missing"
        )
        removed = (
            dealt(listed.missing, "Shards")
            | "By hash" >> Shuffle(self._by_hash, self.shuffle)
            | "By shard" >> Shuffle(self._by_shard, self.shuffle)
            | "Write duplicates" >> beam.Map(self._write)
        )
        return (corpora, (removed,)) | "Barrier" >> Barrier(self._finish)

    def _tasks(self, corpus: Corpus) -> list[Task]:
        ingest = corpus.manifest("ingest")
        files = ingest.entries()
        shared = {
            "partitions": partitions_for(sum(entry.rows for entry in files)),
            "sources": list(ingest.config["sources"]),
        }
        artifact = self.fingerprint(corpus)
        return [
            Task(
                fingerprint=fingerprint(stage=self.name, file=entry.sha256),
                corpus=corpus,
                stage=self.name,
                artifact=artifact,
                payload=str(corpus.folder("ingest") / entry.name),
                shared=shared,
                weight=entry.rows,
                cached=False,
            )
            for entry in files
        ]

    def _by_hash(self, task: Task) -> Partitioned:
        rank = {name: place for place, name in enumerate(task.shared["sources"])}
        path = Path(task.payload)
        overlay = id_overlay(task.corpus, path)
        tables = []
        for group in row_groups(path, _COLUMNS):
            live = apply_ids(group.filter(pc.is_null(group["reason"])), overlay)
            source = live["source"].combine_chunks().dictionary_encode()
            ranks = np.array([rank[name] for name in source.dictionary.to_pylist()], np.int32)
            source_rank = ranks[source.indices.to_numpy(zero_copy_only=False)] if len(live) else []
            tables.append(
                live.select(["exact_hash", "doc_uid", "n_chars", "id"]).append_column(
                    "source_rank", pa.array(source_rank, pa.int32())
                )
            )
        if tables:
            yield from split_by_hash(pa.concat_tables(tables), task.shared["partitions"])

    def _by_shard(self, partition: Partition) -> Partitioned:
        duplicates = exact_duplicates(pa.concat_tables(partition.tables()))
        partitions = partition.shared["partitions"]
        shards = duplicates["doc_uid"].to_numpy() >> ROW_BITS
        yield from split(duplicates, uid_partition(shards, partitions), partitions)

    def _write(self, partition: Partition) -> Result:
        table = pa.concat_tables(partition.tables()).sort_by("doc_uid").combine_chunks()
        partition.folder.mkdir(parents=True, exist_ok=True)
        entry = write_table(partition.folder / f"duplicates-{partition.order:05d}.parquet", table)
        receipt = Receipt(task="", files=(entry,), counters={"dropped": len(table)})
        return Result(partition.order, receipt)

    def _finish(self, corpus: Corpus, results: list[Result]) -> Corpus:
        rows = sum(entry.rows for entry in corpus.manifest("ingest").entries())
        return self.commit(
            corpus,
            (result.receipt for result in results),
            config={"partitions": partitions_for(rows)},
        )


def split_by_hash(table: pa.Table, partitions: int) -> Partitioned:
    """Split rows by the leading bits of their hash."""
    hashes = table["exact_hash"].combine_chunks()
    raw = np.frombuffer(hashes.buffers()[1], np.uint8).reshape(-1, 16)
    raw = raw[hashes.offset : hashes.offset + len(hashes)]
    head = raw[:, :4].copy().view(">u4").ravel().astype(np.int64)
    return split(table, head * partitions >> 32, partitions)


class ExactDedupe(Apply):
    """Remove all but one of the documents with equal text: Corpus -> Corpus."""

    def __init__(
        self, settings: ExactSettings | None = None, *, shuffle: ShuffleKind = "files"
    ) -> None:
        super().__init__(ExactDedupeStage(settings or ExactSettings(), shuffle))

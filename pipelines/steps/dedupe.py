"""Stage ``dedupe.exact``: documents with equal text, all but one removed."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.artifacts import FileEntry, Receipt, fingerprint
from pipelines.barrier import Barrier
from pipelines.corpus import Corpus
from pipelines.runners import ShuffleKind
from pipelines.shuffle import Partition, Partitioned, Shuffle
from pipelines.steps.columns import partitions_for, row_groups, split, uid_partition, write_table
from pipelines.steps.earlier import (
    FIRST_NUMBER,
    REMOVED_AGAINST,
    EarlierRun,
    accepted,
    identities,
    named_keepers,
    note,
    reading,
    source_ranks,
)
from pipelines.steps.removed import Uids, id_overlay, kept_rows, removed_by_file
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.tasks import ListTasks, Result, Task, dealt
from transforms.exact import ExactSettings, exact_duplicates
from transforms.ids import apply_ids
from transforms.record import ROW_BITS

_COLUMNS = ("doc_uid", "id", "source", "n_chars", "exact_hash", "reason")
_SENT = ["exact_hash", "doc_uid", "n_chars", "id", "address"]
"""Columns by hash: within the stage, documents of earlier runs have numbers below zero."""


@dataclass(frozen=True)
class ExactDedupeStage(Stage):
    """Group by hash, keep one of each group, and send the removals back to their shards' ranges."""

    settings: ExactSettings = field(default_factory=ExactSettings)
    shuffle: ShuffleKind = "files"
    against: tuple[EarlierRun, ...] = ()
    """Runs whose documents come first in the keep order, and stay."""

    name: ClassVar[str] = "dedupe.exact"
    parents: ClassVar[tuple[str, ...]] = ("ingest", "decontaminate")

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        return {**settings_json(self.settings), **identities(self.against)}

    def note(self, corpus: Corpus) -> str:
        """Return which documents of earlier runs are compared with."""
        return note(self.against)

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
        removed = removed_by_file(corpus)
        files = [
            replace(_HashedFile.of(corpus, entry), gone=removed.get(entry.name))
            for entry in corpus.manifest("ingest").entries()
        ]
        rows, start = sum(file.rows for file in files), FIRST_NUMBER
        bounds = [start]
        for origin, run in enumerate(self.against):
            removed = removed_by_file(run.corpus)
            for entry in run.corpus.manifest("ingest").entries():
                file = _HashedFile.of(run.corpus, entry)
                gone = removed.get(entry.name)
                files.append(replace(file, origin=origin, start=start, gone=gone))
                start += entry.rows
            bounds.append(start)
        shared = {
            "partitions": partitions_for(rows + start - FIRST_NUMBER),
            "ranks": source_ranks(self.against, corpus.manifest("ingest").config["sources"]),
            "ingests": [run.ingest for run in self.against],
            "bounds": bounds,
        }
        artifact = self.fingerprint(corpus)
        return [
            Task(
                fingerprint=fingerprint(stage=self.name, file=[file.key, file.start]),
                corpus=corpus,
                stage=self.name,
                artifact=artifact,
                payload=file,
                shared=shared,
                weight=file.rows,
                cached=False,
            )
            for file in files
        ]

    def _by_hash(self, task: Task) -> Partitioned:
        table = _hashed(task.payload, task.shared["ranks"][task.payload.origin])
        if table is not None:
            yield from split_by_hash(table, task.shared["partitions"])

    def _by_shard(self, partition: Partition) -> Partitioned:
        shared = partition.shared
        table = pa.concat_tables(partition.tables())
        duplicates = accepted(exact_duplicates(table.drop_columns("address")))
        if shared["ingests"]:
            duplicates = named_keepers(duplicates, _addresses(table, shared))
        partitions = shared["partitions"]
        shards = duplicates["doc_uid"].to_numpy() >> ROW_BITS
        yield from split(duplicates, uid_partition(shards, partitions), partitions)

    def _write(self, partition: Partition) -> Result:
        table = pa.concat_tables(partition.tables()).sort_by("doc_uid").combine_chunks()
        partition.folder.mkdir(parents=True, exist_ok=True)
        entry = write_table(partition.folder / f"duplicates-{partition.order:05d}.parquet", table)
        counters = {
            "dropped": len(table),
            REMOVED_AGAINST: len(table) - table["keeper_ingest"].null_count,
        }
        receipt = Receipt(task="", files=(entry,), counters=counters)
        return Result(partition.order, receipt)

    def _finish(self, corpus: Corpus, results: list[Result]) -> Corpus:
        return self.commit(
            corpus,
            (result.receipt for result in results),
            counters={"dropped": 0, REMOVED_AGAINST: 0},
        )


@dataclass(frozen=True, slots=True)
class _HashedFile:
    """An ingest file, of this run or of an earlier one."""

    corpus: Corpus
    path: str
    rows: int
    key: str
    origin: int = -1
    """Place of the earlier run in the list of ``dedupe.against``; -1 for this run."""
    start: int = 0
    """Number of the first row, in an earlier run; documents of this run go by their address."""
    gone: Uids | None = None
    """What the earlier run removed; of this run's files, what earlier stages did."""

    @classmethod
    def of(cls, corpus: Corpus, entry: FileEntry) -> "_HashedFile":
        path = corpus.folder("ingest") / entry.name
        return cls(corpus, str(path), entry.rows, entry.sha256)


def _hashed(file: _HashedFile, ranks: Mapping[str, int]) -> pa.Table | None:
    """Return hash, name and place in the keep order of a file's documents; None without any."""
    tables, at = [], file.start
    with reading(file.corpus):
        overlay = id_overlay(file.corpus, Path(file.path))
        for group in row_groups(Path(file.path), _COLUMNS):
            uids = group["doc_uid"].to_numpy()
            numbers = uids if file.origin < 0 else np.arange(at, at + len(group))
            at += len(group)
            group = group.append_column("number", pa.array(numbers, pa.int64()))
            tables.append(
                _ranked(apply_ids(group.filter(kept_rows(group, file.gone)), overlay), ranks)
            )
    return pa.concat_tables(tables) if tables else None


def _ranked(live: pa.Table, ranks: Mapping[str, int]) -> pa.Table:
    source = live["source"].combine_chunks().dictionary_encode()
    known = np.array([ranks[name] for name in source.dictionary.to_pylist()], np.int32)
    rank = known[source.indices.to_numpy(zero_copy_only=False)] if len(live) else []
    live = live.select(["exact_hash", "number", "n_chars", "id", "doc_uid"])
    return live.rename_columns(_SENT).append_column("source_rank", pa.array(rank, pa.int32()))


def _addresses(
    table: pa.Table, shared: Mapping[str, Any]
) -> dict[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Return numbers (ascending) and addresses of the earlier documents among some, by ingest."""
    numbers, uids = table["doc_uid"].to_numpy(), table["address"].to_numpy()
    earlier = np.flatnonzero(numbers < 0)
    earlier = earlier[np.argsort(numbers[earlier])]
    numbers, uids = numbers[earlier], uids[earlier]
    bounds = np.searchsorted(numbers, shared["bounds"]).tolist()
    parts = zip(shared["ingests"], itertools.pairwise(bounds), strict=True)
    return {ingest: (numbers[a:b], uids[a:b]) for ingest, (a, b) in parts}


def split_by_hash(table: pa.Table, partitions: int) -> Partitioned:
    """Split rows by the leading bits of their hash."""
    hashes = table["exact_hash"].combine_chunks()
    raw = np.frombuffer(hashes.buffers()[1], np.uint8).reshape(-1, 16)
    raw = raw[hashes.offset : hashes.offset + len(hashes)]
    head = raw[:, :4].copy().view(">u4").ravel().astype(np.int64)
    return split(table, head * partitions >> 32, partitions)


class ExactDedupe(Apply):
    """Remove all but one of the documents with equal text: Corpus -> Corpus.

    Args:
        settings: the table ``[dedupe.exact]``.
        shuffle: ``files`` or ``runner``.
        against: runs whose documents come first and stay; see :func:`pipelines.against.newest_run`.
    """

    def __init__(
        self,
        settings: ExactSettings | None = None,
        *,
        shuffle: ShuffleKind = "files",
        against: Sequence[EarlierRun] = (),
    ) -> None:
        super().__init__(ExactDedupeStage(settings or ExactSettings(), shuffle, tuple(against)))

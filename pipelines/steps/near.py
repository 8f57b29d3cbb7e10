"""Stage ``dedupe.near``: of documents that share most of their n-grams, all but one removed.

Five phases. Text is read in the first, whose result is kept by ingest file, and once more for
documents that have a candidate; all else works on narrow columns:

1. sign: shingle sets, MinHash signatures, band keys, a hash of each set;
2. equal: documents with the same set are one from here on, the first in keep order;
3. pairs: documents that share a band key;
4. sets and verify: the sets of candidates are written, and each pair compared exactly;
5. keep: one worker walks the verified pairs in keep order.
"""

import itertools
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import pyarrow as pa

from pipelines.artifacts import FileEntry, Receipt, Workdir, fingerprint
from pipelines.barrier import Barrier
from pipelines.corpus import Corpus
from pipelines.runners import ShuffleKind
from pipelines.shuffle import Shuffle
from pipelines.steps.columns import partitions_for, row_groups, split, uid_partition, write_table
from pipelines.steps.near_keep import removed_rows
from pipelines.steps.near_pairs import (
    PAIRS,
    ROWS_PER_TABLE,
    Written,
    by_band,
    by_first,
    by_set,
    find_equal,
    pair,
    unique,
)
from pipelines.steps.near_sets import (
    read_scratch,
    set_files,
    verified_pairs,
    write_scratch,
    write_sets,
)
from pipelines.steps.near_signatures import sign_file, source_rank
from pipelines.steps.removed import Uids, by_file, id_overlay, removed_uids
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.tasks import Clock, ListTasks, Phase, Result, Task, Work, dealt, record_cost
from transforms.candidates import distinct
from transforms.minhash import NearSettings, collision_probability
from transforms.record import ROW_BITS


@dataclass(frozen=True, slots=True)
class Search:
    """A corpus on its way through the phases."""

    corpus: Corpus
    receipts: tuple[Receipt, ...]
    """Of the signatures, in the order of the ingest files."""
    equal: tuple[str, ...] = ()
    """Scratch tables: documents whose set an earlier one has, and that one."""
    pairs: tuple[str, ...] = ()
    """Scratch tables: candidate pairs."""
    sets: str = ""
    """Scratch table: where the sets of candidates are."""
    counters: tuple[tuple[str, int], ...] = ()

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.corpus.store


@dataclass(frozen=True)
class NearDedupeStage(Stage):
    """Sign, pair, verify, and keep a maximal independent set; see the module."""

    settings: NearSettings = field(default_factory=NearSettings)
    shuffle: ShuffleKind = "files"

    name: ClassVar[str] = "dedupe.near"
    parents: ClassVar[tuple[str, ...]] = ("ingest", "dedupe.exact")

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on; what a letter is depends on Unicode."""
        return {**settings_json(self.settings), "unicode": unicodedata.unidata_version}

    def note(self, corpus: Corpus) -> str:
        """Return the S-curve at the threshold and below it."""
        s = self.settings
        shares = [
            f"{collision_probability(jaccard, s.bands, s.rows):.4%} of the pairs at {jaccard:.2g}"
            for jaccard in (s.threshold, 0.75 * s.threshold, 0.5 * s.threshold)
        ]
        return f"{s.bands} bands of {s.rows} hashes compare " + ", ".join(shares)

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        signed = corpora | "Sign" >> Phase("Sign", self._sign_tasks, self._sign, self._signed)
        equal = (
            self._dealt(signed, "Equal", self._equal_tasks)
            | "By set" >> Shuffle(by_set, self.shuffle)
            | "Find equal" >> beam.Map(find_equal)
        )
        single = (signed, (equal,)) | "Equal" >> Barrier(self._with_equal)
        buckets = (
            self._dealt(single, "Bands", self._band_tasks)
            | "By band" >> Shuffle(by_band, self.shuffle)
            | "Pair" >> beam.Map(pair)
        )
        pairs = (
            buckets | "By first" >> Shuffle(by_first, self.shuffle) | "Unique" >> beam.Map(unique)
        )
        paired = (single, (buckets, pairs)) | "Pairs" >> Barrier(self._with_pairs)
        with_sets = paired | "Sets" >> Phase(
            "Sets", self._set_tasks, self._write_sets, self._with_sets
        )
        return with_sets | "Verify" >> Phase(
            "Verify", self._verify_tasks, self._verify, self._finish
        )

    def _dealt(self, elements: beam.PCollection, label: str, tasks: Any) -> beam.PCollection:
        listed = elements | f"List {label}" >> beam.ParDo(ListTasks(tasks)).with_outputs(
            "adopted", main="missing"
        )
        return dealt(listed.missing, label)

    def _task(self, search: Search, *, key: str, **fields: Any) -> Task:
        """Return a task whose work is not kept."""
        return Task(
            fingerprint=fingerprint(stage=self.name, task=key),
            corpus=search.corpus,
            stage=self.name,
            artifact=self.fingerprint(search.corpus),
            cached=False,
            **fields,
        )

    # Signatures, by ingest file.

    def _sign_tasks(self, corpus: Corpus) -> list[Task]:
        # Neither the threshold nor what other stages removed changes a signature.
        settings = settings_json(self.settings, without=("threshold", "verify"))
        return [
            Task(
                fingerprint=fingerprint(
                    stage=self.name,
                    version=self.version,
                    settings=settings,
                    unicode=unicodedata.unidata_version,
                    # Files without documents have equal bytes.
                    file=[entry.name[:10], entry.sha256],
                ),
                corpus=corpus,
                stage=self.name,
                artifact=self.fingerprint(corpus),
                payload=str(corpus.folder("ingest") / entry.name),
                weight=entry.bytes,
            )
            for entry in corpus.manifest("ingest").entries()
        ]

    def _sign(self, task: Task) -> Work:
        path = Path(task.payload)
        target = task.folder / f"signatures-{path.name[:10]}-{task.fingerprint[:12]}.parquet"
        counters = sign_file(path, target, self.settings)
        entry = FileEntry.of(target, rows=counters["signed"], kind="signatures")
        return Work([entry], counters)

    def _signed(self, corpus: Corpus, results: list[Result]) -> Search:
        return Search(corpus, tuple(result.receipt for result in results))

    def _signature_files(self, search: Search) -> Iterator[tuple[str, FileEntry, str]]:
        """Yield the name of each ingest file, the entry of its signatures and their path."""
        entries = search.corpus.manifest("ingest").entries()
        folder = search.store.folder(self.name, self.fingerprint(search.corpus))
        for entry, receipt in zip(entries, search.receipts, strict=True):
            yield entry.name, receipt.files[0], str(folder / receipt.files[0].name)

    # Documents with equal sets.

    def _equal_tasks(self, search: Search) -> list[Task]:
        removed = by_file(search.corpus, removed_uids(search.corpus))
        ingest = search.corpus.folder("ingest")
        shared = self._shared(search)
        return [
            self._task(
                search,
                key=f"equal {entry.sha256}",
                payload=(path, str(ingest / name), removed.get(name)),
                shared=shared,
                weight=entry.rows,
            )
            for name, entry, path in self._signature_files(search)
        ]

    def _shared(self, search: Search) -> dict[str, Any]:
        rows = sum(receipt.counters["signed"] for receipt in search.receipts)
        return {
            "sources": list(search.corpus.manifest("ingest").config["sources"]),
            "partitions": partitions_for(rows),
            "threshold": self.settings.threshold,
            "bands": partitions_for(rows * self.settings.bands, rows_each=ROWS_PER_TABLE),
        }

    def _with_equal(self, search: Search, results: list[Written]) -> Search:
        counters = _summed(search.counters, results)
        return replace(search, equal=tuple(r.path for r in results), counters=counters)

    # Candidate pairs.

    def _band_tasks(self, search: Search) -> list[Task]:
        equal = (read_scratch(path)["doc_uid"].to_numpy() for path in search.equal)
        gone = by_file(search.corpus, itertools.chain(removed_uids(search.corpus), equal))
        shared = self._shared(search)
        return [
            self._task(
                search,
                key=f"bands {entry.sha256}",
                payload=(path, gone.get(name)),
                shared=shared,
                weight=entry.rows,
            )
            for name, entry, path in self._signature_files(search)
        ]

    def _with_pairs(self, search: Search, results: list[Written]) -> Search:
        paths = tuple(r.path for r in results if r.order >= PAIRS)
        return replace(search, pairs=paths, counters=_summed(search.counters, results))

    # Sets of the candidates, and the comparison.

    def _set_tasks(self, search: Search) -> list[Task]:
        wanted = by_file(search.corpus, (_documents_of(path) for path in search.pairs))
        ingest = search.corpus.folder("ingest")
        sources = self._shared(search)["sources"]
        return [
            self._task(
                search,
                key=f"sets {entry.sha256}",
                payload=(path, str(ingest / name), wanted[name]),
                shared=sources,
                weight=len(wanted[name]),
            )
            for name, entry, path in self._signature_files(search)
            if name in wanted
        ]

    def _write_sets(self, task: Task) -> Work:
        signed, path, wanted = task.payload
        rank = source_rank(next(row_groups(Path(signed), ["source"])), task.shared)
        overlay = id_overlay(task.corpus, Path(path))
        sets = write_sets(task.store, Path(path), wanted, overlay, rank, self.settings.ngram)
        return Work(value=sets)

    def _with_sets(self, search: Search, results: list[Result]) -> Search:
        files = [result.value for result in results]
        table = {"index": [f.index for f in files], "values": [f.values for f in files]}
        strings = pa.table({name: pa.array(paths, pa.string()) for name, paths in table.items()})
        return replace(search, sets=write_scratch(search.store, strings))

    def _verify_tasks(self, search: Search) -> list[Task]:
        rows = [len(read_scratch(path)) for path in search.pairs]
        return [
            self._task(search, key=f"verify {n}", payload=path, shared=search.sets, weight=rows[n])
            for n, path in enumerate(search.pairs)
            if rows[n]
        ]

    def _verify(self, task: Task) -> Work:
        edges = verified_pairs(task.payload, set_files(task.shared), self.settings.threshold)
        return Work(value=write_scratch(task.store, edges), counters={"near pairs": len(edges)})

    # What stays.

    def _finish(self, search: Search, results: list[Result]) -> Corpus:
        clock = Clock()
        edges = [result.value for result in results]
        table = removed_rows(edges, search.equal, set_files(search.sets))
        folder = search.store.folder(self.name, self.fingerprint(search.corpus))
        partitions = self._shared(search)["partitions"]
        ranges = uid_partition(table["doc_uid"].to_numpy() >> ROW_BITS, partitions)
        files = [
            write_table(folder / f"duplicates-{number:05d}.parquet", part)
            for number, part in split(table, ranges, partitions)
        ]
        counters = Counter(dict(search.counters))
        for result in results:
            counters.update(result.receipt.counters)
        counters["dropped"] = len(table)
        record_cost(folder, clock)
        return self.commit(
            search.corpus,
            [*search.receipts, Receipt(task="", files=tuple(files))],
            counters=counters,
            config={"partitions": partitions},
        )


def _documents_of(path: str) -> Uids:
    """Return the documents of a table of pairs, ascending."""
    table = read_scratch(path)
    return distinct(np.concatenate([table["first"].to_numpy(), table["second"].to_numpy()]))


def _summed(
    counters: tuple[tuple[str, int], ...], results: Iterable[Written]
) -> tuple[tuple[str, int], ...]:
    total = Counter(dict(counters))
    for result in results:
        total.update(dict(result.counters))
    return tuple(total.items())


class NearDedupe(Apply):
    """Remove documents that share most of their n-grams with a kept one: Corpus -> Corpus."""

    def __init__(
        self, settings: NearSettings | None = None, *, shuffle: ShuffleKind = "files"
    ) -> None:
        super().__init__(NearDedupeStage(settings or NearSettings(), shuffle))

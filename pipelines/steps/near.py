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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import pyarrow as pa

from pipelines.artifacts import FileEntry, Receipt, fingerprint
from pipelines.barrier import Barrier
from pipelines.corpus import Corpus
from pipelines.runners import ShuffleKind
from pipelines.shuffle import Shuffle
from pipelines.steps.columns import split, uid_partition, write_table
from pipelines.steps.earlier import REMOVED_AGAINST, EarlierRun, identities, note
from pipelines.steps.near_flags import flag_notes, flagged_clusters
from pipelines.steps.near_keep import removed_rows
from pipelines.steps.near_pairs import (
    PAIRS,
    Written,
    by_band,
    by_first,
    by_set,
    find_equal,
    pair,
    unique,
)
from pipelines.steps.near_search import (
    Search,
    earlier_files,
    gone_by_file,
    numbers_by_file,
    shared_facts,
    sought_keys,
    with_named_keepers,
)
from pipelines.steps.near_sets import (
    read_scratch,
    set_files,
    verified_pairs,
    write_scratch,
    write_sets,
)
from pipelines.steps.near_signatures import STAGE, sign_file, signed_groups, signing, source_rank
from pipelines.steps.removed import Uids
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.tasks import Clock, ListTasks, Phase, Result, Task, Work, dealt, record_cost
from transforms.minhash import NearSettings, collision_probability
from transforms.record import ROW_BITS

EARLIER_TEXTS = "earlier texts read"
"""Counter: documents of earlier runs whose text was read, as they had a candidate."""


@dataclass(frozen=True)
class NearDedupeStage(Stage):
    """Sign, pair, verify, and keep a maximal independent set; see the module."""

    settings: NearSettings = field(default_factory=NearSettings)
    shuffle: ShuffleKind = "files"
    against: tuple[EarlierRun, ...] = ()
    """Runs whose documents come first in the keep order, and stay."""

    name: ClassVar[str] = STAGE
    parents: ClassVar[tuple[str, ...]] = ("ingest", "decontaminate", "dedupe.exact")

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on; what a letter is depends on Unicode."""
        unicode = {"unicode": unicodedata.unidata_version}
        return {**settings_json(self.settings), **unicode, **identities(self.against)}

    def note(self, corpus: Corpus) -> str:
        """Return the S-curve at the threshold and below it."""
        s = self.settings
        shares = [
            f"{collision_probability(jaccard, s.bands, s.rows):.4%} of the pairs at {jaccard:.2g}"
            for jaccard in (s.threshold, 0.75 * s.threshold, 0.5 * s.threshold)
        ]
        compared = f"{s.bands} bands of {s.rows} hashes compare " + ", ".join(shares)
        return "; ".join(filter(None, (compared, note(self.against))))

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
        return [
            Task(
                # Neither the threshold nor what other stages removed changes a signature.
                fingerprint=signing(self.settings, entry),
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
        receipts = tuple(result.receipt for result in results)
        return Search(corpus, receipts, self.fingerprint(corpus))

    def _narrow_tasks(
        self, search: Search, phase: str, more: Iterable[Uids], facts: dict[str, Any] | None = None
    ) -> list[Task]:
        """Return a task for each signed file, with its documents that are gone."""
        shared = {**shared_facts(search, self.against, self.settings), **(facts or {})}
        own = search.own_files()
        files = list(zip(own, gone_by_file(search.corpus, own, more), strict=True))
        earlier = earlier_files(self.against, self.settings)
        for origin, run in enumerate(self.against):
            of_run = [file for file in earlier if file.origin == origin]
            files += zip(of_run, gone_by_file(run.corpus, of_run), strict=True)
        return [
            self._task(
                search,
                key=f"{phase} {file.key}",
                payload=(file, gone),
                shared=shared,
                weight=file.rows,
            )
            for file, gone in files
        ]

    # Documents with equal sets.

    def _equal_tasks(self, search: Search) -> list[Task]:
        return self._narrow_tasks(search, "equal", ())

    def _with_equal(self, search: Search, results: list[Written]) -> Search:
        return replace(
            search, equal=tuple(r.path for r in results), counters=search.counted(results)
        )

    # Candidate pairs.

    def _band_tasks(self, search: Search) -> list[Task]:
        equal = (read_scratch(path)["doc_uid"].to_numpy() for path in search.equal)
        facts = sought_keys(search, self.against, self.settings.bands)
        return self._narrow_tasks(search, "bands", equal, facts)

    def _with_pairs(self, search: Search, results: list[Written]) -> Search:
        paths = tuple(r.path for r in results if r.order >= PAIRS)
        return replace(search, pairs=paths, counters=search.counted(results))

    # Sets of the candidates, and the comparison.

    def _set_tasks(self, search: Search) -> list[Task]:
        files = [*search.own_files(), *earlier_files(self.against, self.settings)]
        ranks = shared_facts(search, self.against, self.settings)["ranks"]
        return [
            self._task(
                search,
                key=f"sets {file.key}",
                payload=(file, wanted),
                shared=ranks,
                weight=len(wanted),
            )
            for file, wanted in numbers_by_file(search, files)
        ]

    def _write_sets(self, task: Task) -> Work:
        file, wanted = task.payload
        [signed, *_] = itertools.islice(signed_groups(file), 1)
        rank = source_rank(signed, task.shared[file.origin])
        sets = write_sets(task.store, file, wanted, rank, self.settings.ngram)
        return Work(value=sets, counters={EARLIER_TEXTS: len(wanted)} if file.earlier else {})

    def _with_sets(self, search: Search, results: list[Result]) -> Search:
        files = [result.value for result in results]
        table = {"index": [f.index for f in files], "values": [f.values for f in files]}
        strings = pa.table({name: pa.array(paths, pa.string()) for name, paths in table.items()})
        counters = search.counted(r.receipt for r in results)
        return replace(search, sets=write_scratch(search.store, strings), counters=counters)

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
        earlier = earlier_files(self.against, self.settings)
        table = with_named_keepers(table, self.against, earlier)
        folder = search.store.folder(self.name, search.artifact)
        partitions = shared_facts(search, self.against, self.settings)["partitions"]
        ranges = uid_partition(table["doc_uid"].to_numpy() >> ROW_BITS, partitions)
        files = [
            write_table(folder / f"duplicates-{number:05d}.parquet", part)
            for number, part in split(table, ranges, partitions)
        ]
        own = search.own_files()
        flags = flagged_clusters(table, search.corpus, own, self.against, self.settings)
        files.append(write_table(folder / "flags.parquet", flags, kind="flags"))
        counters = Counter(dict(search.counted(result.receipt for result in results)))
        counters["dropped"] = len(table)
        counters[REMOVED_AGAINST] = len(table) - table["keeper_ingest"].null_count
        record_cost(folder, clock)
        return self.commit(
            search.corpus,
            [*search.receipts, Receipt(task="", files=tuple(files))],
            counters=counters,
            config={"notes": flag_notes(flags, self.settings.flag_share)},
        )


class NearDedupe(Apply):
    """Remove documents that share most of their n-grams with a kept one: Corpus -> Corpus.

    Args:
        settings: the table ``[dedupe.near]``.
        shuffle: ``files`` or ``runner``.
        against: runs whose documents come first and stay; see :func:`pipelines.against.newest_run`.
    """

    def __init__(
        self,
        settings: NearSettings | None = None,
        *,
        shuffle: ShuffleKind = "files",
        against: Sequence[EarlierRun] = (),
    ) -> None:
        super().__init__(NearDedupeStage(settings or NearSettings(), shuffle, tuple(against)))

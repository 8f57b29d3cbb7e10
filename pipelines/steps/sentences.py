"""Stage ``dedupe.sentence``: sentences that many documents repeat are cut from their texts.

Text is read in the first phase, whose result is kept by ingest file, and once more for documents
that lose something; all else works on hashes:

1. split: the forms of all sentences, and their qualities;
2. count: over the distinct documents that are still there, by file, then by form;
3. group: similar forms of low quality, and their documents counted together;
4. decide: which forms are removed;
5. map back: spans of texts, and documents of which too little is left.
"""

import unicodedata
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam

from pipelines.artifacts import FileEntry, Receipt, fingerprint
from pipelines.barrier import Barrier
from pipelines.corpus import Corpus
from pipelines.runners import ShuffleKind
from pipelines.shuffle import Shuffle
from pipelines.steps.columns import partitions_for, write_table
from pipelines.steps.near_pairs import Written
from pipelines.steps.near_sets import read_scratch, write_scratch
from pipelines.steps.removed import removed_by_file
from pipelines.steps.sentence_counts import MERGED, by_form, count_file, merge
from pipelines.steps.sentence_decide import decide
from pipelines.steps.sentence_groups import (
    Forms,
    band_partitions,
    by_band,
    count_groups,
    counted_groups,
    group_forms,
    pair_forms,
)
from pipelines.steps.sentence_report import add_masses, reported
from pipelines.steps.sentence_search import Search
from pipelines.steps.sentence_spans import map_file
from pipelines.steps.sentence_units import check_quality_column, write_units
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.tasks import Clock, ListTasks, Phase, Result, Task, Work, dealt, record_cost
from transforms.sentence_lexicon import lexicon_digest
from transforms.sentence_quality import default_weights, read_weights
from transforms.sentences import SentenceSettings

_FORMS_PER_PARTITION = 1 << 20


@dataclass(frozen=True)
class SentenceStage(Stage):
    """Count sentences over distinct documents, and cut those that the rule names; see the module."""

    settings: SentenceSettings = field(default_factory=SentenceSettings)
    shuffle: ShuffleKind = "files"

    name: ClassVar[str] = "dedupe.sentence"
    version: ClassVar[int] = 3
    parents: ClassVar[tuple[str, ...]] = ("ingest", "decontaminate", "dedupe.exact", "dedupe.near")

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on; the weights stand for their file."""
        return {
            **settings_json(self.settings, without=("weights",)),
            "weights": [float(weight) for weight in self._weights()],
            "lexicon": lexicon_digest(),
            "unicode": unicodedata.unidata_version,
        }

    def _weights(self) -> Any:
        path = self.settings.weights
        return default_weights() if path is None else read_weights(path)

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        split = corpora | "Split" >> Phase(
            "Split", self._split_tasks, self._split, self._with_units
        )
        counted = split | "Count" >> Phase(
            "Count", self._count_tasks, self._count, self._with_counts
        )
        listed = counted | "List forms" >> beam.ParDo(ListTasks(self._form_tasks)).with_outputs(
            "adopted", main="missing"
        )
        merged = (
            dealt(listed.missing, "Forms")
            | "By form" >> Shuffle(by_form, self.shuffle)
            | "Merge" >> beam.Map(merge)
        )
        forms = (counted, (merged,)) | "Merged" >> Barrier(self._with_forms)
        keyed = forms | "List bands" >> beam.ParDo(ListTasks(self._band_tasks)).with_outputs(
            "adopted", main="missing"
        )
        pairs = (
            dealt(keyed.missing, "Bands")
            | "By band" >> Shuffle(by_band, self.shuffle)
            | "Pair" >> beam.Map(pair_forms)
        )
        grouped = (forms, (pairs,)) | "Group" >> Barrier(self._with_groups)
        decided = grouped | "Count groups" >> Phase(
            "Groups", self._group_tasks, self._count_groups, self._decide
        )
        return decided | "Map" >> Phase("Map", self._map_tasks, self._map, self._finish)

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

    # The sentences of each ingest file.

    def _split_tasks(self, corpus: Corpus) -> list[Task]:
        s = self.settings
        fields = {
            "unit": s.unit,
            "min_chars": s.min_chars,
            "quality_column": s.quality_column,
            "near_quality": s.near_quality,
            "weights": [float(weight) for weight in self._weights()],
            "lexicon": lexicon_digest(),
            "unicode": unicodedata.unidata_version,
        }
        check_quality_column(corpus, s.quality_column)
        return [
            Task(
                fingerprint=fingerprint(
                    stage=self.name,
                    version=self.version,
                    settings=fields,
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

    def _split(self, task: Task) -> Work:
        path = Path(task.payload)
        stem = f"{path.name[:10]}-{task.fingerprint[:12]}.parquet"
        documents, forms = task.folder / f"units-{stem}", task.folder / f"forms-{stem}"
        found = write_units(path, documents, forms, self.settings, self._weights())
        files = [
            FileEntry.of(documents, rows=found.documents, kind="units"),
            FileEntry.of(forms, rows=found.forms, kind="forms"),
        ]
        return Work(files)

    def _with_units(self, corpus: Corpus, results: list[Result]) -> Search:
        return Search(corpus, tuple(result.receipt for result in results))

    # Counts.

    def _count_tasks(self, search: Search) -> list[Task]:
        removed = removed_by_file(search.corpus)
        sources = list(search.corpus.manifest("ingest").config["sources"])
        return [
            self._task(
                search,
                key=f"count {number}",
                payload=(number, documents, forms, removed.get(name)),
                shared=sources,
                weight=rows,
            )
            for number, (name, documents, forms, rows) in enumerate(
                search.files(self.name, self.fingerprint(search.corpus))
            )
        ]

    def _count(self, task: Task) -> Work:
        number, documents, forms, removed = task.payload
        counted = count_file(
            task.store, documents, forms, removed, task.shared, self.settings.domains
        )
        return Work(value=(number, counted))

    def _with_counts(self, search: Search, results: list[Result]) -> Search:
        found = [result.value for result in results if result.value[1] is not None]
        counted = tuple(counted for _, counted in found)
        counters = {
            "documents": sum(c.documents for c in counted),
            "sentences": sum(c.sentences for c in counted),
            "characters": sum(c.chars for c in counted),
        }
        return replace(
            search,
            counted=counted,
            searched=tuple(number for number, _ in found),
            counters=tuple(counters.items()),
        )

    def _form_tasks(self, search: Search) -> list[Task]:
        rows = sum(counted.forms for counted in search.counted)
        shared = {
            "partitions": partitions_for(rows, rows_each=_FORMS_PER_PARTITION),
            "near": bool(self.settings.near),
        }
        return [
            self._task(
                search, key=f"forms {n}", payload=counted.path, shared=shared, weight=counted.forms
            )
            for n, counted in enumerate(search.counted)
        ]

    def _with_forms(self, search: Search, results: list[Written]) -> Search:
        clock = Clock()
        paths = [result.path for result in results]
        if not paths:
            paths = [write_scratch(search.store, MERGED.empty_table())]
        forms = Forms.of(paths)
        record_cost(search.store.folder(self.name, self.fingerprint(search.corpus)), clock)
        return replace(search, forms=forms, counters=search.counted_with(results))

    # Similar forms.

    def _band_tasks(self, search: Search) -> list[Task]:
        if not self.settings.near:
            return []
        forms = search.forms
        shared = {
            "settings": self.settings,
            "forms": forms,
            "partitions": band_partitions(forms.starts[-1]),
        }
        return [
            self._task(
                search,
                key=f"bands {n}",
                payload=(path, forms.starts[n]),
                shared=shared,
                weight=forms.starts[n + 1] - forms.starts[n],
            )
            for n, path in enumerate(forms.paths)
        ]

    def _with_groups(self, search: Search, results: list[Written]) -> Search:
        clock = Clock()
        above = self.settings.frequent_above(search.documents)
        groups = group_forms(search.store, search.forms, [r.path for r in results], above)
        record_cost(search.store.folder(self.name, self.fingerprint(search.corpus)), clock)
        return replace(search, groups=groups, counters=search.counted_with(results))

    def _group_tasks(self, search: Search) -> list[Task]:
        if search.groups is None:
            return []
        removed = removed_by_file(search.corpus)
        sources = list(search.corpus.manifest("ingest").config["sources"])
        files = search.files(self.name, self.fingerprint(search.corpus))
        return [
            self._task(
                search,
                key=f"groups {number}",
                payload=(*files[number][1:3], removed.get(files[number][0])),
                shared=(sources, search.groups),
                weight=files[number][3],
            )
            for number in search.searched
        ]

    def _count_groups(self, task: Task) -> Work:
        documents, forms, removed = task.payload
        return Work(value=count_groups(task.store, documents, forms, removed, *task.shared))

    # The decision.

    def _decide(self, search: Search, results: list[Result]) -> Search:
        clock = Clock()
        groups = None
        if search.groups is not None:
            groups = counted_groups(search.groups, [result.value for result in results])
        paths = search.forms.paths
        decided = decide(search.store, paths, search.documents, self.settings, groups)
        record_cost(search.store.folder(self.name, self.fingerprint(search.corpus)), clock)
        return replace(search, decided=decided)

    # Back to the documents.

    def _map_tasks(self, search: Search) -> list[Task]:
        if search.decided is None:
            raise RuntimeError("sentences are mapped back after the decision")
        removed = removed_by_file(search.corpus)
        files = search.files(self.name, self.fingerprint(search.corpus))
        tasks = []
        for number in search.searched:
            name, documents, forms, rows = files[number]
            tasks.append(
                self._task(
                    search,
                    key=f"map {number}",
                    payload=(name, documents, forms, removed.get(name)),
                    shared=(search.decided.removed, search.decided.listed),
                    weight=rows,
                )
            )
        return tasks

    def _map(self, task: Task) -> Work:
        name, documents, forms, removed = task.payload
        mapped = map_file(
            task.corpus.folder("ingest") / name,
            documents,
            forms,
            removed,
            task.shared,
            task.folder,
            self.settings,
        )
        return Work(list(mapped.files), mapped.counters, value=mapped)

    def _finish(self, search: Search, results: list[Result]) -> Corpus:
        clock = Clock()
        if search.decided is None:
            raise RuntimeError("sentences are mapped back after the decision")
        folder = search.store.folder(self.name, self.fingerprint(search.corpus))
        listed = reported(read_scratch(search.decided.listed), [r.value for r in results])
        entry = write_table(folder / "sentences-00000.parquet", listed, kind="sentences")
        counters = Counter(dict(search.counters))
        for result in results:
            counters.update(result.receipt.counters)
        shares = add_masses(counters, listed)
        documents = search.documents
        record_cost(folder, clock)
        files = [file for result in results for file in result.receipt.files]
        return self.commit(
            search.corpus,
            [*search.receipts, Receipt(task="", files=(*files, entry))],
            counters=counters,
            config={
                "frequent_above": self.settings.frequent_above(documents),
                "extreme_above": self.settings.extreme_above(documents),
                **shares,
            },
        )


class SentenceDedupe(Apply):
    """Cut sentences that many documents repeat: Corpus -> Corpus."""

    def __init__(
        self, settings: SentenceSettings | None = None, *, shuffle: ShuffleKind = "files"
    ) -> None:
        super().__init__(SentenceStage(settings or SentenceSettings(), shuffle))

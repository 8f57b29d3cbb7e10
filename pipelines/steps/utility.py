"""Stage ``utility``: which documents help on a target text.

Three phases. Text is read in the first for a sample, and in the last for all documents:

1. sample: the tokens of the documents to measure, and of those that the measuring model has seen;
2. measure: what each candidate does to the loss on the target; one worker then fits the student;
3. score: the student and the similarity to the target go over every ingest file, whose scores are
   kept by file; one worker turns the scores into weights.
"""

import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.artifacts import FileEntry, Receipt, Workdir, fingerprint
from pipelines.corpus import DOCUMENT_STAGES, Corpus
from pipelines.steps.columns import partitions_for, split, uid_partition, write_table
from pipelines.steps.near_sets import read_scratch, write_scratch
from pipelines.steps.removed import REMOVING_STAGES, removed_by_file
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.steps.utility_sample import PER_TASK, count_sample, draw, measure, sample_file
from pipelines.steps.utility_scores import score_file, scores_left, weighted
from pipelines.steps.utility_tables import flat, known
from pipelines.steps.utility_target import TargetFiles, inspect_target, read_target
from pipelines.tasks import Clock, Phase, Result, Task, Work, record_cost
from transforms.record import ROW_BITS, RecordError
from transforms.student import (
    BUCKETS,
    Reliability,
    buckets_of,
    fit,
    reliability,
    score,
)
from transforms.text import IngestSettings
from transforms.utility import (
    UtilitySettings,
    gather,
    held_out,
)


@dataclass(frozen=True, slots=True)
class Measuring:
    """A corpus on its way through the phases."""

    corpus: Corpus
    folder: str = ""
    """Scratch folder with the tokens of the sample and what the model counted."""
    candidates: int = 0
    files: tuple[FileEntry, ...] = ()
    """Student and measured candidates."""
    facts: Any = None
    """What the manifest's config says of target and student."""

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.corpus.store


@dataclass(frozen=True)
class UtilityStage(Stage):
    """Measure a sample, fit a student, score every document; see the module."""

    settings: UtilitySettings
    ingest: IngestSettings
    target: TargetFiles
    seed: int = 0

    name: ClassVar[str] = "utility"
    parents: ClassVar[tuple[str, ...]] = (*DOCUMENT_STAGES, *REMOVING_STAGES)

    @classmethod
    def prepare(
        cls, settings: UtilitySettings, ingest: IngestSettings, seed: int
    ) -> "UtilityStage":
        """Look at the target files.

        Raises:
            RecordError: they are missing, not readable as text, or empty.
        """
        return cls(settings, ingest, inspect_target(settings, ingest), seed)

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        settings = settings_json(self.settings, without=("target", "text"))
        return {**settings, "content": list(self.target.content), "seed": self.seed}

    def identity(self) -> dict[str, Any]:
        """Return what the fingerprint holds; the texts depend on their key and normalization."""
        ingest = {name: getattr(self.ingest, name) for name in ("line_ends", "control", "unicode")}
        return {**self.config(), "text": self.settings.text, "ingest": ingest}

    def note(self, corpus: Corpus) -> str:
        """Return what is measured, and how well the student ranks where that is known."""
        asked = (
            f"{self.settings.candidates:,} documents are measured on {self.target.tokens:,} tokens "
            f"of {self.target.documents:,} target documents"
        )
        done = corpus.store.committed(self.name, self.fingerprint(corpus))
        return asked if done is None else f"{asked}; {_told(done.config['student'])}"

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        sampled = corpora | "Sample" >> Phase(
            "Sample", self._sample_tasks, self._sample, self._sampled
        )
        measured = sampled | "Measure" >> Phase(
            "Measure", self._measure_tasks, self._measure, self._measured
        )
        return measured | "Score" >> Phase("Score", self._score_tasks, self._score, self._finish)

    def _task(self, corpus: Corpus, *, key: str, **fields: Any) -> Task:
        """Return a task whose work is not kept."""
        return Task(
            fingerprint=fingerprint(stage=self.name, task=key),
            corpus=corpus,
            stage=self.name,
            artifact=self.fingerprint(corpus),
            **{"cached": False, **fields},
        )

    # The sample.

    def _sample_tasks(self, corpus: Corpus) -> list[Task]:
        found = draw(corpus, self.settings, self.seed)
        if found is None:
            return []
        drawn, members = found
        return [
            self._task(
                corpus, key=f"sample {path}", payload=(path, wanted, drawn), weight=len(wanted)
            )
            for path, wanted in members.items()
            if len(wanted)
        ]

    def _sample(self, task: Task) -> Work:
        path, wanted, drawn = task.payload
        table = sample_file(path, wanted, drawn, self.seed)
        task.store.scratch.mkdir(parents=True, exist_ok=True)
        return Work(value=write_scratch(task.store, table))

    def _sampled(self, corpus: Corpus, results: list[Result]) -> Measuring:
        clock = Clock()
        text = read_target(self.settings, self.ingest, self.target.content)
        folder = corpus.store.scratch / uuid.uuid4().hex
        folder.mkdir(parents=True)
        counted = count_sample(folder, [read_scratch(r.value) for r in results], text)
        record_cost(corpus.store.folder(self.name, self.fingerprint(corpus)), clock)
        facts = {
            "target": {"documents": self.target.documents, "tokens": self.target.tokens},
            "reference_tokens": counted.reference_tokens,
            "loss_bits_per_token": round(counted.bits / self.target.tokens, 6),
        }
        return Measuring(corpus, str(folder), counted.candidates, facts=facts)

    # The measurement.

    def _measure_tasks(self, measuring: Measuring) -> list[Task]:
        return [
            self._task(
                measuring.corpus,
                key=f"measure {number}",
                payload=(measuring.folder, number),
                weight=PER_TASK,
            )
            for number in range(-(-measuring.candidates // PER_TASK))
        ]

    def _measure(self, task: Task) -> Work:
        folder, number = task.payload
        return Work(value=measure(folder, number))

    def _measured(self, measuring: Measuring, results: list[Result]) -> Measuring:
        clock = Clock()
        corpus, source = measuring.corpus, Path(measuring.folder)
        uid = np.concatenate([np.empty(0, np.int64), *(r.value[0] for r in results)])
        saved = np.concatenate([np.empty(0), *(r.value[1] for r in results)])
        offsets, tokens = flat(pq.read_table(source / "candidates.parquet", use_threads=False))
        out = held_out(uid, self.seed)
        learnt = np.flatnonzero(~out)
        bounds, values = gather(offsets[learnt], np.diff(offsets)[learnt], tokens)
        learner = fit(
            *buckets_of(bounds, values), saved[learnt], tau=self.settings.tau, seed=self.seed
        )
        with np.load(source / "model.npz") as model:
            similar = model["similar"]
        predicted, likeness = score(offsets, tokens, np.stack([learner, similar]))
        judged = reliability(saved[out], known(predicted[out]))
        compared = reliability(saved[out], known(likeness[out]))
        self._refuse_unreliable(judged)
        columns = {
            "doc_uid": uid,
            "measured": saved,
            "predicted": predicted,
            "similarity": likeness,
            "held_out": out,
        }
        student = {"bucket": np.arange(BUCKETS), "utility": learner, "similarity": similar}
        artifact = corpus.store.folder(self.name, self.fingerprint(corpus))
        artifact.mkdir(parents=True, exist_ok=True)
        files = (
            write_table(artifact / "candidates.parquet", pa.table(columns), kind="candidates"),
            write_table(artifact / "student.parquet", pa.table(student), kind="student"),
        )
        record_cost(artifact, clock)
        facts = {**measuring.facts, "student": asdict(judged), "similarity": asdict(compared)}
        return Measuring(corpus, "", len(uid), files, facts)

    def _refuse_unreliable(self, judged: Reliability) -> None:
        if self.settings.strict and not judged.reliable:
            raise RecordError(
                f"mixture.utility: {_told(asdict(judged))}; strict = true ends the run: give more "
                "target text or candidates, or set strict = false"
            )

    # The scores.

    def _score_tasks(self, measuring: Measuring) -> list[Task]:
        corpus = measuring.corpus
        [student] = [entry for entry in measuring.files if entry.kind == "student"]
        artifact = self.fingerprint(corpus)
        return [
            self._task(
                corpus,
                key=f"score {entry.sha256} by {student.sha256}",
                payload=str(path),
                shared=str(corpus.store.folder(self.name, artifact) / student.name),
                weight=entry.bytes,
                cached=True,
            )
            for entry, path in corpus.documents()
        ]

    def _score(self, task: Task) -> Work:
        path = Path(task.payload)
        table = score_file(path, task.shared)
        name = f"scores-{path.name[:10]}-{task.fingerprint[:12]}.parquet"
        return Work([write_table(task.folder / name, table, kind="scores")])

    def _finish(self, measuring: Measuring, results: list[Result]) -> Corpus:
        clock = Clock()
        corpus = measuring.corpus
        folder = corpus.store.folder(self.name, self.fingerprint(corpus))
        removed = removed_by_file(corpus)
        paths = [folder / result.receipt.files[0].name for result in results]
        table = scores_left(paths, [removed.get(e.name) for e, _ in corpus.documents()])
        reliable = bool(measuring.facts["student"]["reliable"])
        table = weighted(table, self.settings, reliable=reliable)
        partitions = partitions_for(len(table))
        number = uid_partition(table["doc_uid"].to_numpy() >> ROW_BITS, partitions)
        files = [
            write_table(folder / f"weights-{n:05d}.parquet", part)
            for n, part in split(table, number, partitions)
        ]
        record_cost(folder, clock)
        receipts = [r.receipt for r in results]
        return self.commit(
            corpus,
            [*receipts, Receipt(task="", files=(*files, *measuring.files))],
            counters={"scored": len(table), "measured": measuring.candidates},
            config={**measuring.facts, "notes": _notes(measuring.facts["student"])},
        )


def _told(student: dict[str, Any]) -> str:
    found = (
        f"the student's ranks of {student['documents']:,} measured documents it did not learn from "
        f"correlate by {student['spearman']:.3f} with the measured ones (top tenth: "
        f"{student['lift']:.1f} times as often as by chance)"
    )
    return found if student["reliable"] else f"{found}, no better than chance"


def _notes(student: dict[str, Any]) -> list[str]:
    """Return what the one who asked should know."""
    if student["reliable"]:
        return []
    return [f"mixture.utility has no effect: {_told(student)}, so all weights are 1"]


class MeasureUtility(Apply):
    """Weigh documents by what they do for a target text: Corpus -> Corpus."""

    def __init__(
        self,
        settings: UtilitySettings,
        *,
        ingest: IngestSettings | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(UtilityStage.prepare(settings, ingest or IngestSettings(), seed))

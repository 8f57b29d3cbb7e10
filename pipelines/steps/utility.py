"""Stage ``utility``: which documents help on a target text.

Three phases. Text is read in the first for a sample, and in the last for all documents:

1. sample: the tokens of the documents to measure, and of those that the measuring model has seen;
2. measure: what each candidate does to the loss on the target; one worker then fits the student;
3. score: the student and the similarity to the target go over every ingest file, whose scores are
   kept by file; one worker turns the scores into weights.
"""

import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.artifacts import FileEntry, Receipt, Workdir, fingerprint
from pipelines.corpus import DOCUMENT_STAGES, Corpus
from pipelines.steps.columns import partitions_for, row_groups, split, uid_partition, write_table
from pipelines.steps.near_sets import read_scratch, write_scratch
from pipelines.steps.removed import REMOVING_STAGES, kept_rows, removed_by_file
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.steps.utility_target import TargetFiles, inspect_target, read_target
from pipelines.tasks import Clock, Phase, Result, Task, Work, record_cost
from transforms.proxy import Target, count, loss, target_of, utilities
from transforms.record import ROW_BITS, RecordError
from transforms.shingles import text_blocks, token_hashes
from transforms.student import (
    BUCKETS,
    Reliability,
    buckets_of,
    fit,
    importance,
    reliability,
    score,
)
from transforms.text import IngestSettings
from transforms.utility import (
    UtilitySettings,
    draw_sample,
    gather,
    held_out,
    quantiles,
    weights,
    windows,
)

_PER_TASK = 256
"""Candidates that one task measures."""


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
        removed = removed_by_file(corpus)
        uids, strata, files = [], [], []
        for entry, path in corpus.documents():
            for group in row_groups(path, ("doc_uid", "reason", "source", "domain")):
                kept = group.filter(kept_rows(group, removed.get(entry.name)))
                uids.append(kept["doc_uid"].to_numpy())
                strata.append(pc.binary_join_element_wise(kept["source"], kept["domain"], "\0"))
                files.append((str(path), uids[-1]))
        if not uids:
            return []
        uid = np.concatenate(uids)
        drawn = draw_sample(uid, _codes(strata), self.settings, self.seed)
        wanted = np.union1d(drawn.candidates, drawn.reference)
        by_path: dict[str, list[npt.NDArray[np.int64]]] = {}
        for path_, members in files:
            by_path.setdefault(path_, []).append(np.intersect1d(members, wanted))
        return [
            self._task(
                corpus,
                key=f"sample {path}",
                payload=(path, np.concatenate(parts), drawn),
                weight=sum(map(len, parts)),
            )
            for path, parts in by_path.items()
            if sum(map(len, parts))
        ]

    def _sample(self, task: Task) -> Work:
        path, wanted, drawn = task.payload
        uids, sizes, values = [], [], []
        for group in row_groups(Path(path), ("doc_uid", "text")):
            taken = group.filter(pc.is_in(group["doc_uid"], pa.array(wanted)))
            for uid, offsets, tokens in _tokens(taken):
                bounds, cut = windows(uid, offsets, tokens, self.seed)
                uids.append(uid)
                sizes.append(np.diff(bounds))
                values.append(cut)
        uid = np.concatenate(uids)
        table = pa.table(
            {
                "doc_uid": uid,
                "candidate": np.isin(uid, drawn.candidates),
                "tokens": _lists(np.concatenate(sizes), np.concatenate(values)),
            }
        )
        task.store.scratch.mkdir(parents=True, exist_ok=True)
        return Work(value=write_scratch(task.store, table))

    def _sampled(self, corpus: Corpus, results: list[Result]) -> Measuring:
        clock = Clock()
        empty = pa.table(
            {
                "doc_uid": pa.array([], pa.int64()),
                "candidate": pa.array([], pa.bool_()),
                "tokens": pa.array([], pa.large_list(pa.uint64())),
            }
        )
        table = pa.concat_tables([empty, *(read_scratch(r.value) for r in results)])
        table = table.sort_by("doc_uid")
        chosen = table.filter(table["candidate"])
        offsets, tokens = _flat(table.filter(pc.invert(table["candidate"])))
        text = read_target(self.settings, self.ingest, self.target.content)
        target = target_of(*text)
        counts, total = count(target, offsets, tokens)
        similar = importance(buckets_of(*text)[1], buckets_of(offsets, tokens)[1])
        folder = corpus.store.scratch / uuid.uuid4().hex
        folder.mkdir(parents=True)
        np.savez(
            folder / "model.npz",
            keys=target.keys,
            table=target.table,
            events=target.events,
            times=target.times,
            counts=counts,
            total=np.int64(total),
            similar=similar,
        )
        pq.write_table(chosen, folder / "candidates.parquet", row_group_size=_PER_TASK)
        bits = loss(target, counts, total) / target.tokens
        record_cost(corpus.store.folder(self.name, self.fingerprint(corpus)), clock)
        facts = {
            "target": {"documents": self.target.documents, "tokens": self.target.tokens},
            "reference_tokens": total,
            "loss_bits_per_token": round(bits, 6),
        }
        return Measuring(corpus, str(folder), len(chosen), facts=facts)

    # The measurement.

    def _measure_tasks(self, measuring: Measuring) -> list[Task]:
        return [
            self._task(
                measuring.corpus,
                key=f"measure {number}",
                payload=(measuring.folder, number),
                weight=_PER_TASK,
            )
            for number in range(-(-measuring.candidates // _PER_TASK))
        ]

    def _measure(self, task: Task) -> Work:
        folder, number = task.payload
        with np.load(Path(folder) / "model.npz") as model:
            target = Target(model["keys"], model["table"], model["events"], model["times"])
            counts, total = model["counts"], int(model["total"])
        with pq.ParquetFile(Path(folder) / "candidates.parquet") as file:
            group = file.read_row_group(number, use_threads=False)
        # Rounded, so that the last bits of a machine's logarithm matter less.
        saved = np.round(utilities(target, counts, total, *_flat(group)), 9)
        return Work(value=(group["doc_uid"].to_numpy(), saved))

    def _measured(self, measuring: Measuring, results: list[Result]) -> Measuring:
        clock = Clock()
        corpus, source = measuring.corpus, Path(measuring.folder)
        uid = np.concatenate([np.empty(0, np.int64), *(r.value[0] for r in results)])
        saved = np.concatenate([np.empty(0), *(r.value[1] for r in results)])
        offsets, tokens = _flat(pq.read_table(source / "candidates.parquet", use_threads=False))
        out = held_out(uid, self.seed)
        learnt = np.flatnonzero(~out)
        bounds, values = gather(offsets[learnt], np.diff(offsets)[learnt], tokens)
        learner = fit(
            *buckets_of(bounds, values), saved[learnt], tau=self.settings.tau, seed=self.seed
        )
        with np.load(source / "model.npz") as model:
            similar = model["similar"]
        predicted, likeness = score(offsets, tokens, np.stack([learner, similar]))
        judged = reliability(saved[out], _known(predicted[out]))
        compared = reliability(saved[out], _known(likeness[out]))
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
        student = pq.read_table(task.shared, use_threads=False)
        by = np.stack([student[name].to_numpy() for name in ("utility", "similarity")])
        uids, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        scores = [np.empty((2, 0), np.float32)]
        for group in row_groups(path, ("doc_uid", "reason", "text")):
            for uid, offsets, tokens in _tokens(group.filter(pc.is_null(group["reason"]))):
                uids.append(uid)
                sizes.append(np.diff(offsets))
                scores.append(score(offsets, tokens, by))
        utility, similarity = np.concatenate(scores, axis=1)
        table = pa.table(
            {
                "doc_uid": np.concatenate(uids),
                "words": np.concatenate(sizes),
                "utility": utility,
                "similarity": similarity,
            }
        )
        name = f"scores-{path.name[:10]}-{task.fingerprint[:12]}.parquet"
        return Work([write_table(task.folder / name, table, kind="scores")])

    def _finish(self, measuring: Measuring, results: list[Result]) -> Corpus:
        clock = Clock()
        corpus = measuring.corpus
        folder = corpus.store.folder(self.name, self.fingerprint(corpus))
        removed = removed_by_file(corpus)
        tables = []
        for (entry, _), result in zip(corpus.documents(), results, strict=True):
            [scored] = result.receipt.files
            table = pq.read_table(folder / scored.name, use_threads=False)
            gone = removed.get(entry.name)
            if gone is not None:
                table = table.filter(pc.invert(pc.is_in(table["doc_uid"], pa.array(gone))))
            tables.append(table)
        table = pa.concat_tables(tables).sort_by("doc_uid").combine_chunks()
        names = ("utility", "similarity", "words")
        utility, similarity, size = (table[name].to_numpy() for name in names)
        reliable = bool(measuring.facts["student"]["reliable"])
        weight = weights(utility, similarity, size, self.settings)
        if not reliable:
            weight = np.ones_like(weight)
        table = pa.table(
            {
                "doc_uid": table["doc_uid"],
                "words": table["words"],
                "utility": pa.array(utility, from_pandas=True),
                "similarity": pa.array(similarity, from_pandas=True),
                "utility_quantile": pa.array(_float32(quantiles(utility, size)), from_pandas=True),
                "similarity_quantile": pa.array(
                    _float32(quantiles(similarity, size)), from_pandas=True
                ),
                "weight": weight,
            }
        )
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


def _known(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    return np.nan_to_num(scores.astype(np.float64), nan=-np.inf)


def _float32(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    return values.astype(np.float32)


def _codes(strata: list[pa.ChunkedArray]) -> npt.NDArray[np.int32]:
    """Return numbers for strings, in the order of the strings."""
    whole = pa.chunked_array([chunk for column in strata for chunk in column.chunks], pa.string())
    rank = pc.rank(whole, tiebreaker="dense").to_numpy(zero_copy_only=False)
    codes: npt.NDArray[np.int32] = rank.astype(np.int32) - 1
    return codes


def _tokens(table: pa.Table) -> Iterator[tuple[Any, Any, Any]]:
    """Yield addresses, where each document's tokens begin, and the tokens; block by block."""
    place = 0
    uid = table["doc_uid"].to_numpy()
    for block in text_blocks(table["text"]):
        yield uid[place : place + len(block)], *token_hashes(block)
        place += len(block)


def _lists(sizes: npt.NDArray[np.int64], values: npt.NDArray[np.uint64]) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return pa.LargeListArray.from_arrays(offsets, pa.array(values))


def _flat(table: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Return where each document's tokens begin, and the tokens."""
    column = table["tokens"].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    sizes = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return offsets, column.flatten().to_numpy(zero_copy_only=False).astype(np.uint64)


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

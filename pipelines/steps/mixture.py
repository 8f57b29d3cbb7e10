"""Stage ``mixture``: how often each document is drawn."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.artifacts import FileEntry, fingerprint
from pipelines.corpus import Corpus
from pipelines.steps.columns import partitions_for, row_groups, split, uid_partition, write_table
from pipelines.steps.lengths import Lengths, read_lengths
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.tasks import Phase, Result, Task, Work
from transforms.mixture import REPORT_SCHEMA, MixtureSettings, SoftWeights, mixture
from transforms.record import ROW_BITS, RecordError

_DUPLICATE_STAGES = ("dedupe.exact", "dedupe.near")
_BYTES_PER_TOKEN = 4
"""Of UTF-8 text; English and Chinese are both near it with vocabularies of usual size."""

Uids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MixtureStage(Stage):
    """Draw documents on one worker, from 14 bytes per document."""

    settings: MixtureSettings
    seed: int = 0
    longest: int | None = None
    """Tokens above which packing drops a document; such a one is not counted, nor drawn."""

    name: ClassVar[str] = "mixture"
    parents: ClassVar[tuple[str, ...]] = (
        "ingest",
        "decontaminate",
        *_DUPLICATE_STAGES,
        "dedupe.sentence",
        "synthesize",
        "encode",
        "utility",
    )

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        # What utility depends on is in the fingerprint of its stage, a parent of this one.
        settings = settings_json(self.settings, without=("utility",))
        return {**settings, "seed": self.seed, "longest": self.longest}

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        return corpora | "Draw" >> Phase("Draw", self._tasks, self._draw, self._finish)

    def note(self, corpus: Corpus) -> str:
        """Return what the mixture can reach: exactly, or by estimate before documents are encoded."""
        if not _committed(corpus, "ingest"):
            return ""
        measured = _committed(corpus, "encode")
        if measured:
            known = self.settings.utility is None or _committed(corpus, "utility")
            settings = self.settings if known else replace(self.settings, utility=None)
            *_, report = replace(self, settings=settings)._mix(corpus)
        else:
            report = self._estimate(corpus)
        reached = _tokens(sum(report["quota"].to_pylist()))
        notes = _notes(self.settings, report) or [f"reaches {reached} tokens, no domain runs dry"]
        if not measured:
            notes.append(
                f"an estimate, by {_BYTES_PER_TOKEN} bytes of text a token"
                + ", before duplicates are removed" * any(map(corpus.has, _DUPLICATE_STAGES))
            )
        return "; ".join(notes)

    def _tasks(self, corpus: Corpus) -> list[Task]:
        artifact = self.fingerprint(corpus)
        mark = fingerprint(stage=self.name, artifact=artifact)
        return [Task(mark, corpus, self.name, artifact)]

    def _draw(self, task: Task) -> Work:
        lengths, weight, copies, report = self._mix(task.corpus)
        ones = np.ones(len(copies), np.float32)
        soft_weight = ones if weight is None else weight.astype(np.float32)
        columns = {
            "doc_uid": lengths.doc_uid,
            "copies": copies,
            "weight": soft_weight if self._weighs_loss else ones,
            "soft_weight": soft_weight,
        }
        table = pa.table(columns)
        partitions = partitions_for(len(table))
        number = uid_partition(lengths.doc_uid >> ROW_BITS, partitions)
        files: list[FileEntry] = []
        for n, part in split(table, number, partitions):
            files.append(write_table(task.folder / f"copies-{n:05d}.parquet", part))
        files.append(write_table(task.folder / "report.parquet", report, kind="report"))
        tokens = int((lengths.n_tokens.astype(np.int64) * copies).sum())
        counters = {
            "mixture": int((copies == 0).sum()),
            "documents": int((copies > 0).sum()),
            "copies": int(copies.sum(dtype=np.int64)),
            "tokens": tokens,
            "weighted": int(((columns["weight"] != 1) & (copies > 0)).sum()),
        }
        return Work(files, counters, {"notes": _notes(self.settings, report)})

    def _finish(self, corpus: Corpus, results: list[Result]) -> Corpus:
        receipts = [result.receipt for result in results]
        return self.commit(corpus, receipts, config={"notes": receipts[0].detail["notes"]})

    @property
    def _weighs_loss(self) -> bool:
        return self.settings.soft is not None and self.settings.soft.apply == "loss"

    def _mix(
        self, corpus: Corpus
    ) -> tuple[Lengths, npt.NDArray[np.float64] | None, npt.NDArray[np.int16], pa.Table]:
        """Return the documents, their soft weights, how often each is drawn, and the report."""
        lengths = self._lengths(corpus)
        weight = _soft_weights(corpus, self.settings, lengths.doc_uid)
        drawn_by = weight
        if weight is not None and self._weighs_loss:
            drawn_by = (weight > 0).astype(np.float64)
        copies, report = mixture(
            lengths.n_tokens,
            lengths.domain,
            lengths.domains,
            lengths.doc_uid,
            self.settings,
            seed=self.seed,
            weight=drawn_by,
        )
        return lengths, weight, copies, report

    def _estimate(self, corpus: Corpus) -> pa.Table:
        """Return the report as it would be for documents of as many tokens as their bytes suggest."""
        tables = []
        for _, path in corpus.documents():
            for group in row_groups(path, ("doc_uid", "n_bytes", "domain", "reason")):
                tables.append(group.filter(pc.is_null(group["reason"])).drop_columns("reason"))
        if not tables:
            return REPORT_SCHEMA.empty_table()
        table = pa.concat_tables(tables).sort_by("doc_uid")
        domain = table["domain"].combine_chunks().dictionary_encode()
        sizes = -(-table["n_bytes"].to_numpy() // _BYTES_PER_TOKEN)
        lengths = self._drawable(
            Lengths(
                table["doc_uid"].to_numpy(),
                np.clip(sizes, 1, np.iinfo(np.int32).max).astype(np.int32),
                domain.indices.to_numpy(zero_copy_only=False).astype(np.int16),
                tuple(domain.dictionary.to_pylist()),
            )
        )
        settings = replace(self.settings, soft=None, utility=None)
        return mixture(
            lengths.n_tokens,
            lengths.domain,
            lengths.domains,
            lengths.doc_uid,
            settings,
            seed=self.seed,
        )[1]

    def _lengths(self, corpus: Corpus) -> Lengths:
        """Return the documents to draw from."""
        return self._drawable(read_lengths(corpus))

    def _drawable(self, lengths: Lengths) -> Lengths:
        """Leave out what packing would drop; add domains that are named and have no document."""
        chosen = lengths.n_tokens > 0
        if self.longest is not None:
            chosen &= lengths.n_tokens <= self.longest
        empty = [name for name in self.settings.weights if name not in lengths.domains]
        return Lengths(
            lengths.doc_uid[chosen],
            lengths.n_tokens[chosen],
            lengths.domain[chosen],
            (*lengths.domains, *empty),
        )


def _committed(corpus: Corpus, stage: str) -> bool:
    return corpus.store.committed(stage, corpus.fingerprint(stage)) is not None


def _notes(settings: MixtureSettings, report: pa.Table) -> list[str]:
    """Return what the one who asked should know: what is not reached, and which domains lack it."""
    notes = []
    found = report.to_pydict()
    reached = sum(found["quota"])
    if reached < settings.tokens:
        notes.append(
            f"mixture reaches {_tokens(reached)} of {_tokens(settings.tokens)} tokens: "
            f"max_epochs = {settings.max_epochs:g} allows no more"
        )
    for name, wanted, limit in zip(found["domain"], found["asked"], found["most"], strict=True):
        if wanted > limit:
            notes.append(
                f"mixture domain {name} runs dry: {_tokens(limit)} of {_tokens(wanted)} tokens"
            )
    left_out = [n for n in found["domain"] if settings.weights and n not in settings.weights]
    if left_out:
        notes.append(f"mixture.weights leaves out {', '.join(left_out)}")
    return notes


def _tokens(count: int) -> str:
    return f"{count / 1e6:.3f}M"


def _soft_weights(
    corpus: Corpus, settings: MixtureSettings, doc_uid: Uids
) -> npt.NDArray[np.float64] | None:
    """Return the weight of each document inside its domain, or None where all are alike."""
    if settings.soft is None and settings.utility is None:
        return None
    weight = np.ones(len(doc_uid))
    if settings.soft is not None:
        weight *= _given_weights(corpus, settings.soft, doc_uid)
    if settings.utility is not None:
        weight *= _utility(corpus, doc_uid)
    # Rounded, so that the last bits of a machine's power function do not matter.
    rounded: npt.NDArray[np.float64] = weight.astype(np.float32).astype(np.float64)
    return rounded


def _given_weights(corpus: Corpus, soft: SoftWeights, doc_uid: Uids) -> npt.NDArray[np.float64]:
    """Return what ``[mixture.soft]`` alone says of each document."""
    weight = np.ones(len(doc_uid))
    if soft.frequency:
        weight *= _frequency(corpus, doc_uid).astype(np.float64) ** soft.frequency
    if soft.column is not None:
        values = _column(corpus, soft.column, soft.missing, doc_uid)
        with np.errstate(divide="ignore", invalid="ignore"):
            weight *= values**soft.power
    return weight


def _utility(corpus: Corpus, doc_uid: Uids) -> npt.NDArray[np.float64]:
    """Return the weights by utility; 1 for documents that have none."""
    weight = np.ones(len(doc_uid))
    for entry in corpus.manifest("utility").entries():
        path = corpus.folder("utility") / entry.name
        table = pq.read_table(path, columns=["doc_uid", "weight"], use_threads=False)
        uid = table["doc_uid"].to_numpy()
        place = np.searchsorted(doc_uid, uid)
        found = place < len(doc_uid)
        found[found] = doc_uid[place[found]] == uid[found]
        weight[place[found]] = table["weight"].to_numpy()[found]
    return weight


def _frequency(corpus: Corpus, doc_uid: Uids) -> Uids:
    """Return how many ingested documents each kept one stands for, itself included."""
    pairs = []
    for stage in _DUPLICATE_STAGES:
        if corpus.has(stage):
            for entry in corpus.manifest(stage).entries():
                path = corpus.folder(stage) / entry.name
                if entry.name.startswith("duplicates-"):
                    names = ["doc_uid", "keeper_uid", "keeper_ingest"]
                    table = pq.read_table(path, columns=names, use_threads=False)
                    # The keepers in other work directories are not drawn here.
                    pairs.append(table.filter(pc.is_null(table["keeper_ingest"])))
    if not len(doc_uid) or not sum(len(table) for table in pairs):
        return np.ones(len(doc_uid), np.int64)
    uid, keeper = (
        np.concatenate([table[name].to_numpy() for table in pairs])
        for name in ("doc_uid", "keeper_uid")
    )
    # A keeper may itself lose to another at a later stage: follow it to the one that stays.
    order = np.argsort(uid)
    uid, keeper = uid[order], keeper[order]
    for _ in _DUPLICATE_STAGES:
        place = np.minimum(np.searchsorted(uid, keeper), len(uid) - 1)
        keeper = np.where(uid[place] == keeper, keeper[place], keeper)
    place = np.minimum(np.searchsorted(doc_uid, keeper), len(doc_uid) - 1)
    place = place[doc_uid[place] == keeper]
    return 1 + np.bincount(place, minlength=len(doc_uid))


def _column(corpus: Corpus, name: str, missing: float, doc_uid: Uids) -> npt.NDArray[np.float64]:
    """Return a numeric column of the documents.

    Raises:
        RecordError: no source has it, or it holds no numbers.
    """
    values = np.full(len(doc_uid), missing)
    known = False
    for _, path in corpus.documents():
        schema = pq.read_schema(path)
        if name not in schema.names:
            continue
        known = True
        kind = schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
            raise RecordError(
                f"mixture.soft.column {name!r} is {kind} in {path}; name a column of numbers"
            )
        for group in row_groups(path, ("doc_uid", name)):
            group = group.filter(pc.is_valid(group[name]))
            uid = group["doc_uid"].to_numpy()
            place = np.searchsorted(doc_uid, uid)
            found = place < len(doc_uid)
            found[found] = doc_uid[place[found]] == uid[found]
            column = group[name].cast(pa.float64()).to_numpy()
            values[place[found]] = np.where(np.isnan(column), missing, column)[found]
    if not known:
        raise RecordError(
            f"mixture.soft.column {name!r}: no document has it; keep it with `columns` of a source"
        )
    return values


class Mix(Apply):
    """Decide how often each document is drawn: Corpus -> Corpus."""

    def __init__(
        self, settings: MixtureSettings, *, seed: int = 0, longest: int | None = None
    ) -> None:
        super().__init__(MixtureStage(settings, seed, longest))

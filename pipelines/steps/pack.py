"""Stage ``pack``: which pieces of which documents make a row."""

import itertools
from dataclasses import dataclass, field
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from packing.fit import PackSettings, Pieces, fit_rows
from pipelines.artifacts import FileEntry, fingerprint
from pipelines.corpus import Corpus
from pipelines.steps.columns import row_groups, write_table
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.tasks import Phase, Result, Task, Work
from transforms.record import mix64

PIECE_SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("copy", pa.int16(), nullable=False),
        pa.field("token_start", pa.int32(), nullable=False),
        pa.field("token_end", pa.int32(), nullable=False),
        pa.field("row_offset", pa.int32(), nullable=False),
        pa.field("domain", pa.int16(), nullable=False),
    ]
)
"""Pieces in row order; ``row`` numbers the fitted rows, before they get their place in a plan."""

_ROWS_PER_FILE = 16 << 20


@dataclass(frozen=True, slots=True)
class Lengths:
    """The narrow columns that packing needs, one entry per document, by ``doc_uid``."""

    doc_uid: npt.NDArray[np.int64]
    n_tokens: npt.NDArray[np.int32]
    domain: npt.NDArray[np.int16]
    domains: tuple[str, ...]


@dataclass(frozen=True)
class PackStage(Stage):
    """Fit documents into rows on one worker, from 14 bytes per document."""

    settings: PackSettings = field(default_factory=PackSettings)
    seed: int = 0

    name: ClassVar[str] = "pack"
    parents: ClassVar[tuple[str, ...]] = ("encode",)

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        return {**settings_json(self.settings, without=("enabled",)), "seed": self.seed}

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        return corpora | "Fit" >> Phase("Fit", self._tasks, self._fit, self._finish)

    def _tasks(self, corpus: Corpus) -> list[Task]:
        artifact = self.fingerprint(corpus)
        return [
            Task(
                fingerprint=fingerprint(stage=self.name, artifact=artifact),
                corpus=corpus,
                stage=self.name,
                artifact=artifact,
            )
        ]

    def _fit(self, task: Task) -> Work:
        lengths = read_lengths(task.corpus)
        work = Work(detail={"domains": lengths.domains})
        fits = np.ones(len(lengths.doc_uid), bool)
        if self.settings.long == "drop":
            fits = lengths.n_tokens <= self.settings.seq_len
            dropped = lengths.doc_uid[~fits]
            if len(dropped):
                table = pa.table({"doc_uid": dropped, "reason": ["too long"] * len(dropped)})
                work.files.append(
                    write_table(task.folder / "drops-00000.parquet", table, kind="drops")
                )
            work.counters["too long"] = len(dropped)
        chosen = np.flatnonzero(fits & (lengths.n_tokens > 0))
        order = mix64(lengths.doc_uid[chosen], self.seed)
        pieces = fit_rows(lengths.n_tokens[chosen], order, self.settings)
        work.files += _write_pieces(task, pieces, chosen, lengths)
        work.counters["rows"] = int(pieces.row[-1]) + 1 if len(pieces.row) else 0
        work.counters["tokens"] = int(pieces.length.sum(dtype=np.int64))
        work.counters["documents"] = len(chosen)
        return work

    def _finish(self, corpus: Corpus, results: list[Result]) -> Corpus:
        receipts = [result.receipt for result in results]
        return self.commit(corpus, receipts, config={"domains": receipts[0].detail["domains"]})


def read_lengths(corpus: Corpus) -> Lengths:
    """Read the lengths and domains of all encoded documents, sorted by ``doc_uid``."""
    uids, tokens, codes, names = [], [], [], []
    for entry in corpus.manifest("encode").entries():
        path = corpus.folder("encode") / entry.name
        for group in row_groups(path, ("doc_uid", "n_tokens", "domain")):
            uids.append(group["doc_uid"].to_numpy())
            tokens.append(group["n_tokens"].to_numpy())
            domain = group["domain"].combine_chunks().dictionary_encode()
            codes.append(domain.indices.to_numpy(zero_copy_only=False))
            names.append(domain.dictionary.to_pylist())
    domains = tuple(sorted({name for group in names for name in group}))
    number = {name: place for place, name in enumerate(domains)}
    domain_of = [
        np.array([number[name] for name in group] or [0], np.int16)[code]
        if len(code)
        else np.empty(0, np.int16)
        for group, code in zip(names, codes, strict=True)
    ]
    doc_uid = np.concatenate([np.empty(0, np.int64), *uids])
    order = np.argsort(doc_uid, kind="stable")
    return Lengths(
        doc_uid[order],
        np.concatenate([np.empty(0, np.int32), *tokens])[order],
        np.concatenate([np.empty(0, np.int16), *domain_of])[order],
        domains,
    )


def _write_pieces(
    task: Task, pieces: Pieces, chosen: npt.NDArray[np.int64], lengths: Lengths
) -> list[FileEntry]:
    """Write the pieces with their documents' addresses, in files of whole rows."""
    entries = []
    edges = np.searchsorted(
        pieces.row, pieces.row[np.arange(0, len(pieces.row), _ROWS_PER_FILE)], side="left"
    )
    bounds = [*np.unique(edges).tolist(), len(pieces.row)] if len(pieces.row) else [0, 0]
    for number, (low, high) in enumerate(itertools.pairwise(bounds)):
        row, length = pieces.row[low:high], pieces.length[low:high]
        document = chosen[pieces.document[low:high]]
        ends = np.cumsum(length, dtype=np.int64)
        begins = ends - length
        first = np.r_[True, row[1:] != row[:-1]][: len(row)]
        row_begin = np.maximum.accumulate(np.where(first, begins, 0))
        start = pieces.start[low:high].astype(np.int32)
        table = pa.table(
            [
                row,
                lengths.doc_uid[document],
                np.zeros(len(row), np.int16),
                start,
                start + length.astype(np.int32),
                (begins - row_begin).astype(np.int32),
                lengths.domain[document],
            ],
            schema=PIECE_SCHEMA,
        )
        entries.append(write_table(task.folder / f"pieces-{number:05d}.parquet", table))
    return entries


class FitRows(Apply):
    """Decide which documents share a row: Corpus -> Corpus."""

    def __init__(self, settings: PackSettings | None = None, *, seed: int = 0) -> None:
        super().__init__(PackStage(settings or PackSettings(), seed))

"""Stage ``pack``: which pieces of which documents make a row."""

import itertools
from dataclasses import dataclass, field
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from packing.fit import PackSettings, Pieces, fit_rows
from packing.shared_rows import ranks_of, widest_block
from pipelines.artifacts import FileEntry, fingerprint
from pipelines.corpus import Corpus
from pipelines.steps.columns import write_table
from pipelines.steps.lengths import Lengths, read_copies, read_lengths
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


@dataclass(frozen=True)
class PackStage(Stage):
    """Fit documents into rows on one worker, from 14 bytes per document, copies counted."""

    settings: PackSettings = field(default_factory=PackSettings)
    seed: int = 0
    dp: int = 1
    """Data-parallel ranks, some of which may share a row (``long = "keep"``)."""

    name: ClassVar[str] = "pack"
    parents: ClassVar[tuple[str, ...]] = ("encode", "mixture")

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        unused = ("sculpt",) if self.settings.strategy != "sculpt" else ()
        return {
            **settings_json(self.settings, without=("enabled", *unused)),
            "seed": self.seed,
            "widest": self._widest,
        }

    @property
    def _widest(self) -> int:
        """The most ranks that may share a row."""
        return widest_block(self.dp) if self.settings.long == "keep" else 1

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
        entries = read_entries(task.corpus, self.settings, self.seed)
        pieces = fit_rows(entries.n_tokens, entries.order, self.settings, self._widest)
        return self._write(task, entries, pieces)

    def _write(self, task: Task, entries: "Entries", pieces: Pieces) -> Work:
        """Write the pieces, and the documents that are too long."""
        work = Work(detail={"domains": entries.lengths.domains})
        if self.settings.long == "drop":
            dropped = entries.dropped
            if len(dropped):
                table = pa.table({"doc_uid": dropped, "reason": ["too long"] * len(dropped)})
                work.files.append(
                    write_table(task.folder / "drops-00000.parquet", table, kind="drops")
                )
            work.counters["too long"] = len(dropped)
        work.files += _write_pieces(task, pieces, entries)
        work.counters["rows"] = int(pieces.row[-1]) + 1 if len(pieces.row) else 0
        places = ranks_of(pieces.row_tokens(), self.settings.seq_len)
        work.counters["places"] = int(places.sum(dtype=np.int64))
        work.counters["tokens"] = int(pieces.length.sum(dtype=np.int64))
        work.counters["documents"] = int((entries.copy == 0).sum())
        work.counters["alignment"] = pieces.alignment(self.settings.align)
        return work

    def _finish(self, corpus: Corpus, results: list[Result]) -> Corpus:
        receipts = [result.receipt for result in results]
        return self.commit(corpus, receipts, config={"domains": receipts[0].detail["domains"]})


@dataclass(frozen=True, slots=True)
class Entries:
    """What is packed: one entry per document and copy, by address."""

    lengths: Lengths
    chosen: npt.NDArray[np.int64]
    """Place of each entry's document in ``lengths``."""
    copy: npt.NDArray[np.int16]
    order: npt.NDArray[np.uint64]
    """Seeded key of each entry."""
    n_tokens: npt.NDArray[np.int32]
    dropped: npt.NDArray[np.int64]
    """Addresses of documents that are too long."""


def read_entries(corpus: Corpus, settings: PackSettings, seed: int) -> Entries:
    """Read what is packed: the documents that are drawn, as often as they are."""
    lengths = read_lengths(corpus)
    fits = np.ones(len(lengths.doc_uid), bool)
    if settings.long == "drop":
        fits = lengths.n_tokens <= settings.seq_len
    copies = read_copies(corpus, lengths.doc_uid)
    chosen, copy = _expand(np.where(fits & (lengths.n_tokens > 0), copies, 0))
    order = _order(lengths.doc_uid[chosen], copy, seed)
    return Entries(lengths, chosen, copy, order, lengths.n_tokens[chosen], lengths.doc_uid[~fits])


def _expand(
    copies: npt.NDArray[np.int16],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int16]]:
    """Return one entry per copy: the document's index and the number of the copy, from 0."""
    document = np.repeat(np.arange(len(copies)), copies)
    ends = np.cumsum(copies, dtype=np.int64)
    return document, (np.arange(len(document)) - (ends - copies)[document]).astype(np.int16)


def _order(
    uid: npt.NDArray[np.int64], copy: npt.NDArray[np.int16], seed: int
) -> npt.NDArray[np.uint64]:
    """Return the seeded key of each copy; a first copy has the one of a document drawn once."""
    order = mix64(uid, seed)
    for number in range(1, int(copy.max(initial=0)) + 1):
        here = copy == number
        order[here] = mix64(uid[here], seed + number)
    return order


def _write_pieces(
    task: Task,
    pieces: Pieces,
    entries: Entries,
) -> list[FileEntry]:
    """Write the pieces with their documents' addresses, in files of whole rows."""
    written = []
    lengths = entries.lengths
    edges = np.searchsorted(
        pieces.row, pieces.row[np.arange(0, len(pieces.row), _ROWS_PER_FILE)], side="left"
    )
    bounds = [*np.unique(edges).tolist(), len(pieces.row)] if len(pieces.row) else [0, 0]
    for number, (low, high) in enumerate(itertools.pairwise(bounds)):
        row, length = pieces.row[low:high], pieces.length[low:high]
        entry = pieces.document[low:high]
        document = entries.chosen[entry]
        ends = np.cumsum(length, dtype=np.int64)
        begins = ends - length
        first = np.r_[True, row[1:] != row[:-1]][: len(row)]
        row_begin = np.maximum.accumulate(np.where(first, begins, 0))
        start = pieces.start[low:high].astype(np.int32)
        table = pa.table(
            [
                row,
                lengths.doc_uid[document],
                entries.copy[entry],
                start,
                start + length.astype(np.int32),
                (begins - row_begin).astype(np.int32),
                lengths.domain[document],
            ],
            schema=PIECE_SCHEMA,
        )
        written.append(write_table(task.folder / f"pieces-{number:05d}.parquet", table))
    return written


class FitRows(Apply):
    """Decide which documents share a row, by their lengths: Corpus -> Corpus.

    `pipelines.steps.balance.Pack` takes every strategy.
    """

    def __init__(self, settings: PackSettings | None = None, *, seed: int = 0, dp: int = 1) -> None:
        super().__init__(PackStage(settings or PackSettings(), seed, dp))

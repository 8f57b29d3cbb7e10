"""Stage ``decontaminate``: documents that hold items of evaluation sets, dropped or cut.

Each ingest file is searched by a task of its own, whose result does not depend on the policy; what
follows from the matches is written at the end, on one worker, from a row per match.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.artifacts import FileEntry, Receipt, fingerprint
from pipelines.corpus import Corpus
from pipelines.evaluation_sets import (
    EvaluationFile,
    find_evaluation_files,
    items_fingerprint,
    read_items,
)
from pipelines.steps.columns import partitions_for, row_groups, split, uid_partition, write_table
from pipelines.steps.removed import id_overlay
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.tasks import Clock, Phase, Result, Task, Work, record_cost
from transforms.contamination import (
    DecontaminateSettings,
    EvaluationItems,
    Match,
    evaluation_items,
    find_contamination,
)
from transforms.contamination_index import LEAST_LETTERS
from transforms.record import ROW_BITS
from transforms.tokenize.text_spans import TEXT_SPAN_SCHEMA

MATCH_SCHEMA = pa.schema(
    [
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("item_set", pa.string(), nullable=False),
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("score", pa.float64(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("tokens", pa.int32(), nullable=False),
        pa.field("item_tokens", pa.int32(), nullable=False),
        pa.field("item_start", pa.int64(), nullable=False),
        pa.field("item_end", pa.int64(), nullable=False),
        pa.field("answer", pa.bool_(), nullable=False),
        pa.field("found", pa.string(), nullable=False),
        pa.field("item", pa.string(), nullable=False),
    ]
)
"""Columns of ``matches-*.parquet``: one row per item found at a place of a document."""

ITEM_SCHEMA = pa.schema(
    [
        pa.field("item_set", pa.string(), nullable=False),
        pa.field("item_id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("answer", pa.string(), nullable=False),
    ]
)

EXCERPT = 300
"""Characters of both sides of a match that are kept with it."""

_loading = threading.Lock()
_loaded: dict[str, EvaluationItems] = {}


@dataclass(frozen=True)
class DecontaminateStage(Stage):
    """Search every document for the items; see the module."""

    settings: DecontaminateSettings
    files: tuple[EvaluationFile, ...]
    n_items: int
    n_searched: int
    n_ngrams: int

    name: ClassVar[str] = "decontaminate"
    parents: ClassVar[tuple[str, ...]] = ("ingest",)

    @classmethod
    def prepare(cls, settings: DecontaminateSettings) -> "DecontaminateStage":
        """Find, read and index the evaluation files.

        Raises:
            RecordError: there are none, or one of them cannot be used.
        """
        files = tuple(find_evaluation_files(settings.path))
        items = read_items(files, settings)
        key = _items_key(files, settings)
        found = _indexed(key, [i.text for i in items], [i.answer for i in items], settings)
        return cls(settings, files, len(items), found.index.searched, found.index.ngrams)

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        return {
            **settings_json(self.settings, without=("path",)),
            "files": [[file.name, file.sha256] for file in self.files],
        }

    def note(self, corpus: Corpus) -> str:
        """Return the size of the index."""
        skipped = self.n_items - self.n_searched
        short = f"; {skipped:,} too short to be searched" if skipped else ""
        return (
            f"{self.n_items:,} items of {len(self.files)} files, {self.n_ngrams:,} n-grams{short}"
        )

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        return corpora | "Search" >> Phase("Search", self._tasks, self._search, self._finish)

    def _tasks(self, corpus: Corpus) -> list[Task]:
        items = read_items(self.files, self.settings)
        folder = corpus.store.folder(self.name, self.fingerprint(corpus))
        folder.mkdir(parents=True, exist_ok=True)
        columns = [[getattr(item, name) for item in items] for name in ITEM_SCHEMA.names]
        write_table(folder / "items.parquet", pa.table(columns, schema=ITEM_SCHEMA))
        # The policy changes nothing of what is found.
        settings = settings_json(self.settings, without=("path", "policy"))
        return [
            Task(
                fingerprint=fingerprint(
                    stage=self.name,
                    version=self.version,
                    settings=settings,
                    items=items_fingerprint(self.files),
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

    def _search(self, task: Task) -> Work:
        path = Path(task.payload)
        names = pq.read_table(task.folder / "items.parquet", use_threads=False)
        items = _indexed(
            _items_key(self.files, self.settings),
            names["text"].to_pylist(),
            names["answer"].to_pylist(),
            self.settings,
        )
        tables = [MATCH_SCHEMA.empty_table()]
        searched = 0
        for group in row_groups(path, ("doc_uid", "reason", "text")):
            live = group.filter(pc.is_null(group["reason"]))
            searched += len(live)
            matches = find_contamination(live["text"], items)
            if matches:
                tables.append(_match_table(live, matches, items, names))
            del group, live
        table = pa.concat_tables(tables).sort_by(
            [(name, "ascending") for name in ("doc_uid", "start", "item_set", "item_id")]
        )
        target = task.folder / f"matches-{path.name[:10]}-{task.fingerprint[:12]}.parquet"
        entry = write_table(target, table, kind="matches")
        return Work([entry], {"searched": searched, "matches": len(table)})

    def _finish(self, corpus: Corpus, results: list[Result]) -> Corpus:
        clock = Clock()
        folder = corpus.store.folder(self.name, self.fingerprint(corpus))
        receipts = [result.receipt for result in results]
        names = ["doc_uid", "item_set", "item_id", "start", "end"]
        matches = pa.concat_tables(
            [MATCH_SCHEMA.empty_table().select(names)]
            + [
                pq.read_table(folder / entry.name, columns=names, use_threads=False)
                for receipt in receipts
                for entry in receipt.files
            ]
        )
        overlay = id_overlay(corpus)
        rejected = overlay.filter(pc.is_null(overlay["id"]))["doc_uid"]
        matches = matches.filter(pc.invert(pc.is_in(matches["doc_uid"], rejected.combine_chunks())))
        found = matches.select(["item_set", "item_id"]).group_by(["item_set", "item_id"])
        uids = np.unique(matches["doc_uid"].to_numpy())
        spans = _joined(matches)
        dropping = self.settings.policy == "drop"
        dropped = pa.table({"doc_uid": pa.array(uids if dropping else [], pa.int64())})
        cut = spans if not dropping else spans.slice(0, 0)
        rows = sum(entry.rows for entry in corpus.manifest("ingest").entries())
        partitions = partitions_for(rows)
        files = [FileEntry.of(folder / "items.parquet", rows=self.n_items, kind="items")]
        for name, table, kind in (("dropped", dropped, "data"), ("spans", cut, "spans")):
            ranges = uid_partition(table["doc_uid"].to_numpy() >> ROW_BITS, partitions)
            files += [
                write_table(folder / f"{name}-{number:05d}.parquet", part, kind=kind)
                for number, part in split(table, ranges, partitions)
            ]
        counters = {
            "documents": len(uids),
            "dropped": len(dropped),
            "spans": len(cut),
            "characters cut": pc.sum(pc.subtract(cut["end"], cut["start"])).as_py() or 0,
            "items found": found.aggregate([]).num_rows,
            "items": self.n_items,
            "items too short": self.n_items - self.n_searched,
        }
        record_cost(folder, clock)
        return self.commit(
            corpus,
            [*receipts, Receipt(task="", files=tuple(files))],
            counters=counters,
            config={"ngrams": self.n_ngrams, "least_letters": LEAST_LETTERS},
        )


def _items_key(files: Sequence[EvaluationFile], settings: DecontaminateSettings) -> str:
    return fingerprint(
        items=items_fingerprint(files), settings=settings_json(settings, without=("path", "policy"))
    )


def _indexed(
    key: str, texts: list[str], answers: list[str], settings: DecontaminateSettings
) -> EvaluationItems:
    """Return the index over items, made once per process: the worker threads share it."""
    with _loading:
        if key not in _loaded:
            _loaded.clear()
            _loaded[key] = evaluation_items(texts, answers, settings)
        return _loaded[key]


def _match_table(
    documents: pa.Table, matches: Sequence[Match], items: EvaluationItems, names: pa.Table
) -> pa.Table:
    """Return matches as rows of MATCH_SCHEMA."""
    rows = pa.array([match.row for match in matches])
    which = pa.array([match.item for match in matches])
    texts = documents["text"].take(rows).to_pylist()
    columns = {
        "doc_uid": documents["doc_uid"].take(rows),
        "item_set": names["item_set"].take(which),
        "item_id": names["item_id"].take(which),
        **{
            name: pa.array(
                [getattr(match, name) for match in matches], MATCH_SCHEMA.field(name).type
            )
            for name in MATCH_SCHEMA.names[3:11]
        },
        "found": [
            text[m.start : min(m.end, m.start + EXCERPT)]
            for text, m in zip(texts, matches, strict=True)
        ],
        "item": [
            items.texts[m.item][m.item_start : min(m.item_end, m.item_start + EXCERPT)]
            for m in matches
        ],
    }
    return pa.table(columns, schema=MATCH_SCHEMA)


def _joined(matches: pa.Table) -> pa.Table:
    """Return the spans of matches as spans to remove; those that overlap or touch are one."""
    ordered = matches.select(["doc_uid", "start", "end"]).sort_by(
        [("doc_uid", "ascending"), ("start", "ascending"), ("end", "ascending")]
    )
    uids: list[int] = []
    starts: list[int] = []
    ends: list[int] = []
    for uid, start, end in zip(*(column.to_pylist() for column in ordered.columns), strict=True):
        if uids and uids[-1] == uid and start <= ends[-1]:
            ends[-1] = max(ends[-1], end)
            continue
        uids.append(uid)
        starts.append(start)
        ends.append(end)
    n = len(uids)
    columns = [uids, starts, ends, ["remove"] * n, [None] * n, [None] * n]
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, TEXT_SPAN_SCHEMA, strict=True)],
        schema=TEXT_SPAN_SCHEMA,
    )


class Decontaminate(Apply):
    """Drop or cut documents that hold evaluation items: Corpus -> Corpus.

    Raises:
        RecordError: an evaluation file is missing or cannot be used.
    """

    def __init__(self, settings: DecontaminateSettings) -> None:
        super().__init__(DecontaminateStage.prepare(settings))

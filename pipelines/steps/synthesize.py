"""Stage ``synthesize``: verified conversations made from knowledge graphs, as shards of documents.

Graphs are read; then come rounds of candidates, block by block, each judged by the gate in the task
that made it; each round fills what is still short of the quotas. Which candidates become records is
decided over all of them on narrow columns, and the records are written, a shard per block. A
candidate depends on the graph, the seed, its cell and its number alone, so neither the size of the
blocks nor the number of workers changes a record.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.artifacts import FileEntry, Receipt, Workdir, file_sha256, fingerprint
from pipelines.corpus import Corpus
from pipelines.failures import CheckError
from pipelines.graph_input import graph_fingerprint, load_graph
from pipelines.steps.columns import write_table
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.steps.synthesized import (
    CANDIDATE_SCHEMA,
    WORKSHOP,
    make_candidates,
    write_preferences,
    write_rejects,
    write_shard,
)
from pipelines.tasks import Phase, Result, Task, Work
from transforms.record import RecordError
from transforms.synthesis.cells import shares_of
from transforms.synthesis.limits import Limits
from transforms.synthesis.plan import PATTERNS
from transforms.synthesis.quotas import (
    ROUNDS,
    Cell,
    Choice,
    Counts,
    Span,
    blocks,
    choose,
    filled,
    first_spans,
    next_spans,
    quotas,
    settled,
)
from transforms.synthesis.sampler import Sampler
from transforms.synthesis.settings import SynthesisSettings

REPORT_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("pattern", pa.string(), nullable=False),
        pa.field("scenario", pa.string(), nullable=False),
        pa.field("quota", pa.int64(), nullable=False),
        pa.field("delivered", pa.int64(), nullable=False),
        pa.field("tried", pa.int64(), nullable=False),
        pa.field("why", pa.string()),
    ]
)
"""Columns of ``quotas.parquet``: what each cell should have and has, and why it has less."""

_NARROW = ["cell", "index", "key", "reason"]


@dataclass(frozen=True, slots=True)
class Making:
    """The corpus with candidates made, on the way to records."""

    corpus: Corpus
    graphs: tuple[Receipt, ...] = ()
    """What reading each graph left, in the order of the tables."""
    blocks: tuple[tuple[int, Receipt], ...] = ()
    """Table of each block of candidates, and what it left, in the order of rounds."""

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.corpus.store


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What the candidates of a table come to so far."""

    choice: Choice
    quota: Counts
    """Records that each cell is to have, after others were given up."""
    tried: Counts
    found: Counts
    """Right and distinct candidates, those over the quota too."""


@dataclass(frozen=True)
class SynthesizeStage(Stage):
    """Conversations of all tables of ``[[synthesize]]``."""

    tables: tuple[SynthesisSettings, ...]
    inputs: tuple[str, ...]
    """Fingerprint of what each table reads."""
    seed: int = 0

    name: ClassVar[str] = "synthesize"
    version: ClassVar[int] = 2

    @classmethod
    def prepare(cls, tables: Sequence[SynthesisSettings], seed: int) -> "SynthesizeStage":
        """Hash what the graphs are read from.

        Raises:
            RecordError: a graph or lexicon is missing or has no file that can be read.
        """
        return cls(tuple(tables), tuple(_inputs_of(table) for table in tables), seed)

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        tables = [{**_plain(table, _BY_CONTENT), "source": table.source} for table in self.tables]
        return {"tables": tables, "seed": self.seed}

    def identity(self) -> dict[str, Any]:
        """Return what the fingerprint holds: settings, and the inputs by content."""
        return {**self.config(), "inputs": list(self.inputs)}

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        made = corpora | "Graphs" >> Phase("Graphs", self._graphs, self._read, self._read_all)
        for number in range(ROUNDS):
            made = made | f"Round {number}" >> Phase(
                "Blocks",
                functools.partial(self._blocks, number),
                self._make,
                functools.partial(self._made, number),
            )
        return made | "Write" >> Phase("Write", self._chosen, self._write, self._finish)

    # Graphs.

    def _task(self, corpus: Corpus, **fields: Any) -> Task:
        return Task(corpus=corpus, stage=self.name, artifact=self.fingerprint(corpus), **fields)

    def _graphs(self, corpus: Corpus) -> list[Task]:
        return [
            self._task(
                corpus,
                fingerprint=fingerprint(
                    stage=self.name,
                    version=self.version,
                    phase="graph",
                    graph=self.inputs[number],
                    name=table.graph_name,
                    source=table.source,
                    lang=table.lang,
                ),
                payload=table,
            )
            for number, table in enumerate(self.tables)
        ]

    def _read(self, task: Task) -> Work:
        table: SynthesisSettings = task.payload
        loaded = load_graph(table)
        graph, rejects = loaded.graph, loaded.rejects
        folder = f"graph-{task.fingerprint[:12]}"
        graph.write(task.folder / folder)
        files = [
            FileEntry.of(path, rows=0, kind="graph", name=f"{folder}/{path.name}")
            for path in sorted((task.folder / folder).iterdir())
        ]
        rejected = write_rejects(task.folder / f"rejects-{folder}.parquet", table.source, rejects)
        sampler = Sampler(graph, Limits(), self.seed)
        detail = {
            "graph": graph.fingerprint,
            "entities": graph.n_entities,
            "facts": graph.n_facts,
            "patterns": [pattern for pattern in PATTERNS if sampler.can(pattern)],
        }
        return Work([*files, *rejected], loaded.counters, detail)

    def _read_all(self, corpus: Corpus, results: list[Result]) -> Making:
        return Making(corpus, tuple(result.receipt for result in results))

    # Candidates.

    def _cells(self, making: Making, number: int) -> list[Cell]:
        table, graph = self.tables[number], making.graphs[number]
        shares = shares_of(table.patterns, table.scenarios, graph.detail["patterns"])
        return quotas(table.records, shares)

    def _blocks(self, round_number: int, making: Making) -> list[Task]:
        tasks: list[Task] = []
        for number, table in enumerate(self.tables):
            cells = self._cells(making, number)
            if round_number == 0:
                spans = first_spans(cells)
            else:
                state = self._choose(making, number, cells)
                spans = next_spans(cells, state.quota, state.tried, state.found)
            tasks += [
                self._block(making, number, table, cells, block)
                for block in blocks(spans, table.block)
            ]
        return tasks

    def _block(
        self,
        making: Making,
        number: int,
        table: SynthesisSettings,
        cells: list[Cell],
        block: tuple[Span, ...],
    ) -> Task:
        graph = making.graphs[number]
        named = [(cells[span.cell].pattern, cells[span.cell].scenario) for span in block]
        ranges = [[*name, span.start, span.stop] for name, span in zip(named, block, strict=True)]
        return self._task(
            making.corpus,
            fingerprint=fingerprint(
                stage=self.name,
                version=self.version,
                phase="block",
                graph=graph.detail["graph"],
                settings=_plain(table, (*_WITHOUT, "records")),
                lexicon=self.inputs[number] if table.lexicon else "",
                seed=self.seed,
                ranges=ranges,
            ),
            payload=(number, table, _graph_folder(graph), block, named),
            weight=sum(span.stop - span.start for span in block),
        )

    def _make(self, task: Task) -> Work:
        number, table, folder, block, named = task.payload
        found, reworded = make_candidates(
            task.folder / folder,
            table,
            self.seed,
            [(*cell, s) for cell, s in zip(named, block, strict=True)],
        )
        path = task.folder / f"candidates-{task.fingerprint[:16]}.parquet"
        entry = write_table(path, found.cast(CANDIDATE_SCHEMA), kind="candidates")
        counters = {"candidates": len(found), **reworded}
        return Work([entry], counters, {"table": number})

    def _made(self, round_number: int, making: Making, results: list[Result]) -> Making:
        blocks_made = [(int(r.receipt.detail["table"]), r.receipt) for r in results]
        return replace(making, blocks=(*making.blocks, *blocks_made))

    def _choose(
        self, making: Making, number: int, cells: list[Cell], *, last: bool = False
    ) -> _Chosen:
        """Choose among all candidates so far; ``last``: no more will be made."""
        table = self._narrow(making, number)
        cell, index, key = (table[name].to_numpy() for name in ("cell", "index", "key"))
        right = table["reason"].is_null().to_numpy()
        tried = np.bincount(cell, minlength=len(cells))
        found = choose(cell, index, key, right, np.maximum(tried, 1)).of_cell
        quota = filled(cells, found) if last else settled(cells, tried, found)
        return _Chosen(choose(cell, index, key, right, quota), quota, tried, found)

    def _narrow(self, making: Making, number: int) -> pa.Table:
        folder = self._folder(making)
        schema = pa.schema([CANDIDATE_SCHEMA.field(name) for name in _NARROW])
        files = [
            pq.read_table(folder / r.files[0].name, columns=_NARROW, use_threads=False)
            for n, r in making.blocks
            if n == number
        ]
        return pa.concat_tables([schema.empty_table(), *files])

    def _folder(self, making: Making) -> Path:
        return making.store.folder(self.name, self.fingerprint(making.corpus))

    # Records.

    def _chosen(self, making: Making) -> list[Task]:
        tasks = []
        for number, table in enumerate(self.tables):
            cells = self._cells(making, number)
            choice = self._choose(making, number, cells, last=True).choice
            start, part = 0, 0
            for n, receipt in making.blocks:
                if n != number:
                    continue
                stop = start + receipt.files[0].rows
                masks = (choice.chosen[start:stop], choice.repeated[start:stop])
                surplus = choice.surplus[start:stop]
                tasks.append(
                    self._task(
                        making.corpus,
                        fingerprint=fingerprint(
                            stage=self.name,
                            version=self.version,
                            phase="records",
                            block=receipt.task,
                            source=table.source,
                            domain=table.domain,
                            preferences=table.preferences,
                            part=part,
                            masks=[np.packbits(m).tobytes().hex() for m in (*masks, surplus)],
                        ),
                        payload=(
                            receipt.files[0].name,
                            _graph_folder(making.graphs[number]),
                            table,
                            part,
                            *masks,
                            surplus,
                        ),
                        weight=receipt.files[0].bytes,
                    )
                )
                start, part = stop, part + 1
        return tasks

    def _write(self, task: Task) -> Work:
        name, graph, table, part, chosen, repeated, surplus = task.payload
        candidates = pq.read_table(task.folder / name, use_threads=False)
        work = write_shard(
            task.folder, task.fingerprint, candidates, table, part, chosen, repeated, surplus
        )
        if table.preferences:
            records = candidates.filter(pa.array(chosen))["record"].to_pylist()
            work.files += write_preferences(
                task.folder, graph, work.files, table, self.seed, records
            )
        return work

    def _finish(self, making: Making, results: list[Result]) -> Corpus:
        folder = self._folder(making)
        report = pa.concat_tables(
            [REPORT_SCHEMA.empty_table()]
            + [self._report(making, n, table) for n, table in enumerate(self.tables)]
        )
        entry = write_table(folder / "quotas.parquet", report, kind="quotas")
        receipts = [*making.graphs, *(r for _, r in making.blocks)]
        receipts += [result.receipt for result in results]
        notes = _notes(report)
        strict = {table.source for table in self.tables if table.strict}
        short = report.filter(pa.compute.less(report["delivered"], report["quota"]))
        if strict & set(short["source"].to_pylist()):
            raise CheckError("; ".join(notes))
        WORKSHOP.close()
        own = Receipt(task="", files=(entry,))
        return self.commit(making.corpus, [*receipts, own], config={"notes": notes})

    def _report(self, making: Making, number: int, table: SynthesisSettings) -> pa.Table:
        cells = self._cells(making, number)
        state = self._choose(making, number, cells, last=True)
        choice, tried = state.choice, state.tried
        narrow = self._narrow(making, number)
        reasons = narrow["reason"].to_pylist()
        counts: list[dict[str, int]] = [{} for _ in cells]
        for cell, reason, again in zip(
            narrow["cell"].to_pylist(), reasons, choice.repeated.tolist(), strict=True
        ):
            why = reason or ("asked before" if again else None)
            if why is not None:
                counts[cell][why] = counts[cell].get(why, 0) + 1
        rows = [
            {
                "source": table.source,
                "pattern": cell.pattern,
                "scenario": cell.scenario,
                "quota": cell.quota,
                "delivered": int(choice.of_cell[n]),
                "tried": int(tried[n]),
                "why": ", ".join(f"{why}: {k}" for why, k in sorted(counts[n].items())) or None,
            }
            for n, cell in enumerate(cells)
        ]
        return pa.Table.from_pylist(rows, schema=REPORT_SCHEMA)


_BY_CONTENT = ("graph", "name", "lexicon")
"""Settings that are not in a fingerprint: what they name is there by its content."""
_WITHOUT = (*_BY_CONTENT, "block", "strict", "domain", "weights", "preferences")
"""Settings that candidates do not depend on."""


def _plain(table: SynthesisSettings, without: Sequence[str]) -> dict[str, Any]:
    """Return settings as JSON values; of the rewriter, what its words depend on."""
    plain = settings_json(table, without=(*without, "rewriter"))
    if table.rewriter is not None:
        rewriter = settings_json(table.rewriter, without=("cache", "key_variable", "timeout"))
        plain["rewriter"] = rewriter
    return plain


def _inputs_of(table: SynthesisSettings) -> str:
    lexicon = ""
    if table.lexicon is not None:
        path = Path(table.lexicon)
        if not path.is_file():
            raise RecordError(f"synthesize.lexicon: {path} is not a file; give the path of one")
        lexicon = file_sha256(path)
    return fingerprint(graph=graph_fingerprint(table), lexicon=lexicon)


def _graph_folder(receipt: Receipt) -> str:
    return next(f.name for f in receipt.files if f.kind == "graph").rpartition("/")[0]


def _notes(report: pa.Table) -> list[str]:
    """Return what falls short, a sentence for each table of the recipe."""
    notes = []
    for source in dict.fromkeys(report["source"].to_pylist()):
        rows = [row for row in report.to_pylist() if row["source"] == source]
        short = [row for row in rows if row["delivered"] < row["quota"]]
        if short:
            delivered, asked = (sum(row[k] for row in rows) for k in ("delivered", "quota"))
            cells = "; ".join(
                f"{r['pattern']} {r['scenario']} {r['delivered']} of {r['quota']} ({r['why']})"
                for r in short
            )
            notes.append(f"{source}: {delivered:,} of {asked:,} records; {cells}")
    return notes


class Synthesize(Apply):
    """Make conversations from knowledge graphs: Corpus -> Corpus.

    Raises:
        RecordError: a graph or lexicon cannot be read.
    """

    def __init__(self, tables: Sequence[SynthesisSettings], *, seed: int = 0) -> None:
        super().__init__(SynthesizeStage.prepare(tables, seed))

"""Records for the benchmarks of the synthesizer: made and judged as the stage does, and timed apart."""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from catalog.tables import PlanOracle, read_graph
from transforms.synthesis.build import generate
from transforms.synthesis.cells import shares_of
from transforms.synthesis.graph import Graph
from transforms.synthesis.language.realizer import Realizer
from transforms.synthesis.limits import Limits
from transforms.synthesis.plan import PATTERNS
from transforms.synthesis.plan_text import Numbers
from transforms.synthesis.quotas import (
    ROUNDS,
    Cell,
    blocks,
    choose,
    first_spans,
    next_spans,
    quotas,
    settled,
)
from transforms.synthesis.record import Record
from transforms.synthesis.scene import Kit
from transforms.synthesis.verify import Gate

_KG = Path("../shared/data/kg")
GRAPHS: dict[str, tuple[str, str]] = {
    "FB15k-237": (str(_KG / "fb15k237"), "en"),
    "KdConv": (str(_KG / "kdconv-zh"), "zh"),
    "Python": ("python", "en"),
}
"""What each graph is read from, and the language of its questions."""
_BLOCK = 500

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class World:
    """A graph, and what makes and judges records of it."""

    name: str
    lang: str
    graph: Graph
    kit: Kit
    gate: Gate
    numbers: Numbers
    read_cpu_s: float


def open_world(name: str, seed: int) -> World:
    """Read a graph."""
    path, lang = GRAPHS[name]
    start = time.process_time()
    graph = read_graph(Path(path), name=name.lower().replace("-", ""), lang=lang).graph
    kit = Kit(graph, Realizer(graph, lang), lang, seed, Limits())
    gate = Gate(graph, PlanOracle(graph).answers)
    return World(
        name, lang, graph, kit, gate, Numbers.of(graph), round(time.process_time() - start, 2)
    )


@dataclass(slots=True)
class Made:
    """Records, and what making them took."""

    cells: list[Cell]
    records: list[Record] = field(default_factory=list)
    """Right and distinct, in the order of cells and places."""
    of_cell: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    quota: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """What the cells were to have, after those that were given up."""
    candidates: int = 0
    tried: int = 0
    """Places, those without a candidate too."""
    lacking: Counter[str] = field(default_factory=Counter)
    """Places without a candidate, by reason."""
    lacking_of: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    """Candidates that the gate refused, by reason."""
    refusals: list[tuple[str, str, str]] = field(default_factory=list)
    make_cpu_s: float = 0.0
    judge_cpu_s: float = 0.0


def make(world: World, records: int) -> Made:
    """Make records round by round until the quotas are full, as the stage ``synthesize`` does."""
    possible = [pattern for pattern in PATTERNS if world.kit.sampler.can(pattern)]
    cells = quotas(records, shares_of({}, {}, possible))
    made = Made(cells)
    rows: list[tuple[int, int, int, Record]] = []
    tried = np.zeros(len(cells), np.int64)
    spans = first_spans(cells)
    for _ in range(ROUNDS):
        for block in blocks(spans, _BLOCK):
            places = [(s.cell, index) for s in block for index in range(s.start, s.stop)]
            _judged(world, made, places, rows)
            np.add.at(tried, [cell for cell, _ in places], 1)
        cell, index = (np.array([row[n] for row in rows], np.int64) for n in (0, 1))
        key = np.array([row[2] for row in rows], np.uint64)
        right = np.ones(len(rows), np.bool_)
        found = choose(cell, index, key, right, np.maximum(tried, 1)).of_cell
        quota = settled(cells, tried, found)
        spans = next_spans(cells, quota, tried, found)
        if not spans:
            break
    choice = choose(cell, index, key, right, quota)
    made.of_cell, made.quota, made.tried = choice.of_cell, quota, int(tried.sum())
    made.records = [rows[n][3] for n in np.flatnonzero(choice.chosen)]
    made.lacking["asked before"] = int(choice.repeated.sum())
    return made


def _judged(
    world: World,
    made: Made,
    places: list[tuple[int, int]],
    rows: list[tuple[int, int, int, Record]],
) -> None:
    start = time.process_time()
    candidates = [
        generate(world.kit, made.cells[cell].pattern, made.cells[cell].scenario, index)
        for cell, index in places
    ]
    texts = [one.record.to_json() for one in candidates if one.record is not None]
    middle = time.process_time()
    verdicts = iter(world.gate.judge(texts))
    made.make_cpu_s += middle - start
    made.judge_cpu_s += time.process_time() - middle
    made.candidates += len(texts)
    for (cell, index), one in zip(places, candidates, strict=True):
        reasons = made.lacking_of.setdefault((one.pattern, one.scenario), Counter())
        if one.record is None:
            made.lacking[one.reason] += 1
            reasons[one.reason] += 1
            continue
        verdict = next(verdicts)
        if verdict.passed:
            rows.append((cell, index, int(one.record.query_key[:16], 16), one.record))
        else:
            made.refused[verdict.reason] += 1
            reasons[verdict.reason] += 1
            made.refusals.append((one.record.record_id, verdict.reason, verdict.detail))

"""Quotas: how many records each cell (pattern, scenario) has, and which candidates fill them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Key = TypeVar("Key")

ROUNDS = 5
"""Rounds of candidates: later ones make what earlier ones left short."""

_LEAST_TRIED = 40
"""Candidates after which a cell without a single record is given up."""
_MOST_TRIED = 8
"""Candidates per record of the quota that are tried at most."""
_GROWTH = 3
"""Candidates of a round for each one tried before, at most."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One pattern in one scenario."""

    pattern: str
    scenario: str
    quota: int
    """Records to deliver."""


def quotas(records: int, shares: Mapping[tuple[str, str], float]) -> list[Cell]:
    """Divide records over scenarios, and those of each over its patterns, by largest remainder.

    So a scenario has its share also where there are more cells than records; which patterns it then
    has turns from scenario to scenario.

    Args:
        records: how many in all.
        shares: share of each (pattern, scenario), not negative; at least one is positive.

    Returns:
        The cells with a quota above 0, in the order of the mapping; quotas sum to ``records``.
    """
    exact = {cell: Fraction(share) for cell, share in shares.items() if share > 0}
    of_scenario: dict[str, dict[tuple[str, str], Fraction]] = {}
    for cell, share in exact.items():
        of_scenario.setdefault(cell[1], {})[cell] = share
    totals = {name: sum(cells.values(), Fraction()) for name, cells in of_scenario.items()}
    whole: dict[tuple[str, str], int] = {}
    for number, (name, part) in enumerate(_divided(records, totals).items()):
        cells = list(of_scenario[name].items())
        turn = 5 * number % len(cells)
        whole |= _divided(part, dict(cells[turn:] + cells[:turn]))
    return [Cell(*cell, whole[cell]) for cell in exact if whole[cell]]


def _divided(records: int, shares: Mapping[Key, Fraction]) -> dict[Key, int]:
    """Divide by largest remainder; equal remainders go by the order of the mapping."""
    total = sum(shares.values())
    parts = {key: records * share / total for key, share in shares.items()}
    whole = {key: int(part) for key, part in parts.items()}
    by_remainder = sorted(parts, key=lambda key: whole[key] - parts[key])
    for key in by_remainder[: records - sum(whole.values())]:
        whole[key] += 1
    return whole


@dataclass(frozen=True, slots=True)
class Span:
    """Candidates of one cell with numbers from ``start`` to ``stop`` (not included)."""

    cell: int
    start: int
    stop: int


def first_spans(cells: Sequence[Cell]) -> list[Span]:
    """Return the candidates of the first round: a few more than the quotas."""
    return [Span(n, 0, cell.quota + cell.quota // 20 + 1) for n, cell in enumerate(cells)]


Counts = npt.NDArray[np.int64]


def next_spans(cells: Sequence[Cell], quota: Counts, tried: Counts, chosen: Counts) -> list[Span]:
    """Return the candidates that fill what is still short; none where a cell is given up.

    Args:
        cells: the cells.
        quota: records that each cell is to have now (:func:`settled`), shape [cells].
        tried: candidates so far of each cell, shape [cells].
        chosen: records so far of each cell, shape [cells].
    """
    spans = []
    for n, cell in enumerate(cells):
        short, seen, found = int(quota[n] - chosen[n]), int(tried[n]), int(chosen[n])
        if short <= 0 or _given_up(cell, seen, found):
            continue
        wanted = -(-short * max(seen, 1) * 5 // (max(found, 1) * 4)) + 8
        spans.append(Span(n, seen, seen + min(wanted, _GROWTH * seen + 16)))
    return spans


def filled(cells: Sequence[Cell], found: Counts) -> Counts:
    """Return quotas where cells with more than their quota make up for those that lack some.

    For the end, when nothing more is made.

    Args:
        cells: the cells.
        found: right and distinct candidates of each cell, shape [cells].
    """
    quota = np.array([cell.quota for cell in cells], np.int64)
    lacking = int(np.maximum(quota - found, 0).sum())
    over = np.maximum(found - quota, 0)
    shares = {n: Fraction(int(count)) for n, count in enumerate(over) if count}
    more = _divided(min(lacking, int(over.sum())), shares) if shares else {}
    extra: Counts = np.array([more.get(n, 0) for n in range(len(cells))], np.int64)
    result: Counts = np.minimum(quota, found) + extra
    return result


def settled(cells: Sequence[Cell], tried: Counts, chosen: Counts) -> Counts:
    """Return quotas that sum to those of the cells, where cells that are given up ask no more.

    What they lack goes to the cells that have not been given up, by their own quotas. Where all are
    given up nobody makes up for it.

    Args:
        cells: the cells.
        tried: candidates so far of each cell, shape [cells].
        chosen: right and distinct candidates so far of each cell, those over its quota too, shape
            [cells].
    """
    quota = np.array([cell.quota for cell in cells], np.int64)
    lost = np.array(
        [
            _given_up(cell, int(seen), int(found)) and found < cell.quota
            for cell, seen, found in zip(cells, tried, chosen, strict=True)
        ],
        np.bool_,
    )
    lacking = int((quota - chosen)[lost].sum())
    if lacking and not lost.all():
        shares = {
            (cell.pattern, cell.scenario): 0.0 if lost[n] else float(cell.quota)
            for n, cell in enumerate(cells)
        }
        more = {(c.pattern, c.scenario): c.quota for c in quotas(lacking, shares)}
        quota += np.array([more.get((c.pattern, c.scenario), 0) for c in cells], np.int64)
    return np.where(lost, chosen, quota)


def _given_up(cell: Cell, tried: int, found: int) -> bool:
    if found == 0:
        return tried >= _LEAST_TRIED
    return tried >= max(_LEAST_TRIED, _MOST_TRIED * cell.quota)


def blocks(spans: Sequence[Span], size: int) -> list[tuple[Span, ...]]:
    """Cut spans into tasks of ``size`` candidates, in their order; only the last is smaller."""
    found: list[tuple[Span, ...]] = []
    held: list[Span] = []
    room = size
    for span in spans:
        start = span.start
        while start < span.stop:
            stop = min(span.stop, start + room)
            held.append(Span(span.cell, start, stop))
            room -= stop - start
            start = stop
            if not room:
                found.append(tuple(held))
                held, room = [], size
    return [*found, tuple(held)] if held else found


@dataclass(frozen=True, slots=True)
class Choice:
    """Which candidates become records.

    Attributes:
        chosen: [candidates] whether it is a record.
        repeated: [candidates] whether it was right, but asks what an earlier one asks.
        surplus: [candidates] whether its cell was full before it.
        of_cell: [cells] records of each cell.
    """

    chosen: npt.NDArray[np.bool_]
    repeated: npt.NDArray[np.bool_]
    surplus: npt.NDArray[np.bool_]
    of_cell: npt.NDArray[np.int64]


def choose(
    cell: npt.NDArray[np.int64],
    index: npt.NDArray[np.int64],
    key: npt.NDArray[np.uint64],
    right: npt.NDArray[np.bool_],
    quota: npt.NDArray[np.int64],
) -> Choice:
    """Choose records: of candidates with one key the first, and of each cell the first that fit.

    The order is that of (index, cell), so that no cell takes all questions that two of them share.

    Args:
        cell: of each candidate, shape [candidates].
        index: its place in the cell; pairs of both are distinct, shape [candidates].
        key: what it asks, shape [candidates].
        right: whether it is right, shape [candidates].
        quota: records of each cell, shape [cells].
    """
    n = len(cell)
    order = np.lexsort((cell, index))
    ordered = np.flatnonzero(right[order])
    first = np.zeros(n, np.bool_)
    if len(ordered):
        _, place = np.unique(key[order][ordered], return_index=True)
        first[order[ordered[place]]] = True
    by_cell = np.lexsort((index, cell))
    starts = np.searchsorted(cell[by_cell], np.arange(len(quota)))
    before = np.concatenate([[0], np.cumsum(first[by_cell])])
    within = np.empty(n, np.int64)
    within[by_cell] = before[:-1] - before[starts[cell[by_cell]]]
    surplus = within >= quota[cell]
    chosen = first & ~surplus
    return Choice(
        chosen,
        right & ~first & ~surplus,
        surplus,
        np.bincount(cell[chosen], minlength=len(quota)),
    )

"""Where the tensors of a known sequence of allocations lie in one buffer, so that it is small.

Dynamic storage allocation: tensors with sizes and lives are given, offsets are looked for, tensors
that live at the same time may not overlap, and the end of the highest one, the peak, shall be low.
No layout is below the most bytes that live at once, and one whose peak is that bound is proved best
by it. Greedy orders are tried first, then a search below the bound, then a mixed-integer programme
for a limited time (MEMO, arXiv 2407.12117, section 4.2, whose second level is
:func:`solve_nested`).

Nothing here imports torch.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from trainer.backtracking import fit_below
from trainer.layout import ALIGNMENT

Ints = npt.NDArray[np.int64]

SEARCH_NODES = 30_000
"""Placements after which one search for a layout of the bound's height gives up."""

CORES = (0.0, 0.001, 0.01)
"""Shares of the bound: smaller blocks are left out of a search and placed after it."""

MILP_PAIRS = 1500
"""Pairs of tensors with overlapping lives above which the programme is not tried."""


@dataclass(frozen=True, slots=True)
class Block:
    """One tensor: it lives from event ``start`` until before event ``end``."""

    name: str
    nbytes: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Trace:
    """The tensors of one sequence of allocations; every name is there once."""

    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        """Check the blocks.

        Raises:
            ValueError: a name is there twice, or a size or life is not one.
        """
        names = set()
        for block in self.blocks:
            if block.name in names:
                raise ValueError(f"block {block.name!r} is there twice; give each its own name")
            if block.nbytes < 0 or block.end <= block.start:
                raise ValueError(
                    f"block {block.name!r} of {block.nbytes} bytes lives from {block.start} to "
                    f"{block.end}; a size is at least 0 and a life at least one event"
                )
            names.add(block.name)

    def max_live(self, alignment: int = ALIGNMENT) -> int:
        """Return the most bytes that live at once, sizes rounded up to ``alignment``."""
        if not self.blocks:
            return 0
        arrays = _Arrays.of(self, alignment)
        return int(_live_at_starts(arrays).max()) * arrays.unit


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the blocks of a trace lie."""

    offsets: Mapping[str, int]
    """First byte of each block, by name."""
    peak: int
    """Bytes of the buffer."""
    bound: int
    """Most bytes that live at once: no layout has a lower peak."""
    proof: Literal["tight", "optimal", "none"]
    """Why no layout is better: the peak is the bound; the programme proved it; or not proved."""


@dataclass(frozen=True, slots=True)
class _Arrays:
    """Blocks by column; sizes count ``unit`` bytes."""

    size: Ints
    start: Ints
    end: Ints
    unit: int

    @staticmethod
    def of(trace: Trace, alignment: int) -> "_Arrays":
        sizes = [-(-b.nbytes // alignment) for b in trace.blocks]
        unit = math.gcd(*sizes) or 1
        return _Arrays(
            np.array(sizes, dtype=np.int64) // unit,
            np.array([b.start for b in trace.blocks], dtype=np.int64),
            np.array([b.end for b in trace.blocks], dtype=np.int64),
            unit * alignment,
        )


def solve(trace: Trace, *, alignment: int = ALIGNMENT, time_limit: float = 30.0) -> Layout:
    """Return offsets for the blocks of a trace.

    Args:
        trace: what is allocated and when.
        alignment: bytes to a multiple of which every block begins.
        time_limit: seconds that the programme may take where nothing else meets the bound. What
            is found without it does not depend on the machine; what is found with it is the same
            where the proof is not ``none``.
    """
    if not trace.blocks:
        return Layout({}, 0, 0, "tight")
    arrays = _Arrays.of(trace, alignment)
    bound = int(_live_at_starts(arrays).max())
    offsets = _greedy(arrays, bound)
    proved = False
    if _peak(arrays, offsets) > bound:
        offsets = _searched(arrays, bound, offsets)
    if _peak(arrays, offsets) > bound and time_limit > 0:
        offsets, proved = _programme(arrays, bound, offsets, time_limit)
    peak = _peak(arrays, offsets)
    return Layout(
        {b.name: int(o) * arrays.unit for b, o in zip(trace.blocks, offsets, strict=True)},
        peak * arrays.unit,
        bound * arrays.unit,
        "tight" if peak == bound else "optimal" if proved else "none",
    )


def solve_nested(
    outer: Trace,
    inner: Mapping[str, Trace],
    *,
    alignment: int = ALIGNMENT,
    time_limit: float = 30.0,
) -> Layout:
    """Return offsets for passes inside a longer sequence, level by level.

    A block of ``outer`` whose name is in ``inner`` stands for a whole pass, a layer's say: it is as
    large as the peak of the pass, whatever its own size. Passes that are the same trace object are
    solved once. In the result the blocks of a pass are named ``pass/block``. The proof says that
    both levels are proved; the bound is that of the outer level.
    """
    solved = {id(t): solve(t, alignment=alignment, time_limit=time_limit) for t in inner.values()}
    layouts = {name: solved[id(t)] for name, t in inner.items()}
    sized = [
        Block(b.name, layouts[b.name].peak if b.name in layouts else b.nbytes, b.start, b.end)
        for b in outer.blocks
    ]
    top = solve(Trace(tuple(sized)), alignment=alignment, time_limit=time_limit)
    offsets = dict(top.offsets)
    for name, layout in layouts.items():
        if name in offsets:
            base = offsets[name]
            offsets |= {f"{name}/{part}": base + at for part, at in layout.offsets.items()}
    proofs = {top.proof, *(layout.proof for layout in layouts.values())}
    worst = next(p for p in ("none", "optimal", "tight") if p in proofs)
    return Layout(offsets, top.peak, top.bound, worst)


def _live_at_starts(a: _Arrays) -> Ints:
    """Return the size of what lives when each block begins; one of them is the most."""
    found = np.empty(len(a.size), dtype=np.int64)
    for i, at in enumerate(a.start):
        found[i] = a.size[(a.start <= at) & (at < a.end)].sum()
    return found


def _peak(a: _Arrays, offsets: Ints) -> int:
    return int((offsets + a.size).max())


def _greedy(a: _Arrays, bound: int) -> Ints:
    """Return the best layout of several greedy orders, the first that meets the bound."""
    tried = []
    for order in _orders(a):
        offsets = _first_fit(a, order)
        if _peak(a, offsets) == bound:
            return offsets
        tried.append(offsets)
    return min(tried, key=lambda offsets: _peak(a, offsets))


def _searched(a: _Arrays, bound: int, offsets: Ints) -> Ints:
    """Return a layout that meets the bound where a search finds one, else the one given."""
    backwards = a.end.max()
    for share in CORES:
        core = np.flatnonzero((a.size >= bound * share) & (a.size > 0))
        rest = np.setdiff1d(np.arange(len(a.size)), core)
        rest = rest[np.lexsort((a.start[rest], -a.size[rest]))]
        for start, end in ((a.start, a.end), (backwards - a.end, backwards - a.start)):
            size, begins, ends = (column[core].tolist() for column in (a.size, start, end))
            found = fit_below(size, begins, ends, bound, SEARCH_NODES)
            if found is None:
                continue
            filled = np.zeros(len(a.size), dtype=np.int64)
            filled[core] = found
            filled = _first_fit(a, rest, core, filled)
            if _peak(a, filled) == bound:
                return filled
    return offsets


def _orders(a: _Arrays) -> Iterator[Ints]:
    """Return orders in which blocks are placed; ties by start, then by place."""
    life, live = a.end - a.start, _live_at_starts(a)
    yield np.lexsort((a.start, -a.size * life))
    yield np.lexsort((a.start, -life, -a.size))
    yield np.lexsort((a.start, -a.size, -life))
    yield np.lexsort((-life, -a.size, -live))
    yield np.lexsort((-a.size, -life, a.start))
    yield np.lexsort((-a.size, -life, -a.end))


def _first_fit(
    a: _Arrays, order: Ints, placed: Ints | None = None, offsets: Ints | None = None
) -> Ints:
    """Return offsets: each block, in the order, as low as those before it allow.

    Args:
        a: the blocks.
        order: places of the blocks.
        placed: places of blocks that were placed before.
        offsets: theirs.
    """
    known = np.concatenate((np.empty(0, dtype=np.int64) if placed is None else placed, order))
    offsets = np.zeros(len(a.size), dtype=np.int64) if offsets is None else offsets.copy()
    for n, i in enumerate(order, len(known) - len(order)):
        before = known[:n]
        beside = before[(a.start[before] < a.end[i]) & (a.start[i] < a.end[before])]
        if not len(beside):
            continue
        beside = beside[np.argsort(offsets[beside], kind="stable")]
        begins = offsets[beside]
        tops = np.maximum.accumulate(begins + a.size[beside])
        below = np.concatenate(([0], tops[:-1]))
        fits = np.flatnonzero(begins - below >= a.size[i])
        offsets[i] = below[fits[0]] if len(fits) else tops[-1]
    return offsets


def _programme(a: _Arrays, bound: int, offsets: Ints, seconds: float) -> tuple[Ints, bool]:
    """Return a layout at least as good as the one given, and whether it is proved best.

    Minimise M over offsets A and one binary z for each pair that lives at once (z = 0: i lies
    below j): ``A_i + S_i <= M``, ``A_i + S_i <= A_j + z M_0``, ``A_j + S_j <= A_i + (1 - z) M_0``,
    where M_0 is the peak that is known.
    """
    n, cap = len(a.size), _peak(a, offsets)
    meets = (a.start[:, None] < a.end) & (a.start < a.end[:, None])
    first, second = np.nonzero(np.triu(meets, 1))
    pairs = len(first)
    if pairs > MILP_PAIRS:
        return offsets, False
    # Columns: offsets, the pairs' binaries, M. Rows: below M, i below j, j below i.
    rows, pair = np.arange(n), np.arange(pairs)
    table = [
        (rows, rows, np.ones(n)),
        (rows, np.full(n, n + pairs), -np.ones(n)),
        (n + pair, first, np.ones(pairs)),
        (n + pair, second, -np.ones(pairs)),
        (n + pair, n + pair, np.full(pairs, -cap)),
        (n + pairs + pair, second, np.ones(pairs)),
        (n + pairs + pair, first, -np.ones(pairs)),
        (n + pairs + pair, n + pair, np.full(pairs, cap)),
    ]
    at_row, at_column, value = (np.concatenate(part) for part in zip(*table, strict=True))
    matrix = coo_array((value, (at_row, at_column)), shape=(n + 2 * pairs, n + pairs + 1))
    upper = np.concatenate((-a.size, -a.size[first], cap - a.size[second]))
    # All columns are whole numbers of units: as real ones they would end up a tolerance too low.
    found = milp(
        np.concatenate((np.zeros(n + pairs), [1.0])),
        integrality=np.ones(n + pairs + 1),
        bounds=Bounds(
            np.concatenate((np.zeros(n + pairs), [bound])),
            np.concatenate((cap - a.size, np.ones(pairs), [cap])),
        ),
        constraints=LinearConstraint(matrix.tocsr(), -np.inf, upper),
        options={"time_limit": seconds, "mip_rel_gap": 0.0},
    )
    if found.x is None:
        return offsets, False
    # First fit from the lowest block up puts no block higher than the programme did, and whole
    # numbers in the place of its rounded ones.
    order = np.argsort(np.round(found.x[:n]), kind="stable").astype(np.int64)
    better = _first_fit(a, order)
    if _peak(a, better) > cap:
        return offsets, False
    proved = found.status == 0 and _peak(a, better) <= math.ceil(found.mip_dual_bound - 1e-6)
    return better, proved

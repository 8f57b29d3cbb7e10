"""Which ranks share each row, where rows are longer than one rank's window.

A row of ``w`` windows goes to an aligned block of ranks, the narrowest whose width holds it; blocks
are aligned so that every width needs only ``ranks / width`` communication groups, made once.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from packing.format import ShardError
from transforms.kernel import inlined_kernel, kernel

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Moves that are made at most; a step of 64 ranks takes some ten.
_ROUNDS = 256


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Blocks of ranks for the rows of one step."""

    width: Ints
    """Ranks that share each row, int64[n]."""
    first: Ints
    """First rank of each row's block, a multiple of its width, int64[n]."""
    load: Floats
    """Work of each rank, float64[ranks]."""

    @property
    def imbalance(self) -> float:
        """Work of the slowest rank over that of the mean rank; 1 is perfect."""
        return float(self.load.max() / self.load.mean()) if self.load.any() else 1.0


def group_widths(n_tokens: npt.ArrayLike, window: int, ranks: int) -> Ints:
    """Return the ranks each row needs: the smallest power of two, or all ranks.

    Args:
        n_tokens: tokens of each row.
        window: tokens one rank holds.
        ranks: all ranks.

    Raises:
        ShardError: a row longer than all ranks' windows together.
    """
    tokens = np.asarray(n_tokens, np.int64)
    powers = [1 << i for i in range(ranks.bit_length()) if ranks % (1 << i) == 0]
    widths = np.unique([*powers, ranks])
    wide = np.flatnonzero(tokens > window * ranks)
    if len(wide):
        raise ShardError(
            f"row {wide[0]} has {tokens[wide[0]]} tokens ({len(wide)} such rows), {ranks} ranks of "
            f"{window} hold {window * ranks}; cut longer documents, or use more ranks"
        )
    found: Ints = widths[np.searchsorted(widths * window, tokens)]
    return found


def plan_groups(n_tokens: npt.ArrayLike, cost: npt.ArrayLike, window: int, ranks: int) -> GroupPlan:
    """Give each row of a step an aligned block of ranks, so that ranks do equal work.

    Rows are taken widest first, then costliest first, each to the aligned block whose most loaded
    rank has the least work; then rows of the most loaded rank are moved, or exchanged with rows of
    other blocks that are no wider, while that lowers the most work (longest processing time first
    with local search).

    Args:
        n_tokens: tokens of each row, int[n].
        cost: work of each row on all its ranks together, float[n], at least 0.
        window: tokens one rank holds.
        ranks: all ranks.

    Raises:
        ShardError: a row that no block holds, or costs that are no numbers.
    """
    price = np.asarray(cost, np.float64)
    width = group_widths(n_tokens, window, ranks)
    wrong = np.flatnonzero(~((price >= 0) & np.isfinite(price)))
    if len(wrong) or len(price) != len(width):
        what = f"row {wrong[0]} costs {price[wrong[0]]}" if len(wrong) else f"{len(price)} costs"
        raise ShardError(f"{what} for {len(width)} rows; pass one cost of at least 0 each")
    each = price / width
    order = np.lexsort((-each, -width))
    first, load = _deal_blocks(width[order], each[order], ranks)
    _exchange(width[order], each[order], first, load)
    placed = np.empty_like(first)
    placed[order] = first
    return GroupPlan(width, placed, load)


@kernel
def _deal_blocks(width: Ints, each: Floats, ranks: int) -> tuple[Ints, Floats]:
    """Place rows in their order; return the first rank of each, and the work of each rank."""
    load = np.zeros(ranks)
    first = np.zeros(len(width), dtype=np.int64)
    for i in range(len(width)):
        w = width[i]
        least = np.inf
        for a in range(0, ranks, w):
            most = load[a : a + w].max()
            if most < least:
                least = most
                first[i] = a
        load[first[i] : first[i] + w] += each[i]
    return first, load


@kernel
def _exchange(width: Ints, each: Floats, first: Ints, load: Floats) -> None:
    """Move or exchange rows of the most loaded rank while its work falls; at most some rounds."""
    for _ in range(_ROUNDS):
        i, block, j, place = _best_move(width, each, first, load)
        if i < 0:
            break
        first[i] = block
        if j >= 0:
            first[j] = place
        # From the start, so that sums do not drift.
        load[:] = 0
        for k in range(len(width)):
            _shift(load, first[k], width[k], each[k])


@kernel
def _best_move(width: Ints, each: Floats, first: Ints, load: Floats) -> tuple[int, int, int, int]:
    """Return the move that leaves least work: a row, its block, a row that comes back, and where."""
    top = np.argmax(load)
    best = load[top] * (1 - 1e-9)
    move = (-1, -1, -1, -1)
    for i in range(len(width)):
        a, w = first[i], width[i]
        if not a <= top < a + w:
            continue
        _shift(load, a, w, -each[i])
        for b in range(0, len(load), w):
            if b != a:
                _shift(load, b, w, each[i])
                most, j, place = _best_return(width, each, first, load, a, b, w, i, best)
                _shift(load, b, w, -each[i])
                if most < best:
                    best = most
                    move = (i, b, j, place)
        _shift(load, a, w, each[i])
    return move


@kernel
def _best_return(
    width: Ints,
    each: Floats,
    first: Ints,
    load: Floats,
    a: int,
    b: int,
    w: int,
    moved: int,
    best: float,
) -> tuple[float, int, int]:
    """Return the least work on blocks a and b, and the row that goes from b to a for it, or -1."""
    best = min(best, max(load[a : a + w].max(), load[b : b + w].max()))
    found, place = -1, -1
    for j in range(len(width)):
        at, v = first[j], width[j]
        if j == moved or at < b or at + v > b + w:
            continue
        _shift(load, at, v, -each[j])
        for to in range(a, a + w, v):
            # Before the maximum over both blocks, what alone decides most trials.
            if load[to : to + v].max() + each[j] < best:
                _shift(load, to, v, each[j])
                most = max(load[a : a + w].max(), load[b : b + w].max())
                _shift(load, to, v, -each[j])
                if most < best:
                    best, found, place = most, j, to
        _shift(load, at, v, each[j])
    return best, found, place


@inlined_kernel
def _shift(load: Floats, first: int, width: int, work: float) -> None:
    """Add work to the ranks of a block."""
    for rank in range(first, first + width):
        load[rank] += work

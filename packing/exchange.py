"""The heaviest rows of neighbouring blocks, gathered with their like before the blocks are dealt.

Ranks of a slot wait for its heaviest row. Lengths have long tails: of 64 steps of web text in rows of
128K tokens, a handful of rows cost 3.3 times the mean and the next hundred anything between, so that
the first of 256 slots alone makes 60 % of all waiting, however rows are dealt. Over 1024 steps there
are whole slots of such rows. ("WLB-LLM", arXiv:2503.17924, section 4.1, delays outlier documents for
the same reason; here nothing waits, since the plan sees all rows.)
"""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from packing.lengths import taking_order
from transforms.record import mix64

_NEIGHBOURS = 16
# One slot in so many is exchanged: the rest of a block's slots hold close neighbours already.
_HEAVY_SHARE = 64


def exchange_heaviest(
    rows: npt.NDArray[np.int64],
    cost: npt.NDArray[np.float64],
    bounds: list[int],
    slot_rows: int,
    seed: int,
) -> npt.NDArray[np.int64]:
    """Let blocks exchange their heaviest rows, so that slots of equally heavy ones can be cut.

    Of each group of up to 16 neighbouring blocks, a 64th of every block's rows (at least a slot) is
    pooled, the heaviest; the pool is sorted by cost and cut into slots, and of each run of as many
    slots as there are blocks every block gets one, in seeded order.

    Args:
        rows: indices into ``cost``, int64[r], block behind block.
        cost: cost of every row.
        bounds: first row of each block and the end of the last, in ascending order; what lies
            behind stays as it is.
        slot_rows: rows of a slot.
        seed: any integer.

    Returns:
        The rows in new order; blocks keep their size, and lighter rows their place.
    """
    if slot_rows == 1:
        return rows
    rows = rows.copy()
    for first in range(0, len(bounds) - 1, _NEIGHBOURS):
        group = list(pairwise(bounds[first : first + _NEIGHBOURS + 1]))
        smallest = min(end - start for start, end in group)
        slots = max(1, smallest // slot_rows // _HEAVY_SHARE)
        if len(group) == 1 or slots * slot_rows > smallest:
            continue
        # int64[blocks, slots x slot_rows]: where the heaviest rows of each block stand.
        heavy = np.stack(
            [start + _heaviest(cost[rows[start:end]], slots * slot_rows) for start, end in group]
        )
        pool = rows[heavy.ravel()]
        pool = pool[np.argsort(-cost[pool], kind="stable")].reshape(slots, len(group), slot_rows)
        turn = taking_order(mix64(np.arange(first, first + len(group)), seed + 2))
        # Every other run the other way round: who got the heavier slot now gets the lighter.
        pool[::2] = pool[::2, turn]
        pool[1::2] = pool[1::2, turn[::-1]]
        rows[heavy] = pool.transpose(1, 0, 2).reshape(heavy.shape)
    return rows


def _heaviest(cost: npt.NDArray[np.float64], n: int) -> npt.NDArray[np.int64]:
    """Return where the ``n`` largest costs stand, ascending; the first of equals."""
    limit = np.partition(cost, len(cost) - n)[len(cost) - n]
    above = np.flatnonzero(cost > limit)
    equal = np.flatnonzero(cost == limit)[: n - len(above)]
    return np.sort(np.concatenate([above, equal]))

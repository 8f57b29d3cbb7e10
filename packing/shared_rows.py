"""Rows that several ranks share: documents longer than a row, kept whole on aligned blocks of ranks.

A document of up to ``cp`` x ``seq_len`` tokens is a row of its own that ``cp`` ranks train together,
``cp`` a power of two that divides the data-parallel ranks. So that every slot stays full, rows of
about equal work per rank are joined to blocks of the widest ``cp``; blocks are then dealt like rows.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from packing.format import ShardError
from packing.lengths import taking_order
from packing.pieces import Pieces

Ints = npt.NDArray[np.int64]


def widest_block(dp: int) -> int:
    """Return the most ranks that may share a row: the largest power of two that divides ``dp``."""
    return dp & -dp


def ranks_of(n_tokens: npt.NDArray[np.integer], seq_len: int) -> npt.NDArray[np.int16]:
    """Return the ranks that share each row: the smallest power of two whose rooms hold it, int16."""
    rooms = -(-n_tokens.astype(np.int64) // seq_len)
    # The exponent of frexp is the bit length of an integer.
    exponent = np.frexp(np.maximum(rooms - 1, 0).astype(np.float64))[1]
    return (1 << exponent.astype(np.int64)).astype(np.int16)


@dataclass(frozen=True, slots=True)
class Kept:
    """Documents longer than a row as rows of their own, and what is left to be fitted."""

    rows: Pieces
    """A row of its own for each piece."""
    n_tokens: npt.NDArray[np.int32]
    """Tokens of each document that are still to be fitted, int32[n]; at most ``seq_len``."""


def keep_long(
    n_tokens: npt.NDArray[np.int32], order: npt.NDArray[np.uint64], seq_len: int, widest: int
) -> Kept:
    """Give documents of more than ``seq_len`` tokens rows of their own.

    One of more than ``widest`` x ``seq_len`` is cut into rows of that many and one remainder, which
    is a document like any other: with more than ``seq_len`` tokens it has a row of its own.

    Args:
        n_tokens: length of each document, int32[n].
        order: seeded key of each document, uint64[n].
        seq_len: tokens that one rank holds.
        widest: the most ranks of a row.
    """
    long = np.flatnonzero(n_tokens > seq_len)
    long = long[taking_order(order[long])]
    window = seq_len * widest
    rest = n_tokens[long].astype(np.int64) % window
    rows = n_tokens[long].astype(np.int64) // window + (rest > seq_len)
    document = np.repeat(long, rows)
    nth = np.arange(len(document)) - np.repeat(np.cumsum(rows) - rows, rows)
    start = nth * window
    length = np.minimum(window, n_tokens[document] - start)
    left = n_tokens.copy()
    left[long] = np.where(rest > seq_len, 0, rest)
    pieces = Pieces(
        np.arange(len(document)), document, start.astype(np.int32), length.astype(np.int32)
    )
    return Kept(pieces, left)


@dataclass(frozen=True, slots=True)
class Blocks:
    """Rows on aligned places of blocks; only the last block may have free places."""

    block: Ints
    """Block of each row, int64[n]; blocks count from 0 without holes."""
    offset: Ints
    """First place of each row in its block, a multiple of its ``cp``, int64[n]."""
    count: int
    """Number of blocks."""
    short: bool
    """Whether the last block has free places."""


def join_rows(
    each: npt.NDArray[np.float64], cp: npt.NDArray[np.int16], width: int, batch: int
) -> Blocks:
    """Join rows to blocks of ``width`` ranks, of about equal work on each.

    Rows are taken in the order given, ``batch`` places at a time. Of each width, from one rank up,
    the rows are sorted by work and neighbours joined to twice the width; what stays without a
    partner waits for the next rows, and at the very end shares one short block.

    Args:
        each: work of a row on each of its ranks, float64[n].
        cp: ranks of each row, powers of two up to ``width``, int16[n].
        width: ranks of a block.
        batch: places of rows that are joined together.
    """
    block, offset = np.empty(len(cp), np.int64), np.empty(len(cp), np.int64)
    ends = np.cumsum(cp, dtype=np.int64)
    waiting = np.empty(0, np.int64)
    count = first = 0
    while first < len(cp):
        below = int(ends[first - 1]) if first else 0
        stop = max(first + 1, int(np.searchsorted(ends, below + batch, "right")))
        rows = np.concatenate([waiting, np.arange(first, stop)])
        node, place, whole = _join(each[rows], cp[rows].astype(np.int64), width)
        done = whole[node]
        number = np.cumsum(whole) - 1 + count
        block[rows[done]], offset[rows[done]] = number[node[done]], place[done]
        count += int(whole.sum())
        waiting, nodes, places = rows[~done], node[~done], place[~done]
        first = stop
    if len(waiting):
        # Of each width at most one node is left, so that the widest first are all aligned.
        names, own = np.unique(nodes, return_inverse=True)
        size = np.bincount(own, cp[waiting]).astype(np.int64)
        by_size = np.argsort(-size, kind="stable")
        begin = np.empty(len(names), np.int64)
        begin[by_size] = np.cumsum(size[by_size]) - size[by_size]
        block[waiting], offset[waiting] = count, begin[own] + places
        count += 1
    return Blocks(block, offset, count, bool(len(waiting)))


def _join(
    each: npt.NDArray[np.float64], cp: Ints, width: int
) -> tuple[Ints, Ints, npt.NDArray[np.bool_]]:
    """Return the node of each row, its place in it, and which nodes are ``width`` ranks wide."""
    node, place = np.arange(len(cp)), np.zeros(len(cp), np.int64)
    size, work = cp.copy(), each.copy()
    level = 1
    while level < width:
        here = np.flatnonzero(size == level)
        here = here[np.argsort(-work[here], kind="stable")]
        here = here[: len(here) - len(here) % 2]
        left, right = here[::2], here[1::2]
        into, shift = np.arange(len(size)), np.zeros(len(size), np.int64)
        into[right], shift[right] = left, level
        place += shift[node]
        node = into[node]
        work[left] = (work[left] + work[right]) / 2
        size[left] = 2 * level
        size[right] = 0
        level *= 2
    return node, place, size == width


def check_blocks(cp: npt.NDArray[np.int16], dp: int) -> int:
    """Return the most ranks that share a row of a plan.

    Raises:
        ShardError: blocks of so many ranks do not fit ``dp``.
    """
    width = int(cp.max(initial=1))
    if dp % width:
        raise ShardError(
            f"rows are shared by up to {width} ranks, which dp = {dp} is not a multiple of; choose "
            f'a dp that is, or pack with long = "cut"'
        )
    return width


def place_costs(
    cost: npt.NDArray[np.float64],
    cp: npt.NDArray[np.int16],
    step: npt.NDArray[np.int32],
    slot: npt.NDArray[np.int32],
    rank: npt.NDArray[np.int32],
) -> npt.NDArray[np.float64]:
    """Return the work at each place of a plan, by step, slot and rank; a shared row's in parts.

    Args:
        cost: cost of each row in the order of the plan, float64[r]; like the others.
        cp: ranks that share it.
        step: its step.
        slot: its slot.
        rank: its first rank.
    """
    if (cp == 1).all():
        return cost
    row = np.repeat(np.arange(len(cp)), cp)
    ends = np.cumsum(cp, dtype=np.int64)
    own = rank[row] + np.arange(len(row)) - (ends - cp)[row]
    order = np.lexsort((own, slot[row], step[row]))
    return np.asarray((cost / cp)[row][order])

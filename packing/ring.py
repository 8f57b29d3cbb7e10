"""Chunk maps of divided pieces, what their rings carry, and the way to the linear layout.

A piece on ``G`` ranks is cut into ``2 G`` chunks; the i-th rank takes chunk i and chunk 2G-1-i, so
that with causal attention each token of the piece costs every rank the same.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from packing.format import ShardError

Ints = npt.NDArray[np.int64]


def chunk_offsets(length: Ints, first: Ints, share: Ints) -> tuple[Ints, Ints]:
    """Return where the chunks of each piece begin and end.

    Args:
        length: tokens of the pieces, int64[n].
        first: bounds of the ranks of each piece, int64[n + 1].
        share: tokens that each rank holds, int64[m].

    Returns:
        int64[n + 1] and int64[2 m + n]: bounds of each piece's list, and the lists: from 0 to the
        piece's length, chunk c of G ranks is ``[list[c], list[c + 1])`` and belongs to its rank c
        if c < G, to its rank 2G-1-c otherwise.
    """
    bounds = 2 * first + np.arange(len(first))
    offsets = np.zeros(int(bounds[-1]), np.int64)
    piece = np.repeat(np.arange(len(length)), np.diff(first))
    place = np.arange(len(share)) - first[piece]
    head = share // 2
    before = np.concatenate([[0], np.cumsum(head)])
    # Heads run up from 0, tails down from the end, and both meet in the middle.
    up = before[1:] - before[first[piece]]
    offsets[bounds[piece] + 1 + place] = up
    tail = np.concatenate([[0], np.cumsum(share - head)])
    down = length[piece] - (tail[:-1] - tail[first[piece]])
    offsets[bounds[1:][piece] - 1 - place] = down
    return bounds, offsets


@dataclass(frozen=True, slots=True)
class Transfers:
    """Tokens that go from one layout to another: sorted by (source, target)."""

    source: npt.NDArray[np.int32]
    """Rank that sends."""
    target: npt.NDArray[np.int32]
    """Rank that receives."""
    tokens: Ints
    """How many tokens, at least 1."""


def linear_tokens(tokens: Ints) -> Ints:
    """Return the tokens of each rank in the linear layout: equal, but for one more on the fullest.

    Args:
        tokens: tokens of each rank in the attention layout, int64[ranks].
    """
    mean, more = divmod(int(tokens.sum()), len(tokens))
    wanted = np.full(len(tokens), mean, np.int64)
    wanted[np.argsort(-tokens, kind="stable")[:more]] += 1
    return wanted


def remap(tokens: Ints, wanted: Ints, ranks_per_node: int) -> Transfers:
    """Return the cheapest transfers from one layout to another, and reversed, back.

    Traffic has two prices, within a node and across; then it is optimal to match inside each node
    first and the rest across, in the order of ranks.

    Args:
        tokens: tokens each rank has, int64[ranks].
        wanted: tokens each rank shall have, with the same sum.
        ranks_per_node: ranks of a node.

    Raises:
        ShardError: the sums differ, or nodes are not full.
    """
    if tokens.sum() != wanted.sum() or len(tokens) % ranks_per_node:
        raise ShardError(
            f"{tokens.sum()} tokens on {len(tokens)} ranks in nodes of {ranks_per_node} cannot "
            f"become {wanted.sum()}; pass layouts of the same tokens on full nodes"
        )
    over = np.maximum(tokens - wanted, 0).reshape(-1, ranks_per_node)
    under = np.maximum(wanted - tokens, 0).reshape(-1, ranks_per_node)
    inside = np.minimum(over.sum(axis=1), under.sum(axis=1))
    send = _leading(over, inside)
    take = _leading(under, inside)
    near = _match(send.ravel(), take.ravel())
    far = _match((over - send).ravel(), (under - take).ravel())
    source, target, count = (np.concatenate(pair) for pair in zip(near, far, strict=True))
    order = np.lexsort((target, source))
    return Transfers(source[order].astype(np.int32), target[order].astype(np.int32), count[order])


def _leading(amount: Ints, total: Ints) -> Ints:
    """Return the first ``total`` of each line's amounts, taken in order."""
    end = np.minimum(np.cumsum(amount, axis=1), total[:, None])
    leading: Ints = np.diff(end, axis=1, prepend=0)
    return leading


def _match(send: Ints, take: Ints) -> tuple[Ints, Ints, Ints]:
    """Pair senders and takers in order: (sender, taker, how much)."""
    sent, taken = np.cumsum(send), np.cumsum(take)
    ends = np.unique(np.concatenate([sent, taken]))
    ends = ends[ends > 0]
    count = np.diff(ends, prepend=0)
    return np.searchsorted(sent, ends), np.searchsorted(taken, ends), count

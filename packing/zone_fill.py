"""Kernels that place the pieces of a step on ranks: whole, over one node, or over several.

Pieces are taken longest first. A rank's attention work for a piece is its part of the piece's tokens
times the piece's work: of causal attention exactly, because it holds a chunk of the head and its
mirror image of the tail; under a sliding window nearly.
"""

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel

Ints = npt.NDArray[np.int64]
Ranks = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

ALIGN = 128
"""Tokens that chunk lengths are multiples of, where chunks are four times as long."""

# A piece with a smaller share of the target goes whole to where it adds least.
_LITTLE = 64


@kernel
def chunk_align(length: int, width: int) -> int:
    """Return what chunk lengths are multiples of when ``width`` ranks share ``length`` tokens."""
    align = ALIGN
    while align > 1 and length < 8 * width * align:
        align //= 2
    return align


@kernel
def even_share(length: int, width: int, place: int) -> int:
    """Return the tokens of the rank at ``place`` of ``width``: a pair of chunks as even as can be.

    The last place holds the two chunks in the middle, and with them what is no multiple.
    """
    align = chunk_align(length, width)
    unit = 2 * width * align
    first = (2 * place * length + unit) // (2 * unit) * align
    if place == width - 1:
        return length - 2 * first
    return 2 * ((2 * (place + 1) * length + unit) // (2 * unit) * align - first)


@kernel
def fill(
    length: Ints,
    density: Floats,
    nodes: int,
    per_node: int,
    capacity: int,
    target: float,
    floor: Ints,
    budget: int,
) -> tuple[Ints, Ranks, Ints]:
    """Place pieces on ranks.

    A piece goes whole to the rank with the least attention work that has room, if that keeps the
    rank within the target; else evenly over the fewest ranks of one node that stay within it; else
    over the fewest nodes. Where nothing stays within the target, the placement with the least
    maximum is taken; where nothing has room, the piece is cut unevenly into the rooms there are.

    Args:
        length: tokens of the pieces, longest first, int64[n], at least 1.
        density: attention work of a token of each, float64[n].
        nodes: number of nodes; ranks of a node are consecutive.
        per_node: ranks of a node.
        capacity: tokens a rank may hold; all pieces together fit the ranks.
        target: attention work that a rank should not exceed; pieces that hardly
            count beside it are not divided for its sake.
        floor: shortest piece that is divided for the sake of balance, within a node and across
            nodes, int64[2].
        budget: tokens that may cross nodes for the sake of balance, times nodes they are on.

    Returns:
        int64[n + 1], int32[m], int64[m]: bounds of each piece's ranks (ascending), the ranks, and
        the tokens each holds of the piece.
    """
    n = len(length)
    ranks = nodes * per_node
    work = np.zeros(ranks)
    tokens = np.zeros(ranks, dtype=np.int64)
    first = np.zeros(n + 1, dtype=np.int64)
    owner = np.empty(n + 4 * ranks, dtype=np.int32)
    share = np.empty(n + 4 * ranks, dtype=np.int64)
    chosen = np.empty(ranks, dtype=np.int32)
    spent = 0
    for i in range(n):
        s = length[i]
        m = _choose(
            s,
            density[i],
            nodes,
            per_node,
            capacity,
            target,
            floor,
            budget - spent,
            work,
            tokens,
            chosen,
        )
        at = first[i]
        if at + ranks > len(owner):
            owner = np.concatenate((owner, np.empty(len(owner), dtype=np.int32)))
            share = np.concatenate((share, np.empty(len(share), dtype=np.int64)))
        if m:
            held = np.sort(chosen[:m])
            for j in range(m):
                owner[at + j] = held[j]
                share[at + j] = even_share(s, m, j)
        else:
            m = _spill(s, capacity, tokens, owner[at:], share[at:])
        spent += _crossing(s, owner[at : at + m], per_node)
        for j in range(m):
            rank = owner[at + j]
            work[rank] += density[i] * share[at + j]
            tokens[rank] += share[at + j]
        first[i + 1] = at + m
    return first, owner[: first[n]].copy(), share[: first[n]].copy()


@kernel
def _crossing(s: int, owner: Ranks, per_node: int) -> int:
    """Return tokens times the nodes they are on, 0 within one node."""
    count = 1
    for j in range(1, len(owner)):
        if owner[j] // per_node != owner[j - 1] // per_node:
            count += 1
    return s * count if count > 1 else 0


@kernel
def _spill(s: int, capacity: int, tokens: Ints, owner: Ranks, share: Ints) -> int:
    """Cut a piece into whatever room there is, as evenly as rooms allow; return how many ranks."""
    ranks = len(tokens)
    by_room = np.argsort(tokens, kind="mergesort")
    part = np.zeros(ranks, dtype=np.int64)
    # The roomiest ranks take the piece; each in turn takes an even share of what is left.
    width = 0
    room = 0
    while room < s:
        room += capacity - tokens[by_room[width]]
        width += 1
    left = s
    for j in range(width - 1, -1, -1):
        rank = by_room[j]
        part[rank] = min(capacity - tokens[rank], -(-left // (j + 1)))
        left -= part[rank]
    m = 0
    for rank in range(ranks):
        if part[rank]:
            owner[m] = rank
            share[m] = part[rank]
            m += 1
    return m


@kernel
def _choose(
    s: int,
    density: float,
    nodes: int,
    per_node: int,
    capacity: int,
    target: float,
    floor: Ints,
    budget: int,
    work: Floats,
    tokens: Ints,
    chosen: Ranks,
) -> int:
    """Write the ranks that a piece goes to; return how many, 0 where nothing has room."""
    least = np.inf
    width = 0
    for rank in range(len(work)):
        if tokens[rank] + s <= capacity and work[rank] + density * s < least:
            least = work[rank] + density * s
            chosen[0] = rank
            width = 1
    if least <= target or (width and density * s * _LITTLE <= target):
        return width
    # Nodes, and ranks of each node, by the work they have.
    by_work = np.argsort(work.reshape(nodes, per_node).sum(axis=1), kind="mergesort")
    order = np.empty((nodes, per_node), dtype=np.int64)
    for n in range(nodes):
        first = by_work[n] * per_node
        order[n] = first + np.argsort(work[first : first + per_node], kind="mergesort")
    if s >= floor[0] or width == 0:
        width, least = _within(
            s, density, order, capacity, target, work, tokens, chosen, width, least
        )
    if least > target and (s >= floor[1] or width == 0):
        width = _across(
            s, density, order, capacity, target, budget, work, tokens, chosen, width, least
        )
    return width


@kernel
def _within(
    s: int,
    density: float,
    order: Ints,
    capacity: int,
    target: float,
    work: Floats,
    tokens: Ints,
    chosen: Ranks,
    width: int,
    least: float,
) -> tuple[int, float]:
    """Look for ranks of one node that share a piece, better than the ``width`` chosen ones."""
    nodes, per_node = order.shape
    trial = np.empty(per_node, dtype=np.int32)
    # Fewer ranks cannot stay within the target, whichever they are.
    fewest = 2
    if target > work.min():
        fewest = max(2, min(per_node, int(density * s / (target - work.min()))))
    for g in range(fewest, min(per_node, s // 2) + 1):
        for n in range(nodes):
            most = _try(s, density, g, order[n : n + 1], capacity, work, tokens, trial)
            if most < least:
                least = most
                width = g
                chosen[:g] = trial[:g]
        if least <= target:
            break
    return width, least


@kernel
def _across(
    s: int,
    density: float,
    order: Ints,
    capacity: int,
    target: float,
    budget: int,
    work: Floats,
    tokens: Ints,
    chosen: Ranks,
    width: int,
    least: float,
) -> int:
    """Look for ranks of several nodes, as many of each, better than the ``width`` chosen ones."""
    nodes, per_node = order.shape
    trial = np.empty(nodes * per_node, dtype=np.int32)
    for k in range(2, nodes + 1):
        if width and k * s > budget:
            break
        for each in range(1, min(per_node, s // (2 * k)) + 1):
            most = _try(s, density, k * each, order[:k], capacity, work, tokens, trial)
            if most < least:
                least = most
                width = k * each
                chosen[:width] = trial[:width]
            if least <= target:
                return width
    return width


@kernel
def _try(
    s: int,
    density: float,
    g: int,
    order: Ints,
    capacity: int,
    work: Floats,
    tokens: Ints,
    trial: Ranks,
) -> float:
    """Take the least loaded ranks of each node that have room; return the most work of any.

    Returns infinity where a node has too few of them.
    """
    # No share of an even division is larger.
    widest = s if g == 1 else -(-s // g) + 2 * chunk_align(s, g)
    each = g // len(order)
    m = 0
    most = 0.0
    for node in range(len(order)):
        taken = 0
        for rank in order[node]:
            if taken < each and tokens[rank] + widest <= capacity:
                trial[m] = rank
                m += 1
                taken += 1
                most = max(most, work[rank] + density * s / g)
        if taken < each:
            return np.inf
    return most


@kernel
def loads(
    density: Floats, first: Ints, owner: Ranks, share: Ints, ranks: int
) -> tuple[Floats, Ints]:
    """Return attention work and tokens of each rank, float64[ranks] and int64[ranks]."""
    work = np.zeros(ranks)
    tokens = np.zeros(ranks, dtype=np.int64)
    for i in range(len(density)):
        for j in range(first[i], first[i + 1]):
            work[owner[j]] += density[i] * share[j]
            tokens[owner[j]] += share[j]
    return work, tokens


@kernel
def ring_tokens(
    length: Ints, first: Ints, owner: Ranks, share: Ints, per_node: int
) -> tuple[int, int]:
    """Return the tokens whose keys and values pass a hop within nodes and one across, of all rings.

    The ring of a piece runs over its ranks in ascending order and back: each hop carries the tokens
    of all ranks but the receiver's own.
    """
    within = 0
    across = 0
    for i in range(len(length)):
        a = first[i]
        b = first[i + 1]
        if b - a > 1:
            for j in range(a, b):
                to = j + 1 if j + 1 < b else a
                if owner[j] // per_node == owner[to] // per_node:
                    within += length[i] - share[to]
                else:
                    across += length[i] - share[to]
    return within, across

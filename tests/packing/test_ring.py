"""Chunk maps, ring volume and transfers, against direct simulations and a linear program."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from packing.format import ShardError
from packing.ring import chunk_offsets, linear_tokens, remap
from packing.zone_fill import even_share, ring_tokens


def test_chunks_of_known_shares() -> None:
    """Heads run up, tails run down, and the last rank holds the middle."""
    bounds, offsets = chunk_offsets(
        np.array([10, 3, 7]), np.array([0, 3, 4, 6]), np.array([4, 4, 2, 3, 1, 6])
    )
    assert bounds.tolist() == [0, 7, 10, 15]
    assert offsets[:7].tolist() == [0, 2, 4, 5, 6, 8, 10]
    assert offsets[7:10].tolist() == [0, 1, 3]
    assert offsets[10:].tolist() == [0, 0, 3, 6, 7]


@given(st.integers(1, 12), st.integers(1, 5000))
def test_causal_work_is_equal_for_every_token(width: int, length: int) -> None:
    """The queries of a rank's chunks see, per token it holds, the same number of keys."""
    width = max(1, min(width, length // 2))
    share = np.array([even_share(length, width, i) for i in range(width)], np.int64)
    _, offsets = chunk_offsets(np.array([length]), np.array([0, width]), share)
    seen = np.zeros(width)
    for c, (low, high) in enumerate(itertools.pairwise(offsets.tolist())):
        seen[min(c, 2 * width - 1 - c)] += sum(range(low + 1, high + 1))
    # Twice the keys seen is s x, but for the diagonal and an odd token.
    assert np.abs(2 * seen - length * share).max() <= 2 * length


def simulated_ring(length: int, ranks: list[int], share: list[int], per_node: int) -> list[int]:
    """Pass every block on round by round, as the ranks of a ring do."""
    moved = [0, 0]
    held = list(range(len(ranks)))
    for _ in range(len(ranks) - 1):
        for at, block in enumerate(held):
            to = (at + 1) % len(ranks)
            moved[ranks[at] // per_node != ranks[to] // per_node] += share[block]
        held = held[-1:] + held[:-1]
    return moved


def needed_blocks(offsets: list[int], width: int, causal: bool) -> int:
    """Volume by blocks (DCP, SOSP'25, section 4): for each rank, the inputs that lie elsewhere."""
    chunks = list(itertools.pairwise(offsets))
    owner = [min(c, 2 * width - 1 - c) for c in range(2 * width)]
    total = 0
    for rank in range(width):
        inputs = {
            key
            for query in range(2 * width)
            for key in range(2 * width)
            if owner[query] == rank and owner[key] != rank and (key <= query or not causal)
        }
        total += sum(chunks[key][1] - chunks[key][0] for key in inputs)
    return total


@given(
    st.lists(st.integers(0, 11), min_size=1, max_size=12, unique=True),
    st.integers(64, 4000),
    st.sampled_from([1, 2, 3, 4, 12]),
)
def test_ring_volume(ranks: list[int], length: int, per_node: int) -> None:
    """The closed form is what a simulated ring carries, and what DCP's general formula counts."""
    ranks.sort()
    width = len(ranks)
    share = [int(even_share(length, width, i)) for i in range(width)]
    found = ring_tokens(
        np.array([length]),
        np.array([0, width]),
        np.array(ranks, np.int32),
        np.array(share),
        per_node,
    )
    assert list(found) == simulated_ring(length, ranks, share, per_node)
    _, offsets = chunk_offsets(np.array([length]), np.array([0, width]), np.array(share))
    assert sum(found) == needed_blocks(offsets.tolist(), width, causal=False)
    assert sum(found) >= needed_blocks(offsets.tolist(), width, causal=True)


LAYOUTS = st.tuples(st.sampled_from([(1, 1), (1, 4), (2, 3), (3, 2), (4, 2)]), st.integers(0, 999))


@given(LAYOUTS)
def test_transfers_are_the_cheapest(layout: tuple[tuple[int, int], int]) -> None:
    """They lead to the wanted layout, at the price of the best solution of the linear program."""
    (nodes, per_node), seed = layout
    ranks = nodes * per_node
    tokens = np.random.default_rng(seed).integers(0, 50, ranks)
    wanted = linear_tokens(tokens)
    found = remap(tokens, wanted, per_node)
    after = tokens.copy()
    np.subtract.at(after, found.source, found.tokens)
    np.add.at(after, found.target, found.tokens)
    assert after.tolist() == wanted.tolist()
    assert after.max() - after.min() <= 1
    assert (found.tokens > 0).all()
    assert (found.source != found.target).all()
    node = np.arange(ranks) // per_node
    price = np.where(node[:, None] == node, 1.0, 8.0)
    np.fill_diagonal(price, 0.0)
    sums = np.zeros((2 * ranks, ranks * ranks))
    for r in range(ranks):
        sums[r, r * ranks : (r + 1) * ranks] = 1
        sums[ranks + r, r::ranks] = 1
    best = linprog(price.ravel(), A_eq=sums, b_eq=np.concatenate([tokens, wanted]))
    paid = (price[found.source, found.target] * found.tokens).sum()
    assert paid == pytest.approx(best.fun, abs=1e-6)


def test_layouts_of_other_tokens_are_refused() -> None:
    """Tokens neither vanish nor appear on the way."""
    with pytest.raises(ShardError, match="5 tokens on 2 ranks in nodes of 2 cannot become 6"):
        remap(np.array([2, 3]), np.array([3, 3]), 2)

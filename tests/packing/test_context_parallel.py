"""Blocks of ranks for rows longer than a window."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.context_parallel import group_widths, plan_groups
from packing.format import ShardError


def test_widths_are_the_narrowest_that_hold_a_row() -> None:
    """Powers of two that divide the ranks, or all ranks."""
    assert group_widths([1, 10, 11, 20, 21, 41], 10, 8).tolist() == [1, 1, 2, 2, 4, 8]
    assert group_widths([10, 21, 41, 60], 10, 6).tolist() == [1, 6, 6, 6]
    assert group_widths([], 10, 8).tolist() == []


@given(
    st.lists(st.tuples(st.integers(1, 80), st.floats(0, 9)), max_size=40),
    st.sampled_from([1, 2, 6, 8]),
)
def test_blocks_are_aligned_and_loads_add_up(rows: list[tuple[int, float]], ranks: int) -> None:
    """Each row stands on an aligned block that holds it; the loads are those of the blocks."""
    tokens = np.array([min(t, 10 * ranks) for t, _ in rows], np.int64)
    cost = np.array([c for _, c in rows])
    plan = plan_groups(tokens, cost, 10, ranks)
    load = np.zeros(ranks)
    for width, first, n, c in zip(plan.width, plan.first, tokens, cost, strict=True):
        assert first % width == 0
        assert first + width <= ranks
        assert n <= 10 * width
        load[first : first + width] += c / width
    assert load == pytest.approx(plan.load)


@pytest.mark.parametrize("seed", range(10))
def test_near_the_best_of_all_plans(seed: int) -> None:
    """On small steps, no more than 5 % above the best of all placements on aligned blocks."""
    rng = np.random.default_rng(seed)
    tokens = rng.choice([5, 8, 10, 15, 30], 7)
    cost = tokens * rng.uniform(0.9, 1.1, 7)
    plan = plan_groups(tokens, cost, 10, 4)
    each = cost / plan.width
    best = np.inf
    for firsts in itertools.product(*[range(0, 4, w) for w in plan.width]):
        load = np.zeros(4)
        for first, width, work in zip(firsts, plan.width, each, strict=True):
            load[first : first + width] += work
        best = min(best, load.max())
    assert plan.load.max() <= 1.05 * best


def test_a_row_longer_than_all_windows_is_refused() -> None:
    """The message names the row, its length, and what fits."""
    with pytest.raises(ShardError, match=r"row 1 has 81 tokens.*hold 80"):
        plan_groups([1, 81], [1.0, 1.0], 10, 8)


@pytest.mark.parametrize("cost", [[1.0, float("nan")], [1.0, -2.0], [1.0]])
def test_costs_that_are_none_are_refused(cost: list[float]) -> None:
    """NaN, negative and missing costs."""
    with pytest.raises(ShardError, match="pass one cost of at least 0 each"):
        plan_groups([1, 2], cost, 10, 8)


def test_no_rows() -> None:
    """A step without rows has no work, and is balanced."""
    assert plan_groups([], [], 10, 4).imbalance == 1.0

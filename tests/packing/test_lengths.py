"""The order of taking documents and the lower bound of rows, against numpy and brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.lengths import fewest_rows, sort_by, taking_order


def keys_of(kind: str, n: int, seed: int) -> np.ndarray:
    """Keys that are spread, crowded, repeated or already in order."""
    rng = np.random.default_rng(seed)
    if kind == "spread":
        return rng.integers(0, 2**64, n, dtype=np.uint64)
    if kind == "crowded":
        low = rng.integers(0, 50, n, dtype=np.uint64)
        return np.where(rng.random(n) < 0.5, np.uint64(2**64 - 1), low)
    if kind == "equal":
        return np.full(n, 7, dtype=np.uint64)
    return np.arange(n, dtype=np.uint64)


@pytest.mark.parametrize("kind", ["spread", "crowded", "equal", "ascending"])
@pytest.mark.parametrize("n", [0, 1, 2, 17, 1000, 20_000])
def test_sort_is_by_rank_then_key_then_index(kind: str, n: int) -> None:
    """`sort_by` is numpy's lexsort and `taking_order` its stable argsort, whatever the keys."""
    order = keys_of(kind, n, seed=n)
    for ranks in (1, 3, 500):
        rank = np.random.default_rng(ranks).integers(0, ranks, n).astype(np.int32)
        found = sort_by(rank, order, np.bincount(rank, minlength=ranks))
        np.testing.assert_array_equal(found, np.lexsort((np.arange(n), order, rank)))
    np.testing.assert_array_equal(taking_order(order), np.argsort(order, kind="stable"))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**64 - 1)), max_size=60))
def test_sort_of_any_pairs(pairs: list[tuple[int, int]]) -> None:
    """`sort_by` agrees with Python's sort of (rank, key, index)."""
    rank = np.array([r for r, _ in pairs], dtype=np.int32)
    order = np.array([k for _, k in pairs], dtype=np.uint64)
    expected = sorted(range(len(pairs)), key=lambda i: (*pairs[i], i))
    assert sort_by(rank, order, np.bincount(rank, minlength=5)).tolist() == expected


def optimal_rows(lengths: list[int], seq_len: int, max_docs: int) -> int:
    """The fewest rows, by trying every assignment."""
    best = len(lengths)

    def place(i: int, rows: list[tuple[int, int]]) -> None:
        nonlocal best
        if len(rows) >= best:
            return
        if i == len(lengths):
            best = len(rows)
            return
        for j, (room, docs) in enumerate(rows):
            if lengths[i] <= room and docs < max_docs:
                place(i + 1, [*rows[:j], (room - lengths[i], docs + 1), *rows[j + 1 :]])
        place(i + 1, [*rows, (seq_len - lengths[i], 1)])

    place(0, [])
    return best


@given(
    st.integers(2, 12), st.lists(st.integers(1, 12), max_size=7), st.sampled_from([None, 1, 2, 3])
)
def test_no_packing_goes_below_the_bound(
    seq_len: int, lengths: list[int], max_docs: int | None
) -> None:
    """The bound holds for the optimum and is at least tokens over `seq_len`."""
    lengths = [min(n, seq_len) for n in lengths]
    bound = fewest_rows(np.array(lengths, dtype=np.int32), seq_len, max_docs)
    shared = [n for n in lengths if n < seq_len]
    full = len(lengths) - len(shared)
    assert -(-sum(lengths) // seq_len) <= bound
    assert bound <= full + optimal_rows(shared, seq_len, max_docs or len(lengths))


def test_bound_knows_that_large_documents_cannot_share() -> None:
    """Ten documents of over half a row need ten rows, and long ones their full rows besides."""
    assert fewest_rows(np.full(10, 51, dtype=np.int32), 100) == 10
    assert fewest_rows(np.full(10, 251, dtype=np.int32), 100) == 30
    assert fewest_rows(np.full(10, 1, dtype=np.int32), 100, max_docs=3) == 4
    assert fewest_rows(np.zeros(0, dtype=np.int32), 100) == 0

"""Candidate pairs, exact Jaccard and the greedy choice against brute force."""

import itertools
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms import candidates
from transforms.candidates import bucket_pairs, chunks, leaders
from transforms.clusters import (
    duplicate_rows,
    jaccards,
    keepers,
    least_common,
    near_duplicates,
)
from transforms.exact import DUPLICATE_SCHEMA
from transforms.shingles import ShingleSets


def sets_of(groups):
    offsets = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    return ShingleSets(offsets, np.array([v for g in groups for v in sorted(g)], np.uint64))


small_sets = st.lists(st.sets(st.integers(0, 30), max_size=25), min_size=1, max_size=8)


@given(small_sets, st.sampled_from([0.1, 0.5, 2 / 3, 0.8, 0.95, 1.0]))
def test_jaccard_is_that_of_plain_sets(groups, threshold):
    """Every pair: the quotient where it reaches the threshold, else 0; empty sets share nothing."""
    pairs = list(itertools.product(range(len(groups)), repeat=2))
    first, second = np.array(pairs, np.int64).T
    found = jaccards(sets_of(groups), first.copy(), second.copy(), threshold)
    for (a, b), value in zip(pairs, found.tolist(), strict=True):
        union = len(groups[a] | groups[b])
        exact = len(groups[a] & groups[b]) / union if union else 0.0
        assert value == (exact if exact >= threshold else 0.0)


@given(st.integers(1, 2000), st.integers(1, 2000), st.floats(0.01, 1))
def test_least_common_is_the_first_share_that_reaches_the_threshold(a, b, threshold):
    """One shingle fewer is below the threshold, in floats as in the published comparison."""
    least = least_common(a, b, threshold)
    total = a + b
    assert least == total or least / (total - least) >= threshold
    assert least == 0 or (least - 1) / (total - least + 1) < threshold


def test_four_of_five_reaches_the_default_threshold():
    """J = 4/5 is not lost to rounding at 0.8, whatever the sizes."""
    for k in range(1, 500):
        assert least_common(4 * k, 5 * k, 0.8) == 4 * k
        assert Fraction(4 * k, 5 * k) == Fraction(4, 5)


def greedy(order, edges):
    """Walk in keep order; a document stays unless a neighbour stays already."""
    kept, lost = set(), {}
    for node in order:
        near = [(-j, order.index(o), o) for o, j in edges.get(node, {}).items() if o in kept]
        if near:
            lost[node] = (min(near)[2], -min(near)[0])
        else:
            kept.add(node)
    return lost


graphs = st.integers(1, 12).flatmap(
    lambda n: st.tuples(
        st.lists(
            st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from("aéZz")),
            min_size=n,
            max_size=n,
        ),
        st.dictionaries(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda p: p[0] < p[1]),
            st.sampled_from([0.8, 0.85, 1.0]),
            max_size=30,
        ),
    )
)


@given(graphs, st.randoms(use_true_random=False))
def test_removals_are_those_of_the_walk_in_keep_order(graph, random):
    """Source, length, id bytewise, address; rows and pairs in any order give the same."""
    nodes, pairs = graph
    order = sorted(
        range(len(nodes)), key=lambda k: (nodes[k][0], -nodes[k][1], nodes[k][2].encode(), k)
    )
    edges = {}
    for (a, b), j in pairs.items():
        edges.setdefault(a, {})[b] = edges.setdefault(b, {})[a] = j
    want = [(node, *found) for node, found in sorted(greedy(order, edges).items())]

    rows = [(uid, *node) for uid, node in enumerate(nodes)]
    random.shuffle(rows)
    table = pa.table(
        {
            "doc_uid": pa.array([r[0] for r in rows], pa.int64()),
            "source_rank": pa.array([r[1] for r in rows], pa.int32()),
            "n_chars": pa.array([r[2] for r in rows], pa.int64()),
            "id": pa.array([r[3] for r in rows], pa.string()),
        }
    )
    shuffled = [(*random.sample(pair, 2), j) for pair, j in pairs.items()]
    random.shuffle(shuffled)
    first, second, jaccard = zip(*shuffled, strict=True) if shuffled else ((), (), ())
    found = near_duplicates(
        table, np.array(first, np.int64), np.array(second, np.int64), np.array(jaccard, float)
    )
    assert list(zip(*(column.tolist() for column in found), strict=True)) == want


@given(graphs)
def test_every_removed_document_has_a_kept_neighbour(graph):
    """A maximal independent set: no two kept neighbours, none removed without one."""
    nodes, pairs = graph
    first, second = (np.array([p[k] for p in pairs], np.int64) for k in (0, 1))
    keeper, similarity = keepers(len(nodes), first, second, np.array([*pairs.values()], float))
    kept = {k for k in range(len(nodes)) if keeper[k] == k}
    assert not any(a in kept and b in kept for a, b in pairs)
    for node in set(range(len(nodes))) - kept:
        assert keeper[node] in kept
        assert pairs[keeper[node], node] == similarity[node]


def rows_of(buckets, ranks, sizes):
    rows = [(key, doc) for key, docs in enumerate(buckets) for doc in docs]
    random.Random(1).shuffle(rows)
    keys, docs = np.array(rows, np.int64).reshape(-1, 2).T
    ranks, sizes = np.array(ranks, np.int64), np.array(sizes, np.int32)
    return keys * 7919 - 5, docs * 3, ranks[docs], sizes[docs]


@given(
    st.lists(st.sets(st.integers(0, 9)), max_size=8),
    st.lists(st.integers(0, 2), min_size=10, max_size=10),
    st.lists(st.integers(1, 9), min_size=10, max_size=10),
)
def test_pairs_share_a_bucket_and_may_reach_the_threshold(buckets, ranks, sizes):
    """Each pair once, the earlier document first, in keep order; sizes too unlike are left out."""
    place = {k: (ranks[k], k) for k in range(10)}
    want = set()
    for docs in buckets:
        for a, b in itertools.combinations(sorted(docs, key=place.get), 2):
            if min(sizes[a], sizes[b]) / max(sizes[a], sizes[b]) >= 0.8:
                want.add((a, b))
    found = bucket_pairs(*rows_of(buckets, ranks, sizes), 0.8)
    pairs = list(zip((found.first // 3).tolist(), (found.second // 3).tolist(), strict=True))
    assert pairs == sorted(want, key=lambda p: (place[p[0]], place[p[1]]))
    assert found.skipped == 0


def test_large_buckets_are_paired_with_their_leaders(monkeypatch):
    """Beyond the limit only the first in keep order lead, and what is left out is counted."""
    monkeypatch.setattr(candidates, "_MOST_PAIRS", 60)
    monkeypatch.setattr(candidates, "_LEAST_LEADERS", 2)
    found = bucket_pairs(*rows_of([range(20), range(30)], range(30), [5] * 30), 0.8)
    pairs = set(zip((found.first // 3).tolist(), (found.second // 3).tolist(), strict=True))
    want = {(a, b) for n, most in ((20, 3), (30, 2)) for b in range(n) for a in range(min(b, most))}
    assert pairs == want
    assert found.skipped == sum(max(0, b - 3) for b in range(20)) + sum(
        max(0, b - 2) for b in range(30)
    )


def test_a_bucket_of_many_makes_pairs_in_proportion():
    """All pairs up to 1,024 members; a million for 10,000; never fewer than 16 leaders."""
    assert [leaders(n) for n in (2, 1024, 10_000, 1_000_000)] == [2, 1024, 104, 16]
    found = bucket_pairs(*rows_of([range(3000)] * 5, range(3000), [9] * 3000), 0.8)
    assert len(found.first) == sum(min(k, leaders(3000)) for k in range(3000))


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20),
    st.lists(st.integers(1, 9), min_size=7, max_size=7),
    st.integers(1, 30),
)
def test_chunks_hold_bounded_sets(pairs, sizes, limit):
    """Parts are consecutive and cover all pairs; each fits the bound, or has one pair only."""
    pairs = [(a, b) for a, b in pairs if a != b]
    first, second = (np.array([p[k] for p in pairs], np.int64) for k in (0, 1))
    found = chunks(first, second, np.array(sizes, np.int64), limit)
    assert [k for a, b in found for k in range(a, b)] == list(range(len(pairs)))
    for a, b in found:
        held = sum(sizes[doc] for doc in {doc for pair in pairs[a:b] for doc in pair})
        assert b > a
        assert held <= limit or b == a + 1


@pytest.mark.parametrize("rows", [0, 2])
def test_rows_have_the_schema_of_duplicates(rows):
    """The rows are those of exact duplicates, of another kind."""
    column = np.arange(rows)
    table = duplicate_rows(column, column + 1, column / 2, column + 2)
    assert table.schema.equals(DUPLICATE_SCHEMA)
    assert len(table) == rows
    assert table["kind"].to_pylist() == ["near"] * rows

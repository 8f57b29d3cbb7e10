"""Exact joins of the audit against brute force over plain sets."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.clusters import jaccards
from transforms.dedup_audit import candidates, make_index, most_similar, shared_by_many
from transforms.row_matching import group_equal, match_rows
from transforms.set_prefixes import count_shingles, new_counters, prefixes
from transforms.shingles import ShingleSets

THRESHOLDS = st.sampled_from([0.05, 0.3, 0.5, 2 / 3, 0.8, 0.95, 1.0])

values = st.integers(0, 40).map(lambda n: (n * 0x9E3779B97F4A7C15) % (1 << 64))
groups_of_values = st.lists(st.sets(values, max_size=30), min_size=1, max_size=12)


def sets_of(groups):
    offsets = np.cumsum([0, *map(len, groups)]).astype(np.int64)
    return ShingleSets(offsets, np.array([v for g in groups for v in sorted(g)], np.uint64))


def similarity(one, two):
    return len(one & two) / len(one | two) if one or two else 0.0


def near_pairs(sets, kept, threshold, bits, cut):
    """Return the pairs that the audit's join finds, with an index in two parts."""
    counters = new_counters(bits)
    count_shingles(sets, counters)
    keys = prefixes(sets, counters, threshold)
    numbers = np.arange(len(sets))
    seen = np.full(len(sets), -1, np.int64)
    found = []
    members = np.flatnonzero(kept)
    for part in (members[:cut], members[cut:]):
        values = [keys.values[keys.offsets[n] : keys.offsets[n + 1]] for n in part]
        offsets = np.cumsum([0, *map(len, values)]).astype(np.int64)
        chosen = ShingleSets(offsets, np.concatenate([np.empty(0, np.uint64), *values]))
        index = make_index(chosen, part)
        first, second = candidates(index, keys, numbers, sets.sizes, kept, threshold, seen)
        near = jaccards(sets, first, second, threshold) > 0
        found += zip(first[near].tolist(), second[near].tolist(), strict=True)
    return found


@given(groups_of_values, THRESHOLDS, st.sampled_from([1, 4, 12]), st.integers(0, 12), st.data())
def test_every_pair_at_the_threshold_is_found_once(groups, threshold, bits, cut, data):
    """Kept with kept and kept with removed, however many hashes share a counter."""
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(groups), max_size=len(groups))))
    expected = [
        (a, b) if kept[a] else (b, a)
        for a, b in itertools.combinations(range(len(groups)), 2)
        if (kept[a] or kept[b]) and similarity(groups[a], groups[b]) >= threshold
    ]
    found = near_pairs(sets_of(groups), kept, threshold, bits, cut)
    assert sorted(found) == sorted(expected)


def test_all_of_many_similar_sets_are_found():
    """Sets of some hundred values around a common core, at similarities near the threshold."""
    rng = random.Random(3)
    core = [rng.getrandbits(64) for _ in range(300)]
    groups = [
        set(rng.sample(core, rng.randint(240, 300))) | {rng.getrandbits(64) for _ in range(20)}
        for _ in range(60)
    ]
    found = near_pairs(sets_of(groups), np.ones(60, bool), 0.7, 16, 30)
    expected = [
        (a, b)
        for a, b in itertools.combinations(range(60), 2)
        if similarity(groups[a], groups[b]) >= 0.7
    ]
    assert 100 < len(expected) < 1770
    assert sorted(found) == expected


@given(groups_of_values, groups_of_values, st.sampled_from([1, 2, 100]))
def test_most_similar_is_that_of_brute_force(lost, kept, limit):
    """The first of the highest similarity, where it exceeds the share of frequent values."""
    sets = sets_of(lost)
    index = make_index(sets, np.arange(len(lost)))
    frequent = shared_by_many(index, len(lost), limit)
    owners = [sum(v in other for other in lost) for one in lost for v in sorted(one)]
    many = np.repeat(np.arange(len(lost)), sets.sizes)[np.array(owners, np.int64) > limit]
    assert frequent.tolist() == np.bincount(many, minlength=len(lost)).tolist()
    best, like = np.zeros(len(lost)), np.full(len(lost), -1, np.int64)
    for start in range(0, len(kept), 5):
        part = kept[start : start + 5]
        numbers = 100 + start + np.arange(len(part))
        most_similar(index, sets, frequent, limit, sets_of(part), numbers, best, like)
    for k, (one, found, number) in enumerate(zip(lost, best.tolist(), like.tolist(), strict=True)):
        similarities = [similarity(one, two) for two in kept]
        bound = frequent[k] / len(one) if one else 0.0
        if limit == 100 or max(similarities) > bound:
            assert found == max(similarities)
            assert number == (100 + similarities.index(found) if found else -1)
        else:
            assert found <= bound


keys = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=20)


@given(keys, keys, st.randoms())
def test_rows_are_matched_as_multisets(ours, theirs, rng):
    """Equal rows, one to one, as many as both have among those that are open, in their order."""
    a, b = (np.array(rows, np.uint64).reshape(-1, 2) for rows in (ours, theirs))
    open_a, open_b = (np.array([rng.random() < 0.8 for _ in rows], bool) for rows in (ours, theirs))
    left = {}
    for row, key in enumerate(ours):
        if open_a[row]:
            left.setdefault(key, []).append(row)
    expected = [
        left[key].pop(0) if open_b[row] and left.get(key) else -1 for row, key in enumerate(theirs)
    ]
    assert match_rows(a, b, open_a, open_b).tolist() == expected


@given(keys)
def test_groups_are_numbered_by_their_first_row(rows):
    """Rows of one group are equal, and groups come in the order of their first rows."""
    found = group_equal(np.array(rows, np.uint64).reshape(-1, 2))
    order = list(dict.fromkeys(rows))
    assert found.group.tolist() == [order.index(row) for row in rows]
    assert found.first.tolist() == [rows.index(row) for row in order]


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.8, 0.9, 1.0])
def test_prefixes_are_as_short_as_the_filter_allows(threshold):
    """A set of n shares c of them with any set at the threshold, so that n - c + 1 do."""
    sizes = [0, 1, 2, 5, 10, 99, 100]
    groups = [set(range(n)) for n in sizes]
    found = prefixes(sets_of(groups), new_counters(4), threshold).sizes.tolist()
    expected = [
        n - next(c for c in range(1, n + 1) if c / n >= threshold) + 1 if n else 0 for n in sizes
    ]
    assert found == expected

"""Quotas of cells, and the choice of records among candidates."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transforms.synthesis.quotas import (
    Cell,
    blocks,
    choose,
    filled,
    first_spans,
    next_spans,
    quotas,
    settled,
)

SHARES = st.dictionaries(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from("xyz")),
    st.floats(0, 10).map(lambda share: round(share, 3)),
    min_size=1,
).filter(lambda shares: any(shares.values()))


@given(st.integers(1, 5000), SHARES)
def test_quotas_sum_to_the_records_and_are_within_one_of_their_shares(records, shares):
    """Nothing is lost; no scenario is a whole record off, and no cell two."""
    found = quotas(records, shares)

    assert sum(cell.quota for cell in found) == records
    total = sum(shares.values())
    for cell in found:
        share = shares[cell.pattern, cell.scenario]
        assert share > 0
        assert abs(cell.quota - records * share / total) < 2
    for scenario in {scenario for _, scenario in shares}:
        share = sum(s for (_, name), s in shares.items() if name == scenario)
        given_to = sum(cell.quota for cell in found if cell.scenario == scenario)
        assert abs(given_to - records * share / total) < 1 + 1e-6


@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 40))
def test_blocks_hold_every_candidate_once_in_order(sizes, size):
    """Whatever the size of a block, the candidates are the same and in the same order."""
    spans = first_spans([Cell("p", str(n), size) for n, size in enumerate(sizes)])
    cut = blocks(spans, size)

    def listed(groups):
        return [(s.cell, i) for group in groups for s in group for i in range(s.start, s.stop)]

    assert listed(cut) == listed([spans])
    assert all(sum(s.stop - s.start for s in group) == size for group in cut[:-1])


def plainly_chosen(cell, index, key, right, quota):
    """Go through the candidates one by one: the definition of :func:`choose`."""
    seen, full, result = set(), Counter(), [False] * len(cell)
    firsts = []
    for i in sorted(range(len(cell)), key=lambda i: (index[i], cell[i])):
        if right[i] and key[i] not in seen:
            seen.add(key[i])
            firsts.append(i)
    for i in sorted(firsts, key=lambda i: index[i]):
        if full[cell[i]] < quota[cell[i]]:
            full[cell[i]] += 1
            result[i] = True
    return result


@given(st.data())
def test_the_choice_is_that_of_a_plain_loop(data):
    """Records are the first askers of each question, and as many of each cell as fit."""
    counts = data.draw(st.lists(st.integers(0, 12), min_size=1, max_size=4))
    cell = np.repeat(np.arange(len(counts)), counts)
    index = np.concatenate([np.arange(count) for count in counts]).astype(np.int64)
    shuffled = np.array(data.draw(st.permutations(range(len(cell)))), np.int64)
    key = np.array(
        data.draw(st.lists(st.integers(0, 9), min_size=len(cell), max_size=len(cell))), np.uint64
    )
    right = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(cell), max_size=len(cell))), np.bool_
    )
    quota = np.array([data.draw(st.integers(0, 6)) for _ in counts], np.int64)
    cell, index = cell[shuffled], index[shuffled]

    found = choose(cell, index, key, right, quota)

    assert found.chosen.tolist() == plainly_chosen(cell, index, key, right, quota)
    assert found.of_cell.tolist() == [int(found.chosen[cell == n].sum()) for n in range(len(quota))]
    assert not (found.chosen & (found.repeated | found.surplus)).any()


CELLS = [Cell("a", "x", 100), Cell("b", "x", 100), Cell("c", "x", 100)]


def test_later_rounds_ask_for_what_is_short_and_give_up_what_is_hopeless():
    """A full cell asks for nothing more, a short one for at least what it lacks."""
    tried, chosen = np.array([106, 106, 500]), np.array([100, 53, 0])

    [span] = next_spans(CELLS, np.array([100, 100, 100]), tried, chosen)

    assert (span.cell, span.start) == (1, 106)
    assert 94 <= span.stop - span.start <= 200


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 80)), min_size=1, max_size=8))
def test_at_the_end_what_is_there_fills_what_is_lacking(cells):
    """As many records as asked for where there are as many; no cell gives what it lacks."""
    quota, found = (np.array(column) for column in zip(*cells, strict=True))

    given_to = filled([Cell("p", str(n), int(q)) for n, q in enumerate(quota)], found)

    assert given_to.sum() == min(quota.sum(), found.sum())
    assert (given_to <= found).all()
    assert (given_to >= np.minimum(quota, found)).all()


def test_what_a_hopeless_cell_lacks_goes_to_the_others():
    """The records stay as many; a cell that is given up keeps what it has."""
    hopeless = settled(CELLS, np.array([106, 801, 500]), np.array([101, 10, 0]))
    all_lost = settled(CELLS, np.array([9000, 9000, 9000]), np.array([5, 0, 7]))

    assert hopeless.tolist() == [290, 10, 0]
    assert all_lost.tolist() == [5, 0, 7]
    assert settled(CELLS, np.array([106] * 3), np.array([90, 120, 100])).tolist() == [100] * 3

"""Trained tokens of pieces and rows, and ranks that train equally many."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from packing.rows import LossSpans, MicroBatch, RowGroup
from packing.slots import BalanceSettings, imbalance, plan_steps
from packing.trained import even_trained, piece_targets, row_targets


def spans_of(documents):
    """Loss spans from lists of (start, end, weight), None for a document trained throughout."""
    flat = [span for spans in documents for span in spans or []]
    return LossSpans(
        np.array([spans is None for spans in documents]),
        np.cumsum([0, *(len(spans or []) for spans in documents)]),
        np.array([s[0] for s in flat], np.int32),
        np.array([s[1] for s in flat], np.int32),
        np.array([s[2] for s in flat], np.float32),
    )


def test_targets_of_pieces_are_counted():
    """Spans are counted where their targets are; a piece's first token is none of its own."""
    spans = spans_of([[(2, 5, 1.0), (7, 10, 0.5)], None, [(0, 4, 0.0)], []])
    n_tokens = np.array([10, 6, 4, 3])
    pieces = [(0, 0, 6), (0, 6, 10), (1, 0, 4), (1, 4, 6), (2, 0, 4), (3, 0, 3)]
    document, start, end = (np.array(column) for column in zip(*pieces, strict=True))
    found = piece_targets(spans, document, start, end, n_tokens[document])
    # Tokens 2, 3, 4; then 7, 8, 9; four tokens and the next; one; weight 0; none.
    assert found.tolist() == [3, 3, 4, 1, 0, 0]
    plain = piece_targets(None, document, start, end, n_tokens[document])
    assert plain.tolist() == [6, 3, 4, 1, 3, 2]


@given(st.integers(0, 9))
def test_targets_of_rows_are_those_that_the_reader_trains(seed):
    """Counted from spans as they are counted from the weights of a batch."""
    rng = np.random.default_rng(seed)
    pieces = rng.integers(1, 4, 5).astype(np.int32)
    p = int(pieces.sum())
    length = rng.integers(1, 9, p).astype(np.int32)
    bounds = np.cumsum([0, *pieces])
    tokens = [int(length[a:b].sum()) for a, b in itertools.pairwise(bounds)]
    following = rng.choice([-1, 3], p).astype(np.int32)
    rows = []
    for n, a, b in zip(tokens, bounds[:-1], bounds[1:], strict=True):
        ends = np.cumsum(length[a:b])
        real = {int(i) for i in range(1, n + 1)} - {
            int(e) for e, f in zip(ends, following[a:b], strict=True) if f < 0
        }
        keep = sorted(i for i in real if rng.random() < 0.5)
        rows.append(None if rng.random() < 0.3 else [(i, i + 1, 1.0) for i in keep])
    spans = spans_of(rows)
    group = RowGroup(
        np.arange(5),
        pieces,
        np.arange(p),
        np.zeros(p, np.int16),
        np.zeros(p, np.int32),
        length,
        following,
        np.zeros(p, np.int16),
        np.ones(int(length.sum()), np.int32),
        spans,
    )
    weights = MicroBatch.of(group).loss_weights
    ends = np.cumsum(tokens)
    expected = [int((weights[e - n : e] > 0).sum()) for n, e in zip(tokens, ends, strict=True)]
    assert (
        row_targets(spans, np.array(tokens), following, pieces.astype(np.int64)).tolist()
        == expected
    )
    longest = [int(length[a:b].max()) for a, b in itertools.pairwise(bounds)]
    assert MicroBatch.of(group).buckets.tolist() == [n.bit_length() - 1 for n in longest]


def test_ranks_train_equally_much():
    """Trained tokens get even, work stays so, and no row leaves its slot."""
    rng = np.random.default_rng(0)
    n = 4096
    cost = rng.lognormal(0, 0.1, n)
    trained = (rng.beta(2, 3, n) * cost * 16384).astype(np.int64)
    balance = BalanceSettings(dp=8, global_batch=32)
    plan = plan_steps(cost, np.ones(n, np.int32), balance, 0)
    even = even_trained(plan, cost, trained, np.ones(n, np.int16), 8)
    before, after = (
        [imbalance(values[p.order].astype(float), balance)[0] for values in (cost, trained)]
        for p in (plan, even)
    )
    assert before[1] > 1.3
    assert after[1] < 1.04
    assert after[0] < 1.001
    key = plan.step * 4 + plan.slot
    for slot in np.unique(key):
        assert sorted(plan.order[key == slot]) == sorted(even.order[key == slot])
    again = even_trained(plan, cost, trained, np.ones(n, np.int16), 8)
    assert np.array_equal(even.order, again.order)


def test_shared_rows_stay_in_their_blocks():
    """Rows that several ranks share keep their place; those beside them are exchanged."""
    rng = np.random.default_rng(1)
    cp = rng.choice([1, 1, 1, 2, 4], 600).astype(np.int16)
    cost = cp * rng.lognormal(0, 0.1, 600)
    trained = (rng.beta(2, 3, 600) * 1000 * cp).astype(np.int64)
    balance = BalanceSettings(dp=8, global_batch=32)
    plan = plan_steps(cost, np.ones(600, np.int32), balance, 0, None, cp)
    even = even_trained(plan, cost, trained, cp, 8)
    moved = plan.order != even.order
    assert moved.any()
    assert (cp[plan.order[moved]] == 1).all()
    assert (cp[even.order[moved]] == 1).all()

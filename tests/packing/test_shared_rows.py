"""Rows that ranks share: whole documents, full slots, aligned blocks, equal work."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.fit import PackSettings, fit_rows
from packing.format import ShardError
from packing.replan import replan
from packing.shared_rows import join_rows, place_costs, ranks_of, widest_block
from packing.slots import BalanceSettings, imbalance, plan_steps
from transforms.record import mix64


def ranks_by_doubling(n, seq_len):
    """The ranks that share a row of n tokens, by doubling."""
    cp = 1
    while cp * seq_len < n:
        cp *= 2
    return cp


@given(st.lists(st.integers(1, 5000), max_size=30), st.integers(1, 700))
def test_ranks_hold_their_row(lengths, seq_len):
    """The smallest power of two whose rooms hold the row."""
    found = ranks_of(np.array(lengths, np.int32), seq_len)
    assert found.tolist() == [ranks_by_doubling(n, seq_len) for n in lengths]
    assert [widest_block(dp) for dp in (1, 2, 6, 8, 12, 7)] == [1, 2, 2, 8, 4, 1]


@given(
    st.lists(st.one_of(st.integers(1, 12), st.integers(1, 400)), max_size=40),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from(["best_fit", "online"]),
)
def test_long_documents_stay_whole(lengths, widest, align, strategy):
    """Each is one row of its own, cut only beyond what the widest block holds."""
    seq_len = 12
    settings = PackSettings(seq_len=seq_len, long="keep", align=align, strategy=strategy)
    n_tokens = np.array(lengths, np.int32)
    pieces = fit_rows(n_tokens, mix64(np.arange(len(lengths)), 1), settings, widest)
    window = seq_len * widest
    found = {}
    for row, document, start, n in zip(
        pieces.row.tolist(),
        pieces.document.tolist(),
        pieces.start.tolist(),
        pieces.length.tolist(),
        strict=True,
    ):
        found.setdefault(document, []).append((start, n))
        if n > seq_len:
            assert (pieces.row == row).sum() == 1
    assert sorted(found) == list(range(len(lengths)))
    for document, parts in found.items():
        whole, rest = divmod(lengths[document], window)
        bounds = [(k * window, window) for k in range(whole)]
        assert sorted(parts) == bounds + ([(whole * window, rest)] if rest else [])
    filled = pieces.length + -pieces.length % align
    taken = np.bincount(pieces.row, filled, pieces.rows)
    assert (taken <= ranks_of(pieces.row_tokens(), seq_len) * seq_len).all()
    assert (np.diff(pieces.row) >= 0).all()
    assert np.array_equal(np.unique(pieces.row), np.arange(pieces.rows))


def shared_rows(n, widest, seed, share=0.3):
    """Return (cost, ranks) of random rows, wide ones dearer on each of their ranks."""
    rng = np.random.default_rng(seed)
    powers = [1 << k for k in range(widest.bit_length())]
    cp = np.where(rng.random(n) < share, rng.choice(powers, n), 1).astype(np.int16)
    return cp * (1 + 0.2 * np.log2(cp) + rng.random(n)), cp


plans = st.builds(
    lambda blocks, widest, micro, slots, horizon: (
        BalanceSettings(
            dp=blocks * widest,
            micro_batch=micro,
            global_batch=blocks * widest * micro * slots,
            horizon=horizon,
        ),
        widest,
    ),
    st.integers(1, 3),
    st.sampled_from([1, 2, 4, 8]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 4),
)


def check(order, step, slot, rank, cp, balance, first_step=0):
    """Assert that slots are full up to the last and blocks aligned, counting place by place."""
    held = {}
    for row, a, b, r in zip(
        order.tolist(), step.tolist(), slot.tolist(), rank.tolist(), strict=True
    ):
        assert r % cp[row] == 0
        for k in range(cp[row]):
            held.setdefault((a, b), {}).setdefault(r + k, []).append(row)
    keys = sorted(held)
    assert [*zip(step, slot, rank, strict=True)] == sorted(zip(step, slot, rank, strict=True))
    for key in keys[:-1]:
        assert sorted(held[key]) == list(range(balance.dp))
        assert {len(rows) for rows in held[key].values()} == {balance.micro_batch}
    if keys:
        assert all(len(rows) <= balance.micro_batch for rows in held[keys[-1]].values())
        assert max(held[keys[-1]]) < balance.dp
        expected = [
            (first_step + i // balance.slots_per_step, i % balance.slots_per_step)
            for i in range(len(keys))
        ]
        assert keys == expected
    places = int(cp[order].sum())
    assert len(keys) == -(-places // balance.slot_rows)


@given(plans, st.integers(0, 120), st.integers(0, 5))
def test_slots_are_full_of_aligned_blocks(case, n, seed):
    """Whatever the mix of widths, only the last slot has free places; replan keeps it so."""
    balance, widest = case
    cost, cp = shared_rows(n, widest, seed)
    tokens = np.arange(n, dtype=np.int32)
    domain = (np.arange(n) % 3).astype(np.int16)
    plan = plan_steps(cost, tokens, balance, seed, domain, cp)
    assert sorted(plan.order.tolist()) == list(range(n))
    check(plan.order, plan.step, plan.slot, plan.rank, cp, balance)
    again = plan_steps(cost, tokens, balance, seed, domain, cp)
    assert np.array_equal(plan.order, again.order)
    if n and plan.step[-1] > 0:
        step = np.empty(n, np.int32)
        step[plan.order] = plan.step
        rest = replan(step, cost, balance, from_step=1, cp=cp)
        assert sorted(rest.order.tolist()) == np.flatnonzero(step >= 1).tolist()
        check(rest.order, rest.step, rest.slot, rest.rank, cp, balance, 1)


def test_narrow_blocks_are_refused():
    """A number of ranks that the widest rows do not divide is refused with both numbers."""
    cost, cp = np.ones(4), np.array([1, 4, 1, 2], np.int16)
    with pytest.raises(ShardError, match=r"up to 4 ranks, which dp = 6"):
        replan(np.zeros(4, np.int32), cost, BalanceSettings(dp=6, global_batch=6), cp=cp)


def test_join_waits_for_partners():
    """Rows without a partner of their width go on to the next rows; blocks overlap nowhere."""
    cost, cp = shared_rows(500, 8, 2)
    found = join_rows(cost / cp, cp, 8, 40)
    assert found.count == -(-int(cp.sum()) // 8)
    taken = set()
    for block, offset, width in zip(
        found.block.tolist(), found.offset.tolist(), cp.tolist(), strict=True
    ):
        assert offset % width == 0
        for k in range(width):
            assert offset + k < 8
            assert (block, offset + k) not in taken
            taken.add((block, offset + k))
    assert found.short == (len(taken) % 8 > 0)


def test_ranks_do_equal_work():
    """Shared rows among others leave ranks as even as their own costs allow."""
    cost, cp = shared_rows(20_000, 8, 4, share=0.05)
    balance = BalanceSettings(dp=16, micro_batch=1, global_batch=64, horizon=32)
    plan = plan_steps(cost, np.ones(len(cost), np.int32), balance, 0, None, cp)
    work = place_costs(cost[plan.order], cp[plan.order], plan.step, plan.slot, plan.rank)
    by_step, by_slot = imbalance(work, balance)
    assert by_step < 1.02
    assert by_slot < 1.06

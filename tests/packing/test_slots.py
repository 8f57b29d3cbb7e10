"""Step plans: every row once, whole slots, ranks with equal work, the mixture kept."""

import json
from itertools import pairwise

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from packing.cost import row_cost
from packing.deal import deal_ranks, deal_slots, slot_shares
from packing.fit import PackSettings, fit_rows
from packing.format import ShardError
from packing.slots import BalanceSettings, StepPlan, imbalance, plan_steps
from transforms.record import mix64


def random_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Costs with a heavy tail, and token counts."""
    rng = np.random.default_rng(seed)
    return np.exp(0.5 * rng.standard_normal(n)), np.full(n, 100, dtype=np.int32)


def check(plan: StepPlan, n: int, balance: BalanceSettings) -> None:
    """Assert the contract of a plan: order, whole slots, and a short last step."""
    assert sorted(plan.order) == list(range(n))
    assert [a.dtype.name for a in (plan.order, plan.step, plan.slot, plan.rank)] == [
        "int64",
        "int32",
        "int32",
        "int32",
    ]
    key = list(zip(plan.step, plan.slot, plan.rank, strict=True))
    assert key == sorted(key)
    full_steps, short = divmod(n, balance.global_batch)
    per_step = np.bincount(plan.step, minlength=full_steps)
    assert per_step.tolist() == [balance.global_batch] * full_steps + ([short] if short else [])
    slot_of = plan.step.astype(np.int64) * balance.slots_per_step + plan.slot
    per_slot = np.bincount(slot_of).tolist()
    slots, rest = divmod(n, balance.slot_rows)
    assert per_slot == [balance.slot_rows] * slots + ([rest] if rest else [])
    by_rank = np.zeros((len(per_slot), balance.dp), dtype=np.int64)
    np.add.at(by_rank, (slot_of, plan.rank), 1)
    assert (by_rank[:slots] == balance.micro_batch).all()
    assert (np.ptp(by_rank, axis=1) <= 1).all()


plans = st.builds(
    lambda dp, micro_batch, slots, horizon: BalanceSettings(
        dp=dp, micro_batch=micro_batch, global_batch=dp * micro_batch * slots, horizon=horizon
    ),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 4),
    st.integers(1, 5),
)


@given(plans, st.integers(0, 150), st.integers(0, 3), st.booleans())
def test_every_row_has_one_place(
    balance: BalanceSettings, n: int, seed: int, with_domains: bool
) -> None:
    """Whole slots of `micro_batch` rows a rank; what is left over forms one short last step."""
    cost, tokens = random_rows(n, seed)
    domain = (np.arange(n) % 3).astype(np.int16) if with_domains else None
    plan = plan_steps(cost, tokens, balance, seed, domain)
    check(plan, n, balance)
    again = plan_steps(cost, tokens, balance, seed, domain)
    np.testing.assert_array_equal(plan.order, again.order)


@given(plans, st.integers(1, 200))
def test_a_slot_holds_neighbours_in_cost(balance: BalanceSettings, n: int) -> None:
    """Inside a block the cost ranges of slots do not overlap, and heavier slots come first."""
    cost, tokens = random_rows(n)
    plan = plan_steps(cost, tokens, balance, 3)
    steps = n // balance.global_batch
    blocks = -(-steps // balance.horizon)
    block_of = np.searchsorted([steps * b // blocks for b in range(1, blocks)], plan.step, "right")
    block_of[plan.step == steps] = blocks
    for block in np.unique(block_of):
        inside = block_of == block
        ranges = {}
        for key in sorted(set(zip(plan.step[inside], plan.slot[inside], strict=True))):
            rows = cost[plan.order[inside & (plan.step == key[0]) & (plan.slot == key[1])]]
            ranges[key] = (rows.min(), rows.max())
        bounds = sorted(ranges.values())
        assert all(a[1] <= b[0] for a, b in pairwise(bounds))
        keys = list(ranges)
        assert all(ranges[a][0] >= ranges[b][1] for a, b in pairwise(keys) if a[0] == b[0])


def test_seed_shuffles_rows_and_steps() -> None:
    """Another seed deals other rows to a step, and rows of the first block come from everywhere."""
    cost, tokens = random_rows(4000)
    balance = BalanceSettings(dp=4, global_batch=16, horizon=8)
    one, other = (plan_steps(cost, tokens, balance, seed).order for seed in (1, 2))
    assert np.mean(one == other) < 0.01
    assert np.histogram(one[: 16 * 8], bins=4, range=(0, 4000))[0].min() > 10


@given(st.integers(1, 40), st.integers(1, 3), st.integers(1, 3), st.integers(0, 9))
def test_rows_of_a_slot_go_to_the_least_loaded_ranks(
    n: int, dp: int, micro_batch: int, seed: int
) -> None:
    """`deal_ranks` against a plain implementation over lists."""
    cost = np.sort(random_rows(n, seed)[0])[::-1].copy()
    slot_rows = dp * micro_batch
    slots = -(-n // slot_rows)
    per_step = 2
    steps = -(-slots // per_step)
    step_of = np.random.default_rng(seed).permutation(np.repeat(np.arange(steps), per_step)[:slots])
    number = np.arange(steps)[::-1].copy()
    place = np.empty(n, dtype=np.int64)
    deal_ranks(cost, step_of, number, per_step, dp, micro_batch, place)
    load = {(s, r): 0.0 for s in range(steps) for r in range(dp)}
    taken = [0] * steps
    for slot in range(slots):
        step = int(step_of[slot])
        rows = list(range(slot * slot_rows, min(n, (slot + 1) * slot_rows)))
        for turn in range(micro_batch):
            ranks = sorted(range(dp), key=lambda r: (load[step, r], r))
            for rank, row in zip(ranks, rows[turn * dp : turn * dp + dp], strict=False):
                slot_at = int(number[step]) * per_step + taken[step]
                assert place[row] == slot_at * slot_rows + rank * micro_batch + turn
                load[step, rank] += cost[row]
        taken[step] += 1


def spread(step_of: np.ndarray, work: np.ndarray, excess: np.ndarray, slots: int) -> float:
    """What `deal_slots` makes small, in numpy."""
    steps = int(step_of.max()) + 1
    load = np.bincount(step_of, work, steps)
    beyond = np.stack([np.bincount(step_of, e, steps) for e in excess.T])
    return float((load**2).sum() + (beyond**2).sum() / slots**2)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.integers(0, 20))
def test_slots_are_dealt_better_than_by_longest_first(
    steps: int, slots: int, domains: int, seed: int
) -> None:
    """`deal_slots` gives each step its slots, and its sum is at most plain LPT's."""
    rng = np.random.default_rng(seed)
    n = steps * slots * 6
    cost = np.sort(random_rows(n, seed)[0])[::-1].copy()
    domain = rng.integers(0, domains, n).astype(np.int16)
    work, excess = slot_shares(cost, domain, 6, steps)
    by_slot = cost.reshape(-1, 6)
    np.testing.assert_allclose(work, by_slot.sum(1) / cost.sum() * steps)
    counts = np.stack([(domain.reshape(-1, 6) == d).mean(1) for d in range(excess.shape[1])], 1)
    np.testing.assert_allclose(excess, counts - counts.mean(0), atol=1e-12)
    step_of = deal_slots(work, excess, steps, slots)
    assert np.bincount(step_of).tolist() == [slots] * steps
    load, taken, lpt = np.zeros(steps), np.zeros(steps, dtype=int), []
    beyond = np.zeros((steps, excess.shape[1]))
    for w, e in zip(work, excess, strict=True):
        growth = np.where(taken < slots, w * load + beyond @ e / slots**2, np.inf)
        s = int(growth.argmin())
        load[s] += w
        beyond[s] += e
        taken[s] += 1
        lpt.append(s)
    ours, theirs = (spread(np.array(x), work, excess, slots) for x in (step_of, lpt))
    assert ours <= theirs + 1e-9


def fitted(median: float, sigma: float, seq_len: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Costs and tokens of rows best-fit from log-normal lengths, priced for a 7B model."""
    draw = np.random.default_rng(0).standard_normal(n)
    lengths = np.clip(median * np.exp(sigma * draw), 16, 524_288).astype(np.int32)
    pieces = fit_rows(lengths, mix64(np.arange(n), 1), PackSettings(seq_len=seq_len))
    shape = BalanceSettings(
        layers=32, hidden=4096, heads=32, kv_heads=32, head_dim=128, ffn=11008
    ).shape
    return row_cost(pieces.row_tokens(), pieces.row_squares(), shape), pieces.row_tokens()


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs compiled kernels")
@pytest.mark.parametrize(
    ("median", "sigma", "seq_len", "bar"),
    [(480, 1.25, 32768, 1.003), (700, 1.5, 32768, 1.005), (11_500, 0.85, 131_072, 1.008)],
    ids=["web", "github", "arxiv"],
)
def test_ranks_do_equal_work(median: float, sigma: float, seq_len: int, bar: float) -> None:
    """Slowest over mean rank, per step and per slot, far below the order of a plain shuffle."""
    cost, tokens = fitted(median, sigma, seq_len, 200_000)
    balance = BalanceSettings(dp=8, global_batch=32, horizon=64)
    plan = plan_steps(cost, tokens, balance, seed=7)
    a_step, a_slot = imbalance(cost[plan.order], balance)
    naive_step, naive_slot = imbalance(np.random.default_rng(0).permutation(cost), balance)
    assert 1 <= a_step <= a_slot <= bar
    assert naive_slot - 1 > 10 * (a_slot - 1)
    assert naive_step - 1 > 10 * (a_step - 1)


def test_imbalance_is_slowest_over_mean() -> None:
    """Two ranks, two slots: the heavier rank of each slot, and of the step."""
    balance = BalanceSettings(dp=2, global_batch=4)
    a_step, a_slot = imbalance(np.array([3.0, 1.0, 1.0, 3.0]), balance)
    assert a_step == pytest.approx(1)
    assert a_slot == pytest.approx(1.5)
    assert np.isnan(imbalance(np.ones(3), balance)).all()


def test_steps_keep_the_mixture_of_domains() -> None:
    """Domains that differ in cost: shares vary less from step to step than in a random shuffle."""
    rng = np.random.default_rng(0)
    balance = BalanceSettings(dp=8, global_batch=64, horizon=64)
    n = 64 * 256
    domain = rng.choice(3, n, p=[0.6, 0.3, 0.1]).astype(np.int16)
    cost = np.exp(0.3 * rng.standard_normal(n)) * (1 + 0.5 * domain)
    tokens = np.full(n, 100, dtype=np.int32)

    def variation(order: np.ndarray) -> float:
        by_step = domain[order].reshape(-1, 64)
        return float(sum((by_step == d).mean(1).std() for d in range(3)))

    kept = variation(plan_steps(cost, tokens, balance, 1, domain).order)
    assert kept < 0.6 * variation(rng.permutation(n))
    assert kept < 0.6 * variation(plan_steps(cost, tokens, balance, 1).order)


def test_bad_rows_are_refused() -> None:
    """A cost that is no positive number is named, and so are arrays of other lengths."""
    cost, tokens = random_rows(4)
    for wrong in (0.0, -1.0, np.nan, np.inf):
        bad = cost.copy()
        bad[2] = wrong
        with pytest.raises(ShardError, match="row 2 has the cost"):
            plan_steps(bad, tokens, BalanceSettings(), 0)
    with pytest.raises(ShardError, match="4 costs but 3 of n_tokens"):
        plan_steps(cost, tokens[:3], BalanceSettings(), 0)
    with pytest.raises(ShardError, match="row 1 has the domain -1"):
        plan_steps(cost, tokens, BalanceSettings(), 0, np.array([0, -1, 2, 0], dtype=np.int16))


def test_settings_that_do_not_divide_are_refused() -> None:
    """The message has the values and the nearest batches that work."""
    with pytest.raises(ValueError, match=r"3 x 2 = 6; set global_batch to 12 or 18"):
        BalanceSettings(dp=3, micro_batch=2, global_batch=16)
    with pytest.raises(ValueError, match="set global_batch to 8,"):
        BalanceSettings(dp=8, global_batch=4)
    with pytest.raises(ValidationError, match="heads = 6 is not a multiple of kv_heads = 4"):
        TypeAdapter(BalanceSettings).validate_json(json.dumps({"heads": 6, "kv_heads": 4}))
    with pytest.raises(ValidationError, match="greater than 0"):
        TypeAdapter(BalanceSettings).validate_json(json.dumps({"dp": 0}))

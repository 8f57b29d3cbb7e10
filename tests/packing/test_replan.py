"""Plans made anew over stored rows: other ranks and batches, from any step on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.format import ShardError
from packing.replan import replan
from packing.slots import BalanceSettings, StepPlan, imbalance, plan_steps


def first_plan(n: int, balance: BalanceSettings) -> tuple[StepPlan, np.ndarray]:
    """A plan of random rows, and their costs by row_id."""
    cost = np.exp(0.5 * np.random.default_rng(n).standard_normal(n))
    plan = plan_steps(cost, np.full(n, 9, dtype=np.int32), balance, seed=1)
    return plan, cost[plan.order]


@given(
    st.integers(1, 300),
    st.integers(0, 20),
    st.sampled_from([(1, 1, 1), (2, 8, 2), (3, 9, 1), (4, 4, 1)]),
)
def test_untrained_rows_are_dealt_once(n: int, from_step: int, ranks: tuple[int, int, int]) -> None:
    """Exactly the rows of later steps, numbered on from that step, in whole slots."""
    plan, cost = first_plan(n, BalanceSettings(dp=2, global_batch=8, horizon=4))
    from_step = min(from_step, int(plan.step.max()))
    dp, batch, micro_batch = ranks
    balance = BalanceSettings(dp=dp, global_batch=batch, micro_batch=micro_batch, horizon=4)
    new = replan(plan.step, cost, balance, from_step=from_step)
    assert sorted(new.order) == np.flatnonzero(plan.step >= from_step).tolist()
    steps = -(-len(new.order) // batch)
    assert np.unique(new.step).tolist() == list(range(from_step, from_step + steps))
    full = len(new.order) // batch * batch
    key = (new.step * batch + new.slot) * dp + new.rank
    assert (np.diff(key) >= 0).all()
    assert (np.unique(key[:full], return_counts=True)[1] == micro_batch).all()


def test_reading_stays_in_blocks() -> None:
    """A block of the new plan reads one run of row_ids, and its ranks do equal work."""
    plan, cost = first_plan(64 * 512, BalanceSettings(dp=16, global_batch=64))
    balance = BalanceSettings(dp=8, global_batch=32, horizon=32)
    new = replan(plan.step, cost, balance, seed=5)
    block = new.order.reshape(-1, 32 * 32)
    assert (block.max(1) - block.min(1) == 32 * 32 - 1).all()
    naive = imbalance(np.random.default_rng(0).permutation(cost), balance)
    for planned, shuffled in zip(imbalance(cost[new.order], balance), naive, strict=True):
        assert planned - 1 < (shuffled - 1) / 10


def test_a_replan_can_be_replanned() -> None:
    """Rows that a second plan left out stay out of a third, which starts where it is told to."""
    plan, cost = first_plan(400, BalanceSettings(dp=2, global_batch=8, horizon=4))
    second = replan(plan.step, cost, BalanceSettings(dp=4, global_batch=16), from_step=10)
    step = np.full(400, -1, dtype=np.int32)
    step[second.order] = second.step
    third = replan(step, cost, BalanceSettings(dp=8, global_batch=8), from_step=15)
    assert sorted(third.order) == np.flatnonzero(step >= 15).tolist()
    assert third.step[0] == 15


def test_seed_and_settings_decide_everything() -> None:
    """The same arguments give the same plan, another seed another numbering of steps."""
    plan, cost = first_plan(400, BalanceSettings(dp=2, global_batch=8))
    balance = BalanceSettings(dp=4, global_batch=8)
    one, same, other = (replan(plan.step, cost, balance, seed=s).order for s in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()


def test_nothing_left_is_refused() -> None:
    """Past the last step, without rows, and with arrays that do not match."""
    plan, cost = first_plan(40, BalanceSettings(dp=2, global_batch=8))
    with pytest.raises(ShardError, match="from step 5 on: the plan's last step is 4"):
        replan(plan.step, cost, BalanceSettings(), from_step=5)
    with pytest.raises(ShardError, match="no row is left"):
        replan(plan.step[:0], cost[:0], BalanceSettings())
    with pytest.raises(ShardError, match="40 steps but 39 costs"):
        replan(plan.step, cost[1:], BalanceSettings())

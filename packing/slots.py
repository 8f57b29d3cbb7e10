"""Which step, slot and rank trains a row: steps whose ranks all do the same work.

Balancing each step by itself is bounded by the rows it happens to hold. Here the rows of `horizon`
steps are sorted by cost and cut into slots of near-equal rows, so that the ranks of a slot wait for
nobody; the slots are then dealt so that every step gets heavy and light ones.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from packing.balance_settings import BalanceSettings
from packing.deal import deal_ranks, deal_slots, slot_shares
from packing.exchange import exchange_heaviest
from packing.format import ShardError
from packing.lengths import taking_order
from packing.shared_rows import check_blocks, join_rows
from transforms.record import mix64

__all__ = ["BalanceSettings", "StepPlan", "deal_rows", "imbalance", "plan_steps"]


@dataclass(frozen=True, slots=True)
class StepPlan:
    """Rows in plan order: by step, slot, rank, place in the rank's micro-batch."""

    order: npt.NDArray[np.int64]
    """Index of the row that stands at each place, int64[r]."""
    step: npt.NDArray[np.int32]
    """Step that trains it, int32[r]."""
    slot: npt.NDArray[np.int32]
    """Slot of the step, int32[r]; heavier slots come first."""
    rank: npt.NDArray[np.int32]
    """Data-parallel rank, int32[r]."""


def plan_steps(
    cost: npt.NDArray[np.float64],
    n_tokens: npt.NDArray[np.int32],
    settings: BalanceSettings,
    seed: int,
    domain: npt.NDArray[np.int16] | None = None,
    cp: npt.NDArray[np.int16] | None = None,
) -> StepPlan:
    """Plan the steps of freshly fitted rows, in seeded order.

    Rows are shuffled, cut into blocks of at most ``horizon`` steps (of near-equal size), and dealt
    inside each block; see `deal_rows`. Before that, neighbouring blocks exchange their heaviest
    rows (`packing.exchange`). What does not fill a step forms a short last one.

    Args:
        cost: cost of each row, float64[r], above 0 (`packing.cost.row_cost`).
        n_tokens: tokens of each row, int32[r]; orders rows of equal cost.
        settings: ranks, batch and horizon.
        seed: any integer.
        domain: domain of each row, int16[r], from 0: steps then get the block's mixture as nearly
            as whole slots allow.
        cp: ranks that share each row, powers of two, int16[r]; 1 by default.

    Returns:
        The plan; ``order[i]`` is the row that becomes ``row_id`` i.

    Raises:
        ShardError: costs that are not positive numbers, or arguments of different lengths.
    """
    _check(cost, n_tokens, domain)
    rows = taking_order(mix64(np.arange(len(cost)), seed))
    if cp is not None and check_blocks(cp, settings.dp) > 1:
        return _deal_shared(rows, cost, cp, settings, seed, domain, 0, exchange=True)
    bounds = [settings.global_batch * bound for bound in _block_bounds(len(cost), settings)]
    rows = exchange_heaviest(rows, cost, bounds, settings.slot_rows, seed)
    return deal_rows(rows, cost, settings, seed, n_tokens=n_tokens, domain=domain)


def deal_rows(
    rows: npt.NDArray[np.int64],
    cost: npt.NDArray[np.float64],
    settings: BalanceSettings,
    seed: int,
    *,
    n_tokens: npt.NDArray[np.int32] | None = None,
    domain: npt.NDArray[np.int16] | None = None,
    cp: npt.NDArray[np.int16] | None = None,
    first_step: int = 0,
) -> StepPlan:
    """Deal rows, given in the order in which blocks are cut, to steps, slots and ranks.

    Inside a block: rows are sorted by cost and cut into slots; each slot, heaviest first, goes to
    the step with the least work that still wants one (longest processing time first), and slots of
    similar cost are swapped where that brings steps nearer to equal work and to the block's mixture
    of domains; the rows of a slot go to its ranks one by one, the heaviest to the rank with the
    least work so far; the steps are numbered in seeded order. Where ranks share rows, aligned blocks
    of ranks are dealt instead (`packing.shared_rows.join_rows`), in turns one way and the other.

    Args:
        rows: indices into the other arrays, int64[r]; rows that are not named are left out.
        cost: cost of every row.
        settings: ranks, batch and horizon.
        seed: any integer.
        n_tokens: tokens of every row, or None.
        domain: domain of every row, or None.
        cp: ranks that share each row, or None.
        first_step: number of the first step.

    Returns:
        The plan of the named rows.

    Raises:
        ShardError: as `plan_steps`.
    """
    _check(cost, n_tokens, domain)
    if cp is not None and check_blocks(cp[rows], settings.dp) > 1:
        return _deal_shared(rows, cost, cp, settings, seed, domain, first_step)
    return _deal(rows, cost, settings, seed, n_tokens, domain, first_step)


def _deal_shared(
    rows: npt.NDArray[np.int64],
    cost: npt.NDArray[np.float64],
    cp: npt.NDArray[np.int16],
    settings: BalanceSettings,
    seed: int,
    domain: npt.NDArray[np.int16] | None,
    first_step: int,
    *,
    exchange: bool = False,
) -> StepPlan:
    """Deal blocks of rows of which some are shared; see `deal_rows`."""
    width = int(cp[rows].max())
    blocks = join_rows(
        cost[rows] / cp[rows], cp[rows], width, settings.horizon * settings.global_batch
    )
    work = np.bincount(blocks.block, cost[rows], blocks.count).astype(np.float64, copy=False)
    if blocks.short:
        # The lightest is dealt last: into the last slot, the one that may be short.
        work[-1] = work.min() / 2
    kinds = None
    if domain is not None:
        # A block counts for the domain of its costliest row.
        kinds = np.empty(blocks.count, np.int16)
        by_cost = np.argsort(cost[rows], kind="stable")
        kinds[blocks.block[by_cost]] = domain[rows[by_cost]]
    joined = replace(settings, dp=settings.dp // width, global_batch=settings.global_batch // width)
    blocks_in_order = np.arange(blocks.count)
    if exchange:
        full = _block_bounds(blocks.count - blocks.short, joined)
        bounds = [joined.global_batch * bound for bound in full]
        blocks_in_order = exchange_heaviest(blocks_in_order, work, bounds, joined.slot_rows, seed)
    plan = _deal(blocks_in_order, work, joined, seed, None, kinds, first_step, short=blocks.short)
    at = np.empty(blocks.count, np.int64)
    at[plan.order] = np.arange(blocks.count)
    new = np.ones(blocks.count, bool)
    same = (plan.step[1:] == plan.step[:-1]) & (plan.slot[1:] == plan.slot[:-1])
    new[1:] = ~(same & (plan.rank[1:] == plan.rank[:-1]))
    turn = np.arange(blocks.count) - np.flatnonzero(new)[np.cumsum(new) - 1]
    # A block has its heavier rows first: every other one is turned round.
    own = at[blocks.block]
    turned = (plan.slot[own] * settings.micro_batch + turn[own]) % 2 == 1
    shift = np.where(turned, width - blocks.offset - cp[rows], blocks.offset)
    rank = (plan.rank[own] * width + shift).astype(np.int32)
    order = np.lexsort((turn[own], rank, plan.slot[own], plan.step[own]))
    own = own[order]
    return StepPlan(rows[order], plan.step[own], plan.slot[own], rank[order])


def _deal(
    rows: npt.NDArray[np.int64],
    cost: npt.NDArray[np.float64],
    settings: BalanceSettings,
    seed: int,
    n_tokens: npt.NDArray[np.int32] | None,
    domain: npt.NDArray[np.int16] | None,
    first_step: int,
    *,
    short: bool = False,
) -> StepPlan:
    """Deal rows of one rank each; a last one that is ``short`` goes to the short step."""
    batch = settings.global_batch
    steps = (len(rows) - short) // batch
    # The rows after the last full step are a block of their own.
    bounds = [*_block_bounds(len(rows) - short, settings), steps + 1]
    places = np.full((steps + 1) * batch, -1, dtype=np.int64)
    for first, end in pairwise(bounds):
        block = rows[first * batch : end * batch]
        if not len(block):
            continue
        number = taking_order(mix64(np.arange(first, end), seed + 1))
        tokens = None if n_tokens is None else n_tokens[block]
        kinds = np.zeros(len(block), dtype=np.int16) if domain is None else domain[block]
        places[first * batch + _deal_block(cost[block], tokens, kinds, number, settings)] = block
    # Only the last slot of the short step can have places that nobody took.
    place = np.flatnonzero(places >= 0)
    return StepPlan(
        places[place],
        (place // batch + first_step).astype(np.int32),
        (place % batch // settings.slot_rows).astype(np.int32),
        (place % settings.slot_rows // settings.micro_batch).astype(np.int32),
    )


def _block_bounds(rows: int, settings: BalanceSettings) -> list[int]:
    """Return the first step of each block and the number of full steps."""
    steps = rows // settings.global_batch
    blocks = -(-steps // settings.horizon)
    return [steps * b // blocks for b in range(blocks)] + [steps]


def _deal_block(
    cost: npt.NDArray[np.float64],
    n_tokens: npt.NDArray[np.int32] | None,
    domain: npt.NDArray[np.int16],
    number: npt.NDArray[np.int64],
    settings: BalanceSettings,
) -> npt.NDArray[np.int64]:
    """Return the place of each row of one block, counted as if every slot were full.

    ``number`` holds the number of each step within the block.
    """
    by_cost = np.lexsort((-cost,) if n_tokens is None else (n_tokens, -cost))
    cost, domain = cost[by_cost], domain[by_cost]
    slots, dp, micro_batch = settings.slots_per_step, settings.dp, settings.micro_batch
    work, excess = slot_shares(cost, domain, settings.slot_rows, len(number))
    step_of = deal_slots(work, excess, len(number), slots)
    sorted_place, place = np.empty_like(by_cost), np.empty_like(by_cost)
    deal_ranks(cost, step_of, number, slots, dp, micro_batch, sorted_place)
    place[by_cost] = sorted_place
    return place


def _check(
    cost: npt.NDArray[np.float64],
    n_tokens: npt.NDArray[np.int32] | None,
    domain: npt.NDArray[np.int16] | None,
) -> None:
    """Refuse rows that cannot be priced."""
    for name, array in (("n_tokens", n_tokens), ("domain", domain)):
        if array is not None and len(array) != len(cost):
            raise ShardError(
                f"{len(cost)} costs but {len(array)} of {name}; pass one of each a row"
            )
    if domain is not None and len(domain) and domain.min() < 0:
        raise ShardError(f"row {domain.argmin()} has the domain {domain.min()}; they count from 0")
    wrong = np.flatnonzero(~((cost > 0) & np.isfinite(cost)))
    if len(wrong):
        raise ShardError(
            f"row {wrong[0]} has the cost {cost[wrong[0]]} ({len(wrong)} such rows); "
            "a row costs a positive number of TFLOP"
        )


def imbalance(cost: npt.NDArray[np.float64], settings: BalanceSettings) -> tuple[float, float]:
    """Return how much longer ranks take than with equal work: 1.0 is perfect.

    Mean over full steps of the slowest rank's work over the mean rank's: once with one
    synchronization a step (plain data parallel), once with one a slot (parameters gathered for each
    micro-batch, as sharded data parallel does).

    Args:
        cost: cost of the row at each place of a plan, float64[r].
        settings: ranks and batch of that plan.

    Returns:
        (a step, a slot); both NaN when there is no full step.
    """
    full = len(cost) - len(cost) % settings.global_batch
    if not full:
        return float("nan"), float("nan")
    each = (
        cost[:full].reshape(-1, settings.slots_per_step, settings.dp, settings.micro_batch).sum(3)
    )
    by_rank = each.sum(1)
    a_step = (by_rank.max(1) / by_rank.mean(1)).mean()
    a_slot = (each.max(2).sum(1) / each.mean(2).sum(1)).mean()
    return float(a_step), float(a_slot)

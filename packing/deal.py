"""Kernels that deal the rows of one block: slots to steps, and rows of a slot to ranks."""

import numba
import numpy as np

# Twenty passes lower the sum by 2 % more at most (four or eight slots a step, three domains).
_SWAP_PASSES = 3


@numba.njit(cache=True, nogil=True)
def slot_shares(cost, domain, slot_rows, steps):  # type: ignore[no-untyped-def]
    """Return the cost of each slot, as a share of a mean step's, and its rows beyond the mixture.

    Args:
        cost: cost of the block's rows, heaviest first, float64[n]; the last slot may be short.
        domain: their domains, int16[n], from 0.
        slot_rows: rows of a slot.
        steps: steps of the block.

    Returns:
        float64[slots], and float64[slots, domains] as shares of a slot.
    """
    slots = -(-len(cost) // slot_rows)
    work = np.zeros(slots)
    excess = np.zeros((slots, max(0, domain.max()) + 1))
    total = 0.0
    mixture = np.zeros(excess.shape[1])
    for i in range(len(cost)):
        work[i // slot_rows] += cost[i]
        excess[i // slot_rows, domain[i]] += 1 / slot_rows
        total += cost[i]
        mixture[domain[i]] += 1 / len(cost)
    for slot in range(slots):
        work[slot] *= steps / total
        for d in range(len(mixture)):
            excess[slot, d] -= mixture[d]
    return work, excess


@numba.njit(cache=True, nogil=True)
def deal_slots(work, excess, steps, slots_per_step):  # type: ignore[no-untyped-def]
    """Give each slot a step: longest processing time first, then swaps of similar slots.

    What is kept small is the sum over steps of squared work, and of squared excess of each domain.

    Args:
        work: see `slot_shares`.
        excess: see `slot_shares`.
        steps: steps of the block.
        slots_per_step: the most slots of a step.

    Returns:
        int64[slots].
    """
    slots, domains = excess.shape
    step_of = np.empty(slots, dtype=np.int64)
    taken = np.zeros(steps, dtype=np.int64)
    load = np.zeros(steps)
    beyond = np.zeros((steps, domains))
    weight = 1 / slots_per_step**2
    for slot in range(slots):
        best = -1
        least = np.inf
        for s in range(steps):
            if taken[s] < slots_per_step:
                growth = work[slot] * load[s]
                for d in range(domains):
                    growth += weight * excess[slot, d] * beyond[s, d]
                if growth < least:
                    best = s
                    least = growth
        step_of[slot] = best
        taken[best] += 1
        load[best] += work[slot]
        beyond[best] += excess[slot]
    _swap_slots(work, excess, weight, step_of, load, beyond)
    return step_of


@numba.njit(cache=True, nogil=True)
def _swap_slots(work, excess, weight, step_of, load, beyond):  # type: ignore[no-untyped-def]
    """Swap slots of similar work between steps while the sum of `deal_slots` falls."""
    slots, domains = excess.shape
    for _ in range(_SWAP_PASSES):
        swaps = 0
        for i in range(slots):
            for j in range(i + 1, min(slots, i + len(load))):
                a = step_of[i]
                b = step_of[j]
                more = work[j] - work[i]
                growth = more * (load[a] - load[b] + more)
                for d in range(domains):
                    over = excess[j, d] - excess[i, d]
                    growth += weight * over * (beyond[a, d] - beyond[b, d] + over)
                if a != b and growth < -1e-12:
                    step_of[i] = b
                    step_of[j] = a
                    load[a] += more
                    load[b] -= more
                    beyond[a] += excess[j] - excess[i]
                    beyond[b] -= excess[j] - excess[i]
                    swaps += 1
        if swaps == 0:
            break


@numba.njit(cache=True, nogil=True)
def deal_ranks(cost, step_of, number, slots_per_step, dp, micro_batch, place):  # type: ignore[no-untyped-def]
    """Give each row a place: in turns of one row a rank, the heaviest to the least loaded rank.

    Args:
        cost: cost of the block's rows, heaviest first, float64[n].
        step_of: step of each slot, int64[slots].
        number: number of each step within the block, int64[steps].
        slots_per_step: the most slots of a step.
        dp: ranks.
        micro_batch: rows of a rank in a slot.
        place: receives the place of each row, counted over the block as if every slot were full.
    """
    slot_rows = dp * micro_batch
    taken = np.zeros(len(number), dtype=np.int64)
    load = np.zeros((len(number), dp))
    for slot in range(len(step_of)):
        step = step_of[slot]
        base = (number[step] * slots_per_step + taken[step]) * slot_rows
        taken[step] += 1
        for turn in range(micro_batch):
            first = slot * slot_rows + turn * dp
            lightest = np.argsort(load[step], kind="mergesort")
            for j in range(min(dp, len(cost) - first)):
                rank = lightest[j]
                place[first + j] = base + rank * micro_batch + turn
                load[step, rank] += cost[first + j]

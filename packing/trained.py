"""Trained tokens as a second load: in conversations rows of equal work train unequally many tokens."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from packing.loss_spans import cut_spans
from packing.rows import LossSpans, offsets_of
from packing.slots import StepPlan
from transforms.kernel import kernel

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Work decides how long ranks wait, so an unevenness of it counts as much as one of trained tokens
# that is this many times as large (squared below).
_WORK = 4.0
_PASSES = 4


def piece_targets(
    spans: LossSpans | None,
    document: Ints,
    token_start: Ints,
    token_end: Ints,
    n_tokens: Ints,
) -> Ints:
    """Return the trained targets of pieces, int64[p].

    Args:
        spans: loss spans of d documents, in positions of their tokens, or None where there are none.
        document: [p] which document each piece is of.
        token_start: [p] the piece's first token in its document.
        token_end: [p] the token after its last.
        n_tokens: [p] tokens of the document.
    """
    # The last token of a document has no target.
    targets = token_end - token_start - (token_end == n_tokens)
    if spans is None:
        return np.asarray(targets)
    own = cut_spans(spans, document, token_start, token_end, n_tokens, np.zeros_like(document))
    return np.asarray(np.where(own.is_null, targets, _covered(own)))


def row_targets(
    spans: LossSpans | None, n_tokens: Ints, next_token: npt.NDArray[np.int32], pieces: Ints
) -> Ints:
    """Return the trained targets of packed rows, int64[r].

    Args:
        spans: loss spans of r rows, in positions of their targets, or None.
        n_tokens: [r] tokens of each row.
        next_token: [p] the token after each piece, -1 where its document ends.
        pieces: [r] pieces of each row.
    """
    row = np.repeat(np.arange(len(pieces)), pieces)
    targets = n_tokens - np.bincount(row, next_token < 0, len(pieces)).astype(np.int64)
    return (
        targets if spans is None else np.asarray(np.where(spans.is_null, targets, _covered(spans)))
    )


def _covered(spans: LossSpans) -> Ints:
    """Return the positions that spans of a weight above 0 cover, by document or row."""
    length = np.where(spans.weight > 0, spans.end - spans.start, 0).astype(np.int64)
    return np.diff(offsets_of(length)[spans.offsets])


def even_trained(
    plan: StepPlan, cost: Floats, trained: Ints, cp: npt.NDArray[np.int16], dp: int
) -> StepPlan:
    """Exchange rows of a slot between ranks, so that a step's ranks train equally many tokens.

    What falls is the sum over a step's ranks of their squared shares of trained tokens and, at 16
    times the weight, of work. Steps and slots keep their rows; rows that ranks share stay.

    Args:
        plan: the plan, by step, slot and rank.
        cost: cost of every row, float64[r].
        trained: trained targets of every row, int64[r].
        cp: ranks that share every row, int16[r].
        dp: ranks.

    Returns:
        The plan with rows of the same slot exchanged.
    """
    order = plan.order.copy()
    if dp > 1 and len(order):
        new = np.flatnonzero(np.diff(plan.step, prepend=plan.step[0] - 1))
        bounds = np.append(new, len(order)).astype(np.int64)
        _even(
            order,
            bounds,
            plan.slot.astype(np.int64),
            plan.rank.astype(np.int64),
            cost,
            trained.astype(np.float64),
            cp.astype(np.int64),
            dp,
        )
    return replace(plan, order=order)


@kernel
def _even(
    order: Ints,
    bounds: Ints,
    slot: Ints,
    rank: Ints,
    cost: Floats,
    trained: Floats,
    cp: Ints,
    dp: int,
) -> None:
    """Exchange rows while the sums of `even_trained` fall; at most some passes over each step."""
    for s in range(len(bounds) - 1):
        work, tokens = np.zeros(dp), np.zeros(dp)
        for i in range(bounds[s], bounds[s + 1]):
            row = order[i]
            for r in range(rank[i], rank[i] + cp[row]):
                work[r] += cost[row] / cp[row]
                tokens[r] += trained[row] / cp[row]
        if tokens.sum() == 0:
            continue
        weight, share = (_WORK / work.sum()) ** 2, (1 / tokens.sum()) ** 2
        for _ in range(_PASSES):
            swaps = 0
            for i in range(bounds[s], bounds[s + 1]):
                swaps += _exchange(
                    i,
                    bounds[s + 1],
                    order,
                    slot,
                    rank,
                    cost,
                    trained,
                    cp,
                    work,
                    tokens,
                    weight,
                    share,
                )
            if swaps == 0:
                break


@kernel
def _exchange(
    i: int,
    end: int,
    order: Ints,
    slot: Ints,
    rank: Ints,
    cost: Floats,
    trained: Floats,
    cp: Ints,
    work: Floats,
    tokens: Floats,
    weight: float,
    share: float,
) -> int:
    """Exchange the row at one place with later ones of its slot; return how often."""
    swaps = 0
    for j in range(i + 1, end):
        if slot[j] != slot[i]:
            break
        a, b = rank[i], rank[j]
        if a == b or cp[order[i]] > 1 or cp[order[j]] > 1:
            continue
        more = cost[order[j]] - cost[order[i]]
        gain = trained[order[j]] - trained[order[i]]
        growth = weight * more * (work[a] - work[b] + more)
        growth += share * gain * (tokens[a] - tokens[b] + gain)
        if growth < -1e-15:
            order[i], order[j] = order[j], order[i]
            work[a] += more
            work[b] -= more
            tokens[a] += gain
            tokens[b] -= gain
            swaps += 1
    return swaps

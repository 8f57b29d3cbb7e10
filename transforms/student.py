"""The student: hashed n-grams, weighed so that documents rank as they were measured.

A document's score is the mean weight of its tokens and pairs of tokens, each hashed to one of 2^16
buckets. Weights are fitted over groups of documents, drawn anew for every pass: KL divergence from
softmax(measured / tau) to softmax(score), the loss by which MetRag fits a utility model
(arXiv:2405.19893, section 3.2), by AdaGrad on the whole gradient (Duchi, Hazan and Singer, JMLR 12,
2011). All of it is float64 in a fixed order; weights are rounded to 2^-20, and scores are sums of
whole numbers.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.record import mix64
from transforms.shingles import Hashes, Offsets

Floats = npt.NDArray[np.float64]
Weights = npt.NDArray[np.int32]

BUCKETS = 1 << 16
GROUP = 16
"""Documents that are compared with each other."""

_SCALE = float(1 << 20)
_PASSES = 100
_RATE = 1.0
_DECAY = 1e-6
_PAIR = np.uint64(0xD6E8FEB86659FD93)
_MIX = np.uint64(0xC4CEB9FE1A85EC53)


def buckets_of(offsets: Offsets, tokens: Hashes) -> tuple[Offsets, Weights]:
    """Return the buckets of all tokens and pairs of each document.

    Returns:
        [n + 1] where each document's buckets begin, and the buckets; a document of m > 0 tokens has
        2 m - 1.
    """
    sizes = np.diff(offsets)
    found = np.concatenate([[0], np.cumsum(np.maximum(2 * sizes - 1, 0))]).astype(np.int64)
    buckets = np.empty(int(found[-1]), np.int32)
    _buckets(offsets, tokens, found, buckets)
    return found, buckets


def fit(offsets: Offsets, buckets: Weights, measured: Floats, *, tau: float, seed: int) -> Weights:
    """Fit the weights of the buckets.

    Args:
        offsets: [n + 1] where each document's buckets begin.
        buckets: the buckets.
        measured: [n] what was measured, in any unit; outliers are cut at 4 standard deviations.
        tau: temperature, in standard deviations of what was measured.
        seed: seed of the groups.

    Returns:
        [2^16] weights in units of 2^-20.
    """
    goal = standardized(measured) / tau
    theta, squares = np.zeros(BUCKETS), np.full(BUCKETS, 1e-12)
    places = np.arange(len(measured), dtype=np.int64)
    for number in range(_PASSES if len(measured) > 1 else 0):
        order = np.argsort(mix64(places, seed + number), kind="stable")
        _, gradient = kl(offsets, buckets, goal, theta, order)
        gradient += _DECAY * theta
        squares += gradient * gradient
        theta -= _RATE * gradient / np.sqrt(squares)
    return quantized(theta)


def standardized(values: Floats) -> Floats:
    """Return values less their mean over their standard deviation, between -4 and 4."""
    spread = float(values.std())
    if not spread:
        return np.zeros_like(values)
    found: Floats = np.clip((values - values.mean()) / spread, -4.0, 4.0)
    return found


def quantized(theta: Floats) -> Weights:
    """Return weights as whole numbers of 2^-20."""
    bound = float(np.iinfo(np.int32).max)
    return np.clip(np.rint(theta * _SCALE), -bound, bound).astype(np.int32)


def kl(
    offsets: Offsets, buckets: Weights, goal: Floats, theta: Floats, order: npt.NDArray[np.int64]
) -> tuple[float, Floats]:
    """Return the mean divergence over groups of :data:`GROUP` in this order, and its gradient."""
    gradient = np.zeros(BUCKETS)
    scores = np.empty(len(order))
    value = _kl(offsets, buckets, goal, theta, order, gradient, scores)
    groups = max(1, -(-len(order) // GROUP))
    return value / groups, gradient / groups


def score(offsets: Offsets, tokens: Hashes, weights: Weights) -> npt.NDArray[np.float32]:
    """Score documents by several sets of weights at once.

    Args:
        offsets: [n + 1] where each document's tokens begin.
        tokens: hashes of the tokens.
        weights: [k, 2^16] weights in units of 2^-20.

    Returns:
        [k, n] mean weights; no number (NaN) for documents without tokens.
    """
    sums = np.zeros((len(weights), len(offsets) - 1), np.int64)
    _score(offsets, tokens, np.ascontiguousarray(weights.T), sums)
    sizes = np.maximum(2 * np.diff(offsets) - 1, 0).astype(np.float64)
    with np.errstate(invalid="ignore"):
        found: npt.NDArray[np.float32] = (sums / (sizes * _SCALE)).astype(np.float32)
    return found


def importance(target: Weights, reference: Weights) -> Weights:
    """Return log-ratios of the buckets' frequencies: similarity to the target (DSIR).

    The ratio of two bags of hashed n-grams, as in "Data selection for language models via
    importance resampling" (arXiv:2302.03169, section 3), smoothed by one in every bucket.

    Args:
        target: buckets of the target's tokens and pairs.
        reference: buckets of a sample of the corpus.
    """
    found = []
    for buckets in (target, reference):
        counts = np.bincount(buckets, minlength=BUCKETS) + 1.0
        found.append(np.log(counts / counts.sum()))
    return quantized(found[0] - found[1])


@dataclass(frozen=True, slots=True)
class Reliability:
    """How well scores rank documents that were measured and not learnt from."""

    documents: int
    spearman: float
    """Rank correlation."""
    lift: float
    """Share of the tenth measured best among the tenth scored best, over a tenth."""
    reliable: bool
    """Whether a correlation this high comes from chance in less than one case in a hundred."""


def reliability(measured: Floats, scored: Floats) -> Reliability:
    """Compare measured and scored values."""
    n = len(measured)
    first, second = _ranks(measured), _ranks(scored)
    spread = first.std() * second.std() if n else 0.0
    rho = (
        float(((first - first.mean()) * (second - second.mean())).mean() / spread)
        if spread
        else 0.0
    )
    top = max(1, n // 10)
    best = [set(np.argsort(-ranks, kind="stable")[:top].tolist()) for ranks in (first, second)]
    lift = len(best[0] & best[1]) / top / (top / n) if n else 0.0
    # Under no association the correlation has variance 1 / (n - 1); one-sided.
    return Reliability(n, round(rho, 6), round(lift, 6), n >= 20 and rho * (n - 1) ** 0.5 > 2.326)


def _ranks(values: Floats) -> Floats:
    """Return ranks from 0; equal values share their mean rank."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean = last - (counts + 1) / 2
    return mean[place].astype(np.float64)


@kernel
def _bucket(first: np.uint64, second: np.uint64) -> np.int64:
    """Return the bucket of a token (``second`` 0) or a pair."""
    state = (first * _PAIR + second) * _MIX
    return np.int64((state ^ (state >> np.uint64(31))) * _PAIR >> np.uint64(48))


@kernel
def _buckets(offsets: Offsets, tokens: Hashes, found: Offsets, out: Weights) -> None:
    """Write the buckets of each document."""
    for d in range(len(offsets) - 1):
        used = found[d]
        for place in range(offsets[d], offsets[d + 1]):
            out[used] = _bucket(tokens[place], np.uint64(0))
            used += 1
            if place > offsets[d]:
                out[used] = _bucket(tokens[place - 1], tokens[place])
                used += 1


@kernel
def _kl(
    offsets: Offsets,
    buckets: Weights,
    goal: Floats,
    theta: Floats,
    order: npt.NDArray[np.int64],
    gradient: Floats,
    scores: Floats,
) -> float:
    """Add up the divergence of all groups and its gradient."""
    value = 0.0
    for begin in range(0, len(order), GROUP):
        end = min(begin + GROUP, len(order))
        high_goal, high_score = -np.inf, -np.inf
        for k in range(begin, end):
            d = order[k]
            total = 0.0
            for b in range(offsets[d], offsets[d + 1]):
                total += theta[buckets[b]]
            scores[k] = total / max(1, offsets[d + 1] - offsets[d])
            high_goal, high_score = max(high_goal, goal[d]), max(high_score, scores[k])
        sum_goal, sum_score = 0.0, 0.0
        for k in range(begin, end):
            sum_goal += np.exp(goal[order[k]] - high_goal)
            sum_score += np.exp(scores[k] - high_score)
        for k in range(begin, end):
            d = order[k]
            log_p = goal[d] - high_goal - np.log(sum_goal)
            log_s = scores[k] - high_score - np.log(sum_score)
            value += np.exp(log_p) * (log_p - log_s)
            size = max(1, offsets[d + 1] - offsets[d])
            step = (np.exp(log_s) - np.exp(log_p)) / size
            for b in range(offsets[d], offsets[d + 1]):
                gradient[buckets[b]] += step
    return value


@kernel
def _score(offsets: Offsets, tokens: Hashes, weights: Weights, sums: npt.NDArray[np.int64]) -> None:
    """Add up the weights of each document's buckets; ``weights`` is [2^16, k]."""
    kinds = weights.shape[1]
    for d in range(len(offsets) - 1):
        for place in range(offsets[d], offsets[d + 1]):
            bucket = _bucket(tokens[place], np.uint64(0))
            for kind in range(kinds):
                sums[kind, d] += weights[bucket, kind]
            if place > offsets[d]:
                bucket = _bucket(tokens[place - 1], tokens[place])
                for kind in range(kinds):
                    sums[kind, d] += weights[bucket, kind]

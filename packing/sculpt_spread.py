"""How far apart the numbers of documents of rows may lie, and which documents leave for it.

Rows of one cluster of short documents hold many; rows of another hold two or three. Where that
spread is too wide, the shortest documents leave the dense clusters and are dealt among the rows of
others: of all that could be moved, the shortest lower the squares most for the tokens that are then
beside another topic, and few in many rows lower them more than half and half in few.
"""

import numpy as np
import numpy.typing as npt

from packing.fit import PackSettings, fit_rows
from packing.sculpt_limits import NO_LIMIT, Limits

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

_STEP = 1.05
_UNEVEN = 1.5
"""Squares of rows that others' documents are dealt among, over those of equal numbers."""


def squares_allowed(n_tokens: Int32s, settings: PackSettings) -> float:
    """Return what the squared numbers of documents of rows without full ones may add up to.

    Args:
        n_tokens: length of each document, int32[n].
        settings: ``count_spread`` says how much of best-fit's spread is allowed.
    """
    best = fit_rows(
        n_tokens[n_tokens > 0],
        np.arange(np.count_nonzero(n_tokens), dtype=np.uint64),
        PackSettings(seq_len=settings.seq_len, max_docs_per_row=settings.max_docs_per_row),
    )
    count = np.bincount(best.row).astype(np.float64)
    variance = float(count.var()) * settings.sculpt.count_spread**2
    full = int((n_tokens // np.int32(settings.seq_len)).sum(dtype=np.int64))
    return len(count) * (variance + float(count.mean()) ** 2) - full


def too_short(n_tokens: Int32s, limits: Limits) -> npt.NDArray[np.bool_]:
    """Return which documents leave, the shortest, so that the mean row has few enough, bool[n]."""
    short = np.zeros(len(n_tokens), bool)
    if limits.dense < len(n_tokens):
        longest = np.argsort(-n_tokens, kind="stable")
        total = np.cumsum(n_tokens[longest], dtype=np.int64)
        short[longest] = total * limits.dense < np.arange(1, len(longest) + 1) * limits.seq_len
    return short


def densest(
    cluster: Int32s, n_tokens: Int32s, documents: int, seq_len: int, squares: float
) -> float:
    """Return how many documents the mean row of a cluster may have, estimated from a sample.

    The most with which the squared numbers of documents keep to what is allowed, were the rows of
    each cluster equal and what leaves dealt among the rows of the clusters of few.

    Args:
        cluster: cluster of each document of the sample, int32[m].
        n_tokens: tokens of each, int32[m], at least 1.
        documents: how many documents there are in all.
        seq_len: tokens of a row.
        squares: what the squared numbers of documents of rows may add up to.
    """
    if not len(cluster):
        return float(NO_LIMIT)
    order = np.lexsort((-n_tokens, cluster))
    first = np.flatnonzero(np.diff(cluster[order], prepend=-1))
    of = np.cumsum(np.diff(cluster[order], prepend=-1) > 0) - 1
    tokens = n_tokens[order].astype(np.float64) * (documents / len(order)) / seq_len
    ends = np.cumsum(tokens)
    before = np.r_[0.0, ends[:-1]][first]
    weight = documents / len(order)
    density = (np.arange(len(order)) + 1 - first[of]) * weight / (ends - before[of])
    mean = documents / float(ends[-1])
    best, least = float(NO_LIMIT), np.inf
    limit = float(density.max())
    while limit > 1.5 * mean:
        found = _squares(of, tokens, weight, density <= limit, limit)
        if found <= squares:
            return limit if limit < density.max() else float(NO_LIMIT)
        if found < least:
            best, least = limit, found
        limit /= _STEP
    return best


def _squares(
    of: Int64s,
    tokens: npt.NDArray[np.float64],
    weight: float,
    stays: npt.NDArray[np.bool_],
    limit: float,
) -> float:
    """Estimate the squares for a limit; ``tokens`` in rows."""
    rows = np.bincount(of[stays], tokens[stays], int(of[-1]) + 1)
    count = np.bincount(of[stays], minlength=len(rows)) * weight
    own = count**2 / np.maximum(rows, 1e-12)
    thin = count <= limit / 2 * rows
    gone = float(np.count_nonzero(~stays)) * weight
    spread = float(rows[thin].sum() + tokens[~stays].sum())
    if not spread or not gone:
        return float(own.sum())
    more = gone / spread
    return float(own.sum()) + _UNEVEN * more * (2.0 * float(count[thin].sum()) + gone)

"""Rows of documents that are near each other: a cluster, or a block of what clusters left over."""

# Kernels have no annotations.
# mypy: disable-error-code="no-untyped-call"

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from packing.sculpt_fill import place, refine
from packing.sculpt_limits import Limits
from packing.sculpt_order import near_labels
from packing.sculpt_settings import SculptSettings
from packing.sculpt_spread import too_short
from packing.sculpt_state import OPEN, SPARE
from packing.sculpt_tighten import tighten
from packing.spherical import Grid
from transforms.kernel import kernel

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

GROUP_ROWS = 24
GROUP_DOCUMENTS = 8192
_NEAR_BLOCK = 512


def fill_cluster(points: Grid, full: Grid, n_tokens: Int32s, limits: Limits) -> Int32s:
    """Return the rows of one cluster's documents, int32[n].

    `SPARE` for the shortest of a cluster that would have too many in a row, `OPEN` for others that
    are in none.

    Args:
        points: projected vectors, int16[n, d].
        full: the vectors themselves, int16[n, width].
        n_tokens: tokens, int32[n], each from 1 to ``seq_len``.
        limits: what a row can hold.
    """
    weights = of_clusters(limits.settings)
    row = np.full(len(points), OPEN, np.int32)
    rows = 0
    short = too_short(n_tokens, limits)
    row[short] = SPARE
    stay = np.flatnonzero(~short)
    most_tokens, most_docs = GROUP_ROWS * limits.seq_len, GROUP_DOCUMENTS
    for group in split(points, n_tokens, stay, most_tokens, most_docs):
        group = group[np.argsort(-n_tokens[group], kind="stable")]
        found = fill_group(points[group], full[group], n_tokens[group], limits, weights)
        used = np.unique(found[found >= 0])
        row[group[found >= 0]] = rows + np.searchsorted(used, found[found >= 0])
        rows += len(used)
    return row


@dataclass(frozen=True, slots=True)
class Weights:
    """What documents of a group are put together by."""

    relevance: float
    residual: float
    count: float
    penalty: float
    """On a row's squared number of documents while rows are refined."""
    alike: float
    """How like a row what fills it must be; negative for any."""
    product: bool = False


EVEN = Weights(1.0, 1.0, 1.0, 0.005, -1.0)
"""Rows get equal numbers of documents before documents that are alike."""


def of_clusters(s: SculptSettings) -> Weights:
    """Return the weights of rows of one cluster: those of the settings."""
    return Weights(s.relevance, s.residual, s.count, s.count_penalty, s.alike, s.score == "product")


def of_blocks(s: SculptSettings) -> Weights:
    """Return the weights of rows that others' short documents are dealt among.

    Long documents leave as much room in each row, so that all get a few of the short ones.
    """
    return Weights(
        s.relevance, max(1.0, s.residual), max(0.6, s.count), max(0.02, s.count_penalty), s.alike
    )


def fill_group(
    points: Grid, full: Grid, n_tokens: Int32s, limits: Limits, weights: Weights
) -> Int32s:
    """Return the rows of some documents, longest first, int32[n]; `OPEN` for those in none."""
    s = limits.settings
    row = np.full(len(points), OPEN, np.int32)
    rows = -(-int(n_tokens.sum(dtype=np.int64)) // limits.seq_len)
    if rows < 2:
        if len(points) and limits.seq_len - int(n_tokens.sum()) <= limits.slack:
            row[:] = 0 if len(points) <= limits.max_docs else OPEN
        return row
    label = labels(points, full, n_tokens, s.near_duplicate)
    terms = np.array([weights.relevance, weights.residual, weights.count])
    common = (points, n_tokens, rows, limits.seq_len, limits.max_docs, label, s.near_duplicate_cap)
    place(*common, terms, weights.product, row)
    refine(*common, weights.penalty, s.refine_passes, row)
    tighten(*common, limits.slack, weights.alike, row)
    return row


def labels(points: Grid, full: Grid, n_tokens: Int32s, threshold: float) -> Int32s:
    """Return the group of near-duplicates of each document, int32[n]; -1 for none.

    More than some hundred documents are compared in parts of similar ones.
    """
    label = np.full(len(points), -1, np.int32)
    used = 0
    for part in split(points, n_tokens, np.arange(len(points)), 1 << 62, _NEAR_BLOCK):
        part = np.sort(part)
        here = np.empty(len(part), np.int32)
        count = near_labels(points[part], full[part], threshold, here)
        label[part] = np.where(here >= 0, here + used, -1)
        used += count
    return label


def split(
    points: Grid, n_tokens: Int32s, group: Int64s, most_tokens: int, most_docs: int
) -> Iterator[Int64s]:
    """Yield parts of a group that are within the limits, halved by similarity; near ones follow."""
    if len(group) <= most_docs and int(n_tokens[group].sum(dtype=np.int64)) <= most_tokens:
        if len(group):
            yield group
        return
    if len(group) == 1:
        yield group
        return
    side = np.empty(len(group), np.int32)
    halve(points, group, side)
    order = np.argsort(-side, kind="stable")
    tokens = np.cumsum(n_tokens[group[order]], dtype=np.int64)
    cut = int(np.searchsorted(tokens, tokens[-1] // 2, side="right"))
    if len(group) > most_docs:
        cut = len(group) // 2
    cut = min(max(1, cut), len(group) - 1)
    yield from split(points, n_tokens, group[order[:cut]], most_tokens, most_docs)
    yield from split(points, n_tokens, group[order[cut:]], most_tokens, most_docs)


@kernel
def halve(points, group, side):  # type: ignore[no-untyped-def]  # noqa: C901
    """Score documents by how much more they are like the first of two means than the second.

    Args:
        points: projected vectors, int16[n, d].
        group: which of them, int64[m].
        side: receives the scores, int32[m].
    """
    n = len(group)
    d = points.shape[1]
    means = np.zeros((2, d), np.int16)
    total = np.zeros((2, d), np.int64)
    for i in range(n):
        for c in range(d):
            total[0, c] += points[group[i], c]
    for c in range(d):
        means[0, c] = np.rint(total[0, c] / n)
    for step in range(5):
        if step < 2:
            # Means to start from: the least like the mean of all, and the least like that one.
            worst = 0
            worst_score = np.int32(2147483647)
            for i in range(n):
                s = np.int32(0)
                for c in range(d):
                    s += np.int32(points[group[i], c]) * np.int32(means[0, c])
                if s < worst_score:
                    worst_score = s
                    worst = i
            for c in range(d):
                if step == 1:
                    means[1, c] = points[group[worst], c]
                else:
                    means[0, c] = points[group[worst], c]
            continue
        total[:] = 0
        members = np.zeros(2, np.int64)
        for i in range(n):
            s = np.int32(0)
            for c in range(d):
                s += np.int32(points[group[i], c]) * (np.int32(means[0, c]) - np.int32(means[1, c]))
            side[i] = s
            k = 0 if s >= 0 else 1
            members[k] += 1
            for c in range(d):
                total[k, c] += points[group[i], c]
        for k in range(2):
            if members[k]:
                for c in range(d):
                    means[k, c] = np.rint(total[k, c] / members[k])

"""Rows that are filled: the order of their documents, their near-duplicates and relevance."""

# Kernels have no annotations.
# mypy: disable-error-code="no-untyped-call"

import numpy as np

from packing.sculpt_state import dot
from packing.spherical import UNIT
from transforms.kernel import kernel

_HEAD = 16
"""Dimensions of most variance, which tell most documents apart."""


@kernel
def arrange(points, begin, member, look):  # type: ignore[no-untyped-def]
    """Order the documents of each row: from the first one always to the most similar of the rest.

    Args:
        points: projected vectors, int16[n, d].
        begin: documents of each row: ``member[begin[r]:begin[r + 1]]``, int64[rows + 1].
        member: documents by row, int64[m]; reordered in place.
        look: how many of the rest are looked at, those that come first.
    """
    for r in range(len(begin) - 1):
        for at in range(begin[r] + 1, begin[r + 1] - 1):
            here = points[member[at - 1]]
            best = at
            best_score = dot(points[member[at]], here)
            for k in range(at + 1, min(begin[r + 1], at + look)):
                score = dot(points[member[k]], here)
                if score > best_score:
                    best_score = score
                    best = k
            chosen = member[best]
            # The rest keep their order.
            for k in range(best, at, -1):
                member[k] = member[k - 1]
            member[at] = chosen


@kernel
def near_labels(points, full, threshold, label):  # type: ignore[no-untyped-def]
    """Label documents that are near-duplicates of an earlier one.

    A document joins the first leader with a cosine of more than the threshold, in the projection
    and then in full; else it is a leader itself.

    Args:
        points: projected vectors, int16[n, d].
        full: the vectors themselves, int16[n, width].
        threshold: cosine.
        label: receives the number of the leader where there are several documents, else -1.
    """
    n, d = points.shape
    leader = np.empty(n, np.int64)
    head = min(d, _HEAD)
    tail = np.empty(n)
    norm = np.empty(n)
    members = np.zeros(n, np.int64)
    leaders = 0
    for i in range(n):
        label[i] = -1
        own = float(dot(points[i], points[i]))
        mine = np.sqrt(float(dot(points[i, head:], points[i, head:])))
        for k in range(leaders):
            j = leader[k]
            # What the other dimensions could add is bounded by the lengths in them.
            most = float(dot(points[i, :head], points[j, :head])) + mine * tail[k] + 1.0
            if most <= 0.0 or most * most <= threshold * threshold * own * norm[k]:
                continue
            s = float(dot(points[i], points[j]))
            if s > 0.0 and s * s > threshold * threshold * own * norm[k]:
                s = float(dot(full[i], full[j]))
                a = float(dot(full[i], full[i]))
                b = float(dot(full[j], full[j]))
                if s > 0.0 and s * s > threshold * threshold * a * b:
                    label[i] = k
                    break
        if label[i] < 0:
            leader[leaders] = i
            norm[leaders] = own
            tail[leaders] = mine
            label[i] = leaders
            leaders += 1
        members[label[i]] += 1
    used = 0
    for k in range(leaders):
        if members[k] > 1:
            members[k] = used
            used += 1
        else:
            members[k] = -1
    for i in range(n):
        label[i] = members[label[i]]
    return used


@kernel
def row_relevance(points, begin, member, relevance):  # type: ignore[no-untyped-def]
    """Compute the mean cosine of the pairs of documents of each row; 0 for a single document.

    Args:
        points: vectors, int16[n, d].
        begin: documents of each row: ``member[begin[r]:begin[r + 1]]``, int64[rows + 1].
        member: documents by row, int64[m].
        relevance: receives the mean, float64[rows].
    """
    total = np.empty(points.shape[1], np.int64)
    for r in range(len(begin) - 1):
        n = begin[r + 1] - begin[r]
        relevance[r] = 0.0
        if n < 2:
            continue
        total[:] = 0
        own = 0.0
        for at in range(begin[r], begin[r + 1]):
            i = member[at]
            squares = np.int64(0)
            for c in range(len(total)):
                total[c] += points[i, c]
                squares += np.int64(points[i, c]) * np.int64(points[i, c])
            own += float(squares)
        s = 0.0
        for c in range(len(total)):
            s += float(total[c]) * float(total[c])
        relevance[r] = (s - own) / (float(n) * (n - 1.0) * UNIT * UNIT)

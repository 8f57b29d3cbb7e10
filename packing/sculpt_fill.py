"""Filling rows with documents that belong together: kernels over one group of documents.

A group is some hundred to some thousand documents with projected vectors (integers, see
:mod:`packing.spherical`), enough for several rows. Relevance of a row with n documents is the sum
over its documents of the mean dot product with the other n - 1: (S.S - sum of e.e) / (n - 1)
with S the sum of the vectors. All sums are integers; what is compared is the same everywhere.
"""

# Kernels have no annotations.
# mypy: disable-error-code="no-untyped-call"

import numpy as np

from packing.sculpt_state import carry, dot, dot_sum, label_table, members, renew
from packing.spherical import UNIT
from transforms.kernel import inlined_kernel, kernel

_PARTNERS = 16
_NEVER = -1e300


@kernel
def place(  # type: ignore[no-untyped-def]
    points, length, rows, seq_len, max_docs, label, most, weights, product, row
):
    """Put documents into rows one by one, each into the row with the best score.

    The score is ``weights[0] * cos(mean of the row, document) + weights[1] * room / seq_len -
    weights[2] * documents of the row / documents per row``; with ``product``, cosine times room
    (DataSculpt's). An empty row counts as a cosine of 0.5 (1 with ``product``). Only rows that have
    the room are looked at, the first of equals is taken.

    Args:
        points: projected vectors, int16[n, d].
        length: tokens, int32[n], descending.
        rows: how many rows there are.
        seq_len: room of an empty row.
        max_docs: documents at which a row closes.
        label: group of near-duplicates of each document, int32[n]; -1 for none.
        most: documents of one label in a row.
        weights: relevance, residual, count, float64[3].
        product: whether the score is the product.
        row: receives the row of each document, int32[n], or `OPEN`.
    """
    n, d = points.shape
    total = np.zeros((rows, d), np.int64)
    mean = np.zeros((rows, d), np.int16)
    size = np.zeros(rows)
    room = np.full(rows, seq_len, np.int64)
    count = np.zeros(rows, np.int64)
    alike = label_table(label, rows)
    per_row = max(1.0, n / rows)
    for i in range(n):
        own = np.sqrt(float(dot(points[i], points[i])))
        best = -1
        best_score = _NEVER
        for b in range(rows):
            if room[b] < length[i] or count[b] >= max_docs:
                continue
            if label[i] >= 0 and alike[label[i], b] >= most:
                continue
            cosine = 1.0 if product else 0.5
            if count[b]:
                scale = own * size[b]
                cosine = float(dot(mean[b], points[i])) / scale if scale > 0.0 else 0.0
            if product:
                score = cosine * room[b]
            else:
                score = (
                    weights[0] * cosine
                    + weights[1] * room[b] / seq_len
                    - weights[2] * count[b] / per_row
                )
            if score > best_score:
                best_score = score
                best = b
        row[i] = best
        if best >= 0:
            room[best] -= length[i]
            count[best] += 1
            if label[i] >= 0:
                alike[label[i], best] += 1
            squares = np.int64(0)
            for c in range(d):
                total[best, c] += points[i, c]
                m = np.rint(total[best, c] / count[best])
                mean[best, c] = m
                squares += np.int64(m) * np.int64(m)
            size[best] = np.sqrt(float(squares))


@inlined_kernel
def _worth(squares, own, count, penalty):  # type: ignore[no-untyped-def]
    """Relevance of a row, less the penalty on its documents."""
    relevance = (squares - own) / (count - 1.0) if count > 1 else 0.0
    return relevance - penalty * count * count


@kernel
def refine(  # type: ignore[no-untyped-def]  # noqa: C901
    points, length, rows, seq_len, max_docs, label, most, penalty, passes, row
):
    """Move and swap documents between rows while that makes the rows worth more.

    A document goes to the row whose mean is most like it, alone where there is room, else against
    a document of that row of fitting length. Worth: `_worth`, summed over the rows.

    Args:
        points: projected vectors, int16[n, d].
        length: tokens, int32[n], descending.
        rows: how many rows there are.
        seq_len: room of an empty row.
        max_docs: documents at which a row closes.
        label: group of near-duplicates of each document, int32[n]; -1 for none.
        most: documents of one label in a row.
        penalty: what the square of a row's documents costs, in units of ``UNIT ** 2``.
        passes: rounds over all documents.
        row: row of each document or `OPEN`, int32[n]; changed in place.

    Returns:
        The number of changes.
    """
    n, d = points.shape
    cost = penalty * UNIT * UNIT
    total = np.zeros((rows, d), np.int64)
    mean = np.zeros((rows, d), np.int16)
    room = np.full(rows, seq_len, np.int64)
    count = np.zeros(rows, np.int64)
    squares = np.zeros(rows)
    own = np.zeros(rows)
    norm = np.zeros(n)
    alike = label_table(label, rows)
    for i in range(n):
        norm[i] = dot(points[i], points[i])
        b = row[i]
        if b >= 0:
            room[b] -= length[i]
            count[b] += 1
            own[b] += norm[i]
            if label[i] >= 0:
                alike[label[i], b] += 1
            for c in range(d):
                total[b, c] += points[i, c]
    for b in range(rows):
        renew(total, mean, squares, count, b)
    begin = np.zeros(rows + 1, np.int64)
    member = np.empty(n, np.int32)
    changes = 0
    for _ in range(passes):
        members(row, rows, begin, member)
        before = changes
        for i in range(n):
            a = row[i]
            if a < 0 or count[a] == 0:
                continue
            here = (dot_sum(total[a], points[i]) - norm[i]) / max(1.0, count[a] - 1.0)
            best = -1
            best_score = here
            for b in range(rows):
                if b != a and count[b]:
                    score = float(dot(mean[b], points[i]))
                    if score > best_score:
                        best_score = score
                        best = b
            if best < 0:
                continue
            b = best
            to_b = float(dot_sum(total[b], points[i]))
            from_a = float(dot_sum(total[a], points[i]))
            old = _worth(squares[a], own[a], count[a], cost) + _worth(
                squares[b], own[b], count[b], cost
            )
            gain = 0.0
            partner = -1
            fits = room[b] >= length[i] and count[b] < max_docs
            if fits and (label[i] < 0 or alike[label[i], b] < most):
                new = _worth(
                    squares[a] - 2.0 * from_a + norm[i], own[a] - norm[i], count[a] - 1, cost
                ) + _worth(squares[b] + 2.0 * to_b + norm[i], own[b] + norm[i], count[b] + 1, cost)
                gain = new - old
            else:
                # Members lie longest first: those between the two limits could change places.
                longest = length[i] + room[a]
                low = begin[b]
                high = begin[b + 1]
                while low < high:
                    middle = (low + high) >> 1
                    if length[member[middle]] > longest:
                        low = middle + 1
                    else:
                        high = middle
                for at in range(low, min(begin[b + 1], low + _PARTNERS)):
                    j = member[at]
                    if room[b] + length[j] < length[i]:
                        break
                    if row[j] != b or length[j] > longest:
                        continue
                    if label[i] >= 0 and label[i] != label[j] and alike[label[i], b] >= most:
                        continue
                    if label[j] >= 0 and label[i] != label[j] and alike[label[j], a] >= most:
                        continue
                    both = norm[i] + norm[j] - 2.0 * dot(points[i], points[j])
                    j_a = float(dot_sum(total[a], points[j]))
                    j_b = float(dot_sum(total[b], points[j]))
                    new = _worth(
                        squares[a] + 2.0 * (j_a - from_a) + both,
                        own[a] + norm[j] - norm[i],
                        count[a],
                        cost,
                    ) + _worth(
                        squares[b] + 2.0 * (to_b - j_b) + both,
                        own[b] + norm[i] - norm[j],
                        count[b],
                        cost,
                    )
                    if new - old > gain:
                        gain = new - old
                        partner = j
            if gain <= 1e-9 * abs(old):
                continue
            changes += 1
            carry(points, length, norm, label, i, a, b, total, room, count, own, alike, row)
            if partner >= 0:
                carry(
                    points, length, norm, label, partner, b, a, total, room, count, own, alike, row
                )
            renew(total, mean, squares, count, a)
            renew(total, mean, squares, count, b)
        if changes == before:
            break
    return changes

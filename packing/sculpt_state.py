"""What the kernels of `sculpt` share: dot products, and what is kept of each row."""

# Kernels have no annotations.
# mypy: disable-error-code="no-untyped-call"

import numpy as np

from transforms.kernel import inlined_kernel, kernel

OPEN = -1
"""Row of a document that is in none."""
SPARE = -2
"""Row of a document that is in none because its cluster has too many short ones."""


@inlined_kernel
def dot(a, b):  # type: ignore[no-untyped-def]
    """Dot product of two rounded vectors; below 2**23 by their lengths."""
    s = np.int32(0)
    for c in range(len(a)):
        s += np.int32(a[c]) * np.int32(b[c])
    return s


@inlined_kernel
def dot_sum(total, b):  # type: ignore[no-untyped-def]
    """Dot product of a sum of vectors (whole numbers in float64, exact) and a vector."""
    s = np.int64(0)
    for c in range(len(total)):
        s += np.int64(total[c]) * np.int64(b[c])
    return s


@kernel
def label_table(label, rows):  # type: ignore[no-untyped-def]
    """Return documents of each label in each row, all 0."""
    labels = 0
    for x in label:
        labels = max(labels, x + 1)
    return np.zeros((labels, rows), np.int32)


@kernel
def carry(  # type: ignore[no-untyped-def]
    points, length, norm, label, i, a, b, total, room, count, own, alike, row
):
    """Take a document out of row a (where it is not `OPEN`) and put it into row b (likewise)."""
    if a >= 0:
        room[a] += length[i]
        count[a] -= 1
        own[a] -= norm[i]
        if label[i] >= 0:
            alike[label[i], a] -= 1
        for c in range(points.shape[1]):
            total[a, c] -= points[i, c]
    if b >= 0:
        room[b] -= length[i]
        count[b] += 1
        own[b] += norm[i]
        if label[i] >= 0:
            alike[label[i], b] += 1
        for c in range(points.shape[1]):
            total[b, c] += points[i, c]
    row[i] = b


@kernel
def renew(total, mean, squares, count, b):  # type: ignore[no-untyped-def]
    """Compute the mean and the square of a row anew."""
    s = 0.0
    for c in range(total.shape[1]):
        s += float(total[b, c]) * float(total[b, c])
        mean[b, c] = np.rint(total[b, c] / max(1, count[b]))
    squares[b] = s


@kernel
def members(row, rows, begin, member):  # type: ignore[no-untyped-def]
    """List the documents of each row in their order."""
    begin[:] = 0
    for r in row:
        if r >= 0:
            begin[r + 1] += 1
    for b in range(rows):
        begin[b + 1] += begin[b]
    cursor = begin[:-1].copy()
    for i in range(len(row)):
        if row[i] >= 0:
            member[cursor[row[i]]] = i
            cursor[row[i]] += 1

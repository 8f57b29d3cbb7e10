"""Documents whose tokens fill the room of a row exactly, the most similar ones first."""

# Kernels have no annotations.
# mypy: disable-error-code="no-untyped-call"

import numpy as np

from packing.sculpt_state import OPEN, carry, dot_sum
from transforms.kernel import inlined_kernel, kernel

_PAIRS = 160
_MEMBERS = 64
_LOOKS = 4
_NEVER = -1e300


@kernel
def row_documents(row, begin, member, b, spare):  # type: ignore[no-untyped-def]
    """List the members of a row that are still in it; return how many."""
    k = 0
    for at in range(begin[b], begin[b + 1]):
        if row[member[at]] == b:
            spare[k] = member[at]
            k += 1
    return k


@kernel
def empty(  # type: ignore[no-untyped-def]
    points, length, norm, label, begin, member, b, total, room, count, own, alike, row
):
    """Take out all documents of a row that was not filled further."""
    for at in range(begin[b], begin[b + 1]):
        i = member[at]
        if row[i] == b:
            carry(points, length, norm, label, i, b, OPEN, total, room, count, own, alike, row)


@kernel
def empty_all(  # type: ignore[no-untyped-def]
    points, length, norm, label, spare, b, total, room, count, own, alike, row
):
    """Take out all documents of a row that `fill` worked on; ``spare`` lists them."""
    k = 0
    while count[b]:
        i = spare[k]
        k += 1
        if row[i] == b:
            carry(points, length, norm, label, i, b, OPEN, total, room, count, own, alike, row)


@inlined_kernel
def _first(tokens, at_least):  # type: ignore[no-untyped-def]
    """Return the first place whose document has so many tokens."""
    low = 0
    high = len(tokens)
    while low < high:
        middle = (low + high) >> 1
        if tokens[middle] < at_least:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _single(row, label, alike, most, b, pool, tokens, sim, least, shortest, longest, limit):  # type: ignore[no-untyped-def]
    """Return the most similar of the pool with a length between two; -1 where there is none."""
    best = -1
    looked = 0
    for k in range(_first(tokens, shortest), len(pool)):
        if tokens[k] > longest or looked >= limit:
            break
        i = pool[k]
        if row[i] != OPEN or sim[k] < least:
            continue
        if label[i] < 0 or alike[label[i], b] < most:
            looked += 1
            if best < 0 or sim[k] > sim[best]:
                best = k
    return best


@kernel
def _pair(row, label, alike, most, b, pool, tokens, sim, least, shortest, longest):  # type: ignore[no-untyped-def]
    """Return two of the pool, the most similar found whose lengths add up; -1 for none."""
    best = _NEVER
    one = -1
    two = -1
    high = _first(tokens, longest)
    step = max(1, high // _PAIRS)
    for k in range(0, high, step):
        i = pool[k]
        if row[i] != OPEN or sim[k] < least or (label[i] >= 0 and alike[label[i], b] >= most):
            continue
        looked = 0
        for other in range(_first(tokens, shortest - tokens[k]), high):
            if tokens[other] + tokens[k] > longest or looked >= _LOOKS:
                break
            j = pool[other]
            if row[j] != OPEN or other == k or (label[j] >= 0 and label[j] == label[i]):
                continue
            if sim[other] < least:
                continue
            looked += 1
            free = label[j] < 0 or alike[label[j], b] < most
            if free and sim[k] + sim[other] > best:
                best = sim[k] + sim[other]
                one = k
                two = other
    return one, two


@kernel
def _longer(row, label, alike, most, b, pool, tokens, length, spare, inside, gap):  # type: ignore[no-untyped-def]
    """Return a longer document of the pool for one of the row that leaves the least room."""
    gained = 0
    one = -1
    out = -1
    for at in range(min(inside, _MEMBERS)):
        gone = spare[at]
        if row[gone] != b:
            continue
        last = _first(tokens, gap + length[gone] + 1) - 1
        for k in range(last, max(-1, last - 8), -1):
            j = pool[k]
            if tokens[k] <= length[gone] + gained:
                break
            if row[j] == OPEN and (label[j] < 0 or alike[label[j], b] < most):
                gained = tokens[k] - length[gone]
                one = k
                out = gone
                break
    return one, out


@kernel
def _exact(  # type: ignore[no-untyped-def]  # noqa: C901
    points,
    length,
    norm,
    label,
    most,
    max_docs,
    slack,
    pool,
    tokens,
    sim,
    least,
    spare,
    inside,
    b,
    total,
    room,
    count,
    own,
    alike,
    row,
):
    """Return what fills a row at once, most similar: one or two of the pool, for one that goes."""
    gap = room[b]
    squares = 0.0
    for c in range(points.shape[1]):
        squares += float(total[b, c]) * float(total[b, c])
    # How like the row its documents are; one that is added should reach this.
    mean = (squares - own[b]) / (count[b] * max(1.0, count[b] - 1.0))
    best = _NEVER
    one = -1
    two = -1
    out = -1
    if count[b] < max_docs:
        one = _single(row, label, alike, most, b, pool, tokens, sim, least, gap - slack, gap, 64)
        if one >= 0:
            best = sim[one] - mean
    if count[b] + 1 < max_docs:
        k, other = _pair(row, label, alike, most, b, pool, tokens, sim, least, gap - slack, gap)
        if k >= 0 and sim[k] + sim[other] - 2.0 * mean > best:
            best = sim[k] + sim[other] - 2.0 * mean
            one = k
            two = other
    for at in range(min(inside, _MEMBERS)):
        gone = spare[at]
        if row[gone] != b:
            continue
        mine = (dot_sum(total[b], points[gone]) - norm[gone]) / max(1.0, count[b] - 1.0)
        want = gap + length[gone]
        k = _single(
            row, label, alike, most, b, pool, tokens, sim, least, want - slack, want, _LOOKS
        )
        if k >= 0 and sim[k] - mine > best:
            best = sim[k] - mine
            one = k
            two = -1
            out = gone
    if one < 0 and count[b] < max_docs and _first(tokens, gap + 1) < 4 * _PAIRS:
        for at in range(min(inside, 12)):
            gone = spare[at]
            if row[gone] != b:
                continue
            mine = (dot_sum(total[b], points[gone]) - norm[gone]) / max(1.0, count[b] - 1.0)
            want = gap + length[gone]
            k, other = _pair(
                row, label, alike, most, b, pool, tokens, sim, least, want - slack, want
            )
            if k >= 0 and sim[k] + sim[other] - mine - mean > best:
                best = sim[k] + sim[other] - mine - mean
                one = k
                two = other
                out = gone
    return one, two, out


@kernel
def fill(  # type: ignore[no-untyped-def]
    points,
    length,
    norm,
    label,
    most,
    max_docs,
    slack,
    pool,
    tokens,
    place_of,
    sim,
    least,
    spare,
    inside,
    b,
    total,
    room,
    count,
    own,
    alike,
    row,
):
    """Bring one row to within ``slack``; where that is not found, empty it and return False."""
    n = len(pool)
    fresh = np.int64(0)
    swaps = 0
    while room[b] > slack and inside + 4 <= len(spare):
        if count[b] >= 2 * fresh or n <= 1024:
            for k in range(n):
                if row[pool[k]] == OPEN:
                    sim[k] = dot_sum(total[b], points[pool[k]]) / count[b]
            fresh = count[b]
        one, two, out = _exact(
            points,
            length,
            norm,
            label,
            most,
            max_docs,
            slack,
            pool,
            tokens,
            sim,
            least,
            spare,
            inside,
            b,
            total,
            room,
            count,
            own,
            alike,
            row,
        )
        if one < 0 and count[b] < max_docs:
            # Nothing fills the row: the most similar that fits.
            one = _single(row, label, alike, most, b, pool, tokens, sim, least, 1, room[b], n)
        if one < 0 and swaps < 6:
            swaps += 1
            one, out = _longer(
                row, label, alike, most, b, pool, tokens, length, spare, inside, room[b]
            )
        if one < 0:
            break
        if out >= 0:
            carry(points, length, norm, label, out, b, OPEN, total, room, count, own, alike, row)
            sim[place_of[out]] = 0.0
        for k in (one, two):
            if k >= 0:
                i = pool[k]
                carry(points, length, norm, label, i, OPEN, b, total, room, count, own, alike, row)
                spare[inside] = i
                inside += 1
    if room[b] <= slack:
        return True
    empty_all(points, length, norm, label, spare, b, total, room, count, own, alike, row)
    return False

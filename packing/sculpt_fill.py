"""Filling rows with documents that belong together: kernels over one group of documents.

A group is some hundred to some thousand documents with projected vectors (integers, see
:mod:`packing.spherical`), enough for several rows. Relevance of a row with n documents is the sum
over its documents of the mean dot product with the other n - 1: (S.S - sum of e.e) / (n - 1)
with S the sum of the vectors. All sums are integers; what is compared is the same everywhere.
"""

# Kernels have no annotations.
# mypy: disable-error-code="no-untyped-call"

import numpy as np

from packing.spherical import UNIT
from transforms.kernel import inlined_kernel, kernel

OPEN = -1
"""Row of a document that is in none."""

_PARTNERS = 16
_PAIRS = 160
_MEMBERS = 64
_LOOKS = 4
_NEVER = -1e300


@inlined_kernel
def _dot(a, b):  # type: ignore[no-untyped-def]
    """Dot product of two rounded vectors; below 2**23 by their lengths."""
    s = np.int32(0)
    for c in range(len(a)):
        s += np.int32(a[c]) * np.int32(b[c])
    return s


@inlined_kernel
def _dot_sum(total, b):  # type: ignore[no-untyped-def]
    """Dot product of a sum of vectors (whole numbers in float64, exact) and a vector."""
    s = np.int64(0)
    for c in range(len(total)):
        s += np.int64(total[c]) * np.int64(b[c])
    return s


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
    alike = _label_table(label, rows)
    per_row = max(1.0, n / rows)
    for i in range(n):
        own = np.sqrt(float(_dot(points[i], points[i])))
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
                cosine = float(_dot(mean[b], points[i])) / scale if scale > 0.0 else 0.0
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


@kernel
def _label_table(label, rows):  # type: ignore[no-untyped-def]
    """Return documents of each label in each row, all 0."""
    labels = 0
    for x in label:
        labels = max(labels, x + 1)
    return np.zeros((labels, rows), np.int32)


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
    alike = _label_table(label, rows)
    for i in range(n):
        norm[i] = _dot(points[i], points[i])
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
        _renew(total, mean, squares, count, b)
    begin = np.zeros(rows + 1, np.int64)
    member = np.empty(n, np.int32)
    changes = 0
    for _ in range(passes):
        _members(row, rows, begin, member)
        before = changes
        for i in range(n):
            a = row[i]
            if a < 0 or count[a] == 0:
                continue
            here = (_dot_sum(total[a], points[i]) - norm[i]) / max(1.0, count[a] - 1.0)
            best = -1
            best_score = here
            for b in range(rows):
                if b != a and count[b]:
                    score = float(_dot(mean[b], points[i]))
                    if score > best_score:
                        best_score = score
                        best = b
            if best < 0:
                continue
            b = best
            to_b = float(_dot_sum(total[b], points[i]))
            from_a = float(_dot_sum(total[a], points[i]))
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
                    both = norm[i] + norm[j] - 2.0 * _dot(points[i], points[j])
                    j_a = float(_dot_sum(total[a], points[j]))
                    j_b = float(_dot_sum(total[b], points[j]))
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
            _carry(points, length, norm, label, i, a, b, total, room, count, own, alike, row)
            if partner >= 0:
                _carry(
                    points, length, norm, label, partner, b, a, total, room, count, own, alike, row
                )
            _renew(total, mean, squares, count, a)
            _renew(total, mean, squares, count, b)
        if changes == before:
            break
    return changes


@kernel
def _carry(  # type: ignore[no-untyped-def]
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
def _renew(total, mean, squares, count, b):  # type: ignore[no-untyped-def]
    """Compute the mean and the square of a row anew."""
    s = 0.0
    for c in range(total.shape[1]):
        s += float(total[b, c]) * float(total[b, c])
        mean[b, c] = np.rint(total[b, c] / max(1, count[b]))
    squares[b] = s


@kernel
def _members(row, rows, begin, member):  # type: ignore[no-untyped-def]
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


@kernel
def tighten(  # type: ignore[no-untyped-def]  # noqa: C901
    points, length, rows, seq_len, max_docs, label, most, slack, alike_enough, row
):
    """Fill rows to within ``slack`` tokens, and open the others.

    The rows worth least are opened until the documents in no row (the pool) could fill the rest,
    and one row more. Each of the others, the least worthy first, then takes documents of the pool,
    or gives some for them, so that it is full: those most like it of all that bring it there. A
    row that cannot be filled goes into the pool itself. At last new rows are begun with the longest
    of the pool, as long as they get full.

    Args:
        points: projected vectors, int16[n, d].
        length: tokens, int32[n], descending.
        rows: how many rows there are.
        seq_len: room of an empty row.
        max_docs: documents at which a row closes.
        label: group of near-duplicates of each document, int32[n]; -1 for none.
        most: documents of one label in a row.
        slack: tokens that a full row may lack.
        alike_enough: how like a row a document must be to be put into it, as a share of how alike
            the documents of the rows are on average; negative for any.
        row: row of each document or `OPEN`, int32[n]; changed in place. Rows are not renumbered.
    """
    n, d = points.shape
    total = np.zeros((rows, d), np.int64)
    room = np.full(rows, seq_len, np.int64)
    count = np.zeros(rows, np.int64)
    own = np.zeros(rows)
    norm = np.zeros(n)
    alike = _label_table(label, rows)
    pooled = np.int64(0)
    for i in range(n):
        norm[i] = _dot(points[i], points[i])
        b = row[i]
        if b < 0:
            pooled += length[i]
            continue
        row[i] = OPEN
        _carry(points, length, norm, label, i, OPEN, b, total, room, count, own, alike, row)
    # Longest last, so that places grow with lengths.
    pool = np.arange(n - 1, -1, -1).astype(np.int32)
    tokens = length[pool]
    place_of = (n - 1 - np.arange(n)).astype(np.int32)
    sim = np.zeros(n)
    begin = np.zeros(rows + 1, np.int64)
    member = np.empty(n, np.int32)
    _members(row, rows, begin, member)
    worth = np.empty(rows)
    for b in range(rows):
        s = 0.0
        for c in range(d):
            s += float(total[b, c]) * float(total[b, c])
        pairs = count[b] * (count[b] - 1.0)
        worth[b] = (s - own[b]) / pairs if pairs > 0 else 0.0
    order = np.argsort(worth, kind="mergesort")
    shared = 0
    average = 0.0
    for b in range(rows):
        if count[b] > 1:
            shared += 1
            average += worth[b]
    least = _NEVER
    if alike_enough >= 0.0 and shared:
        least = alike_enough * average / shared
    gaps = np.int64(0)
    for b in range(rows):
        gaps += room[b] if count[b] else 0
    for at in range(rows):
        b = order[at]
        if pooled >= gaps + seq_len or not count[b]:
            continue
        gaps -= room[b]
        pooled += seq_len - room[b]
        _empty(points, length, norm, label, begin, member, b, total, room, count, own, alike, row)
    spare = np.empty(2 * n + 16, np.int32)
    for at in range(rows):
        b = order[at]
        if count[b] and room[b] > slack:
            inside = _inside(row, begin, member, b, spare)
            if not _fill(
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
                _empty_all(
                    points, length, norm, label, spare, b, total, room, count, own, alike, row
                )
    failures = 0
    longest = 0
    for at in range(rows):
        b = order[at]
        if count[b]:
            continue
        while longest < n and row[longest] >= 0:
            longest += 1
        seed = longest + failures
        while seed < n and row[seed] >= 0:
            seed += 1
        if seed >= n or failures > 64:
            break
        _carry(points, length, norm, label, seed, OPEN, b, total, room, count, own, alike, row)
        spare[0] = seed
        if room[b] > slack and not _fill(
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
            1,
            b,
            total,
            room,
            count,
            own,
            alike,
            row,
        ):
            failures += 1
            _empty_all(points, length, norm, label, spare, b, total, room, count, own, alike, row)


@kernel
def _inside(row, begin, member, b, spare):  # type: ignore[no-untyped-def]
    """List the members of a row that are still in it; return how many."""
    k = 0
    for at in range(begin[b], begin[b + 1]):
        if row[member[at]] == b:
            spare[k] = member[at]
            k += 1
    return k


@kernel
def _empty(  # type: ignore[no-untyped-def]
    points, length, norm, label, begin, member, b, total, room, count, own, alike, row
):
    """Take out all documents of a row that was not filled further."""
    for at in range(begin[b], begin[b + 1]):
        i = member[at]
        if row[i] == b:
            _carry(points, length, norm, label, i, b, OPEN, total, room, count, own, alike, row)


@kernel
def _empty_all(  # type: ignore[no-untyped-def]
    points, length, norm, label, spare, b, total, room, count, own, alike, row
):
    """Take out all documents of a row that `_fill` worked on; ``spare`` lists them."""
    k = 0
    while count[b]:
        i = spare[k]
        k += 1
        if row[i] == b:
            _carry(points, length, norm, label, i, b, OPEN, total, room, count, own, alike, row)


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
        mine = (_dot_sum(total[b], points[gone]) - norm[gone]) / max(1.0, count[b] - 1.0)
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
            mine = (_dot_sum(total[b], points[gone]) - norm[gone]) / max(1.0, count[b] - 1.0)
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
def _fill(  # type: ignore[no-untyped-def]
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
    """Bring one row to within ``slack``; False where that was not found. ``spare`` grows."""
    n = len(pool)
    fresh = np.int64(0)
    swaps = 0
    while room[b] > slack:
        if count[b] >= 2 * fresh or n <= 1024:
            for k in range(n):
                if row[pool[k]] == OPEN:
                    sim[k] = _dot_sum(total[b], points[pool[k]]) / count[b]
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
            return False
        if out >= 0:
            _carry(points, length, norm, label, out, b, OPEN, total, room, count, own, alike, row)
            sim[place_of[out]] = 0.0
        for k in (one, two):
            if k >= 0:
                i = pool[k]
                _carry(points, length, norm, label, i, OPEN, b, total, room, count, own, alike, row)
                spare[inside] = i
                inside += 1
        if inside + 4 > len(spare):
            return room[b] <= slack
    return True


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
            best_score = _dot(points[member[at]], here)
            for k in range(at + 1, min(begin[r + 1], at + look)):
                score = _dot(points[member[k]], here)
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
    n = len(points)
    leader = np.empty(n, np.int64)
    norm = np.empty(n)
    members = np.zeros(n, np.int64)
    leaders = 0
    for i in range(n):
        label[i] = -1
        own = float(_dot(points[i], points[i]))
        for k in range(leaders):
            j = leader[k]
            s = float(_dot(points[i], points[j]))
            if s > 0.0 and s * s > threshold * threshold * own * norm[k]:
                s = float(_dot(full[i], full[j]))
                a = float(_dot(full[i], full[i]))
                b = float(_dot(full[j], full[j]))
                if s > 0.0 and s * s > threshold * threshold * a * b:
                    label[i] = k
                    break
        if label[i] < 0:
            leader[leaders] = i
            norm[leaders] = own
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

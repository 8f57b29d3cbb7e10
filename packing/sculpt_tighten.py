"""Emptying rows that are not full, and filling those that stay to the last token."""

# Kernels have no annotations.
# mypy: disable-error-code="no-untyped-call"

import numpy as np

from packing.sculpt_exact import empty, fill, row_documents
from packing.sculpt_state import OPEN, carry, dot, label_table, members
from transforms.kernel import kernel

_NEVER = -1e300


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
    alike = label_table(label, rows)
    pooled = np.int64(0)
    for i in range(n):
        norm[i] = dot(points[i], points[i])
        b = row[i]
        if b < 0:
            pooled += length[i]
            continue
        row[i] = OPEN
        carry(points, length, norm, label, i, OPEN, b, total, room, count, own, alike, row)
    # Longest last, so that places grow with lengths.
    pool = np.arange(n - 1, -1, -1).astype(np.int32)
    tokens = length[pool]
    place_of = (n - 1 - np.arange(n)).astype(np.int32)
    sim = np.zeros(n)
    begin = np.zeros(rows + 1, np.int64)
    member = np.empty(n, np.int32)
    members(row, rows, begin, member)
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
        empty(points, length, norm, label, begin, member, b, total, room, count, own, alike, row)
    spare = np.empty(2 * n + 16, np.int32)
    for at in range(rows):
        b = order[at]
        if count[b] and room[b] > slack:
            inside = row_documents(row, begin, member, b, spare)
            fill(
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
        carry(points, length, norm, label, seed, OPEN, b, total, room, count, own, alike, row)
        spare[0] = seed
        if room[b] > slack and not fill(
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

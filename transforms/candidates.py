"""Candidate pairs: documents that agree in a band of their signatures."""

from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

_MOST_PAIRS = 1 << 20
"""Pairs of one bucket, but for buckets so large that a few leaders take more."""
_LEAST_LEADERS = 16

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Distinct pairs of documents; the first of each is the earlier one in keep order."""

    first: Int64s
    """Addresses, shape [pairs]."""
    second: Int64s
    """Addresses, shape [pairs]."""
    skipped: int = 0
    """Pairs of large buckets that were left out, counted once per bucket."""


def leaders(members: int) -> int:
    """Return with how many of its first members, in keep order, each one of a bucket is paired.

    With all of them in buckets of up to 1,024; then fewer, so that a bucket makes a million pairs,
    but at least 16.
    """
    return min(members, max(_LEAST_LEADERS, _MOST_PAIRS // max(members, 1)))


def bucket_pairs(
    keys: Int64s,
    uids: Int64s,
    ranks: Int64s,
    sizes: npt.NDArray[np.int32],
    threshold: float,
) -> Pairs:
    """Return the pairs of documents that share a band key and may reach the threshold.

    Pairs whose sizes alone rule it out (the smaller set over the larger one bounds Jaccard) are left
    out. The result depends on the rows alone, not on their order.

    Args:
        keys: band keys, shape [rows].
        uids: document of each key, likewise. Those below zero are certain to stay: they come before
            all others in the keep order and are not paired with each other.
        ranks: the document's place in the keep order, ties broken by ``uids``; likewise.
        sizes: number of its distinct shingles, likewise.
        threshold: Jaccard similarity asked for.

    Returns:
        The pairs, sorted by the keep order of the first, then of the second document.
    """
    starts, chosen = _shared(keys)
    documents = distinct(uids[chosen])
    rows = np.empty(len(documents), np.int64)
    rows[np.searchsorted(documents, uids[chosen])] = chosen
    order = np.lexsort((documents, ranks[rows]))
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    # One sort of integers: bucket in the upper half, place in keep order in the lower half.
    bucket = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    members = number[np.searchsorted(documents, uids[chosen])]
    members = np.sort(bucket << 32 | members) & 0xFFFFFFFF
    documents = documents[order]
    staying = members < np.count_nonzero(documents < 0)
    certain = np.concatenate([[0], np.cumsum(staying)])
    certain = certain[starts[1:]] - certain[starts[:-1]]
    codes, skipped = _distinct(starts, members, certain, sizes[rows][order], threshold)
    return Pairs(documents[codes >> 32], documents[codes & 0xFFFFFFFF], skipped)


def _shared(keys: Int64s) -> tuple[Int64s, Int64s]:
    """Return where each bucket of two or more begins (and the last ends), and its rows."""
    order = np.argsort(keys)
    ordered = keys[order]
    equal = ordered[1:] == ordered[:-1]
    inside = np.zeros(len(keys), bool)
    inside[1:] |= equal
    inside[:-1] |= equal
    chosen, ordered = order[inside], ordered[inside]
    first = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    starts = np.concatenate([[0], first, [len(ordered)]]) if len(ordered) else np.zeros(1)
    return starts.astype(np.int64), chosen


def _distinct(
    starts: Int64s,
    members: Int64s,
    certain: Int64s,
    sizes: npt.NDArray[np.int32],
    threshold: float,
) -> tuple[Int64s, int]:
    """Return the distinct pairs as first << 32 | second, ascending, and the pairs skipped.

    The first ``certain`` members of each bucket are not paired with each other.
    Repeats are taken out whenever the buffer is full, which grows with the distinct pairs alone.
    """
    most = np.array([leaders(int(n)) for n in np.diff(starts)], np.int64)
    buffer = np.empty(1 << 18, np.int64)
    used, state = 0, np.zeros(3, np.int64)
    while state[0] < len(most):
        used = _fill(starts, members, certain, sizes, threshold, most, state, buffer, used)
        found = distinct(buffer[:used])
        used = len(found)
        if 2 * used > len(buffer):
            buffer = np.empty(4 * used, np.int64)
        buffer[:used] = found
    return buffer[:used].copy(), int(state[2])


def distinct(values: Int64s) -> Int64s:
    """Return the distinct values, ascending: ``np.unique``, several times as fast."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


@numba.njit(cache=True, nogil=True)
def _fill(
    starts: Int64s,
    members: Int64s,
    certain: Int64s,
    sizes: npt.NDArray[np.int32],
    threshold: float,
    most: Int64s,
    state: Int64s,
    out: Int64s,
    used: int,
) -> int:
    """Write pairs until all buckets are done or ``out`` has no room for one more member's.

    ``state`` holds the bucket and the member to go on with, and the pairs skipped so far.
    """
    while state[0] < len(most):
        bucket = state[0]
        start, end = starts[bucket], starts[bucket + 1]
        member = start + max(state[1], certain[bucket], 1)
        while member < end:
            until = min(member, start + most[bucket])
            if used + until - start > len(out):
                state[1] = member - start
                return used
            state[2] += member - until
            second = members[member]
            size = sizes[second]
            for place in range(start, until):
                first = members[place]
                if min(size, sizes[first]) / max(size, sizes[first]) >= threshold:
                    out[used] = first << 32 | second
                    used += 1
            member += 1
        state[0] += 1
        state[1] = 0
    return used


def chunks(first: Int64s, second: Int64s, sizes: Int64s, limit: int) -> list[tuple[int, int]]:
    """Cut a list of pairs so that the sets of each part's documents fit a bound.

    Args:
        first: number of the one document of each pair, shape [pairs].
        second: number of the other one, likewise.
        sizes: size of each document's set, shape [documents].
        limit: sum of sizes per part; only a part of one pair may exceed it.

    Returns:
        Ranges of pairs.
    """
    bounds = np.empty(len(first) + 1, np.int64)
    n = _cut(first, second, sizes, limit, bounds)
    return list(zip(bounds[: n - 1].tolist(), bounds[1:n].tolist(), strict=True))


@numba.njit(cache=True, nogil=True)
def _cut(first: Int64s, second: Int64s, sizes: Int64s, limit: int, bounds: Int64s) -> int:
    """Write where each part begins, and the end; return how many bounds there are."""
    seen = np.full(len(sizes), -1, np.int64)
    bounds[0] = 0
    n, held = 1, 0
    for pair in range(len(first)):
        one, two = first[pair], second[pair]
        part = n - 1
        more = (sizes[one] if seen[one] != part else 0) + (sizes[two] if seen[two] != part else 0)
        if held + more > limit and pair > bounds[part]:
            bounds[n] = pair
            n += 1
            part, held = n - 1, 0
            more = sizes[one] + sizes[two]
        seen[one] = seen[two] = part
        held += more
    if len(first):
        bounds[n] = len(first)
        n += 1
    return n

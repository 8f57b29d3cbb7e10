"""What another tool's removal of duplicates left and lost: exact joins over shingle sets.

Nothing here is sampled. All pairs at or above a threshold are found by a join with a prefix filter
(Chaudhuri, Ganti, Kaushik 2006, A Primitive Operator for Similarity Joins; Bayardo, Ma, Srikant 2007,
Scaling Up All Pairs Similarity Search): in any order of the shingles, two sets that reach the
threshold share one among the first ``n - c + 1`` of either, where ``c`` is the least number of
shingles that a set of ``n`` must share. The order puts rare shingles first.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.shingles import Hashes, Offsets, ShingleSets

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Counters = npt.NDArray[np.uint8]

COUNTER_BITS = 26
"""Shingles are counted in this many bits of their hash; collisions cost time alone."""

_PREFIX_MIX = np.uint64(0x9E3779B97F4A7C15)
_MANY = 255


def new_counters(bits: int = COUNTER_BITS) -> Counters:
    """Return counters of shingles, all zero, shape [2^bits]."""
    return np.zeros(1 << bits, np.uint8)


def count_shingles(sets: ShingleSets, counters: Counters) -> None:
    """Count the sets' shingles, each up to 255."""
    _count(sets.values, counters)


def prefixes(sets: ShingleSets, counters: Counters, threshold: float) -> ShingleSets:
    """Return of each set the keys of its rarest shingles, enough for the prefix filter.

    A key orders shingles by their count and stands for them; two shingles with one key make a
    candidate more, and none less.

    Args:
        sets: shingle sets.
        counters: see :func:`count_shingles`; the same for all sets that are joined.
        threshold: Jaccard similarity, above 0, at most 1.

    Returns:
        Keys in no order; as many sets as given.
    """
    offsets, keys = _prefixes(sets.offsets, sets.values, counters, threshold)
    return ShingleSets(offsets, keys)


@dataclass(frozen=True, slots=True)
class Index:
    """Which of some sets hold a value: an inverted index over uniform 64-bit values."""

    bounds: Int64s
    """Where the values with each leading bits begin in ``values``, shape [2^bits + 1]."""
    values: Hashes
    """Distinct values, ascending, shape [values]."""
    starts: Int64s
    """Where each value's owners begin, shape [values + 1]."""
    owners: Int64s
    """Numbers of sets, ascending within a value."""


def make_index(sets: ShingleSets, numbers: Int64s) -> Index:
    """Return the index of some sets.

    Args:
        sets: sets of uniform 64-bit values.
        numbers: what each set is called in the index, ascending, shape [sets].
    """
    order = np.argsort(sets.values, kind="stable")
    values = sets.values[order]
    first = np.ones(len(values), bool)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    distinct = values[starts]
    bits = max(1, len(distinct).bit_length())
    leading = (distinct >> np.uint64(64 - bits)).astype(np.int64)
    bounds = np.searchsorted(leading, np.arange((1 << bits) + 1)).astype(np.int64)
    owners = np.repeat(numbers, sets.sizes)[order]
    return Index(bounds, distinct, np.append(starts, len(values)).astype(np.int64), owners)


def candidates(
    index: Index,
    probes: ShingleSets,
    numbers: Int64s,
    sizes: Int64s,
    kept: npt.NDArray[np.bool_],
    threshold: float,
    seen: Int64s,
) -> tuple[Int64s, Int64s]:
    """Return the pairs that share a key and whose sizes do not rule the threshold out.

    Args:
        index: of the prefixes of kept sets.
        probes: prefixes of other sets.
        numbers: what each of them is called, shape [probes].
        sizes: size of every set by its number.
        kept: which sets are kept, likewise; a kept one is paired only with those of lower numbers.
        threshold: Jaccard similarity.
        seen: room for a mark per set, all -1 before the first call with an index.

    Returns:
        The set of the index and the probe of each pair; every pair once.
    """
    return _candidates(  # type: ignore[no-any-return]
        index.bounds,
        index.values,
        index.starts,
        index.owners,
        probes.offsets,
        probes.values,
        numbers,
        sizes,
        kept,
        threshold,
        seen,
    )


def shared_by_many(index: Index, sets: int, limit: int) -> Int64s:
    """Return how many values of each set more than ``limit`` sets of the index hold, shape [sets]."""
    lengths = np.diff(index.starts)
    common = np.repeat(lengths > limit, lengths)
    return np.bincount(index.owners[common], minlength=sets)


def most_similar(
    index: Index,
    indexed: ShingleSets,
    frequent: Int64s,
    limit: int,
    probes: ShingleSets,
    numbers: Int64s,
    best: Floats,
    best_number: Int64s,
) -> None:
    """Raise the best similarity of indexed sets by comparing them with all of some others.

    Those that share only values held by more than ``limit`` indexed sets are left out: their
    similarity is at most the indexed set's share of such values.

    Args:
        index: of the whole sets, numbered from 0.
        indexed: the sets themselves.
        frequent: see :func:`shared_by_many`, for the same limit.
        limit: most owners of a value by which sets are found.
        probes: the others, whole.
        numbers: what each of them is called, shape [probes].
        best: best Jaccard similarity so far, shape [indexed]; changed in place.
        best_number: with which of the others, likewise; of equal ones the first stays.
    """
    _most_similar(
        index.bounds,
        index.values,
        index.starts,
        index.owners,
        indexed.offsets,
        indexed.values,
        frequent,
        limit,
        probes.offsets,
        probes.values,
        numbers,
        best,
        best_number,
    )


@dataclass(frozen=True, slots=True)
class Groups:
    """Documents with equal hashes, taken together; numbered in the order of their first one."""

    group: Int64s
    """Group of each document, shape [documents]."""
    first: Int64s
    """The first document of each group, ascending, shape [groups]."""


def group_equal(hashes: npt.NDArray[np.uint64]) -> Groups:
    """Group rows of 128 bits, shape [documents, 2], by equality."""
    order = np.lexsort((hashes[:, 1], hashes[:, 0]))
    ordered = hashes[order]
    new = np.ones(len(ordered), bool)
    np.any(ordered[1:] != ordered[:-1], axis=1, out=new[1:])
    run = np.cumsum(new) - 1
    # lexsort is stable: the first row of a run is its first document.
    first = order[new]
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    group = np.empty(len(order), np.int64)
    group[order] = rank[run]
    return Groups(group, np.sort(first))


def match_rows(
    ours: npt.NDArray[np.uint64],
    theirs: npt.NDArray[np.uint64],
    ours_open: npt.NDArray[np.bool_],
    theirs_open: npt.NDArray[np.bool_],
) -> Int64s:
    """Match equal rows one to one: the n-th of theirs with a key to the n-th of ours with it.

    Args:
        ours: keys, shape [ours, words].
        theirs: keys, shape [theirs, words].
        ours_open: which of ours may be matched.
        theirs_open: which of theirs may.

    Returns:
        For each of theirs the row of ours, or -1; shape [theirs].
    """
    left, right = np.flatnonzero(ours_open), np.flatnonzero(theirs_open)
    keys = np.concatenate([ours[left], theirs[right]])
    rows = np.concatenate([left, right])
    other = np.arange(len(keys)) >= len(left)
    order = np.lexsort((other, *keys.T))
    keys, rows, other = keys[order], rows[order], other[order]
    new = np.ones(len(keys), bool)
    np.any(keys[1:] != keys[:-1], axis=1, out=new[1:])
    run = np.cumsum(new) - 1
    start = np.flatnonzero(new)
    owned = np.bincount(run, weights=~other, minlength=len(start)).astype(np.int64)
    place = np.arange(len(keys)) - start[run] - owned[run]
    matched = other & (place < owned[run])
    found = np.full(len(theirs), -1, np.int64)
    found[rows[matched]] = rows[(start[run] + place)[matched]]
    return found


@kernel
def _count(values: Hashes, counters: Counters) -> None:
    mask = np.uint64(len(counters) - 1)
    for value in values:
        place = np.int64(value & mask)
        if counters[place] < _MANY:
            counters[place] += np.uint8(1)


@kernel
def _prefixes(
    offsets: Offsets, values: Hashes, counters: Counters, threshold: float
) -> tuple[Offsets, Hashes]:
    n = len(offsets) - 1
    mask = np.uint64(len(counters) - 1)
    found = np.zeros(n + 1, np.int64)
    for document in range(n):
        size = offsets[document + 1] - offsets[document]
        found[document + 1] = found[document] + _prefix_length(size, threshold)
    keys = np.empty(found[n], np.uint64)
    for document in range(n):
        start, end = offsets[document], offsets[document + 1]
        length = found[document + 1] - found[document]
        if length == 0:
            continue
        ordered = np.empty(end - start, np.uint64)
        for place in range(start, end):
            value = values[place]
            count = np.uint64(counters[np.int64(value & mask)])
            ordered[place - start] = count << np.uint64(56) | value >> np.uint64(8)
        if length < end - start:
            ordered = np.partition(ordered, length - 1)
        for place in range(length):
            # One to one, and uniform in the leading bits, by which an index is entered.
            keys[found[document] + place] = ordered[place] * _PREFIX_MIX
    return found, keys


@kernel
def _prefix_length(size: int, threshold: float) -> int:
    """Return of how many shingles one is shared by any set that reaches the threshold."""
    if size == 0:
        return 0
    least = min(size, max(1, int(threshold * size)))
    while least > 1 and (least - 1) / size >= threshold:
        least -= 1
    while least < size and least / size < threshold:
        least += 1
    return size - least + 1


@kernel
def _place(value: np.uint64, bounds: Int64s, values: Hashes, shift: np.uint64) -> int:
    """Return where a value stands in an index, -1 if nowhere."""
    leading = np.int64(value >> shift)
    for place in range(bounds[leading], bounds[leading + 1]):
        if values[place] == value:
            return place
    return -1


@kernel
def _shift(bounds: Int64s) -> np.uint64:
    """Return by how many bits a value is shifted to leave its leading ones."""
    bits = 0
    while (1 << bits) < len(bounds) - 1:
        bits += 1
    return np.uint64(64 - bits)


@kernel
def _candidates(
    bounds: Int64s,
    values: Hashes,
    starts: Int64s,
    owners: Int64s,
    offsets: Offsets,
    probes: Hashes,
    numbers: Int64s,
    sizes: Int64s,
    kept: npt.NDArray[np.bool_],
    threshold: float,
    seen: Int64s,
) -> tuple[Int64s, Int64s]:
    shift = _shift(bounds)
    first, second = np.empty(1024, np.int64), np.empty(1024, np.int64)
    used = 0
    for k in range(len(offsets) - 1):
        number = numbers[k]
        size = sizes[number]
        for p in range(offsets[k], offsets[k + 1]):
            place = _place(probes[p], bounds, values, shift)
            if place < 0:
                continue
            for q in range(starts[place], starts[place + 1]):
                owner = owners[q]
                if kept[number] and owner >= number:
                    break
                if seen[owner] == number:
                    continue
                seen[owner] = number
                if min(size, sizes[owner]) / max(size, sizes[owner]) < threshold:
                    continue
                if used == len(first):
                    more = np.empty(used, np.int64)
                    first = np.concatenate((first, more))
                    second = np.concatenate((second, more))
                first[used], second[used] = owner, number
                used += 1
    return first[:used].copy(), second[:used].copy()


@kernel
def _common(
    one: Hashes, start: int, end: int, two: Hashes, other_start: int, other_end: int
) -> int:
    """Return how many values two ascending sets share."""
    a, b, common = start, other_start, 0
    while a < end and b < other_end:
        if one[a] == two[b]:
            common += 1
            a += 1
            b += 1
        elif one[a] < two[b]:
            a += 1
        else:
            b += 1
    return common


@kernel
def _most_similar(
    bounds: Int64s,
    values: Hashes,
    starts: Int64s,
    owners: Int64s,
    set_offsets: Offsets,
    set_values: Hashes,
    frequent: Int64s,
    limit: int,
    offsets: Offsets,
    probes: Hashes,
    numbers: Int64s,
    best: Floats,
    best_number: Int64s,
) -> None:
    shift = _shift(bounds)
    shared = np.zeros(len(frequent), np.int64)
    touched = np.empty(len(frequent), np.int64)
    for k in range(len(offsets) - 1):
        size, used = offsets[k + 1] - offsets[k], 0
        for p in range(offsets[k], offsets[k + 1]):
            place = _place(probes[p], bounds, values, shift)
            if place < 0 or starts[place + 1] - starts[place] > limit:
                continue
            for q in range(starts[place], starts[place + 1]):
                owner = owners[q]
                if shared[owner] == 0:
                    touched[used] = owner
                    used += 1
                shared[owner] += 1
        for t in range(used):
            owner = touched[t]
            common = shared[owner]
            shared[owner] = 0
            start, end = set_offsets[owner], set_offsets[owner + 1]
            total = size + end - start
            if frequent[owner] > 0:
                # What they share of frequent values is counted only where it could matter.
                most = min(common + frequent[owner], min(size, end - start))
                if most / (total - most) <= best[owner]:
                    continue
                common = _common(set_values, start, end, probes, offsets[k], offsets[k + 1])
            similarity = common / (total - common)
            if similarity > best[owner]:
                best[owner] = similarity
                best_number[owner] = numbers[k]

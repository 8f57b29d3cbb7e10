"""What another tool's removal of duplicates left and lost: exact joins over shingle sets.

Nothing here is sampled. All pairs at or above a threshold are found by a join with a prefix filter
(:mod:`transforms.set_prefixes`).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.shingles import Hashes, Offsets, ShingleSets

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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

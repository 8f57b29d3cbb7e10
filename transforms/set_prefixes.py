"""The rarest shingles of sets: what the prefix filter of a similarity join compares.

In any order of the shingles, two sets that reach a threshold share one among the first ``n - c + 1``
of either, where ``c`` is the least number of shingles that a set of ``n`` must share (Chaudhuri,
Ganti, Kaushik 2006, A Primitive Operator for Similarity Joins; Bayardo, Ma, Srikant 2007, Scaling Up
All Pairs Similarity Search). The order puts rare shingles first.
"""

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.shingles import Hashes, Offsets, ShingleSets

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

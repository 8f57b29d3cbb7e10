"""Verified pairs, and which documents stay: a greedy maximal independent set in keep order."""

import math

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.exact import DUPLICATE_SCHEMA
from transforms.shingles import Hashes, Offsets, ShingleSets

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@numba.njit(cache=True, nogil=True)
def least_common(first: int, second: int, threshold: float) -> int:
    """Return how many shingles two sets must share for their Jaccard similarity to reach a threshold.

    Exactly those shares reach it whose quotient, as a 64-bit float, is not below the threshold.

    Args:
        first: size of one set, at least 1.
        second: size of the other one, at least 1.
        threshold: above 0, at most 1.
    """
    total = first + second
    common = max(0, math.ceil(threshold * total / (1 + threshold)) - 1)
    while common < total and common / (total - common) < threshold:
        common += 1
    return common


def jaccards(sets: ShingleSets, first: Int64s, second: Int64s, threshold: float) -> Floats:
    """Return the Jaccard similarity of pairs of sets, 0 where it is below the threshold.

    Args:
        sets: shingle sets.
        first: number of the one set of each pair, shape [pairs].
        second: number of the other one, likewise.
        threshold: above 0, at most 1; pairs below it are given up as soon as that is certain.

    Returns:
        float64, shape [pairs].
    """
    found: Floats = _jaccards(sets.offsets, sets.values, first, second, threshold)
    return found


def keepers(
    documents: int, first: Int64s, second: Int64s, jaccard: Floats
) -> tuple[Int64s, Floats]:
    """Choose which documents stay: each one that has no earlier neighbour that stays.

    Every removed document so has a neighbour that is kept, and no two kept ones are neighbours. Of
    several kept neighbours the most similar one is named, among equals the earliest.

    Args:
        documents: how many there are; numbered in keep order.
        first: earlier document of each verified pair, shape [pairs].
        second: later document, likewise.
        jaccard: their similarity, likewise.

    Returns:
        The keeper of each document, itself where it stays, and the similarity to it; shape
        [documents] each.
    """
    order = np.lexsort((first, second))
    found: tuple[Int64s, Floats] = _keepers(documents, first[order], second[order], jaccard[order])
    return found


def near_duplicates(
    documents: pa.Table, first: Int64s, second: Int64s, jaccard: Floats
) -> tuple[Int64s, Int64s, Floats]:
    """Return the documents that lose to a similar one, given all verified pairs.

    The keep order is that of :func:`transforms.exact.exact_duplicates`: lowest ``source_rank``, most
    characters, lowest id bytewise, lowest ``doc_uid``. The result depends neither on the order of
    the rows nor on that of the pairs or of the documents in them.

    Args:
        documents: columns doc_uid int64, source_rank int32, n_chars int64, id string; every document
            of a pair once.
        first: address of the one document of each pair, shape [pairs].
        second: address of the other one, likewise.
        jaccard: their similarity, likewise.

    Returns:
        The removed documents' addresses, ascending, their keepers' and the similarities.
    """
    keys = [("source_rank", "ascending"), ("n_chars", "descending")]
    keys += [("id", "ascending"), ("doc_uid", "ascending")]
    order = pc.sort_indices(documents, sort_keys=keys).to_numpy()
    uids = documents["doc_uid"].to_numpy()
    by_uid = np.argsort(uids)
    number = np.empty(len(uids), np.int64)
    number[order] = np.arange(len(uids))
    number, known = number[by_uid], uids[by_uid]
    one, two = (number[np.searchsorted(known, uid)] for uid in (first, second))
    keeper, similarity = keepers(len(uids), np.minimum(one, two), np.maximum(one, two), jaccard)
    lost = np.flatnonzero(keeper != np.arange(len(uids)))
    in_order = uids[order]
    removed = in_order[lost]
    place = np.argsort(removed)
    lost = lost[place]
    return removed[place], in_order[keeper[lost]], similarity[lost]


def duplicate_rows(
    removed: Int64s, keeper: Int64s, jaccard: Floats, cluster_size: Int64s
) -> pa.Table:
    """Return rows of :data:`transforms.exact.DUPLICATE_SCHEMA` of kind ``near``.

    Args:
        removed: addresses of removed documents, shape [rows].
        keeper: addresses of the documents they lost to, likewise.
        jaccard: similarity, likewise.
        cluster_size: documents that the keeper stands for, itself included; likewise.
    """
    kept = pa.array(keeper, pa.int64())
    return pa.table(
        [
            pa.array(removed, pa.int64()),
            kept,
            kept,
            pa.nulls(len(removed), pa.string()),
            pa.repeat("near", len(removed)),
            pa.array(jaccard, pa.float64()),
            pa.array(cluster_size, pa.int64()),
        ],
        schema=DUPLICATE_SCHEMA,
    )


@numba.njit(cache=True, nogil=True)
def _jaccards(
    offsets: Offsets, values: Hashes, first: Int64s, second: Int64s, threshold: float
) -> Floats:
    found = np.zeros(len(first), np.float64)
    for pair in range(len(first)):
        a, end_a = offsets[first[pair]], offsets[first[pair] + 1]
        b, end_b = offsets[second[pair]], offsets[second[pair] + 1]
        total = (end_a - a) + (end_b - b)
        least = least_common(end_a - a, end_b - b, threshold)
        spare_a, spare_b = end_a - a - least, end_b - b - least
        common = 0
        while spare_a >= 0 and spare_b >= 0 and a < end_a and b < end_b:
            one, two = values[a], values[b]
            if one == two:
                common += 1
                a += 1
                b += 1
            elif one < two:
                a += 1
                spare_a -= 1
            else:
                b += 1
                spare_b -= 1
        if common >= least and common:
            found[pair] = common / (total - common)
    return found


@numba.njit(cache=True, nogil=True)
def _keepers(
    documents: int, first: Int64s, second: Int64s, jaccard: Floats
) -> tuple[Int64s, Floats]:
    keeper = np.arange(documents)
    similarity = np.ones(documents, np.float64)
    pair = 0
    while pair < len(first):
        document, best = second[pair], -1.0
        while pair < len(first) and second[pair] == document:
            # The pairs of earlier documents are all done, so that their fate is certain.
            if keeper[first[pair]] == first[pair] and jaccard[pair] > best:
                best = jaccard[pair]
                keeper[document] = first[pair]
                similarity[document] = best
            pair += 1
    return keeper, similarity

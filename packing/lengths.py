"""The order in which documents are taken for packing, and the fewest rows that can hold them."""

import numba
import numpy as np
import numpy.typing as npt

# Groups up to this size are put in order by insertion alone.
_SMALL = 16
# A bucket larger than this means that the keys are not spread: insertion would be quadratic.
_CROWDED = 64


def fewest_rows(n_tokens: npt.NDArray[np.int32], seq_len: int, max_docs: int | None = None) -> int:
    """Return the rows below which no packing can go that cuts only documents of over ``seq_len``.

    Documents of more than half a row cannot share one, so this is often more than the tokens
    divided by ``seq_len`` (Martello and Toth, "Lower bounds and reduction procedures for the bin
    packing problem", 1990, bound L2).

    Args:
        n_tokens: length of each document, int32[n]; longer ones give full rows and a remainder.
        seq_len: tokens of a row.
        max_docs: the most pieces of a row.
    """
    full = int((n_tokens // np.int32(seq_len)).sum(dtype=np.int64))
    count = np.bincount(n_tokens % np.int32(seq_len), minlength=seq_len + 1)
    count[0] = 0
    docs, tokens = np.cumsum(count), np.cumsum(count * np.arange(seq_len + 1))
    half = seq_len // 2
    # Documents below `small` are left out; those above seq_len - small then stand alone, those
    # above half a row take a row each, and the others fill what these leave.
    small = np.arange(half + 1)
    alone = docs[-1] - docs[seq_len - small]
    medium = docs[seq_len - small] - docs[half]
    room = medium * seq_len - (tokens[seq_len - small] - tokens[half])
    fill = tokens[half] - tokens[np.maximum(small - 1, 0)]
    rest = int((alone + medium + np.maximum(0, -((room - fill) // seq_len))).max())
    return full + max(rest, -(-int(docs[-1]) // max_docs) if max_docs else 0)


def sort_by(
    rank: npt.NDArray[np.int32], order: npt.NDArray[np.uint64], by_rank: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the documents in ascending (rank, order, index).

    A counting sort by rank, then one bucket pass and an insertion pass by key inside each rank:
    linear for seeded keys (about 20 ns a document), n log n for keys that crowd together.

    Args:
        rank: first key of each document, int32[n], from 0; memory grows with the largest.
        order: second key of each document, uint64[n].
        by_rank: documents of each rank, int64[ranks].

    Returns:
        int64[n], indices into the arguments.
    """
    index = np.empty(len(rank), dtype=np.int64)
    key = np.empty(len(rank), dtype=np.uint64)
    ends = np.cumsum(by_rank)
    _deal(rank, order, ends - by_rank, key, index)
    _settle(ends, key, index)
    return index


def taking_order(order: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return the documents in ascending (order, index), int64[n]."""
    if not len(order):
        return np.empty(0, dtype=np.int64)
    low = order.min()
    shift = max(0, int(order.max() - low).bit_length() - min(16, len(order).bit_length()))
    rank = ((order - low) >> np.uint64(shift)).astype(np.int32)
    return sort_by(rank, order, np.bincount(rank))


@numba.njit(cache=True, nogil=True)
def _deal(rank, order, cursor, key, index):  # type: ignore[no-untyped-def]
    """Place every document behind those of smaller rank, in index order (stable)."""
    for i in range(len(rank)):
        at = cursor[rank[i]]
        cursor[rank[i]] = at + 1
        key[at] = order[i]
        index[at] = i


@numba.njit(cache=True, nogil=True)
def _settle(ends, key, index):  # type: ignore[no-untyped-def]
    """Sort each rank's documents by key; equal keys stay in index order."""
    first = 0
    widest = 0
    for end in ends:
        widest = max(widest, end - first)
        first = end
    spare_key = np.empty(widest, dtype=key.dtype)
    spare_index = np.empty(widest, dtype=index.dtype)
    counts = np.empty(1 << 17, dtype=np.int64)
    first = 0
    for end in ends:
        if end - first > _SMALL and not _spread(
            key[first:end], index[first:end], spare_key, spare_index, counts
        ):
            by_key = np.argsort(key[first:end], kind="mergesort")
            key[first:end] = key[first:end][by_key]
            index[first:end] = index[first:end][by_key]
        for i in range(first + 1, end):
            k = key[i]
            x = index[i]
            j = i
            while j > first and key[j - 1] > k:
                key[j] = key[j - 1]
                index[j] = index[j - 1]
                j -= 1
            key[j] = k
            index[j] = x
        first = end


@numba.njit(cache=True, nogil=True)
def _spread(key, index, spare_key, spare_index, counts):  # type: ignore[no-untyped-def]
    """Bring one group near its order by the high bits of its keys; False where they crowd."""
    n = len(key)
    low = key[0]
    high = key[0]
    for i in range(n):
        low = min(low, key[i])
        high = max(high, key[i])
    buckets = 2
    while buckets < n and buckets < len(counts):
        buckets *= 2
    shift = np.uint64(0)
    while (high - low) >> shift >= buckets:
        shift += np.uint64(1)
    counts[:buckets] = 0
    for i in range(n):
        counts[(key[i] - low) >> shift] += 1
    at = 0
    for b in range(buckets):
        n_b = counts[b]
        if n_b > _CROWDED:
            return False
        counts[b] = at
        at += n_b
    for i in range(n):
        b = (key[i] - low) >> shift
        spare_key[counts[b]] = key[i]
        spare_index[counts[b]] = index[i]
        counts[b] += 1
    key[:] = spare_key[:n]
    index[:] = spare_index[:n]
    return True

"""sentencepiece BPE by safe cuts: spans that no merge can leave, each looked up in a cache.

A merge across the boundary between two characters joins a token that ends with the first to one that
begins with the second. Where no merge of the vocabulary does that, the boundary is a safe cut: what
stands left and right of it is encoded on its own, with the same ids. A space is nearly always the
first character of a token, so every word start is a safe cut; in Chinese most punctuation and rare
pairs of characters are.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from transforms.kernel import inlined_kernel, kernel
from transforms.tokenize.characters import SPACE, SPACE_SYMBOL, read_character
from transforms.tokenize.merges import slot_of
from transforms.tokenize.span_cache import CacheArrays
from transforms.tokenize.span_loop import (
    DOCUMENT,
    FIRST,
    PLACE,
    SPANS_AT_ONCE,
    WRITTEN,
    encode_spans,
)
from transforms.tokenize.vocabulary import Vocabulary

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class Joins(NamedTuple):
    """The pairs of characters that some merge brings together; all others are safe cuts.

    Attributes:
        ascii_cuts: uint8 [128 * 128], 0 where the pair ``first << 7 | second`` joins, else 1.
        others: int64 [slots], a hash set of ``first << 21 | second``, -1 where empty.
    """

    ascii_cuts: Bytes
    others: Int64s


@inlined_kernel
def _joins(others: Int64s, first: int, second: int) -> bool:
    """Whether a pair of code points is in the hash set."""
    key = first << 21 | second
    mask = np.uint64(len(others) - 1)
    slot = np.uint64(slot_of(key, len(others)))
    while others[slot] != key and others[slot] != -1:
        slot = (slot + np.uint64(1)) & mask
    return bool(others[slot] == key)


@kernel
def find_cuts(joins: Joins, data: Bytes, place: int, stop: int, ends: Int64s) -> int:
    """Find the next safe cuts.

    Args:
        joins: the pairs of characters that are no safe cut.
        data: UTF-8.
        place: first byte of the first span.
        stop: byte after the last span.
        ends: int64, written: the ends of spans, as many as fit, or ``stop`` as the last.

    Returns:
        The number of spans found.
    """
    count = 0
    ascii_cuts, others = joins.ascii_cuts, joins.others
    last, place = read_character(data, place)
    if last == SPACE_SYMBOL:
        last = SPACE
    while place < stop:
        byte = int(np.int64(data[place]))
        if byte < 0x80 and last < 0x80:
            # Written always and counted where it is a cut: a branch would be guessed wrong.
            ends[count] = place
            count += int(ascii_cuts[last << 7 | byte])
            last = byte
            place += 1
        else:
            point, place_after = read_character(data, place)
            if point == SPACE_SYMBOL:
                point = SPACE
            if last < 0x80 and point < 0x80:
                is_cut = ascii_cuts[last << 7 | point] != 0
            else:
                is_cut = not _joins(others, last, point)
            if is_cut:
                ends[count] = place
                count += 1
            last = point
            place = place_after
        if count == len(ends):
            return count
    ends[count] = stop
    return count + 1


@kernel
def encode_by_cuts(
    joins: Joins,
    vocabulary: Vocabulary,
    data: Bytes,
    offsets: Int64s,
    cache: CacheArrays,
    out: Int32s,
    out_offsets: Int64s,
    progress: Int64s,
) -> bool:
    """Encode documents from where ``progress`` stands.

    Args:
        joins: the pairs of characters that are no safe cut.
        vocabulary: the vocabulary.
        data: UTF-8 of all documents.
        offsets: int64 [documents + 1], first byte of each document.
        cache: ids of spans; filled.
        out: int32, room for all ids and OUT_SLACK more; written.
        out_offsets: int64 [documents + 1], written: first id of each document.
        progress: int64 [5], see :mod:`transforms.tokenize.span_loop`; updated.

    Returns:
        Whether everything is encoded. Otherwise the cache should grow, then call again.
    """
    ends = np.empty(SPANS_AT_ONCE, dtype=np.int64)
    while progress[DOCUMENT] < len(offsets) - 1:
        stop = offsets[progress[DOCUMENT] + 1]
        while progress[PLACE] < stop:
            count = find_cuts(joins, data, progress[PLACE], stop, ends)
            if not encode_spans(data, ends, count, vocabulary, cache, out, progress):
                return False
        progress[DOCUMENT] += 1
        progress[FIRST] = progress[WRITTEN]
        out_offsets[progress[DOCUMENT]] = progress[WRITTEN]
    return True

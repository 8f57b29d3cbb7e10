"""The hot loop: spans of text to ids, by the cache where it has them, else by merging."""

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.tokenize.span_cache import (
    HITS,
    LONG,
    MAX_SPAN_BYTES,
    MISSES,
    NO_SLOT,
    WORD_BYTES,
    CacheArrays,
    copy_ids,
    find_short_span,
    find_span,
    keep_span,
    span_key,
)
from transforms.tokenize.spans import OVERLAP_BYTES, WINDOW_BYTES, encode_long_span, encode_span
from transforms.tokenize.vocabulary import UNKNOWN, Vocabulary

SPANS_AT_ONCE = 1024
DOCUMENT, PLACE, WRITTEN, FIRST, FULL = range(5)
"""Indices of the progress array: the document, the byte and the id to go on with, the first id of
the document, and whether the cache is at its limit."""
OUT_SLACK = 4
"""Ids written beyond the last one."""

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@kernel
def encode_spans(
    data: Bytes,
    ends: Int64s,
    count: int,
    vocabulary: Vocabulary,
    cache: CacheArrays,
    out: Int32s,
    progress: Int64s,
) -> bool:
    """Encode ``count`` spans, the first of which begins at ``progress[PLACE]``.

    Args:
        data: UTF-8.
        ends: int64 [>= count], the end of each span, which begins where the one before ends.
        count: number of spans.
        vocabulary: the vocabulary.
        cache: ids of spans; filled.
        out: int32, written from ``progress[WRITTEN]`` on.
        progress: int64 [5], see DOCUMENT to FULL; PLACE and WRITTEN are updated.

    Returns:
        False where the cache was too crowded to take a span, and should grow.
    """
    place = progress[PLACE]
    written = progress[WRITTEN]
    first = progress[FIRST]
    unknown = vocabulary.facts[UNKNOWN]
    # Taken out of the tuple once: numba counts a reference at each access.
    slots, ids = cache.slots, cache.ids
    fast_end = len(data) - WORD_BYTES
    found = 0
    keep = progress[FULL] == 0
    crowded = False
    for i in range(count):
        end = ends[i]
        begin = written
        slot = NO_SLOT
        if end - place <= WORD_BYTES and place <= fast_end:
            slot = find_short_span(slots, data, place, end)
        if slot != NO_SLOT:
            written = copy_ids(slots, ids, slot, out, written)
            found += 1
        else:
            written, taken = _encode_other_span(
                data, place, end, vocabulary, cache, out, written, keep
            )
            if not taken:
                crowded = True
                keep = False
        if unknown >= 0 and begin > first and written > begin:
            written = _join_unknown(unknown, out, begin, written)
        place = end
    cache.counts[HITS] += found
    progress[PLACE] = place
    progress[WRITTEN] = written
    return not crowded


@kernel
def _encode_other_span(
    data: Bytes,
    place: int,
    end: int,
    vocabulary: Vocabulary,
    cache: CacheArrays,
    out: Int32s,
    written: int,
    keep: bool,
) -> tuple[int, bool]:
    """Encode a span that is long or not in the cache.

    Returns:
        The place after its ids, and False where it should be kept and the cache was too crowded.
    """
    if end - place > MAX_SPAN_BYTES:
        cache.counts[LONG] += 1
        written = encode_long_span(
            vocabulary, data, place, end, out, written, WINDOW_BYTES, OVERLAP_BYTES
        )
        return written, True
    low, high = span_key(data, place, end)
    slot = find_span(cache, data, place, end, low, high)
    if slot >= 0:
        cache.counts[HITS] += 1
        return copy_ids(cache.slots, cache.ids, np.uint64(slot), out, written), True
    cache.counts[MISSES] += 1
    begin = written
    written = encode_span(vocabulary, data, place, end, out, written)
    kept = True
    if keep:
        kept = keep_span(cache, -1 - slot, data, place, end, low, high, out, begin, written)
    return written, kept


@kernel
def _join_unknown(unknown: int, out: Int32s, begin: int, written: int) -> int:
    """Make one of the unknown ids before and after ``begin``, as the library does."""
    if out[begin] == unknown and out[begin - 1] == unknown:
        written -= 1
        for i in range(begin, written):
            out[i] = out[i + 1]
    return written

"""A bounded cache from the bytes of a span of text to its token ids.

An open-addressing table of 32-byte slots: spans of up to 16 bytes are compared by two words, longer
ones by hash and then by their bytes, which are kept aside. Up to three ids stand in the slot itself.
A full cache takes nothing more and evicts nothing, so that ids and speed stay predictable.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from transforms.kernel import inlined_kernel, kernel
from transforms.tokenize.characters import load_word

MAX_SPAN_BYTES = 64
"""Longer spans are never kept."""
WORD_BYTES = 16
INLINE_IDS = 3

# Indices of CacheArrays.counts.
SPANS, IDS, BYTES, HITS, MISSES, LONG = range(6)

_FIRST_SLOTS = 1 << 14
_IDS_PER_SLOT = 1
_BYTES_PER_SLOT = 12
_SLOT_BYTES = 32 + 4 * _IDS_PER_SLOT + _BYTES_PER_SLOT

UInt64s = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]

LOW_MASKS = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(WORD_BYTES + 1)], dtype=np.uint64)
HIGH_MASKS = np.array(
    [(1 << 8 * max(n - 8, 0)) - 1 for n in range(WORD_BYTES + 1)], dtype=np.uint64
)
NO_SLOT = np.uint64(0xFFFFFFFFFFFFFFFF)


class CacheArrays(NamedTuple):
    """What the kernels see of a cache.

    Attributes:
        slots: uint64 [slots, 4]: the key's two words (for a long span its hash and its place in
            ``text``); length | ids << 8 | first id << 32, 0 where the slot is empty; two more ids
            (or, for more than three ids, their place in ``ids``).
        ids: int32, the ids of spans with more than three.
        text: uint8, the bytes of spans longer than 16 bytes.
        counts: int64 [6]: spans, ids and bytes kept; hits; misses; spans too long to keep.
    """

    slots: UInt64s
    ids: Int32s
    text: Bytes
    counts: npt.NDArray[np.int64]


class SpanCache:
    """The arrays of one cache and their growth. Not for several threads at once."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.arrays = _empty(_FIRST_SLOTS)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays, in bytes."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def can_grow(self) -> bool:
        """Whether twice the size, and the copy while growing, stay within the limit."""
        return 3 * len(self.arrays.slots) * _SLOT_BYTES <= self.limit_bytes

    def grow(self) -> None:
        """Double the size; does nothing at the limit."""
        if self.can_grow:
            self._resize()

    def _resize(self) -> None:
        grown = _empty(2 * len(self.arrays.slots))
        _rehash(self.arrays.slots, grown.slots)
        for old, new in (
            (self.arrays.ids, grown.ids),
            (self.arrays.text, grown.text),
            (self.arrays.counts, grown.counts),
        ):
            new[: len(old)] = old
        self.arrays = grown

    def keep(self, span: bytes, number: int) -> None:
        """Keep a span of at most MAX_SPAN_BYTES with one id; grows as needed, beyond the limit."""
        data = np.frombuffer(span, dtype=np.uint8)
        ids = np.array([number], dtype=np.int32)
        low, high = map(np.uint64, span_key(data, 0, len(span)))
        while True:
            slot = find_span(self.arrays, data, 0, len(span), low, high)
            place = (self.arrays, -1 - slot, data, 0, len(span), low, high)
            if slot >= 0 or keep_span(*place, ids, 0, 1):
                return
            self._resize()


def _empty(slots: int) -> CacheArrays:
    return CacheArrays(
        np.zeros((slots, 4), dtype=np.uint64),
        np.empty(slots * _IDS_PER_SLOT, dtype=np.int32),
        np.empty(slots * _BYTES_PER_SLOT, dtype=np.uint8),
        np.zeros(6, dtype=np.int64),
    )


@kernel
def hash_words(low: np.uint64, high: np.uint64) -> np.uint64:
    """Mix two words to 64 bits (multiply and fold, as in wyhash)."""
    mixed = (low ^ np.uint64(0xA0761D6478BD642F)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed = (mixed ^ high) * np.uint64(0xE7037ED1A0B428DB)
    return mixed ^ (mixed >> np.uint64(29))


@kernel
def word_at(data: Bytes, place: int, stop: int) -> np.uint64:
    """Return the bytes from ``place`` to ``stop``, at most 8, as a little-endian word."""
    size = min(stop - place, 8)
    if place + 8 <= len(data):
        return np.uint64(load_word(data, place) & LOW_MASKS[size])
    word = np.uint64(0)
    for i in range(size):
        word |= np.uint64(data[place + i]) << np.uint64(8 * i)
    return word


@kernel
def span_key(data: Bytes, start: int, stop: int) -> tuple[np.uint64, np.uint64]:
    """Return the two words that a span of at most MAX_SPAN_BYTES is looked up by.

    Up to 16 bytes they are the bytes themselves; beyond, the hash of the bytes and 0.
    """
    low = word_at(data, start, stop)
    if stop - start <= 8:
        return low, np.uint64(0)
    if stop - start <= WORD_BYTES:
        return low, word_at(data, start + 8, stop)
    for place in range(start + 8, stop, 8):
        low = hash_words(low, word_at(data, place, stop))
    return low, np.uint64(0)


@kernel
def _same_bytes(kept: Bytes, place: int, data: Bytes, start: int, length: int) -> bool:
    """Whether the kept bytes at ``place`` are those of the span at ``start``."""
    for i in range(0, length, 8):
        if word_at(kept, place + i, place + length) != word_at(data, start + i, start + length):
            return False
    return True


@kernel
def find_span(
    cache: CacheArrays, data: Bytes, start: int, stop: int, low: np.uint64, high: np.uint64
) -> int:
    """Find a span.

    Returns:
        Its slot; or ``-1 - slot`` of the empty slot where it belongs.
    """
    length = stop - start
    slots = cache.slots
    mask = np.uint64(len(slots) - 1)
    slot = (hash_words(low, high) + np.uint64(length)) & mask
    while True:
        meta = slots[slot, 2]
        if meta == np.uint64(0):
            return -1 - int(np.int64(slot))
        if slots[slot, 0] == low and (meta & np.uint64(0xFF)) == np.uint64(length):
            if length <= WORD_BYTES:
                if slots[slot, 1] == high:
                    return int(np.int64(slot))
            else:
                place = int(np.int64(slots[slot, 1]))
                if _same_bytes(cache.text, place, data, start, length):
                    return int(np.int64(slot))
        slot = (slot + np.uint64(1)) & mask


@inlined_kernel
def find_short_span(slots: UInt64s, data: Bytes, start: int, stop: int) -> np.uint64:
    """Find a span of at most 16 bytes that begins 16 bytes or more before the end of ``data``.

    Slots are unsigned and arrays are passed bare, and this is inlined: numba then leaves out the
    checks for negative indices and the counting of references, half of the hot loop's time.

    Returns:
        Its slot, or NO_SLOT.
    """
    length = stop - start
    low = load_word(data, start) & LOW_MASKS[length]
    high = load_word(data, start + 8) & HIGH_MASKS[length]
    mask = np.uint64(len(slots) - 1)
    slot = (hash_words(low, high) + np.uint64(length)) & mask
    while True:
        meta = slots[slot, 2]
        same = (meta & np.uint64(0xFF)) == np.uint64(length)
        if slots[slot, 0] == low and slots[slot, 1] == high and same:
            break
        if meta == np.uint64(0):
            slot = NO_SLOT
            break
        slot = (slot + np.uint64(1)) & mask
    return np.uint64(slot)


@inlined_kernel
def copy_ids(slots: UInt64s, ids: Int32s, slot: np.uint64, out: Int32s, place: int) -> int:
    """Write the ids of a slot to ``out[place:]``, and up to two beyond; return the place after."""
    meta = slots[slot, 2]
    count = int(np.int64((meta >> np.uint64(8)) & np.uint64(0xFF)))
    rest = slots[slot, 3]
    if count <= INLINE_IDS:
        # No branch on the number of ids, which would be guessed wrong once in a few spans.
        out[place] = np.int32(meta >> np.uint64(32))
        out[place + 1] = np.int32(rest & np.uint64(0xFFFFFFFF))
        out[place + 2] = np.int32(rest >> np.uint64(32))
    else:
        first = np.int64(rest)
        for i in range(count):
            out[place + i] = ids[first + i]
    return place + count


@kernel
def keep_span(
    cache: CacheArrays,
    slot: int,
    data: Bytes,
    start: int,
    stop: int,
    low: np.uint64,
    high: np.uint64,
    ids: Int32s,
    first: int,
    last: int,
) -> bool:
    """Keep a span in an empty slot with the ids ``ids[first:last]``, if there is room.

    Returns:
        False where the cache is so full that it should grow.
    """
    counts = cache.counts
    length = stop - start
    count = last - first
    crowded = 5 * (counts[SPANS] + 1) > 3 * len(cache.slots)
    crowded |= counts[IDS] + count > len(cache.ids) or counts[BYTES] + length > len(cache.text)
    if crowded or count > 255:
        return count > 255
    meta = np.uint64(length) | np.uint64(count) << np.uint64(8)
    rest = np.uint64(0)
    if count > INLINE_IDS:
        rest = np.uint64(counts[IDS])
        for i in range(count):
            cache.ids[counts[IDS] + i] = ids[first + i]
        counts[IDS] += count
    else:
        if count > 0:
            meta |= np.uint64(ids[first]) << np.uint64(32)
        if count > 1:
            rest = np.uint64(ids[first + 1])
        if count > 2:
            rest |= np.uint64(ids[first + 2]) << np.uint64(32)
    cache.slots[slot, 0] = low
    cache.slots[slot, 1] = high
    if length > WORD_BYTES:
        cache.slots[slot, 1] = np.uint64(counts[BYTES])
        for i in range(length):
            cache.text[counts[BYTES] + i] = data[start + i]
        counts[BYTES] += length
    cache.slots[slot, 2] = meta
    cache.slots[slot, 3] = rest
    counts[SPANS] += 1
    return True


@kernel
def _rehash(old: UInt64s, new: UInt64s) -> None:
    """Move all slots to a larger table."""
    mask = np.uint64(len(new) - 1)
    for i in range(len(old)):
        meta = old[i, 2]
        if meta == np.uint64(0):
            continue
        length = meta & np.uint64(0xFF)
        high = old[i, 1]
        if length > np.uint64(WORD_BYTES):
            high = np.uint64(0)  # the word holds a place, not a part of the key
        slot = (hash_words(old[i, 0], high) + length) & mask
        while new[slot, 2] != np.uint64(0):
            slot = (slot + np.uint64(1)) & mask
        for k in range(4):
            new[slot, k] = old[i, k]

"""Byte-pair merging on arrays of symbols.

Merging joins, again and again, the adjacent pair of lowest rank, the leftmost of equal ones, until
no pair is left. Two facts carry the encoders of this package. Merging inside one part of a text
does not depend on the rest as long as no merge crosses the part's ends, so:

* the pairs that can ever be merged are those that are merged last when a token's own text is
  merged: one pair for each token that its own text gives. All other pairs are left out of the table
  (:func:`last_merges`).
* a sequence of tokens is what merging gives for its text if and only if each adjacent pair of
  tokens is what merging gives for the pair's text. So two encodings may be joined where they agree
  in one token (:mod:`transforms.tokenize.long_spans`).
"""

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel

NO_MERGE = (1 << 62) - 1
"""Value of a pair that is never merged; higher than every other value."""
SHORT_SYMBOLS = 64
"""Up to so many symbols are merged by search, more of them with a heap."""

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


def pair_table(left: Int64s, right: Int64s, rank: Int64s, merged: Int64s) -> Int64s:
    """Build the hash table of the pairs that merge.

    Args:
        left: symbol of the left side, int64 [pairs].
        right: symbol of the right side.
        rank: the lower, the earlier merged; below 2**30.
        merged: symbol that the pair becomes.

    Returns:
        int64 [slots, 2] for :func:`find_pair`: the pair's key (-1 where empty) and its value,
        ``rank << 32 | merged``.
    """
    slots = 1 << max(4, int(2 * len(left)).bit_length())
    table = np.full((slots, 2), -1, dtype=np.int64)
    _fill_pairs(table, left << 32 | right, rank << 32 | merged)
    return table


@kernel
def slot_of(key: int, slots: int) -> int:
    """Return the first slot to look for a key (Fibonacci hashing; slots is a power of two)."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    return int(np.int64(mixed & np.uint64(slots - 1)))


@kernel
def _fill_pairs(table: Int64s, keys: Int64s, values: Int64s) -> None:
    slots = len(table)
    for i in range(len(keys)):
        slot = slot_of(keys[i], slots)
        while table[slot, 0] != -1:
            slot = (slot + 1) & (slots - 1)
        table[slot, 0] = keys[i]
        table[slot, 1] = values[i]


@kernel
def find_pair(table: Int64s, left: int, right: int) -> int:
    """Return ``rank << 32 | merged`` of a pair, NO_MERGE where it never merges.

    Negative symbols are characters outside the vocabulary; they never merge.
    """
    if left < 0 or right < 0:
        return NO_MERGE
    key = int(np.int64(left) << 32 | np.int64(right))
    slots = len(table)
    slot = slot_of(key, slots)
    while True:
        found = table[slot, 0]
        if found == key:
            return int(table[slot, 1])
        if found == -1:
            return NO_MERGE
        slot = (slot + 1) & (slots - 1)


@kernel
def merge_short(table: Int64s, symbols: Int32s, starts: Int64s, values: Int64s, count: int) -> int:
    """Merge a few symbols in place.

    Args:
        table: of :func:`pair_table`.
        symbols: int32 [>= count]; the tokens on return.
        starts: int64 [>= count], where each symbol begins; of the tokens on return.
        values: int64 [>= count], scratch.
        count: number of symbols.

    Returns:
        The number of tokens.
    """
    for i in range(count - 1):
        values[i] = find_pair(table, symbols[i], symbols[i + 1])
    while True:
        best = NO_MERGE
        place = -1
        for i in range(count - 1):
            if values[i] < best:
                best = values[i]
                place = i
        if place < 0:
            return count
        symbols[place] = np.int32(best & 0xFFFFFFFF)
        count -= 1
        for i in range(place + 1, count):
            symbols[i] = symbols[i + 1]
            starts[i] = starts[i + 1]
            values[i] = values[i + 1]
        if place > 0:
            values[place - 1] = find_pair(table, symbols[place - 1], symbols[place])
        if place < count - 1:
            values[place] = find_pair(table, symbols[place], symbols[place + 1])


@kernel
def merge_long(table: Int64s, symbols: Int32s, starts: Int64s, values: Int64s, count: int) -> int:
    """Merge many symbols in place with a heap, in O(count log count); as :func:`merge_short`."""
    before = np.empty(count, dtype=np.int32)
    after = np.empty(count, dtype=np.int32)
    heap = np.empty(3 * count + 1, dtype=np.int64)
    size = 0
    for i in range(count):
        before[i] = i - 1
        after[i] = i + 1
        values[i] = NO_MERGE
        if i < count - 1:
            values[i] = find_pair(table, symbols[i], symbols[i + 1])
            if values[i] != NO_MERGE:
                size = _push(heap, size, (values[i] >> 32) << 32 | i)
    while size > 0:
        top = heap[0]
        size = _pop(heap, size)
        place = top & 0xFFFFFFFF
        value = values[place]
        if value == NO_MERGE or value >> 32 != top >> 32:
            continue  # the pair changed after this entry was pushed
        symbols[place] = np.int32(value & 0xFFFFFFFF)
        gone = after[place]
        values[gone] = NO_MERGE
        symbols[gone] = -2
        follower = after[gone]
        after[place] = follower
        values[place] = NO_MERGE
        if follower < count:
            before[follower] = place
            values[place] = find_pair(table, symbols[place], symbols[follower])
            if values[place] != NO_MERGE:
                size = _push(heap, size, (values[place] >> 32) << 32 | place)
        left = before[place]
        if left >= 0:
            values[left] = find_pair(table, symbols[left], symbols[place])
            if values[left] != NO_MERGE:
                size = _push(heap, size, (values[left] >> 32) << 32 | left)
    kept = 0
    place = 0
    while place < count:
        symbols[kept] = symbols[place]
        starts[kept] = starts[place]
        kept += 1
        place = after[place]
    return kept


@kernel
def _push(heap: Int64s, size: int, entry: int) -> int:
    """Add an entry to a binary heap; return its new size."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if heap[parent] <= entry:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = entry
    return size + 1


@kernel
def _pop(heap: Int64s, size: int) -> int:
    """Remove the least entry of a binary heap; return its new size."""
    size -= 1
    entry = heap[size]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= entry:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = entry
    return size


@kernel
def last_merges(table: Int64s, offsets: Int64s, symbols: Int32s, tokens: Int32s) -> Int64s:
    """Merge each token's own text, and return the pair that is merged last.

    Args:
        table: of :func:`pair_table`, with every pair whose text is a token.
        offsets: int64 [tokens + 1]; a token's own text is ``symbols[offsets[i]:offsets[i + 1]]``.
        symbols: int32, the characters of all tokens.
        tokens: int32 [tokens], the token's symbol.

    Returns:
        int64 [tokens, 2]: left and right symbol; -1 where the text does not give the token.
    """
    longest = 0
    for i in range(len(tokens)):
        longest = max(longest, offsets[i + 1] - offsets[i])
    text = np.empty(longest + 1, dtype=np.int32)
    values = np.empty(longest + 1, dtype=np.int64)
    last = np.empty((len(tokens), 2), dtype=np.int64)
    for i in range(len(tokens)):
        count = offsets[i + 1] - offsets[i]
        for k in range(count):
            text[k] = symbols[offsets[i] + k]
        last[i, 0] = last[i, 1] = -1
        left = right = -1
        while count > 1:
            best = NO_MERGE
            place = -1
            for k in range(count - 1):
                values[k] = find_pair(table, text[k], text[k + 1])
                if values[k] < best:
                    best = values[k]
                    place = k
            if place < 0:
                break
            left, right = text[place], text[place + 1]
            text[place] = np.int32(best & 0xFFFFFFFF)
            count -= 1
            for k in range(place + 1, count):
                text[k] = text[k + 1]
        if count == 1 and text[0] == tokens[i] and left >= 0:
            last[i, 0] = left
            last[i, 1] = right
    return last

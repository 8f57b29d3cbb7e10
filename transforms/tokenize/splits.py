"""The split patterns as kernels: where a pre-token ends, and where it may be cut once more.

Each function follows one alternative of the patterns in :mod:`transforms.tokenize.patterns`, in their
order; the letters in the comments are those of the regular expressions.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from transforms.kernel import inlined_kernel, kernel
from transforms.tokenize.characters import read_character
from transforms.tokenize.merges import slot_of
from transforms.tokenize.span_cache import MAX_SPAN_BYTES, hash_words, span_key

LETTER, NUMBER, SPACE, UPPER, LOWER, OTHER = (1 << i for i in range(6))
"""Bits of a code point's class: \\p{L}; \\p{N}; \\s; [Lu Lt Lm Lo M]; [Ll Lm Lo M]; none of the first
three."""
_SHAPE, _DIGITS, _WHOLE_TAIL, _LONG_S = range(4)
_GPT2, _CL100K, _O200K = range(3)
_CR, _LF, _BLANK, _APOSTROPHE, _SLASH = 0x0D, 0x0A, 0x20, 0x27, 0x2F

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]


class Splitter(NamedTuple):
    """What the kernels see of a split pattern.

    Attributes:
        rules: int64 [4] of SplitRules.
        classes: uint8 [0x110000], class bits of each code point.
        joins: int64 [slots], hash set of pairs of characters ``first << 21 | second`` that some
            merge brings together, -1 where empty.
        lefts: int32 [points], for each code point the row of ``parts`` when it stands left. Code
            points beyond always join.
        rights: int32 [points], the same for its column when it stands right.
        parts: uint8 [rows, columns], 1 where some merge joins an end of the left character with a
            beginning of the right one, not both of them whole.
        whole: int64 [slots], hash set of the hashes of spans that are one token when they are a
            whole pre-token, and something else as a part of one; -1 where empty.
    """

    rules: Int64s
    classes: Bytes
    joins: Int64s
    lefts: Int32s
    rights: Int32s
    parts: Bytes
    whole: Int64s


@kernel
def _class_at(classes: Bytes, data: Bytes, place: int) -> tuple[int, int]:
    """Return the class of the character at a place, and the place after it."""
    byte = data[place]
    if byte < 0x80:
        return int(np.int64(classes[byte])), place + 1
    point, after = read_character(data, place)
    return int(np.int64(classes[point])), after


@kernel
def _run(classes: Bytes, data: Bytes, place: int, stop: int, mask: int) -> int:
    """Return the end of the run of characters whose class is in ``mask``."""
    while place < stop:
        kind, after = _class_at(classes, data, place)
        if kind & mask == 0:
            break
        place = after
    return place


@kernel
def _contraction(data: Bytes, place: int, stop: int, any_case: bool, long_s: bool) -> int:
    """Return the end of 's 't 'm 'd 're 've 'll at ``place``, or ``place``."""
    if stop - place < 2 or data[place] != _APOSTROPHE:
        return place
    fold = 0x20 if any_case else 0
    first = data[place + 1] | fold
    if first == 0x73 or first == 0x74 or first == 0x6D or first == 0x64:  # s t m d
        return place + 2
    if stop - place < 3:
        return place
    second = data[place + 2] | fold
    if (first == 0x72 or first == 0x76) and second == 0x65:  # re ve
        return place + 3
    if first == 0x6C and second == 0x6C:  # ll
        return place + 3
    if long_s and data[place + 1] == 0xC5 and data[place + 2] == 0xBF:
        return place + 3
    return place


@kernel
def _white_space(
    classes: Bytes, data: Bytes, place: int, stop: int, newlines: bool, whole_tail: bool
) -> int:
    r"""Return the end of \s*[\r\n]+ (where ``newlines``), \s+(?!\S) or \s+ at ``place``."""
    start = last = place
    newline_end = -1
    while place < stop:
        kind, after = _class_at(classes, data, place)
        if kind & SPACE == 0:
            break
        if data[place] == _CR or data[place] == _LF:
            newline_end = after
        last = place
        place = after
    if place == stop and whole_tail:
        return place
    if newlines and newline_end >= 0:
        return newline_end
    if place == stop or last == start:
        return place
    return last


@kernel
def _word(classes: Bytes, data: Bytes, place: int, stop: int) -> tuple[int, int]:
    """Follow UPPER* LOWER+ and UPPER+ LOWER* from ``place``.

    Returns:
        The end of the first, with its backtracking, and of the second; -1 where there is no match.
    """
    start = place
    both_end = -1
    while place < stop:
        kind, after = _class_at(classes, data, place)
        if kind & UPPER == 0:
            break
        place = after
        if kind & LOWER:
            both_end = place
    end = _run(classes, data, place, stop, LOWER)
    if end > place:
        return end, end if place > start else -1
    return both_end, place if place > start else -1


@kernel
def _o200k_word(rules: Int64s, classes: Bytes, data: Bytes, place: int, stop: int) -> int:
    """Return the end of the two word alternatives of o200k, or -1."""
    kind, after = _class_at(classes, data, place)
    with_prefix = lower_prefix = -1
    byte = data[place]
    if kind & (LETTER | NUMBER) == 0 and byte != _CR and byte != _LF:
        lower_prefix, with_prefix = _word(classes, data, after, stop)
    lower, upper = _word(classes, data, place, stop)
    end = lower_prefix
    if end < 0:
        end = lower
    if end < 0:
        end = with_prefix
    if end < 0:
        end = upper
    if end < 0:
        return -1
    return int(_contraction(data, end, stop, True, rules[_LONG_S] != 0))


@kernel
def _gpt2_end(classes: Bytes, data: Bytes, place: int, stop: int) -> int:
    """Return the end of the pre-token at ``place`` for the shape of GPT-2."""
    end = _contraction(data, place, stop, False, False)
    if end > place:
        return int(end)
    first = place
    if data[place] == _BLANK and place + 1 < stop:
        first = place + 1
    kind, after = _class_at(classes, data, first)
    for mask in (LETTER, NUMBER, OTHER):
        if kind & mask:
            return int(_run(classes, data, after, stop, mask))
    return int(_white_space(classes, data, place, stop, False, False))


@kernel
def _cl100k_word(rules: Int64s, classes: Bytes, data: Bytes, place: int, stop: int) -> int:
    """Return the end of the contraction or word alternatives of cl100k, or -1."""
    end = _contraction(data, place, stop, True, rules[_LONG_S] != 0)
    if end > place:
        return int(end)
    kind, after = _class_at(classes, data, place)
    byte = data[place]
    if kind & LETTER == 0:
        if kind & NUMBER or byte in (_CR, _LF) or after == stop:
            return -1
        kind, after = _class_at(classes, data, after)
        if kind & LETTER == 0:
            return -1
    return int(_run(classes, data, after, stop, LETTER))


@kernel
def _number_end(rules: Int64s, classes: Bytes, data: Bytes, place: int, stop: int) -> int:
    r"""Return the end of \p{N}{1,digits}, or ``place``."""
    digits = 0
    while digits < rules[_DIGITS] and place < stop:
        kind, after = _class_at(classes, data, place)
        if kind & NUMBER == 0:
            break
        place = after
        digits += 1
    return place


@kernel
def pre_token_end(rules: Int64s, classes: Bytes, data: Bytes, place: int, stop: int) -> int:
    """Return the end of the pre-token that begins at ``place`` of a text that ends at ``stop``."""
    shape = rules[_SHAPE]
    if shape == _GPT2:
        return int(_gpt2_end(classes, data, place, stop))
    if shape == _O200K:
        end = _o200k_word(rules, classes, data, place, stop)
    else:
        end = _cl100k_word(rules, classes, data, place, stop)
    if end >= 0:
        return int(end)
    end = _number_end(rules, classes, data, place, stop)
    if end > place:
        return int(end)
    first = place + 1 if data[place] == _BLANK and place + 1 < stop else place
    end = _run(classes, data, first, stop, OTHER)
    if end == first:
        return int(_white_space(classes, data, place, stop, True, rules[_WHOLE_TAIL] != 0))
    while end < stop:
        byte = data[end]
        if byte != _CR and byte != _LF and not (shape == _O200K and byte == _SLASH):
            break
        end += 1
    return int(end)


@kernel
def pre_token_ends(splitter: Splitter, data: Bytes, offsets: Int64s, ends: Int64s) -> int:
    """Write the ends of all pre-tokens of some documents; return their number."""
    count = 0
    rules, classes = splitter.rules, splitter.classes
    for document in range(len(offsets) - 1):
        place, stop = offsets[document], offsets[document + 1]
        while place < stop:
            place = pre_token_end(rules, classes, data, place, stop)
            ends[count] = place
            count += 1
    return count


@inlined_kernel
def _joins(
    joins: Int64s, lefts: Int32s, rights: Int32s, parts: Bytes, first: int, second: int
) -> bool:
    """Whether some merge may bring two characters together."""
    joined = True
    if first < len(lefts) and second < len(rights):
        joined = parts[lefts[first], rights[second]] != 0
        if not joined:
            key = first << 21 | second
            mask = np.uint64(len(joins) - 1)
            slot = np.uint64(slot_of(key, len(joins)))
            while joins[slot] != key and joins[slot] != -1:
                slot = (slot + np.uint64(1)) & mask
            joined = joins[slot] == key
    return joined


@kernel
def span_hash(data: Bytes, start: int, stop: int) -> int:
    """Return a hash, not negative, of a span of at most MAX_SPAN_BYTES."""
    low, high = span_key(data, start, stop)
    return int(np.int64((hash_words(low, high) + np.uint64(stop - start)) >> np.uint64(1)))


@kernel
def _is_whole(whole: Int64s, data: Bytes, start: int, stop: int) -> bool:
    """Whether the hash of a span is in the set."""
    if stop - start > MAX_SPAN_BYTES:
        return False
    key = span_hash(data, start, stop)
    slot = slot_of(key, len(whole))
    while whole[slot] != key and whole[slot] != -1:
        slot = (slot + 1) & (len(whole) - 1)
    return bool(whole[slot] == key)


@inlined_kernel
def _ascii_word_end(data: Bytes, place: int, stop: int, cased: bool) -> int:
    """Return the end of a pre-token of a blank, if any, and ASCII letters alone, else ``place``.

    This is what the patterns give for most of the text of most languages: a run of letters (with
    ``cased``: upper case, then lower case) that ends before other ASCII, and before no contraction.
    """
    word = place
    if data[place] == _BLANK:
        word += 1
    end = word
    if cased:
        while end < stop and np.uint64(data[end] - 0x41) < np.uint64(26):
            end += 1
        while end < stop and np.uint64(data[end] - 0x61) < np.uint64(26):
            end += 1
    else:
        while end < stop and np.uint64((data[end] | 0x20) - 0x61) < np.uint64(26):
            end += 1
    if end == word or (end < stop and (data[end] >= 0x80 or (cased and data[end] == _APOSTROPHE))):
        end = place
    return end


@kernel
def find_splits(splitter: Splitter, data: Bytes, place: int, stop: int, ends: Int64s) -> int:
    """Find the next spans: pre-tokens, and their parts between two safe cuts.

    Cuts are looked for beside characters outside ASCII only: the letters of ASCII nearly all join.

    Args:
        splitter: the pattern.
        data: UTF-8.
        place: first byte of the first span; where a pre-token begins.
        stop: end of the document.
        ends: int64, written: the ends of spans, as many as fit.

    Returns:
        The number of spans found, 1 or more; the last one ends where a pre-token ends.
    """
    count = kept = 0
    limit = len(ends)
    rules, classes, joins = splitter.rules, splitter.classes, splitter.joins
    lefts, rights, parts = splitter.lefts, splitter.rights, splitter.parts
    whole = splitter.whole
    has_whole = len(whole) > 0
    cased = rules[_SHAPE] == _O200K
    while place < stop and count < limit:
        end = _ascii_word_end(data, place, stop, cased)
        if end > place:
            place = end
            ends[count] = end
            count += 1
            kept = count
            continue
        start = place
        found_whole = False
        end = pre_token_end(rules, classes, data, place, stop)
        last, place = read_character(data, place)
        while place < end:
            byte = data[place]
            if byte < 0x80 and last < 0x80:
                last = int(np.int64(byte))
                place += 1
                continue
            point, after = read_character(data, place)
            if not _joins(joins, lefts, rights, parts, last, point):
                if count == limit:
                    break
                ends[count] = place
                count += 1
                if has_whole:
                    found_whole |= _is_whole(whole, data, start, place)
                    start = place
            last = point
            place = after
        if count == limit:
            if kept > 0:
                break
            count = 0  # a pre-token of more parts than fit stays one span
        if has_whole and count > kept and (found_whole or _is_whole(whole, data, start, end)):
            count = kept  # the parts' ids in the cache are those of whole pre-tokens
        place = end
        ends[count] = end
        count += 1
        kept = count
    return kept

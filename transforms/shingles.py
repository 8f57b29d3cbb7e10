"""Shingles: the set of n-grams of a document's tokens, each hashed to 64 bits.

The definition of a token (docs/near-duplicates.md), character by character:

* **word characters** are letters, marks, numbers and connector punctuation (general categories L, M,
  N and Pc); they enter by their full case folding (``str.casefold``);
* a word character of an **unspaced script** (Han, Hiragana, Katakana, Thai, Lao, Khmer, Myanmar) is
  a token of its own;
* **invisible** characters (category Cf but the zero width space, and variation selectors) count as
  if they were absent;
* every maximal run of the other word characters is a token; all else separates.

A document's shingles are the n-grams of its tokens. One with fewer tokens than n has one shingle,
its whole token sequence; one without tokens has none.
"""

import functools
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.kernel import kernel
from transforms.text import string_buffers

UNSPACED_SCRIPTS: tuple[tuple[int, int], ...] = (
    (0x0E00, 0x0E80),  # Thai
    (0x0E80, 0x0F00),  # Lao
    (0x1000, 0x10A0),  # Myanmar
    (0x1780, 0x1800),  # Khmer
    (0x3005, 0x3008),  # Han: iteration and closing mark, zero
    (0x3021, 0x302A),  # Han: Hangzhou numerals
    (0x3031, 0x303D),  # Kana repeat marks, Han numerals and iteration mark
    (0x3040, 0x3100),  # Hiragana, Katakana
    (0x31F0, 0x3200),  # Katakana extensions
    (0x3400, 0x4DC0),  # Han
    (0x4E00, 0xA000),  # Han
    (0xA9E0, 0xAA00),  # Myanmar Extended-B
    (0xAA60, 0xAA80),  # Myanmar Extended-A
    (0xF900, 0xFB00),  # Han compatibility
    (0xFF66, 0xFFA0),  # halfwidth Katakana
    (0x1AFF0, 0x1B170),  # Kana extensions, supplement, hentaigana
    (0x20000, 0x40000),  # Han, planes 2 and 3, whatever is assigned there
)
"""Ranges of code points, ends excluded; only word characters in them are tokens."""

INVISIBLE: tuple[tuple[int, int], ...] = (
    (0x180B, 0x1810),
    (0xFE00, 0xFE10),
    (0xE0000, 0xE1000),
)
"""Variation selectors and tags, ends excluded; the other invisible characters are category Cf."""

ZERO_WIDTH_SPACE = 0x200B

_TABLE_END = 0x20000
"""Characters from here on are of one kind per range."""
SKIP, SINGLE, LONG = 1 << 24, 1 << 25, 1 << 26
"""Flags in the table of characters: see :func:`token_table`."""
CODE = (1 << 21) - 1
"""The bits of an entry that hold a character, or the number of a row of expansions."""

_LONG_TEXT = 1 << 20
"""Texts of more bytes are counted before room is made for their tokens."""

START = np.uint64(0xCBF29CE484222325)
PRIME = np.uint64(0x100000001B3)
_BASE = np.uint64(0x9E3779B97F4A7C15)
_SHORT = np.uint64(0xD6E8FEB86659FD93)

Offsets = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class ShingleSets:
    """The shingle sets of some documents, one after the other."""

    offsets: Offsets
    """Where each set begins and the last one ends, shape [documents + 1]."""
    values: Hashes
    """Hashes, ascending and distinct within a set, shape [offsets[-1]]."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> Offsets:
        """Number of distinct shingles of each document, shape [documents]."""
        return np.diff(self.offsets)


def shingle_sets(texts: pa.StringArray, ngram: int) -> ShingleSets:
    """Return the shingle sets of texts; no Python strings are made.

    Memory is that of the result and some 20 bytes per token of the longest text.

    Args:
        texts: valid UTF-8; nulls read as empty.
        ngram: tokens per shingle, at least 1.
    """
    offsets, data = string_buffers(texts)
    table, expansions = token_table()
    lengths = np.diff(offsets)
    # Every token but those of unspaced scripts, which take three bytes, is followed by a separator.
    room = np.where(lengths > _LONG_TEXT, 0, lengths // 2 + 1)
    for place in np.flatnonzero(lengths > _LONG_TEXT):
        room[place] = _count_tokens(data, offsets[place], offsets[place + 1], table)
    capacity = int(room.max(initial=1))
    found, values, used = _sets(offsets, data, table, expansions, ngram, capacity)
    return ShingleSets(found, values[:used])


def token_hashes(texts: pa.StringArray) -> tuple[Offsets, Hashes]:
    """Return the hash of each token of texts, in the order of the text.

    Args:
        texts: valid UTF-8; nulls read as empty.

    Returns:
        [texts + 1] where each text's tokens begin and the last one's end, and the hashes.
    """
    offsets, data = string_buffers(texts)
    table, expansions = token_table()
    # A token of its own takes two bytes at least, any other one is followed by a separator.
    room = int(offsets[-1] - offsets[0]) // 2 + len(texts) + 1
    tokens = np.empty(room, np.uint64)
    found = np.zeros(len(texts) + 1, np.int64)
    _all_tokens(offsets, data, table, expansions, found, tokens)
    return found, tokens[: found[-1]]


def text_blocks(texts: pa.ChunkedArray, size: int = 4 << 20) -> Iterator[pa.StringArray]:
    """Yield texts in blocks of about ``size`` bytes each, so that their shingles stay in cache."""
    for chunk in texts.chunks:
        offsets, _ = string_buffers(chunk)
        start = 0
        while start < len(chunk):
            end = int(np.searchsorted(offsets, offsets[start] + size, side="right")) - 1
            end = min(max(end, start + 1), len(chunk))
            yield chunk.slice(start, end - start)
            start = end


@functools.cache
def token_table() -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Return what each character below U+20000 is to tokens.

    Returns:
        int32 [0x20000]: 0 for separators, else the folded character with flags: skipped, a token of
        its own, or (with the number of a row of the second array) folded to several characters; and
        int32 [n, 3] with those, filled up with -1.
    """
    table = np.zeros(_TABLE_END, np.int32)
    rows: list[list[int]] = []
    for low, high in _FOLDED_BLOCKS:
        for code in range(low, high):
            character = chr(code)
            category = unicodedata.category(character)
            if category == "Cf" and code != ZERO_WIDTH_SPACE:
                table[code] = SKIP
            elif category[0] in "LMN" or category == "Pc":
                folded = [ord(c) for c in character.casefold()]
                if len(folded) == 1:
                    table[code] = folded[0]
                else:
                    table[code] = LONG | len(rows)
                    rows.append(folded + [-1] * (3 - len(folded)))
    for low, high in _PLAIN_BLOCKS:
        table[low:high] = np.arange(low, high)
    for low, high in UNSPACED_SCRIPTS:
        part = table[low : min(high, _TABLE_END)]
        part[(part & CODE) != 0] |= SINGLE
    for low, high in INVISIBLE:
        table[low : min(high, _TABLE_END)] = SKIP
    expansions = np.array(rows, np.int32)
    table.flags.writeable = expansions.flags.writeable = False
    return table, expansions


_PLAIN_BLOCKS = ((0x3400, 0x4DC0), (0x4E00, 0xA000), (0xAC00, 0xD7A4))
"""Ideographs and Hangul syllables: word characters that fold to themselves."""
_FOLDED_BLOCKS = (
    (0x0, 0x3400),
    (0xA000, 0xAC00),
    (0xD7A4, 0xD800),
    (0xF900, _TABLE_END),
)
"""All other characters below the end of the table but surrogates, private use and hexagrams."""


@kernel
def decode_character(data: npt.NDArray[np.uint8], place: int) -> tuple[int, int]:
    """Return the character that starts at ``place``, and the place after it."""
    lead = int(data[place])
    if lead < 0x80:
        return lead, place + 1
    second = int(data[place + 1]) & 0x3F
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | second, place + 2
    third = int(data[place + 2]) & 0x3F
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | second << 6 | third, place + 3
    fourth = int(data[place + 3]) & 0x3F
    return (lead & 0x07) << 18 | second << 12 | third << 6 | fourth, place + 4


@kernel
def character_entry(code: int, table: npt.NDArray[np.int32]) -> int:
    """Return the entry of a character: of the table, or by its plane."""
    if code < _TABLE_END:
        return int(table[code])
    if code < 0x40000:
        return SINGLE | code
    if 0xE0000 <= code < 0xE1000:
        return SKIP
    return 0


@kernel
def mixed_bits(state: np.uint64) -> np.uint64:
    """Mix the bits of a hash (finalizer of MurmurHash3)."""
    state = (state ^ (state >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    state = (state ^ (state >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return state ^ (state >> np.uint64(33))


@numba.njit(cache=True, nogil=True)
def _count_tokens(
    data: npt.NDArray[np.uint8], start: int, end: int, table: npt.NDArray[np.int32]
) -> int:
    """Return the number of tokens of one text."""
    count, inside, place = 0, False, start
    while place < end:
        code, place = decode_character(data, place)
        entry = character_entry(code, table)
        if entry & SKIP:
            continue
        single = entry & SINGLE
        if single or (entry and not inside):
            count += 1
        inside = entry != 0 and not single
    return count


@numba.njit(cache=True, nogil=True)
def _tokens(
    data: npt.NDArray[np.uint8],
    start: int,
    end: int,
    table: npt.NDArray[np.int32],
    expansions: npt.NDArray[np.int32],
    out: Hashes,
) -> int:
    """Write the hash of each token of one text; return their number."""
    count, inside, place, state = 0, False, start, START
    while place < end:
        code = int(data[place])
        if code < 0x80:
            place += 1
            entry = int(table[code])
        else:
            code, place = decode_character(data, place)
            entry = character_entry(code, table)
            if entry & SKIP:
                continue
        if entry == 0 or entry & SINGLE:
            if inside:
                out[count] = mixed_bits(state)
                count += 1
                inside = False
                state = START
            if entry:
                out[count] = mixed_bits((START ^ np.uint64(entry & CODE)) * PRIME)
                count += 1
        elif entry & LONG:
            inside = True
            for part in expansions[entry & CODE]:
                if part >= 0:
                    state = (state ^ np.uint64(part)) * PRIME
        else:
            inside = True
            state = (state ^ np.uint64(entry)) * PRIME
    if inside:
        out[count] = mixed_bits(state)
        count += 1
    return count


@numba.njit(cache=True, nogil=True)
def _all_tokens(
    offsets: Offsets,
    data: npt.NDArray[np.uint8],
    table: npt.NDArray[np.int32],
    expansions: npt.NDArray[np.int32],
    found: Offsets,
    out: Hashes,
) -> None:
    """Write the hash of each token of all texts, and where each text's tokens end."""
    used = 0
    for text in range(len(offsets) - 1):
        used += _tokens(data, offsets[text], offsets[text + 1], table, expansions, out[used:])
        found[text + 1] = used


@numba.njit(cache=True, nogil=True)
def _ngrams(tokens: Hashes, count: int, ngram: int, out: Hashes) -> int:
    """Write the hash of each n-gram; return their number.

    A rolling polynomial over the token hashes modulo 2^64, then a finalizer.
    """
    if count == 0:
        return 0
    state = np.uint64(0)
    if count < ngram:
        state = _SHORT ^ np.uint64(count)
        for k in range(count):
            state = (state ^ tokens[k]) * _BASE
            state ^= state >> np.uint64(29)
        out[0] = mixed_bits(state)
        return 1
    leaving = np.uint64(1)
    for _ in range(ngram):
        leaving *= _BASE
    for k in range(ngram):
        state = state * _BASE + tokens[k]
    out[0] = mixed_bits(state)
    for k in range(ngram, count):
        state = state * _BASE + tokens[k] - tokens[k - ngram] * leaving
        out[k - ngram + 1] = mixed_bits(state)
    return count - ngram + 1


@numba.njit(cache=True, nogil=True)
def _sort_unique(values: Hashes, n: int, out: Hashes, counts: npt.NDArray[np.int32]) -> int:
    """Write the distinct values in ascending order; return their number.

    Hashes are uniform, so one pass over as many buckets as values leaves an insertion sort with
    next to nothing to do, in expected linear time.
    """
    bits = 1
    while (1 << bits) < n:
        bits += 1
    shift = np.uint64(64 - bits)
    counts[: (1 << bits) + 1] = 0
    for k in range(n):
        counts[np.int64(values[k] >> shift) + 1] += 1
    for k in range(1 << bits):
        counts[k + 1] += counts[k]
    for k in range(n):
        bucket = np.int64(values[k] >> shift)
        out[counts[bucket]] = values[k]
        counts[bucket] += 1
    distinct = 0
    for k in range(n):
        value = out[k]
        place = distinct
        while place > 0 and out[place - 1] > value:
            place -= 1
        if place > 0 and out[place - 1] == value:
            continue
        for moved in range(distinct, place, -1):
            out[moved] = out[moved - 1]
        out[place] = value
        distinct += 1
    return distinct


@numba.njit(cache=True, nogil=True)
def _sets(
    offsets: Offsets,
    data: npt.NDArray[np.uint8],
    table: npt.NDArray[np.int32],
    expansions: npt.NDArray[np.int32],
    ngram: int,
    capacity: int,
) -> tuple[Offsets, Hashes, int]:
    """Return where each text's set begins, the sets, and how much of their array is used."""
    n = len(offsets) - 1
    tokens, grams = np.empty(capacity, np.uint64), np.empty(capacity, np.uint64)
    counts = np.empty(2 * capacity + 2, np.int32)
    found = np.zeros(n + 1, np.int64)
    values = np.empty(max(capacity, (offsets[n] - offsets[0]) // 6), np.uint64)
    used = 0
    for text in range(n):
        count = _tokens(data, offsets[text], offsets[text + 1], table, expansions, tokens)
        count = _ngrams(tokens, count, ngram, grams)
        if used + count > len(values):
            larger = np.empty(max(used + count, 2 * len(values)), np.uint64)
            larger[:used] = values[:used]
            values = larger
        if count:
            used += _sort_unique(grams, count, values[used:], counts)
        found[text + 1] = used
    return found, values, used

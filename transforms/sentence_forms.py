"""The form of a sentence: what two sentences must have in common to count as one.

A form is a sequence of characters: words and numbers by full case folding, white space and
punctuation between two words as one space, ideographs one by one (what is a word or an ideograph:
:mod:`transforms.shingles`). A word with a digit in it, the name of a month or a weekday, and any run
of those, is ``0``. A line that begins with a label of a page's frame (``上一篇：``, ``Posted by``)
and ends without a full stop is that label and ``*``. A number between two dashes on a line of its
own, as pages are numbered, is ``-0-``.
"""

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.sentence_characters import Bytes, Int64s
from transforms.sentence_split import Units
from transforms.sentence_words import DATE_WORDS, LABELS, LABELS_WITHOUT_COLON, phrases
from transforms.shingles import (
    CODE,
    LONG,
    PRIME,
    SINGLE,
    SKIP,
    START,
    Hashes,
    decode_character,
    mixed_bits,
    token_table,
)

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Forms:
    """The forms of some units."""

    hashes: Hashes
    """64 bits of each form, 0 for units without any word; shape [units]."""
    sizes: npt.NDArray[np.int32]
    """Characters of each form, likewise."""
    weights: npt.NDArray[np.int32]
    """The same with each ideograph counted twice."""
    chars: npt.NDArray[np.int32]
    """Characters of each unit, likewise."""
    labelled: npt.NDArray[np.bool_]
    """Whether the form stops after a label, likewise."""


def unit_forms(units: Units) -> Forms:
    """Return the forms of units."""
    table, expansions = token_table()
    return Forms(*_forms(units.data, units.places, table, expansions, *word_tables()))


@functools.cache
def word_tables() -> tuple[Hashes, Hashes, Hashes]:
    """Return the hashes of the words of dates, and of the labels with and without a colon."""
    dates = [code_hash(word) for word in DATE_WORDS]
    labels = [code_hash(label) for label in phrases(LABELS)]
    bare = [code_hash(label) for label in phrases(LABELS_WITHOUT_COLON)]
    first, second, third = (np.sort(np.array(x, np.uint64)) for x in (dates, labels, bare))
    return first, second, third


def code_hash(text: str) -> int:
    """Return the hash of a text's characters, as kernels compute it."""
    return int(_hash(np.array([ord(c) for c in text], np.int32), 0, len(text)))


@kernel
def _hash(codes: Codes, start: int, end: int) -> np.uint64:
    state = START
    for place in range(start, end):
        state = (state ^ np.uint64(codes[place])) * PRIME
    return mixed_bits(state)


@kernel
def is_in(known: Hashes, value: np.uint64) -> bool:
    """Say whether an ascending array has a value."""
    place = np.searchsorted(known, value)
    return bool(place < len(known) and known[place] == value)


@kernel
def _close_word(codes: Codes, word: int, used: int, digit: bool, dates: Hashes) -> int:
    """End the word that begins at ``word``; return the number of characters then."""
    if not digit and 2 <= used - word <= 9:
        digit = is_in(dates, _hash(codes, word, used))
    if not digit:
        return used
    if word >= 2 and codes[word - 1] == 32 and codes[word - 2] == 48:
        return word - 1
    if word >= 1 and codes[word - 1] == 48:
        return word
    codes[word] = 48
    return word + 1


@kernel
def _is_page_number(data: Bytes, start: int, end: int) -> bool:
    """Say whether digits, of which a line's form is made, stand between two dashes or bars."""
    first, last = data[start], data[end - 1]
    if first == 45 or first == 124 or first == 126:  # - | ~
        return bool(last == first and end - start >= 3)
    if end - start < 7 or first != 0xE2 or data[end - 3] != 0xE2:
        return False
    # The dashes from U+2010 to U+2015.
    return bool(
        data[start + 1] == 0x80 == data[end - 2]
        and 0x90 <= data[start + 2] <= 0x95
        and 0x90 <= last <= 0x95
    )


@kernel
def _form(  # noqa: C901
    data: Bytes,
    start: int,
    end: int,
    table: npt.NDArray[np.int32],
    expansions: npt.NDArray[np.int32],
    dates: Hashes,
    labels: Hashes,
    bare: Hashes,
    labelled: bool,
    codes: Codes,
) -> tuple[int, bool]:
    """Write a unit's form; return its characters, and whether it stops after a label."""
    used, word, inside, digit, gap, place = 0, 0, False, False, False, start
    while place < end:
        code = int(data[place])
        if code < 0x80:
            place += 1
        else:
            code, place = decode_character(data, place)
        entry = 0
        if code < len(table):
            entry = int(table[code])
        elif code < 0x40000:
            entry = SINGLE | code
        if entry & SKIP:
            continue
        if entry and not entry & SINGLE:
            if not inside:
                if gap and used and codes[used - 1] < 0x2E80:
                    codes[used] = 32
                    used += 1
                inside, digit, word = True, False, used
            if entry & LONG:
                for part in expansions[entry & CODE]:
                    if part >= 0:
                        codes[used] = part
                        used += 1
            else:
                codes[used] = entry
                digit = digit or 48 <= entry <= 57
                used += 1
            gap = False
            continue
        if inside:
            used = _close_word(codes, word, used, digit, dates)
            inside = False
            gap = True
            if labelled and used <= 24 and code == 32 and is_in(bare, _hash(codes, 0, used)):
                codes[used] = 42
                return used + 1, True
        if entry:
            codes[used] = entry & CODE
            used += 1
            gap = False
        else:
            gap = True
            if (
                labelled
                and 0 < used <= 24
                and (
                    ((code == 58 or code == 0xFF1A) and is_in(labels, _hash(codes, 0, used)))
                    or (code == 32 and is_in(bare, _hash(codes, 0, used)))
                )
            ):
                codes[used] = 42
                return used + 1, True
    if inside:
        used = _close_word(codes, word, used, digit, dates)
    while used and codes[used - 1] == 32:
        used -= 1
    if labelled and used == 1 and codes[0] == 48 and _is_page_number(data, start, end):
        codes[0], codes[1], codes[2] = 45, 48, 45
        return 3, True
    return used, False


@kernel
def plain_form(
    data: Bytes,
    start: int,
    end: int,
    table: npt.NDArray[np.int32],
    expansions: npt.NDArray[np.int32],
    dates: Hashes,
    labels: Hashes,
    bare: Hashes,
    codes: Codes,
) -> int:
    """Write the form of a text that stops after no label; return its characters."""
    used, _ = _form(data, start, end, table, expansions, dates, labels, bare, False, codes)
    return used


@kernel
def _is_final(data: Bytes, end: int) -> bool:
    """Say whether a unit ends with a sign that ends sentences."""
    last = data[end - 1]
    if last == 46 or last == 33 or last == 63:
        return True
    return bool(last == 0x82 and data[end - 2] == 0x80 and data[end - 3] == 0xE3)


@kernel
def _room(places: Int64s) -> int:
    room = 0
    for unit in range(len(places)):
        room = max(room, places[unit, 2] - places[unit, 1])
    # Some letters fold to three characters; none of those takes a single byte.
    return 3 * room + 8


@kernel
def _may_be_labelled(data: Bytes, places: Int64s, unit: int) -> bool:
    """Say whether a unit is a line, but for spaces and bullets, without a full stop at its end."""
    start, end = places[unit, 1], places[unit, 2]
    if end - start > 360 or _is_final(data, end):
        return False
    if unit and places[unit - 1, 3] == places[unit, 3]:
        return False
    return not (unit + 1 < len(places) and places[unit + 1, 3] == places[unit, 3])


@kernel
def _forms(
    data: Bytes,
    places: Int64s,
    table: npt.NDArray[np.int32],
    expansions: npt.NDArray[np.int32],
    dates: Hashes,
    labels: Hashes,
    bare: Hashes,
) -> tuple[Hashes, Codes, Codes, Codes, npt.NDArray[np.bool_]]:
    n = len(places)
    hashes, sizes = np.zeros(n, np.uint64), np.zeros(n, np.int32)
    weights, chars = np.zeros(n, np.int32), np.zeros(n, np.int32)
    marks = np.zeros(n, np.bool_)
    codes = np.empty(_room(places), np.int32)
    for unit in range(n):
        start, end = places[unit, 1], places[unit, 2]
        used, marks[unit] = _form(
            data, start, end, table, expansions, dates, labels, bare,
            _may_be_labelled(data, places, unit), codes,
        )  # fmt: skip
        sizes[unit] = weights[unit] = used
        for k in range(used):
            weights[unit] += codes[k] >= 0x2E80
        if used:
            hashes[unit] = max(_hash(codes, 0, used), np.uint64(1))
        count = 0
        for place in range(start, end):
            count += (data[place] & 0xC0) != 0x80
        chars[unit] = count
    return hashes, sizes, weights, chars, marks

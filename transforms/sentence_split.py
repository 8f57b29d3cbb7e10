"""Where sentences begin and end, in English, Chinese and text that mixes them.

The rule (docs/sentences.md), line by line; a sentence never goes over the end of a line:

* a run of ``. ! ? 。 ！ ？ …`` and of closing quotes and brackets after it may end a sentence;
* with one of ``。 ！ ？ ｡`` in it, it does;
* else it does before the end of the line, before an ideograph that follows without a space (where a
  full stop follows one, too), and before white space unless a lower-case letter comes next;
* a single full stop does not end one after a known abbreviation, an initial (``J.``), an
  abbreviation with full stops inside (``U.S.``), or the number that begins a line (``1.``).

Lines that are code or structure have no sentences: fenced or indented by four columns, rows of
tables, Markdown headings and titles underlined by a line of signs, comments and shebangs, prompts of
Python (``>>>``, ``...``), decorators, and lines with back quotes, braces, empty calls, tags, or a
semicolon at their end.
"""

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.kernel import kernel
from transforms.sentence_characters import Bytes, Int64s, char_flags, flags_of
from transforms.sentence_code import fence_sign, is_code, is_table_rule, is_underline, trimmed
from transforms.sentence_words import ABBREVIATIONS
from transforms.shingles import PRIME, START, decode_character
from transforms.text import string_buffers

COLUMNS = 6
"""Of a sentence: text, first byte, end, first byte of its line, end of its line (no line feed), and
1 where it goes on in the next line or began in the one before, else 0."""


@dataclass(frozen=True, slots=True)
class Units:
    """The sentences (or lines) of some texts, in their order."""

    offsets: Int64s
    """Where the units of each text begin and the last ones end, shape [texts + 1]."""
    places: Int64s
    """shape [units, COLUMNS]; bytes are counted in ``data``."""
    data: Bytes
    """Bytes of the texts."""

    def __len__(self) -> int:
        return len(self.places)


def split_units(texts: pa.StringArray, *, sentences: bool = True) -> Units:
    """Split texts into sentences, or into their lines; no Python strings are made.

    Args:
        texts: valid UTF-8; nulls read as empty.
        sentences: whether lines are split.
    """
    offsets, data = string_buffers(texts)
    found, places, used = _split(offsets, data, char_flags(), _abbreviations(), sentences)
    return Units(found, places[:used], data)


@functools.cache
def _abbreviations() -> npt.NDArray[np.uint64]:
    """Return the hashes of the abbreviations, ascending."""
    return np.sort(np.array([_ascii_hash(word.encode()) for word in ABBREVIATIONS], np.uint64))


def _ascii_hash(word: bytes) -> int:
    state = int(START)
    for byte in word:
        state = (state ^ byte) * int(PRIME) & 0xFFFFFFFFFFFFFFFF
    return state


@kernel
def _is_abbreviation(
    data: Bytes, start: int, stop: int, line: int, known: npt.NDArray[np.uint64]
) -> bool:
    """Say whether the full stop at ``stop`` belongs to what stands before it.

    ``start`` is where the sentence begins, ``line`` where the text of its line does.
    """
    word = stop
    dots = digits = letters = 0
    while word > start:
        byte = data[word - 1]
        if byte == 46:  # .
            dots += 1
        elif 48 <= byte <= 57:
            digits += 1
        elif 65 <= (byte & 0xDF) <= 90:
            letters += 1
        else:
            break
        word -= 1
    if word == stop or (word > start and data[word - 1] >= 0x80):
        return False
    length = stop - word
    if digits == length:
        return word == line  # the number of a list's item
    if dots:
        # U.S, e.g, 3.1.2: single letters between the stops.
        return digits == 0 and letters <= dots + 1
    if letters == 1 and length == 1:
        return bool(65 <= data[word] <= 90 and data[word] != 73)  # but I
    if letters != length or length > 8:
        return False
    state = START
    for place in range(word, stop):
        state = (state ^ np.uint64(data[place] | 0x20)) * PRIME
    at = np.searchsorted(known, state)
    return bool(at < len(known) and known[at] == state)


@kernel
def _ends_here(
    data: Bytes,
    start: int,
    line: int,
    place: int,
    after: int,
    end: int,
    full: bool,
    single: bool,
    flags: Bytes,
    known: npt.NDArray[np.uint64],
) -> bool:
    """Say whether the run of signs in [place, after) ends the sentence that begins at ``start``."""
    if full or after >= end:
        return True
    code, following = decode_character(data, after)
    flag = flags_of(code, flags)
    if not flag & 1:
        if code < 0x2E80:
            return False
        # 你好!再见 and 完了.再见, but No.一
        return not single or (place > start and data[place - 1] >= 0x80)
    while flag & 1 and following < end:
        code, following = decode_character(data, following)
        flag = flags_of(code, flags)
    if flag & 16:
        return False
    return not (single and _is_abbreviation(data, start, place, line, known))


@kernel
def _split_line(
    data: Bytes,
    text: int,
    line: int,
    start: int,
    end: int,
    line_end: int,
    flags: Bytes,
    known: npt.NDArray[np.uint64],
    out: Int64s,
    used: int,
) -> int:
    """Write the sentences of [start, end); return how many units there are then."""
    first, place = start, start
    while place < end:
        code, after = decode_character(data, place)
        flag = flags_of(code, flags)
        if not flag & 6:
            place = after
            continue
        full, single = flag & 4 != 0, code == 46
        while after < end:
            code, following = decode_character(data, after)
            flag = flags_of(code, flags)
            if not flag & 14:
                break
            full = full or flag & 4 != 0
            single = single and flag & 6 == 0
            after = following
        if _ends_here(data, first, start, place, after, end, full, single, flags, known):
            out[used] = (text, first, after, line, line_end, 0)
            used += 1
            while after < end:
                code, following = decode_character(data, after)
                if not flags_of(code, flags) & 1:
                    break
                after = following
            first = after
        place = after
    if first < end:
        out[used] = (text, first, end, line, line_end, 0)
        used += 1
    return used


@kernel
def _is_capitals(data: Bytes, start: int, end: int) -> bool:
    """Say whether a stretch begins with two capitals and has no small letter, in ASCII."""
    letters = 0
    for place in range(start, end):
        byte = data[place]
        if 97 <= byte <= 122:
            return False
        if letters < 2 and byte < 0x80 and byte != 40 and byte != 34 and byte != 39:
            if not 65 <= byte <= 90:
                return False
            letters += 1
    return letters == 2


@kernel
def _goes_on(data: Bytes, unit: Int64s, start: int, end: int, flags: Bytes) -> bool:
    """Say whether the line whose text is [start, end) goes on with the sentence before it.

    It does when it begins with a lower-case letter (behind opening brackets and quotes), or follows
    a comma, or both lines are in capitals; and the line before has 40 bytes or more, and no full
    stop or colon at its end. ``unit`` is the last sentence of the line before.
    """
    if unit[4] - unit[3] < 40:
        return False
    last = unit[2] - 1
    while last > unit[1] and (data[last] < 0x80 and flags[data[last]] & 8 and data[last] != 0x5F):
        last -= 1
    if data[last] < 0x80:
        if flags[data[last]] & 2 or data[last] == 58:
            return False
    elif data[last - 2] == 0xE3 or data[last - 2] == 0xEF:
        return False
    place = start
    while place < end and (
        data[place] == 40 or data[place] == 34 or data[place] == 39 or data[place] == 91
    ):
        place += 1
    if place == end:
        return False
    code, _ = decode_character(data, place)
    if flags_of(code, flags) & 16 != 0 or (data[last] == 44 and data[start] < 0x80):
        return True
    return _is_capitals(data, unit[1], unit[2]) and _is_capitals(data, start, end)


@kernel
def _split(  # noqa: C901
    offsets: Int64s, data: Bytes, flags: Bytes, known: npt.NDArray[np.uint64], sentences: bool
) -> tuple[Int64s, Int64s, int]:
    """Return where each text's units begin, the units, and how many there are."""
    texts = len(offsets) - 1
    found = np.zeros(texts + 1, np.int64)
    out = np.empty(((offsets[texts] - offsets[0]) // 32 + 16, 6), np.int64)
    used = 0
    for text in range(texts):
        line, stop = offsets[text], offsets[text + 1]
        fence = 0
        while line < stop:
            line_end = line
            while line_end < stop and data[line_end] != 10:
                line_end += 1
            start, end = line, line_end
            while start < end:
                code, after = decode_character(data, start)
                if not flags_of(code, flags) & 1:
                    break
                start = after
            end = trimmed(data, start, end)
            following = line_end + 1
            skip = start >= end
            # A sentence that is wrapped into two lines is whole in neither.
            goes_on = (
                not skip
                and used > found[text]
                and out[used - 1, 4] + 1 == line
                and _goes_on(data, out[used - 1], start, end, flags)
            )
            if goes_on:
                out[used - 1, 5] = 1
            if not skip:
                mark = fence_sign(data, start, end)
                if mark:
                    if fence == 0:
                        fence = mark
                    elif fence == mark:
                        fence = 0
                    skip = True
                skip = skip or fence != 0 or is_code(data, line, start, end)
                skip = skip or is_table_rule(data, start, end)
            if not skip and following < stop:
                under = following
                while under < stop and data[under] != 10:
                    under += 1
                # A rule across the page is no title's.
                skip = is_table_rule(data, following, under) or (
                    5 * (under - following) >= 4 * (end - start)
                    and is_underline(data, following, under)
                )
            if not skip:
                most = used + 1 + (end - start)
                if most > len(out):
                    larger = np.empty((2 * most, 6), np.int64)
                    larger[:used] = out[:used]
                    out = larger
                before = used
                if sentences:
                    used = _split_line(
                        data, text, line, start, end, line_end, flags, known, out, used
                    )
                else:
                    out[used] = (text, start, end, line, line_end, 0)
                    used += 1
                if goes_on:
                    out[before, 5] = 1
            line = following
        found[text + 1] = used
    return found, out, used

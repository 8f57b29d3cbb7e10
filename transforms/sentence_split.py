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
from transforms.sentence_words import ABBREVIATIONS
from transforms.shingles import PRIME, START, decode_character
from transforms.text import string_buffers

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

SPACE, STOP, FULL, CLOSER, LOWER, DIGIT = 1, 2, 4, 8, 16, 32
"""Flags of characters: white space, ``.!?…``, ``。！？``, closing quotes and brackets."""

_FLAGGED = 0x10000
_WIDE = 0x2E80
"""Ideographs, kana and their punctuation begin here."""

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
def char_flags() -> Bytes:
    """Return the flags of the characters below U+10000."""
    flags = np.zeros(_FLAGGED, np.uint8)
    for code in range(_FLAGGED):
        if 0xD800 <= code < 0xE000:
            continue
        character = chr(code)
        if character.isspace():
            flags[code] |= SPACE
        if code < _WIDE and character.islower():
            flags[code] |= LOWER
    for codes, flag in (
        (".!?…‼⁇⁈⁉", STOP),
        ("。！？｡︒", FULL),
        ("\"'”’»›)]}」』）】》〉〕］｝＂＇*_", CLOSER),
        ("0123456789", DIGIT),
    ):
        for character in codes:
            flags[ord(character)] |= flag
    flags.flags.writeable = False
    return flags


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
def flags_of(code: int, flags: Bytes) -> int:
    """Return the flags of a character."""
    return int(flags[code]) if code < 0x10000 else 0


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
def _is_table_rule(data: Bytes, start: int, end: int) -> bool:
    """Say whether a line parts the head of a Markdown table from its rows."""
    bars = 0
    for place in range(start, end):
        byte = data[place]
        if byte == 124:
            bars += 1
        elif not (byte == 45 or byte == 58 or byte == 32 or byte == 43):
            return False
    return bars > 0


@kernel
def _is_underline(data: Bytes, start: int, end: int) -> bool:
    """Say whether a line is three or more times one sign, as under a title."""
    while end > start and data[end - 1] == 32:
        end -= 1
    first = data[start] if start < end else 0
    if end - start < 3 or first not in (61, 45, 126, 94, 34, 42, 43, 35, 39, 46, 58, 96):
        return False
    for place in range(start + 1, end):  # noqa: SIM110
        if data[place] != first:
            return False
    return True


@kernel
def _trimmed(data: Bytes, start: int, end: int) -> int:
    """Return the end of a line's text: without spaces, no-break and ideographic ones included."""
    while end > start:
        last = data[end - 1]
        if last == 32 or 9 <= last <= 13:
            end -= 1
        elif last == 0xA0 and end - start >= 2 and data[end - 2] == 0xC2:
            end -= 2
        elif last == 0x80 and end - start >= 3 and data[end - 2] == 0x80 and data[end - 3] == 0xE3:
            end -= 3
        else:
            break
    return end


@kernel
def _fence(data: Bytes, start: int, end: int) -> int:
    """Return the sign of a code fence that a line begins with, or 0."""
    if end - start >= 3:
        first = data[start]
        if (first == 96 or first == 126) and data[start + 1] == first == data[start + 2]:
            return int(first)
    return 0


@kernel
def _is_prompt(data: Bytes, start: int, end: int) -> bool:
    """Say whether a line begins like an interactive session in Python, or is a decorator."""
    first = data[start]
    if (first == 62 or first == 46) and end - start >= 3:  # >>> and ...
        alike = data[start + 1] == first == data[start + 2]
        return bool(alike and (end - start == 3 or data[start + 3] == 32))
    if first != 64:  # @
        return False
    for place in range(start, end):
        if data[place] == 40:  # (
            return True
        if data[place] == 32:
            return False
    return end - start > 1


@kernel
def _is_code(data: Bytes, line: int, start: int, end: int) -> bool:  # noqa: C901
    """Say whether a line, whose text is [start, end), is code or structure."""
    if data[line] == 9 or start - line >= 4:
        # White space wider than a byte is how paragraphs begin elsewhere.
        wide = False
        for place in range(line, start):
            wide = wide or data[place] >= 0x80
        if not wide:
            return True
    first = data[start]
    if first in (124, 35, 36):  # | # $
        return True
    if first == 60 and data[end - 1] == 62:  # <...>
        return True
    if _is_prompt(data, start, end):
        return True
    if data[end - 1] == 59:  # ;
        return True
    for place in range(start, end):
        byte = data[place]
        if byte == 96 or byte == 123 or byte == 125:  # ` { }
            return True
        if place + 1 < end:
            after = data[place + 1]
            if byte == 40 and after == 41:  # ()
                return True
            if byte == 58 and after == 58:  # ::
                return True
            if byte == 60 and (after == 47 or after == 33):  # </ <!
                return True
            if byte == 47 and after == 62:  # />
                return True
            if byte == 61 and after == 61:  # ==
                return True
    return False


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
            end = _trimmed(data, start, end)
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
                mark = _fence(data, start, end)
                if mark:
                    if fence == 0:
                        fence = mark
                    elif fence == mark:
                        fence = 0
                    skip = True
                skip = skip or fence != 0 or _is_code(data, line, start, end)
                skip = skip or _is_table_rule(data, start, end)
            if not skip and following < stop:
                under = following
                while under < stop and data[under] != 10:
                    under += 1
                # A rule across the page is no title's.
                skip = _is_table_rule(data, following, under) or (
                    5 * (under - following) >= 4 * (end - start)
                    and _is_underline(data, following, under)
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

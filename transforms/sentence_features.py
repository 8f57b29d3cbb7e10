"""Features of a sentence by which prose is told from the frame of a page; each can be read."""

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.sentence_characters import Bytes, Int64s, char_flags, flags_of
from transforms.sentence_forms import code_hash
from transforms.sentence_lexicon import Kinds, Learnt, find, lexicon
from transforms.sentence_split import Units
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

Floats = npt.NDArray[np.float64]

_ZERO = np.uint64(code_hash("0"))


def features(units: Units, chosen: Int64s, labelled: npt.NDArray[np.bool_]) -> Floats:
    """Return the features of some units, shape [chosen, 25]; ``FEATURES`` says what they are."""
    table, _ = token_table()
    values: Floats = _features(
        units.data, units.places, chosen, labelled, table, char_flags(), *lexicon()
    )
    return values


@kernel
def _is_separator(code: int) -> bool:
    return code in (
        0x7C, 0x3E, 0x2F, 0xBB, 0xAB, 0xB7, 0x2022, 0x203A, 0x2190, 0x2192, 0x2191, 0x25B6, 0x25BA,
        0x25B8, 0x25CF, 0x2605, 0x2606, 0x25A0, 0x25C6, 0xFF5C, 0xFF0F, 0xFF1E, 0x30FB, 0x2013,
        0x2502, 0x2261, 0x2630,
    )  # fmt: skip


@kernel
def _opening(recent: Hashes, size: int) -> np.uint64:
    """Return the hash of the first ideographs of a sentence."""
    state = (START ^ np.uint64(94)) * PRIME
    for k in range(4 - size, 4):
        state = (state ^ recent[k]) * PRIME
    return mixed_bits(state)


@kernel
def _features(  # noqa: C901
    data: Bytes,
    places: Int64s,
    chosen: Int64s,
    labelled: npt.NDArray[np.bool_],
    table: npt.NDArray[np.int32],
    flags: Bytes,
    bits: Hashes,
    keys: Hashes,
    kinds: Kinds,
    learnt: Learnt,
) -> npt.NDArray[np.float64]:
    out = np.zeros((len(chosen), 25))
    # The last ideographs, and their places among those of the unit.
    recent = np.zeros(4, np.uint64)
    for number in range(len(chosen)):
        unit = chosen[number]
        place, end = places[unit, 1], places[unit, 2]
        words = functions = han = han_functions = cues = 0
        strong_words = weak_words = 0
        han_strong = han_weak = readers = 0
        han_covered = -1  # the last ideograph that belongs to a phrase found
        capitals = shouts = capital_ideal = 0
        signs = separators = commas = digits = visible = 0
        address = imperative = False
        last = before_last = third_last = 0
        run = 0  # ideographs since the last other character
        state, previous, joined = START, np.uint64(0), START
        inside = upper = lower = digit = False
        letters = 0
        previous_strong = False
        command = clock = heading = False
        counted = counters = 0  # words and ideographs of lines that count, and those that say what
        older, prior = 0, 0
        total = grams = 0  # of the lexicon
        opened, begun = START, START
        while place <= end:
            if place < end:
                code, place = decode_character(data, place)
            else:
                code, place = 32, end + 1
            clock = clock or (prior == 0x3A and 48 <= code <= 57 and 48 <= older <= 57)
            older, prior = prior, code
            entry = 0
            if code < len(table):
                entry = int(table[code])
            elif code < 0x40000:
                entry = SINGLE | code
            if entry & SKIP:
                continue
            flag = flags_of(code, flags)
            if entry and not entry & SINGLE:
                folded = np.uint64(code if entry & LONG else entry & CODE)
                if not inside:
                    inside, lower, digit, letters = True, False, False, 0
                    upper = np.uint64(code) != folded
                    state, begun = START, START
                    opened = (START ^ np.uint64(94)) * PRIME
                    joined = (previous ^ np.uint64(32)) * PRIME
                state = (state ^ folded) * PRIME
                joined = (joined ^ folded) * PRIME
                opened = (opened ^ folded) * PRIME
                letters += 1
                if letters == 5:
                    begun = state
                lower = lower or np.uint64(code) == folded
                digit = digit or flag & 32 != 0
                if flag & 32:
                    digits += 1
                visible += 1
                last, before_last, third_last = 0, last, before_last
                run = 0
                continue
            if inside:
                inside = False
                words += 1
                found = mixed_bits(state)
                two = mixed_bits(joined)
                place_of = find(bits, keys, found)
                kind = kinds[place_of]
                if digit or kind & 32:
                    place_of = find(bits, keys, _ZERO)
                total += learnt[place_of]
                grams += 1
                is_strong = kind & 4 != 0
                is_pair = False
                if words > 1:
                    pair = find(bits, keys, two)
                    is_pair = kinds[pair] & 16 != 0
                    total += learnt[pair]
                    grams += 1
                elif han == 0:
                    total += learnt[find(bits, keys, mixed_bits(opened))]
                    grams += 1
                if letters > 5 and not digit:
                    total += learnt[find(bits, keys, mixed_bits((begun ^ np.uint64(42)) * PRIME))]
                    grams += 1
                is_weak = not is_strong and kind & 8 != 0
                if is_pair:
                    # Both words of the pair count, the first one only once.
                    strong_words += 1 if previous_strong else 2
                    imperative = imperative or words == 2
                elif is_strong:
                    strong_words += 1
                elif is_weak:
                    weak_words += 1
                previous_strong = is_pair or is_strong
                if words == 1 and (is_strong or is_weak):
                    imperative = True
                heading = heading or (words == 1 and han == 0 and kind & 1024 != 0)
                command = command or (words == 1 and han == 0 and kind & 256 != 0)
                if digit or kind & 32 or kind & 512:
                    counted += 1
                    counters += kind & 513 == 512 and not digit
                if not (is_strong or is_pair) and kind & 1:
                    functions += 1
                elif not is_weak and words > 1:
                    capital_ideal += 1
                    if upper and not digit:
                        capitals += 1
                if kind & 64:
                    readers += 1
                if kind & 2:
                    cues += 1
                if letters > 1 and not lower and not digit:
                    shouts += 1
                if digit or kind & 32:
                    digits += 0 if digit else letters
                address = address or kind & 128 != 0
                previous = state
            if entry:
                single = np.uint64(entry & CODE)
                han += 1
                visible += 1
                run += 1
                recent[0], recent[1], recent[2], recent[3] = (
                    recent[1], recent[2], recent[3], single,
                )  # fmt: skip
                alone = mixed_bits((START ^ single) * PRIME)
                place_of = find(bits, keys, alone)
                kind = kinds[place_of]
                total += learnt[place_of]
                grams += 1
                if words == 0 and han <= 2 and run == han:
                    total += learnt[find(bits, keys, _opening(recent, han))]
                    grams += 1
                if kind & 64:
                    readers += 1
                if kind & 1:
                    han_functions += 1
                if kind & 2:
                    cues += 1
                if kind & 512:
                    counted += 1
                    counters += 1
                heading = heading or kind & 1024 != 0
                best, strength = 0, 0
                for size in range(2, min(run, 4) + 1):
                    state = START
                    for k in range(4 - size, 4):
                        state = (state ^ recent[k]) * PRIME
                    found = mixed_bits(state)
                    place_of = find(bits, keys, found)
                    kind = kinds[place_of]
                    if size < 4:
                        total += learnt[place_of]
                        grams += 1
                    if kind & 64:
                        readers += 1
                    heading = heading or kind & 1024 != 0
                    if kind & 4:
                        best, strength = size, 2
                    elif strength < 2 and kind & 8:
                        best, strength = size, 1
                if best:
                    new = min(best, han - 1 - han_covered)
                    han_covered = han - 1
                    if strength == 2:
                        han_strong += new
                    else:
                        han_weak += new
                    imperative = imperative or (words == 0 and han == best)
                last, before_last, third_last = 1, last, before_last
                continue
            run = 0
            if flag & 1:
                continue
            visible += 1
            if _is_separator(code):
                separators += 1
            elif code in (0x2C, 0x3B, 0xFF0C, 0x3001, 0xFF1B):
                commas += 1
            elif code == 0x40 or code == 0xA9:
                address = True
                signs += 1
            elif not (
                flag & 14
                or code
                in (
                    0x27,
                    0x2D,
                    0x28,
                    0x2014,
                    0x2018,
                    0x201C,
                    0x300C,
                    0x300A,
                    0xFF08,
                    0x3A,
                    0xFF1A,
                    0x2E,
                    0x2019,
                )
            ):
                signs += 1  # fmt: skip
            if not flag & 8 or code == 0xBB or code == 0x203A:
                last, before_last, third_last = code, last, before_last
        tokens = words + han / 1.7
        if tokens == 0:
            continue
        last_flag = flags_of(last, flags) if last > 1 else 0
        dots = last == 46 and before_last == 46 and third_last == 46
        final = last_flag & 6 != 0 and not dots
        frame_strong = strong_words + han_strong / 2.0
        frame_weak = weak_words + han_weak / 2.0
        frame = min(6.0, 2 * frame_strong + frame_weak)
        row = out[number]
        row[0] = 1
        row[1] = final
        row[2] = (words / tokens) * min(1.0, functions / max(words, 1) / 0.4) + (
            1 - words / tokens
        ) * min(1.0, han_functions / max(han, 1) / 0.12)
        row[3] = min(1, cues)
        row[4] = min(1.0, (weak_words + han_weak / 1.7) / tokens)
        row[5] = min(1.0, (strong_words + han_strong / 1.7) / tokens)
        row[6] = frame / 6
        row[7] = imperative
        row[8] = min(3, separators) / 3
        row[9] = min(1.0, digits / max(visible, 1))
        row[10] = min(1.0, 5 * signs / max(visible, 1))
        row[11] = capitals / capital_ideal if capital_ideal > 0 else 0.0
        row[12] = shouts / words if words else 0.0
        row[13] = min(1.0, np.log2(1 + tokens) / 5)
        row[14] = tokens < 4
        row[15] = address
        row[16] = min(2, commas) / 2
        row[17] = not labelled[number] and (dots or last in (0x3A, 0xFF1A))
        row[18] = labelled[number]
        row[19] = min(1.0, readers / 2) * frame / 6
        row[20] = command and not final and tokens <= 6
        row[21] = not final and digits > 0 and counted == words + han and (counters > 0 or clock)
        row[22] = heading and not final and tokens <= 12
        row[23] = not (frame > 0 or row[20] or row[21] or separators or address or labelled[number])
        row[24] = total / 100 / np.sqrt(np.sqrt(grams))
    return out

"""The compiled part of :mod:`transforms.embed`: terms of texts, their counts, their projection."""

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.shingles import (
    CODE,
    LONG,
    PRIME,
    SINGLE,
    SKIP,
    START,
    Hashes,
    Offsets,
    character_entry,
    decode_character,
    mixed_bits,
)

NONZEROS = 8
"""Dimensions that a term adds to, one in each eighth of the vector."""
HASH_BITS = 64

Bytes = npt.NDArray[np.uint8]
Codes = npt.NDArray[np.int32]
Vectors = npt.NDArray[np.float32]

_PLACE, _BEFORE, _PENDING = 0, 1, 2
"""Where a part ends: place in the text, the unspaced character just before it (0 for none), and
whether that one is in no term yet."""


@kernel
def next_terms(
    data: Bytes, end: int, table: Codes, expansions: Codes, state: Offsets, out: Hashes, limit: int
) -> int:
    """Write the hashes of a text's next terms; return their number.

    Args:
        data: bytes of the texts.
        end: end of this text.
        table: what characters are, see :func:`transforms.shingles.token_table`.
        expansions: characters that fold to several.
        state: where to begin, int64 [3]; moved on, at the end of the text beyond ``end``.
        out: room for ``limit`` hashes.
        limit: stop at so many.
    """
    count, place = 0, state[_PLACE]
    before, pending = state[_BEFORE], state[_PENDING] != 0
    hashed = (START ^ np.uint64(before)) * PRIME if before else START
    while place < end and count < limit:
        first = place
        code = int(data[place])
        if code < 0x80:
            place += 1
            entry = int(table[code])
            if entry and not before:
                hashed = (hashed ^ np.uint64(entry)) * PRIME
                pending = True
                continue
        else:
            code, place = decode_character(data, place)
            entry = character_entry(code, table)
            if entry & SKIP:
                continue
        is_word = entry != 0 and entry & SINGLE == 0
        character = 0 if is_word else entry & CODE
        if character and before:
            out[count] = mixed_bits((hashed ^ np.uint64(character)) * PRIME)
            count += 1
            pending = False
        elif pending and (before or not is_word):
            out[count] = mixed_bits(hashed)
            count += 1
            pending = False
        if is_word and count == limit:
            # The character before stood alone; the word belongs to the next part.
            place = first
        elif is_word:
            hashed = _folded(START if before else hashed, entry, expansions)
            pending = True
        else:
            pending = character != 0 and before == 0
            hashed = (START ^ np.uint64(character)) * PRIME if character else START
        before = character
    if count < limit:
        if pending:
            out[count] = mixed_bits(hashed)
            count += 1
        place = end + 1
    state[_PLACE], state[_BEFORE], state[_PENDING] = place, before, int(pending)
    return count


@kernel
def _folded(hashed: np.uint64, entry: int, expansions: Codes) -> np.uint64:
    """Return the hash of a word with one more character."""
    if entry & LONG:
        for part in expansions[entry & CODE]:
            if part >= 0:
                hashed = (hashed ^ np.uint64(part)) * PRIME
        return hashed
    return (hashed ^ np.uint64(entry)) * PRIME


@kernel
def count_documents(
    offsets: Offsets,
    data: Bytes,
    table: Codes,
    expansions: Codes,
    shift: int,
    first: int,
    seen: Codes,
) -> None:
    """Count in how many texts each bucket occurs.

    Args:
        offsets: where the texts begin and the last one ends.
        data: their bytes.
        table: see :func:`next_terms`.
        expansions: see :func:`next_terms`.
        shift: a term's bucket is its hash shifted by so many bits.
        first: number of the first text, from 1; none had it or a higher one before.
        seen: int32 [buckets, 2]: the last text that has the bucket, and how many have it.
    """
    out = np.empty(4096, np.uint64)
    state = np.zeros(3, np.int64)
    bits = np.uint64(shift)
    for text in range(len(offsets) - 1):
        state[_PLACE], state[_BEFORE], state[_PENDING] = offsets[text], 0, 0
        end, number = offsets[text + 1], np.int32(first + text)
        while state[_PLACE] <= end:
            for k in range(next_terms(data, end, table, expansions, state, out, 4096)):
                row = seen[np.int64(out[k] >> bits)]
                if row[0] != number:
                    row[0] = number
                    row[1] += np.int32(1)


@kernel
def project(
    offsets: Offsets,
    data: Bytes,
    table: Codes,
    expansions: Codes,
    shift: int,
    part: int,
    seed: np.uint64,
    rarity: Vectors,
    frequency: Vectors,
    out: Vectors,
) -> None:
    """Write the unit vector of each text; zeros for one whose terms weigh nothing.

    Args:
        offsets: where the texts begin and the last one ends.
        data: their bytes.
        table: see :func:`next_terms`.
        expansions: see :func:`next_terms`.
        shift: a term's bucket is its hash shifted by so many bits.
        part: terms per part.
        seed: of dimensions and signs.
        rarity: weight of each bucket.
        frequency: weight of a term by its count; longer counts weigh like the last one.
        out: [texts, width].
    """
    room = _room(part)
    keys, counts = np.zeros(room, np.uint64), np.zeros(room, np.int32)
    terms, used = np.empty(part, np.uint64), np.empty(part, np.int64)
    state = np.zeros(3, np.int64)
    of_part = np.empty(out.shape[1], np.float32)
    for text in range(len(offsets) - 1):
        total = out[text]
        total[:] = 0
        state[_PLACE], state[_BEFORE], state[_PENDING] = offsets[text], 0, 0
        end, parts = offsets[text + 1], 0
        while state[_PLACE] <= end:
            n = next_terms(data, end, table, expansions, state, terms, part)
            if n == 0:
                continue
            distinct = _count_terms(terms, n, keys[: _room(n)], counts, used)
            of_part[:] = 0
            _add_terms(keys, counts, used, distinct, shift, seed, rarity, frequency, of_part)
            _scale(of_part, n)
            total += of_part
            parts += 1
        if parts:
            _scale(total, 1)


@kernel
def _room(terms: int) -> int:
    """Return the slots of a hash table of so many terms, a power of 2."""
    room = 64
    while room < 2 * terms:
        room *= 2
    return room


@kernel
def _count_terms(terms: Hashes, n: int, keys: Hashes, counts: Codes, used: Offsets) -> int:
    """Count equal terms in an empty hash table; return how many differ, their slots in ``used``."""
    mask = np.int64(len(keys) - 1)
    distinct = 0
    for k in range(n):
        term = terms[k]
        slot = np.int64(term) & mask
        while counts[slot] != 0 and keys[slot] != term:
            slot = (slot + 1) & mask
        if counts[slot] == 0:
            keys[slot] = term
            used[distinct] = slot
            distinct += 1
        counts[slot] += np.int32(1)
    return distinct


@kernel
def _add_terms(
    keys: Hashes,
    counts: Codes,
    used: Offsets,
    distinct: int,
    shift: int,
    seed: np.uint64,
    rarity: Vectors,
    frequency: Vectors,
    total: Vectors,
) -> None:
    """Add the projection of the terms in the order in which they occurred; empty their table."""
    block = np.int64(len(total) // NONZEROS)
    bits, most = np.uint64(shift), len(frequency) - 1
    for k in range(distinct):
        slot = used[k]
        term = keys[slot]
        weight = rarity[np.int64(term >> bits)] * frequency[min(int(counts[slot]), most)]
        counts[slot] = 0
        low = mixed_bits(term ^ seed)
        high = mixed_bits(low ^ START)
        for half in range(2):
            mixed = low if half == 0 else high
            for quarter in range(4):
                drawn = np.int64(mixed & np.uint64(0xFFFF))
                mixed >>= np.uint64(16)
                start = np.int64(4 * half + quarter) * block
                place = start + ((drawn & 0x7FFF) * block >> 15)
                if drawn & 0x8000:
                    total[place] -= weight
                else:
                    total[place] += weight


@kernel
def _scale(vector: Vectors, length: int) -> None:
    """Scale a vector to a length, unless it is zero; its square is summed in eight fixed lanes."""
    sums = np.zeros(NONZEROS, np.float64)
    block = len(vector) // NONZEROS
    for k in range(block):
        for lane in range(NONZEROS):
            value = np.float64(vector[k * NONZEROS + lane])
            sums[lane] += value * value
    square = 0.0
    for lane in range(NONZEROS):
        square += sums[lane]
    if square > 0.0:
        factor = np.float32(length / np.sqrt(square))
        for k in range(len(vector)):
            vector[k] *= factor

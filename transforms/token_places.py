"""Tokens with their places: what :mod:`transforms.shingles` hashes, and where it stands in the text."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.kernel import inlined_kernel, kernel
from transforms.shingles import (
    CODE,
    LONG,
    PRIME,
    SINGLE,
    SKIP,
    START,
    character_entry,
    decode_character,
    mixed_bits,
    token_table,
)
from transforms.text import string_buffers

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

LETTERS_OF_A_WORD = 9
"""Letters that a word counts for at most, what separates it from the next one counted."""
LETTERS_OF_A_SIGN = 3
"""What a character of an unspaced script counts for: a word of such a script is one or two."""


class PlacedTokens(NamedTuple):
    """The tokens of some texts, one text after the other."""

    offsets: Int64s
    """Where each text's tokens begin and the last one's end, [texts + 1]."""
    hashes: Hashes
    """Hash of each token, as in the shingles, [tokens]."""
    begins: Int32s
    """First byte of each token in its text, [tokens]."""
    ends: Int32s
    """Byte after each token in its text, [tokens]."""
    letters: Int32s
    """Letters that each token counts for, [tokens]."""


def placed_tokens(texts: pa.StringArray) -> PlacedTokens:
    """Return the tokens of texts with their places.

    Args:
        texts: valid UTF-8; nulls read as empty.
    """
    offsets, data = string_buffers(texts)
    table, expansions = token_table()
    room = int((np.diff(offsets) // 2 + 1).sum())
    hashes = np.empty(room, np.uint64)
    begins, ends, letters = (np.empty(room, np.int32) for _ in range(3))
    bounds = np.zeros(len(offsets), np.int64)
    used = 0
    for text in range(len(offsets) - 1):
        start, end = int(offsets[text]), int(offsets[text + 1])
        rest = (hashes[used:], begins[used:], ends[used:], letters[used:])
        used += locate_tokens(data, start, end, table, expansions, *rest)
        bounds[text + 1] = used
    return PlacedTokens(bounds, hashes[:used], begins[:used], ends[:used], letters[:used])


@inlined_kernel
def _put(hashes: Hashes, letters: Int32s, token: int, value: np.uint64, size: int) -> None:
    """Write the hash of a token and, where wanted, its letters; -1 characters for a sign."""
    hashes[token] = value
    if len(letters):
        letters[token] = min(size + 1, LETTERS_OF_A_WORD) if size >= 0 else LETTERS_OF_A_SIGN


@kernel
def locate_tokens(
    data: npt.NDArray[np.uint8],
    start: int,
    end: int,
    table: npt.NDArray[np.int32],
    expansions: npt.NDArray[np.int32],
    hashes: Hashes,
    begins: Int32s,
    ends: Int32s,
    letters: Int32s,
) -> int:
    """Write hash, first byte, byte after and letters of each token of one text.

    Args:
        data: UTF-8 text.
        start: first byte of the text; places are counted from it.
        end: byte after it.
        table: of :func:`transforms.shingles.token_table`.
        expansions: likewise.
        hashes: room for the hashes, [half as many as bytes, and one].
        begins: room for the first bytes, likewise.
        ends: room for the bytes after, likewise.
        letters: room for the letters, or empty where they are not wanted.

    Returns:
        Number of tokens.
    """
    count, inside, place, state = 0, False, start, START
    first, last, size = start, start, 0
    while place < end:
        here = place
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
                begins[count], ends[count] = first - start, last - start
                _put(hashes, letters, count, mixed_bits(state), size)
                count += 1
                inside = False
                state = START
            if entry:
                begins[count], ends[count] = here - start, place - start
                _put(
                    hashes,
                    letters,
                    count,
                    mixed_bits((START ^ np.uint64(entry & CODE)) * PRIME),
                    -1,
                )
                count += 1
            continue
        if not inside:
            inside = True
            first = here
            size = 0
        last = place
        size += 1
        if entry & LONG:
            for part in expansions[entry & CODE]:
                if part >= 0:
                    state = (state ^ np.uint64(part)) * PRIME
        else:
            state = (state ^ np.uint64(entry)) * PRIME
    if inside:
        begins[count], ends[count] = first - start, last - start
        _put(hashes, letters, count, mixed_bits(state), size)
        count += 1
    return count

"""What characters are to the rules that find sentences: white space, stops, closing signs."""

import functools

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel

Bytes = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]

SPACE, STOP, FULL, CLOSER, LOWER, DIGIT = 1, 2, 4, 8, 16, 32
"""Flags of characters: white space, ``.!?…``, ``。！？``, closing quotes and brackets."""

_FLAGGED = 0x10000
_WIDE = 0x2E80
"""Ideographs, kana and their punctuation begin here."""


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


@kernel
def flags_of(code: int, flags: Bytes) -> int:
    """Return the flags of a character."""
    return int(flags[code]) if code < 0x10000 else 0

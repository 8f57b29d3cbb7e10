"""Values of JSON found in bytes: strings copied, everything else passed over.

What the ``json`` module reads in a way of its own (numbers of more than 18 digits or with exponents,
deep nesting) is not read here at all.
"""

import numpy as np
import numpy.typing as npt

from transforms.kernel import inlined_kernel, kernel

Bytes = npt.NDArray[np.uint8]

BLOCK = 16
"""Bytes looked at together."""
_ODD = np.ones(256, np.uint8)
"""Which bytes are no plain characters of a string, shape [256]."""
_ODD[0x20:0x80] = 0
_ODD[[0x22, 0x5C]] = 1
_DEPTH = 64
_DIGITS = 18
"""Of an integer that surely fits 64 bits."""


@inlined_kernel
def is_space(byte: int) -> bool:
    """Return whether a byte is white space of JSON, but for line feeds."""
    return byte == 0x20 or byte == 0x09 or byte == 0x0D


@kernel
def _hex4(data: Bytes, place: int, end: int) -> int:
    """Return the value of four hexadecimal digits, -1 where they are none."""
    if place + 4 > end:
        return -1
    value = 0
    for k in range(place, place + 4):
        byte = int(data[k])
        if 0x30 <= byte <= 0x39:
            digit = byte - 0x30
        elif 0x41 <= byte <= 0x46:
            digit = byte - 0x37
        elif 0x61 <= byte <= 0x66:
            digit = byte - 0x57
        else:
            return -1
        value = value << 4 | digit
    return value


@kernel
def _escaped(data: Bytes, place: int, end: int) -> tuple[int, int]:
    """Return the character of the escape whose backslash stands at ``place``, and the place after it.

    The character is -1 where there is none.
    """
    if place + 1 >= end:
        return -1, place
    byte = int(data[place + 1])
    if byte == 0x6E:
        return 0x0A, place + 2
    if byte == 0x22 or byte == 0x5C or byte == 0x2F:
        return byte, place + 2
    if byte == 0x74:
        return 0x09, place + 2
    if byte == 0x72:
        return 0x0D, place + 2
    if byte == 0x62:
        return 0x08, place + 2
    if byte == 0x66:
        return 0x0C, place + 2
    if byte != 0x75:
        return -1, place
    code = _hex4(data, place + 2, end)
    if code < 0xD800 or code >= 0xE000:
        return code, place + 6
    if code >= 0xDC00 or place + 8 > end or data[place + 6] != 0x5C or data[place + 7] != 0x75:
        return -1, place
    low = _hex4(data, place + 8, end)
    if low < 0xDC00 or low >= 0xE000:
        return -1, place
    return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), place + 12


@kernel
def copy_string(  # noqa: C901  # one character of a text at a time: no room for calls
    data: Bytes, place: int, end: int, out: Bytes, to: int
) -> tuple[int, int]:
    """Copy the string whose quote stands at ``place``.

    Returns:
        The place behind its closing quote, -1 where it has none or is no string; and where ``out`` is
        filled to. ``out`` must have room for
        all up to ``end`` and a block more.
    """
    place += 1
    block = place
    while place < end:
        if place >= block:
            # Plain characters by the block, as long as there are any: the copy is of use or written over.
            while place + BLOCK <= end:
                odd = np.uint8(0)
                for k in range(BLOCK):
                    byte = data[np.uintp(place + k)]
                    out[np.uintp(to + k)] = byte
                    odd |= _ODD[byte]
                if odd:
                    break
                place += BLOCK
                to += BLOCK
            block = place + BLOCK
            if place >= end:
                break
        byte = int(data[np.uintp(place)])
        if byte < 0x80:
            if byte == 0x22:
                return place + 1, to
            if byte == 0x5C:
                code, place = _escaped(data, place, end)
                if code < 0:
                    return -1, to
                if code < 0x80:
                    out[to] = code
                    to += 1
                elif code < 0x800:
                    out[to] = 0xC0 | code >> 6
                    out[to + 1] = 0x80 | code & 0x3F
                    to += 2
                elif code < 0x10000:
                    out[to] = 0xE0 | code >> 12
                    out[to + 1] = 0x80 | code >> 6 & 0x3F
                    out[to + 2] = 0x80 | code & 0x3F
                    to += 3
                else:
                    out[to] = 0xF0 | code >> 18
                    out[to + 1] = 0x80 | code >> 12 & 0x3F
                    out[to + 2] = 0x80 | code >> 6 & 0x3F
                    out[to + 3] = 0x80 | code & 0x3F
                    to += 4
                continue
            if byte < 0x20:
                return -1, to
            out[np.uintp(to)] = byte
            to += 1
            place += 1
            continue
        # Unicode 15, table 3-7: well-formed UTF-8.
        if place + 1 >= end:
            return -1, to
        second = int(data[np.uintp(place + 1)])
        if byte < 0xE0:
            if byte < 0xC2 or second & 0xC0 != 0x80:
                return -1, to
            out[np.uintp(to)], out[np.uintp(to + 1)] = byte, second
            to += 2
            place += 2
            continue
        if place + 2 >= end or data[np.uintp(place + 2)] & 0xC0 != 0x80:
            return -1, to
        low = 0xA0 if byte == 0xE0 else 0x90 if byte == 0xF0 else 0x80
        high = 0x9F if byte == 0xED else 0x8F if byte == 0xF4 else 0xBF
        if second < low or second > high or byte > 0xF4:
            return -1, to
        out[np.uintp(to)], out[np.uintp(to + 1)] = byte, second
        out[np.uintp(to + 2)] = data[np.uintp(place + 2)]
        to += 3
        place += 3
        if byte >= 0xF0:
            if place >= end or data[place] & 0xC0 != 0x80:
                return -1, to
            out[to] = data[place]
            to += 1
            place += 1
    return -1, to


@kernel
def number_end(data: Bytes, place: int, end: int) -> tuple[int, bool]:
    """Return the place behind a number, -1 where there is none or a strange one; and if it is whole."""
    start = place
    if place < end and data[place] == 0x2D:
        place += 1
    first = place
    while place < end and 0x30 <= data[place] <= 0x39:
        place += 1
    digits = place - first
    if digits == 0 or digits > _DIGITS or (digits > 1 and data[first] == 0x30):
        return -1, False
    if digits == 1 and data[first] == 0x30 and first > start:
        return -1, False  # minus zero
    whole = True
    if place < end and data[place] == 0x2E:
        whole = False
        place += 1
        first = place
        while place < end and 0x30 <= data[place] <= 0x39:
            place += 1
        if place == first or place - first > _DIGITS:
            return -1, False
    if place < end and (data[place] == 0x65 or data[place] == 0x45):
        return -1, False
    return place, whole


@kernel
def literal_end(data: Bytes, place: int, end: int) -> int:
    """Return the place behind true, false or null; -1 for anything else."""
    if place + 4 <= end:
        a, b, c, d = data[place], data[place + 1], data[place + 2], data[place + 3]
        if a == 0x6E and b == 0x75 and c == 0x6C and d == 0x6C:
            return place + 4
        if a == 0x74 and b == 0x72 and c == 0x75 and d == 0x65:
            return place + 4
        if a == 0x66 and b == 0x61 and c == 0x6C and d == 0x73 and place + 5 <= end:
            return place + 5 if data[place + 4] == 0x65 else -1
    return -1


@kernel
def value_end(data: Bytes, place: int, end: int, out: Bytes, to: int) -> int:  # noqa: C901
    """Return the place behind any value, -1 where there is none; ``out`` from ``to`` on is scratch."""
    arrays, depth = np.uint64(0), 0
    while True:
        # A value, or the end of an empty array or object.
        while place < end and is_space(data[place]):
            place += 1
        if place >= end:
            return -1
        byte = data[place]
        if byte == 0x5B or byte == 0x7B:
            if depth == _DEPTH:
                return -1
            arrays = arrays << np.uint64(1) | np.uint64(byte == 0x5B)
            depth += 1
            place += 1
            while place < end and is_space(data[place]):
                place += 1
            if place < end and byte == 0x5B and data[place] != 0x5D:
                continue
            if place < end and byte == 0x7B and data[place] != 0x7D:
                place = _key_skipped(data, place, end, out, to)
                if place < 0:
                    return -1
                continue
        elif byte == 0x22:
            place, _ = copy_string(data, place, end, out, to)
        elif byte == 0x2D or 0x30 <= byte <= 0x39:
            place, _ = number_end(data, place, end)
        else:
            place = literal_end(data, place, end)
        if place < 0:
            return -1
        # What follows a value: the ends of what it is in, or the next one.
        while depth > 0:
            while place < end and is_space(data[place]):
                place += 1
            if place >= end:
                return -1
            inside = arrays & np.uint64(1)
            if data[place] == 0x2C:
                place += 1
                if not inside:
                    while place < end and is_space(data[place]):
                        place += 1
                    place = _key_skipped(data, place, end, out, to)
                    if place < 0:
                        return -1
                break
            if data[place] != (0x5D if inside else 0x7D):
                return -1
            arrays >>= np.uint64(1)
            depth -= 1
            place += 1
        else:
            return place


@kernel
def _key_skipped(data: Bytes, place: int, end: int, out: Bytes, to: int) -> int:
    """Return the place behind a key and its colon, -1 where there is none."""
    if place >= end or data[place] != 0x22:
        return -1
    place, _ = copy_string(data, place, end, out, to)
    while 0 <= place < end and is_space(data[place]):
        place += 1
    return place + 1 if 0 <= place < end and data[place] == 0x3A else -1


@kernel
def most_bytes(data: Bytes, place: int, end: int) -> int:
    """Return how many bytes a string or number takes at most."""
    start = place
    if data[place] == 0x22:
        place += 1
        while place < end and data[place] != 0x22:
            place += 2 if data[place] == 0x5C else 1
        return place - start + 1
    while place < end and data[place] != 0x2C and data[place] != 0x7D:
        place += 1
    return place - start

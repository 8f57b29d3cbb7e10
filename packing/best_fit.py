"""Best-fit decreasing over a histogram of lengths: runs of equal documents meet runs of equal rows.

Rows with the same room are interchangeable, and so are documents of one length. The plan therefore
moves whole runs: an *interval* is a run of consecutive rows with equal room and equal count, kept
on a stack per room; a bit tree finds the smallest room that still holds a length. The work depends
on the number of moves (some 10^5 for a window of 128K tokens), hardly on the number of documents.
"""

import numba
import numpy as np

# Words of the bit tree hold 32 bits in an int64, so that no operation overflows in plain Python.
_LOWEST = np.zeros(32, dtype=np.int64)
for _bit in range(32):
    _LOWEST[(((1 << _bit) * 0x077CB531) & 0xFFFFFFFF) >> 27] = _bit
_LEVELS = 5


@numba.njit(cache=True, nogil=True)
def best_fit_decreasing(histogram, seq_len, max_docs, row_of, pieces):  # type: ignore[no-untyped-def]
    """Give every document a row, longest documents first.

    Args:
        histogram: documents of each length, int64[seq_len]; entry 0 is not looked at.
        seq_len: room of a new row.
        max_docs: pieces at which a row closes.
        row_of: receives the row of each document, int64, in descending order of length.
        pieces: receives the pieces of each row, int64; long enough for all rows.

    Returns:
        The number of rows opened.
    """
    bits = np.zeros((_LEVELS, (seq_len >> 5) + 2), dtype=np.int64)
    top = np.full(seq_len + 1, -1, dtype=np.int64)  # first row of the newest interval, by room
    below = np.empty(len(pieces), dtype=np.int64)  # the interval under it, by first row
    size = np.empty(len(pieces), dtype=np.int64)  # its rows, by first row
    rows = 0
    done = 0
    for length in range(len(histogram) - 1, 0, -1):
        left = histogram[length]
        while left > 0:
            room = _smallest_room(bits, length)
            if room < 0:
                room = seq_len
                per_row = min(room // length, max_docs)
                count = max(1, left // per_row)
                first = rows
                rows += count
                pieces[first:rows] = 0
            else:
                interval = top[room]
                per_row = min(room // length, max_docs - pieces[interval])
                count = min(size[interval], max(1, left // per_row))
                size[interval] -= count
                first = interval + size[interval]
                if size[interval] == 0:
                    top[room] = below[interval]
                    if top[room] < 0:
                        _clear(bits, room)
            per_row = min(per_row, left)
            for row in range(first, first + count):
                pieces[row] += per_row
                for _ in range(per_row):
                    row_of[done] = row
                    done += 1
            left -= count * per_row
            room -= per_row * length
            if room > 0 and pieces[first] < max_docs:
                below[first] = top[room]
                size[first] = count
                if top[room] < 0:
                    _set(bits, room)
                top[room] = first
    return rows


@numba.njit(cache=True, nogil=True)
def _smallest_room(bits, at_least):  # type: ignore[no-untyped-def]
    """Return the smallest marked room that is ``at_least`` so large, or -1."""
    at = at_least
    for level in range(_LEVELS):
        word = at >> 5
        if word >= bits.shape[1]:
            return -1
        x = bits[level, word] & (-1 << (at & 31))
        if x:
            at = (word << 5) + _LOWEST[(((x & -x) * 0x077CB531) & 0xFFFFFFFF) >> 27]
            for lower in range(level - 1, -1, -1):
                x = bits[lower, at]
                at = (at << 5) + _LOWEST[(((x & -x) * 0x077CB531) & 0xFFFFFFFF) >> 27]
            return at
        at = word + 1
    return -1


@numba.njit(cache=True, nogil=True)
def _set(bits, room):  # type: ignore[no-untyped-def]
    for level in range(_LEVELS):
        bits[level, room >> 5] |= 1 << (room & 31)
        room >>= 5


@numba.njit(cache=True, nogil=True)
def _clear(bits, room):  # type: ignore[no-untyped-def]
    for level in range(_LEVELS):
        bits[level, room >> 5] &= ~(1 << (room & 31))
        if bits[level, room >> 5]:
            return
        room >>= 5

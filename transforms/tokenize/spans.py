"""Encoding one span of text by merging: short ones by search, very long ones in windows."""

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.tokenize.characters import SPACE, SPACE_SYMBOL, read_character
from transforms.tokenize.merges import SHORT_SYMBOLS, merge_long, merge_short, slot_of
from transforms.tokenize.vocabulary import (
    IDS,
    LONGEST_USER,
    SINGLE_BYTES,
    UNKNOWN,
    Vocabulary,
)

WINDOW_BYTES = 8192
OVERLAP_BYTES = 512

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


@kernel
def _user_symbol(vocabulary: Vocabulary, data: Bytes, place: int, stop: int) -> tuple[int, int]:
    """Return the longest user-defined symbol of several characters at a place, and its end."""
    found, end = -1, place
    node = np.int64(0)
    steps = vocabulary.user_steps
    while place < stop:
        point, place = read_character(data, place)
        if point == SPACE_SYMBOL:
            point = SPACE
        key = int(node << 21 | point)
        slot = slot_of(key, len(steps))
        while steps[slot, 0] != key and steps[slot, 0] != -1:
            slot = (slot + 1) & (len(steps) - 1)
        if steps[slot, 0] == -1:
            break
        node = steps[slot, 1]
        if vocabulary.user_ids[node] >= 0:
            found, end = int(np.int64(vocabulary.user_ids[node])), place
    return found, end


@kernel
def split_symbols(
    vocabulary: Vocabulary, data: Bytes, start: int, stop: int, symbols: Int32s, starts: Int64s
) -> int:
    """Split a span into the symbols that merging begins with.

    Args:
        vocabulary: the vocabulary.
        data: UTF-8.
        start: first byte of the span.
        stop: byte after the span.
        symbols: int32 [>= stop - start], written: bytes, characters, or user-defined symbols.
        starts: int64 [> stop - start], written: first byte of each symbol, and ``stop``.

    Returns:
        The number of symbols.
    """
    count = 0
    place = start
    if vocabulary.facts[SINGLE_BYTES]:
        while place < stop:
            symbols[count] = vocabulary.byte_ids[data[place]]
            starts[count] = place
            count += 1
            place += 1
    else:
        has_user = vocabulary.facts[LONGEST_USER] > 0
        while place < stop:
            starts[count] = place
            symbol, end = -1, place
            if has_user:
                symbol, end = _user_symbol(vocabulary, data, place, stop)
            if symbol < 0:
                point, end = read_character(data, place)
                if point == SPACE_SYMBOL:
                    point = SPACE
                symbol = int(np.int64(vocabulary.characters[point]))
            symbols[count] = np.int32(symbol)
            count += 1
            place = end
    starts[count] = stop
    return count


@kernel
def _write(
    vocabulary: Vocabulary,
    data: Bytes,
    symbols: Int32s,
    starts: Int64s,
    count: int,
    out: Int32s,
    floor: int,
    place: int,
) -> int:
    """Write tokens as ids, characters outside the vocabulary as bytes; return the place after.

    ``out[floor:place]`` holds the ids of the same span that are written already.
    """
    ids = vocabulary.facts[IDS]
    unknown = vocabulary.facts[UNKNOWN]
    for i in range(count):
        symbol = symbols[i]
        if 0 <= symbol < ids:
            out[place] = symbol
            place += 1
        elif unknown >= 0:
            # The library writes one id for a run of unknown characters.
            if place == floor or out[place - 1] != unknown:
                out[place] = np.int32(unknown)
                place += 1
        elif data[starts[i]] == SPACE:
            for byte in (0xE2, 0x96, 0x81):
                out[place] = vocabulary.byte_ids[byte]
                place += 1
        else:
            for k in range(starts[i], starts[i + 1]):
                out[place] = vocabulary.byte_ids[data[k]]
                place += 1
    return place


@kernel
def encode_span(
    vocabulary: Vocabulary,
    data: Bytes,
    start: int,
    stop: int,
    out: Int32s,
    place: int,
) -> int:
    """Encode a span of at most SHORT_SYMBOLS bytes into ``out[place:]``; return the place after."""
    symbols = np.empty(SHORT_SYMBOLS + 1, dtype=np.int32)
    starts = np.empty(SHORT_SYMBOLS + 1, dtype=np.int64)
    values = np.empty(SHORT_SYMBOLS + 1, dtype=np.int64)
    count = split_symbols(vocabulary, data, start, stop, symbols, starts)
    count = merge_short(vocabulary.pairs, symbols, starts, values, count)
    starts[count] = stop
    return int(_write(vocabulary, data, symbols, starts, count, out, place, place))


@kernel
def encode_long_span(
    vocabulary: Vocabulary,
    data: Bytes,
    start: int,
    stop: int,
    out: Int32s,
    place: int,
    window: int,
    overlap: int,
) -> int:
    """Encode a span of any length into ``out[place:]`` in linear time and bounded memory.

    The span is encoded in windows, each beginning at a token of the window before. Where both give
    the same token there, their sequences may be joined: each adjacent pair of tokens is then one
    that merging gives (see :mod:`transforms.tokenize.merges`). Otherwise the next window begins
    earlier, and at last the window is made larger.

    Args:
        vocabulary: the vocabulary.
        data: UTF-8.
        start: first byte of the span.
        stop: byte after the span.
        out: int32, written.
        place: where to write.
        window: bytes of a window, usually WINDOW_BYTES.
        overlap: bytes at a window's end that the next window encodes again, usually OVERLAP_BYTES.

    Returns:
        The place after the last id.
    """
    size = window
    floor = place
    end = _window_end(vocabulary, data, start, stop, size)
    symbols, starts, count = _encode_window(vocabulary, data, start, end)
    while end < stop:
        back = max(overlap, vocabulary.facts[LONGEST_USER])
        joined = False
        token, begin, next_end = 0, start, end
        more, more_starts, more_count = symbols, starts, count
        while not joined and back < end - start:
            token = count - 1
            while token > 0 and starts[token] > end - back:
                token -= 1
            if token == 0:
                break
            begin = starts[token]
            next_end = _window_end(vocabulary, data, begin, stop, size)
            more, more_starts, more_count = _encode_window(vocabulary, data, begin, next_end)
            joined = more[0] == symbols[token] and more_starts[1] == starts[token + 1]
            back *= 2
        if joined:
            place = _write(vocabulary, data, symbols, starts, token, out, floor, place)
            start, end = begin, next_end
            symbols, starts, count = more, more_starts, more_count
        else:
            size *= 2
            end = _window_end(vocabulary, data, start, stop, size)
            symbols, starts, count = _encode_window(vocabulary, data, start, end)
    return int(_write(vocabulary, data, symbols, starts, count, out, floor, place))


@kernel
def _window_end(vocabulary: Vocabulary, data: Bytes, start: int, stop: int, size: int) -> int:
    """Return the end of a window of about ``size`` bytes, between two characters."""
    end = min(stop, start + size)
    while end < stop and (data[end] & 0xC0) == 0x80:
        end += 1
    return end


@kernel
def _encode_window(
    vocabulary: Vocabulary, data: Bytes, start: int, stop: int
) -> tuple[Int32s, Int64s, int]:
    """Return the tokens of a window, where each begins (and the end), and their number."""
    symbols = np.empty(stop - start, dtype=np.int32)
    starts = np.empty(stop - start + 1, dtype=np.int64)
    values = np.empty(stop - start, dtype=np.int64)
    count = split_symbols(vocabulary, data, start, stop, symbols, starts)
    if count <= SHORT_SYMBOLS:
        count = merge_short(vocabulary.pairs, symbols, starts, values, count)
    else:
        count = merge_long(vocabulary.pairs, symbols, starts, values, count)
    starts[count] = stop
    return symbols, starts, count

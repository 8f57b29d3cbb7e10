"""Lines of a byte stream, numbered and dealt to parts by the place of their first byte."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pipelines.formats.stream import StreamBreak

MAX_LINE_BYTES = (1 << 31) - (1 << 27)
"""Longer lines are passed over: an Arrow string column of a part holds less than 2 GiB."""

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Consecutive lines of one part."""

    part: int
    number: int
    """Number of the first line in the file, from 1."""
    content: bytes | None
    """The lines with line feeds between them; None for one line over MAX_LINE_BYTES, and where the
    stream broke before a line was complete."""
    broken: StreamBreak | None = None
    """Why the stream ends after these lines; the line it breaks in is not among them."""

    @property
    def lines(self) -> list[bytes | None]:
        """The bytes of each line without line feeds; None for a line over MAX_LINE_BYTES."""
        if self.content is None:
            return [] if self.broken else [None]
        return list(self.content.split(b"\n"))


def line_blocks(
    chunks: Iterable[bytes],
    *,
    part_bytes: int,
    offset: int = 0,
    number: int = 1,
    stop: int | None = None,
) -> Iterator[LineBlock]:
    """Cut a byte stream into lines; a line belongs to the part in which its first byte lies.

    Memory is a chunk, or about twice the longest line.

    Args:
        chunks: the stream from the start of a line.
        part_bytes: size of a part: part p holds the lines that start in
            [p * part_bytes, (p + 1) * part_bytes).
        offset: place of the stream's first byte in the file.
        number: number of the stream's first line in the file.
        stop: lines that start here or later are left out; None = none are.
    """
    state = _Cut(part_bytes, offset, number)
    broken = None
    try:
        for chunk in chunks:
            for block in state.take(chunk):
                if stop is not None and block.part * part_bytes >= stop:
                    return
                yield block
            if stop is not None and state.start >= stop:
                return
    except StreamBreak as error:
        broken = error
    if broken is not None:
        yield LineBlock(state.start // part_bytes, state.number, None, broken)
    elif state.held:
        yield LineBlock(state.start // part_bytes, state.number, state.pending())


def skip_to_line(chunks: Iterator[bytes]) -> tuple[int, bytes] | None:
    """Skip to the first line that starts after a line feed.

    Args:
        chunks: a byte stream.

    Returns:
        How many bytes were skipped and the rest of the chunk in which the line starts; None where
        no line feed was found.
    """
    skipped = 0
    for chunk in chunks:
        place = chunk.find(b"\n") + 1
        if place:
            return skipped + place, chunk[place:]
        skipped += len(chunk)
    return None


class _Cut:
    """The line that no line feed has ended yet, and where it starts."""

    def __init__(self, part_bytes: int, start: int, number: int) -> None:
        self._part_bytes = part_bytes
        self._pieces: list[bytes] = []
        self.start = start
        """Place of the pending line's first byte in the file."""
        self.number = number
        """Number of the pending line."""
        self.held = 0
        """Bytes of the pending line so far."""

    def take(self, chunk: bytes) -> Iterator[LineBlock]:
        """Yield the lines that a chunk completes."""
        begin = 0
        if self.held:
            begin = chunk.find(b"\n") + 1
            if begin:
                self._hold(chunk[: begin - 1])
                size = self.held + 1
                yield self._block(self.pending(), size, 1)
        end = chunk.rfind(b"\n") + 1
        while begin < end:
            # The first line feed that the last line of this part can end with.
            boundary = (self.start // self._part_bytes + 1) * self._part_bytes
            cut = chunk.find(b"\n", max(begin, begin + boundary - 1 - self.start), end) + 1 or end
            yield from self._blocks(chunk, begin, cut)
            begin = cut
        if begin < len(chunk):
            self._hold(chunk[begin:])

    def pending(self) -> bytes | None:
        """Return the pending line and forget it; None where it is over the limit."""
        line = None if self.held > MAX_LINE_BYTES else b"".join(self._pieces)
        self._pieces.clear()
        self.held = 0
        return line

    def _hold(self, piece: bytes) -> None:
        self.held += len(piece)
        if self.held > MAX_LINE_BYTES:
            self._pieces.clear()
        else:
            self._pieces.append(piece)

    def _blocks(self, chunk: bytes, begin: int, end: int) -> Iterator[LineBlock]:
        """Yield whole lines of a chunk, so many at a time that their objects take little memory."""
        while begin < end:
            cut = min(end, begin + _BLOCK_BYTES)
            cut = end if cut == end else chunk.rfind(b"\n", begin, cut) + 1
            if cut <= begin:
                cut = chunk.find(b"\n", begin, end) + 1 or end
            feeds = int(
                np.count_nonzero(np.frombuffer(chunk, np.uint8, cut - begin, begin) == 0x0A)
            )
            yield self._block(chunk[begin : cut - 1], cut - begin, feeds)
            begin = cut

    def _block(self, content: bytes | None, size: int, feeds: int) -> LineBlock:
        """Return a block of so many lines, and begin behind them."""
        block = LineBlock(self.start // self._part_bytes, self.number, content)
        self.start += size
        self.number += feeds
        return block

"""Bytes of a file, local or on any Beam file system, decompressed as far as they can be read."""

import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

import zstandard

Compression = Literal["gz", "zst"]

CHUNK_BYTES = 4 << 20
"""How much decompressed text is handed on at a time."""

# A zstd block of four bytes can stand for 128 KiB: small pieces bound what one of them may become.
_COMPRESSED_BYTES = 16 << 10
_INFLATED_BYTES = 1 << 20
_WINDOW_BYTES = 64 << 20


class StreamBreak(Exception):  # noqa: N818 - a state of the data, not a failure of the program
    """A compressed stream that cannot be read on; what came before it is good."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        """`truncated stream` or `corrupt stream`."""
        self.detail = detail


def is_remote(path: str) -> bool:
    """Return whether a path belongs to a Beam file system rather than to the local one."""
    return "://" in path


def open_binary(path: str) -> BinaryIO:
    """Open a file for reading, as its bytes are."""
    if not is_remote(path):
        return Path(path).open("rb")
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    stream: BinaryIO = FileSystems.open(
        path, "application/octet-stream", CompressionTypes.UNCOMPRESSED
    )
    return stream


def read_chunks(stream: BinaryIO, size: int, limit: int | None = None) -> Iterator[bytes]:
    """Yield the bytes of a stream in pieces of at most ``size``, ``limit`` bytes in all."""
    left = limit
    while chunk := stream.read(size if left is None else min(size, left)):
        yield chunk
        if left is not None:
            left -= len(chunk)


def read_file(path: str, compression: Compression | None) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, about CHUNK_BYTES at a time.

    Raises:
        StreamBreak: after all that was readable, if the compressed stream ends early or is corrupt.
    """
    if compression is None:
        with open_binary(path) as stream:
            yield from read_chunks(stream, CHUNK_BYTES)
    else:
        yield from _gathered(_decompressed(path, _DECODERS[compression]))


class _Decoder(Protocol):
    """Turns compressed bytes into decompressed ones, over any number of members or frames."""

    @property
    def complete(self) -> bool:
        """Whether the stream may end here."""

    def decode(self, data: bytes, limit: int) -> Iterator[bytes]:
        """Yield what some more bytes decompress to, in pieces of ``limit`` bytes if possible."""


class _Gzip:
    """Concatenated gzip members; zeros after a member are padding."""

    def __init__(self) -> None:
        self._member: zlib._Decompress | None = None
        self._between = False

    @property
    def complete(self) -> bool:
        return self._member is None

    def decode(self, data: bytes, limit: int) -> Iterator[bytes]:
        while data:
            if self._member is None:
                data = data.lstrip(b"\0") if self._between else data
                if not data:
                    return
                self._member = zlib.decompressobj(31)
            piece = self._member.decompress(data, limit)
            yield piece
            data = self._member.unconsumed_tail
            # All input may be taken while output still waits for room.
            while not data and len(piece) == limit and not self._member.eof:
                piece = self._member.decompress(b"", limit)
                yield piece
            if self._member.eof:
                data = self._member.unused_data
                self._member, self._between = None, True


class _Zstd:
    """Concatenated zstd frames with windows of up to 64 MiB."""

    def __init__(self) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        self._frame: zstandard.ZstdDecompressionObj | None = None

    @property
    def complete(self) -> bool:
        return self._frame is None

    def decode(self, data: bytes, limit: int) -> Iterator[bytes]:
        while data:
            if self._frame is None:
                self._frame = self._context.decompressobj()
            yield self._frame.decompress(data)
            if not self._frame.eof:
                return
            data = self._frame.unused_data
            self._frame = None


_DECODERS: dict[str, Callable[[], _Decoder]] = {"gz": _Gzip, "zst": _Zstd}
_ERRORS = (zlib.error, zstandard.ZstdError)


def _decompressed(path: str, new_decoder: Callable[[], _Decoder]) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file up to the place where the stream breaks."""
    decoder = new_decoder()
    position = produced = 0
    with open_binary(path) as stream:
        for chunk in read_chunks(stream, _COMPRESSED_BYTES):
            try:
                for piece in decoder.decode(chunk, _INFLATED_BYTES):
                    produced += len(piece)
                    yield piece
            except _ERRORS:
                break
            position += len(chunk)
        else:
            if decoder.complete:
                return
            raise StreamBreak(
                "truncated stream", f"the file ends after {position} bytes in mid-stream"
            )
    yield from _up_to_the_error(path, new_decoder(), position, produced)


def _up_to_the_error(path: str, decoder: _Decoder, position: int, produced: int) -> Iterator[bytes]:
    """Decode once more, in the smallest steps near the error: a failing step loses its output.

    Args:
        path: the file.
        decoder: a new decoder.
        position: compressed bytes that are good for certain.
        produced: decompressed bytes that were handed on already.
    """
    with open_binary(path) as stream:
        for chunk in read_chunks(stream, _COMPRESSED_BYTES, position):
            produced -= sum(map(len, decoder.decode(chunk, _INFLATED_BYTES)))
        for chunk in read_chunks(stream, 1):
            try:
                for piece in decoder.decode(chunk, 1):
                    if produced < len(piece):
                        yield piece[max(produced, 0) :]
                    produced -= len(piece)
            except _ERRORS as error:
                raise StreamBreak("corrupt stream", f"{error}, at byte {position}") from error
            position += 1


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join small pieces into chunks of about CHUNK_BYTES; what a break leaves behind comes first."""
    held: list[bytes] = []
    size = 0
    try:
        for piece in pieces:
            held.append(piece)
            size += len(piece)
            if size >= CHUNK_BYTES:
                yield b"".join(held)
                held, size = [], 0
    except StreamBreak as broken:
        if size:
            yield b"".join(held)
        raise broken from None
    if size:
        yield b"".join(held)

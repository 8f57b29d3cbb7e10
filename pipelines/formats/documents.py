"""Plain text and Markdown: one document a file, in UTF-8."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from pipelines.formats.lines import MAX_LINE_BYTES
from pipelines.formats.stream import CHUNK_BYTES, Compression, StreamBreak, read_file
from transforms.ingest import Reject, Rows


def read_documents(
    files: Sequence[tuple[str, str, int]], compression: Compression | None
) -> Iterator[Rows]:
    """Read files as one document each.

    Args:
        files: path, relative path and address (``doc_uid``) of each.
        compression: of all of them.

    Yields:
        Rows of about CHUNK_BYTES of text.
    """
    held: list[tuple[str, str, int]] = []
    rejects: list[Reject] = []
    size = 0
    for path, relative, uid in files:
        try:
            text = _read_text(path, compression)
        except StreamBreak as error:
            rejects.append(Reject(1, error.reason, error.detail, relative))
            continue
        held.append((text, relative, uid))
        size += len(text)
        if size >= CHUNK_BYTES:
            yield _rows(held, rejects)
            held, rejects, size = [], [], 0
    yield _rows(held, rejects)


def _read_text(path: str, compression: Compression | None) -> str:
    """Return a file's text without a byte order mark.

    Raises:
        StreamBreak: the file is not a text; reason and detail are those of the reject.
    """
    pieces: list[bytes] = []
    size = 0
    for piece in read_file(path, compression):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_LINE_BYTES:
            raise StreamBreak("record too long", f"more than {MAX_LINE_BYTES} bytes of text")
    content = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    pieces.clear()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        near = content[max(wrong.start - 20, 0) : wrong.start + 20]
        raise StreamBreak("invalid UTF-8", f"byte {wrong.start}: {near!r}") from None


def _rows(held: list[tuple[str, str, int]], rejects: list[Reject]) -> Rows:
    """Return documents as rows, each with its own path and address."""
    paths = [relative for _, relative, _ in held]
    return Rows(
        part=0,
        text=pa.array([text for text, _, _ in held], pa.string()),
        id=pa.array([f"{relative}#1" for relative in paths], pa.string()),
        lang=pa.nulls(len(held), pa.string()),
        line=np.ones(len(held), np.int64),
        rejects=rejects,
        path=pa.array(paths, pa.string()),
        uid=np.array([uid for _, _, uid in held], np.int64),
    )

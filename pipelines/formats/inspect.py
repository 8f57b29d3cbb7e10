"""What is known of a file before it is read in parts: its hash, its line feeds, its row groups."""

import hashlib
import json
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.artifacts import write_atomically
from pipelines.formats.find import FoundFile
from pipelines.formats.parquet import row_group_sizes
from pipelines.formats.stream import open_binary, read_chunks
from transforms.record import RecordError

BLOCK_BYTES = 1 << 20
"""Line feeds are counted for each block of this size."""

_FORMAT = 1
# A file written within this time before it was read may change again without a later mtime.
_SETTLED_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What one pass over a file finds."""

    sha256: str | None
    """Of its bytes (hex); None if they cannot be read."""
    problem: str | None = None
    """Why they cannot be read."""
    line_feeds: list[int] | None = None
    """Per BLOCK_BYTES; None where nobody asked."""
    row_groups: list[tuple[int, int]] | None = None
    """Rows and decompressed bytes of each row group of a Parquet file with a readable footer."""


def inspect_files(
    files: Iterable[tuple[FoundFile, bool, bool]], cache: Path, *, threads: int
) -> list[FileFacts]:
    """Return the facts of files, remembered by path, size and time of writing.

    Args:
        files: each with whether its line feeds and whether its row groups are wanted.
        cache: JSON file of what earlier calls found; written anew if this one finds more.
        threads: how many files are read at a time.

    Raises:
        RecordError: a file changes while it is read.
    """
    files = list(files)
    known = _load(cache)
    facts = [_known(known, *wanted) for wanted in files]
    missing = [place for place, fact in enumerate(facts) if fact is None]
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(lambda place: _inspect(*files[place]), missing))
    for place, fact in zip(missing, found, strict=True):
        facts[place] = fact
        file = files[place][0]
        if fact.sha256 is not None and time.time_ns() - file.mtime_ns > _SETTLED_NS:
            known[file.path] = {"size": file.size, "mtime_ns": file.mtime_ns, **asdict(fact)}
    if missing:
        cache.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(cache, json.dumps({"format": _FORMAT, "files": known}).encode())
    return [fact for fact in facts if fact is not None]


def _load(cache: Path) -> dict[str, Any]:
    try:
        value = json.loads(cache.read_bytes())
        return dict(value["files"]) if value["format"] == _FORMAT else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _known(
    known: dict[str, Any], file: FoundFile, line_feeds: bool, row_groups: bool
) -> FileFacts | None:
    entry = known.get(file.path)
    if entry is None or (entry["size"], entry["mtime_ns"]) != (file.size, file.mtime_ns):
        return None
    if file.mtime_ns == 0 or (line_feeds and entry["line_feeds"] is None):
        return None
    if row_groups and entry["row_groups"] is None:
        return None
    groups = entry["row_groups"]
    groups = None if groups is None else [(rows, size) for rows, size in groups]
    return FileFacts(entry["sha256"], None, entry["line_feeds"], groups)


def _inspect(file: FoundFile, line_feeds: bool, row_groups: bool) -> FileFacts:
    """Read a file once."""
    digest = hashlib.sha256()
    counts: list[int] = []
    size = 0
    try:
        with open_binary(file.path) as stream:
            for chunk in read_chunks(stream, BLOCK_BYTES):
                digest.update(chunk)
                if line_feeds:
                    _count(counts, chunk, size)
                size += len(chunk)
    except OSError as error:
        # The message alone: a path would differ between machines.
        return FileFacts(None, error.strerror or type(error).__name__)
    if size != file.size:
        raise RecordError(
            f"{file.path} changes while it is read: {file.size} bytes when listed, {size} when "
            "read; run again when it is complete"
        )
    groups = row_group_sizes(file.path) if row_groups else None
    return FileFacts(digest.hexdigest(), None, counts if line_feeds else None, groups)


def _count(counts: list[int], chunk: bytes, position: int) -> None:
    """Add the line feeds of a chunk to the blocks it lies in; a read may end within a block."""
    content, begin = np.frombuffer(chunk, np.uint8), 0
    while begin < len(chunk):
        block = (position + begin) // BLOCK_BYTES
        end = min(len(chunk), (block + 1) * BLOCK_BYTES - position)
        counts.extend([0] * (block + 1 - len(counts)))
        counts[block] += int(np.count_nonzero(content[begin:end] == 0x0A))
        begin = end

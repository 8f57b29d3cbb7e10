"""Files that a glob names, on the local file system or on one of Beam's."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pipelines.formats.stream import is_remote
from transforms.record import RecordError


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file and what identifies its present content."""

    path: str
    """Absolute path or URL."""
    relative: str
    """Path below the fixed part of the glob, with forward slashes."""
    size: int
    """Bytes."""
    mtime_ns: int
    """When it was last written, in nanoseconds; 0 where the file system does not say."""


def find_files(pattern: str) -> list[FoundFile]:
    """Return the files that a glob names, sorted by their relative paths.

    `*`, `?` and `[...]` stand for characters of one name, `**` for any number of folders. Names
    that start with a dot are found only by a pattern that says the dot; `**` does not follow links
    to folders. The fixed part of the glob ends before the first name with a wildcard, or before
    the file's name if there is none.

    Raises:
        RecordError: the pattern names a folder, or a folder cannot be listed.
    """
    pattern = pattern.removeprefix("file://")
    found = _find_remote(pattern) if is_remote(pattern) else _find_local(pattern)
    unique = {file.relative: file for file in found}
    return [unique[relative] for relative in sorted(unique)]


def _split(pattern: str) -> tuple[str, list[str]]:
    """Return the fixed part of a glob, ending in a slash unless empty, and the names after it."""
    scheme, separator, rest = pattern.rpartition("://")
    names = rest.split("/")
    fixed = 0
    while fixed < len(names) - 1 and not any(sign in names[fixed] for sign in "*?["):
        fixed += 1
    root = "/".join(names[:fixed])
    return scheme + separator + root + ("/" if fixed else ""), [n for n in names[fixed:] if n]


def _find_local(pattern: str) -> Iterator[FoundFile]:
    literal = Path(pattern)
    if literal.is_dir():
        example = f"{pattern.rstrip('/')}/**/*.jsonl"
        raise RecordError(f"{pattern} is a folder; name the files in it, e.g. {example}")
    if literal.is_file():
        # Also a file whose own name has brackets or stars in it.
        places = [(pattern, literal.name)]
    else:
        root, names = _split(pattern)
        places = list(_walk(root or ".", names, "")) if names else []
    for path, relative in places:
        absolute = str(Path(path).absolute())
        try:
            status = Path(path).stat()
        except OSError:
            # A link to nothing: reading it will say what is wrong.
            yield FoundFile(absolute, _printable(relative), 0, 0)
            continue
        if stat.S_ISREG(status.st_mode):
            yield FoundFile(absolute, _printable(relative), status.st_size, status.st_mtime_ns)


def _walk(folder: str, names: Sequence[str], relative: str) -> Iterator[tuple[str, str]]:
    """Yield path and relative path of what matches the names below a folder."""
    deep = names[0] == "**"
    rest = (names[1:] or ["*"]) if deep else names
    try:
        with os.scandir(folder) as listing:
            entries = list(listing)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise RecordError(f"cannot list {folder}: {error.strerror}; make it readable") from error
    for entry in entries:
        below = relative + entry.name
        folder_here = entry.is_dir()
        if deep and folder_here and not entry.is_symlink() and not entry.name.startswith("."):
            yield from _walk(entry.path, names, f"{below}/")
        if rest[0] == "**" or not _name_matches(entry.name, rest[0]):
            continue
        if len(rest) == 1 and not folder_here:
            yield entry.path, below
        elif len(rest) > 1 and folder_here:
            yield from _walk(entry.path, rest[1:], f"{below}/")
    if rest[0] == "**":
        yield from _walk(folder, rest, relative)


def _find_remote(pattern: str) -> Iterator[FoundFile]:
    from apache_beam.io.filesystems import FileSystems

    root, names = _split(pattern)
    [match] = FileSystems.match([f"{root}**"])
    for metadata in match.metadata_list:
        relative = metadata.path.removeprefix(root)
        if _path_matches(relative.split("/"), names):
            mtime = int((metadata.last_updated_in_seconds or 0) * 1e9)
            yield FoundFile(metadata.path, relative, metadata.size_in_bytes, mtime)


def _path_matches(path: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether the names of a path match those of a glob."""
    if not names:
        return not path
    if names[0] == "**":
        if _path_matches(path, names[1:] or ["*"]):
            return True
        return len(path) > 1 and not path[0].startswith(".") and _path_matches(path[1:], names)
    return bool(path) and _name_matches(path[0], names[0]) and _path_matches(path[1:], names[1:])


def _name_matches(name: str, pattern: str) -> bool:
    if name.startswith(".") and not pattern.startswith("."):
        return False
    return fnmatchcase(name, pattern)


def _printable(relative: str) -> str:
    """Return a path as valid Unicode; bytes that are not UTF-8 become escapes."""
    return relative.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")

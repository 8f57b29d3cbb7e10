"""Parts: how the files of the sources divide into tasks."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq

from pipelines.formats.find import FoundFile
from pipelines.formats.inspect import BLOCK_BYTES, FileFacts, inspect_files
from pipelines.formats.megatron import data_path, document_runs
from pipelines.formats.stream import Compression, is_remote
from pipelines.sources import Format, SourceFile, SourceSettings, list_files
from transforms.record import MAX_ROWS_PER_PART, ROW_BITS, RecordError, file_uid, shard_number
from transforms.text import IngestSettings

MANY = "-many.parquet"
"""Ending of shard files that hold several one-document files, each with an address of its own."""


@dataclass(frozen=True, slots=True)
class PartFile:
    """A file as a task meets it."""

    path: str
    relative: str
    size: int
    mtime_ns: int
    sha256: str | None
    """Of its bytes; None if they could not be read."""
    problem: str | None = None
    """Why not."""


@dataclass(frozen=True, slots=True)
class SourcePart:
    """What one ingest task reads: a range of a file, a whole file, or several small ones."""

    source: str
    format: Format
    compression: Compression | None
    files: tuple[PartFile, ...]
    """One, but for one-document files, which share tasks, in the order of addresses; an index of
    Megatron's has its data behind it."""
    part: int
    """Number of the (first) part within its file."""
    start: int
    """First byte of an uncompressed JSON lines part; first row group of a Parquet part; first document
    of an index of Megatron's."""
    stop: int
    """Where it ends, likewise."""
    before: int
    """Line feeds, or rows, before ``start``."""
    part_bytes: int
    """Size of a part in decompressed bytes."""
    weight: int
    """Expected work, in decompressed bytes (guessed for compressed files)."""

    @property
    def one_document_files(self) -> bool:
        """Whether each file is a document."""
        return self.format in ("txt", "md")

    def addresses(self) -> list[tuple[str, str, int]]:
        """Return path, relative path and ``doc_uid`` of each one-document file."""
        return [(f.path, f.relative, file_uid(self.source, f.relative)) for f in self.files]

    def fingerprint_fields(self) -> dict[str, Any]:
        """Return what the part is, for a fingerprint: no absolute paths, no times."""
        return {
            "source": self.source,
            "format": self.format,
            "compression": self.compression,
            "files": [
                [file.relative, file.sha256 or f"unreadable: {file.problem}"] for file in self.files
            ],
            "part": self.part,
            "range": [self.start, self.stop],
            "part_bytes": self.part_bytes,
        }

    def check_unchanged(self) -> None:
        """Check that the files are still those that were listed.

        Raises:
            RecordError: a local file has another size or time of writing.
        """
        for file in self.files:
            if file.sha256 is None or is_remote(file.path):
                continue
            now = Path(file.path).stat()
            if (now.st_size, now.st_mtime_ns) != (file.size, file.mtime_ns):
                raise RecordError(
                    f"{file.path} changed after it was listed ({file.size} bytes then, "
                    f"{now.st_size} now); run again when it is complete"
                )


def list_parts(
    sources: Sequence[SourceSettings],
    ingest: IngestSettings,
    cache: Path,
    *,
    threads: int = 2,
) -> list[SourcePart]:
    """Return the parts of all sources, in the order of sources and relative paths.

    Every file is read once to hash it, unless ``cache`` knows it. Uncompressed JSON lines are cut
    into ranges of bytes and Parquet into runs of row groups, of about ``part_size_mib`` each; a
    compressed file is one task, which writes as many parts as it needs; one-document files share
    tasks with those that are next to them in the order of addresses.

    Args:
        sources: sources with names of their own.
        ingest: part size.
        cache: file that remembers hashes, e.g. ``<workdir>/cache/sources.json``.
        threads: files hashed at a time.

    Raises:
        RecordError: see :func:`list_files`; or two parts have one address.
    """
    files = [file for source in sources for file in list_files(source)]
    wanted = [
        (
            FoundFile(file.path, file.relative, file.size, file.mtime_ns),
            file.format == "jsonl" and file.compression is None,
            file.format == "parquet",
        )
        for file in files
    ]
    beside = [_data_of(file) for file in files if file.format == "megatron"]
    wanted += [(data, False, False) for _, data in beside]
    facts = inspect_files(wanted, cache, threads=threads)
    data_facts = {
        index: PartFile(
            data.path, data.relative, data.size, data.mtime_ns, fact.sha256, fact.problem
        )
        for (index, data), fact in zip(beside, facts[len(files) :], strict=True)
    }
    part_bytes = ingest.part_size_mib << 20
    parts: list[SourcePart] = []
    documents: dict[tuple[str, Format, Compression | None], list[PartFile]] = {}
    for file, fact in zip(files, facts[: len(files)], strict=True):
        part_file = PartFile(
            file.path, file.relative, file.size, file.mtime_ns, fact.sha256, fact.problem
        )
        if file.format in ("txt", "md") and fact.sha256 is not None:
            documents.setdefault((file.source, file.format, file.compression), []).append(part_file)
        else:
            data = data_facts.get(file.path)
            parts.extend(_parts_of(file, part_file, fact, part_bytes, data))
    for key, group in documents.items():
        parts.extend(_document_parts(*key, group, part_bytes))
    refuse_shared_addresses(parts)
    return parts


def _data_of(file: SourceFile) -> tuple[str, FoundFile]:
    """Return the path of an index of Megatron's, and its data.

    Raises:
        RecordError: there is none.
    """
    data = data_path(file.path)
    if not data.is_file():
        raise RecordError(f"{data}: is not there, and {file.path} points into it; restore it")
    stat = data.stat()
    relative = file.relative.removesuffix(".idx") + ".bin"
    return file.path, FoundFile(str(data), relative, stat.st_size, stat.st_mtime_ns)


def refuse_shared_addresses(parts: Iterable[SourcePart]) -> None:
    """Check that no two parts hash to one address.

    The later parts of a compressed file or a huge row group are known when it has been read; see
    :func:`refuse_shared_shards`.

    Raises:
        RecordError: two parts have one address.
    """
    shards: dict[int, str] = {}
    documents: dict[int, str] = {}
    for part in parts:
        if part.one_document_files:
            for _, relative, uid in part.addresses():
                _claim(documents, uid, f"{relative} of source {part.source!r}")
        else:
            relative = part.files[0].relative
            shard = shard_number(part.source, relative, part.part)
            _claim(shards, shard, f"{relative} of source {part.source!r}, part {part.part}")
    for uid, label in documents.items():
        if uid >> ROW_BITS in shards:
            _claim(shards, uid >> ROW_BITS, label)


def refuse_shared_shards(shards: Iterable[Path]) -> None:
    """Check that no two files of an ingest artifact are of one shard, by their names.

    Raises:
        RecordError: two parts, of two source files, have one address.
    """
    seen: dict[str, Path] = {}
    for path in sorted(shards):
        other = seen.setdefault(path.name[:10], path)
        if other is not path:
            first, second = (_origin(file) for file in (other, path))
            raise RecordError(
                f"{first} and {second} have one address, {path.name[:10]}; rename one of the files"
            )


def _origin(shard: Path) -> str:
    columns = ["source", "source_path"]
    table = pq.read_table(shard, columns=columns, use_threads=False).slice(0, 1)
    return f"{table['source_path'][0]} of source {str(table['source'][0])!r}"


def _claim(taken: dict[int, str], address: int, label: str) -> None:
    other = taken.setdefault(address, label)
    if other is not label:
        raise RecordError(
            f"{other} and {label} have one address, {address:#x}; rename one of the files"
        )


def _parts_of(
    file: SourceFile,
    part_file: PartFile,
    facts: FileFacts,
    part_bytes: int,
    data: PartFile | None = None,
) -> Iterator[SourcePart]:
    """Yield the parts of a file of many records, or the one part of a file that cannot be read."""

    def part(number: int, start: int, stop: int, before: int, weight: int) -> SourcePart:
        return SourcePart(
            file.source,
            file.format,
            file.compression,
            (part_file,) if data is None else (part_file, data),
            number,
            start,
            stop,
            before,
            part_bytes,
            weight,
        )

    if facts.sha256 is None:
        yield part(0, 0, 0, 0, 0)
    elif file.format == "parquet":
        if facts.row_groups is None:
            yield part(0, 0, 0, 0, 0)
        else:
            for start, stop, before, weight in _runs(facts.row_groups, part_bytes):
                yield part(start, start, stop, before, weight)
    elif file.format == "megatron":
        for start, stop, weight in document_runs(file.path, part_bytes):
            yield part(start, start, stop, start, weight)
    elif file.compression:
        if file.size:
            yield part(0, 0, file.size, 0, 4 * file.size)
    else:
        blocks, before = part_bytes // BLOCK_BYTES, 0
        for number, start in enumerate(range(0, file.size, part_bytes)):
            stop = min(start + part_bytes, file.size)
            yield part(number, start, stop, before, stop - start)
            counts = cast("list[int]", facts.line_feeds)
            before += sum(counts[number * blocks : (number + 1) * blocks])


def _runs(
    row_groups: Sequence[tuple[int, int]], part_bytes: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yield runs of row groups as (start, stop, rows before, bytes), as long as a part allows."""
    start = before = rows = size = 0
    for number, (group_rows, group_bytes) in enumerate(row_groups):
        full = size + group_bytes > part_bytes or rows + group_rows > MAX_ROWS_PER_PART
        if number > start and full:
            yield start, number, before, size
            start, before, rows, size = number, before + rows, 0, 0
        rows += group_rows
        size += group_bytes
    if start < len(row_groups):
        yield start, len(row_groups), before, size


def _document_parts(
    source: str,
    form: Format,
    compression: Compression | None,
    files: Sequence[PartFile],
    part_bytes: int,
) -> Iterator[SourcePart]:
    """Yield groups of one-document files, about a hundred or some MiB each.

    A group ends after a file by that file's own address and size, so that a new or changed file
    concerns its own group and no other.
    """
    ordered = sorted(files, key=lambda file: file_uid(source, file.relative))
    group: list[PartFile] = []
    for file in ordered:
        group.append(file)
        row = file_uid(source, file.relative) % MAX_ROWS_PER_PART
        if row < MAX_ROWS_PER_PART * (1 / 128 + file.size / (16 << 20)) or file is ordered[-1]:
            size = sum(member.size for member in group)
            yield SourcePart(
                source, form, compression, tuple(group), 0, 0, size, 0, part_bytes, size
            )
            group = []

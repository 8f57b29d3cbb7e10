"""The target texts that utility is measured on: found, hashed, read and sampled."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipelines.formats.documents import read_documents
from pipelines.formats.fields import Fields
from pipelines.formats.jsonl import read_compressed, read_range
from pipelines.formats.parquet import read_row_groups, row_group_sizes
from pipelines.formats.stream import open_binary
from pipelines.sources import SourceFile, SourceSettings, list_files
from transforms.ingest import Rows
from transforms.record import RecordError
from transforms.shingles import Hashes, Offsets, token_hashes
from transforms.text import IngestSettings, normalize_text
from transforms.utility import TARGET_TOKENS, UtilitySettings, gather

KEY = "mixture.utility.target"
_LEAST_CUT = 4096


@dataclass(frozen=True, slots=True)
class TargetFiles:
    """The target as it was found before the run."""

    content: tuple[str, ...]
    """sha256 of each file's bytes, in ascending order; what the fingerprint holds."""
    documents: int
    tokens: int
    """Tokens that the loss is measured on."""


def inspect_target(settings: UtilitySettings, ingest: IngestSettings) -> TargetFiles:
    """Read the target files, so that what is wrong with them is said before any work.

    Raises:
        RecordError: a path names no file, a file cannot be read as text, or none holds a token.
    """
    files = _files(settings)
    content = tuple(sorted(_sha256(file.path) for file in files))
    texts = _texts(settings, ingest, files)
    _, tokens = _sampled(texts)
    if not len(tokens):
        raise RecordError(
            f"{KEY} = {list(settings.target)}: the {len(files)} files hold {len(texts)} documents "
            f"without a word under {settings.text!r}; give files with text"
        )
    return TargetFiles(content, len(texts), len(tokens))


def read_target(
    settings: UtilitySettings, ingest: IngestSettings, content: tuple[str, ...]
) -> tuple[Offsets, Hashes]:
    """Return the sampled tokens of the target; where each document begins, and the hashes.

    Raises:
        RecordError: the files are no longer those that were inspected.
    """
    files = _files(settings)
    if tuple(sorted(_sha256(file.path) for file in files)) != content:
        raise RecordError(f"{KEY}: the files changed while the run read them; start it again")
    return _sampled(_texts(settings, ingest, files))


def _files(settings: UtilitySettings) -> list[SourceFile]:
    found: dict[str, SourceFile] = {}
    for pattern in settings.target:
        try:
            listed = list_files(SourceSettings(name=KEY, path=pattern, text=settings.text))
        except RecordError as error:
            raise RecordError(f"{KEY}: {str(error).removeprefix(f'source {KEY!r}: ')}") from error
        found.update({file.path: file for file in listed})
    return [found[path] for path in sorted(found)]


def _sha256(path: str) -> str:
    try:
        with open_binary(path) as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    except OSError as error:
        raise RecordError(f"{KEY}: {path} cannot be read ({error}); correct the path") from error


def _texts(settings: UtilitySettings, ingest: IngestSettings, files: list[SourceFile]) -> list[str]:
    """Return all texts, normalized as the corpus is.

    Raises:
        RecordError: a record holds no text.
    """
    texts: list[str] = []
    for file in files:
        before = len(texts)
        for rows in _rows(file, settings, ingest):
            for reject in rows.rejects:
                line = "" if reject.line is None else f" record {reject.line}"
                detail = f" ({reject.detail})" if reject.detail else ""
                raise RecordError(
                    f"{KEY}: {file.path}{line}: {reject.reason}{detail}; every record needs text "
                    f"under {settings.text!r}: correct the file, or mixture.utility.text"
                )
            texts += [normalize_text(text, ingest) for text in rows.text.to_pylist()]
        if len(texts) == before:
            raise RecordError(f"{KEY}: {file.path} is empty; give a file with text, or remove it")
    return texts


def _rows(file: SourceFile, settings: UtilitySettings, ingest: IngestSettings) -> Iterator[Rows]:
    source = SourceSettings(name=KEY, path=file.path, text=settings.text)
    fields = Fields.of(source, file.relative, ingest)
    size = 1 << 62
    if file.format == "parquet":
        groups = len(row_group_sizes(file.path) or ())
        return read_row_groups(file.path, 0, groups, rows_before=0, part_bytes=size, fields=fields)
    if file.format == "jsonl":
        if file.compression:
            return read_compressed(file.path, file.compression, part_bytes=size, fields=fields)
        return read_range(file.path, 0, file.size, line_feeds=0, part_bytes=size, fields=fields)
    return read_documents([(file.path, file.relative, 0)], file.compression)


def _sampled(texts: list[str]) -> tuple[Offsets, Hashes]:
    """Return documents in the order of their hashes, up to :data:`TARGET_TOKENS` tokens in all.

    One document gives at most its share of them, or 4096 tokens where that is more.
    """
    texts = sorted(texts, key=lambda text: hashlib.blake2b(text.encode(), digest_size=16).digest())
    most = max(_LEAST_CUT, TARGET_TOKENS // max(1, len(texts)))
    offsets, tokens = [0], [np.empty(0, np.uint64)]
    for text in texts:
        _, found = token_hashes(pa.array([text], pa.string()))
        taken = found[: min(most, TARGET_TOKENS - offsets[-1])]
        offsets.append(offsets[-1] + len(taken))
        tokens.append(taken)
        if offsets[-1] == TARGET_TOKENS:
            break
    bounds = np.array(offsets, np.int64)
    return gather(bounds[:-1], np.diff(bounds), np.concatenate(tokens))

"""Evaluation files: items as JSON lines, read and checked before work starts."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from pipelines.artifacts import fingerprint
from pipelines.formats.find import FoundFile, find_files
from pipelines.formats.stream import Compression, StreamBreak, open_binary, read_chunks, read_file
from transforms.contamination import DecontaminateSettings
from transforms.record import RecordError

_COMPRESSIONS: dict[str, Compression] = {".gz": "gz", ".zst": "zst"}
_SUFFIXES = (".jsonl", ".ndjson")
_CHUNK = 4 << 20
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class EvaluationFile:
    """An evaluation file that was found."""

    path: str
    name: str
    """Path below the fixed part of its glob: the item set in reports."""
    sha256: str


@dataclass(frozen=True, slots=True)
class Item:
    """One evaluation item."""

    item_set: str
    item_id: str
    text: str
    answer: str
    """Empty where there is none."""


def find_evaluation_files(patterns: Sequence[str]) -> list[EvaluationFile]:
    """Return the files that globs name, each once, by glob and path.

    Raises:
        RecordError: a glob names nothing or a folder, or a file is no JSON lines file.
    """
    found: dict[str, EvaluationFile] = {}
    for number, pattern in enumerate(patterns):
        files = find_files(pattern)
        if not files:
            raise RecordError(
                f"decontaminate.path.{number}: {pattern} names no file; correct the path"
            )
        for file in files:
            if file.path not in found:
                _compression(file.path)
                found[file.path] = EvaluationFile(file.path, file.relative, _sha256(file))
    return list(found.values())


def read_items(files: Sequence[EvaluationFile], settings: DecontaminateSettings) -> list[Item]:
    """Read all items, by file and line.

    Raises:
        RecordError: a line is no JSON object with a text; file, line and remedy are named.
    """
    items: list[Item] = []
    for file in files:
        before = len(items)
        for number, line in _lines(file.path):
            if line.strip():
                where = f"decontaminate: {file.path}, line {number}"
                items.append(_item(line, number, file.name, where, settings))
        if len(items) == before:
            raise RecordError(f"decontaminate: {file.path} has no items; remove it from the path")
    return items


def items_fingerprint(files: Sequence[EvaluationFile]) -> str:
    """Return the fingerprint of the evaluation files' names and contents."""
    return fingerprint(files=[[file.name, file.sha256] for file in files])


def _compression(path: str) -> Compression | None:
    suffixes = Path(path).suffixes
    compression = _COMPRESSIONS.get(suffixes[-1].lower()) if suffixes else None
    stem = suffixes[:-1] if compression else suffixes
    if not stem or stem[-1].lower() not in _SUFFIXES:
        raise RecordError(
            f"decontaminate.path: {path} is no JSON lines file ({', '.join(_SUFFIXES)}, also with "
            ".gz or .zst behind it); narrow the path or convert the file"
        )
    return compression


def _sha256(file: FoundFile) -> str:
    digest = hashlib.sha256()
    try:
        with open_binary(file.path) as stream:
            for chunk in read_chunks(stream, _CHUNK):
                digest.update(chunk)
    except OSError as error:
        raise RecordError(
            f"decontaminate.path: cannot read {file.path}: {error.strerror}; make it readable"
        ) from error
    return digest.hexdigest()


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers, from 1."""
    content = bytearray()
    try:
        for chunk in read_file(path, _compression(path)):
            content += chunk
    except StreamBreak as broken:
        raise RecordError(
            f"decontaminate: {path}: {broken.reason} ({broken.detail}); replace the file"
        ) from broken
    text = bytes(content).removeprefix(b"\xef\xbb\xbf")
    yield from enumerate(text.split(b"\n"), 1)


def _item(
    line: bytes, number: int, item_set: str, where: str, settings: DecontaminateSettings
) -> Item:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        shown = line[:_SHOWN].decode(errors="replace")
        raise RecordError(
            f"{where}: not JSON ({error.msg.partition(':')[0]}): {shown!r}; correct the line, or "
            "name another file in decontaminate.path"
        ) from error
    if not isinstance(record, dict):
        raise RecordError(
            f"{where}: {line[:_SHOWN].decode()!r} is no JSON object; write one object a line"
        )
    if settings.text not in record:
        keys = ", ".join(map(repr, list(record)[:8])) or "none"
        raise RecordError(
            f"{where}: no key {settings.text!r} among {keys}; name the key of the item's text in "
            "decontaminate.text"
        )
    text = record[settings.text]
    if not isinstance(text, str) or not text.strip():
        what = "is empty" if isinstance(text, str) else f"is {_shown(text)}, not a string"
        raise RecordError(
            f"{where}: {settings.text!r} {what}; correct the line, or name the key of the item's "
            "text in decontaminate.text"
        )
    name = record.get(settings.id)
    usable = isinstance(name, str | int) and not isinstance(name, bool) and name != ""
    item_id = str(name) if usable else f"{item_set}#{number}"
    return Item(item_set, item_id, text, _answer(record.get(settings.answer)))


def _shown(value: Any) -> str:
    return orjson.dumps(value).decode()[:_SHOWN]


def _answer(value: Any) -> str:
    """Return an answer as text: strings, numbers, and lists of them; else nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return str(value)
    if isinstance(value, list):
        return " ".join(filter(None, map(_answer, value)))
    return ""

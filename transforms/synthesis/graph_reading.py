"""The files of a graph's input: which they are, their lines and rows, and what cannot be read.

Triples are a file, or in a folder ``triples.*``, else every ``*.tsv``, else every ``*.nt``:
tab-separated, JSON lines or N-Triples, also as .gz or .zst, and Parquet. ``entities.*``,
``relations.*`` and ``types.*`` beside them (JSON lines or Parquet) describe what they name. All
other files are left alone.
"""

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from transforms.ingest import Reject
from transforms.record import RecordError

Form = Literal["tsv", "jsonl", "nt", "parquet"]
Row = tuple[int, str, str, str, bool | None]
"""Line or row from 1, head, relation, tail, and whether the tail is an entity; None = not said."""
OnReject = Callable[[Reject], None]

MALFORMED = "malformed triple"
_DETAIL = 200
_BOM = b"\xef\xbb\xbf"
_CHUNK_BYTES = 1 << 18
_WINDOW_BYTES = 64 << 20
_FORMS: dict[str, Form] = {
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".nt": "nt",
    ".ntriples": "nt",
    ".parquet": "parquet",
}
_PACKED = (".gz", ".zst")
_HEADERS = (("head", "relation", "tail"), ("subject", "predicate", "object"))
_BROKEN = (EOFError, OSError, zlib.error, zstandard.ZstdError)


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file of a graph's input.

    Attributes:
        path: where it is.
        name: its path as it is written in ``rejects``.
        form: how its rows are written.
    """

    path: Path
    name: str
    form: Form


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The files of a graph's input; a description that is absent is None."""

    triples: tuple[InputFile, ...]
    entities: InputFile | None = None
    relations: InputFile | None = None
    types: InputFile | None = None


def list_files(path: Path) -> InputFiles:
    """Find the files of a graph.

    Args:
        path: a file of triples, or a folder.

    Raises:
        RecordError: nothing is there, or nothing of it is a graph; the message says what is needed.
    """
    if path.is_file():
        if (form := form_of(path)) is None:
            raise RecordError(
                f"{path}: not a file of triples; .tsv, .jsonl, .nt (also .gz, .zst) and .parquet "
                "are read"
            )
        return InputFiles((InputFile(path, path.name, form),))
    if not path.is_dir():
        raise RecordError(f"{path}: no such file or folder; name a file of triples or a folder")
    found = [
        InputFile(one, one.name, form)
        for one in sorted(path.iterdir(), key=lambda one: one.name)
        if one.is_file() and (form := form_of(one)) is not None
    ]
    described = {
        name: _only([one for one in found if _stem(one) == name and one.form in _DESCRIBING], path)
        for name in ("entities", "relations", "types")
    }
    rest = [one for one in found if _stem(one) not in described]
    for wanted in ([one for one in rest if _stem(one) == "triples"], *_by_form(rest)):
        if wanted:
            return InputFiles(tuple(wanted), **described)
    raise RecordError(
        f"{path}: holds no triples; a graph is triples.tsv, triples.jsonl, triples.nt or "
        "triples.parquet, or any *.tsv or *.nt files (also .gz, .zst)"
    )


_DESCRIBING = ("jsonl", "parquet")


def form_of(path: Path) -> Form | None:
    """Return how a file is written by its name; None where it is no form of ours."""
    suffixes = [one.lower() for one in path.suffixes]
    if suffixes and suffixes[-1] in _PACKED:
        form = _FORMS.get(suffixes[-2]) if len(suffixes) > 1 else None
        return None if form == "parquet" else form
    return _FORMS.get(suffixes[-1]) if suffixes else None


def _stem(file: InputFile) -> str:
    return file.name.partition(".")[0]


def _by_form(files: list[InputFile]) -> Iterator[list[InputFile]]:
    for form in ("tsv", "nt"):
        yield [one for one in files if one.form == form]


def _only(files: list[InputFile], folder: Path) -> InputFile | None:
    if len(files) > 1:
        names = ", ".join(one.name for one in files)
        raise RecordError(f"{folder}: {names} describe the same; keep one of them")
    return files[0] if files else None


def lines_of(file: InputFile, reject: OnReject) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of a file, without their ends; a stream that breaks is a reject."""
    number = 0
    try:
        for line in _cut(_chunks(file.path)):
            number += 1
            if number == 1:
                line = line.removeprefix(_BOM)
            yield number, line[:-1] if line.endswith(b"\r") else line
    except _BROKEN as error:
        reject(Reject(number + 1, "corrupt stream", str(error)[:_DETAIL], file.name))


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield the decompressed bytes of a file, as far as they can be read.

    Raises:
        EOFError: a compressed stream ends early, after all that is good.
    """
    suffix = path.suffix.lower()
    with path.open("rb") as stream:
        pieces = iter(lambda: stream.read(_CHUNK_BYTES), b"")
        if suffix not in _PACKED:
            yield from pieces
            return
        frame: Any = None
        for data in pieces:
            while data := data if frame is not None else data.lstrip(b"\0"):
                frame = frame or _decoder(suffix)
                yield frame.decompress(data)
                if not frame.eof:
                    break
                data, frame = frame.unused_data, None
        if frame is not None:
            raise EOFError("the file ends in mid-stream")


def _decoder(suffix: str) -> Any:
    """Return what decodes one gzip member or one zstd frame."""
    if suffix == ".gz":
        return zlib.decompressobj(31)
    return zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj()


def _cut(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a byte stream; one that a break leaves unfinished is no line."""
    held = b""
    for chunk in chunks:
        *lines, held = (held + chunk).split(b"\n")
        yield from lines
    if held:
        yield held


def text_of(line: bytes, number: int, name: str, reject: OnReject, reason: str) -> str | None:
    """Return a line as text; one that is blank or not UTF-8 gives None, the latter with a reject."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        detail = f"invalid UTF-8 at byte {error.start}: {line[:60]!r}"
        reject(Reject(number, reason, detail, name))
        return None
    return text if text and not text.isspace() else None


def tsv_rows(file: InputFile, reject: OnReject) -> Iterator[Row]:
    """Yield the triples of tab-separated lines; a first line of column names is passed over."""
    name = file.name
    for number, line in lines_of(file, reject):
        text = text_of(line, number, name, reject, MALFORMED)
        if text is None:
            continue
        parts = text.split("\t")
        if len(parts) != 3:
            detail = f"{len(parts)} columns, expected head, relation and tail: {text[:80]!r}"
            reject(Reject(number, MALFORMED, detail, name))
            continue
        head, relation, tail = parts[0].strip(), parts[1].strip(), parts[2].strip()
        if number == 1 and (head.lower(), relation.lower(), tail.lower()) in _HEADERS:
            continue
        if head and relation and tail:
            yield number, head, relation, tail, None
        else:
            reject(Reject(number, MALFORMED, f"an empty column: {text[:80]!r}", name))


def objects_of(file: InputFile, reject: OnReject, reason: str) -> Iterator[tuple[int, Any]]:
    """Yield the JSON objects, or the rows, of a file with their numbers.

    Raises:
        RecordError: a Parquet file cannot be read.
    """
    if file.form == "parquet":
        yield from _parquet_rows(file)
        return
    for number, line in lines_of(file, reject):
        if not line or line.isspace():
            continue
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            detail = f"{error.msg}: {line[:80].decode(errors='replace')!r}"
            reject(Reject(number, reason, detail[:_DETAIL], file.name))
            continue
        if isinstance(found, dict):
            yield number, found
        else:
            detail = f"not an object: {line[:80].decode(errors='replace')}"
            reject(Reject(number, reason, detail, file.name))


def _parquet_rows(file: InputFile) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    try:
        with pq.ParquetFile(file.path) as parquet:
            for batch in parquet.iter_batches(1 << 16):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise RecordError(f"{file.path}: cannot be read as Parquet: {reason}") from error


def object_rows(file: InputFile, reject: OnReject) -> Iterator[Row]:
    """Yield the triples of JSON objects or Parquet rows with the keys head, relation, tail."""
    for number, found in objects_of(file, reject, MALFORMED):
        head, relation = name_of(found.get("head")), name_of(found.get("relation"))
        tail, said = found.get("tail"), found.get("tail_is_entity")
        if problem := _problem(found, head, relation, tail, said):
            reject(Reject(number, MALFORMED, problem, file.name))
            continue
        literal = not isinstance(tail, str) and said is not True
        text = tail.strip() if isinstance(tail, str) else orjson.dumps(tail, default=str).decode()
        yield number, head, relation, text, False if literal else said  # type: ignore[misc]


def name_of(found: Any) -> str | None:
    """Return what names something: a text that is not blank, or a whole number's digits."""
    if isinstance(found, str):
        return found.strip() or None
    return str(found) if isinstance(found, int) and not isinstance(found, bool) else None


def _problem(
    found: dict[str, Any], head: str | None, relation: str | None, tail: Any, said: Any
) -> str | None:
    for key, name in (("head", head), ("relation", relation)):
        if name is None:
            return f"{key} is {_shown(found, key)}, expected a name"
    if (
        tail is None
        or isinstance(tail, dict | list)
        or (isinstance(tail, str) and not tail.strip())
    ):
        return f"tail is {_shown(found, 'tail')}, expected a name, a text or a number"
    if said is not None and not isinstance(said, bool):
        return f"tail_is_entity is {_shown(found, 'tail_is_entity')}, expected true or false"
    return None


def _shown(found: dict[str, Any], key: str) -> str:
    return repr(found[key])[:80] if key in found else "absent"

"""JSON lines: one object a line, its text and id under keys that the source names."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.formats.fields import Fields, RecordProblem, snippet
from pipelines.formats.lines import MAX_LINE_BYTES, LineBlock, line_blocks, skip_to_line
from pipelines.formats.stream import CHUNK_BYTES, Compression, open_binary, read_chunks, read_file
from pipelines.sources import DEFAULT_ID
from transforms.columns import as_strings, narrow
from transforms.ingest import Reject, Rows
from transforms.json_records import text_records

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_range(
    path: str, start: int, stop: int, *, line_feeds: int, part_bytes: int, fields: Fields
) -> Iterator[Rows]:
    """Read the lines of an uncompressed file that start in [start, stop).

    Args:
        path: the file.
        start: a multiple of ``part_bytes``.
        stop: end of the part, in bytes.
        line_feeds: line feeds before ``start``.
        part_bytes: size of a part.
        fields: what to take from a record.
    """
    with open_binary(path) as stream:
        number, rest = line_feeds + 1, b""
        if start:
            # The byte before tells whether a line starts here, as it may be a line feed.
            stream.seek(start - 1)
            found = skip_to_line(read_chunks(stream, CHUNK_BYTES, stop - start))
            if found is None:
                return
            # Past the line feed of a line that started in an earlier part: one more line feed.
            number += found[0] > 1
            start, rest = start - 1 + found[0], found[1]
        chunks = itertools.chain([rest], read_chunks(stream, CHUNK_BYTES))
        for block in line_blocks(
            chunks, part_bytes=part_bytes, offset=start, number=number, stop=stop
        ):
            yield parse_lines(block, fields)


def read_compressed(
    path: str, compression: Compression, *, part_bytes: int, fields: Fields
) -> Iterator[Rows]:
    """Read all lines of a compressed file, in parts of ``part_bytes`` decompressed bytes."""
    for block in line_blocks(read_file(path, compression), part_bytes=part_bytes):
        yield parse_lines(block, fields)


def parse_lines(block: LineBlock, fields: Fields) -> Rows:
    """Turn lines into rows and rejects; lines of white space are neither."""
    if block.number == 1 and block.content is not None:
        block = replace(block, content=block.content.removeprefix(_BYTE_ORDER_MARK))
    rows = None if fields.chat or fields.columns else _regular_lines(block, fields)
    return _any_lines(block, fields) if rows is None else rows


def _regular_lines(block: LineBlock, fields: Fields) -> Rows | None:
    """Turn lines into rows without making Python objects; None where one of them is irregular."""
    if block.content is None:
        return None
    found = text_records(block.content, fields.text, fields.id, fields.lang)
    if found is None:
        return None
    numbers = found.lines + block.number
    names = found.id
    if names.null_count:
        if fields.id != DEFAULT_ID:
            return None
        places = pa.array(numbers).cast(pa.string())
        names = pc.coalesce(names, pc.binary_join_element_wise(fields.path, places, "#"))
    return Rows(part=block.part, text=found.text, id=names, lang=found.lang, line=numbers)


def _any_lines(block: LineBlock, fields: Fields) -> Rows:
    """Turn lines into rows and rejects, one by one."""
    texts: list[str] = []
    ids: list[str] = []
    numbers: list[int] = []
    records: list[Mapping[str, Any]] = []
    rejects: list[Reject] = []
    for number, line in enumerate(block.lines, block.number):
        try:
            record = orjson.loads(line)  # type: ignore[arg-type]
            text = record[fields.text] if fields.chat is None else fields.chat.text(record)
            if type(text) is not str:
                raise TypeError
            name = record.get(fields.id)
            if type(name) is not str or not name:
                name = fields.record_id(name, number)
        except (orjson.JSONDecodeError, TypeError, KeyError, RecordProblem) as error:
            # A line that can be used pays for none of this.
            if line is None or not (line == b"" or line.isspace()):
                rejects.append(_reject(line, number, fields, error))
            continue
        texts.append(text)
        ids.append(name)
        numbers.append(number)
        records.append(record)
    if block.broken is not None:
        rejects.append(Reject(block.number, block.broken.reason, block.broken.detail))
    return Rows(
        part=block.part,
        text=pa.array(texts, pa.string()),
        id=pa.array(ids, pa.string()),
        lang=as_strings(narrow([record.get(fields.lang) for record in records])),
        line=np.array(numbers, np.int64),
        columns={
            name: narrow([record.get(key) for record in records])
            for name, key in fields.columns.items()
        },
        rejects=rejects,
    )


def _reject(line: bytes | None, number: int, fields: Fields, error: Exception) -> Reject:
    """Say why a line that is not blank gives no row."""
    if line is None:
        return Reject(number, "record too long", f"more than {MAX_LINE_BYTES} bytes")
    if isinstance(error, RecordProblem):
        return Reject(number, error.reason, error.detail)
    if isinstance(error, orjson.JSONDecodeError):
        return Reject(number, *_undecodable(line, error))
    record = orjson.loads(line)
    if not isinstance(record, dict):
        return Reject(number, "not an object", snippet(record))
    if fields.text not in record:
        found = ", ".join(map(repr, itertools.islice(record, 8)))
        return Reject(number, "missing text", f"no key {fields.text!r} among {found or 'no keys'}")
    if record[fields.text] is None:
        return Reject(number, "text is null", None)
    return Reject(number, "text is not a string", snippet(record[fields.text]))


def _undecodable(line: bytes, error: orjson.JSONDecodeError) -> tuple[str, str]:
    """Return reason and detail for a line that is not JSON in UTF-8."""
    try:
        text = line.decode()
    except UnicodeDecodeError as wrong:
        near = line[max(wrong.start - 20, 0) : wrong.start + 20]
        return "invalid UTF-8", f"byte {wrong.start}: {near!r}"
    near_text = text[max(error.pos - 20, 0) : error.pos + 40]
    detail = f"{error.msg.partition(':')[0]}, character {error.pos}: {near_text!r}"
    if _SURROGATE.search(line):
        # Half a character in JSON's escapes: JSON for a lenient reader, but no text.
        try:
            json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return "bad JSON", detail
        return "lone surrogate", detail
    return "bad JSON", detail


def _refuse(constant: str) -> None:
    raise ValueError(constant)

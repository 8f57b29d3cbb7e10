"""Readers: every record becomes a document or a reject, wherever a file is cut or broken."""

import contextlib
import gzip
import itertools
import json
import random
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.formats import documents as documents_format
from pipelines.formats import lines as lines_format
from pipelines.formats import stream as stream_format
from pipelines.formats import writer as writer_format
from pipelines.formats.fields import Fields
from pipelines.formats.ingest import ingest_part
from pipelines.formats.jsonl import read_compressed, read_range
from pipelines.formats.lines import line_blocks
from pipelines.formats.parquet import read_row_groups
from pipelines.formats.stream import StreamBreak, read_file
from pipelines.parts import list_parts
from pipelines.sources import SourceSettings
from transforms.ingest import INGEST_SCHEMA
from transforms.record import REJECT_SCHEMA
from transforms.text import IngestSettings, normalize_text

FIELDS = Fields("f", "text", "id", "lang", {"n": "n"})


class Ingested:
    """All documents and rejects of some sources, and the accounts of their tasks."""

    def __init__(self, folder, *sources, ingest=None):
        out = folder / f"out-{random.getrandbits(40):x}"
        out.mkdir()
        ingest = ingest or IngestSettings()
        self.parts = list_parts(sources, ingest, folder / "cache.json")
        self.files, self.counters, self.found = [], {}, {}
        by_name = {source.name: source for source in sources}
        for number, part in enumerate(self.parts):
            result = ingest_part(part, by_name[part.source], ingest, out, f"{number:012x}")
            self.files += result.files
            for key, value in result.counters.items():
                self.counters[key] = self.counters.get(key, 0) + value
            for key, value in result.found.items():
                self.found[key] = self.found.get(key, 0) + value
        assert sorted(path.name for path in out.iterdir()) == sorted(f.name for f in self.files)
        tables = {"data": [], "rejects": []}
        for entry in self.files:
            tables[entry.kind].append(pq.read_table(out / entry.name))
            assert entry.rows == len(tables[entry.kind][-1])
        self.tables = tables["data"]
        empty = pa.schema(INGEST_SCHEMA).empty_table()
        self.table = pa.concat_tables([empty, *self.tables], promote_options="permissive")
        self.rejects = pa.concat_tables([REJECT_SCHEMA.empty_table(), *tables["rejects"]])
        assert self.counters.get("ingested", 0) == len(self.table)
        assert self.counters.get("rejected", 0) == len(self.rejects)
        assert self.counters.get("lines", 0) == len(self.table) + len(self.rejects)
        assert len(set(self.table["doc_uid"].to_pylist())) == len(self.table)

    def reasons(self):
        """Return {line: reason} of the rejects."""
        lines, reasons = self.rejects["line"].to_pylist(), self.rejects["reason"].to_pylist()
        return dict(zip(lines, reasons, strict=True))

    def texts(self):
        """Return the texts in the order of path and line."""
        ordered = self.table.sort_by([("source_path", "ascending"), ("source_line", "ascending")])
        return ordered["text"].to_pylist()


def source_of(path, **keys):
    return SourceSettings(name="s", path=str(path), **keys)


BROKEN = [
    (b'{"id": "b1", "text": ', "bad JSON"),
    (b'{"id": "b2"}', "missing text"),
    (b'{"id": "b3", "text": 5}', "text is not a string"),
    (b'{"id": "b4", "text": null}', "text is null"),
    (b"[]", "not an object"),
    (b'"str"', "not an object"),
    (b"12", "not an object"),
    (b"null", "not an object"),
    (b"nan", "bad JSON"),
    (b'{"text": NaN}', "bad JSON"),
    (b'{"text": "x", "n": 1e999}', "bad JSON"),
    (b'{"text": ["a"]}', "text is not a string"),
    (b'{"text": {"a": "' + b"y" * 999 + b'"}}', "text is not a string"),
    (b'{"text": "x" "y"}', "bad JSON"),
    (b"{", "bad JSON"),
    (b"}", "bad JSON"),
    (b'{"text": "a"}{"text": "b"}', "bad JSON"),
    (b"{'text': 'a'}", "bad JSON"),
    (b'{"text": "a",}', "bad JSON"),
    (b'{"text": "a\tb"}', "bad JSON"),
    (b'{"id": "b6", "text": "\\ud800 lone"}', "lone surrogate"),
    (b'{"id": "b6", "text": "\\udc00\\ud800"}', "lone surrogate"),
    (b'{"id": "b6", "text": "\\ud800" "x"}', "bad JSON"),
    (b"\x00\x00", "bad JSON"),
    (b"\xef\xbb\xbf{}", "bad JSON"),
    (b'{"TEXT": "wrong case"}', "missing text"),
    (b'{"text": "\xff\xfe bad"}', "invalid UTF-8"),
    (b'{"text": "\xed\xa0\x80"}', "invalid UTF-8"),
    (b'{"text": "\xc3"}', "invalid UTF-8"),
    (b"[" * 3000, "bad JSON"),
    (b'{"text": "a", "id": ""}', "id is empty"),
    (b'{"text": "a", "id": 1.5}', "id is not a string"),
    (b'{"text": "a", "id": true}', "id is not a string"),
    (b'{"text": "a", "id": ["b"]}', "id is not a string"),
    (b'{"text": "' + b"z" * 2000 + b'"}', "over max_chars"),
]
GOOD = [
    (b'{"text": "with a number for an id", "id": 12345678901}', "12345678901"),
    (b'\t{"text": "spaces around", "id": "ok"} \r', "ok"),
    (b'{"text": "twice", "text": "last key wins", "id": "dup"}', "dup"),
    (b'{"text": "null id", "id": null}', "a.jsonl#"),
    (b'{"text": "no id"}', "a.jsonl#"),
    ('{"text": "\\ud83d\\ude00 \\u0000 中", "id": "é\\n"}'.encode(), "é\n"),
    (b'{"text": "", "id": "empty"}', "empty"),
]


def test_every_kind_of_broken_line_is_accounted_for(tmp_path):
    """35 kinds of broken lines between good and blank ones: reason and line of each, none lost."""
    lines, want, ids = [], {}, {}
    for number, (line, expected) in enumerate(
        [
            pair
            for triple in zip(BROKEN, GOOD * 5, [(b"", None)] * 35, strict=True)
            for pair in triple
        ],
        1,
    ):
        lines.append(line if expected is not None or number % 2 else b" \t\r")
        if (line, expected) in BROKEN:
            want[number] = expected
        elif expected is not None:
            ids[number] = f"a.jsonl#{number}" if expected == "a.jsonl#" else expected
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    done = Ingested(
        tmp_path, source_of(tmp_path / "*.jsonl"), ingest=IngestSettings(max_chars=1500)
    )
    assert done.reasons() == want
    assert set(done.rejects["path"].to_pylist()) == {"a.jsonl"}
    found = done.table.select(["source_line", "id"]).to_pylist()
    assert {row["source_line"]: row["id"] for row in found} == ids
    assert max(len(detail or "") for detail in done.rejects["detail"].to_pylist()) < 300
    assert done.counters["dropped_min_chars"] == 5
    assert "\U0001f600  中" in done.texts()


def test_an_id_column_of_another_name_must_be_there(tmp_path):
    """Records without the named id are rejected, not named by their place."""
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "a", "id": "x"}\n{"text": "a", "key": 7}\n')
    done = Ingested(tmp_path, source_of(tmp_path / "a.jsonl", id="key"))
    assert done.reasons() == {1: "missing id"}
    assert done.table["id"].to_pylist() == ["7"]


def test_a_byte_order_mark_and_carriage_returns_are_no_part_of_a_line(tmp_path):
    """A mark before the first line and CR LF line ends change nothing."""
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "a"}\r\n\r\n{"text": "b"}\r\n')
    done = Ingested(tmp_path, source_of(tmp_path / "a.jsonl"))
    assert done.table["id"].to_pylist() == ["a.jsonl#1", "a.jsonl#3"]


def record(number, size=0):
    return json.dumps({"text": f"text {number} " + "x" * size, "id": f"i{number}"}).encode()


lines_of_bytes = st.lists(st.binary(max_size=9).map(lambda b: b.replace(b"\n", b"")), max_size=12)


@given(lines_of_bytes, st.booleans(), st.lists(st.integers(0, 60), max_size=6), st.integers(1, 25))
def test_lines_do_not_depend_on_chunks(items, ended, cuts, part_bytes):
    """However a stream is chunked, lines, numbers and parts are those of the whole."""
    data = b"\n".join(items) + (b"\n" if ended and items else b"")
    bounds = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    chunks = [data[a:b] for a, b in itertools.pairwise(bounds)]
    found = [
        (block.part, number, line)
        for block in line_blocks(chunks, part_bytes=part_bytes)
        for number, line in enumerate(block.lines, block.number)
    ]
    want, start = [], 0
    whole = data.split(b"\n")
    if whole[-1] == b"":
        whole.pop()
    for number, line in enumerate(whole, 1):
        want.append((start // part_bytes, number, line))
        start += len(line) + 1
    assert found == want


@settings(max_examples=30)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=10), st.booleans(), st.data())
def test_byte_ranges_give_the_lines_of_the_file(tmp_path_factory, sizes, ended, data):
    """For every part size, the ranges together give each record once, under the right line."""
    path = tmp_path_factory.mktemp("ranges") / "a.jsonl"
    lines = [
        b"" if size == 0 else b"?" * size if size < 4 else record(n, size)
        for n, size in enumerate(sizes)
    ]
    content = b"\n".join(lines) + (b"\n" if ended else b"")
    path.write_bytes(content)
    whole = list(
        read_range(str(path), 0, len(content), line_feeds=0, part_bytes=1 << 40, fields=FIELDS)
    )
    want = flat(whole)
    for part_bytes in {1, 2, 3, *data.draw(st.lists(st.integers(1, 300), max_size=12))}:
        found = []
        for start in range(0, len(content), part_bytes):
            stop = min(start + part_bytes, len(content))
            feeds = content[:start].count(b"\n")
            rows = list(
                read_range(
                    str(path), start, stop, line_feeds=feeds, part_bytes=part_bytes, fields=FIELDS
                )
            )
            assert {r.part for r in rows} <= {start // part_bytes}
            found += rows
        assert flat(found) == want


def flat(batches):
    """Return the rows and rejects of batches, in order."""
    batches = list(batches)
    rows = [
        (int(line), text, name)
        for batch in batches
        for line, text, name in zip(
            batch.line, batch.text.to_pylist(), batch.id.to_pylist(), strict=True
        )
    ]
    return rows, [(r.line, r.reason) for batch in batches for r in batch.rejects]


def gz_members(pieces):
    return b"".join(gzip.compress(piece, mtime=0) for piece in pieces)


def zst_frames(pieces):
    # A checksum and small blocks, so that cuts fall between blocks too.
    compressor = zstandard.ZstdCompressor(write_checksum=True)
    frames = []
    for piece in pieces:
        stream = compressor.compressobj()
        frame = b"".join(
            stream.compress(piece[at : at + 50]) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            for at in range(0, len(piece), 50)
        )
        frames.append(frame + stream.flush())
    return b"".join(frames)


def readable_gz(data):
    """Decompress as much of a gzip file as zlib can, member after member."""
    out = b""
    while data:
        member = zlib.decompressobj(31)
        out += member.decompress(data)
        data = member.unused_data
        if not member.eof:
            return out, False
    return out, True


def readable_zst(data):
    """Decompress as much of a zstd file as the library's own reader gives."""
    out = b""
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        out += frame.decompress(data)
        if not frame.eof:
            return out, False
        data = frame.unused_data
    return out, True


@pytest.mark.parametrize(
    ("compression", "compress", "readable"),
    [("gz", gz_members, readable_gz), ("zst", zst_frames, readable_zst)],
)
def test_truncated_streams_keep_what_is_readable(tmp_path, compression, compress, readable):
    """Cut at every byte: all whole lines before the cut, and one reject where it breaks."""
    lines = [record(number, number % 50) for number in range(24)]
    pieces = [b"\n".join(lines[at : at + 8]) + b"\n" for at in range(0, 24, 8)]
    data = compress(pieces)
    path = tmp_path / "a"
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        text, complete = readable(data[:cut])
        whole = text.count(b"\n")
        rows, rejects = flat(read_compressed(str(path), compression, part_bytes=300, fields=FIELDS))
        assert [row[2] for row in rows] == [f"i{number}" for number in range(whole)]
        assert rejects == ([] if complete else [(whole + 1, "truncated stream")])


@pytest.mark.parametrize(("compression", "compress"), [("gz", gz_members), ("zst", zst_frames)])
def test_corrupt_streams_end_in_one_reject(tmp_path, compression, compress):
    """Any byte flipped: nothing but lines and at most one broken stream, and never an exception."""
    lines = [record(number, 20) for number in range(12)]
    data = compress([b"\n".join(lines) + b"\n"])
    path = tmp_path / "a"
    broken = 0
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        _, rejects = flat(read_compressed(str(path), compression, part_bytes=300, fields=FIELDS))
        reasons = [reason for _, reason in rejects]
        streams = [reason for reason in reasons if reason.endswith("stream")]
        assert len(streams) <= 1
        assert reasons[len(reasons) - len(streams) :] == streams
        broken += len(streams)
    assert broken > len(data) * 0.8


@pytest.mark.parametrize("compression", ["gz", "zst"])
def test_lines_before_a_corrupt_place_are_kept(tmp_path, compression):
    """A break in the middle of a large file loses nothing that was decompressed before it."""
    rng = random.Random(3)
    lines = [json.dumps({"text": f"{rng.getrandbits(400):x}", "id": str(n)}) for n in range(4000)]
    content = ("\n".join(lines) + "\n").encode()
    data = gzip.compress(content, 1) if compression == "gz" else zstandard.compress(content)
    half = len(data) // 2
    data = data[:half] + b"\xff" * 64 + data[half + 64 :]
    path = tmp_path / "a"
    path.write_bytes(data)
    rows, rejects = flat(read_compressed(str(path), compression, part_bytes=1 << 20, fields=FIELDS))
    # A step of one byte at a time tells how much can be had.
    readable = 0
    decoder = (
        zlib.decompressobj(31)
        if compression == "gz"
        else zstandard.ZstdDecompressor().decompressobj()
    )
    with contextlib.suppress(zlib.error, zstandard.ZstdError):
        for byte in range(len(data)):
            readable += decoder.decompress(data[byte : byte + 1]).count(b"\n")
    # Damaged text may go on for a while before the decoder notices.
    assert [row[2] for row in rows[:1000]] == [str(number) for number in range(1000)]
    assert rejects[-1] == (readable + 1, "corrupt stream")


@pytest.mark.parametrize(
    ("compression", "data", "lines", "reason"),
    [
        ("gz", b"", 0, None),
        ("zst", b"", 0, None),
        ("gz", gzip.compress(b"", mtime=0), 0, None),
        ("zst", bytes.fromhex("28b52ffd2000010000"), 0, None),
        ("gz", gzip.compress(b'{"text": "a"}', mtime=0) + b"\0" * 9, 1, None),
        ("gz", gzip.compress(b'{"text": "a"}\n', mtime=0) + b"tail", 1, "corrupt stream"),
        ("gz", b"this is no gzip file", 0, "corrupt stream"),
        ("zst", b"this is no zstd file", 0, "corrupt stream"),
        ("zst", zst_frames([b'{"text": "a"}\n']) + b"\x50\x2a\x4d\x18\x02\0\0\0ab", 1, None),
        ("gz", gz_members([b'{"text":', b' "a"}\n{"text": "b"}']), 2, None),
        ("zst", zst_frames([b'{"text":', b' "a"}\n{"text": "b"}']), 2, None),
    ],
    ids=range(11),
)
def test_odd_but_known_streams(tmp_path, compression, data, lines, reason):
    """Empty files and frames, padding, skippable frames, lines over members, files of another kind."""
    path = tmp_path / "a"
    path.write_bytes(data)
    rows, rejects = flat(read_compressed(str(path), compression, part_bytes=100, fields=FIELDS))
    assert len(rows) == lines
    assert [found for _, found in rejects] == ([reason] if reason else [])


def test_windows_of_up_to_64_mib_are_read(tmp_path):
    """A frame with a window of 64 MiB is read, one of 128 MiB is refused as a reject."""
    for log, good in ((26, True), (27, False)):
        parameters = zstandard.ZstdCompressionParameters(window_log=log, compression_level=1)
        stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        data = stream.compress(b'{"text": "a"}\n') + stream.flush()
        (tmp_path / "a").write_bytes(data)
        rows, rejects = flat(
            read_compressed(str(tmp_path / "a"), "zst", part_bytes=9, fields=FIELDS)
        )
        assert (len(rows), len(rejects)) == ((1, 0) if good else (0, 1))


def test_decompression_is_bounded(tmp_path):
    """A small file that expands to much is handed on in pieces of a few MiB."""
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(64 << 20)))
    sizes = [len(chunk) for chunk in read_file(str(tmp_path / "a.gz"), "gz")]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= 6 << 20


def test_lines_over_the_limit_are_passed_over(tmp_path, monkeypatch):
    """A line that no string column could hold is one reject; the lines around it are kept."""
    monkeypatch.setattr(lines_format, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(stream_format, "CHUNK_BYTES", 300)
    monkeypatch.setattr("pipelines.formats.jsonl.CHUNK_BYTES", 300)
    lines = [record(1), record(2, 5000), record(3, 100), record(4, 9000)]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines))
    done = Ingested(tmp_path, source_of(tmp_path / "a.jsonl"))
    assert done.reasons() == {2: "record too long", 4: "record too long"}
    assert done.table["id"].to_pylist() == ["i1", "i3"]


def test_bytes_do_not_depend_on_how_a_file_is_read(tmp_path, monkeypatch):
    """Small chunks and small batches give the same files, byte for byte."""
    rng = random.Random(1)
    values = [1, 2.5, None, "x", True, 2**60, [1]]
    lines = [
        json.dumps(
            {"text": "word " * rng.randrange(60), "id": n, "n": rng.choice(values), "m": n / 2}
        )
        for n in range(700)
    ]
    content = "\n".join([*lines[:350], "{broken", *lines[350:]]).encode()
    (tmp_path / "a.jsonl").write_bytes(content)
    (tmp_path / "b.jsonl.gz").write_bytes(gz_members([content[:9000], content[9000:]]))
    (tmp_path / "c.jsonl.zst").write_bytes(zst_frames([content]))
    source = source_of(tmp_path / "*.jsonl*", columns={"n": "n", "m": "m"})
    monkeypatch.setattr(writer_format, "ROW_GROUP_BYTES", 20_000)
    digests = []
    for chunk in (4 << 20, 1000, 77):
        monkeypatch.setattr(stream_format, "CHUNK_BYTES", chunk)
        monkeypatch.setattr("pipelines.formats.jsonl.CHUNK_BYTES", chunk)
        monkeypatch.setattr(stream_format, "_COMPRESSED_BYTES", chunk)
        done = Ingested(tmp_path, source)
        digests.append([(f.name, f.sha256) for f in done.files])
    assert digests[0] == digests[1] == digests[2]
    assert len(done.table) == 2100
    assert done.table.schema.field("n").type == pa.string()
    assert done.table.schema.field("m").type == pa.float64()


def test_row_groups_are_bounded(tmp_path, monkeypatch):
    """A row group holds at most ROW_GROUP_BYTES of text, or one document."""
    monkeypatch.setattr(writer_format, "ROW_GROUP_BYTES", 1000)
    monkeypatch.setattr(writer_format, "ROW_GROUP_ROWS", 5)
    sizes = [10, 2000, 10, 400, 400, 400, *[1] * 12]
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(record(n, size) for n, size in enumerate(sizes)))
    done = Ingested(tmp_path, source_of(tmp_path / "a.jsonl"))
    [out] = tmp_path.glob("out-*")
    file = pq.ParquetFile(out / done.files[0].name)
    rows = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert rows == [1, 1, 3, 5, 5, 3]


def test_typed_columns_and_language(tmp_path):
    """Columns keep their types; a missing one is null; lang takes strings."""
    items = [
        {"text": "a", "s": 3, "lang": "en"},
        {"text": "b", "s": None, "u": "x"},
        {"text": "c", "lang": 5},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, items)))
    columns = {"score": "s", "url": "u", "none": "nothing"}
    done = Ingested(tmp_path, source_of(tmp_path / "a.jsonl", columns=columns, domain="web"))
    assert done.table["score"].to_pylist() == [3, None, None]
    assert done.table.schema.field("score").type == pa.int64()
    assert done.table["url"].to_pylist() == [None, "x", None]
    assert done.table.schema.field("none").type == pa.null()
    assert done.table["lang"].to_pylist() == ["en", None, "5"]
    assert set(done.table["domain"].to_pylist()) == {"web"}
    assert done.found == {"lang": 2, "score": 1, "url": 1, "none": 0}


def test_parquet_types(tmp_path):
    """Texts and ids of every string type, integer ids, nulls and wrong types."""
    texts = ["a", None, "ccc", "a"]
    kinds = {
        "string": pa.array(texts),
        "large": pa.array(texts, pa.large_string()),
        "view": pa.array(texts, pa.string_view()),
        "binary": pa.array([t and t.encode() for t in texts]),
        "large_binary": pa.array([t and t.encode() for t in texts], pa.large_binary()),
        "coded": pa.array(texts).dictionary_encode(),
    }
    for name, array in kinds.items():
        table = pa.table(
            {"text": array, "id": pa.array([1, 2, 3, None], pa.int32()), "n": [0.5] * 4}
        )
        pq.write_table(table, tmp_path / f"{name}.parquet")
        path = tmp_path / f"{name}.parquet"
        done = Ingested(tmp_path, source_of(path, columns={"n": "n"}))
        assert done.texts() == ["a", "ccc", "a"]
        assert done.table["id"].to_pylist() == ["1", "3", f"{name}.parquet#4"]
        assert done.reasons() == {2: "text is null"}
        assert done.table["n"].to_pylist() == [0.5] * 3
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "int.parquet")
    assert Ingested(tmp_path, source_of(tmp_path / "int.parquet")).reasons() == dict.fromkeys(
        (1, 2), "text is not a string"
    )
    pq.write_table(pa.table({"content": ["a"] * 3}), tmp_path / "other.parquet")
    done = Ingested(tmp_path, source_of(tmp_path / "other.parquet"))
    assert done.reasons() == dict.fromkeys((1, 2, 3), "missing text")
    pq.write_table(pa.table({"text": pa.nulls(1)}), tmp_path / "null.parquet")
    assert Ingested(tmp_path, source_of(tmp_path / "null.parquet")).reasons() == {1: "text is null"}


def test_parquet_ids(tmp_path):
    """Empty ids, ids of another type, and a named id column that is missing or null."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a", "b", "c"], "id": ["x", "", None]}), path)
    done = Ingested(tmp_path, source_of(path))
    assert done.table["id"].to_pylist() == ["x", "a.parquet#3"]
    assert done.reasons() == {2: "id is empty"}
    pq.write_table(pa.table({"text": ["a", "b"], "key": ["x", None], "f": [0.5, 1.5]}), path)
    assert Ingested(tmp_path, source_of(path, id="key")).reasons() == {2: "missing id"}
    assert Ingested(tmp_path, source_of(path, id="other")).reasons() == {
        1: "missing id",
        2: "missing id",
    }
    assert set(Ingested(tmp_path, source_of(path, id="f")).reasons().values()) == {
        "id is not a string"
    }


def test_parquet_bytes_that_are_not_unicode(tmp_path):
    """Rows with invalid UTF-8 in any column that is taken are rejects, their neighbours are not."""
    good, bad = b"fine", b"\xff\xfe"
    path = tmp_path / "a.parquet"
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 4, 6, 10)))
    strings = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(good + bad + good))
    pq.write_table(pa.table({"text": strings, "n": ["1", "2", "3"]}), path)
    done = Ingested(tmp_path, source_of(path, columns={"n": "n"}))
    assert done.reasons() == {2: "invalid UTF-8"}
    assert done.table["n"].to_pylist() == ["1", "3"]
    pq.write_table(pa.table({"text": ["1", "2", "3"], "n": strings}), path)
    assert Ingested(tmp_path, source_of(path, columns={"n": "n"})).reasons() == {2: "invalid UTF-8"}
    assert Ingested(tmp_path, source_of(path)).texts() == ["1", "2", "3"]


def test_parquet_row_groups_that_cannot_be_read(tmp_path):
    """Rows of a corrupt row group are rejects, one each; other row groups are read."""
    rng = random.Random(5)
    texts = [f"{rng.getrandbits(2000):x}" for _ in range(60)]
    path = tmp_path / "a.parquet"
    pq.write_table(
        pa.table({"text": texts}),
        path,
        row_group_size=20,
        compression="zstd",
        use_dictionary=False,
        write_page_checksum=True,
    )
    data = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    middle = column.data_page_offset + column.total_compressed_size // 2
    data[middle : middle + 20] = b"\xaa" * 20
    path.write_bytes(data)
    done = Ingested(tmp_path, source_of(path))
    assert done.texts() == texts[:20] + texts[40:]
    assert done.reasons() == dict.fromkeys(range(21, 41), "corrupt row group")
    path.write_bytes(bytes(data[: len(data) // 2]))
    done = Ingested(tmp_path, source_of(path))
    assert done.rejects["reason"].to_pylist() == ["unreadable file"]
    path.write_bytes(b"")
    assert len(Ingested(tmp_path, source_of(path)).rejects) == 1


def test_parquet_any_byte_flipped(tmp_path):
    """Damage anywhere in a file ends in documents and rejects, never in an exception."""
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"text {n}" for n in range(9)], "id": [str(n) for n in range(9)]})
    pq.write_table(table, path, row_group_size=3, write_page_checksum=True)
    data = path.read_bytes()
    rng = random.Random(2)
    for place in rng.sample(range(len(data)), 120):
        path.write_bytes(
            data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]
        )
        Ingested(tmp_path, source_of(path))


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(1, 5), st.integers(1, 90))
@settings(max_examples=25)
def test_parquet_parts_by_bytes_of_text(tmp_path_factory, sizes, group, part_bytes):
    """Row groups longer than a part give several parts, with numbers that no other task has."""
    path = tmp_path_factory.mktemp("groups") / "a.parquet"
    texts = [str(n % 10) * size for n, size in enumerate(sizes)]
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), path, row_group_size=group)
    count = pq.ParquetFile(path).num_row_groups
    seen, found = set(), []
    for start in range(count):
        batches = list(
            read_row_groups(
                str(path),
                start,
                start + 1,
                rows_before=start * group,
                part_bytes=part_bytes,
                fields=FIELDS,
            )
        )
        numbers = {batch.part for batch in batches}
        assert not numbers & seen
        assert {number % count for number in numbers} <= {start}
        seen |= numbers
        for number in numbers:
            part = [text for b in batches if b.part == number for text in b.text.to_pylist()]
            assert sum(map(len, part[:-1])) < part_bytes
        found += flat(batches)[0]
    assert found == [(n + 1, text, f"f#{n + 1}") for n, text in enumerate(texts)]


def test_compressed_files_become_several_parts(tmp_path):
    """Parts of a compressed file hold the lines that start in each part_size of its content."""
    lines = [record(number, 50_000) for number in range(70)]
    (tmp_path / "a.jsonl.zst").write_bytes(zstandard.compress(b"\n".join(lines)))
    (tmp_path / "b.jsonl").write_bytes(b"\n".join(lines))
    ingest = IngestSettings(part_size_mib=1)
    packed = Ingested(tmp_path, source_of(tmp_path / "a.jsonl.zst"), ingest=ingest)
    plain = Ingested(tmp_path, source_of(tmp_path / "b.jsonl"), ingest=ingest)
    assert (len(packed.parts), len(plain.parts)) == (1, 4)
    assert [table["id"].to_pylist() for table in packed.tables] == [
        table["id"].to_pylist() for table in plain.tables
    ]
    assert [table["source_line"].to_pylist() for table in packed.tables] == [
        table["source_line"].to_pylist() for table in plain.tables
    ]


def test_text_files_are_documents(tmp_path, monkeypatch):
    """One document a file, marks and CR LF taken off; files that are no text are rejects."""
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    (folder / "deep" / "b.txt").write_bytes("zwei é".encode())
    (folder / "bad.txt").write_bytes(b"\xff\xfeu\0t\0f\0")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "c.txt.gz").write_bytes(gzip.compress(b"packed"))
    (folder / "cut.txt.gz").write_bytes(gzip.compress(b"packed")[:-9])
    (folder / "link.txt").symlink_to(folder / "nowhere")
    (folder / "long.txt").write_bytes(b"y" * 3000)
    monkeypatch.setattr(documents_format, "MAX_LINE_BYTES", 2000)
    done = Ingested(tmp_path, source_of(folder / "**/*.txt*"))
    rows = {row["source_path"]: row for row in done.table.to_pylist()}
    assert {path: row["text"] for path, row in rows.items()} == {
        "a.txt": "one\ntwo",
        "deep/b.txt": "zwei é",
        "empty.txt": "",
        "c.txt.gz": "packed",
    }
    assert rows["deep/b.txt"]["id"] == "deep/b.txt#1"
    assert rows["empty.txt"]["reason"] == "under min_chars"
    rejects = {row["path"]: row["reason"] for row in done.rejects.to_pylist()}
    assert rejects == {
        "bad.txt": "invalid UTF-8",
        "cut.txt.gz": "truncated stream",
        "link.txt": "unreadable file",
        "long.txt": "record too long",
    }
    assert str(tmp_path) not in str(done.rejects.to_pylist())
    for table in done.tables:
        uids = table["doc_uid"].to_pylist()
        assert uids == sorted(uids)


def test_a_new_text_file_renumbers_nothing(tmp_path):
    """Addresses and most tasks of one-document files do not depend on the files beside them."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(900):
        (folder / f"{number}.md").write_text(f"document {number}")
    before = Ingested(tmp_path, source_of(folder / "*.md"))
    (folder / "new.md").write_text("document new")
    after = Ingested(tmp_path, source_of(folder / "*.md"))

    def addresses(done):
        return dict(
            zip(done.table["id"].to_pylist(), done.table["doc_uid"].to_pylist(), strict=True)
        )

    def tasks(done):
        return {json.dumps(part.fingerprint_fields()) for part in done.parts}

    assert addresses(before).items() <= addresses(after).items()
    assert 2 < len(tasks(before)) < 40
    assert len(tasks(before) - tasks(after)) == 1
    assert len(after.table) == 901


def test_a_break_carries_reason_and_detail():
    """StreamBreak is what readers turn into a reject."""
    error = StreamBreak("truncated stream", "ends after 3 bytes")
    assert (error.reason, error.detail) == ("truncated stream", "ends after 3 bytes")


DATA = Path(__file__).resolve().parents[3] / "shared/data/mini"


@pytest.mark.skipif(not DATA.exists(), reason="needs the shared corpus")
def test_real_text_arrives_as_the_standard_library_reads_it(tmp_path):
    """Every document of a real corpus: id, text (normalized by the definition), language, line."""
    done = Ingested(tmp_path, source_of(DATA / "part-*.jsonl.gz", columns={"licence": "license"}))
    want = {}
    for path in sorted(DATA.glob("part-*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                item = json.loads(line)
                text = normalize_text(item["text"], IngestSettings())
                want[item["id"]] = (
                    text,
                    item["lang"],
                    path.name,
                    number,
                    item["license"],
                    len(text),
                )
    names = ["text", "lang", "source_path", "source_line", "licence", "n_chars"]
    rows = zip(*(done.table[name].to_pylist() for name in names), strict=True)
    found = dict(zip(done.table["id"].to_pylist(), rows, strict=True))
    assert found == want
    assert done.counters["bytes"] == sum(len(row[0].encode()) for row in want.values())

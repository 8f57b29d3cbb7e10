"""Sources: globs, what is remembered of files, and how they divide into parts."""

import glob
import hashlib
import io
import json
import os
import pickle
import random
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.filesystem import FileMetadata, FileSystem, MatchResult
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines import parts as parts_module
from pipelines.formats import inspect as inspect_module
from pipelines.formats.find import find_files
from pipelines.formats.ingest import ingest_part
from pipelines.parts import list_parts, refuse_shared_shards
from pipelines.sources import SourceSettings, list_files, refuse_absent_columns
from transforms.record import RecordError
from transforms.text import IngestSettings

MIB = 1 << 20


def source_of(path, name="s", **keys):
    return SourceSettings(name=name, path=str(path), **keys)


def write(path, content=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def age(folder):
    """Make all files of a folder old enough to be remembered."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (1_600_000_000, 1_600_000_000))


names = st.sampled_from(["a", "b", "ab.txt", "b.txt", "c.md"])
patterns = st.lists(
    st.sampled_from(["**", "*", "a", "b", "a*", "?b*", "[ab]", "[!a]*", "*.txt", "ab.txt"]),
    min_size=1,
    max_size=4,
)


@settings(max_examples=60)
@given(st.lists(st.lists(names, min_size=1, max_size=4), max_size=8), patterns)
def test_globs_name_what_python_globs_name(tmp_path_factory, tree, pattern):
    """Files found are those that glob(recursive=True) finds, under paths below the fixed part."""
    root = tmp_path_factory.mktemp("tree")
    for parts in tree:
        path = root.joinpath(*parts)
        if not any(parent.is_file() for parent in path.parents) and not path.exists():
            write(path)
    path = root.joinpath(*pattern)
    if path.is_dir() or not any(sign in str(path) for sign in "*?["):
        return
    matches = glob.glob(str(path), recursive=True)  # noqa: PTH207
    # glob takes a file's name with a slash behind it for a match of a/**.
    want = {match for match in matches if Path(match).is_file() and not match.endswith("/")}
    found = find_files(str(path))
    assert {file.path for file in found} == want
    assert [file.relative for file in found] == sorted(file.relative for file in found)
    fixed = 0
    while fixed < len(pattern) - 1 and not any(sign in pattern[fixed] for sign in "*?["):
        fixed += 1
    base = root.joinpath(*pattern[:fixed])
    assert all(base / file.relative == Path(file.path) for file in found)


def test_globs_leave_hidden_names_and_special_files_out(tmp_path):
    """Dot files match only patterns that say the dot; pipes and folders never."""
    for name in ("a.txt", ".b.txt", ".hidden/c.txt", "d.txt/e.txt"):
        write(tmp_path / name)
    os.mkfifo(tmp_path / "pipe.txt")
    assert [f.relative for f in find_files(f"{tmp_path}/**/*.txt")] == ["a.txt", "d.txt/e.txt"]
    assert [f.relative for f in find_files(f"{tmp_path}/.*")] == [".b.txt"]
    assert [f.relative for f in find_files(f"file://{tmp_path}/a.txt")] == ["a.txt"]


def test_links_to_folders_are_followed_only_by_name(tmp_path):
    """A link that leads back up does not make ** endless; a named link is followed."""
    write(tmp_path / "in/a.txt")
    (tmp_path / "in/up").symlink_to(tmp_path / "in")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    assert [f.relative for f in find_files(f"{tmp_path}/in/**/*.txt")] == ["a.txt"]
    assert [f.relative for f in find_files(f"{tmp_path}/link/*.txt")] == ["a.txt"]


def test_names_with_brackets_or_without_unicode(tmp_path):
    """A file may be called like a glob; bytes that are not UTF-8 become escapes."""
    write(tmp_path / "[x]*.txt")
    assert [f.relative for f in find_files(str(tmp_path / "[x]*.txt"))] == ["[x]*.txt"]
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md")).write_bytes(b"content")
    [part] = list_parts([source_of(tmp_path / "*.md")], IngestSettings(), tmp_path / "c.json")
    assert part.files[0].relative == "\\xff.md"
    assert (
        ingest_part(part, source_of("x"), IngestSettings(), tmp_path, "0").counters["ingested"] == 1
    )


def test_mistakes_are_named(tmp_path):
    """A glob of nothing, a folder, and a file of no known format are errors that say so."""
    write(tmp_path / "a.jsonl")
    write(tmp_path / "b.pdf")
    write(tmp_path / "c.parquet.gz")
    with pytest.raises(RecordError, match=r"source 's': .*\*\.json names no file"):
        list_files(source_of(tmp_path / "*.json"))
    with pytest.raises(RecordError, match=r"is a folder; name the files in it"):
        list_files(source_of(tmp_path))
    for name in ("b.pdf", "c.parquet.gz"):
        with pytest.raises(RecordError, match=rf"{name} has no suffix of a known format"):
            list_files(source_of(tmp_path / name))
    [file] = list_files(source_of(tmp_path / "b.pdf", format="txt"))
    assert (file.format, file.compression) == ("txt", None)
    [file] = list_files(source_of(tmp_path / "a.jsonl"))
    assert (file.format, file.relative, file.size) == ("jsonl", "a.jsonl", 1)


def test_columns_of_reserved_names_are_refused():
    """A source's column cannot take the name of one that every document has."""
    with pytest.raises(ValueError, match="'Text' would hide"):
        source_of("x", columns={"Text": "t"})
    assert source_of("x", columns={"path": "path"}).domain_name == "s"
    assert source_of("x", domain="web").domain_name == "web"


def test_absent_columns_are_named():
    """A column name that occurs in no document is an error; the default lang is none."""
    source = source_of("x", columns={"a": "A", "b": "B"}, lang="language")
    refuse_absent_columns(source, 0, {})
    refuse_absent_columns(source, 3, {"lang": 1, "a": 1, "b": 3})
    with pytest.raises(RecordError, match=r"columns\.b = 'B', lang = 'language'"):
        refuse_absent_columns(source, 3, {"lang": 0, "a": 1, "b": 0})
    refuse_absent_columns(source_of("x"), 3, {"lang": 0})


def test_files_are_hashed_once(tmp_path, monkeypatch):
    """A file known by path, size and time is not read again; a changed one is."""
    folder, cache = tmp_path / "in", tmp_path / "w/cache/sources.json"
    write(folder / "a.jsonl", b'{"text": "a"}\n' * 9)
    pq.write_table(pa.table({"text": ["a"]}), folder / "b.parquet")
    age(folder)
    sources = [source_of(folder / "*")]
    first = list_parts(sources, IngestSettings(), cache)
    assert first[0].files[0].sha256 == hashlib.sha256((folder / "a.jsonl").read_bytes()).hexdigest()
    read = []
    inspect = inspect_module._inspect
    monkeypatch.setattr(
        inspect_module,
        "_inspect",
        lambda file, *rest: read.append(file.relative) or inspect(file, *rest),
    )
    assert list_parts(sources, IngestSettings(), cache) == first
    assert read == []
    write(folder / "a.jsonl", b'{"text": "b"}\n' * 9)
    os.utime(folder / "a.jsonl", (1_600_000_001, 1_600_000_001))
    changed = list_parts(sources, IngestSettings(), cache)
    assert read == ["a.jsonl"]
    assert changed[0].files[0].sha256 != first[0].files[0].sha256
    cache.write_text("{broken")
    assert list_parts(sources, IngestSettings(), cache) == changed


def test_a_file_just_written_is_not_trusted(tmp_path):
    """A file that may still change within its time stamp's resolution is hashed every time."""
    write(tmp_path / "in/a.jsonl", b'{"text": "a"}\n')
    cache = tmp_path / "cache.json"
    list_parts([source_of(tmp_path / "in/*")], IngestSettings(), cache)
    assert json.loads(cache.read_bytes())["files"] == {}


def test_changes_between_listing_and_reading_are_errors(tmp_path):
    """A task refuses a file that is not the one that was hashed."""
    path = tmp_path / "a.jsonl"
    write(path, b'{"text": "a"}\n')
    [part] = list_parts([source_of(path)], IngestSettings(), tmp_path / "c.json")
    write(path, b'{"text": "longer"}\n')
    with pytest.raises(RecordError, match=r"changed after it was listed \(14 bytes then, 19 now\)"):
        ingest_part(part, source_of(path), IngestSettings(), tmp_path, "0")


def test_ranges_cover_a_file(tmp_path):
    """Uncompressed lines are cut into ranges of part_size; line feeds before each are known."""
    rng = random.Random(4)
    content = b"".join(b"x" * rng.randrange(3000) + b"\n" for _ in range(2500))
    write(tmp_path / "a.jsonl", content)
    parts = list_parts(
        [source_of(tmp_path / "a.jsonl")], IngestSettings(part_size_mib=1), tmp_path / "c"
    )
    assert len(parts) == 4
    assert [part.part for part in parts] == [0, 1, 2, 3]
    assert [part.start for part in parts] == [0, MIB, 2 * MIB, 3 * MIB]
    assert [part.stop for part in parts] == [MIB, 2 * MIB, 3 * MIB, len(content)]
    assert [part.before for part in parts] == [content[: p.start].count(b"\n") for p in parts]
    assert len({json.dumps(part.fingerprint_fields()) for part in parts}) == 4


def test_short_reads_count_line_feeds_in_the_right_block():
    """A file system that gives few bytes at a time changes no count."""
    rng = random.Random(1)
    content = bytes(rng.choice(b"\nab") for _ in range(200_000)) * 12
    counts, position = [], 0
    while position < len(content):
        chunk = content[position : position + rng.randrange(1, 500_000)]
        inspect_module._count(counts, chunk, position)
        position += len(chunk)
    want = [content[at : at + MIB].count(b"\n") for at in range(0, len(content), MIB)]
    assert counts == want


def test_row_groups_make_parts(tmp_path):
    """Parquet is cut between row groups; an empty or unreadable file has no or one part."""
    rng = random.Random(4)
    texts = [f"{rng.getrandbits(40000):x}" for _ in range(400)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": texts}), path, row_group_size=50, use_dictionary=False)
    parts = list_parts([source_of(path)], IngestSettings(part_size_mib=1), tmp_path / "c")
    assert [(part.start, part.stop) for part in parts] == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert [part.before for part in parts] == [0, 100, 200, 300]
    assert [part.part for part in parts] == [0, 2, 4, 6]
    write(path, b"PAR1 nothing PAR1")
    [part] = list_parts([source_of(path)], IngestSettings(), tmp_path / "c")
    assert (part.start, part.stop) == (0, 0)
    with pq.ParquetWriter(path, pa.schema([("text", pa.string())])):
        pass
    assert list_parts([source_of(path)], IngestSettings(), tmp_path / "c") == []


def test_a_part_is_the_same_wherever_the_files_lie(tmp_path):
    """Fingerprints hold contents and relative paths; parts can be sent to workers."""
    folder = tmp_path / "one"
    write(folder / "in/a.jsonl", b'{"text": "a"}\n')
    write(folder / "in/deep/b.md", b"text")
    shutil.copytree(folder, tmp_path / "two")
    age(tmp_path / "two")
    fields = []
    for root in ("one", "two"):
        parts = list_parts([source_of(tmp_path / root / "in/**")], IngestSettings(), tmp_path / "c")
        fields.append([part.fingerprint_fields() for part in parts])
        assert pickle.loads(pickle.dumps(parts)) == parts
    assert fields[0] == fields[1]
    assert [field["files"][0][0] for field in fields[0]] == ["a.jsonl", "deep/b.md"]


def test_shared_addresses_are_refused(tmp_path, monkeypatch):
    """Two parts with one shard number, or two files with one address, are named."""
    for name in ("a.jsonl", "b.jsonl", "a.md", "b.md"):
        write(tmp_path / name, b'{"text": "a"}\n')
    settings_ = IngestSettings()
    monkeypatch.setattr(parts_module, "file_uid", lambda source, path: 7)
    with pytest.raises(RecordError, match=r"a\.md of source 's' and b\.md of source 's' have one"):
        list_parts([source_of(tmp_path / "*.md")], settings_, tmp_path / "c")
    monkeypatch.undo()
    monkeypatch.setattr(parts_module, "shard_number", lambda source, path, part: 0)
    with pytest.raises(RecordError, match=r"a\.jsonl of source 's', part 0 and b\.jsonl"):
        list_parts([source_of(tmp_path / "*.jsonl")], settings_, tmp_path / "c")
    monkeypatch.setattr(parts_module, "file_uid", lambda source, path: 7)
    with pytest.raises(RecordError, match=r"a\.jsonl of source 's', part 0 and a\.md"):
        list_parts([source_of(tmp_path / "a.*")], settings_, tmp_path / "c")


def test_shared_shards_are_refused(tmp_path):
    """Two output files of one shard are named by the source files they came from."""
    for name, path in (("0123456789-aa.parquet", "x.gz"), ("0123456789-bb.parquet", "y.gz")):
        pq.write_table(pa.table({"source": ["s"], "source_path": [path]}), tmp_path / name)
    refuse_shared_shards([tmp_path / "0123456789-aa.parquet"])
    with pytest.raises(RecordError, match=r"x\.gz of source 's' and y\.gz of source 's'"):
        refuse_shared_shards(tmp_path.glob("*.parquet"))


class MemoryFileSystem(FileSystem):
    """The least that Beam asks of a file system, with reads that come up short."""

    files: dict[str, bytes] = {}  # noqa: RUF012

    @classmethod
    def scheme(cls):
        return "memory"

    def match(self, patterns, limits=None):
        [pattern] = patterns
        prefix = pattern.removesuffix("**")
        found = [
            FileMetadata(path, len(data), 1_600_000_000.0)
            for path, data in self.files.items()
            if path.startswith(prefix)
        ]
        return [MatchResult(pattern, found)]

    def open(self, path, mime_type=None, compression_type=None):
        class Short(io.BytesIO):
            def read(self, size=-1):
                return super().read(min(size, 1000) if size > 2000 else size)

        # Parquet is read through Arrow, which takes a short read for the end of the file.
        return (io.BytesIO if path.endswith(".parquet") else Short)(self.files[path])

    def _unused(self, *args, **keys):
        raise NotImplementedError

    join = split = mkdirs = create = copy = rename = exists = size = _unused
    last_updated = checksum = metadata = delete = has_dirs = _list = _unused


def test_beam_file_systems_give_the_same_bytes(tmp_path, monkeypatch):
    """A glob on a Beam file system finds and reads what the local one does."""
    rng = random.Random(6)
    lines = [json.dumps({"text": f"{n} " + "word " * rng.randrange(900)}) for n in range(900)]
    folder = tmp_path / "in"
    write(folder / "x/a.jsonl", "\n".join(lines).encode())
    write(folder / "x/y/b.jsonl", "\n".join(lines[:9]).encode())
    write(folder / "x/y/.c.jsonl", b"hidden")
    write(folder / "x/d.txt", b"no part of it")
    pq.write_table(pa.table({"text": lines[:50]}), folder / "x/e.parquet", row_group_size=7)
    files = {
        f"memory://bucket/{path.relative_to(folder)}": path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    monkeypatch.setattr(MemoryFileSystem, "files", files)
    results = []
    for root in (str(folder), "memory://bucket"):
        out = tmp_path / f"out{len(results)}"
        out.mkdir()
        sources = [
            source_of(f"{root}/x/**/*.jsonl", name="l"),
            source_of(f"{root}/x/?.parquet", name="p"),
        ]
        parts = list_parts(sources, IngestSettings(part_size_mib=1), tmp_path / "c.json")
        by_name = {source.name: source for source in sources}
        done = [
            ingest_part(part, by_name[part.source], IngestSettings(), out, f"{n:04d}")
            for n, part in enumerate(parts)
        ]
        results.append(([part.fingerprint_fields() for part in parts], [d.files for d in done]))
    assert results[0] == results[1]
    assert len(results[0][0]) == 4


def test_time_of_the_cache_is_the_files_own(tmp_path):
    """Whether a file is remembered depends on its own age."""
    write(tmp_path / "in/a.jsonl", b"{}\n")
    os.utime(tmp_path / "in/a.jsonl", (time.time() - 60, time.time() - 60))
    list_parts([source_of(tmp_path / "in/*")], IngestSettings(), tmp_path / "c")
    [entry] = json.loads((tmp_path / "c").read_bytes())["files"].values()
    assert entry["size"] == 3
    assert entry["line_feeds"] == [1]

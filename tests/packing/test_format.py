"""The shard format: what is written is what is read, and what cannot be held is refused."""

import itertools
import random
import re
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from packing.format import (
    PLAN_SCHEMA,
    ROW_SCHEMA,
    DatasetFile,
    DatasetInfo,
    PlanInfo,
    ShardError,
    check_file,
    load_manifest,
    plan_fingerprint,
    stream_sha256,
)
from packing.layout import file_bounds, group_bounds
from packing.rows import LossSpans, RowGroup
from packing.shard import ShardFile
from packing.writer import RowFileWriter, write_plan

INFO = DatasetInfo(
    fingerprint="ab" * 32,
    seq_len=40,
    strategy="best_fit",
    vocab_size=100,
    eos_id=2,
    tokenizer="tokenizer.model",
    domains=("web", "code", "中文"),
)

pieces = st.builds(
    dict,
    uid=st.integers(0, 2**63 - 1),
    tokens=st.lists(st.integers(0, 99), min_size=1, max_size=8),
    offset=st.integers(0, 2**31 - 1),
    copy=st.integers(0, 2**15 - 1),
    next=st.integers(-1, 99),
    domain=st.integers(0, 2),
)
rows = st.lists(
    st.tuples(
        st.lists(pieces, min_size=1, max_size=5),
        st.none() | st.integers(0, 1 << 30),
    ),
    min_size=1,
    max_size=6,
)


def as_rows(plain, drawn):
    """Turn drawn values into plain rows; a drawn integer seeds the row's spans."""
    found = []
    for number, (parts, seed) in enumerate(drawn):
        row = plain.Row(number * 3, [plain.Piece(**part) for part in parts])
        if seed is not None:
            n = sum(len(p.tokens) for p in row.pieces)
            row.spans = plain.random_spans(random.Random(seed), n)
        found.append(row)
    return found


@settings(max_examples=40, deadline=None)
@given(drawn=st.lists(rows, min_size=1, max_size=3))
def test_rows_read_are_the_rows_written(drawn, plain, tmp_path_factory):
    """Any rows come back value for value, from the file's own columns and from the reader."""
    path = tmp_path_factory.mktemp("rows") / "rows-00000.parquet"
    groups = [as_rows(plain, part) for part in drawn]
    with RowFileWriter(path, INFO) as writer:
        for group in groups:
            writer.write(plain.group_of(group))
    file = ShardFile(str(path), path.name)
    assert file.info == INFO
    assert file.n_groups == len(groups)
    for number, group in enumerate(groups):
        found, expected = file.read(number), plain.group_of(group)
        for name in ("row_id", "pieces_per_row", "doc_uid", "doc_copy", "doc_offset", "length"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), name
        for name in ("next_token", "domain", "input_ids"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    plain_rows = [row for group in groups for row in group]
    for row, line in zip(plain_rows, pq.read_table(path).to_pylist(), strict=True):
        assert line["row_id"] == row.id
        assert line["input_ids"] == [t for p in row.pieces for t in p.tokens]
        assert line["n_tokens"] == len(line["input_ids"])
        bounds = np.cumsum([0, *(len(p.tokens) for p in row.pieces)]).tolist()
        assert line["cu_seqlens"] == bounds
        assert line["doc_uid"] == [p.uid for p in row.pieces]
        assert line["doc_copy"] == [p.copy for p in row.pieces]
        assert line["doc_offset"] == [p.offset for p in row.pieces]
        assert line["next_token"] == [p.next for p in row.pieces]
        assert line["domain"] == [p.domain for p in row.pieces]
        spans = line["loss_spans"]
        assert (spans is None) == (row.spans is None)
        assert [tuple(s.values()) for s in spans or []] == (row.spans or [])


def test_file_is_what_the_contract_says(make_world):
    """Column types and encodings stand as promised, and DuckDB reads them without help."""
    world = make_world(spans=True)
    path = world.folder / "rows-00000.parquet"
    file = pq.ParquetFile(path)
    assert file.schema_arrow.names == ROW_SCHEMA.names
    for name, found in zip(file.schema_arrow.names, file.schema_arrow.types, strict=True):
        assert found == ROW_SCHEMA.field(name).type, name
    columns = file.metadata.row_group(0)
    ids = next(
        columns.column(i)
        for i in range(columns.num_columns)
        if columns.column(i).path_in_schema.startswith("input_ids")
    )
    assert "BYTE_STREAM_SPLIT" in ids.encodings
    assert ids.compression == "ZSTD"
    assert not ids.has_dictionary_page
    assert b"drystone.seq_len" in file.metadata.metadata
    [(total, rows_)] = duckdb.sql(
        f"SELECT sum(list_sum(input_ids)), count(*) FROM '{world.folder}/rows-*.parquet'"
    ).fetchall()
    assert total == sum(t for r in world.rows for p in r.pieces for t in p.tokens)
    assert rows_ == len(world.rows)
    assert pq.read_schema(world.folder / "plan.parquet").names == PLAN_SCHEMA.names


def test_same_rows_are_the_same_bytes(make_world, tmp_path):
    """Writing the same dataset again gives the same bytes."""
    world = make_world(spans=True)
    before = {p.name: stream_sha256(str(p)) for p in world.folder.glob("*.*")}
    world.write()
    assert before == {p.name: stream_sha256(str(p)) for p in world.folder.glob("*.*")}
    assert not [p for p in world.folder.iterdir() if p.name.startswith(".")]


def written(path, *groups, info=INFO):
    """Write a file of some groups."""
    with RowFileWriter(path, info) as writer:
        for rows in groups:
            writer.write(rows)


def group(**changes) -> RowGroup:
    """Two rows: one of two pieces and one of one."""
    values = {
        "row_id": np.array([10, 11], np.int64),
        "pieces_per_row": np.array([2, 1], np.int32),
        "doc_uid": np.array([7, 8, 9], np.int64),
        "doc_copy": np.zeros(3, np.int16),
        "doc_offset": np.array([0, 5, 0], np.int32),
        "length": np.array([3, 2, 4], np.int32),
        "next_token": np.array([-1, 6, -1], np.int32),
        "domain": np.zeros(3, np.int16),
        "input_ids": np.arange(9, dtype=np.int32),
    }
    return RowGroup(**{**values, **changes})


def spans(*triples, is_null=(False, True), counts=None) -> LossSpans:
    """Loss spans of the first of two rows."""
    counts = [0, len(triples), len(triples)] if counts is None else counts
    return LossSpans(
        np.array(is_null),
        np.array(counts, np.int64),
        *(
            np.array([t[i] for t in triples], d)
            for i, d in enumerate((np.int32, np.int32, np.float32))
        ),
    )


BAD = {
    "id too high": (
        group(input_ids=np.array([0, 1, 2, 3, 100, 5, 6, 7, 8], np.int32)),
        "document 8, token 6: id 100 is outside the vocabulary of 100",
    ),
    "id negative": (
        group(input_ids=np.array([0, 1, 2, -3, 4, 5, 6, 7, 8], np.int32)),
        "document 8, token 5: id -3",
    ),
    "tokens missing": (group(input_ids=np.arange(8, dtype=np.int32)), "9 tokens, but there are 8"),
    "empty piece": (group(length=np.array([3, 0, 6], np.int32)), "document 8 has a piece of 0"),
    "empty row": (group(pieces_per_row=np.array([3, 0], np.int32)), "row 11 has 0 pieces"),
    "pieces missing": (group(pieces_per_row=np.array([1, 1], np.int32)), "adds up to 2"),
    "one count": (group(pieces_per_row=np.array([3], np.int32)), "pieces_per_row has 1 values"),
    "one uid": (group(doc_uid=np.array([1], np.int64)), "doc_uid has 1 values"),
    "wrong type": (group(doc_copy=np.zeros(3, np.int64)), "doc_copy is int64"),
    "next too high": (
        group(next_token=np.array([-1, 100, -1], np.int32)),
        "document 8: next_token",
    ),
    "next too low": (group(next_token=np.array([-2, 0, -1], np.int32)), "document 7: next_token"),
    "domain unknown": (group(domain=np.array([0, 0, 3], np.int16)), "document 9: domain is 3"),
    "uid negative": (group(doc_uid=np.array([-1, 8, 9], np.int64)), "document -1: doc_uid"),
    "span empty": (group(loss_spans=spans((2, 2, 1.0))), "row 10 of 5 tokens: loss span [2, 2)"),
    "span outside": (group(loss_spans=spans((2, 7, 1.0))), "leaves the row (its first document: 7"),
    "spans overlap": (group(loss_spans=spans((1, 3, 1.0), (2, 4, 1.0))), "overlaps the one before"),
    "spans turned": (group(loss_spans=spans((3, 4, 1.0), (1, 2, 1.0))), "out of order"),
    "weight negative": (group(loss_spans=spans((1, 3, -1.0))), "negative or no number"),
    "weight no number": (group(loss_spans=spans((1, 3, float("nan")))), "negative or no number"),
    "span of null": (
        group(loss_spans=spans((1, 3, 1.0), is_null=(True, True))),
        "given for a row whose spans are null",
    ),
    "span counts": (
        group(loss_spans=spans((1, 3, 1.0), counts=[0, 1])),
        "one entry for each of the 2 rows",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_are_refused_before_they_are_written(name, tmp_path):
    """What the format cannot hold is named with document and value, and leaves no file behind."""
    bad, message = BAD[name]
    path = tmp_path / "rows-00000.parquet"
    with pytest.raises(ShardError, match=re.escape(message)):
        written(path, group(), bad)
    assert not list(tmp_path.iterdir())


def test_row_longer_than_the_sequence_length_is_refused(tmp_path):
    """A row of more than seq_len tokens is refused, unless ranks may share it."""
    short = replace(INFO, seq_len=4)
    with pytest.raises(ShardError, match="row 10 has 5 tokens, at most 4 fit"):
        written(tmp_path / "a.parquet", group(), info=short)
    with RowFileWriter(tmp_path / "b.parquet", short, longest=8) as writer:
        writer.write(group())
        writer.write(RowGroup.empty())
    assert ShardFile(str(tmp_path / "b.parquet"), "b").n_groups == 1


def test_failed_write_leaves_the_older_file(tmp_path):
    """A file is replaced only by a complete one."""
    path = tmp_path / "rows-00000.parquet"
    with RowFileWriter(path, INFO) as writer:
        writer.write(group())
    before = path.read_bytes()
    with pytest.raises(AttributeError):
        written(path, group(), None)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_footers_come_back_and_others_are_refused():
    """Descriptions survive the footer; a missing, newer or damaged one is named."""
    plan = PlanInfo(plan_fingerprint="c" * 64, dp=8, micro_batch=2, slots_per_step=3, horizon=64)
    metadata = {**INFO.to_metadata(), **plan.to_metadata()}
    metadata[b"other"] = b"x"
    assert DatasetInfo.from_metadata(metadata, "f") == INFO
    assert PlanInfo.from_metadata(metadata, "f") == plan
    assert plan.slot_rows == 16
    for bad, message in (
        (None, "no drystone.version"),
        ({**metadata, b"drystone.version": b"2"}, "format version 2, this reader knows 1"),
        ({**metadata, b"drystone.seed": b"{"}, "missing or damaged"),
    ):
        with pytest.raises(ShardError, match=message):
            DatasetInfo.from_metadata(bad, "f")


def test_padding_id_falls_back():
    """Rows are padded with the padding id, else the end of sequence, else 0."""
    assert replace(INFO, pad_id=5).padding_id == 5
    assert INFO.padding_id == 2
    assert replace(INFO, eos_id=None).padding_id == 0


def test_plan_fingerprint_is_of_the_assignment(tmp_path):
    """Another rank or dataset changes the fingerprint, another cost does not."""
    table = pa.table([[0, 1], [0, 0], [0, 0], [0, 1], [1, 1], [1.0, 2.0]], schema=PLAN_SCHEMA)
    first = plan_fingerprint("d", (2, 1, 1), table)
    cost = table.set_column(5, PLAN_SCHEMA.field("cost"), pa.array([3.0, 4.0]))
    assert plan_fingerprint("d", (2, 1, 1), cost) == first
    rank = table.set_column(3, PLAN_SCHEMA.field("rank"), pa.array([1, 0], pa.int32()))
    assert len({first, plan_fingerprint("d", (2, 1, 1), rank)}) == 2
    assert len({first, plan_fingerprint("e", (2, 1, 1), table)}) == 2
    info = write_plan(tmp_path / "plan.parquet", table, INFO, dp=2, micro_batch=1, slots_per_step=1)
    assert info.plan_fingerprint == plan_fingerprint(INFO.fingerprint, (2, 1, 1), table)


def test_manifest_and_its_sums(make_world):
    """A changed file does not pass its manifest; a missing or broken manifest is named."""
    world = make_world()
    manifest = load_manifest(str(world.folder))
    assert [f.name for f in manifest.row_files] == ["rows-00000.parquet", "rows-00001.parquet"]
    for entry in manifest.files:
        check_file(str(world.folder), entry)
    path = world.folder / "rows-00001.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ShardError, match="was changed or damaged"):
        check_file(str(world.folder), manifest.row_files[1])
    with pytest.raises(ShardError, match="missing, but listed"):
        check_file(str(world.folder), DatasetFile("rows-9.parquet", 1, 1, "x"))
    (world.folder / "manifest.json").write_text('{"files": 3}')
    with pytest.raises(ShardError, match="is no manifest"):
        load_manifest(str(world.folder))
    (world.folder / "manifest.json").write_text("{")
    with pytest.raises(ShardError, match="cannot be read"):
        load_manifest(str(world.folder))
    with pytest.raises(ShardError, match="no finished dataset"):
        load_manifest(str(world.folder / "none"))


@settings(max_examples=60, deadline=None)
@given(
    slots=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 50)), min_size=0, max_size=12),
    target=st.integers(1, 1500),
)
def test_groups_hold_whole_slots(slots, target):
    """A group is whole slots up to the target, or an equal part of one slot; all rows in order."""
    step = np.repeat(np.arange(len(slots)) // 2, [n for n, _ in slots]).astype(np.int32)
    slot = np.repeat(np.arange(len(slots)) % 2, [n for n, _ in slots]).astype(np.int32)
    tokens = np.repeat([t for _, t in slots], [n for n, _ in slots]).astype(np.int32)
    bounds = group_bounds(step, slot, tokens, target).tolist()
    assert bounds[0] == 0
    assert bounds[-1] == len(tokens)
    edges = np.cumsum([0, *(n for n, _ in slots)]).tolist()
    for a, b in itertools.pairwise(bounds):
        assert a < b
        size = 4 * int(tokens[a:b].sum())
        if a in edges and b in edges:
            several = edges.index(b) - edges.index(a) > 1
            assert size <= target or not several
        else:
            number = next(i for i in range(len(slots)) if edges[i] <= a < edges[i + 1])
            assert b <= edges[number + 1]
            assert slots[number][0] % (b - a) == 0
            assert 4 * slots[number][0] * slots[number][1] > target
    for a, b in zip(bounds[:-2], bounds[2:], strict=True):
        if a in edges and b in edges and bounds[bounds.index(a) + 1] in edges:
            assert 4 * int(tokens[a:b].sum()) > target, "two groups would have fitted one"


def test_groups_and_files_of_a_large_dataset():
    """32K rows in slots of 4 make groups of 8 MiB; files come to 128 to 512 MiB on disk."""
    step = np.repeat(np.arange(40_000), 4).astype(np.int32)
    bounds = group_bounds(step, np.zeros_like(step), np.full(160_000, 32768, np.int32))
    assert set(np.diff(bounds)) == {64}
    tokens = np.diff(bounds) * 32768
    files = file_bounds(tokens)
    sizes = np.add.reduceat(tokens, files[:-1]) * 2.1 / 2**20
    assert ((sizes > 128) & (sizes < 512)).all()
    assert files[-1] == len(tokens)
    assert file_bounds(tokens[:3]).tolist() == [0, 3]
    assert file_bounds(tokens[:0]).tolist() == [0]
    one = group_bounds(np.zeros(6, np.int32), np.zeros(6, np.int32), np.full(6, 1 << 20, np.int32))
    assert one.tolist() == [0, 2, 4, 6]


def test_shard_without_a_column_is_refused(tmp_path):
    """A Parquet file that is no shard, or lacks a column, is named."""
    path = tmp_path / "rows-0.parquet"
    table = pa.table({"row_id": pa.array([1], pa.int64())})
    pq.write_table(table, path)
    with pytest.raises(ShardError, match=r"no drystone\.version"):
        ShardFile(str(path), "rows-0")
    pq.write_table(table.replace_schema_metadata(INFO.to_metadata()), path)
    with pytest.raises(ShardError, match="column n_tokens is absent"):
        ShardFile(str(path), "rows-0")
    Path(path).write_bytes(b"no parquet at all")
    with pytest.raises(ShardError, match="cannot be opened as Parquet"):
        ShardFile(str(path), "rows-0")

"""Exports: other tools' formats hold the rows they promise, read here without our code."""

import gzip
import json
import struct

import numpy as np
import pyarrow.parquet as pq
import pytest
import zstandard

from packing.export.formats import FORMATS, export_dataset
from packing.format import ShardError


def read_indexed(prefix):
    """Read a Megatron IndexedDataset by its layout: (dtype, sequences, document bounds)."""
    index = prefix.with_name(prefix.name + ".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, count, documents = struct.unpack_from("<QBQQ", index, 9)
    assert version == 1
    dtype = {4: np.int32, 8: np.uint16}[code]
    at = 9 + 25
    lengths = np.frombuffer(index, np.int32, count, at)
    pointers = np.frombuffer(index, np.int64, count, at + 4 * count)
    bounds = np.frombuffer(index, np.int64, documents, at + 12 * count)
    assert len(index) == at + 12 * count + 8 * documents
    data = prefix.with_name(prefix.name + ".bin").read_bytes()
    sequences = [
        np.frombuffer(data, dtype, n, p).tolist() for n, p in zip(lengths, pointers, strict=True)
    ]
    assert sum(lengths) * np.dtype(dtype).itemsize == len(data)
    return dtype, sequences, bounds.tolist()


def tokens_of(row):
    """The tokens of a plain row."""
    return [t for p in row.pieces for t in p.tokens]


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_json_lines_hold_everything(make_world, tmp_path, suffix):
    """Every line is a row with its pieces, spans and place in the plan."""
    world = make_world(spans=True)
    out = tmp_path / "new" / f"rows.{suffix}"
    done = export_dataset(world.folder, "jsonl", out)
    raw = out.read_bytes()
    if suffix.endswith("gz"):
        raw = gzip.decompress(raw)
    if suffix.endswith("zst"):
        raw = zstandard.ZstdDecompressor().decompressobj().decompress(raw)
    lines = [json.loads(line) for line in raw.splitlines()]
    assert len(lines) == len(world.rows) == done.rows
    for line, row, place in zip(lines, world.rows, world.place, strict=True):
        assert line["input_ids"] == tokens_of(row)
        assert line["cu_seqlens"] == np.cumsum([0, *(len(p.tokens) for p in row.pieces)]).tolist()
        assert line["doc_uid"] == [p.uid for p in row.pieces]
        assert line["doc_offset"] == [p.offset for p in row.pieces]
        assert line["next_token"] == [p.next for p in row.pieces]
        assert line["domain"] == [("even", "odd")[p.domain] for p in row.pieces]
        assert (line["step"], line["slot"], line["rank"]) == place
        spans = None if row.spans is None else [list(s) for s in row.spans]
        assert line["loss_spans"] == spans
        assert line["row_id"] == row.id


def test_hub_folder_trains_what_we_train(make_world, tmp_path):
    """Labels shifted by a model are our targets, but for what the README says is lost."""
    world = make_world(spans=True)
    done = export_dataset(world.folder, "hf", tmp_path / "hub")
    assert [p.name for p in done.files] == ["train-00000.parquet", "README.md"]
    lines = pq.read_table(tmp_path / "hub" / "train-00000.parquet").to_pylist()
    for line, row, place in zip(lines, world.rows, world.place, strict=True):
        ids = tokens_of(row)
        assert line["input_ids"] == ids
        assert line["seq_lengths"] == [len(p.tokens) for p in row.pieces]
        assert line["domain"] == [("even", "odd")[p.domain] for p in row.pieces]
        assert (line["step"], line["slot"], line["rank"]) == place
        labels, at = [], 0
        for piece in row.pieces:
            for i in range(len(piece.tokens)):
                inside = row.spans is None or any(
                    a <= at + i < b and w > 0 for a, b, w in row.spans
                )
                labels.append(ids[at + i] if i and inside else -100)
            at += len(piece.tokens)
        assert line["labels"] == labels
        positions = [i for p in row.pieces for i in range(len(p.tokens))]
        assert line["position_ids"] == positions
    card = (tmp_path / "hub" / "README.md").read_text()
    assert all(sentence in card for sentence in done.lost)


def test_hub_folder_opens_with_datasets(make_world, tmp_path):
    """``load_dataset("parquet", data_dir=...)`` finds the rows as its training split."""
    datasets = pytest.importorskip("datasets")
    world = make_world()
    export_dataset(world.folder, "hf", tmp_path / "hub")
    rows = datasets.load_dataset(
        "parquet", data_dir=str(tmp_path / "hub"), split="train", cache_dir=str(tmp_path / "cache")
    )
    assert rows["input_ids"][:] == [tokens_of(row) for row in world.rows]


def test_megatron_cuts_between_our_rows(make_world, tmp_path):
    """Joined in any order and cut every seq_len tokens, the sequences are our rows again."""
    world = make_world()
    prefix = tmp_path / "deep" / "packed"
    done = export_dataset(world.folder, "megatron", prefix)
    dtype, sequences, bounds = read_indexed(prefix)
    assert dtype == np.uint16
    assert bounds == list(range(len(world.rows) + 1))
    seq_len, eos = world.info.seq_len, world.info.eos_id
    padded = [tokens_of(row) + [eos] * (seq_len - len(tokens_of(row))) for row in world.rows]
    assert sequences == padded
    order = np.random.default_rng(1).permutation(len(sequences))
    stream = [t for k in order for t in sequences[k]]
    samples = [stream[i : i + seq_len] for i in range(0, len(stream), seq_len)]
    assert samples == [padded[k] for k in order]
    assert done.tokens == sum(len(tokens_of(row)) for row in world.rows)
    assert any("plan" in sentence for sentence in done.lost)


def test_megatron_with_a_large_vocabulary(make_world, tmp_path):
    """Ids that two bytes cannot hold take four; a suffix in the prefix is ignored."""
    world = make_world()
    object.__setattr__(world.info, "vocab_size", 70_000)
    world.rows[0].pieces[0].tokens[0] = 69_999
    world.write()
    export_dataset(world.folder, "megatron", tmp_path / "packed.bin")
    dtype, sequences, _ = read_indexed(tmp_path / "packed")
    assert dtype == np.int32
    assert sequences[0][0] == 69_999


def test_refusals(make_world, tmp_path):
    """An unknown format and a dataset without an end token for Megatron are refused."""
    world = make_world()
    with pytest.raises(ShardError, match="use one of jsonl, hf, megatron"):
        export_dataset(world.folder, "tfrecord", tmp_path / "x")
    object.__setattr__(world.info, "eos_id", None)
    world.write()
    with pytest.raises(ShardError, match="no end-of-sequence id"):
        export_dataset(world.folder, "megatron", tmp_path / "x")
    assert not list(tmp_path.glob("x*"))


@pytest.mark.parametrize("name", FORMATS)
def test_exports_are_repeatable(make_world, tmp_path, name):
    """The same dataset gives the same bytes, and a damaged one leaves no finished file."""
    world = make_world(spans=True)
    written = []
    for place in ("a", "b"):
        done = export_dataset(world.folder, name, tmp_path / place / "out")
        written.append([p.read_bytes() for p in done.files])
        assert done.format == name
    assert written[0] == written[1]
    path = world.folder / "rows-00001.parquet"
    bad = bytearray(path.read_bytes())
    bad[100] ^= 1
    path.write_bytes(bytes(bad))
    with pytest.raises(ShardError):
        export_dataset(world.folder, name, tmp_path / "c" / "out")
    assert not [p for p in (tmp_path / "c").rglob("*") if p.is_file()]

"""Exports: other tools' formats hold the rows they promise, read here without our code."""

import dataclasses
import gzip
import itertools
import json
import struct

import numpy as np
import pyarrow as pa
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


@pytest.mark.parametrize("form", ["megatron", "hf", "mds"])
def test_alignment_that_is_lost_is_named(make_world, tmp_path, form):
    """Formats without the filling of aligned pieces say so, where pieces are aligned."""
    world = make_world()
    plain = export_dataset(world.folder, form, tmp_path / "plain")
    world.info = dataclasses.replace(world.info, align=4, seq_len=4 * world.info.seq_len)
    done = export_dataset(world.write(), form, tmp_path / "aligned")
    assert not any("multiple of" in sentence for sentence in plain.lost)
    assert any("multiple of 4 tokens" in sentence for sentence in done.lost)


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


def bridge_pairs(ids, mask, starts, pad_to):
    """What Megatron-Bridge's collate function makes of a row: (input, label, trained) by sequence."""
    bounds = [*starts, len(ids)]
    found = []
    for begin, end in itertools.pairwise(bounds):
        inputs, labels = ids[begin : end - 1], ids[begin + 1 : end]
        assert len(inputs) % pad_to == 0
        found.append(list(zip(inputs, labels, mask[begin : end - 1], strict=True)))
    return found


@pytest.mark.parametrize("align", [1, 4])
def test_bridge_trains_what_we_train(make_world, tmp_path, align):
    """Its sequences are our pieces: same inputs and trained labels, the next token among them."""
    world = make_world(spans=True)
    world.info = dataclasses.replace(world.info, align=align, seq_len=4 * world.info.seq_len)
    done = export_dataset(world.write(), "megatron-bridge", tmp_path / "bridge")
    table = pq.read_table(tmp_path / "bridge" / "train-00000.idx.parquet")
    kinds = {name: table.schema.field(name).type.value_type for name in table.column_names}
    assert kinds == {"input_ids": pa.int32(), "loss_mask": pa.int8(), "seq_start_id": pa.int32()}
    lines = iter(table.to_pylist())
    most = longest = 0
    packed = []
    for row in world.rows:
        weights = weights_of(row)
        expected, at = [], 0
        for piece in row.pieces:
            targets = [*piece.tokens[1:], *([piece.next] if piece.next >= 0 else [])]
            inputs = piece.tokens[: len(targets)]
            trained = [int(weights[at + i + 1] > 0) for i in range(len(targets))]
            expected.append(list(zip(inputs, targets, trained, strict=True)))
            at += len(piece.tokens)
        expected = [pairs for pairs in expected if pairs]
        if not expected:
            continue
        line = next(lines)
        found = bridge_pairs(line["input_ids"], line["loss_mask"], line["seq_start_id"], align)
        for pairs, wanted in zip(found, expected, strict=True):
            assert pairs[: len(wanted)] == wanted
            assert all(not trained for _, _, trained in pairs[len(wanted) :])
            assert len(pairs) - len(wanted) < align
        most, longest = max(most, len(found)), max(longest, *map(len, found))
        packed.append(sum(map(len, found)))
        assert packed[-1] <= world.info.seq_len
        assert line["loss_mask"][-1] == 0
    assert next(lines, None) is None
    metadata = json.loads((tmp_path / "bridge" / "packing_metadata.json").read_text())
    assert metadata == [
        {
            "dataset_max_seqlen": longest,
            "max_samples_per_bin": most,
            "min_packed_seqlen": min(packed),
        }
    ]
    assert any("shuffles rows" in sentence for sentence in done.lost)


def weights_of(row):
    """Weight of each target position of a plain row."""
    n = len(tokens_of(row))
    if row.spans is None:
        return [1.0] * (n + 1)
    weights = [0.0] * (n + 1)
    for start, end, weight in row.spans:
        weights[start:end] = [weight] * (end - start)
    return weights


def read_mds(folder):
    """Read MDS shards by their layout, without the library that defines them."""
    index = json.loads((folder / "index.json").read_text())
    assert index["version"] == 2
    for shard in index["shards"]:
        data = (folder / shard["raw_data"]["basename"]).read_bytes()
        assert len(data) == shard["raw_data"]["bytes"]
        [count] = struct.unpack_from("<I", data)
        assert count == shard["samples"]
        offsets = struct.unpack_from(f"<{count + 1}I", data, 4)
        for begin, end in itertools.pairwise(offsets):
            yield mds_sample(data[begin:end], shard)


def mds_sample(data, shard):
    """Read one sample: sizes of the columns without one, then the columns."""
    names, kinds = shard["column_names"], shard["column_encodings"]
    assert names == sorted(names)
    sizes = list(shard["column_sizes"])
    loose = [at for at, size in enumerate(sizes) if size is None]
    for at, size in zip(loose, struct.unpack_from(f"<{len(loose)}I", data), strict=True):
        sizes[at] = size
    at, found = 4 * len(loose), {}
    for name, kind, size in zip(names, kinds, sizes, strict=True):
        value = data[at : at + size]
        at += size
        if kind == "int":
            [found[name]] = struct.unpack("<q", value)
            continue
        width = 1 << (value[0] & 3)
        assert value[0] >> 2 == 1
        length = int.from_bytes(value[1 : 1 + width], "little")
        found[name] = np.frombuffer(value[1 + width :], kind.partition(":")[2]).tolist()
        assert len(found[name]) == length
    assert at == len(data)
    return found


def test_mds_holds_rows_in_plan_order(make_world, tmp_path, monkeypatch):
    """Every sample is a row with its targets and its place; shards are cut at their size."""
    monkeypatch.setattr("packing.export.mds._SHARD_BYTES", 4000)
    world = make_world(spans=True)
    done = export_dataset(world.folder, "mds", tmp_path / "mds")
    assert len(done.files) > 2
    samples = list(read_mds(tmp_path / "mds"))
    assert len(samples) == len(world.rows) == done.rows
    for sample, row, place in zip(samples, world.rows, world.place, strict=True):
        weights = weights_of(row)
        labels = []
        for piece in row.pieces:
            labels += [*piece.tokens[1:], piece.next]
        trained = zip(labels, weights[1:], strict=True)
        expected = [t if t >= 0 and weight > 0 else -100 for t, weight in trained]
        assert sample["tokens"] == tokens_of(row)
        assert sample["labels"] == expected
        assert sample["lengths"] == [len(p.tokens) for p in row.pieces]
        assert sample["doc_uid"] == [p.uid for p in row.pieces]
        assert (sample["step"], sample["slot"], sample["rank"]) == place
        assert sample["row_id"] == row.id


def test_mds_is_what_its_library_reads(make_world, tmp_path):
    """The streaming library, where it is installed, finds the same samples."""
    streaming = pytest.importorskip("streaming")
    world = make_world(spans=True)
    export_dataset(world.folder, "mds", tmp_path / "mds")
    found = streaming.LocalDataset(str(tmp_path / "mds"))
    ours = list(read_mds(tmp_path / "mds"))
    assert len(found) == len(ours)
    for sample, expected in zip(found, ours, strict=True):
        assert {k: np.asarray(v).tolist() for k, v in sample.items()} == expected

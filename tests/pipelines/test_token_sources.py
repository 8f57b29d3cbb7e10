"""Documents that come as token ids: Parquet lists and Megatron's files, and what is refused."""

import json
import struct
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_runs import recipe_of
from typer.testing import CliRunner

from packing.reader import PackedReader
from packing.verify import verify
from pipelines.cli import app
from pipelines.recipe import RecipeError, load_recipe
from pipelines.run import run
from transforms.record import RecordError
from transforms.tokenize.given import outside, read_ids, spell


def write_megatron(prefix, documents, *, dtype=np.uint16, pointers=None, bounds=None):
    """Write documents, each a list of sequences, by the layout of IndexedDataset."""
    sequences = [sequence for document in documents for sequence in document]
    width = np.dtype(dtype).itemsize
    lengths = np.array([len(s) for s in sequences], "<i4")
    starts = np.cumsum([0, *lengths[:-1] * width]) if len(lengths) else np.empty(0)
    starts = np.array(starts if pointers is None else pointers, "<i8")
    ends = np.cumsum([0, *map(len, documents)]) if bounds is None else bounds
    code = {np.dtype(np.uint16): 8, np.dtype(np.int32): 4}[np.dtype(dtype)]
    head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(sequences), len(ends))
    index = head + lengths.tobytes() + starts.tobytes() + np.array(ends, "<i8").tobytes()
    prefix.with_suffix(".idx").write_bytes(index)
    data = np.concatenate([np.empty(0, dtype), *(np.array(s, dtype) for s in sequences)])
    prefix.with_suffix(".bin").write_bytes(data.tobytes())


@pytest.fixture(scope="module")
def tokenized(corpus, tmp_path_factory):
    """The tokens of a small run as other tools leave them, with its tokenizer."""
    folder = tmp_path_factory.mktemp("tokenized")
    first = run(recipe_of(corpus, folder / "first", pack={"enabled": False}))
    stages = {stage["stage"]: folder / "first" / stage["path"] for stage in first.stages}
    tokens = [
        ids
        for path in sorted(stages["encode"].glob("*.parquet"))
        for ids in pq.read_table(path)["input_ids"].to_pylist()
        if ids
    ]
    tokens = tokens[:80]
    (folder / "lists").mkdir()
    half = len(tokens) // 2
    lists = [*tokens[:half], tokens[3]]
    table = {"id": [f"p{k}" for k in range(len(lists))], "ids": lists, "kind": ["x"] * len(lists)}
    pq.write_table(pa.table(table), folder / "lists" / "a.parquet", row_group_size=11)
    (folder / "megatron").mkdir()
    cut = [[ids[:5], ids[5:]] if len(ids) > 9 else [ids] for ids in tokens[half:]]
    write_megatron(folder / "megatron" / "b", cut)
    [model] = stages["tokenizer"].glob("tokenizer.model")
    return folder, tokens, half, model


def recipe(tokenized, workdir, sources=None, **changes):
    folder, _, _, model = tokenized
    sources = sources or [
        {
            "name": "lists",
            "path": str(folder / "lists" / "*.parquet"),
            "tokens": "ids",
            "columns": {"kind": "kind"},
        },
        {"name": "old", "path": str(folder / "megatron" / "*.idx")},
    ]
    changes.setdefault("tokenizer", {"kind": "sentencepiece", "model": str(model)})
    return recipe_of(folder, workdir, sources=sources, **changes)


def documents_of(dataset):
    """Tokens of every document of a dataset, put together from its rows."""
    found = {}
    with PackedReader(dataset) as reader:
        rows = reader.rows(range(reader.n_rows))
    order = np.lexsort((rows.doc_offset, rows.doc_uid))
    for at in order.tolist():
        ids = rows.input_ids[rows.cu_seqlens[at] : rows.cu_seqlens[at + 1]].tolist()
        found.setdefault(int(rows.doc_uid[at]), []).extend(ids)
    return found


def test_token_ids_are_packed_as_they_are(tokenized, tmp_path):
    """Every document has its own ids; one that repeats is an exact duplicate; names are stable."""
    _, tokens, half, _ = tokenized
    done = run(recipe(tokenized, tmp_path))
    findings = verify(done.dataset)
    assert findings.ok, findings.failed
    assert done.lines == len(tokens) + 1
    assert done.dropped["dedupe.exact"] == 1 + (len(tokens) - len({tuple(t) for t in tokens}))
    with duckdb.connect(done.catalog, read_only=True) as catalog:
        ids = dict(catalog.sql("SELECT doc_uid, id FROM documents").fetchall())
    expected = {f"p{k}": ids for k, ids in enumerate(tokens[:half])}
    expected |= {f"b.idx#{k + 1}": ids for k, ids in enumerate(tokens[half:])}
    found = {ids[uid]: tokens for uid, tokens in documents_of(done.dataset).items()}
    assert len(found) == done.kept
    assert all(expected[name] == found[name] for name in found)


def test_workers_change_nothing(tokenized, tmp_path):
    """The same bytes for one worker and for both shuffles."""
    runs = [
        run(recipe(tokenized, tmp_path / str(n), runner={"kind": "local", **how}))
        for n, how in enumerate([{"workers": 1}, {"workers": 3, "shuffle": "runner"}])
    ]
    assert runs[0].fingerprint == runs[1].fingerprint
    rows = [Path(r.dataset, "rows-00000.parquet").read_bytes() for r in runs]
    assert rows[0] == rows[1]


def test_ids_outside_the_vocabulary_are_refused(tokenized, tmp_path):
    """The document, the token, the id and the remedy are named, and no dataset is there."""
    for wrong in (400, -1, 1 << 40):
        folder = tmp_path / f"in{wrong}"
        folder.mkdir()
        ids = [[5, 6, 7], [8, wrong]]
        pq.write_table(pa.table({"id": ["a", "b"], "ids": ids}), folder / "x.parquet")
        source = {"name": "s", "path": str(folder / "*.parquet"), "tokens": "ids"}
        said = rf"document 'b' of source 's', token 1: id {wrong} is outside the vocabulary of 400; give the"
        with pytest.raises(RecordError, match=said):
            run(recipe(tokenized, tmp_path / f"w{wrong}", [source]))
        assert not list(tmp_path.glob(f"w{wrong}/artifacts/balance-*"))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (
            {"pointers": [0, 4, 2]},
            r"sequence 2 \(document 2\) begins at byte 2, .*offsets must grow",
        ),
        ({"bounds": [0, 2, 1, 3]}, "document 2 begins at sequence 1, before document 1 at 2"),
        ({"pointers": [0, 6, 90]}, r"b.bin: has 12 bytes, but .*b.idx points to byte 94"),
    ],
)
def test_broken_indexes_are_refused(tokenized, tmp_path, how, said):
    """Offsets that do not grow or leave the data are named before any stage runs."""
    write_megatron(tmp_path / "b", [[[1, 2]], [[3, 4]], [[5, 6]]], **how)
    source = {"name": "s", "path": str(tmp_path / "*.idx")}
    with pytest.raises(RecordError, match=said):
        run(recipe(tokenized, tmp_path / "w", [source]))
    assert not list(tmp_path.glob("w/artifacts/*/manifest.json"))


def test_missing_data_and_wrong_columns(tokenized, tmp_path):
    """No data beside an index, lists of something else, and null lists are told apart."""
    write_megatron(tmp_path / "b", [[[1, 2]]])
    tmp_path.joinpath("b.bin").unlink()
    with pytest.raises(RecordError, match=r"b.bin: is not there"):
        run(recipe(tokenized, tmp_path / "w", [{"name": "s", "path": str(tmp_path / "*.idx")}]))
    table = pa.table({"ids": pa.array([[1, 2], None, [3, None]], pa.list_(pa.int64()))})
    pq.write_table(table, tmp_path / "x.parquet")
    pq.write_table(pa.table({"ids": [["a"], ["b"]]}), tmp_path / "y.parquet")
    source = {"name": "s", "path": str(tmp_path / "*.parquet"), "tokens": "ids"}
    done = run(recipe(tokenized, tmp_path / "v", [source]))
    assert (done.lines, done.rejected, done.kept) == (5, 4, 1)
    with duckdb.connect(done.catalog, read_only=True) as catalog:
        reasons = catalog.sql("SELECT path, line, reason FROM rejects ORDER BY ALL").fetchall()
    assert reasons == [
        ("x.parquet", 2, "tokens are null"),
        ("x.parquet", 3, "a token is null"),
        ("y.parquet", 1, "tokens are no list of integers"),
        ("y.parquet", 2, "tokens are no list of integers"),
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", "tokenizer.model: source 's' holds token ids; set model"),
        ("[dedupe.near]\n[tokenizer]\nmodel='m'", r"dedupe.near: .*\[dedupe.near\] reads text"),
        ("[decontaminate]\npath=['e']\n[tokenizer]\nmodel='m'", "decontaminate: source 's' holds"),
        ("[pack]\nseq_len=2\n[tokenizer]\nbos=true\nmodel='m'", "pack.seq_len: a row of 2 tokens"),
        (
            "[pack]\nseq_len=4\n[tokenizer]\nmodel='m'\n[tokenizer.fim]",
            "room for text beside eos and the three tokens of tokenizer.fim; set seq_len to at least 5",
        ),
    ],
)
def test_recipes_that_ask_for_text(tmp_path, more, said):
    """Stages that read text, and a tokenizer that is not given, are refused with the key."""
    path = tmp_path / "r.toml"
    path.write_text(f'name="x"\n[[sources]]\nname="s"\npath="a/*.idx"\n{more}\n')
    with pytest.raises(RecipeError, match=said):
        load_recipe(path)


def test_command_ends_with_the_code_of_data(tokenized, tmp_path):
    """The command line says it in one line and ends with 3."""
    model = tokenized[3]
    pq.write_table(pa.table({"ids": [[1, 2], [9999]]}), tmp_path / "x.parquet")
    path = tmp_path / "r.toml"
    path.write_text(
        f'name="x"\nworkdir={json.dumps(str(tmp_path / "w"))}\n[[sources]]\nname="s"\ntokens="ids"\n'
        f"path={json.dumps(str(tmp_path / '*.parquet'))}\n[tokenizer]\n"
        f"model={json.dumps(str(model))}\n"
    )
    done = CliRunner().invoke(app, ["run", str(path)])
    assert done.exit_code == 3
    assert "document 'x.parquet#2' of source 's', token 0: id 9999 is outside" in done.output


def test_spelling_is_undone():
    """Ids survive being spelled; empty documents have none; what no vocabulary has is found."""
    lists = pa.array([[1, 22, 333], [], [7], [1 << 40, 5], [-3]], pa.list_(pa.int64()))
    texts = spell(lists)
    assert texts.to_pylist() == ["1 22 333", "", "7", "1099511627776 5", "-3"]
    assert spell(lists[1:3]).to_pylist() == ["", "7"]
    found = read_ids(texts)
    assert found.lengths.tolist() == [3, 0, 1, 2, 1]
    assert found.ids[:4].tolist() == [1, 22, 333, 7]
    assert outside(found, 1 << 20) == (3, 0)
    assert outside(read_ids(texts[4:]), 10) == (0, 0)
    assert outside(read_ids(texts[:3]), 334) is None

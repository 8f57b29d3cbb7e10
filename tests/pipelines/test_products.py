"""What is made of a finished run: exported documents, another plan, decoded rows."""

import json
import random

import numpy as np
import pyarrow.parquet as pq
import pytest
import zstandard

from packing.format import load_manifest
from packing.reader import PackedReader
from packing.schedule import load_plan
from pipelines import export_documents as exporting
from pipelines.dataset import decoder, replan_dataset
from pipelines.export_documents import export_documents
from pipelines.locate import UsageError, find_dataset, find_workdir, run_record
from pipelines.recipe import from_dict
from pipelines.run import run
from transforms.record import RecordError


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run over two sources with columns of their own: (workdir, summary)."""
    folder = tmp_path_factory.mktemp("products")
    rng = random.Random(3)
    for name, count in (("a", 60), ("b", 40)):
        (folder / name).mkdir()
        for part in range(2):
            lines = [
                json.dumps(
                    {
                        "id": f"{name}{part}-{i}",
                        "text": f"{name} {part} {i} " * rng.randint(1, 60),
                        "n": i,
                        "url": f"u{i}",
                        "odd": i if name == "a" else f"t{i}",
                    }
                )
                for i in range(count)
            ]
            (folder / name / f"{part}.jsonl").write_text("\n".join(lines) + "\n")
    columns = {"a": {"n": "n", "odd": "odd"}, "b": {"url": "url", "odd_text": "odd"}}
    recipe = {
        "name": "two",
        "workdir": str(folder / "w"),
        "sources": [
            {"name": n, "path": str(folder / n / "*.jsonl"), "columns": columns[n]} for n in "ab"
        ],
        "tokenizer": {"vocab_size": 400},
        "pack": {"seq_len": 128},
        "balance": {"dp": 2, "global_batch": 4},
    }
    return folder / "w", run(from_dict(recipe))


def test_sources_with_other_columns_go_into_one_schema(made, tmp_path):
    """In Parquet a column that a source lacks is null; in JSON lines it is not there."""
    workdir, summary = made
    out = tmp_path / "all.parquet"
    done = export_documents(workdir, summary.run_id, "parquet", out)
    table = pq.read_table(out)
    assert (done.documents, done.files, len(table)) == (200, (out,), 200)
    rows = table.to_pylist()
    assert all((row["n"] is None) == (row["source"] == "b") for row in rows)
    assert all((row["url"] is None) == (row["source"] == "a") for row in rows)
    export_documents(workdir, summary.run_id, "jsonl.zst", tmp_path / "all.zst")
    with zstandard.open(tmp_path / "all.zst", "rt", encoding="utf-8") as lines:
        plain = [json.loads(line) for line in lines]
    assert all(("n" in row) == (row["source"] == "a") for row in plain)
    assert [row["id"] for row in plain] == [row["id"] for row in rows]


@pytest.mark.parametrize("form", ["jsonl.zst", "parquet", "hf"])
def test_files_of_a_folder_together_hold_every_document_once(made, tmp_path, form, monkeypatch):
    """Text beyond the size of a part opens another file; no document is lost or doubled."""
    workdir, summary = made
    monkeypatch.setattr(exporting, "PART_TEXT_BYTES", 10_000)
    done = export_documents(workdir, summary.run_id, form, tmp_path / "out")
    assert len(done.files) > 1
    assert (
        sorted(done.files)
        == list(done.files)
        == sorted(p for p in (tmp_path / "out").rglob("*") if p.is_file())
    )
    ids = []
    for path in done.files:
        if form == "jsonl.zst":
            with zstandard.open(path, "rt", encoding="utf-8") as lines:
                ids += [json.loads(line)["id"] for line in lines]
        else:
            ids += pq.read_table(path)["id"].to_pylist()
    assert len(ids) == len(set(ids)) == 200


def test_columns_that_do_not_go_together_are_named(made, tmp_path):
    """Two sources with a column of one name and other types cannot share a Parquet file."""
    workdir, _ = made
    sources = [
        {"name": n, "path": str(workdir.parent / n / "*.jsonl"), "columns": {"odd": "odd"}}
        for n in "ab"
    ]
    recipe = {"name": "odd", "workdir": str(tmp_path / "w"), "sources": sources}
    recipe["tokenizer"] = {"vocab_size": 400}
    summary = run(from_dict(recipe), until="ingest")
    with pytest.raises(RecordError, match="odd"):
        export_documents(tmp_path / "w", summary.run_id, "parquet", tmp_path / "x")


def test_a_replanned_dataset_is_read_completely(made):
    """Every row is dealt once, steps are full, and the reader obeys the new plan."""
    folder = find_dataset(made[1].run_id, made[0])
    first = load_plan(str(folder / "plan.parquet"))
    done = replan_dataset(folder, dp=4, global_batch=8)
    assert done.imbalance >= 1.0
    plan = load_plan(str(done.path))
    assert sorted(plan.row_id.tolist()) == sorted(first.row_id.tolist())
    steps = np.bincount(plan.table["step"].to_numpy())
    assert set(steps[:-1].tolist()) == {8}
    with PackedReader(folder, done.path, prefetch=0) as reader:
        seen = [
            row
            for step in range(reader.n_steps)
            for rank in range(4)
            for batch in reader.micro_batches(step, rank, 4)
            for row in batch.row_id.tolist()
        ]
    assert sorted(seen) == sorted(first.row_id.tolist())
    assert replan_dataset(folder, dp=4, global_batch=8).path == done.path
    with pytest.raises(ValueError, match="not a multiple"):
        replan_dataset(folder, dp=4, global_batch=6)


def test_rows_decode_with_and_without_the_tokenizers_artifact(made, tmp_path):
    """A dataset's own folder is enough to read its text; without a tokenizer file there is none."""
    folder = find_dataset(made[1].run_id, made[0])
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    with PackedReader(folder, prefetch=0) as reader:
        ids = reader.rows([0]).input_ids[:20].tolist()
    assert decoder(folder)(ids) == decoder(copy)(ids)
    assert decoder(folder)(ids)
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["files"] = [f for f in manifest["files"] if not f["name"].startswith("tokenizer")]
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert load_manifest(str(copy)).row_files
    assert decoder(copy) is None


def test_what_is_not_there_is_named(made, tmp_path):
    """Work directories, runs and datasets that do not exist are named with the nearest that does."""
    workdir, summary = made
    with pytest.raises(UsageError, match="no work directory"):
        find_workdir(tmp_path)
    with pytest.raises(UsageError, match=f"did you mean {summary.run_id}"):
        run_record(summary.run_id[:-1] + "x", workdir)
    (tmp_path / "runs").mkdir()
    with pytest.raises(UsageError, match="it has none"):
        run_record("r", tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        find_dataset("a/b", workdir)


def test_a_run_without_rows_has_no_dataset(made):
    """A run that stopped before packing is found, and said to have made no dataset."""
    workdir, _ = made
    folder = workdir.parent
    recipe = {
        "name": "half",
        "workdir": str(workdir),
        "sources": [{"name": "a", "path": str(folder / "a" / "*.jsonl")}],
        "tokenizer": {"vocab_size": 400},
    }
    summary = run(from_dict(recipe), until="ingest")
    with pytest.raises(UsageError, match="made no dataset"):
        find_dataset(summary.run_id, workdir)

"""Whole runs: the same bytes everywhere, closed accounts, resume, increments."""

import json
import random
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_runs import digest, recipe_of, write_corpus

from pipelines.artifacts import StorageError
from pipelines.recipe import RecipeError
from pipelines.run import run
from pipelines.stages import plan
from transforms.record import RecordError


@pytest.mark.parametrize(
    "runner",
    [
        {"workers": 1},
        {"workers": 4},
        {"workers": 2, "shuffle": "runner"},
    ],
    ids=["1 worker", "4 workers", "runner shuffle"],
)
def test_workers_and_shuffle_change_no_byte(runner, corpus, finished, tmp_path):
    """The dataset is byte-identical for 1, 2 and 4 workers and both shuffles."""
    summary = run(recipe_of(corpus, tmp_path / "w", runner={"kind": "local", **runner}))

    assert digest(summary.dataset) == digest(finished[1].dataset)


def test_the_portable_runner_changes_no_byte(corpus, finished, portable, tmp_path):
    """Job server and worker processes give the same bytes as threads."""
    job, pool = portable
    runner = {"kind": "portable", "job_endpoint": job, "worker_pool": pool}
    summary = run(recipe_of(corpus, tmp_path / "w", runner=runner))

    assert digest(summary.dataset) == digest(finished[1].dataset)


def test_place_name_and_listing_order_change_no_byte(corpus, finished, tmp_path):
    """The same files elsewhere, copied in another order, under another name: the same bytes."""
    (tmp_path / "else").mkdir()
    for file in sorted(corpus.iterdir(), reverse=True):
        shutil.copy(file, tmp_path / "else" / file.name)
    summary = run(recipe_of(tmp_path / "else", tmp_path / "w", name="other"))

    assert digest(summary.dataset) == digest(finished[1].dataset)


def test_the_accounts_close(finished):
    """Lines, rejects, documents, drops, tokens and rows agree between summary and files."""
    summary = finished[1]
    tables = [pq.read_table(f) for f in sorted(Path(summary.dataset).glob("rows-*.parquet"))]
    tokens = sum(int(t["n_tokens"].to_numpy().sum()) for t in tables)
    uids = {u for t in tables for row in t["doc_uid"].to_pylist() for u in row}

    assert summary.lines == summary.ingested + summary.rejected == 300
    assert summary.ingested == summary.kept + sum(summary.dropped.values())
    assert summary.dropped["dedupe.exact"] > 0
    assert (sum(len(t) for t in tables), tokens) == (summary.packed_rows, summary.tokens)
    assert len(uids) == summary.kept
    assert [s["stage"] for s in summary.stages] == [
        "ingest",
        "dedupe.exact",
        "tokenizer",
        "encode",
        "pack",
        "balance",
    ]


def test_a_finished_run_is_not_done_again(finished, tmp_path):
    """Run again, every stage is cached, and the dataset stays as it is."""
    recipe, first = finished
    before = digest(first.dataset)
    again = run(recipe)

    assert all(stage["cached"] for stage in again.stages)
    assert (again.dataset, digest(again.dataset)) == (first.dataset, before)
    assert all(line.state == "cached" for line in plan(recipe))


def test_a_new_file_redoes_its_own_work_only(tmp_path):
    """One added and one changed file of 21 cost their own tasks; the result is as from scratch."""
    folder = write_corpus(tmp_path / "in", n_docs=400, n_files=20, seed=3)
    model = Path(run(recipe_of(folder, tmp_path / "t")).dataset) / "tokenizer.model"
    tokenizer = {"kind": "sentencepiece", "model": str(model)}
    recipe = recipe_of(folder, tmp_path / "w", tokenizer=tokenizer)
    run(recipe)
    store = tmp_path / "w" / "artifacts"
    old = {p.name: p.stat().st_mtime_ns for p in store.glob("ingest-*/receipts/*.json")}
    lines = (folder / "part-7.jsonl").read_text().splitlines()
    (folder / "part-7.jsonl").write_text("\n".join(lines[1:]) + "\n")
    (folder / "part-20.jsonl").write_text(lines[0] + "\n" + lines[1].replace('"id": "', '"id": "n'))

    second = run(recipe)
    scratch = run(recipe_of(folder, tmp_path / "s", tokenizer=tokenizer))

    new = {p.name for p in store.glob("ingest-*/receipts/*.json")} - set(old)
    assert len(new) == 2
    assert digest(second.dataset) == digest(scratch.dataset)


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_a_killed_run_goes_on_where_it_was(kills, tmp_path):
    """SIGKILL at a random moment, then run: the same bytes, and no finished task is done again."""
    folder = write_corpus(tmp_path / "in", n_docs=600, n_files=8, seed=5)
    want = digest(run(recipe_of(folder, tmp_path / "calm")).dataset)
    code = (
        "import sys; sys.path.insert(0, sys.argv[3]); from pathlib import Path\n"
        "from small_runs import recipe_of; from pipelines.run import run\n"
        "run(recipe_of(Path(sys.argv[1]), Path(sys.argv[2])))"
    )
    rng = random.Random(9)
    for k in range(kills):
        workdir = tmp_path / f"k{k}"
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(folder), str(workdir), str(Path(__file__).parents[1])],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 60
        while not list(workdir.glob("artifacts/ingest-*/receipts/*.json")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 1.5))
        process.kill()
        process.wait()
        receipts = {p: p.stat().st_mtime_ns for p in workdir.glob("artifacts/*/receipts/*.json")}
        summary = run(recipe_of(folder, workdir))

        assert digest(summary.dataset) == want
        assert {p: p.stat().st_mtime_ns for p in receipts} == receipts


def test_too_many_rejects_end_the_run(tmp_path):
    """Above max_rejected the run fails as bad input, and is recorded as failed."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text('{"id": "a", "text": "good"}\n{"id": "b"}\n')
    recipe = recipe_of(tmp_path / "in", tmp_path / "w", ingest={"max_rejected": 0.4})
    with pytest.raises(RecordError, match=r"1 of 2 lines \(50.0%\)"):
        run(recipe)

    [record] = (tmp_path / "w" / "runs").glob("*/run.json")
    assert json.loads(record.read_text())["status"] == "failed"


def test_until_stops_early_and_refuses_unknown_stages(corpus, tmp_path):
    """--until runs the stages up to the one named; another name is refused with the choices."""
    recipe = recipe_of(corpus, tmp_path / "w")
    summary = run(recipe, until="dedupe.exact")

    assert [stage["stage"] for stage in summary.stages] == ["ingest", "dedupe.exact"]
    assert summary.dataset is None
    with pytest.raises(RecipeError, match="--until packing"):
        run(recipe, until="packing")


def test_a_busy_work_directory_is_refused(corpus, tmp_path):
    """A run does not start in a work directory that another one holds."""
    recipe = recipe_of(corpus, tmp_path / "w")
    from pipelines.artifacts import Workdir

    with Workdir(recipe.workdir).lock(), pytest.raises(StorageError, match="another run"):
        run(replace(recipe))

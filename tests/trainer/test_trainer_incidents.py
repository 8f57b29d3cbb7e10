"""Whole runs through spikes, damaged shards and stops: what is trained, logged and gone on with."""

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from forked_ranks import run_ranks  # noqa: E402

from packing.format import ShardError  # noqa: E402
from trainer import loop  # noqa: E402
from trainer.checkpoint import load_weights  # noqa: E402
from trainer.cli import main  # noqa: E402
from trainer.source import StepSource  # noqa: E402

WATCHED = """[anomalies]
window = 8
min_steps = 4
retry_within = 4
patience = 3
retries = 1
[training]"""


def read(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def configure(write_config, name, *, watched=True, **settings):
    path = write_config(name, **settings)
    if watched:
        path.write_text(path.read_text().replace("[training]", WATCHED))
    return path


@pytest.fixture
def spikes(monkeypatch):
    """A function that makes the losses of some steps of the run five times as high."""
    clean = loop.Run._gradients

    def plant(*steps, factor=5.0):
        def spiked(self, portion):
            found = clean(self, portion)
            return replace(found, loss=found.loss * factor) if self.step in steps else found

        monkeypatch.setattr(loop.Run, "_gradients", spiked)

    return plant


@pytest.fixture
def logged(dataset):
    """A function that gives the events of a folder, in a work directory whose run it makes."""
    folder = dataset.parent.parent / "runs" / "watched"
    folder.mkdir(parents=True, exist_ok=True)
    run = {
        "run_id": "watched",
        "status": "ok",
        "finished": "2026-02-01T00:00:00Z",
        "stages": [{"path": f"artifacts/{dataset.name}"}],
    }
    (folder / "run.json").write_text(json.dumps(run))

    def events(out):
        found = read(folder / "training.jsonl")
        return [e for e in found if e["out"] == str(out)]

    yield events
    shutil.rmtree(folder)


def test_spike_is_left_out_and_comes_again(write_config, tmp_path, spikes, logged):
    """A spike changes no weight; its rows come again within the range, all others in their order."""
    spikes(9)
    path = configure(write_config, "spike", steps=16, interval=1)
    path.write_text(path.read_text().replace("keep_latest_k = 2", "keep_latest_k = 20"))
    assert main([str(path)]) == 0
    out = tmp_path / "spike"
    before, after = (load_weights(out / f"checkpoint-{n}") for n in (9, 10))

    assert all(torch.equal(before[k], after[k]) for k in before)
    metrics, receipts = read(out / "metrics.jsonl"), read(out / "receipts.jsonl")
    assert [m["step"] for m in metrics if m["skipped"]] == [9]
    assert metrics[9]["loss"] > 3 * metrics[8]["loss"]
    again = [r for r in receipts if r["attempt"]]
    assert len(again) == 1
    assert 10 <= again[0]["step"] <= 13
    assert (again[0]["epoch"], again[0]["plan_step"]) == (2, 1)
    assert again[0]["trained"]
    assert again[0]["rows"] == receipts[9]["rows"] == list(range(8, 16))
    # Without the one that came again, the steps are those of the plan, in its order.
    in_turn = [r["plan_step"] for r in receipts if not r["attempt"]]
    assert in_turn == [n % 4 for n in range(15)]

    events = logged(out)
    assert [e["row_id"] for e in events if e["event"] == "spike"] == list(range(8, 16))
    assert [e["row_id"] for e in events if e["event"] == "skip"] == list(range(8, 16))
    assert {e["step"] for e in events if e["event"] == "retry"} == {again[0]["step"]}
    assert all("is above" in e["detail"] for e in events if e["event"] == "skip")


def test_rows_given_up_are_named(write_config, tmp_path, spikes, logged):
    """Rows that spike again are given up by name, and the run goes on."""
    spikes(9, 10, 11, 12, 13)
    path = configure(write_config, "given-up", steps=24)
    path.write_text(path.read_text().replace("patience = 3", "patience = 100"))
    assert main([str(path)]) == 0
    events = logged(tmp_path / "given-up")
    dropped = {e["row_id"] for e in events if e["event"] == "drop"}
    receipts = read(tmp_path / "given-up" / "receipts.jsonl")

    assert dropped
    failed = {r for e in receipts if e["attempt"] == 1 and not e["trained"] for r in e["rows"]}
    assert dropped == failed


def test_lasting_spikes_lower_the_rate(write_config, tmp_path, spikes, logged):
    """Spikes that last halve the rate, and the new level is trained on."""
    spikes(*range(9, 40))
    path = configure(write_config, "lasting", steps=20)
    path.write_text(path.read_text().replace("[lr_scheduler]", '[lr_scheduler]\ndecay="constant"'))
    assert main([str(path)]) == 0
    metrics = read(tmp_path / "lasting" / "metrics.jsonl")

    assert [m["step"] for m in metrics if m["skipped"]] == [9, 10, 11]
    assert [m["lr"] for m in metrics[3:12]] == [0.01] * 9
    assert {m["lr"] for m in metrics[12:20]} == {0.005}
    assert [e["step"] for e in logged(tmp_path / "lasting") if e["event"] == "lower"] == [11]


@pytest.mark.parametrize("stop", [9, 10, 11, 12, 14])
def test_resume_through_an_incident_is_bitwise(write_config, tmp_path, spikes, monkeypatch, stop):
    """Stopped before, at or behind a spike, a run comes to the same steps, hashes and weights."""
    spikes(9, 11)
    assert main([str(configure(write_config, "whole", steps=18))]) == 0
    path = configure(write_config, "cut", steps=18, interval=100)
    step = loop.Run._train_step

    def stopping(self, source):
        metrics = step(self, source)
        if metrics.step + 1 == stop:
            signal.raise_signal(signal.SIGTERM)
        return metrics

    monkeypatch.setattr(loop.Run, "_train_step", stopping)
    assert main([str(path)]) == 0
    monkeypatch.setattr(loop.Run, "_train_step", step)
    assert len(read(tmp_path / "cut" / "metrics.jsonl")) == stop
    assert main([str(path)]) == 0

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert read(cut / "receipts.jsonl") == read(whole / "receipts.jsonl")
    a, b = (load_weights(out / "checkpoint-18") for out in (whole, cut))
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_ranks_decide_alike(write_config, tmp_path, monkeypatch):
    """A loss that is not finite on one rank alone is left out by both, and comes again on both."""
    path = configure(write_config, "two", steps=14, head='dtype = "float64"')
    reference = configure(write_config, "one", steps=14, head='dtype = "float64"')
    clean = loop.Run._gradients

    def poisoned(self, portion):
        if self.step == 6 and self.ranks.rank == self.ranks.world - 1:
            weight = self.model.norm.weight
            kept = weight.detach().clone()
            weight.data.fill_(float("nan"))
            found = clean(self, portion)
            weight.data.copy_(kept)
            return found
        return clean(self, portion)

    monkeypatch.setattr(loop.Run, "_gradients", poisoned)
    assert main([str(reference)]) == 0
    assert run_ranks(lambda rank: main([str(path)])) == [0, 0]
    one, two = tmp_path / "one", tmp_path / "two"

    assert [m["step"] for m in read(two / "metrics.jsonl") if m["skipped"]] == [6]
    assert read(two / "receipts.jsonl") == read(one / "receipts.jsonl")
    assert any(r["attempt"] for r in read(two / "receipts.jsonl"))
    a, b = (load_weights(out / "checkpoint-14") for out in (one, two))
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-9, atol=1e-12)


@pytest.fixture
def damaged(dataset, tmp_path):
    """A copy of the dataset whose second row group is damaged: steps 1 of the plan (rows 8 to 15)."""
    import pyarrow.parquet as pq

    copy = tmp_path / "work" / "artifacts" / dataset.name
    shutil.copytree(dataset, copy)
    path = copy / "rows-00000.parquet"
    column = pq.ParquetFile(path).metadata.row_group(1).column(2)
    assert "input_ids" in column.path_in_schema
    content = bytearray(path.read_bytes())
    content[column.data_page_offset + column.total_compressed_size - 5] ^= 0xFF
    path.write_bytes(content)
    return copy


def test_damaged_shard_stops_the_run(damaged, write_config, capsys, tmp_path):
    """A row group that cannot be read ends the run 3, named with its file; what was saved stays."""
    path = write_config("stop", data=damaged, interval=1)

    assert main([str(path)]) == 3
    told = capsys.readouterr().err
    assert "rows-00000.parquet" in told
    assert "row group 1" in told
    assert 'training.damaged = "skip"' in told
    assert [m["step"] for m in read(tmp_path / "stop" / "metrics.jsonl")] == [0]


@pytest.mark.parametrize("world", [1, 2])
def test_damaged_shard_is_skipped(damaged, write_config, tmp_path, world, capsys):
    """By choice its steps are left out, with a receipt, in every epoch; all others are trained."""
    path = write_config("skip", data=damaged, steps=9, training='damaged = "skip"')
    codes = [main([str(path)])] if world == 1 else run_ranks(lambda rank: main([str(path)]))

    assert codes == [0] * world
    receipts = read(tmp_path / "skip" / "receipts.jsonl")
    assert [r["plan_step"] for r in receipts] == [0, 1, 2, 3, 0, 1, 2, 3, 0]
    assert [r["trained"] for r in receipts] == [r["plan_step"] != 1 for r in receipts]
    metrics = read(tmp_path / "skip" / "metrics.jsonl")
    assert [m["loss"] is None for m in metrics] == [r["plan_step"] == 1 for r in receipts]


def test_receipts_prove_the_sequence(write_config, tmp_path):
    """Runs of one and two ranks, and one that changed ranks on its way, have the same receipts."""
    sizes = {"one": (1, 1), "two": (2, 2), "change": (2, 1)}
    found = {}
    for name, (first, second) in sizes.items():
        for steps, world in ((5, first), (10, second)):
            path = write_config(name, steps=steps)
            if world == 1:
                assert main([str(path)]) == 0
            else:
                assert run_ranks(lambda rank, path=path: main([str(path)])) == [0, 0]
        found[name] = read(tmp_path / name / "receipts.jsonl")

    assert found["one"] == found["two"] == found["change"]
    assert len({r["hash"] for r in found["one"]}) == 10
    assert [row for r in found["one"][:4] for row in r["rows"]] == list(range(30))


def test_damage_that_one_rank_finds_is_left_out_by_both(write_config, tmp_path, monkeypatch):
    """Where one rank alone cannot read its rows, both leave the step out and go on together."""
    clean = StepSource._read

    def failing(self, retry):
        found = clean(self, retry)
        if self._ranks.rank == 1 and found[0].step == 2:
            raise ShardError("rows-00000.parquet: row group 7 is damaged")
        return found

    monkeypatch.setattr(StepSource, "_read", failing)
    path = write_config("one-rank", steps=6, training='damaged = "skip"')
    assert run_ranks(lambda rank: main([str(path)])) == [0, 0]
    receipts = read(tmp_path / "one-rank" / "receipts.jsonl")

    assert [r["trained"] for r in receipts] == [True, True, False, True, True, True]

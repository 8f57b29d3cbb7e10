"""Whole runs: what they write, how they stop, go on and refuse."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from trainer import loop  # noqa: E402
from trainer.checkpoint import load_weights  # noqa: E402
from trainer.cli import main  # noqa: E402
from trainer.model import Decoder  # noqa: E402
from trainer.stopping import only_run_in  # noqa: E402


def lines(out):
    return [json.loads(line) for line in (Path(out) / "metrics.jsonl").read_text().splitlines()]


def without_time(found):
    times = ("seconds", "exposed_seconds")
    return [{k: v for k, v in line.items() if k not in times} for line in found]


def weights(out, step):
    return load_weights(Path(out) / f"checkpoint-{step}")


def same_weights(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


@pytest.fixture
def undisturbed(finished_run, tmp_path):
    """A finished run of 12 steps, as a copy of its own: (folder, metrics without times)."""
    shutil.copytree(finished_run, tmp_path / "whole")
    return tmp_path / "whole", without_time(lines(finished_run))


def test_metrics_and_checkpoints(undisturbed):
    """A run writes one line per step with the promised keys, and keeps the latest checkpoints."""
    out, found = undisturbed

    assert [line["step"] for line in found] == list(range(12))
    keys = {"step", "loss", "grad_norm", "lr", "tokens", "seconds", "rows", "skipped"}
    assert set(lines(out)[0]) >= keys
    assert [line["rows"] for line in found[:4]] == [8, 8, 8, 6]
    assert sorted(p.name for p in out.glob("checkpoint-*")) == ["checkpoint-12", "checkpoint-9"]
    assert found[-1]["loss"] < found[0]["loss"] - 0.5


def test_finished_run_ends_at_once(undisturbed, write_config, capsys):
    """Started again, a finished run ends 0 and changes no file."""
    out, _ = undisturbed
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}

    assert main([str(write_config("whole"))]) == 0
    assert {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()} == before
    assert "finished before" in capsys.readouterr().err


def test_repeat_is_bitwise(undisturbed, write_config, tmp_path):
    """The same configuration gives the same losses and weights, bit by bit."""
    out, found = undisturbed
    main([str(write_config("again"))])

    assert without_time(lines(tmp_path / "again")) == found
    assert same_weights(weights(out, 12), weights(tmp_path / "again", 12))


def test_recompute_is_bitwise(undisturbed, write_config, tmp_path):
    """Recomputed activations train to the same bits as kept ones."""
    out, found = undisturbed
    main([str(write_config("light", training='activations = "recompute"'))])

    assert without_time(lines(tmp_path / "light")) == found
    assert same_weights(weights(out, 12), weights(tmp_path / "light", 12))


PLANNED = """activations = "planned"
plan = { tile = 16, alpha = 0.6, input_stride = 2, resident_layers = 0, head_groups = 2 }"""


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_planned_trains_as_kept(write_config, tmp_path, dtype):
    """Planned activations train to the losses of kept ones, and no plan changes a bit of them."""
    texts = {
        "kept": "",
        "planned": PLANNED,
        "other": 'activations = "planned"\nplan = { tile = 16, recompute_prefix = 1.0 }',
    }
    for name, text in texts.items():
        main([str(write_config(name, training=text, head=f'dtype = "{dtype}"'))])
    kept, planned, other = (lines(tmp_path / name) for name in texts)

    assert without_time(planned) == without_time(other)
    assert same_weights(weights(tmp_path / "planned", 12), weights(tmp_path / "other", 12))
    tolerance = 1e-4 if dtype == "float32" else 2e-2
    for a, b in zip(planned, kept, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=tolerance)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=10 * tolerance)


def test_experts_train_planned_as_kept(write_config, tmp_path):
    """A model with experts learns, and planned activations train it to the losses of kept ones."""
    sizes = "experts = 4\nactive_experts = 2\nshared_experts = 1\nexpert_ffn = 24\n"
    for name, text in {"kept": "", "planned": PLANNED}.items():
        path = write_config(name, training=text)
        path.write_text(path.read_text().replace("[training]", sizes + "[training]"))
        assert main([str(path)]) == 0
    kept, planned = (lines(tmp_path / name) for name in ("kept", "planned"))

    assert kept[-1]["loss"] < kept[0]["loss"] - 0.5
    for a, b in zip(planned, kept, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-4)


@pytest.mark.parametrize("stop", [1, 4, 7, 11])
def test_resume_is_bitwise_at_any_step(undisturbed, write_config, tmp_path, monkeypatch, stop):
    """Stopped after any step and started again, a run comes to the same losses and weights."""
    out, found = undisturbed
    path = write_config("cut", interval=100)
    step = loop.Run._train_step

    def stopping(self, source):
        metrics = step(self, source)
        if metrics.step + 1 == stop:
            signal.raise_signal(signal.SIGTERM)
        return metrics

    monkeypatch.setattr(loop.Run, "_train_step", stopping)
    assert main([str(path)]) == 0
    assert len(lines(tmp_path / "cut")) == stop
    assert [p.name for p in (tmp_path / "cut").glob("checkpoint-*")] == [f"checkpoint-{stop}"]

    monkeypatch.setattr(loop.Run, "_train_step", step)
    assert main([str(path)]) == 0
    assert without_time(lines(tmp_path / "cut")) == found
    assert same_weights(weights(out, 12), weights(tmp_path / "cut", 12))


def start(path, **kwargs):
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "trainer", str(path)],
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


def wait_for(process, condition):
    end = time.monotonic() + 60
    while process.poll() is None and not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def count(out):
    path = out / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize("training", ["", PLANNED], ids=["keep", "planned"])
def test_sigkill_in_mid_run(write_config, tmp_path, training):
    """After SIGKILL a run goes on from its checkpoint: earlier lines stay, later ones are equal."""
    whole = write_config("whole", steps=80, interval=10, training=training)
    assert main([str(whole)]) == 0
    expected = lines(tmp_path / "whole")
    path = write_config("killed", steps=80, interval=10, training=training)
    out = tmp_path / "killed"
    process = start(path)
    wait_for(process, lambda: count(out) >= 25 and (out / "checkpoint-20").exists())
    process.kill()
    process.communicate()
    before = (out / "metrics.jsonl").read_bytes().splitlines()[:20]

    assert process.returncode == -signal.SIGKILL
    assert main([str(path)]) == 0
    assert (out / "metrics.jsonl").read_bytes().splitlines()[:20] == before
    assert without_time(lines(out)) == without_time(expected)
    assert same_weights(weights(out, 80), weights(tmp_path / "whole", 80))
    assert not list(out.glob(".checkpoint-*"))


def test_sigterm_ends_with_a_checkpoint(write_config, tmp_path):
    """SIGTERM ends a run 0, with a checkpoint of every line written and the command to go on."""
    path, out = write_config("stopped", steps=100_000, interval=100_000), tmp_path / "stopped"
    process = start(path)
    wait_for(process, lambda: count(out) >= 2)
    for _ in range(2):  # a launcher hands on what the process group got already
        process.terminate()
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 0, errors
    assert (out / f"checkpoint-{len(lines(out))}").exists()
    assert errors.splitlines()[-1] == f"next: drystone train {path}"


def test_later_ctrl_c_interrupts(write_config, tmp_path, monkeypatch, capsys):
    """Ctrl-C twice in a row stops behind the step; another one much later interrupts at once."""
    monkeypatch.setattr("trainer.stopping.PATIENCE_S", 0.05)
    step = loop.Run._train_step

    def interrupted(self, source):
        metrics = step(self, source)
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.1)
        signal.raise_signal(signal.SIGINT)
        return metrics

    monkeypatch.setattr(loop.Run, "_train_step", interrupted)
    assert main([str(write_config("twice"))]) == 130
    assert "interrupted" in capsys.readouterr().err
    assert not list((tmp_path / "twice").glob("checkpoint-*"))


def test_step_without_finite_loss_is_skipped(write_config, tmp_path, monkeypatch):
    """A loss that is not finite changes no weight, is logged as null, and the run goes on."""
    clean = Decoder.loss_sum
    calls = []

    def poisoned(self, *batch):
        calls.append(None)
        return clean(self, *batch) * (float("nan") if len(calls) in (3, 8) else 1)

    monkeypatch.setattr(Decoder, "loss_sum", poisoned)
    assert main([str(write_config("nan", interval=1, steps=4))]) == 0
    found = lines(tmp_path / "nan")

    assert [line["loss"] is None for line in found] == [False, True, False, True]
    assert [line["grad_norm"] is None for line in found] == [False, True, False, True]
    assert same_weights(weights(tmp_path / "nan", 3), weights(tmp_path / "nan", 4))
    assert all(x.isfinite().all() for x in weights(tmp_path / "nan", 4).values())


def test_run_that_never_has_a_finite_loss(write_config, monkeypatch, capsys):
    """A run without any finite step stops with exit 1 and says what to do."""
    monkeypatch.setattr(loop, "MAX_SKIPPED", 3)
    clean = Decoder.loss_sum
    monkeypatch.setattr(Decoder, "loss_sum", lambda self, *b: clean(self, *b) * float("inf"))

    assert main([str(write_config("lost"))]) == 1
    assert "3 steps in a row" in capsys.readouterr().err


def test_events_reach_the_run_that_made_the_dataset(dataset, write_config, tmp_path, monkeypatch):
    """Events go to the newest ok run of the dataset's work directory, skips with their rows."""
    runs = dataset.parent.parent / "runs"
    named = {"dataset": None, "stages": [{"path": f"artifacts/{dataset.name}"}]}
    for name, status, finished in (
        ("old", "ok", "2026-01-01T00:00:00Z"),
        ("new", "ok", "2026-01-02T00:00:00Z"),
        ("bad", "failed", "2026-01-03T00:00:00Z"),
    ):
        (runs / name).mkdir(parents=True)
        run = {"run_id": name, "status": status, "finished": finished, **named}
        (runs / name / "run.json").write_text(json.dumps(run))
    clean = Decoder.loss_sum
    calls = []

    def poisoned(self, *batch):
        calls.append(None)
        return clean(self, *batch) * (float("nan") if len(calls) == 4 else 1)

    monkeypatch.setattr(Decoder, "loss_sum", poisoned)
    assert main([str(write_config("eventful", steps=4))]) == 0

    assert not (runs / "old" / "training.jsonl").exists()
    assert not (runs / "bad" / "training.jsonl").exists()
    found = [json.loads(x) for x in (runs / "new" / "training.jsonl").read_text().splitlines()]
    assert {(e["run_id"], e["out"]) for e in found} == {("new", str(tmp_path / "eventful"))}
    assert [(e["step"], e["event"], e["row_id"]) for e in found] == [
        (0, "start", None),
        # The fourth micro-batch: the second slot of step 1.
        *((1, "spike", row) for row in (12, 13, 14, 15)),
        *((1, "skip", row) for row in range(8, 16)),
        (3, "checkpoint", None),
        (4, "checkpoint", None),
        (4, "end", None),
    ]


def test_another_model_is_refused(undisturbed, write_config, capsys):
    """A checkpoint of another model or dtype is refused, naming each difference."""
    path = write_config("whole", head='dtype = "bfloat16"')
    path.write_text(path.read_text().replace("layers = 2", "layers = 3"))

    assert main([str(path)]) == 2
    message = capsys.readouterr().err
    assert "model.layers is 2 there and 3 here" in message
    assert "dtype is float32 there and bfloat16 here" in message


def test_longer_run_goes_on(undisturbed, write_config, tmp_path, capsys):
    """More steps than before go on from the last checkpoint, and the change is told."""
    assert main([str(write_config("whole", steps=14))]) == 0
    assert len(lines(tmp_path / "whole")) == 14
    assert "training.steps 12 -> 14" in capsys.readouterr().err


def test_damaged_checkpoint_is_passed_over(undisturbed, write_config, tmp_path, capsys):
    """When the newest checkpoint is damaged, the one before it is used, to the same end."""
    out, found = undisturbed
    expected = weights(out, 12)
    model = out / "checkpoint-12" / "model.pt"
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 255
    model.write_bytes(content)

    assert main([str(write_config("whole"))]) == 0
    assert "model.pt is damaged" in capsys.readouterr().err
    assert without_time(lines(out)) == found
    assert same_weights(weights(out, 12), expected)


def test_only_damaged_checkpoints(undisturbed, write_config, capsys):
    """Without a complete checkpoint nothing is trained over, and the message names the files."""
    out, _ = undisturbed
    for path in out.glob("checkpoint-*"):
        (path / "state.json").unlink()

    assert main([str(write_config("whole"))]) == 2
    assert "no complete checkpoint" in capsys.readouterr().err


def test_second_run_in_one_folder(write_config, tmp_path, capsys):
    """Two trainings cannot share a folder: the second ends 4."""
    path = write_config("busy")
    with only_run_in(tmp_path / "busy"):
        assert main([str(path)]) == 4

    assert "another run trains there" in capsys.readouterr().err


def test_work_directory_stands_for_its_newest_dataset(dataset, write_config, tmp_path, capsys):
    """Given a work directory, the trainer reads the dataset of its newest finished run."""
    workdir = tmp_path / "w"
    (workdir / "artifacts").mkdir(parents=True)
    (workdir / "artifacts" / dataset.name).symlink_to(dataset)
    assert main([str(write_config("given", data=dataset, steps=2))]) == 0
    (workdir / "runs" / "r1").mkdir(parents=True)

    assert main([str(write_config("none", data=workdir, steps=2))]) == 3
    assert "without a finished run" in capsys.readouterr().err
    run = {
        "status": "ok",
        "finished": "2026-01-01T00:00:00Z",
        "stages": [{"stage": "balance", "path": f"artifacts/{dataset.name}"}],
    }
    (workdir / "runs" / "r1" / "run.json").write_text(json.dumps(run))
    assert main([str(write_config("found", data=workdir, steps=2))]) == 0
    assert without_time(lines(tmp_path / "found")) == without_time(lines(tmp_path / "given"))


def test_missing_dataset(write_config, capsys, tmp_path):
    """A dataset that is not there ends 3 and is named."""
    assert main([str(write_config("none", data=tmp_path / "nowhere"))]) == 3
    assert "nowhere" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folder_that_cannot_be_written(write_config, tmp_path, capsys):
    """A folder that cannot be written ends 4."""
    tmp_path.chmod(0o500)
    try:
        assert main([str(write_config("closed"))]) == 4
    finally:
        tmp_path.chmod(0o700)


def test_out_is_a_file(write_config, tmp_path, capsys):
    """A file in the place of the folder ends 4 and is named."""
    (tmp_path / "taken").write_text("")

    assert main([str(write_config("taken"))]) == 4
    assert "taken" in capsys.readouterr().err

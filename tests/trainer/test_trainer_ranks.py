"""Data parallel runs of two processes against one process."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from trainer.checkpoint import load_weights  # noqa: E402
from trainer.cli import main  # noqa: E402

FLOAT64 = 'dtype = "float64"'
PLANNED = 'activations = "planned"\nplan = { tile = 16, alpha = 0.5, input_stride = 2 }'


def torchrun(path, **kwargs):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return subprocess.Popen(
        [*command, "-m", "trainer", str(path)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        **kwargs,
    )


def lines(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def weights(out, step):
    return load_weights(Path(out) / f"checkpoint-{step}")


def check_equal(found, expected):
    assert [(x["step"], x["tokens"], x["rows"]) for x in found] == [
        (x["step"], x["tokens"], x["rows"]) for x in expected
    ]
    for a, b in zip(found, expected, strict=True):
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-12)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-10)


@pytest.mark.parametrize("training", ["", PLANNED], ids=["keep", "planned"])
def test_two_processes_equal_one(write_config, tmp_path, training):
    """Two ranks train what one would: losses, gradient norms and weights, the short step too.

    And each may go on from the other's checkpoint.
    """
    assert main([str(write_config("one", head=FLOAT64, steps=9, training=training))]) == 0
    path = write_config("two", head=FLOAT64, steps=6, training=training)
    process = torchrun(path)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert main([str(write_config("two", head=FLOAT64, steps=9, training=training))]) == 0

    # The rate depends on the number of steps, so the run of six is compared where it is the same.
    assert main([str(write_config("six", head=FLOAT64, steps=6, training=training))]) == 0
    check_equal(lines(tmp_path / "two")[:6], lines(tmp_path / "six"))
    for a, b in zip(
        weights(tmp_path / "two", 6).values(), weights(tmp_path / "six", 6).values(), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
    assert [x["step"] for x in lines(tmp_path / "two")] == list(range(9))


def test_sigterm_stops_all_ranks_at_one_step(write_config, tmp_path):
    """SIGTERM to the launcher ends every rank after the same step, with one checkpoint."""
    out = tmp_path / "stopped"
    process = torchrun(write_config("stopped", steps=100_000, interval=100_000))
    end = time.monotonic() + 90
    while not (out / "metrics.jsonl").exists() or len(lines(out)) < 2:
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=90)

    assert (out / f"checkpoint-{len(lines(out))}").exists()


def test_ranks_that_do_not_divide_the_slot(write_config, capsys, monkeypatch):
    """A number of ranks that the plan cannot serve ends 3, and says which would do."""
    monkeypatch.setattr("trainer.ranks.Ranks.sum", lambda self, values: list(values))
    monkeypatch.setattr("trainer.ranks.dist.init_process_group", lambda *a, **k: None)
    monkeypatch.setattr("trainer.ranks.dist.destroy_process_group", lambda: None)
    monkeypatch.setenv("WORLD_SIZE", "3")

    assert main([str(write_config("three"))]) == 3
    assert "use one of 1, 2, 4" in capsys.readouterr().err


def test_device_that_is_not_there(write_config, capsys, monkeypatch):
    """A CUDA device that is not there ends 2, and says what is."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    path = write_config("cuda")
    path.write_text(path.read_text().replace('"cpu"', '"cuda"'))

    assert main([str(path)]) == 2
    assert "sees 0 CUDA devices" in capsys.readouterr().err

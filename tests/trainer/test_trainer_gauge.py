"""What a step took, and what is said when memory runs out."""

import json
import re
import tomllib
from dataclasses import replace
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")

import pyarrow.parquet as pq  # noqa: E402

from trainer import remedy  # noqa: E402
from trainer.cli import main  # noqa: E402
from trainer.config import load_config  # noqa: E402
from trainer.copies import EagerCopies  # noqa: E402
from trainer.forecast import forecast  # noqa: E402
from trainer.gauge import TimedCopies  # noqa: E402
from trainer.machine import PROFILES  # noqa: E402
from trainer.metrics import StepMetrics  # noqa: E402
from trainer.model import Decoder  # noqa: E402
from trainer.plan import LayerPlan  # noqa: E402
from trainer.planner import predict  # noqa: E402
from trainer.progress import Progress  # noqa: E402
from trainer.remedy import memory_advice  # noqa: E402

PLANNED = 'activations = "planned"\nplan = { tile = 8, alpha = 0.5, resident_layers = 0 }\n'


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_flop_are_those_of_the_rows(dataset, write_config, tmp_path):
    """A step's TFLOP are 6 x weights x tokens and 6 x layers x width x squares, by hand."""
    assert main([str(write_config("flop", steps=4))]) == 0
    lengths = [
        [b - a for a, b in pairwise(row)]
        for row in pq.read_table(dataset / "rows-00000.parquet")["cu_seqlens"].to_pylist()
    ]
    weights = 2 * (32 * 8 * (2 * 4 + 2 * 2) + 3 * 32 * 48) + 32 * 53
    for step, line in enumerate(read(tmp_path / "flop" / "metrics.jsonl")):
        rows = lengths[8 * step : 8 * step + 8]
        tokens = sum(map(sum, rows))
        squares = sum(n * n for row in rows for n in row)
        expected = 6 * weights * tokens + 6 * 2 * 4 * 8 * squares
        assert line["tflop"] * 1e12 == pytest.approx(expected, rel=1e-9)
        assert line["mfu"] is None
        assert line["exposed_seconds"] is None


def test_memory_predicted_and_seen(write_config, capsys, tmp_path):
    """With planned layers the bytes that were stored are those that the plan promised."""
    assert main([str(write_config("memory", training=PLANNED, steps=4))]) == 0
    [told] = [x for x in capsys.readouterr().err.splitlines() if x.startswith("stored by layers")]
    seen_device, device, seen_host, host = (
        int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", told)
    )

    assert seen_device == device > 0
    assert seen_host == host > 0
    lines = read(tmp_path / "memory" / "metrics.jsonl")
    assert all(0 < line["exposed_seconds"] < line["seconds"] for line in lines)


def test_waits_are_timed(monkeypatch):
    """What an engine makes the caller wait for is counted once, and handed on unchanged."""
    clock = iter(range(100))
    monkeypatch.setattr("trainer.gauge.time.perf_counter", lambda: next(clock))
    copies = TimedCopies(EagerCopies(), torch.device("cpu"))
    source, target = torch.arange(4, dtype=torch.uint8), torch.zeros(4, dtype=torch.uint8)
    copies.wait(copies.offload((source,), (target,)))
    copies.wait(copies.fetch((target,), (source,)))

    assert torch.equal(source, target)
    assert copies.waited() == 4
    assert copies.waited() == 0


def test_utilization_is_shown():
    """MFU where the peak is known, FLOP/s where it is not, copies where they are planned."""
    import io

    stream = io.StringIO()
    progress = Progress(10, stream=stream)
    line = StepMetrics(3, 2.5, 0.5, 1e-3, 12_300, 2.0, 3, False, 800.0, 0.4044, 0.02, 1)
    progress.step(line)
    progress.step(replace(line, mfu=None, exposed_seconds=None))

    first, second = stream.getvalue().splitlines()
    assert first.endswith("6.15k tokens/s  MFU 40.4%  copies 1.0%")
    assert second.endswith("6.15k tokens/s  400TFLOP/s")


def machine(device, host=1 << 40):
    return replace(PROFILES["h100"], device_bytes=device, host_bytes=host)


def test_advice_names_a_plan_that_fits(write_config):
    """What is advised for a size of memory is TOML, and by the planner it fits that size."""
    kept = load_config(write_config("kept"))
    roomy = forecast(kept, machine(1 << 40))
    least = min(
        predict(roomy.work, replace(roomy.plan, **change), machine(1 << 40)).device
        for change in ({}, {"alpha": 0.0, "resident_layers": 0})
    )
    told = memory_advice(kept, machine(least))
    text = re.search(r'(training\.activations = "planned") and (training\.plan = \{.*\})', told)
    found = tomllib.loads(f"{text[1]}\n{text[2]}")["training"]
    plan = LayerPlan(**found["plan"])

    assert predict(roomy.work, plan, machine(least)).device <= least
    assert f"{roomy.work.tokens:,} tokens" in told


def test_advice_where_nothing_fits(write_config):
    """Too small for any plan: the longest row that fits is named, or that none does."""
    config = load_config(write_config("small", training=PLANNED))
    used = forecast(config, machine(1 << 40)).predicted
    told = memory_advice(config, machine(used.states // 2))
    assert "no plan fits rows of any length" in told
    assert "by its plan it takes" in told


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nmore"),
        MemoryError("the pool is full"),
        RuntimeError("[enforce fail at alloc_cpu.cpp] can't allocate memory: you tried"),
    ],
)
def test_memory_that_runs_out(write_config, monkeypatch, capsys, error):
    """Of any kind it ends the run 1 with the numbers and the setting, in one line."""

    def fails(*_):
        raise error

    monkeypatch.setattr(Decoder, "loss_sum", fails)
    monkeypatch.setattr(remedy, "this_machine", lambda size: machine(1 << 30))
    assert main([str(write_config("out"))]) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(f"step 0: memory ran out ({str(error).splitlines()[0]}); the largest")
    assert 'training.activations = "planned" and training.plan = {' in told


def test_other_errors_are_not_taken_for_memory(write_config, monkeypatch):
    """An error of another kind is not explained away."""

    def fails(*_):
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(Decoder, "loss_sum", fails)
    with pytest.raises(RuntimeError, match="shapes differ"):
        main([str(write_config("other"))])

"""Plans against all there are, budgets that grow, rows that grow, and what a pass stores."""

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from packing.reader import PackedReader
from trainer.cli import main
from trainer.geometry import PRESETS
from trainer.layout import Element, pass_bytes
from trainer.machine import PROFILES, save_profile, utilization
from trainer.plan import LayerPlan
from trainer.planner import (
    ALPHAS,
    PREFIXES,
    STRIDES,
    Work,
    candidates,
    choose,
    longest_row,
    predict,
    state_bytes,
)

BF16 = Element(2, 4)
SMALL = Work(
    shape=replace(PRESETS["1b"], layers=4, vocab=32000),
    tied=True,
    element=BF16,
    boundaries=(0, 20_000, 65_536),
)
MACHINE = replace(PROFILES["h100"], device_bytes=14_000_000_000, host_bytes=1_000_000_000)


def every_plan():
    """Return all plans of the grid, written out."""
    for stride, resident, groups, prefix, alpha in itertools.product(
        STRIDES[:3], (0, 1, 2, 4), (1, 8), PREFIXES, ALPHAS
    ):
        yield LayerPlan(
            tile=8192,
            recompute_prefix=prefix,
            alpha=alpha,
            input_stride=stride,
            resident_layers=resident,
            head_groups=groups,
        )


def test_the_chosen_plan_is_the_fastest_that_fits():
    """No plan of the grid that fits is faster, and the budgets leave some plans out."""
    assert set(candidates(SMALL.shape, 8192)) == set(every_plan())
    fit = [p for p in (predict(SMALL, plan, MACHINE) for plan in every_plan()) if p.fits(MACHINE)]
    plan, found = choose(SMALL, MACHINE)
    assert 0 < len(fit) < len(list(every_plan()))
    assert found == predict(SMALL, plan, MACHINE)
    assert found.seconds == min(p.seconds for p in fit)


def test_more_memory_is_never_slower():
    """Seconds never rise, and a fit is never lost, as either budget grows."""
    budgets = [0.6, 0.8, 1.0, 1.4, 3.0]
    table = []
    for device in budgets:
        line = []
        for host in (0.0, 0.3, 1.0, 4.0):
            machine = replace(
                MACHINE,
                device_bytes=int(MACHINE.device_bytes * device),
                host_bytes=int(MACHINE.host_bytes * host),
            )
            found = choose(SMALL, machine)
            line.append(float("inf") if found is None else found[1].seconds)
        assert line == sorted(line, reverse=True)
        table.append(line)
    for column in zip(*table, strict=True):
        assert list(column) == sorted(column, reverse=True)
    assert table[0][0] == float("inf")
    assert table[-1][-1] < table[2][2] < float("inf")


def test_stored_bytes_are_those_of_the_pass():
    """Host and stored bytes are what a pass counts; states are four wide numbers a weight."""
    for plan in itertools.islice(every_plan(), 0, None, 37):
        found, stored = (
            predict(SMALL, plan, MACHINE),
            pass_bytes(SMALL.shape, SMALL.boundaries, plan, BF16),
        )
        assert (found.host, found.stored) == (stored.host, stored.device)
    hidden, vocab = 2048, 32000
    layer = 2 * hidden * hidden + 2 * hidden * 1024 + 3 * hidden * 8192 + 2 * hidden
    assert state_bytes(SMALL) == 16 * (4 * layer + hidden + vocab * hidden)


def test_less_stored_is_more_made_again():
    """Each part that is left out costs time by itself; a first half costs a quarter."""
    row = replace(SMALL, boundaries=(0, 65_536))
    everything = LayerPlan(
        tile=8192, recompute_prefix=0.0, alpha=1.0, input_stride=1, resident_layers=4, head_groups=1
    )
    assert predict(row, everything, MACHINE).again == 0
    half, whole = (
        predict(row, replace(everything, recompute_prefix=share), MACHINE).again
        for share in (0.5, 1.0)
    )
    assert half == pytest.approx(whole / 4)
    attention = row.flops().attention / MACHINE.attention_forward
    assert whole == pytest.approx(attention)
    assert predict(row, replace(everything, alpha=0.0), MACHINE).again > 0
    assert predict(row, replace(everything, input_stride=2), MACHINE).again > 0


def test_copies_that_do_not_hide_are_seen():
    """On a slow link the seconds are those of the copies in excess of the computation."""
    plan = LayerPlan(
        tile=8192, recompute_prefix=0.0, alpha=1.0, input_stride=1, resident_layers=0, head_groups=1
    )
    fast = predict(SMALL, plan, replace(MACHINE, offload=1e15, fetch=1e15))
    slow = predict(SMALL, plan, replace(MACHINE, offload=1e7, fetch=1e7))
    assert fast.exposed == 0
    work = fast.seconds - 3 * SMALL.flops().head / MACHINE.gemm
    assert slow.exposed == pytest.approx(2 * slow.host / 1e7 - work)
    assert slow.seconds == pytest.approx(fast.seconds + slow.exposed)


def test_the_longest_row_fits_and_the_next_does_not():
    """A row of the length has a plan; one unit longer has none."""
    longest = longest_row(SMALL, MACHINE)
    assert longest > 0
    assert choose(replace(SMALL, boundaries=(0, longest)), MACHINE) is not None
    assert choose(replace(SMALL, boundaries=(0, longest + 1024)), MACHINE) is None
    assert longest_row(SMALL, replace(MACHINE, device_bytes=1_000_000)) == 0
    assert longest_row(SMALL, replace(MACHINE, host_bytes=2 * MACHINE.host_bytes)) >= longest


def as_forecast(path, capsys, *options):
    """Run ``--plan --json`` and return exit code and object."""
    status = main([str(path), "--plan", "--json", *options])
    return status, json.loads(capsys.readouterr().out)


def test_plan_of_a_dataset(write_config, dataset, capsys):
    """The largest micro-batch is found, its plan is the planner's, and steps are all there."""
    status, found = as_forecast(write_config(), capsys)
    with PackedReader(str(dataset)) as reader:
        sizes = [
            sum(len(batch.input_ids) for batch in reader.micro_batches(step, rank, 2))
            for step in range(reader.n_steps)
            for rank in range(2)
        ]
        largest = max(
            len(batch.input_ids)
            for step in range(reader.n_steps)
            for rank in range(2)
            for batch in reader.micro_batches(step, rank, 2)
        )
    assert status == 0
    assert found["largest_micro_batch"]["tokens"] == largest
    assert found["step_tokens"] == pytest.approx(sum(sizes) / 4)
    assert found["ranks"] == 2
    predicted = found["predicted"]
    assert predicted["device"] == predicted["states"] + predicted["stored"] + predicted["working"]
    assert 0 < found["mfu"] < 1


def test_plan_of_the_configuration(write_config, capsys):
    """A configured plan is the one that is predicted."""
    table = 'activations = "planned"\n[training.plan]\ntile = 16\nalpha = 0.5\nresident_layers = 1'
    status, found = as_forecast(write_config(training=table), capsys)
    assert (status, found["is_configured"]) == (0, True)
    assert found["plan"] == {
        "tile": 16,
        "recompute_prefix": 0.0,
        "alpha": 0.5,
        "input_stride": 1,
        "resident_layers": 1,
        "head_groups": 1,
    }


def test_what_does_not_fit_is_told(write_config, tmp_path, capsys):
    """Too little memory ends 1 and says what to do; an unknown machine ends 2."""
    profile = tmp_path / "small.json"
    save_profile(replace(MACHINE, device_bytes=1000), profile)
    status, found = as_forecast(write_config(), capsys, "--machine", str(profile))
    assert (status, found["fits"], found["longest_row"]) == (1, False, 0)
    assert main([str(write_config()), "--plan", "--machine", str(profile)]) == 1
    assert "does not fit" in capsys.readouterr().out
    assert main([str(write_config()), "--plan", "--machine", "h300"]) == 2
    assert "h300" in capsys.readouterr().err


def test_planning_needs_no_torch(write_config):
    """A forecast as text is made where torch cannot be imported."""
    program = (
        "import sys; sys.modules['torch'] = None; from trainer.cli import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(write_config()), "--plan"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "[training.plan]" in done.stdout
    assert "MFU" in done.stdout


@pytest.mark.parametrize(
    ("preset", "tokens", "seconds", "mfu"),
    [("1b", 131_072, 9.3, 0.474), ("1b", 524_288, 132, 0.446), ("3b", 524_288, 346, 0.44)],
)
def test_plans_are_as_fast_as_the_design_says(preset, tokens, seconds, mfu):
    """On an H200 the fastest plans take the seconds of the design's own model within 3 %."""
    shape = replace(PRESETS[preset], vocab=128_256)
    work = Work(shape, True, BF16, (0, tokens))
    _, found = choose(work, PROFILES["h200"])
    flops = work.flops()
    flop = 3 * (flops.linear + flops.attention + flops.head)
    assert found.seconds == pytest.approx(seconds, rel=0.03)
    assert utilization(flop, found.seconds, PROFILES["h200"]) == pytest.approx(mfu, rel=0.03)

"""Sharded weights (FSDP2) on two processes against one process, and checkpoints across all of them."""

import json

import pytest

torch = pytest.importorskip("torch")

from forked_ranks import run_ranks  # noqa: E402

from trainer.checkpoint import load_weights  # noqa: E402
from trainer.cli import main  # noqa: E402
from trainer.config import ConfigError, load_config  # noqa: E402

FSDP = 'parallel = "fsdp"\n'
KINDS = {
    "keep": "",
    "recompute": 'activations = "recompute"\n',
    "planned": 'activations = "planned"\nplan = { tile = 16, alpha = 0.5 }\n',
    "stride": 'activations = "planned"\nplan = { tile = 16, alpha = 0.5, input_stride = 2 }\n',
}


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def both(path):
    return run_ranks(lambda rank: main([str(path)]))


@pytest.mark.parametrize("kind", KINDS)
def test_two_sharded_processes_equal_one(write_config, tmp_path, kind):
    """Losses, norms and weights are those of one process, the short step and clipping included."""
    settings = {"head": 'dtype = "float64"', "steps": 6}
    assert main([str(write_config("one", training=KINDS[kind], **settings))]) == 0
    assert both(write_config("two", training=KINDS[kind] + FSDP, **settings)) == [0, 0]
    one, two = tmp_path / "one", tmp_path / "two"

    for a, b in zip(read(one / "metrics.jsonl"), read(two / "metrics.jsonl"), strict=True):
        assert (a["step"], a["tokens"], a["rows"]) == (b["step"], b["tokens"], b["rows"])
        assert a["loss"] == pytest.approx(b["loss"], rel=1e-12)
        assert a["grad_norm"] == pytest.approx(b["grad_norm"], rel=1e-10)
        assert a["grad_norm"] > 1  # it was clipped
    a, b = (load_weights(out / "checkpoint-6") for out in (one, two))
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-9, atol=1e-12)
    assert read(one / "receipts.jsonl") == read(two / "receipts.jsonl")


def test_a_rank_without_rows_takes_part(one_slot, write_config, tmp_path):
    """Where a short step has no row for a rank, it helps the other, and the result is the same."""
    settings = {"head": 'dtype = "float64"', "steps": 7, "data": one_slot}
    assert main([str(write_config("one", **settings))]) == 0
    assert both(write_config("two", training=FSDP, **settings)) == [0, 0]
    a, b = (load_weights(tmp_path / name / "checkpoint-7") for name in ("one", "two"))
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-9, atol=1e-12)


def test_goes_on_however_it_is_dealt(write_config, tmp_path):
    """One process, two whole ones and two sharded ones go on from one another's checkpoints."""
    constant = '[lr_scheduler]\ndecay = "constant"\n'

    def run(name, steps, how):
        training = FSDP if how == "fsdp" else ""
        path = write_config(name, steps=steps, training=training, head='dtype = "float64"')
        text = path.read_text()
        path.write_text(text.replace("[lr_scheduler]\nwarmup_steps = 3\n", constant))
        assert ([main([str(path)])] if how == "one" else both(path)) in ([0], [0, 0])

    run("whole", 8, "one")
    for steps, how in ((2, "fsdp"), (4, "one"), (6, "fsdp"), (8, "ddp")):
        run("parts", steps, how)
    a, b = (load_weights(tmp_path / name / "checkpoint-8") for name in ("whole", "parts"))
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-9, atol=1e-12)


def test_resume_is_bitwise(write_config, tmp_path):
    """Two sharded processes, stopped and gone on, come to the same bits; each saves its part."""
    constant = '[lr_scheduler]\ndecay = "constant"\n'
    for name, steps in (("whole", (7,)), ("cut", (3, 7))):
        for n in steps:
            path = write_config(name, steps=n, training=FSDP)
            text = path.read_text()
            path.write_text(text.replace("[lr_scheduler]\nwarmup_steps = 3\n", constant))
            assert both(path) == [0, 0]
    whole, cut = (tmp_path / name / "checkpoint-7" for name in ("whole", "cut"))
    a, b = load_weights(whole), load_weights(cut)
    assert all(torch.equal(a[name], b[name]) for name in a)
    sizes = [(whole / f"optimizer-{rank}-of-2.pt").stat().st_size for rank in range(2)]
    assert max(sizes) < 1.2 * min(sizes)
    assert read(tmp_path / "cut" / "receipts.jsonl")[-1]["step"] == 6


def test_what_sharding_cannot_have(write_config):
    """Updates by layers and split masters are refused beside it."""
    path = write_config("both", training=FSDP + 'update = "layer"\nclip = 0\n')
    text = path.read_text().replace("[optimizer]", '[optimizer]\nstates = "split-bf16"')
    path.write_text(text.replace('dtype = "float32"', 'dtype = "bfloat16"'))
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    told = str(caught.value)
    assert 'training.update: "layer" is for training.parallel = "ddp"' in told
    assert 'optimizer.states: "split-bf16" is for training.parallel = "ddp"' in told

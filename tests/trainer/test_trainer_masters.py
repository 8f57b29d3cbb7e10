"""Split masters against float32 ones, and updates inside the backward pass against whole steps."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from forked_ranks import run_ranks  # noqa: E402

from trainer import layerwise  # noqa: E402
from trainer.checkpoint import load_weights  # noqa: E402
from trainer.cli import main  # noqa: E402
from trainer.config import ConfigError, OptimizerSettings, load_config  # noqa: E402
from trainer.masters import join, split  # noqa: E402
from trainer.model import Decoder  # noqa: E402
from trainer.ops import Projection  # noqa: E402
from trainer.optim import build_optimizer  # noqa: E402

PLANNED = 'activations = "planned"\nplan = { tile = 16, alpha = 0.6, input_stride = 2 }\n'


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_kind_of_bits_comes_back():
    """Any 32 bits are joined to what they were: all upper halves, the corners of the lower ones."""
    upper = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32) << 16
    corners = torch.tensor([0, 1, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xFFFE, 0xFFFF])
    generator = torch.Generator().manual_seed(0)
    some = torch.randint(0, 1 << 16, (24,), generator=generator)
    bits = upper[:, None] | torch.cat((corners, some)).to(torch.int32)
    master = bits.view(torch.float32)
    weight, low = split(master)

    assert (weight.dtype, low.dtype) == (torch.bfloat16, torch.int16)
    assert torch.equal(join(weight, low).view(torch.int32), bits)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_weight_is_the_master_rounded(value):
    """The weight is the nearest bfloat16; torch's own rounding differs in exact ties alone."""
    master = torch.tensor([value], dtype=torch.float32)
    weight, low = split(master)
    theirs = master.to(torch.bfloat16)

    assert torch.equal(join(weight, low), master)
    if low.item() != -0x8000:
        assert torch.equal(weight, theirs)
    elif theirs.isfinite().all() and weight.isfinite().all():
        assert (weight.double() - master.double()).abs() == (
            theirs.double() - master.double()
        ).abs()


def test_updates_are_those_of_float32():
    """Thirty updates of split weights are, joined, those of torch's AdamW to the last bit."""
    settings = OptimizerSettings(lr=0.01, weight_decay=0.2, betas=(0.8, 0.9), states="split-bf16")
    layers = torch.nn.Sequential(Projection(33, 17), torch.nn.LayerNorm(17, bias=False))
    torch.nn.init.normal_(layers[0].weight)
    reference = [torch.nn.Parameter(w.detach().clone()) for w in layers.parameters()]
    ours = build_optimizer(layers, settings, layers)
    theirs = torch.optim.AdamW(
        [{"params": reference[:1], "weight_decay": 0.2}, {"params": reference[1:]}],
        lr=0.01,
        betas=(0.8, 0.9),
        weight_decay=0.0,
        foreach=False,
    )
    assert layers[0].weight.dtype == torch.bfloat16
    assert layers[1].weight.dtype == torch.float32
    generator = torch.Generator().manual_seed(1)
    for _ in range(30):
        for mine, other in zip(layers.parameters(), reference, strict=True):
            mine.grad = torch.randn(other.shape, generator=generator)
            other.grad = mine.grad.clone()
        ours.step()
        theirs.step()

    master = join(layers[0].weight.detach(), ours.state[layers[0].weight]["low"])
    assert torch.equal(master, reference[0])
    assert torch.equal(layers[1].weight, reference[1])


@pytest.mark.parametrize("training", ["", PLANNED], ids=["keep", "planned"])
def test_run_with_split_states(write_config, tmp_path, training, capsys):
    """A run with split states has the losses of float32 ones; its checkpoint holds their masters."""
    for name, states in (("wide", "fp32"), ("split", "split-bf16")):
        path = write_config(name, head='dtype = "bfloat16"', training=training, steps=8)
        path.write_text(path.read_text().replace("[optimizer]", f'[optimizer]\nstates="{states}"'))
        assert main([str(path)]) == 0
    wide, halves = (read(tmp_path / name / "metrics.jsonl") for name in ("wide", "split"))

    for a, b in zip(wide, halves, strict=True):
        assert b["loss"] == pytest.approx(a["loss"], rel=1e-3)
    weights = load_weights(tmp_path / "split" / "checkpoint-8")
    low = torch.load(tmp_path / "split" / "checkpoint-8" / "optimizer.pt")
    expected = load_weights(tmp_path / "wide" / "checkpoint-8")
    name = "layers.1.mlp.down_proj.weight"
    assert weights[name].dtype == torch.bfloat16
    assert weights["embed_tokens.weight"].dtype == torch.float32
    master = join(weights[name], low[f"{name}/low"])
    torch.testing.assert_close(master, expected[name], rtol=1e-2, atol=1e-4)
    assert not torch.equal(master, weights[name].float())

    path.write_text(path.read_text().replace("split-bf16", "fp32"))
    assert main([str(path)]) == 2
    assert "optimizer.states is split-bf16 there and fp32 here" in capsys.readouterr().err


def test_split_run_resumes_to_the_same_bits(write_config, tmp_path):
    """Stopped and gone on, weights and the bits beside them are the same."""
    for name, steps in (("whole", (9,)), ("cut", (4, 9))):
        for n in steps:
            path = write_config(name, head='dtype = "bfloat16"', steps=n)
            text = path.read_text() + '[lr_scheduler]\ndecay = "constant"\n'
            text = text.replace("[lr_scheduler]\nwarmup_steps = 3\n", "")
            path.write_text(text.replace("[optimizer]", '[optimizer]\nstates="split-bf16"'))
            assert main([str(path)]) == 0
    for file in ("model.pt", "optimizer.pt"):
        a, b = (torch.load(tmp_path / n / "checkpoint-9" / file) for n in ("whole", "cut"))
        assert a.keys() == b.keys()
        assert all(torch.equal(a[k], b[k]) for k in a)


LAYER = 'update = "layer"\nclip = 0\n'


@pytest.mark.parametrize("tied", ["true", "false"])
@pytest.mark.parametrize("kind", ["", 'activations = "recompute"\n', PLANNED])
def test_layer_updates_are_those_of_a_step(one_slot, write_config, tmp_path, kind, tied):
    """Updating inside the backward pass gives the bits of updating behind it, and the same norms."""
    for name, text in (("step", "clip = 0\n"), ("layer", LAYER)):
        path = write_config(name, data=one_slot, training=text + kind, steps=8)
        path.write_text(path.read_text().replace("ffn = 48", f"ffn = 48\ntied = {tied}"))
        assert main([str(path)]) == 0
    a, b = (load_weights(tmp_path / name / "checkpoint-8") for name in ("step", "layer"))

    assert all(torch.equal(a[k], b[k]) for k in a)
    for one, two in zip(
        *(read(tmp_path / n / "metrics.jsonl") for n in ("step", "layer")), strict=True
    ):
        assert one["loss"] == two["loss"]
        assert one["grad_norm"] == pytest.approx(two["grad_norm"], rel=1e-5)


def test_layer_updates_on_two_ranks(one_slot, write_config, tmp_path):
    """Two ranks, one of which has no row in the last step, train what one would."""
    settings = {"data": one_slot, "training": LAYER, "steps": 7, "head": 'dtype = "float64"'}
    assert main([str(write_config("one", **settings))]) == 0
    path = write_config("two", **settings)
    assert run_ranks(lambda rank: main([str(path)])) == [0, 0]
    a, b = (load_weights(tmp_path / name / "checkpoint-7") for name in ("one", "two"))
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-9, atol=1e-12)


def test_no_gradient_lives_with_another_layers(one_slot, write_config, monkeypatch):
    """At every update the only gradients there are those of one layer."""
    update = layerwise.LayerUpdates._update
    seen = []

    def counting(self, number):
        model_weights = [w for group in self._groups for w in group]
        mine = {id(w) for w in self._groups[number]}
        seen.append({id(w) for w in model_weights if w.grad is not None} == mine)
        update(self, number)

    monkeypatch.setattr(layerwise.LayerUpdates, "_update", counting)
    assert main([str(write_config("lone", data=one_slot, training=LAYER + PLANNED, steps=2))]) == 0
    assert seen == [True] * 8


def test_loss_that_is_not_finite_changes_nothing(one_slot, write_config, tmp_path, monkeypatch):
    """With layer updates too, such a step is left out before anything is changed."""
    clean = Decoder.loss_sum
    calls = []

    def poisoned(self, *batch):
        calls.append(None)
        return clean(self, *batch) * (math.nan if len(calls) == 3 else 1)

    monkeypatch.setattr(Decoder, "loss_sum", poisoned)
    path = write_config("nan", data=one_slot, training=LAYER, steps=3, interval=1)
    assert main([str(path)]) == 0
    a, b = (load_weights(tmp_path / "nan" / f"checkpoint-{n}") for n in (2, 3))
    assert all(torch.equal(a[k], b[k]) for k in a)


def test_gradient_that_is_not_finite_ends_the_run(one_slot, write_config, tmp_path, capsys):
    """A gradient that breaks below updated layers ends the run 1; checkpoints stay clean."""
    path = write_config("broken", data=one_slot, training=LAYER, steps=6, interval=2)
    clean = layerwise.step_by_layers
    calls = []

    def poisoned(model, *rest):
        calls.append(None)
        if len(calls) == 4:
            model.layers[0].mlp.down_proj.weight.register_hook(lambda g: g * math.nan)
        return clean(model, *rest)

    from trainer import loop

    original, loop.step_by_layers = loop.step_by_layers, poisoned
    try:
        assert main([str(path)]) == 1
    finally:
        loop.step_by_layers = original
    assert "checkpoint-2 with a lower optimizer.lr" in capsys.readouterr().err
    weights = load_weights(tmp_path / "broken" / "checkpoint-2")
    assert all(w.isfinite().all() for w in weights.values())


def test_refused_with_what_it_cannot_have(write_config, capsys):
    """Clipping, watching for spikes, many micro-batches and split states elsewhere are refused."""
    path = write_config("all", training='update = "layer"\n')
    path.write_text(path.read_text() + "[anomalies]\n")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert "set training.clip = 0" in str(caught.value)
    assert "remove [anomalies]" in str(caught.value)

    assert main([str(write_config("slots", training=LAYER))]) == 2
    assert "replan --global-batch 4" in capsys.readouterr().err
    path = write_config("split")
    path.write_text(path.read_text().replace("[optimizer]", '[optimizer]\nstates="split-bf16"'))
    with pytest.raises(ConfigError, match='"split-bf16" is for dtype = "bfloat16"'):
        load_config(path)

"""Bytes of a layer against layouts and traces; step times and MFU against published figures."""

import json
from dataclasses import asdict, replace
from itertools import pairwise

import pytest

from packing.cost import ModelShape, row_cost
from trainer.geometry import PRESETS, forward_flops, step_seconds, token_bytes, working_bytes
from trainer.layout import Element, layer_layout
from trainer.machine import PROFILES, MachineError, find_profile, save_profile, utilization
from trainer.plan import LayerPlan

LLAMA_8B = replace(PRESETS["8b"], vocab=128256)
QWEN_8B = ModelShape(
    layers=36, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=12288, vocab=151936
)
CUDNN = PROFILES["h100"]
FLASH_2 = replace(CUDNN, attention_forward=335e12, attention_backward=300e12)
ALL = LayerPlan(
    tile=8192, recompute_prefix=0.0, alpha=1.0, input_stride=1, resident_layers=2, head_groups=1
)


@pytest.mark.parametrize(
    ("shape", "tokens", "machine", "devices", "published"),
    [
        (LLAMA_8B, 500_000, FLASH_2, 1, 1010),  # ALST, arXiv 2506.13996, table 2
        (QWEN_8B, 1 << 20, FLASH_2, 8, 606),  # transformers 48163
        (QWEN_8B, 1 << 20, CUDNN, 8, 373),
    ],
)
def test_published_step_times(shape, tokens, machine, devices, published):
    """With everything made again, the model gives the seconds that others measured within 3 %."""
    flops = forward_flops(shape, tokens, float(tokens) ** 2)
    seconds = step_seconds(flops, machine, linear_again=1, attention_again=1) / devices
    assert seconds == pytest.approx(published, rel=0.03)


def test_published_utilization():
    """The MFU rule gives the 34.7 % published for Qwen3-8B at 1M tokens, within 3 %."""
    tokens = 1 << 20
    flop = float(row_cost(tokens, float(tokens) ** 2, QWEN_8B)) * 1e12
    assert utilization(flop, 373, CUDNN, 8) == pytest.approx(0.347, rel=0.03)
    assert utilization(flop, 606, CUDNN, 8) == pytest.approx(0.214, rel=0.03)


def test_published_rate_by_another_rule():
    """ALST's 548.1 TFLOP/s are these FLOP when attention is counted in full, and made again."""
    flops = forward_flops(LLAMA_8B, 500_000, 500_000.0**2)
    theirs = 4 * (flops.linear + flops.head) + 2 * 4 * flops.attention
    assert theirs / 1010 == pytest.approx(548.1e12, rel=0.03)


def test_bytes_of_a_token_are_those_of_the_layout():
    """What a layer stores of a row is its tokens times the bytes of one."""
    for shape in PRESETS.values():
        each = token_bytes(shape, Element(2, 4))
        layout = layer_layout(shape, [0, 8192], ALL, 0, Element(2, 4))
        assert layout.nbytes == 8192 * (each.x + each.o + each.others)
    each = token_bytes(PRESETS["1b"], Element(2, 4))
    assert (each.x, each.o, each.others) == (4096, 4160, 45056)


@pytest.mark.parametrize("preset", ["1b"])
@pytest.mark.parametrize(
    ("boundaries", "tile", "alpha", "groups"),
    [
        ([0, 9000, 32768], 8192, 0.0, 2),
        ([0, 32768], 1024, 1.0, 2),
        ([0, 9000, 32768], 512, 0.5, 1),
    ],
)
def test_working_bytes_are_those_of_the_trace(preset, boundaries, tile, alpha, groups):
    """The formula gives what a traced backward pass has at once, within 1 %."""
    torch = pytest.importorskip("torch")
    from trainer.arena import trace_layer

    plan = replace(ALL, tile=tile, alpha=alpha, head_groups=groups)
    _, backward = trace_layer(PRESETS[preset], boundaries, plan, torch.bfloat16)
    found = working_bytes(PRESETS[preset], boundaries, plan, Element(2, 4))
    assert found == pytest.approx(backward.max_live(), rel=0.01)


def test_flops_are_those_of_the_cost_model():
    """A forward pass is a third of what a row costs."""
    boundaries = [0, 10, 500, 777]
    squares = float(sum((b - a) ** 2 for a, b in pairwise(boundaries)))
    flops = forward_flops(LLAMA_8B, 777, squares)
    whole = float(row_cost(777, squares, LLAMA_8B)) * 1e12
    assert 3 * (flops.linear + flops.attention + flops.head) == pytest.approx(whole, rel=1e-12)


def test_profiles_come_from_files(tmp_path):
    """A saved profile is read as it was; others are refused by what is wrong."""
    path = tmp_path / "machine.json"
    save_profile(FLASH_2, path)
    assert find_profile(str(path)) == FLASH_2
    path.write_text(json.dumps({**asdict(FLASH_2), "gemm": 0}))
    with pytest.raises(MachineError, match=r"gemm = 0; give a number above 0"):
        find_profile(str(path))
    path.write_text("{")
    with pytest.raises(MachineError, match="cannot be read"):
        find_profile(str(path))
    path.write_text('{"gem": 1}')
    with pytest.raises(MachineError, match="unknown: gem"):
        find_profile(str(path))
    with pytest.raises(MachineError, match="h100, h200"):
        find_profile("h300")


def test_a_measured_profile_is_one(tmp_path):
    """What a device is measured to do makes a profile that is read back; here a CPU, tiny."""
    torch = pytest.importorskip("torch")
    from trainer.measure import measure

    found = measure(torch.device("cpu"), tokens=64, width=64)
    save_profile(found, tmp_path / "cpu.json")
    assert find_profile(str(tmp_path / "cpu.json")) == found
    assert found.gemm != CUDNN.gemm

"""AdamW with its groups against the published update, and the schedules' shapes."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from trainer.config import OptimizerSettings, SchedulerSettings  # noqa: E402
from trainer.ops import Projection, RMSNorm  # noqa: E402
from trainer.optim import build_optimizer, learning_rate  # noqa: E402

SETTINGS = OptimizerSettings(lr=0.02, weight_decay=0.3, betas=(0.8, 0.9))


def model():
    torch.manual_seed(0)
    layers = nn.Sequential(Projection(4, 3), RMSNorm(3)).double()
    nn.init.normal_(layers[0].weight)
    return layers


def test_against_the_formula():
    """Five updates are those of AdamW (Loshchilov & Hutter, algorithm 2), decay on matrices only."""
    layers = model()
    optimizer = build_optimizer(layers, SETTINGS)
    generator = torch.Generator().manual_seed(1)
    expected = [p.detach().clone() for p in layers.parameters()]
    m = [torch.zeros_like(p) for p in expected]
    v = [torch.zeros_like(p) for p in expected]
    (b1, b2), lr, decay = SETTINGS.betas, SETTINGS.lr, SETTINGS.weight_decay
    for t in range(1, 6):
        for i, p in enumerate(layers.parameters()):
            p.grad = torch.randn(p.shape, dtype=p.dtype, generator=generator)
            m[i] = b1 * m[i] + (1 - b1) * p.grad
            v[i] = b2 * v[i] + (1 - b2) * p.grad**2
            update = (m[i] / (1 - b1**t)) / ((v[i] / (1 - b2**t)).sqrt() + 1e-8)
            shrink = decay if p.dim() == 2 else 0
            expected[i] = expected[i] - lr * shrink * expected[i] - lr * update
        optimizer.step()

    for found, wanted in zip(layers.parameters(), expected, strict=True):
        torch.testing.assert_close(found.detach(), wanted, rtol=1e-12, atol=1e-12)


def test_against_torch():
    """Without decay the groups make no difference to torch's AdamW over all weights."""
    settings = OptimizerSettings(lr=0.02, weight_decay=0.0, betas=(0.8, 0.9))
    ours, theirs = model(), model()
    pairs = [
        (ours, build_optimizer(ours, settings)),
        (theirs, torch.optim.AdamW(theirs.parameters(), 0.02, (0.8, 0.9), weight_decay=0.0)),
    ]
    for layers, optimizer in pairs:
        for seed in range(5):
            x = torch.randn(
                7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
            )
            optimizer.zero_grad()
            layers(x).square().sum().backward()
            optimizer.step()

    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)


def rates(steps, **settings):
    scheduler = SchedulerSettings(**settings)
    return [learning_rate(step, steps, 1.0, scheduler) for step in range(steps)]


def test_warmup_rises_in_a_line():
    """The rate rises in equal parts to its peak, which the last step of the warm-up has."""
    assert rates(10, warmup_steps=4, decay="constant") == [0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1, 1]


def test_cosine_falls_to_the_final_rate():
    """After the warm-up the rate follows a half cosine; its end point would be the step after."""
    found = rates(99, warmup_steps=0, decay="cosine", min_lr=0.1)

    assert found[49] == pytest.approx(0.55)
    assert found == sorted(found, reverse=True)
    assert found[24] == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 4)) / 2)
    assert 0.1 < found[-1] < 0.101


def test_wsd_is_stable_then_falls():
    """Warm-up, stable, then a line to the final rate over the last fifth."""
    found = rates(100, warmup_steps=10, decay="wsd", min_lr=0.0)

    assert found[9:80] == [1.0] * 71
    falls = np.diff(found[80:])
    assert falls == pytest.approx([-1 / 21] * 19)
    assert found[-1] == pytest.approx(1 / 21)


@pytest.mark.parametrize("decay", ["cosine", "wsd", "constant"])
def test_warmup_as_long_as_the_run(decay):
    """A warm-up over all steps leaves nothing to decay, and the rate is never beyond its peak."""
    assert rates(4, warmup_steps=4, decay=decay) == [0.25, 0.5, 0.75, 1.0]

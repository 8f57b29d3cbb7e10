"""Experts against a loop over tokens."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from packing.cost import ModelShape  # noqa: E402
from trainer.experts import ExpertMLP, mixture, route  # noqa: E402
from trainer.geometry import weight_count  # noqa: E402
from trainer.model import Decoder  # noqa: E402

SHAPE = ModelShape(
    layers=3,
    hidden=12,
    heads=2,
    kv_heads=1,
    head_dim=6,
    ffn=20,
    vocab=31,
    experts=5,
    active_experts=2,
    shared_experts=2,
    expert_ffn=7,
    dense_layers=1,
)


def experts(seed=0):
    model = ExpertMLP(SHAPE).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(generator=generator)
    return model, torch.randn(23, SHAPE.hidden, dtype=torch.float64, generator=generator)


def test_output_and_gradients_against_a_loop():
    """Each token gets its two likeliest experts by their shares, and all shared ones."""
    model, x = experts()
    x.requires_grad_()
    w = model.weights()

    def one(row, gate, up, down):
        return down @ (functional.silu(gate @ row) * (up @ row))

    rows = []
    for row in x:
        shares = torch.softmax(w.router @ row, dim=0)
        likeliest = sorted(range(SHAPE.experts), key=lambda e: -shares[e].item())[:2]
        total = sum(shares[e] for e in likeliest)
        routed = sum(shares[e] / total * one(row, w.gate[e], w.up[e], w.down[e]) for e in likeliest)
        halves = [slice(0, 7), slice(7, 14)]
        shared = sum(
            one(row, w.shared_gate[h], w.shared_up[h], w.shared_down[:, h]) for h in halves
        )
        rows.append(routed + shared)
    expected, found = torch.stack(rows), model(x)
    upstream = torch.randn(
        found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )
    leaves = [x, *w]

    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(found, leaves, upstream),
        torch.autograd.grad(expected, leaves, upstream),
        rtol=1e-10,
        atol=1e-11,
    )


def test_a_choice_that_was_made_is_kept():
    """With other experts chosen before, these compute the token, and nothing is dropped."""
    model, x = experts()
    w = model.weights()
    everyone_takes = torch.tensor([3, 1]).expand(len(x), 2)

    found = mixture(x, w, everyone_takes)
    assert not torch.equal(route(x, w.router, 2), everyone_takes)
    shares = torch.softmax(x @ w.router.T, dim=-1)[:, [3, 1]]
    shares = shares / shares.sum(-1, keepdim=True)
    parts = [(functional.silu(x @ w.gate[e].T) * (x @ w.up[e].T)) @ w.down[e].T for e in (3, 1)]
    routed = parts[0] * shares[:, :1] + parts[1] * shares[:, 1:]
    shared = (functional.silu(x @ w.shared_gate.T) * (x @ w.shared_up.T)) @ w.shared_down.T
    torch.testing.assert_close(found, routed + shared, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("tied", [True, False])
def test_weight_count_with_experts(tied):
    """The number of weights told before a model exists counts all its experts."""
    found = sum(p.numel() for p in Decoder(SHAPE, tied=tied).parameters())

    assert found == weight_count(SHAPE, tied=tied)

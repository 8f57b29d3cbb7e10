"""The MLP of a model with experts: some compute every token, of the others each token takes a few.

Dropless: every token is computed by all the experts that it chose, however many chose the same
(MegaBlocks, arXiv 2211.15841, section 4). The shares of a token's experts are the softmax over all
experts, made to sum to 1 over those chosen.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from packing.cost import ModelShape
from trainer.ops import swiglu


class ExpertWeights(NamedTuple):
    """Weights of the experts of a layer."""

    router: Tensor
    """[experts, hidden]"""
    gate: Tensor
    """[experts, width, hidden], as ``up``"""
    up: Tensor
    down: Tensor
    """[experts, hidden, width]"""
    shared_gate: Tensor
    """[shared experts * width, hidden], as ``shared_up``"""
    shared_up: Tensor
    shared_down: Tensor
    """[hidden, shared experts * width]"""


class ExpertMLP(nn.Module):
    """Shared and routed experts, each a SwiGLU MLP."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.active = shape.active_experts
        width, shared = shape.expert_ffn, shape.expert_ffn * shape.shared_experts
        sizes = {
            "router": (shape.experts, shape.hidden),
            "gate": (shape.experts, width, shape.hidden),
            "up": (shape.experts, width, shape.hidden),
            "down": (shape.experts, shape.hidden, width),
            "shared_gate": (shared, shape.hidden),
            "shared_up": (shared, shape.hidden),
            "shared_down": (shape.hidden, shared),
        }
        for name, size in sizes.items():
            self.register_parameter(f"{name}_proj", nn.Parameter(torch.empty(size)))

    def weights(self) -> ExpertWeights:
        """Return the weights."""
        return ExpertWeights(*(getattr(self, f"{name}_proj") for name in ExpertWeights._fields))

    def forward(self, x: Tensor) -> Tensor:
        """Return [tokens, hidden] as ``x``."""
        raw = self.weights()
        weights = ExpertWeights(raw.router, *(w.to(x.dtype) for w in raw[1:]))
        return mixture(x, weights, route(x, raw.router, self.active))


def route(x: Tensor, router: Tensor, active: int) -> Tensor:
    """Return the experts that each token takes, [tokens, active], the likeliest first."""
    with torch.no_grad():
        return _scores(x, router).topk(active, dim=-1).indices


def mixture(x: Tensor, weights: ExpertWeights, chosen: Tensor) -> Tensor:
    """Return what shared and chosen experts make of each token.

    Args:
        x: [tokens, hidden].
        weights: the router in at least float32, the others in the dtype of ``x``.
        chosen: experts by token, [tokens, active].

    Returns:
        [tokens, hidden] as ``x``.
    """
    shares = torch.softmax(_scores(x, weights.router), dim=-1).gather(1, chosen)
    shares = shares / shares.sum(-1, keepdim=True)
    order = torch.argsort(chosen.flatten(), stable=True)
    counts = torch.bincount(chosen.flatten(), minlength=len(weights.gate)).tolist()
    parts = torch.split(x[order // chosen.shape[1]], counts)
    experts = zip(parts, weights.gate, weights.up, weights.down, strict=True)
    made = torch.cat([_expert(part, *matrices) for part, *matrices in experts])
    # Back in the order of the tokens, so that each sums its experts in a fixed order.
    back = made[torch.argsort(order)].view(*chosen.shape, -1)
    routed = (back.to(shares.dtype) * shares[..., None]).sum(1).to(x.dtype)
    return routed + _expert(x, weights.shared_gate, weights.shared_up, weights.shared_down)


def _scores(x: Tensor, router: Tensor) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    return functional.linear(x.to(wide), router.to(wide))


def _expert(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    inner = swiglu(functional.linear(x, gate), functional.linear(x, up))
    return functional.linear(inner, down)

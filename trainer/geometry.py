"""The shape of a decoder: presets by name, its weights, and what a token costs in bytes and time.

Nothing here imports torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from packing.cost import ModelShape, row_cost
from trainer.layout import Element
from trainer.machine import MachineProfile
from trainer.plan import LayerPlan

PRESETS: dict[str, ModelShape] = {
    "tiny": ModelShape(layers=2, hidden=128, heads=4, kv_heads=2, head_dim=32, ffn=352),
    "20m": ModelShape(layers=6, hidden=384, heads=6, kv_heads=2, head_dim=64, ffn=1024),
    "125m": ModelShape(layers=12, hidden=768, heads=12, kv_heads=4, head_dim=64, ffn=2048),
    "1b": ModelShape(layers=16, hidden=2048, heads=16, kv_heads=8, head_dim=128, ffn=8192),
    "3b": ModelShape(layers=28, hidden=3072, heads=24, kv_heads=8, head_dim=128, ffn=8192),
    "8b": ModelShape(layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14336),
}
"""Shapes without a vocabulary, which comes from the dataset; ``1b`` to ``8b`` are Llama 3's."""

TIED_PRESETS = frozenset({"tiny", "20m", "125m", "1b", "3b"})
"""Presets whose output head is the embedding."""


def weight_count(shape: ModelShape, *, tied: bool) -> int:
    """Return the number of weights: projections, all experts, norms, embedding and head."""
    norms = (2 * shape.layers + 1) * shape.hidden
    embedding = 0 if tied else shape.vocab * shape.hidden
    sparse = shape.layers - shape.dense_layers if shape.experts else 0
    resting = sparse * (shape.experts - shape.active_experts) * 3 * shape.hidden * shape.expert_ffn
    return shape.parameters + resting + norms + embedding


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """Bytes that a planned layer without experts stores of a token."""

    x: int
    """The layer's input."""
    o: int
    """Attention output, with the log of the denominators."""
    others: int
    """Queries, keys, values, the stream behind attention, gate and up."""


def token_bytes(shape: ModelShape, element: Element) -> TokenBytes:
    """Return what a layer may store of a token; :func:`trainer.layout.layer_layout` names it."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return TokenBytes(
        x=shape.hidden * element.narrow,
        o=queries * element.narrow + shape.heads * element.wide,
        others=(queries + 2 * keys + shape.hidden + 2 * shape.ffn) * element.narrow,
    )


def working_bytes(
    shape: ModelShape, boundaries: Sequence[int], plan: LayerPlan, element: Element
) -> int:
    """Return the most that a layer's backward pass has at once beside what it stores.

    As :func:`trainer.arena.trace_layer` shows: the MLP of the first tile that is made again, or
    attention of the longest document. Scratch memory inside kernels is not in it.
    """
    narrow, wide, tokens = element.narrow, element.wide, boundaries[-1]
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    matrices = shape.hidden * (2 * queries + 2 * keys + 3 * shape.ffn)
    weights = (matrices + 2 * shape.hidden) * wide + (matrices * narrow if wide != narrow else 0)
    row = tokens * (
        (3 * queries + 2 * keys + shape.hidden) * narrow + shape.heads * wide
    ) + tokens * shape.hidden * narrow * (plan.input_stride - 1)
    tile = min(plan.tile, tokens)
    made = 0 if plan.alpha >= 1 else shape.hidden + 2 * shape.ffn
    inside = tile * narrow * (made + shape.hidden + shape.ffn)
    inside += tile * wide * shape.ffn * (7 if wide != narrow else 5)
    lengths = [end - start for start, end in pairwise(boundaries)]
    # The gradients of one call are there until those of the next have come.
    two = 2 * max(lengths) if plan.head_groups > 1 else max(map(sum, pairwise([0, *lengths])))
    group = two * (queries + 2 * keys) * narrow + max(lengths) * shape.heads * wide
    group //= plan.head_groups
    attention = tokens * (queries + 2 * keys) * narrow + group
    return weights + row + max(inside, attention)


@dataclass(frozen=True, slots=True)
class Flops:
    """FLOP of a forward pass over tokens; causal attention counts pairs once."""

    linear: float
    """Projections of all layers."""
    attention: float
    """Attention of all layers."""
    head: float
    """The output head."""


def forward_flops(shape: ModelShape, tokens: float, squares: float) -> Flops:
    """Return the FLOP of a forward pass; three times their sum is :func:`packing.cost.row_cost`.

    Args:
        shape: the model.
        tokens: of the rows.
        squares: sum over documents of :func:`packing.cost.attention_squares`.
    """
    layers = replace(shape, vocab=0)
    head = 2.0 * tokens * shape.hidden * shape.vocab
    linear = float(row_cost(tokens, 0.0, layers)) * 1e12 / 3
    attention = float(row_cost(0.0, squares, layers)) * 1e12 / 3
    return Flops(linear, attention, head)


def step_seconds(
    flops: Flops,
    machine: MachineProfile,
    *,
    linear_again: float = 0.0,
    attention_again: float = 0.0,
) -> float:
    """Return the seconds of a forward and backward pass whose copies all hide.

    A backward pass is twice the products of the forward pass and 2.5 times its attention.

    Args:
        flops: of the forward pass.
        machine: what it runs on.
        linear_again: share of the layers' products that the backward pass makes again.
        attention_again: share of the attention that it makes again.
    """
    products = flops.linear * (3 + linear_again) + 3 * flops.head
    return (
        products / machine.gemm
        + flops.attention * (1 + attention_again) / machine.attention_forward
        + 2.5 * flops.attention / machine.attention_backward
    )

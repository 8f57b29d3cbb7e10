"""The shape of a decoder: presets by name, and how many weights a shape has."""

from packing.cost import ModelShape

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

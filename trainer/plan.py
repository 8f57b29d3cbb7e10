"""What a layer stores of its forward pass, and what the backward pass makes again.

Nothing here imports torch.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPlan:
    """What every layer stores, and where. No value but ``tile`` changes a bit of a gradient."""

    tile: int
    """Tokens that a layer works on at a time."""
    recompute_prefix: float
    """Share of each document, from its start, whose attention output is made again, 0 to 1."""
    alpha: float
    """Share of a row's tokens whose other tensors are stored, 0 to 1."""
    input_stride: int
    """Layer inputs are stored every ``input_stride``-th layer; those between are made again."""
    resident_layers: int
    """Last layers whose stored tensors stay on the device."""
    head_groups: int
    """Groups of key heads that the backward pass of attention takes one after another."""

"""What a planned pass stores, to the byte: names, shapes and places of a layer's tensors.

The trainer lays its buffers out by this and the planner predicts with it, so that both agree.
Nothing here imports torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from packing.cost import ModelShape
from trainer.plan import LayerPlan

ALIGNMENT = 512
"""Bytes to a multiple of which every tensor begins: what copies and matrix products like."""

CUT_TOKENS = 512
"""Prefixes are cut at multiples of this: there the CPU kernel gives the bits of the whole."""


Kind = Literal["narrow", "wide", "index"]
"""What a stored number is: see :class:`Element`."""


@dataclass(frozen=True, slots=True)
class Element:
    """Bytes of a number: of those computed with, of sums that are kept wide, of an expert's."""

    narrow: int
    wide: int
    index: int = 2

    def nbytes(self, kind: Kind) -> int:
        """Return the bytes of a number of one kind."""
        return {"narrow": self.narrow, "wide": self.wide, "index": self.index}[kind]


def has_experts(shape: ModelShape, layer: int) -> bool:
    """Say whether a layer has experts instead of one MLP."""
    return shape.experts > 0 and layer >= shape.dense_layers


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """One tensor of a layer in the layer's buffer."""

    name: str
    shape: tuple[int, ...]
    kind: Kind
    offset: int
    """Bytes before it."""
    nbytes: int


@dataclass(frozen=True, slots=True)
class LayerLayout:
    """The tensors that a layer stores, one behind another."""

    tensors: tuple[StoredTensor, ...]
    nbytes: int
    """Bytes of the buffer, a multiple of ``ALIGNMENT``."""


@dataclass(frozen=True, slots=True)
class PassBytes:
    """What a forward and backward pass takes at most for what it stores."""

    host: int
    """Slots of the host pool: the layers whose tensors leave the device."""
    device: int
    """Buffers between device and host, and the layers that stay on the device."""


def prefix_cuts(boundaries: Sequence[int], share: float) -> list[int]:
    """Return for each document how many tokens, from its start, have their attention made again.

    Args:
        boundaries: where documents begin, and the end.
        share: share of each document, 0 to 1; 1 is all of it, less is cut down to a multiple of
            ``CUT_TOKENS``.
    """
    lengths = (end - start for start, end in pairwise(boundaries))
    if share >= 1:
        return list(lengths)
    return [int(n * share) // CUT_TOKENS * CUT_TOKENS for n in lengths]


def stored_tokens(tokens: int, plan: LayerPlan) -> int:
    """Return the tokens, from the start of the row, whose other tensors are stored: whole tiles."""
    return tokens if plan.alpha >= 1 else int(tokens * plan.alpha) // plan.tile * plan.tile


def layer_layout(
    shape: ModelShape, boundaries: Sequence[int], plan: LayerPlan, layer: int, element: Element
) -> LayerLayout:
    """Return what a layer stores of a row.

    Args:
        shape: the model.
        boundaries: where the row's documents begin, and the end.
        plan: what is stored.
        layer: the layer's number.
        element: bytes of a number.
    """
    tokens = boundaries[-1]
    outputs = tokens - sum(prefix_cuts(boundaries, plan.recompute_prefix))
    others = stored_tokens(tokens, plan)
    sizes: list[tuple[str, tuple[int, ...], Kind]] = [
        ("o", (outputs, shape.heads, shape.head_dim), "narrow"),
        ("lse", (outputs, shape.heads), "wide"),
        ("q", (others, shape.heads, shape.head_dim), "narrow"),
        ("k", (others, shape.kv_heads, shape.head_dim), "narrow"),
        ("v", (others, shape.kv_heads, shape.head_dim), "narrow"),
        ("y", (others, shape.hidden), "narrow"),
    ]
    if has_experts(shape, layer):
        # For all tokens: a recomputed choice could differ by a tie.
        sizes.append(("chosen", (tokens, shape.active_experts), "index"))
    else:
        sizes += [(name, (others, shape.ffn), "narrow") for name in ("gate", "up")]
    if layer % plan.input_stride == 0:
        sizes.insert(0, ("x", (tokens, shape.hidden), "narrow"))
    tensors, offset = [], 0
    for name, size, kind in sizes:
        nbytes = element.nbytes(kind)
        for extent in size:
            nbytes *= extent
        tensors.append(StoredTensor(name, size, kind, offset, nbytes))
        offset += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return LayerLayout(tuple(tensors), offset)


def buffer_count(shape: ModelShape, plan: LayerPlan) -> int:
    """Return the buffers through which tensors travel: two for each layer of a stride."""
    return min(2 * plan.input_stride, swapped_layers(shape, plan))


def swapped_layers(shape: ModelShape, plan: LayerPlan) -> int:
    """Return how many layers, from the first, have their tensors on the host."""
    return max(shape.layers - plan.resident_layers, 0)


def pass_bytes(
    shape: ModelShape, boundaries: Sequence[int], plan: LayerPlan, element: Element
) -> PassBytes:
    """Return what a pass over a row takes for what it stores; the counters show the same."""
    sizes = [
        layer_layout(shape, boundaries, plan, layer, element).nbytes
        for layer in range(shape.layers)
    ]
    swapped = swapped_layers(shape, plan)
    travel = buffer_count(shape, plan) * max(sizes[:swapped], default=0)
    return PassBytes(host=sum(sizes[:swapped]), device=travel + sum(sizes[swapped:]))

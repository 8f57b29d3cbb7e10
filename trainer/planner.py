"""What planned layers shall store on a machine, and what a pass will take: memory and seconds.

Stored bytes are those of :func:`trainer.layout.pass_bytes`, to the byte; what else there is comes
from :mod:`trainer.geometry`. A plan has few values, so all of a grid are tried: the result is the
fastest of the grid for certain, and a larger budget never gives a slower one.

Nothing here imports torch.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from packing.cost import ModelShape, attention_squares
from trainer.geometry import (
    Flops,
    forward_flops,
    step_seconds,
    weight_count,
    working_bytes,
)
from trainer.layout import Element, pass_bytes, prefix_cuts, stored_tokens, swapped_layers
from trainer.machine import MachineProfile
from trainer.plan import LayerPlan

ALPHAS = tuple(n / 8 for n in range(9))
PREFIXES = tuple(n / 4 for n in range(5))
STRIDES = (1, 2, 4, 8)
"""The grid: shares of tokens and of attention outputs, and strides of layer inputs."""

LOSS_TOKENS = 1024
"""Tokens whose logits the loss has at once."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is trained: the model, what it is computed in, and one pass."""

    shape: ModelShape
    tied: bool
    element: Element
    boundaries: tuple[int, ...]
    """Where the documents of the pass begin, and the end."""

    @property
    def tokens(self) -> int:
        """Tokens of the pass."""
        return self.boundaries[-1]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each document."""
        return np.array([end - start for start, end in pairwise(self.boundaries)], dtype=np.int64)

    def flops(self) -> Flops:
        """FLOP of its forward pass."""
        return forward_flops(
            self.shape, self.tokens, float(attention_squares(self.lengths, self.shape).sum())
        )


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a pass takes."""

    states: int
    """Bytes of weights, their gradients and AdamW's two moments."""
    stored: int
    """Bytes on the device for what layers store, and for its travel."""
    working: int
    """Bytes beside these at the worst moment: of a layer's backward pass, or of the loss."""
    host: int
    """Bytes on the host."""
    seconds: float
    """Forward and backward pass."""
    exposed: float
    """Seconds of it in which the computation waits for copies."""
    again: float
    """Seconds of it in which the backward pass makes again what was not stored."""

    @property
    def device(self) -> int:
        """Bytes on the device at most."""
        return self.states + self.stored + self.working

    def fits(self, machine: MachineProfile) -> bool:
        """Say whether a machine holds it."""
        return self.device <= machine.device_bytes and self.host <= machine.host_bytes


def state_bytes(work: Work) -> int:
    """Return the bytes of weights, gradients and two moments, each as wide as sums are kept."""
    return 4 * work.element.wide * weight_count(work.shape, tied=work.tied)


def predict(work: Work, plan: LayerPlan, machine: MachineProfile) -> Prediction:
    """Return what a pass takes by a plan."""
    shape, element = work.shape, work.element
    stored = pass_bytes(shape, work.boundaries, plan, element)
    seconds, exposed, again = _seconds(work, plan, machine, stored.host)
    return Prediction(
        state_bytes(work), stored.device, _working(work, plan), stored.host, seconds, exposed, again
    )


def _working(work: Work, plan: LayerPlan) -> int:
    """Return the bytes beside states and what is stored, at the worst moment."""
    shape, element, tokens = work.shape, work.element, work.tokens
    stream = tokens * shape.hidden * element.narrow
    table = tokens * shape.head_dim * element.wide
    # The gradient from above, and the stream that the last norm was given.
    layer = working_bytes(shape, work.boundaries, plan, element) + 2 * stream + table
    # The last norm keeps two wide tensors; hidden states twice, and their gradient.
    head = 5 * stream + 2 * tokens * shape.hidden * element.wide + table
    head += shape.vocab * shape.hidden * (2 * element.narrow + 2 * element.wide)
    head += min(LOSS_TOKENS, tokens) * shape.vocab * (2 * element.narrow + 3 * element.wide)
    return max(layer, head)


def _seconds(
    work: Work, plan: LayerPlan, machine: MachineProfile, host: int
) -> tuple[float, float, float]:
    """Return the seconds of a pass, of waiting for copies and of making again."""
    shape, flops = work.shape, work.flops()
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    in_heads, out, inner = queries + 2 * keys, queries, shape.ffn
    whole = in_heads + out + 3 * inner
    left = 1 - stored_tokens(work.tokens, plan) / work.tokens
    cuts = np.array(prefix_cuts(work.boundaries, plan.recompute_prefix), dtype=np.int64)
    lengths = work.lengths
    attended = float(attention_squares(cuts, shape).sum()) / max(
        float(attention_squares(lengths, shape).sum()), 1.0
    )
    # Layers whose input is made again from the layer below, which takes its down projection too.
    thin = sum(1 for layer in range(shape.layers) if layer % plan.input_stride) / shape.layers
    rebuilt = left * (out + 2 * inner + (in_heads if attended else 0)) + inner
    linear_again = left * (in_heads + out + 2 * inner) / whole + thin * rebuilt / whole
    attention_again = attended * (1 + thin)
    computed = step_seconds(
        flops, machine, linear_again=linear_again, attention_again=attention_again
    )
    bare = step_seconds(flops, machine)
    forward = flops.linear / machine.gemm + flops.attention / machine.attention_forward
    share = swapped_layers(shape, plan) / shape.layers
    backward = computed - forward - 3 * flops.head / machine.gemm
    exposed = max(host / machine.offload - forward * share, 0.0)
    exposed += max(host / machine.fetch - backward * share, 0.0)
    return computed + exposed, exposed, computed - bare


def candidates(shape: ModelShape, tile: int) -> Iterator[LayerPlan]:
    """Return the plans of the grid."""
    groups = sorted({1, shape.kv_heads})
    layers = shape.layers
    residents = sorted({0, min(2, layers), layers // 4, layers // 2, layers})
    strides = [n for n in STRIDES if n <= shape.layers]
    for stride, resident, group in itertools.product(strides, residents, groups):
        for prefix, alpha in itertools.product(PREFIXES, ALPHAS):
            yield LayerPlan(
                tile=tile,
                recompute_prefix=prefix,
                alpha=alpha,
                input_stride=stride,
                resident_layers=resident,
                head_groups=group,
            )


def choose(
    work: Work, machine: MachineProfile, tile: int = 8192
) -> tuple[LayerPlan, Prediction] | None:
    """Return the plan of the grid with the fastest pass that fits, or None where none fits.

    Among equals the one with the least memory on the device, then on the host, is taken.
    """
    best: tuple[tuple[float, int, int], LayerPlan, Prediction] | None = None
    for plan in candidates(work.shape, tile):
        found = predict(work, plan, machine)
        key = (found.seconds, found.device, found.host)
        if found.fits(machine) and (best is None or key < best[0]):
            best = key, plan, found
    return None if best is None else best[1:]


def longest_row(work: Work, machine: MachineProfile, tile: int = 8192, unit: int = 1024) -> int:
    """Return the tokens of the longest document that fits as a row by some plan, 0 if none does."""
    least = [
        plan
        for plan in candidates(work.shape, tile)
        if plan.alpha == 0 and plan.recompute_prefix in (0.0, 1.0)
    ]

    def fits(units: int) -> bool:
        row = replace(work, boundaries=(0, units * unit))
        return any(predict(row, plan, machine).fits(machine) for plan in least)

    low, high = 0, 1
    while high < 1 << 16 and fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * unit

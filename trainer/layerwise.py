"""Weights updated inside the backward pass, a layer at a time, so that no two layers' gradients exist.

The gradients of a layer are summed over the ranks, applied and freed as soon as the last of them is
there; the layers below have not begun by then. What needs all gradients of a step at once (a global
norm to clip by, more than one micro-batch, leaving a step out) cannot be had with it.
"""

import math
from collections.abc import Iterable, Sequence
from functools import partial

import torch
from torch import nn

from packing.reader import MicroBatch
from trainer.feed import tensors, weight_of
from trainer.gradients import Part, StepGradients
from trainer.model import Decoder
from trainer.ranks import Ranks


class LayerUpdates:
    """Hooks on a model that update each layer when its gradients are complete.

    Args:
        model: the model.
        optimizer: over its weights.
        ranks: gradients are summed over them.
    """

    def __init__(self, model: Decoder, optimizer: torch.optim.Optimizer, ranks: Ranks) -> None:
        self._optimizer, self._ranks = optimizer, ranks
        self._groups = _groups(model)
        self._waiting: dict[int, int] = {}
        self._squares: list[float] = []
        self.broken = False
        """Whether a gradient was not finite; from then on nothing is changed any more."""
        for number, group in enumerate(self._groups):
            for weight in group:
                arrived = partial(self._arrived, number)
                weight.register_post_accumulate_grad_hook(arrived)  # type: ignore[no-untyped-call]

    def begin(self) -> None:
        """Get ready for the backward pass of a step."""
        self._waiting = {n: len(group) for n, group in enumerate(self._groups)}
        self._squares = []

    def finish(self) -> float:
        """Take part in what the other ranks did where this one had no rows; return the norm."""
        for number in sorted(self._waiting):
            self._update(number)
        return math.sqrt(sum(self._squares))

    def _arrived(self, number: int, _: torch.Tensor) -> None:
        self._waiting[number] -= 1
        if not self._waiting[number]:
            self._update(number)

    def _update(self, number: int) -> None:
        del self._waiting[number]
        group = self._groups[number]
        self._ranks.sum_gradients(group)
        norm = float(nn.utils.get_total_norm([w.grad for w in group if w.grad is not None]))
        (norm,) = self._ranks.agree((norm,))
        self._squares.append(norm * norm)
        self.broken = self.broken or not math.isfinite(norm)
        if not self.broken:
            # The optimizer updates what has a gradient: this group alone.
            self._optimizer.step()
        for weight in group:
            weight.grad = None


def step_by_layers(
    model: Decoder, micro_batches: Sequence[MicroBatch], ranks: Ranks, updates: LayerUpdates
) -> StepGradients:
    """Train one step of one micro-batch; where its loss is not finite nothing is changed.

    Args:
        model: the model.
        micro_batches: this rank's part of the step: one, or none.
        ranks: the ranks that share the step.
        updates: the hooks on the model.
    """
    mine = [micro for micro in micro_batches if micro.n_rows]
    weight, tokens, rows = ranks.sum(
        (
            sum(weight_of(micro) for micro in mine),
            sum(len(micro.input_ids) for micro in mine),
            sum(micro.n_rows for micro in mine),
        )
    )
    loss, here = None, 0.0
    for micro in mine if weight else ():
        batch = ranks.to_device(tensors(micro))
        loss = model.loss_sum(
            batch["input_ids"],
            batch["position_ids"],
            batch["cu_seqlens"].tolist(),
            batch["labels"],
            batch["loss_weights"],
        )
        here = float(loss.detach())
    (total,) = ranks.sum((here,))
    (mean,) = ranks.agree((total / weight if weight else math.nan,))
    norm = math.nan
    if math.isfinite(mean):
        updates.begin()
        if loss is not None:
            (loss / weight).backward()  # type: ignore[no-untyped-call]
        norm = updates.finish()
    parts = tuple(Part(tuple(m.row_id.tolist()), here, weight_of(m)) for m in mine)
    return StepGradients(mean, norm, int(tokens), int(rows), parts)


def _groups(model: Decoder) -> list[list[nn.Parameter]]:
    """Return the weights in the order in which a backward pass completes their gradients."""
    head = [*model.norm.parameters()]
    if model.lm_head is not None:
        head += model.lm_head.parameters()
    layers: Iterable[nn.Module] = reversed(list(model.layers))
    groups = [head, *([*layer.parameters()] for layer in layers)]
    return [*groups, [*model.embed_tokens.parameters()]]

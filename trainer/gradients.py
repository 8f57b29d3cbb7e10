"""The gradients of one step: of the mean loss over all its trained tokens, wherever they are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from packing.reader import MicroBatch
from trainer.feed import tensors, weight_of
from trainer.model import Decoder
from trainer.ranks import Ranks
from trainer.sharding import is_sharded, whole


@dataclass(frozen=True, slots=True)
class Part:
    """A micro-batch of this rank and what it lost."""

    rows: tuple[int, ...]
    loss: float
    """Weighted sum."""
    weight: float


@dataclass(frozen=True, slots=True)
class StepGradients:
    """What the forward and backward passes of one step found, over all ranks."""

    loss: float
    """Weighted mean."""
    norm: float
    tokens: int
    rows: int
    parts: tuple[Part, ...]
    """Of this rank alone."""

    def suspects(self, limit: float | None, ranks: Ranks) -> list[int]:
        """Return the rows of the micro-batches that stand out; of all where none does by its loss.

        Args:
            limit: the most that the mean loss of one may be; None: it must be finite.
            ranks: all of them ask.
        """
        most = math.inf if limit is None else limit
        mine = [
            (row, not part.weight or (part.loss / part.weight <= most and math.isfinite(part.loss)))
            for part in self.parts
            for row in part.rows
        ]
        everyone = [row for part in ranks.gather(mine) for row in part]
        bad = [row for row, is_fine in everyone if not is_fine]
        return sorted(bad or (row for row, _ in everyone))


def step_gradients(
    model: Decoder, micro_batches: Sequence[MicroBatch], ranks: Ranks
) -> StepGradients:
    """Make the gradients of one step: of the mean loss over the tokens of all its micro-batches.

    Args:
        model: the model; its gradients are empty.
        micro_batches: this rank's part of the step.
        ranks: the ranks that share the step; each has its gradients summed over all of them.
    """
    mine = [micro for micro in micro_batches if micro.n_rows]
    weight, tokens, rows = ranks.sum(
        (
            sum(weight_of(micro) for micro in mine),
            sum(len(micro.input_ids) for micro in mine),
            sum(micro.n_rows for micro in mine),
        )
    )
    losses: list[Tensor] = []
    sharded = is_sharded(model)
    # Where weights are sharded, a rank without a row must help to gather and to sum all the same.
    computed = micro_batches if sharded else mine
    for micro in computed if weight else ():
        batch = ranks.to_device(tensors(micro) if micro.n_rows else _nothing())
        loss = model.loss_sum(
            batch["input_ids"],
            batch["position_ids"],
            batch["cu_seqlens"].tolist(),
            batch["labels"],
            batch["loss_weights"],
        )
        (loss / weight).backward()  # type: ignore[no-untyped-call]
        if micro.n_rows:
            losses.append(loss.detach().double())
    if not sharded:
        ranks.sum_gradients(model.parameters())
    grads = [w.grad for w in model.parameters() if w.grad is not None]
    norm = float(whole(nn.utils.get_total_norm(grads))) if grads else math.nan
    found = torch.stack(losses).tolist() if losses else [0.0] * len(mine)
    (total,) = ranks.sum((sum(found),))
    parts = tuple(
        Part(tuple(micro.row_id.tolist()), loss, weight_of(micro))
        for micro, loss in zip(mine, found, strict=True)
    )
    # All ranks decide by the numbers of the first, whatever order theirs were summed in.
    loss_mean, norm = ranks.agree((total / weight if weight else math.nan, norm))
    return StepGradients(loss_mean, norm, int(tokens), int(rows), parts)


def _nothing() -> dict[str, Tensor]:
    """Return a document of one token of which nothing is trained."""
    one = torch.zeros(1, dtype=torch.int64)
    return {
        "input_ids": one,
        "position_ids": one,
        "labels": one - 100,
        "loss_weights": torch.zeros(1),
        "cu_seqlens": torch.tensor([0, 1]),
    }


def clip_gradients(model: nn.Module, most: float, norm: float) -> None:
    """Scale the gradients down to a global norm, where theirs is above it."""
    if not is_sharded(model):
        total = torch.tensor(norm, dtype=torch.float64)
        nn.utils.clip_grads_with_norm_(model.parameters(), most, total)
        return
    scale = min(1.0, most / (norm + 1e-6))
    for weight in model.parameters():
        if weight.grad is not None:
            weight.grad.mul_(scale)

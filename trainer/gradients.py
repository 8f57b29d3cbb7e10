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


@dataclass(frozen=True, slots=True)
class StepGradients:
    """What the forward and backward passes of one step found, over all ranks."""

    loss: float
    norm: float
    tokens: int
    rows: int
    suspects: tuple[int, ...]
    """Rows of the micro-batches whose loss is not finite; of all where only the gradient is not."""

    @property
    def finite(self) -> bool:
        """Whether the step may change the weights."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


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
    for micro in mine if weight else ():
        batch = ranks.to_device(tensors(micro))
        loss = model.loss_sum(
            batch["input_ids"],
            batch["position_ids"],
            batch["cu_seqlens"].tolist(),
            batch["labels"],
            batch["loss_weights"],
        )
        (loss / weight).backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach().double())
    ranks.sum_gradients(model.parameters())
    grads = [w.grad for w in model.parameters() if w.grad is not None]
    norm = float(nn.utils.get_total_norm(grads)) if grads else math.nan
    found = torch.stack(losses).tolist() if losses else []
    (total,) = ranks.sum((sum(found),))
    loss_mean = total / weight if weight else math.nan
    suspects: tuple[int, ...] = ()
    if not (math.isfinite(loss_mean) and math.isfinite(norm)):
        suspects = _suspects(mine, found, ranks)
    return StepGradients(loss_mean, norm, int(tokens), int(rows), suspects)


def _suspects(mine: Sequence[MicroBatch], losses: Sequence[float], ranks: Ranks) -> tuple[int, ...]:
    """Return the rows of the micro-batches without a finite loss, or all if each has one."""
    trained = zip(mine, losses, strict=True) if losses else ((micro, 0.0) for micro in mine)
    rows = [(id_, math.isfinite(loss)) for micro, loss in trained for id_ in micro.row_id.tolist()]
    everyone = [row for part in ranks.gather(rows) for row in part]
    bad = [id_ for id_, finite in everyone if not finite]
    return tuple(sorted(bad or (id_ for id_, _ in everyone)))

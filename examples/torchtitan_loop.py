"""Feeds torchtitan's training loop from a packed dataset.

torchtitan's ``Trainer`` takes from its data loader pairs of ``{"input": ids, "positions": positions}``
and labels, all of [tokens]; it builds the mask of its attention from the positions, which restart with
every document, sums the loss of the labels that are not -100 over the micro-batches and ranks of a
step, and divides by their number. ``PackedLoader`` gives it just that, in the order of the plan.

Where torchtitan is installed, ``TorchtitanLoader.Config(path=...)`` is what the trainer's
``dataloader`` is set to. In its ``training`` settings the tokens of a micro-batch of a rank are
``micro_batch`` x ``seq_len`` of the dataset, its gradient accumulation the slots of a step.

Run as a program, it does what the ``train_step`` of torchtitan does, with a small model on the CPU:
``python examples/torchtitan_loop.py DATASET STEPS``.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from packing.cost import ModelShape
from packing.reader import PackedReader
from trainer.feed import PackedDataset
from trainer.model import Decoder

IGNORED = -100


class PackedLoader:
    """The micro-batches of one rank, step after step; a short last step is left out.

    Args:
        path: folder of the packed dataset.
        dp_rank: this data-parallel rank.
        dp_world_size: number of them; it divides the rows of a slot.
        plan: another plan over the same shards.
    """

    def __init__(
        self, path: str, *, dp_rank: int = 0, dp_world_size: int = 1, plan: str | None = None
    ) -> None:
        with PackedReader(path, plan=plan) as reader:
            self.accumulation = reader.slots_per_step
            self.tokens = reader.slot_rows // dp_world_size * reader.seq_len
            short = reader.n_rows % (reader.slot_rows * reader.slots_per_step) > 0
            self._left_out = reader.first_step + reader.n_steps - 1 if short else -1
            if short and reader.n_steps == 1:
                raise ValueError(f"{path}: has no full step; choose a smaller global batch")
        self._data = PackedDataset(
            path, plan=plan, rank=dp_rank, world=dp_world_size, epochs=None, padded=True
        )

    def __iter__(self) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """Give (inputs, labels) without end, epoch after epoch."""
        for batch in self._data:
            if batch["step"] != self._left_out:
                inputs = {
                    "input": batch["input_ids"].flatten(),
                    "positions": batch["position_ids"].flatten(),
                }
                yield inputs, batch["labels"].flatten()

    def state_dict(self) -> dict[str, Any]:
        """Return where to go on; equal on all ranks, valid for any number of ranks."""
        return {"packed": self._data.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        if state:
            self._data.load_state_dict(state["packed"])

    def close(self) -> None:
        """Do nothing: shards are closed with the iteration."""


try:
    from torchtitan.components.data.loader import BaseDataLoader
except ImportError:
    pass
else:

    class TorchtitanLoader(PackedLoader, BaseDataLoader):
        """The loader as torchtitan builds it from its configuration."""

        @dataclass(kw_only=True, slots=True)
        class Config(BaseDataLoader.Config):
            """Which dataset is read."""

            path: str

        def __init__(
            self,
            config: Config,
            *,
            dp_rank: int,
            dp_world_size: int,
            num_tokens_per_batch: int,
            **_: Any,
        ) -> None:
            super().__init__(config.path, dp_rank=dp_rank, dp_world_size=dp_world_size)
            if num_tokens_per_batch != self.tokens:
                raise ValueError(
                    f"a micro-batch is set to {num_tokens_per_batch} tokens and has {self.tokens} in "
                    f"{config.path}; set the training settings to the dataset's"
                )


def train_step(
    model: Decoder,
    optimizer: torch.optim.Optimizer,
    data: Iterator[tuple[dict[str, Tensor], Tensor]],
    accumulation: int,
) -> float:
    """Do one step as torchtitan does: sum the losses, divide by the labels of the whole step."""
    optimizer.zero_grad()
    micro_batches = [next(data) for _ in range(accumulation)]
    valid = sum(int((labels != IGNORED).sum()) for _, labels in micro_batches)
    total = 0.0
    for inputs, labels in micro_batches:
        starts = (inputs["positions"] == 0).nonzero().flatten().tolist()
        loss = model.loss_sum(
            inputs["input"],
            inputs["positions"],
            [*starts, len(labels)],
            labels,
            (labels != IGNORED).float(),
        )
        loss = loss / valid
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


def main(path: str, steps: int) -> list[float]:
    """Train a small model for some steps; return the loss of each."""
    loader = PackedLoader(path)
    with PackedReader(path) as reader:
        vocabulary = reader.vocab_size
    shape = ModelShape(
        layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128, vocab=vocabulary
    )
    model = Decoder(shape)
    model.initialize(seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    data = iter(loader)
    losses = []
    for step in range(steps):
        losses.append(train_step(model, optimizer, data, loader.accumulation))
        print(step, losses[-1])
    return losses


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

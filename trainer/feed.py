"""Packed rows as tensors: an iterable dataset for any training loop, and what the own loop uses.

``PackedDataset`` goes into ``torch.utils.data.DataLoader(dataset, batch_size=None)`` with any
number of workers. Every micro-batch carries the state after it, so that saving a run needs no
question to a worker process.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from packing.format import ShardError
from packing.reader import MicroBatch, PackedReader, ReaderState, StepBatch


class PackedDataset(IterableDataset[dict[str, Any]]):
    """The micro-batches of one rank, in the order of the plan.

    A micro-batch is a mapping; t are its tokens, all rows in one flat sequence:

    * ``input_ids`` [t] int64, ``position_ids`` [t] int64 (restarting with every document)
    * ``labels`` [t] int64: the token to predict, -100 where nothing is trained; they are shifted
      already, ``labels[i]`` belongs to the output at ``i``
    * ``loss_weights`` [t] float32
    * ``cu_seqlens`` [documents + 1] int32: where documents begin, and the end, on the CPU
    * ``step_weight``: sum of the loss weights of this rank in the whole step; what a step's loss is
      divided by
    * ``epoch``, ``step``, ``slot`` (from 0), ``last`` (whether the step ends with it), ``rows``
    * ``state``: where to go on after this micro-batch, for :meth:`load_state_dict`

    Where a short last step has no row for a rank, its micro-batch has no tokens. With ``padded`` the
    tensors are [rows, seq_len] instead, filled with the padding id and the label -100, and
    ``cu_seqlens`` counts through the flattened rows with the padding as a document of its own.

    Args:
        dataset: folder of a packed dataset, or a URI that pyarrow can open.
        plan: another plan over the same shards.
        rank: this rank.
        world: number of ranks; it divides the rows of a slot.
        epochs: times to read the plan; None never ends.
        padded: give rows of equal length.
        reader_options: further arguments of :class:`packing.reader.PackedReader`.

    Raises:
        ShardError: the dataset is unfinished or damaged, or world does not divide the slots.
    """

    def __init__(
        self,
        dataset: str,
        *,
        plan: str | None = None,
        rank: int = 0,
        world: int = 1,
        epochs: int | None = 1,
        padded: bool = False,
        **reader_options: Any,
    ) -> None:
        super().__init__()
        self._source = {"dataset": dataset, "plan": plan, **reader_options}
        self._rank, self._world, self._epochs, self._padded = rank, world, epochs, padded
        with PackedReader(**self._source) as reader:
            self.info = reader.info
            self.n_steps = reader.n_steps
            self._start = (reader.initial_state(), 0)
            for _ in reader.steps(rank, world, epochs=0):
                pass  # gives nothing, but refuses a world that does not divide the slots
        self._at = self._start

    def state_dict(self) -> dict[str, Any]:
        """Return where to go on after the micro-batch that this process gave last.

        With worker processes ask the micro-batch itself: its ``state``.
        """
        state, slot = self._at
        return {**state.to_dict(), "slot": slot}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, of any world size and number of workers.

        Raises:
            ShardError: it belongs to another plan.
        """
        found = ReaderState.from_dict(state)
        with PackedReader(**self._source) as reader:
            reader.check_state(found)
        self._start = self._at = (found, int(state.get("slot", 0)))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Give the micro-batches from the loaded state (or the beginning) to the last epoch's end.

        Of several workers each gives its turn, so that the loader sees them in order.
        """
        worker = get_worker_info()
        turn, turns = (worker.id, worker.num_workers) if worker else (0, 1)
        state, first = self._start
        given = 0
        with PackedReader(**self._source) as reader:
            for step in reader.steps(self._rank, self._world, state, self._epochs):
                here = replace(step.state, epoch=step.epoch, step=step.step)
                batches = step.micro_batches
                for slot in range(first, len(batches)):
                    last = slot + 1 == len(batches)
                    self._at = (step.state, 0) if last else (here, slot + 1)
                    if given % turns == turn:
                        yield self._mapping(step, slot)
                    given += 1
                first = 0

    def _mapping(self, step: StepBatch, slot: int) -> dict[str, Any]:
        micro = step.micro_batches[slot]
        return {
            **(_padded(micro) if self._padded else tensors(micro)),
            "step_weight": sum(weight_of(m) for m in step.micro_batches),
            "epoch": step.epoch,
            "step": step.step,
            "slot": slot,
            "last": slot + 1 == len(step.micro_batches),
            "rows": micro.n_rows,
            "state": self.state_dict(),
        }


def tensors(micro: MicroBatch) -> dict[str, Tensor]:
    """Return a micro-batch as flat tensors on the CPU.

    Raises:
        ShardError: ranks share a row, which needs context parallel attention.
    """
    _refuse_shared_rows(micro)
    return {
        "input_ids": _int64(micro.input_ids),
        "position_ids": _int64(micro.position_ids),
        "labels": _int64(micro.labels),
        "loss_weights": torch.from_numpy(micro.loss_weights),
        "cu_seqlens": torch.from_numpy(micro.cu_seqlens),
    }


def _padded(micro: MicroBatch) -> dict[str, Tensor]:
    _refuse_shared_rows(micro)
    batch = micro.padded()
    return {
        "input_ids": _int64(batch.input_ids),
        "position_ids": _int64(batch.position_ids),
        "labels": _int64(batch.labels),
        "loss_weights": torch.from_numpy(batch.loss_weights),
        "cu_seqlens": torch.from_numpy(batch.cu_seqlens),
    }


def weight_of(micro: MicroBatch) -> float:
    """Return the sum of a micro-batch's loss weights."""
    return float(micro.loss_weights.sum(dtype="float64"))


def _int64(values: Any) -> Tensor:
    return torch.from_numpy(values.astype("int64"))


def _refuse_shared_rows(micro: MicroBatch) -> None:
    if micro.cp is not None:
        raise ShardError(
            f"step {micro.step}, slot {micro.slot}: a row is shared by {int(micro.cp.max())} "
            'ranks, which this trainer cannot; pack with long = "cut"'
        )

"""Feeds TRL's ``SFTTrainer`` from a packed dataset, in the order of its plan.

The trainer's own loop, loss and metrics stay as they are; only its data loader is ours. A micro-batch
is one flat sequence, [1, tokens], whose positions restart with every document: by them attention
keeps documents apart (Flash Attention, or SDPA, which builds a mask from them). Labels come shifted
(``shift_labels``), so that a document that is cut goes on to its next token, and what ``loss_spans``
leave out is -100; the trainer divides by the labels of the whole step.

Run as a program, it trains a small model on the CPU: ``python examples/trl_loop.py DATASET STEPS OUT``.
"""

import sys
from collections.abc import Iterator
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from torch.utils.data import DataLoader, IterableDataset
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from packing.reader import PackedReader
from trainer.feed import PackedDataset


class PlannedBatches(IterableDataset[dict[str, Any]]):
    """The micro-batches of one rank without end; a short last step is left out."""

    def __init__(self, path: str, rank: int = 0, world: int = 1) -> None:
        super().__init__()
        with PackedReader(path) as reader:
            short = reader.n_rows % (reader.slot_rows * reader.slots_per_step) > 0
            self._left_out = reader.first_step + reader.n_steps - 1 if short else -1
            if short and reader.n_steps == 1:
                raise ValueError(f"{path}: has no full step; choose a smaller global batch")
        self._data = PackedDataset(path, rank=rank, world=world, epochs=None)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Give micro-batches as the trainer passes them to its model."""
        for batch in self._data:
            if batch["step"] != self._left_out:
                labels = batch["labels"][None]
                yield {
                    "input_ids": batch["input_ids"][None],
                    "position_ids": batch["position_ids"][None],
                    "labels": labels,
                    "shift_labels": labels,
                }


class PlannedTrainer(SFTTrainer):
    """An ``SFTTrainer`` that trains the rows of a packed dataset, slot by slot.

    Args:
        path: folder of the packed dataset.
        args: ``gradient_accumulation_steps`` is set to the slots of a step.
        more: what ``SFTTrainer`` takes, ``train_dataset`` excepted.
    """

    def __init__(self, path: str, args: SFTConfig, **more: Any) -> None:
        with PackedReader(path) as reader:
            args.gradient_accumulation_steps = reader.slots_per_step
        args.dataset_kwargs = {"skip_prepare_dataset": True}
        args.remove_unused_columns = False
        self._path = path
        # The trainer wants a dataset; its loader below reads another.
        nothing = Dataset.from_dict({"input_ids": [[0, 0]], "labels": [[0, 0]]})
        super().__init__(args=args, train_dataset=nothing, **more)

    def get_train_dataloader(self) -> DataLoader[dict[str, Any]]:
        """Return the micro-batches of this rank; nothing is left to be sharded or shuffled."""
        data = PlannedBatches(self._path, self.args.process_index, self.args.world_size)
        return DataLoader(data, batch_size=None)


def small_model(vocabulary: int) -> LlamaForCausalLM:
    """Return a small model with random weights."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
    )


def main(path: str, steps: int, out: str) -> list[float]:
    """Train a small model for some steps; return the loss of each."""
    with PackedReader(path) as reader:
        vocabulary = reader.vocab_size
    # The trainer asks for a tokenizer, and has no text for it.
    stub = Tokenizer(models.WordLevel({"<end>": 0}, unk_token="<end>"))
    args = SFTConfig(
        output_dir=out,
        max_steps=steps,
        logging_steps=1,
        learning_rate=3e-3,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
    )
    trainer = PlannedTrainer(
        path,
        args,
        model=small_model(vocabulary),
        processing_class=PreTrainedTokenizerFast(
            tokenizer_object=stub, eos_token="<end>", pad_token="<end>"
        ),
    )
    trainer.train()
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


if __name__ == "__main__":
    print(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))

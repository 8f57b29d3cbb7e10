"""The model of a run, as its configuration says."""

import os
from pathlib import Path

import torch

from packing.format import ShardError
from packing.reader import PackedReader
from trainer import checkpoint
from trainer.config import ConfigError, TrainerConfig
from trainer.huggingface import copy_tokenizer, load_weights_into, write_model
from trainer.lineage import find_dataset
from trainer.model import DTYPES, Decoder
from trainer.ranks import Ranks


def make_deterministic() -> None:
    """Ask torch for algorithms that give the same bits in every run, where it has them."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def check_dataset(config: TrainerConfig, reader: PackedReader) -> None:
    """Refuse weights with fewer tokens than the dataset, and steps of many micro-batches by layers.

    Raises:
        ConfigError: it names both numbers, or the micro-batches of a step.
    """
    slots = reader.slots_per_step
    if config.training.update == "layer" and slots > 1:
        raise ConfigError(
            f'training.update: "layer" takes steps of one micro-batch, those of the dataset have '
            f"{slots}; make a plan with drystone replan --global-batch {reader.slot_rows}, or use "
            '"step"'
        )
    vocab = config.model.shape(reader.vocab_size).vocab
    if vocab < reader.vocab_size:
        raise ConfigError(
            f"model.weights: {config.model.weights} has {vocab} tokens, the dataset "
            f"{reader.vocab_size}; encode the dataset with the model's own tokenizer"
        )


def build_model(
    config: TrainerConfig, vocab: int, device: torch.device, *, is_new: bool
) -> Decoder:
    """Return the model on its device.

    Args:
        config: of the run.
        vocab: tokens of the dataset.
        device: where it computes.
        is_new: whether it needs its first weights; those of a checkpoint come later.

    Raises:
        ArchitectureError: the weights to begin with do not fit.
        SafetensorsError: they are damaged.
    """
    model = Decoder(
        config.model.shape(vocab),
        tied=config.model.is_tied,
        recompute=config.training.activations == "recompute",
        plan=config.training.layer_plan(),
        dtype=DTYPES[config.dtype],
        architecture=config.model.architecture,
    )
    if is_new and config.model.weights is not None:
        load_weights_into(model, Path(config.model.weights))
    elif is_new:
        model.initialize(config.seed)
    return model.to(device)


def describe(
    config: TrainerConfig,
    reader: PackedReader,
    model: Decoder,
    ranks: Ranks,
    found: checkpoint.Checkpoint | None,
) -> list[str]:
    """Return what is trained on what, and from where it goes on, in words."""
    weights = sum(weight.numel() for weight in model.parameters())
    steps = config.training.steps
    told = [
        f"model: {weights:,} weights, vocabulary {model.shape.vocab}; {config.dtype} on "
        f"{ranks.device}, ranks {ranks.world}",
        f"data: {reader.folder.path}: {reader.n_rows:,} rows of up to {reader.seq_len} tokens, "
        f"{reader.n_steps:,} steps an epoch; {steps:,} steps are {steps / reader.n_steps:.3g} "
        "epochs",
    ]
    if found is not None:
        changes = checkpoint.changes(found, config)
        if found.world != ranks.world:
            changes.append(
                f"ranks {found.world} -> {ranks.world} (the same rows in each step, "
                "sums in another order)"
            )
        changed = f"; changed: {'; '.join(changes)}" if changes else ""
        told.append(f"goes on from {found.path}{changed}")
    return told


def export_model(config: TrainerConfig, folder: Path) -> list[str]:
    """Write the newest checkpoint of a run as a Hugging Face model; return what was done, in words.

    Raises:
        CheckpointError: there is no complete checkpoint, or it is of another run.
        ArchitectureError: the model has no form there.
        ShardError: the dataset cannot be read.
    """
    with PackedReader(find_dataset(config.dataset)) as reader:
        found, passed = checkpoint.newest(Path(config.out))
        if found is None:
            raise ShardError(f"{config.out}: has no checkpoint; train first")
        plan = reader.plan.plan_fingerprint
        checkpoint.check(found, checkpoint.identity(config, plan, reader.vocab_size))
        write_model(
            folder,
            checkpoint.load_weights(found.path),
            config.model.shape(reader.vocab_size),
            config.model.architecture,
            tied=config.model.is_tied,
            seq_len=reader.seq_len,
        )
        copied = copy_tokenizer(reader, folder)
    told = [f"passed over {reason}" for reason in passed]
    return [*told, f"{found.path} -> {folder}" + "".join(f", with {name}" for name in copied)]

"""Weights from and to the folders of Hugging Face models."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from packing.cost import ModelShape
from packing.reader import PackedReader
from trainer.architecture import CONFIG_FILE, Architecture, ArchitectureError, to_config
from trainer.safetensors import load, save

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

_HEAD = "lm_head.weight"


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Return the weights of a model's folder by our names, one file or many.

    Raises:
        ArchitectureError: there are none in the format of safetensors.
        SafetensorsError: a file is damaged.
    """
    index = folder / INDEX_FILE
    if (folder / WEIGHTS_FILE).exists():
        names = [WEIGHTS_FILE]
    elif index.exists():
        names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    else:
        raise ArchitectureError(f"{folder}: has no {WEIGHTS_FILE}, nor {INDEX_FILE}")
    found = {name: tensor for file in names for name, tensor in load(folder / file).items()}
    return {name.removeprefix("model."): tensor for name, tensor in found.items()}


def load_weights_into(model: nn.Module, folder: Path) -> None:
    """Put the weights of a model's folder into a decoder of its shape.

    Raises:
        ArchitectureError: weights are missing, too many, or of other shapes.
    """
    found = read_weights(folder)
    wanted = dict(model.named_parameters())
    if _HEAD not in wanted:
        found.pop(_HEAD, None)  # some tied models have the embedding twice
    strange = sorted(n for n in found.keys() - wanted.keys() if "rotary_emb" not in n)
    missing = sorted(wanted.keys() - found.keys())
    if strange or missing:
        raise ArchitectureError(
            f"{folder}: weights do not fit its {CONFIG_FILE}: missing {_few(missing)}, "
            f"unknown {_few(strange)}"
        )
    with torch.no_grad():
        for name, weight in wanted.items():
            if found[name].shape != weight.shape:
                raise ArchitectureError(
                    f"{folder}: {name} is {list(found[name].shape)}, by {CONFIG_FILE} it is "
                    f"{list(weight.shape)}"
                )
            weight.copy_(found[name])


def write_model(
    folder: Path,
    weights: Mapping[str, Tensor],
    shape: ModelShape,
    architecture: Architecture,
    *,
    tied: bool,
    seq_len: int,
) -> None:
    """Write a folder that transformers loads: ``config.json`` and the weights as they are.

    Raises:
        ArchitectureError: the model has experts.
    """
    dtype = str(weights["embed_tokens.weight"].dtype).removeprefix("torch.")
    config = to_config(shape, architecture, tied=tied, seq_len=seq_len, dtype=dtype)
    folder.mkdir(parents=True, exist_ok=True)
    named = {n if n == _HEAD else f"model.{n}": tensor for n, tensor in weights.items()}
    save(folder / WEIGHTS_FILE, named, {"format": "pt"})
    (folder / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def copy_tokenizer(reader: PackedReader, folder: Path) -> list[str]:
    """Copy the tokenizer's own file from a local dataset; return its name."""
    copied, dataset = [], reader.folder
    for pattern in ("tokenizer.model", "tokenizer.json", "*.tiktoken"):
        for path in sorted(Path(dataset.path).glob(pattern)) if dataset.local else ():
            shutil.copyfile(path, folder / path.name)
            copied.append(path.name)
    return copied


def _few(names: list[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return shown or "none"

"""Checkpoints: folders that are complete or not there, and that say whose they are.

``out/checkpoint-<step>/`` holds ``model.pt``, ``optimizer.pt`` and ``random.pt``, or such files of
every rank, and ``state.json``: the step to go on with, where the reader stands, what the run is,
where the rows of each tensor lie, size and sha256 of the files. :mod:`trainer.saver` writes it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from packing.reader import ReaderState
from trainer.config import TrainerConfig
from trainer.pieces import Saved, fill, restore_state
from trainer.saver import FORMAT_VERSION, STATE_FILE, folders, part_name, sha256_of


class CheckpointError(ValueError):
    """A checkpoint that this run must not go on from; says what differs and what to do."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint on the disk."""

    path: Path
    step: int
    """The step to go on with: as many steps are done."""
    reader: ReaderState
    """Where the reader goes on."""
    identity: Mapping[str, Any]
    """What a run must share with the one that wrote it, by key of the configuration."""
    config: Mapping[str, Any]
    """The whole configuration of the run that wrote it."""
    watch: Mapping[str, Any]
    """What :class:`trainer.anomalies.Watch` knew."""
    chain: str
    """Hash over the receipts."""
    world: int
    """Ranks that wrote it."""
    tensors: Mapping[str, Saved]
    """Where the rows of each tensor lie."""


def identity(config: TrainerConfig, plan: str, vocab: int) -> dict[str, Any]:
    """Return what makes two runs one: model, plan, dtype and seed."""
    shape = asdict(config.model.shape(vocab))
    return {
        **{f"model.{name}": value for name, value in shape.items()},
        "model.tied": config.model.is_tied,
        **{f"model.{k}": v for k, v in asdict(config.model.architecture).items()},
        "dataset (its plan)": plan,
        "dtype": config.dtype,
        "optimizer.states": config.optimizer.states,
        "seed": config.seed,
    }


def newest(out: Path) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest complete checkpoint, and why newer ones were passed over.

    Raises:
        CheckpointError: there are checkpoints, but no complete one.
    """
    passed: list[str] = []
    for path in reversed(folders(out)):
        found = _read(path)
        if isinstance(found, Checkpoint):
            return found, passed
        passed.append(f"{path}: {found}")
    if passed:
        raise CheckpointError(
            "no complete checkpoint is left: " + "; ".join(passed) + "; remove them to begin anew"
        )
    return None, passed


def check(found: Checkpoint, run: Mapping[str, Any], world: int | None = None) -> None:
    """Refuse the checkpoint of another run.

    Args:
        found: the checkpoint.
        run: :func:`identity` of this run.
        world: number of ranks, where another one is refused as well.

    Raises:
        CheckpointError: it names every difference.
    """
    there, here = dict(found.identity), dict(run)
    if world is not None:
        there["number of ranks"], here["number of ranks"] = found.world, world
    differences = [
        f"{name} is {_short(there.get(name))} there and {_short(here.get(name))} here"
        for name in sorted({*there, *here})
        if there.get(name) != here.get(name)
    ]
    if differences:
        raise CheckpointError(
            f"{found.path} is of another run: {'; '.join(differences)}; "
            "use the configuration of that run, or another folder as out"
        )


def changes(found: Checkpoint, config: TrainerConfig) -> list[str]:
    """Return the settings that may change in mid-run and did, e.g. ``training.steps 30 -> 60``."""
    before, now = (_flat(json.loads(json.dumps(c))) for c in (found.config, asdict(config)))
    return [
        f"{name} {before.get(name)} -> {now.get(name)}"
        for name in sorted({*before, *now})
        if before.get(name) != now.get(name) and name != "out"
    ]


def restore(
    found: Checkpoint,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    device: torch.device,
    rank: int = 0,
    world: int = 1,
) -> None:
    """Load weights, moments and random state; the optimizer's settings stay those of the run."""
    restore_state(model, optimizer, found.tensors, _Files(found.path))
    # Of another number of ranks: the first one's state.
    at = rank if world == found.world else 0
    random = _load(found.path / part_name("random", at, found.world))
    torch.set_rng_state(random["cpu"])
    if device.type == "cuda" and len(random.get("cuda", [])) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(random["cuda"])


def load_weights(path: Path) -> dict[str, Tensor]:
    """Return the whole weights of a checkpoint by name, whatever number of ranks wrote it.

    Raises:
        CheckpointError: it is not complete.
    """
    found = _read(path)
    if isinstance(found, str):
        raise CheckpointError(f"{path}: {found}")
    files = _Files(path)
    weights = {}
    for name, saved in sorted(found.tensors.items()):
        if "/" not in name:
            dtype = files[saved.places[0][0]][name].dtype
            weights[name] = torch.empty(saved.shape, dtype=dtype)
            fill(weights[name], saved, files, name)
    return weights


class _Files(dict[str, Any]):
    """The files of a checkpoint, each mapped into memory when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, name: str) -> Any:
        self[name] = _load(self._folder / name)
        return self[name]


def _load(path: Path) -> Any:
    return torch.load(path, map_location="cpu", weights_only=True, mmap=True)


def _read(path: Path) -> Checkpoint | str:
    """Return a checkpoint, or what is wrong with it."""
    try:
        state = json.loads((path / STATE_FILE).read_bytes())
        if state["format"] != FORMAT_VERSION:
            return f"format {state['format']}, this trainer knows {FORMAT_VERSION}"
        for name, entry in state["files"].items():
            if sha256_of(path / name) != entry["sha256"]:
                return f"{name} is damaged"
        return Checkpoint(
            path,
            int(state["step"]),
            ReaderState.from_dict(state["reader"]),
            state["identity"],
            state["config"],
            state["watch"],
            state["chain"],
            int(state["world"]),
            {
                name: Saved(tuple(entry["shape"]), tuple((f, a, n) for f, a, n in entry["pieces"]))
                for name, entry in state["tensors"].items()
            },
        )
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (KeyError, TypeError, ValueError):
        return f"{STATE_FILE} is damaged"


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, dict):
            flat.update(_flat(item, f"{prefix}{name}."))
        else:
            flat[prefix + name] = item
    return flat


def _short(value: object) -> str:
    return f"{value[:12]}…" if isinstance(value, str) and len(value) == 64 else str(value)

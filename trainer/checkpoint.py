"""Checkpoints: folders that are complete or not there, and that say whose they are.

``out/checkpoint-<step>/`` holds ``model.pt``, ``optimizer.pt``, ``random.pt`` and ``state.json``
(the step to go on with, the reader's state, what the run is, size and sha256 of the files). It is
written under another name, flushed to the disk and renamed.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from packing.reader import ReaderState
from trainer.config import TrainerConfig

FORMAT_VERSION = 1
STATE_FILE = "state.json"
_NAME = re.compile(r"checkpoint-(\d+)")


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


def identity(config: TrainerConfig, plan: str, vocab: int) -> dict[str, Any]:
    """Return what makes two runs one: model, plan, dtype and seed."""
    shape = asdict(config.model.shape(vocab))
    return {
        **{f"model.{name}": value for name, value in shape.items()},
        "model.tied": config.model.is_tied,
        "dataset (its plan)": plan,
        "dtype": config.dtype,
        "seed": config.seed,
    }


def save(
    out: Path,
    step: int,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    reader: ReaderState,
    run: Mapping[str, Any],
    config: TrainerConfig,
) -> Path:
    """Write ``out/checkpoint-<step>``.

    Args:
        out: folder of the run.
        step: steps done.
        model: the model.
        optimizer: its optimizer.
        reader: the reader's state after these steps.
        run: :func:`identity` of the run.
        config: its configuration.
    """
    target = out / f"checkpoint-{step}"
    temporary = out / f".checkpoint-{step}.tmp"
    for leftover in (temporary, target):
        shutil.rmtree(leftover, ignore_errors=True)
    temporary.mkdir(parents=True)
    random: dict[str, Any] = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        random["cuda"] = torch.cuda.get_rng_state_all()
    parts = {"model.pt": model.state_dict(), "optimizer.pt": optimizer.state_dict()["state"]}
    files = {}
    for name, content in {**parts, "random.pt": random}.items():
        torch.save(content, temporary / name)
        files[name] = {
            "bytes": (temporary / name).stat().st_size,
            "sha256": _sha256(temporary / name),
        }
        _flush(temporary / name)
    state = {
        "format": FORMAT_VERSION,
        "step": step,
        "reader": reader.to_dict(),
        "identity": dict(run),
        "config": asdict(config),
        "torch": torch.__version__,
        "files": files,
    }
    (temporary / STATE_FILE).write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    for path in (temporary / STATE_FILE, temporary):
        _flush(path)
    temporary.rename(target)
    _flush(out)
    return target


def newest(out: Path) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest complete checkpoint, and why newer ones were passed over.

    Raises:
        CheckpointError: there are checkpoints, but no complete one.
    """
    passed: list[str] = []
    for path in reversed(_folders(out)):
        found = _read(path)
        if isinstance(found, Checkpoint):
            return found, passed
        passed.append(f"{path}: {found}")
    if passed:
        raise CheckpointError(
            "no complete checkpoint is left: " + "; ".join(passed) + "; remove them to begin anew"
        )
    return None, passed


def check(found: Checkpoint, run: Mapping[str, Any]) -> None:
    """Refuse the checkpoint of another run.

    Raises:
        CheckpointError: it names every difference.
    """
    names = sorted({*found.identity, *run})
    differences = [
        f"{name} is {_short(found.identity.get(name))} there and {_short(run.get(name))} here"
        for name in names
        if found.identity.get(name) != run.get(name)
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
    found: Checkpoint, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> None:
    """Load weights, moments and random state; the optimizer's settings stay those of the run."""

    def load(name: str, where: torch.device | str) -> Any:
        return torch.load(found.path / name, map_location=where, weights_only=True)

    model.load_state_dict(load("model.pt", device))
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": load("optimizer.pt", device), "param_groups": groups})
    random = load("random.pt", "cpu")
    torch.set_rng_state(random["cpu"])
    if device.type == "cuda" and len(random.get("cuda", [])) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(random["cuda"])


def prune(out: Path, keep: int) -> None:
    """Remove all but the newest ``keep`` checkpoints, and what a killed run left half-written."""
    for path in _folders(out)[:-keep]:
        # Renamed first: a half-removed folder must not pass for a damaged checkpoint.
        doomed = path.with_name(f".{path.name}.tmp")
        shutil.rmtree(doomed, ignore_errors=True)
        path.rename(doomed)
    for path in out.glob(".checkpoint-*.tmp"):
        shutil.rmtree(path, ignore_errors=True)


def _folders(out: Path) -> list[Path]:
    found = [path for path in out.glob("checkpoint-*") if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.partition("-")[2]))


def _read(path: Path) -> Checkpoint | str:
    """Return a checkpoint, or what is wrong with it."""
    try:
        state = json.loads((path / STATE_FILE).read_bytes())
        if state["format"] != FORMAT_VERSION:
            return f"format {state['format']}, this trainer knows {FORMAT_VERSION}"
        for name, entry in state["files"].items():
            if _sha256(path / name) != entry["sha256"]:
                return f"{name} is damaged"
        reader = ReaderState.from_dict(state["reader"])
        return Checkpoint(path, int(state["step"]), reader, state["identity"], state["config"])
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


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

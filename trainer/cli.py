"""``python -m trainer CONFIG.toml``: exit codes and the lines around a run.

Exit codes: 0 finished or stopped with a checkpoint, 1 the training failed or, with
``--plan``, does not fit, 2 configuration or usage, 3 the dataset, 4 storage or lock.
"""

import argparse
import contextlib
import json
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from packing.format import ShardError
from trainer.architecture import ArchitectureError
from trainer.config import ConfigError, TrainerConfig, load_config
from trainer.machine import MachineError, find_profile
from trainer.stopping import StopRequest, StorageError, only_run_in


def main(arguments: Sequence[str] | None = None) -> int:
    """Train as a configuration says and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer",
        description="Train a model on a packed dataset. Started again, a run goes on from its "
        "newest checkpoint. Several processes: torchrun --nproc-per-node N -m trainer CONFIG.toml",
    )
    parser.add_argument("config", metavar="CONFIG.toml", type=Path)
    parser.add_argument(
        "--plan", action="store_true", help="predict memory and time instead of training"
    )
    parser.add_argument("--machine", default="h100", help="with --plan: h100, h200 or a JSON file")
    parser.add_argument(
        "--export",
        metavar="DIR",
        type=Path,
        help="write the newest checkpoint as a Hugging Face model instead of training",
    )
    parser.add_argument("--json", action="store_true", help="with --plan: one JSON object")
    options = parser.parse_args(arguments)
    path: Path = options.config
    if options.json and not options.plan:
        parser.error("--json belongs to --plan")
    if options.plan and options.export:
        parser.error("--plan and --export are two things; give one")
    try:
        if options.export:
            return _export(load_config(path), options.export)
        if options.plan:
            return _forecast(load_config(path), options.machine, as_object=options.json)
        with StopRequest() as stop:
            return _train(path, load_config(path), stop)
    except KeyboardInterrupt:
        return _fail(128 + signal.SIGINT, "interrupted; start again to go on from the checkpoint")
    except (ConfigError, MachineError) as error:
        return _fail(2, error)
    except ShardError as error:
        return _fail(3, error)
    except (StorageError, OSError) as error:
        return _fail(4, error)


def _forecast(config: TrainerConfig, machine: str, *, as_object: bool) -> int:
    """Print what a run takes on a machine; 1 where it does not fit."""
    from trainer.forecast import as_json, forecast, lines

    found = forecast(config, find_profile(machine))
    shown = [json.dumps(as_json(found))] if as_object else lines(found, config.training.steps)
    for line in shown:
        print(line)  # noqa: T201
    return 0 if found.fits else 1


def _export(config: TrainerConfig, folder: Path) -> int:
    """Write the newest checkpoint as a Hugging Face model."""
    from trainer.build import export_model
    from trainer.checkpoint import CheckpointError

    try:
        for line in export_model(config, folder):
            print(line, file=sys.stderr)  # noqa: T201
    except (ArchitectureError, CheckpointError) as error:
        return _fail(2, error)
    return 0


def _train(path: Path, config: TrainerConfig, stop: StopRequest) -> int:
    # Read by torch's threads when it is loaded. They then sleep while they wait for one another:
    # where other work shares the cores, spinning makes a step five times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # Loaded late: a mistake in the configuration is told at once.
    from trainer.checkpoint import CheckpointError
    from trainer.loop import train
    from trainer.progress import Progress
    from trainer.ranks import DeviceError, Ranks
    from trainer.remedy import TrainingError
    from trainer.safetensors import SafetensorsError

    try:
        ranks = Ranks(config.device)
    except DeviceError as error:
        return _fail(2, error)
    progress = Progress(config.training.steps, silent=not ranks.is_first)
    try:
        with only_run_in(Path(config.out)) if ranks.is_first else contextlib.nullcontext():
            outcome = train(config, ranks, progress, stop)
    except (ArchitectureError, CheckpointError) as error:
        return _fail(2, error)
    except SafetensorsError as error:
        return _fail(3, error)
    except TrainingError as error:
        return _fail(1, error)
    finally:
        ranks.close()
    again = shlex.join(["drystone", "train", str(path)])
    if not outcome.finished:
        progress.say(f"stopped after {outcome.step} of {config.training.steps} steps")
        progress.say(f"next: {again}")
        return 0
    progress.say(f"done: {Path(config.out) / 'metrics.jsonl'}, checkpoint-{outcome.step} beside it")
    if outcome.run is not None:
        query = "select * from training order by step desc limit 5"
        workdir = str(outcome.run.workdir)
        progress.say(f"next: {shlex.join(['drystone', 'query', query, '--workdir', workdir])}")
    else:
        progress.say(f"next: raise training.steps and {again}")
    return 0


def _fail(code: int, message: object) -> int:
    print(message, file=sys.stderr)  # noqa: T201
    return code

"""What to say when memory runs out: what the plan takes, and the settings that would fit."""

import contextlib
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import torch

from packing.format import ShardError
from trainer.config import ConfigError, TrainerConfig
from trainer.forecast import Forecast, forecast
from trainer.machine import PROFILES, MachineProfile
from trainer.plan import LayerPlan
from trainer.planner import Prediction, choose


class TrainingError(RuntimeError):
    """The run cannot go on; says at which step, why and what to do."""


@contextlib.contextmanager
def memory_told(step: int, config: TrainerConfig, device: torch.device) -> Iterator[None]:
    """Where memory runs out, say what would fit.

    Raises:
        TrainingError: memory ran out.
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        size = torch.cuda.mem_get_info(device)[1] if device.type == "cuda" else None
        raise TrainingError(
            f"step {step}: memory ran out ({str(error).splitlines()[0]}); "
            f"{memory_advice(config, this_machine(size))}"
        ) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error is that memory ran out, of a device or of the host."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"OutOfMemoryError", "MemoryError"}) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )


def this_machine(device_bytes: int | None) -> MachineProfile:
    """Return a profile with this machine's sizes, and the rates of one that is known.

    Args:
        device_bytes: memory of the CUDA device; None for a CPU, which computes in the host's.
    """
    host = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size = host if device_bytes is None else device_bytes
    return replace(PROFILES["h100"], name="this machine", device_bytes=size, host_bytes=host)


def memory_advice(config: TrainerConfig, machine: MachineProfile) -> str:
    """Return what the run takes of a machine's memory, and what to set so that it fits."""
    try:
        found = forecast(config, machine)
    except (ConfigError, ShardError):
        return "use a smaller model, or a plan of fewer rows per micro-batch (drystone replan)"
    work = found.work
    told = [f"the largest micro-batch has {work.tokens:,} tokens"]
    if found.is_configured and found.predicted is not None:
        told.append(f"by its plan it takes {_shown(found.predicted)}")
    device, host = _gb(machine.device_bytes), _gb(machine.host_bytes)
    told.append(f"there are {device} and {host} on the host")
    told.append(_remedy(config, found, choose(work, machine)))
    return "; ".join(told)


def _remedy(
    config: TrainerConfig, found: Forecast, chosen: tuple[LayerPlan, Prediction] | None
) -> str:
    if chosen is None:
        if not found.longest:
            return "no plan fits rows of any length: use a smaller model, or more ranks with fsdp"
        return (
            f"no plan fits; rows of up to {found.longest:,} tokens do: pack shorter ones "
            "(pack.seq_len), fewer per micro-batch (drystone replan), or use a smaller model"
        )
    plan, predicted = chosen
    if config.training.layer_plan() == plan:
        return (
            "that should fit: something else holds memory, or kernels and the allocator take the "
            f"rest; leave room, e.g. {_toml(replace(plan, alpha=0.0, resident_layers=0))}"
        )
    return f"this fits, with {_shown(predicted)}: {_toml(plan)}"


def _toml(plan: LayerPlan) -> str:
    values = ", ".join(f"{name} = {value}" for name, value in asdict(plan).items())
    return f'training.activations = "planned" and training.plan = {{ {values} }}'


def _shown(predicted: Prediction) -> str:
    return (
        f"{_gb(predicted.device)} ({_gb(predicted.states)} weights, gradients and moments, "
        f"{_gb(predicted.stored)} stored by layers, {_gb(predicted.working)} at work) and "
        f"{_gb(predicted.host)} on the host"
    )


def _gb(nbytes: Any) -> str:
    return f"{nbytes / 1e9:.3g} GB"

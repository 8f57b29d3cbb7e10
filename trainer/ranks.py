"""The processes of a run: one, or those that torchrun started."""

import os
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn


class DeviceError(ValueError):
    """The device that was asked for is not there; says which and what to do."""


class Ranks:
    """This process among the others, and what they do together.

    Gradients are summed, not averaged: every rank divides its loss by the weight of the whole step,
    so the sum is the gradient that one process would have made.

    Args:
        device: ``auto``, ``cpu``, ``cuda`` (the device of the process's local rank) or ``cuda:N``.

    Raises:
        DeviceError: there is no such CUDA device.
    """

    def __init__(self, device: str) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        local = int(os.environ.get("LOCAL_RANK", "0"))
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if device == "cuda":
            device = f"cuda:{local}"
        self.device = torch.device(device)
        if self.device.type == "cuda":
            if (self.device.index or 0) >= torch.cuda.device_count():
                raise DeviceError(
                    f"device {device} is asked for, and torch {torch.__version__} sees "
                    f'{torch.cuda.device_count()} CUDA devices; set device = "cpu" or "auto", '
                    "or start as many processes as there are devices"
                )
            torch.cuda.set_device(self.device)
        if self.world > 1:
            backend = "nccl" if self.device.type == "cuda" else "gloo"
            dist.init_process_group(backend, timeout=timedelta(minutes=30))

    @property
    def is_first(self) -> bool:
        """Whether this process writes what is written once."""
        return self.rank == 0

    def sum(self, values: Iterable[float]) -> list[float]:
        """Return each value summed over the ranks, in float64."""
        total = torch.tensor(list(values), dtype=torch.float64, device=self.device)
        if self.world > 1:
            dist.all_reduce(total)
        found: list[float] = total.tolist()
        return found

    def agree(self, values: Iterable[float]) -> list[float]:
        """Return the values of the first rank, on all of them."""
        return self.sum(value if self.is_first else 0.0 for value in values)

    def sum_gradients(self, weights: Iterable[nn.Parameter]) -> None:
        """Sum the gradients over the ranks; a rank that trained nothing adds zero."""
        if self.world == 1:
            return
        pending = []
        for weight in weights:
            if weight.grad is None:
                dtype = weight.grad_dtype or weight.dtype  # type: ignore[attr-defined]
                weight.grad = torch.zeros_like(weight, dtype=dtype)
            pending.append(dist.all_reduce(weight.grad, async_op=True))
        for work in pending:
            work.wait()

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, in the order of the ranks."""
        found: list[Any] = [value]
        if self.world > 1:
            found = [None] * self.world
            dist.all_gather_object(found, value)
        return found

    def wait_for_all(self) -> None:
        """Go on when every rank has come here."""
        if self.world > 1:
            dist.barrier()

    def to_device(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return tensors on this process's device; ``cu_seqlens`` stays where it is read."""
        return {
            name: x if name == "cu_seqlens" else x.to(self.device, non_blocking=True)
            for name, x in batch.items()
        }

    def close(self) -> None:
        """Leave the group."""
        if self.world > 1:
            dist.destroy_process_group()

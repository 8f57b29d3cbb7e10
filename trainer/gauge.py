"""What a step took: its FLOP, the time its copies were waited for, and its memory."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from packing.cost import ModelShape, attention_squares, row_cost
from packing.reader import MicroBatch
from trainer.copies import Bytes, CopyEngine, Ticket
from trainer.layout import Element, pass_bytes
from trainer.machine import PROFILES
from trainer.model import Decoder
from trainer.ranks import Ranks
from trainer.stash import Workspace


class TimedCopies:
    """An engine whose waits are timed: on a CUDA device between two events, else by the clock.

    What an engine copies at once, as on a CPU, is waited for all the time that it copies.

    Args:
        engine: makes the copies.
        device: that computes.
    """

    def __init__(self, engine: CopyEngine, device: torch.device) -> None:
        self._engine, self._device = engine, device
        self._seconds = 0.0
        self._events: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def offload(self, source: Bytes, target: Bytes) -> Ticket:
        """Begin to copy from device to host."""
        began = time.perf_counter()
        ticket = self._engine.offload(source, target)
        self._add(began)
        return ticket

    def fetch(self, source: Bytes, target: Bytes) -> Ticket:
        """Begin to copy from host to device."""
        began = time.perf_counter()
        ticket = self._engine.fetch(source, target)
        self._add(began)
        return ticket

    def wait(self, ticket: Ticket) -> None:
        """Let all computation called after this come behind the copy."""
        if self._device.type != "cuda":
            began = time.perf_counter()
            self._engine.wait(ticket)
            self._add(began)
            return
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        first.record()
        self._engine.wait(ticket)
        last.record()
        self._events.append((first, last))

    def release(self, buffer: Bytes) -> None:
        """Say that what a buffer holds is not needed any more."""
        self._engine.release(buffer)

    def waited(self) -> float:
        """Return the seconds since this was asked last; the device must have come to its end."""
        if self._events:
            self._events[-1][1].synchronize()
            self._seconds += sum(a.elapsed_time(b) for a, b in self._events) / 1e3
            self._events.clear()
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def _add(self, began: float) -> None:
        if self._device.type != "cuda":
            self._seconds += time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Reading:
    """What one step took, over all ranks but where it says this rank."""

    tflop: float
    """TFLOP of the model by :mod:`packing.cost`: causal pairs once, nothing that is made again."""
    exposed_seconds: float | None
    """Seconds that this rank waited for copies; None where activations are not planned."""
    device_bytes: int | None
    """Most memory of this rank's device so far; None on a CPU."""


class Gauge:
    """Measures the steps of a run.

    Args:
        model: of the run, on its device.
        ranks: all of them measure.
    """

    def __init__(self, model: Decoder, ranks: Ranks) -> None:
        self._model, self._ranks = model, ranks
        self._copies: TimedCopies | None = None
        self.predicted = (0, 0)
        """Most bytes that the plan says are stored on the device and on the host, of any pass."""
        if model.plan is not None:
            workspace = Workspace(ranks.device)
            self._copies = TimedCopies(workspace.copies, ranks.device)
            workspace.copies = self._copies
            model.workspace = workspace

    @property
    def peak(self) -> float | None:
        """FLOP per second of all devices by the data sheet, None where it is not known."""
        if self._ranks.device.type != "cuda":
            return None
        name = torch.cuda.get_device_name(self._ranks.device).lower()
        known = [p.peak for key, p in PROFILES.items() if key in name]
        return known[0] * self._ranks.world if known else None

    def read(self, micro_batches: Sequence[MicroBatch]) -> Reading:
        """Return what the step with these micro-batches took."""
        shape, device = self._model.shape, self._ranks.device
        (tflop,) = self._ranks.sum((sum(tflop_of(m, shape) for m in micro_batches if m.n_rows),))
        self._predict(micro_batches)
        peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
        return Reading(tflop, self._copies.waited() if self._copies else None, peak)

    def stored(self) -> tuple[int, int]:
        """Return the most bytes that layers stored on the device and on the host."""
        workspace = self._model.workspace
        return (workspace.device_peak, workspace.host.peak) if workspace else (0, 0)

    def lines(self) -> list[str]:
        """Return what memory was predicted and seen, in words; nothing where nothing is planned."""
        if self._model.plan is None or not any(self.stored()):
            return []
        (device, host), (told, away) = self.stored(), self.predicted
        text = (
            f"stored by layers: {device:,} bytes on the device (predicted {told:,}), "
            f"{host:,} on the host (predicted {away:,})"
        )
        if self._ranks.device.type == "cuda":
            text += f"; most allocated {torch.cuda.max_memory_allocated(self._ranks.device):,}"
        return [text]

    def _predict(self, micro_batches: Sequence[MicroBatch]) -> None:
        model = self._model
        if model.plan is None:
            return
        narrow = torch.empty((), dtype=model.dtype).element_size()
        element = Element(narrow, max(narrow, 4))
        for micro in micro_batches:
            if micro.n_rows:
                bounds = micro.cu_seqlens.tolist()
                found = pass_bytes(model.shape, bounds, model.plan, element)
                device, host = self.predicted
                self.predicted = (max(device, found.device), max(host, found.host))


def tflop_of(micro: MicroBatch, shape: ModelShape) -> float:
    """Return the TFLOP of a micro-batch, forward and backward."""
    squares = attention_squares(micro.length.astype(np.int64), shape)
    return float(row_cost(float(len(micro.input_ids)), float(squares.sum()), shape))

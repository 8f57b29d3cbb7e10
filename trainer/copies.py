"""Copies between device and host beside the computation, and how they are waited for.

The rules that a schedule keeps, with any engine:

* what a copy reads or writes is left alone until its ticket was waited for;
* what was released holds nothing any more.

``LazyCopies`` makes every break of these rules a wrong result, on a CPU, in every run.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

Bytes = Sequence[Tensor]
"""Consecutive flat uint8 tensors."""


class Ticket:
    """A copy under way."""

    __slots__ = ("event", "pending")

    def __init__(self, event: "torch.cuda.Event | None" = None) -> None:
        self.event = event
        self.pending: tuple[Bytes, Bytes] | None = None


class CopyEngine(Protocol):
    """Makes copies, in the order of the calls in each direction."""

    def offload(self, source: Bytes, target: Bytes) -> Ticket:
        """Begin to copy from device to host, behind all computation called before."""

    def fetch(self, source: Bytes, target: Bytes) -> Ticket:
        """Begin to copy from host to device, behind all computation called before."""

    def wait(self, ticket: Ticket) -> None:
        """Let all computation called after this come behind the copy."""

    def release(self, buffer: Bytes) -> None:
        """Say that what a buffer holds is not needed any more."""


class EagerCopies:
    """Copies at once; for a CPU, where there is nothing to overlap."""

    def offload(self, source: Bytes, target: Bytes) -> Ticket:
        """Copy."""
        _copy(source, target)
        return Ticket()

    def fetch(self, source: Bytes, target: Bytes) -> Ticket:
        """Copy."""
        _copy(source, target)
        return Ticket()

    def wait(self, ticket: Ticket) -> None:
        """Return; the copy is done."""

    def release(self, buffer: Bytes) -> None:
        """Return."""


class LazyCopies:
    """Copies as late as the rules allow, and fills what is released with NaN; for tests.

    A copy whose ticket nobody waits for is never made, and one that is waited for too late copies
    what its source holds then.
    """

    def offload(self, source: Bytes, target: Bytes) -> Ticket:
        """Note the copy."""
        return self._note(source, target)

    def fetch(self, source: Bytes, target: Bytes) -> Ticket:
        """Note the copy."""
        return self._note(source, target)

    def wait(self, ticket: Ticket) -> None:
        """Make the copy, the first time."""
        if ticket.pending is not None:
            _copy(*ticket.pending)
            ticket.pending = None

    def release(self, buffer: Bytes) -> None:
        """Fill with NaN: bytes of ones, in every floating dtype."""
        for part in buffer:
            part.fill_(255)

    def _note(self, source: Bytes, target: Bytes) -> Ticket:
        ticket = Ticket()
        ticket.pending = (source, target)
        return ticket


class CudaCopies:
    """Copies on two streams of a CUDA device, one for each direction.

    A copy comes behind what the computing stream was given before, and a wait makes the computing
    stream, not the process, wait. The computing stream is the current one at the call: in a
    backward pass that is the one of the forward pass.

    Args:
        device: the CUDA device.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._down: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._up: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def offload(self, source: Bytes, target: Bytes) -> Ticket:
        """Copy on the stream towards the host."""
        return self._begin(self._down, source, target)

    def fetch(self, source: Bytes, target: Bytes) -> Ticket:
        """Copy on the stream towards the device."""
        return self._begin(self._up, source, target)

    def wait(self, ticket: Ticket) -> None:
        """Make the computing stream wait."""
        if ticket.event is not None:
            torch.cuda.current_stream(self._device).wait_event(ticket.event)

    def release(self, buffer: Bytes) -> None:
        """Return; the streams keep the order."""

    def _begin(self, stream: "torch.cuda.Stream", source: Bytes, target: Bytes) -> Ticket:
        stream.wait_stream(torch.cuda.current_stream(self._device))
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            _copy(source, target)
            event.record(stream)
        for part in (*source, *target):
            if part.is_cuda:
                part.record_stream(stream)
        return Ticket(event)


def copies_for(device: torch.device) -> CopyEngine:
    """Return the engine for a device."""
    return CudaCopies(device) if device.type == "cuda" else EagerCopies()


def _copy(source: Bytes, target: Bytes) -> None:
    for part, place in zip(source, target, strict=True):
        place.copy_(part, non_blocking=True)

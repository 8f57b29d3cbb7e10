"""Stopping a run between two steps, and keeping two runs out of one folder."""

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self


class StorageError(RuntimeError):
    """The folder of the run cannot be used; says why and what to do."""


PATIENCE_S = 2.0
"""Seconds after which another Ctrl-C is meant as one."""


class StopRequest:
    """Notes SIGTERM and Ctrl-C, so that the run ends behind its step.

    A launcher often hands on what the whole process group got already, so the same signal again
    means nothing new; only a later Ctrl-C interrupts at once.
    """

    def __init__(self) -> None:
        self.requested = False
        self._since = 0.0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self.requested:
            self.requested, self._since = True, now
        elif number == signal.SIGINT and now - self._since > PATIENCE_S:
            raise KeyboardInterrupt


@contextlib.contextmanager
def only_run_in(out: Path) -> Iterator[None]:
    """Hold the lock of a run's folder; a killed process leaves none.

    Raises:
        StorageError: another process trains there, or the folder cannot be made.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        handle = os.open(out / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(
            f"{out}: cannot be written to ({error.strerror}); give another folder as out"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        raise StorageError(
            f"{out}: another run trains there; wait for it, or give another folder as out"
        ) from error
    try:
        yield
    finally:
        os.close(handle)

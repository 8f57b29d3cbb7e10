"""What a run leaves to be read: a line per step, and events for the catalog."""

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.lineage import PipelineRun

METRICS_FILE = "metrics.jsonl"
EVENTS_FILE = "training.jsonl"


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One line of ``metrics.jsonl``."""

    step: int
    """From 0, as in the plan; a second epoch counts on."""
    loss: float | None
    """Weighted mean over the step's trained tokens, in nats; None where it is not finite, or nothing
    could be read."""
    grad_norm: float | None
    """Global norm of the gradient before clipping; None where the loss is."""
    lr: float
    """Learning rate."""
    tokens: int
    """Tokens of the step, of all ranks."""
    seconds: float
    """Wall-clock time of the step."""
    rows: int
    """Packed rows of the step, of all ranks."""
    skipped: bool = False
    """Whether the step left the weights as they were."""
    tflop: float | None = None
    """TFLOP of the model in the step, as :mod:`packing.cost` counts them."""
    mfu: float | None = None
    """Model FLOP utilization; None where the device's peak is not known."""
    exposed_seconds: float | None = None
    """Seconds that the first rank waited for copies; None where activations are not planned."""
    device_bytes: int | None = None
    """Most memory of the first rank's device so far; None on a CPU."""


class StepLines:
    """A file of lines, one a step: whole, each flushed.

    Args:
        path: the file.
        step: the step that the run goes on with; lines of it and later ones are cut.
    """

    def __init__(self, path: Path, step: int) -> None:
        _cut(path, step)
        self._file = path.open("a", encoding="utf-8")

    def write(self, line: Mapping[str, Any]) -> None:
        """Append a step."""
        self._file.write(json.dumps(line, allow_nan=False) + "\n")
        self._file.flush()

    def sync(self) -> None:
        """Flush to the disk: a checkpoint must not outlive the lines before it."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _cut(path: Path, step: int) -> None:
    """Cut a file of lines before the first that is incomplete, or of ``step`` or later."""
    if not path.exists():
        return
    with path.open("r+b") as stream:
        keep = 0
        for line in stream:
            if not line.endswith(b"\n") or not _is_before(line, step):
                break
            keep += len(line)
        stream.truncate(keep)


def _is_before(line: bytes, step: int) -> bool:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return bool(json.loads(line)["step"] < step)
    return False


class Events:
    """Events of a run, appended to ``<workdir>/runs/<run_id>/training.jsonl``.

    The catalog shows them as ``training``. A dataset outside a work directory has no run, and
    nothing is written.

    Args:
        run: the run that made the dataset.
        out: folder of the training run.
    """

    def __init__(self, run: PipelineRun | None, out: Path) -> None:
        self.out = str(out.absolute())
        self.run = run

    def add(self, step: int, event: str, rows: Iterable[int] = (), detail: str = "") -> None:
        """Append an event, one line per row involved, or one without a row.

        Args:
            step: the step it belongs to.
            event: start, spike, skip, requeue, retry, drop, lower, raise, damaged, checkpoint or
                end.
            rows: ids of packed rows.
            detail: why, in words.
        """
        if self.run is None:
            return
        common = {"run_id": self.run.folder.name, "out": self.out, "step": step, "event": event}
        ids: list[int | None] = [*rows] or [None]
        told = {"detail": detail} if detail else {}
        lines = [json.dumps({**common, "row_id": row, **told}) + "\n" for row in ids]
        # One write of an appending descriptor: lines of runs side by side do not mix.
        handle = os.open(
            self.run.folder / EVENTS_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
        )
        try:
            os.write(handle, "".join(lines).encode())
        finally:
            os.close(handle)

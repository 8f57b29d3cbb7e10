"""What a run says while it goes on, on stderr: one line per step, rewritten on a terminal."""

import sys
from typing import TextIO

from trainer.metrics import StepMetrics


class Progress:
    """Lines on a stream; silent on all ranks but the first.

    Args:
        steps: steps of the run.
        silent: say nothing.
        stream: where to, stderr by default.
    """

    def __init__(self, steps: int, *, silent: bool = False, stream: TextIO | None = None) -> None:
        self._steps = steps
        self._silent = silent
        self._stream = stream or sys.stderr
        self._rewrites = self._stream.isatty()
        self._open = 0
        """Width of the line that is still being rewritten."""

    def say(self, text: str) -> None:
        """Write a line that stays."""
        if self._silent:
            return
        if self._open:
            self._stream.write("\n")
            self._open = 0
        self._stream.write(text + "\n")
        self._stream.flush()

    def step(self, metrics: StepMetrics) -> None:
        """Show a step."""
        if self._silent:
            return
        text = self._line(metrics)
        if not self._rewrites or metrics.skipped:
            self.say(text)
            return
        self._stream.write("\r" + text.ljust(self._open))
        self._stream.flush()
        self._open = len(text)

    def _line(self, metrics: StepMetrics) -> str:
        place = f"step {metrics.step:>{len(str(self._steps))}} of {self._steps}"
        speed = f"{_count(metrics.tokens / max(metrics.seconds, 1e-9))} tokens/s"
        if metrics.loss is None or metrics.grad_norm is None:
            return f"{place}  skipped: no finite loss and gradient  {speed}"
        found = f"loss {metrics.loss:.4f}  gradient {metrics.grad_norm:.3f}"
        if metrics.skipped:
            return f"{place}  skipped: {found}  {speed}"
        return f"{place}  {found}  lr {metrics.lr:.2e}  {speed}{_work(metrics)}"


def _work(metrics: StepMetrics) -> str:
    """Return utilization, or FLOP where it is not known, and the time that copies were waited for."""
    seconds, text = max(metrics.seconds, 1e-9), ""
    if metrics.mfu is not None:
        text += f"  MFU {metrics.mfu:.1%}"
    elif metrics.tflop is not None:
        text += f"  {_count(metrics.tflop * 1e12 / seconds)}FLOP/s"
    if metrics.exposed_seconds is not None:
        text += f"  copies {metrics.exposed_seconds / seconds:.1%}"
    return text


def _count(number: float) -> str:
    """Return a number in three digits, e.g. ``24.1k``."""
    for unit in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g}T"

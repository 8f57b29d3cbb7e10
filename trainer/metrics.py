"""What a run leaves to be read: a line per step, and events for the catalog."""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

METRICS_FILE = "metrics.jsonl"
EVENTS_FILE = "training.jsonl"


@dataclass(frozen=True, slots=True)
class StepMetrics:
    """One line of ``metrics.jsonl``."""

    step: int
    """From 0, as in the plan; a second epoch counts on."""
    loss: float | None
    """Weighted mean over the step's trained tokens, in nats; None in a step that was skipped."""
    grad_norm: float | None
    """Global norm of the gradient before clipping; None in a step that was skipped."""
    lr: float
    """Learning rate."""
    tokens: int
    """Tokens of the step, of all ranks."""
    seconds: float
    """Wall-clock time of the step."""
    rows: int
    """Packed rows of the step, of all ranks."""


class MetricsFile:
    """``metrics.jsonl``: whole lines, each flushed.

    Args:
        out: folder of the run.
        step: the step that the run goes on with; lines of it and later ones are cut.
    """

    def __init__(self, out: Path, step: int) -> None:
        self.path = out / METRICS_FILE
        _cut(self.path, step)
        self._file = self.path.open("a", encoding="utf-8")

    def write(self, metrics: StepMetrics) -> None:
        """Append a step."""
        self._file.write(json.dumps(asdict(metrics), allow_nan=False) + "\n")
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

    The run is the newest one that ended well and made the dataset. A dataset outside a work
    directory has no such file, and nothing is written.

    Args:
        dataset: folder of the dataset.
        out: folder of the training run.
    """

    def __init__(self, dataset: str, out: Path) -> None:
        self.out = str(out.absolute())
        self.run = run_of(Path(dataset).absolute())

    def add(self, step: int, event: str, rows: Iterable[int] = ()) -> None:
        """Append an event, one line per row involved, or one without a row.

        Args:
            step: the step it belongs to.
            event: start, skip, checkpoint or end.
            rows: ids of packed rows.
        """
        if self.run is None:
            return
        common = {"run_id": self.run.name, "out": self.out, "step": step, "event": event}
        ids: list[int | None] = [*rows] or [None]
        lines = [json.dumps({**common, "row_id": row}) + "\n" for row in ids]
        # One write of an appending descriptor: lines of runs side by side do not mix.
        handle = os.open(self.run / EVENTS_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, "".join(lines).encode())
        finally:
            os.close(handle)


def run_of(dataset: Path) -> Path | None:
    """Return the folder of the newest run that ended well and names this dataset, or None."""
    workdir = dataset.parent.parent
    found = [
        (str(run.get("finished", "")), path.parent.name, path.parent)
        for path, run in _runs(workdir)
        if run.get("status") == "ok" and dataset.resolve() in _outputs(workdir, run)
    ]
    return max(found)[2] if found else None


def _runs(workdir: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(workdir.glob("runs/*/run.json")):
        with contextlib.suppress(OSError, ValueError):
            run = json.loads(path.read_bytes())
            if isinstance(run, dict):
                yield path, run


def _outputs(workdir: Path, run: dict[str, Any]) -> set[Path]:
    """Return the folders that a run names as its dataset or as a stage's artifact."""
    named = [run.get("dataset"), *(stage.get("path") for stage in run.get("stages", []))]
    return {(workdir / name).resolve() for name in named if name}

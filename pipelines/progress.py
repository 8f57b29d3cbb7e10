"""What a run shows while it works, and the table it ends with."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

PLAIN_INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True)
class StageProgress:
    """How far a stage is."""

    stage: str
    done: int
    """Finished tasks."""
    total: int
    """All tasks known so far; 0 while they are still being listed."""
    rows: int = 0
    """Rows written so far."""
    bytes: int = 0
    """Bytes written so far."""
    cached: bool = False
    """The stage's artifact was there already."""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.cached or (self.total > 0 and self.done >= self.total)


class Reporter(Protocol):
    """Something that shows progress for as long as its block lasts."""

    def __enter__(self) -> "Reporter":
        """Start showing."""

    def __exit__(self, *_: object) -> None:
        """Stop showing."""

    def __call__(self, event: StageProgress) -> None:
        """Show one stage's progress."""


def reporter(stream: TextIO | None = None) -> Reporter:
    """Return live bars for a terminal and plain lines for anything else; standard error by default."""
    stream = stream or sys.stderr
    return LiveReporter(stream) if stream.isatty() else PlainReporter(stream)


class PlainReporter:
    """One line per stage when it starts, every few seconds while it runs, and when it is done."""

    def __init__(self, stream: TextIO, interval_s: float = PLAIN_INTERVAL_S) -> None:
        self._stream = stream
        self._interval_s = interval_s
        self._started: dict[str, float] = {}
        self._shown: dict[str, tuple[float, StageProgress]] = {}

    def __enter__(self) -> "PlainReporter":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.flush()

    def __call__(self, event: StageProgress) -> None:
        """Print the event unless the same stage was shown a moment ago."""
        now = time.monotonic()
        started = self._started.setdefault(event.stage, now)
        at, last = self._shown.get(event.stage, (-self._interval_s, None))
        if event == last or (last is not None and last.finished):
            return
        if last is None or event.finished or now - at >= self._interval_s:
            self._shown[event.stage] = (now, event)
            print(self._line(event, now - started), file=self._stream, flush=True)

    def _line(self, event: StageProgress, elapsed_s: float) -> str:
        if event.cached:
            return f"{event.stage:<16} cached"
        tasks = f"{event.done}/{event.total} tasks" if event.total else "listing tasks"
        return f"{event.stage:<16} {tasks:<18} {_amounts(event):<28} {elapsed_s:7.1f} s".rstrip()


class LiveReporter:
    """One bar per stage on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<16}"),
            BarColumn(bar_width=30),
            _TasksColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[amounts]}"),
            console=Console(file=stream),
            refresh_per_second=4,
        )
        self._bars: dict[str, Any] = {}

    def __enter__(self) -> "LiveReporter":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, event: StageProgress) -> None:
        """Draw the stage's bar anew."""
        if event.stage not in self._bars:
            self._bars[event.stage] = self._progress.add_task(event.stage, total=None, amounts="")
        self._progress.update(
            self._bars[event.stage],
            total=1 if event.cached else event.total or None,
            completed=1 if event.cached else event.done,
            amounts="cached" if event.cached else _amounts(event),
        )


class _TasksColumn(ProgressColumn):
    """Tasks done of all tasks."""

    def render(self, task: Task) -> Text:
        """Return the two counts."""
        return Text(f"{task.completed:.0f}/{task.total:.0f}" if task.total else "listing")


def _amounts(event: StageProgress) -> str:
    parts = []
    if event.rows:
        parts.append(f"{event.rows:,} rows")
    if event.bytes:
        parts.append(size(event.bytes))
    return ", ".join(parts)


def size(count: float) -> str:
    """Return a number of bytes for people: ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def duration(seconds: float) -> str:
    """Return a duration for people: ``8.2 s``, ``3 min 05 s``, ``2 h 10 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def print_summary(summary: Mapping[str, Any], stream: TextIO | None = None) -> None:
    """Print the table that a run ends with, and the folders of its results.

    Args:
        summary: the object that ``run --json`` prints.
        stream: where to; standard output by default.
    """
    stream = stream or sys.stdout
    console = Console(file=stream, highlight=False)
    console.print(stages_table(summary["stages"]))
    counts = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    counts.add_column()
    counts.add_column(justify="right")
    for name, value in _accounts(summary):
        counts.add_row(name, value)
    console.print(counts)
    # Paths are printed whole, to be copied; rich would wrap them.
    for label, key in (("run", "run_id"), ("dataset", "dataset"), ("catalog", "catalog")):
        if summary.get(key):
            print(f"{label:<9} {summary[key]}", file=stream)


def _accounts(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the run's accounts as (name, amount): what came in and where it went."""
    rows = [
        ("in", f"{summary['lines']:,}"),
        ("rejected", f"{summary['rejected']:,}"),
        ("ingested", f"{summary['ingested']:,}"),
    ]
    dropped = sorted(summary["dropped"].items(), key=lambda item: (-item[1], item[0]))
    rows += [(f"  dropped: {reason}", f"{count:,}") for reason, count in dropped if count]
    if summary.get("against"):
        rows.append(("  of these against earlier runs", f"{summary['removed_against']:,}"))
    rows.append(("kept", f"{summary['kept']:,}"))
    stages = {stage["stage"] for stage in summary["stages"]}
    if "encode" in stages:
        rows.append(("tokens", f"{summary['tokens']:,}"))
    if "pack" in stages:
        rows.append(("packed rows", f"{summary['packed_rows']:,}"))
        rows.append(("padding", f"{summary['padding']:.3%}"))
        if summary.get("padding_alignment"):
            rows.append(("  of it alignment", f"{summary['padding_alignment']:.3%}"))
    rows.append(("wall time", duration(summary["wall_s"])))
    rows.append(("CPU time", duration(summary["cpu_s"])))
    if summary.get("peak_rss_bytes"):
        rows.append(("peak memory", size(summary["peak_rss_bytes"])))
    return rows


def stages_table(stages: list[Mapping[str, Any]]) -> Table:
    """Return the table of a run's stages: rows in and out, size, wall and CPU time."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("stage", "", "rows in", "rows out", "size", "wall", "CPU"):
        table.add_column(heading, justify="left" if heading in ("stage", "") else "right")
    for stage in stages:
        cells = [_count(stage.get("rows_in")), _count(stage.get("rows_out"))]
        cells.append(size(stage["bytes"]) if stage.get("bytes") else "")
        if stage["cached"]:
            table.add_row(stage["stage"], "cached", *cells, "", "")
        else:
            times = duration(stage["wall_s"]), duration(stage["cpu_s"])
            table.add_row(stage["stage"], "", *cells, *times)
    return table


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"

"""What the first rank writes down of a run: metrics, receipts and events."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from trainer.lineage import PipelineRun
from trainer.metrics import METRICS_FILE, Events, StepLines, StepMetrics
from trainer.receipts import RECEIPTS_FILE, Chain, Receipt


class Journal:
    """The files of a run; on other ranks than the first one nothing is written.

    Args:
        out: folder of the run.
        run: the pipeline run that made the dataset, if any.
        chain: hash over the receipts so far.
        writes: whether this rank is the one.
    """

    def __init__(self, out: Path, run: PipelineRun | None, chain: Chain, *, writes: bool) -> None:
        self.out, self.run, self.chain, self.writes = out, run, chain, writes
        self._events = Events(run, out)
        self._metrics: StepLines | None = None
        self._receipts: StepLines | None = None

    def open(self, step: int) -> None:
        """Cut the files before a step, and go on with it."""
        if self.writes:
            self._metrics = StepLines(self.out / METRICS_FILE, step)
            self._receipts = StepLines(self.out / RECEIPTS_FILE, step)

    def add(self, metrics: StepMetrics, receipt: Receipt) -> None:
        """Write a step down."""
        line = self.chain.add(receipt)
        if self._metrics is not None and self._receipts is not None:
            self._receipts.write(line)
            self._metrics.write(asdict(metrics))

    def event(self, step: int, event: str, rows: Sequence[int] = (), detail: str = "") -> None:
        """Write an event down, a line for each row concerned."""
        if self.writes:
            self._events.add(step, event, rows, detail)

    def sync(self) -> None:
        """Flush to the disk."""
        for file in (self._metrics, self._receipts):
            if file is not None:
                file.sync()

    def close(self) -> None:
        """Close the files."""
        for file in (self._metrics, self._receipts):
            if file is not None:
                file.close()

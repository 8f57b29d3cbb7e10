"""The training loop: steps of the plan in order, each one optimizer update.

A step whose loss or gradient is not finite, or a spike, leaves weights and optimizer as they are and
is logged.
SIGTERM (and Ctrl-C) ends the run after the step with a checkpoint. Started again, a run goes on
from its newest complete checkpoint, on the CPU to the same bits with the same number of threads.
"""

import contextlib
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from packing.format import ShardError
from packing.reader import PackedReader
from trainer import checkpoint
from trainer.anomalies import Spike, Watch
from trainer.build import build_model, check_dataset, describe, make_deterministic
from trainer.config import TrainerConfig
from trainer.gauge import Gauge
from trainer.gradients import StepGradients, clip_gradients, step_gradients
from trainer.journal import Journal
from trainer.layerwise import LayerUpdates, step_by_layers
from trainer.lineage import PipelineRun, find_dataset, run_of
from trainer.metrics import StepMetrics
from trainer.optim import build_optimizer, learning_rate
from trainer.pieces import training_state
from trainer.progress import Progress
from trainer.ranks import Ranks
from trainer.receipts import Chain, PlanRows, Receipt
from trainer.remedy import TrainingError, memory_told
from trainer.saver import Saver
from trainer.sharding import shard
from trainer.source import Portion, StepSource
from trainer.stopping import StopRequest

MAX_SKIPPED = 20
"""Steps in a row that may be skipped; then the run is lost and says so."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    step: int
    """Steps done."""
    finished: bool
    """Whether these are all steps of the run."""
    run: PipelineRun | None
    """The pipeline run that made the dataset, if it lies in a work directory."""


def train(config: TrainerConfig, ranks: Ranks, progress: Progress, stop: StopRequest) -> Outcome:
    """Train as configured, from the newest checkpoint in ``out`` on.

    Raises:
        CheckpointError: the checkpoint is of another run.
        ShardError: the dataset is unfinished or damaged, or the ranks do not divide its slots.
        TrainingError: no step had a finite loss for too long, or memory ran out.
    """
    make_deterministic()
    dataset = find_dataset(config.dataset)
    with PackedReader(dataset) as reader:
        if not reader.n_steps:
            raise ShardError(
                f"{dataset}: has no row to train on; build a dataset of more documents"
            )
        run = Run(config, reader, ranks, progress)
        return run.go(stop)


class Run:
    """One start of the trainer: its model, where it stands and what it writes."""

    def __init__(
        self, config: TrainerConfig, reader: PackedReader, ranks: Ranks, progress: Progress
    ) -> None:
        self.config, self.reader, self.ranks, self.progress = config, reader, ranks, progress
        self.out = Path(config.out)
        check_dataset(config, reader)
        self.identity = checkpoint.identity(config, reader.plan.plan_fingerprint, reader.vocab_size)
        self.step = 0
        self.state = reader.initial_state()
        self.watch = Watch(config.anomalies, config.seed)
        self.plan_rows = PlanRows(reader)
        self.saved = 0
        """The step of the newest checkpoint."""
        self.saver = Saver(
            self.out,
            ranks.rank,
            ranks.world,
            keep=config.checkpoint.keep_latest_k,
            background=config.checkpoint.background,
        )
        made_by = run_of(reader.folder.path) if reader.folder.local else None
        self.journal = Journal(self.out, made_by, Chain.begin(reader), writes=ranks.is_first)

    def go(self, stop: StopRequest) -> Outcome:
        """Build or restore the model and train it to the last step or a stop."""
        found, passed = checkpoint.newest(self.out)
        for reason in passed:
            self.progress.say(f"passed over {reason}")
        if found is not None:
            same = self.config.checkpoint.world == "same"
            checkpoint.check(found, self.identity, self.ranks.world if same else None)
            self.step = self.saved = found.step
            self.state = found.reader
            self.watch = Watch.of(self.config.anomalies, self.config.seed, found.watch)
            self.journal.chain = Chain(found.chain)
        if self.step >= self.config.training.steps:
            self.progress.say(f"finished before: {found.path if found else ''}")
            return Outcome(self.step, True, self.journal.run)
        if self.ranks.is_first:
            self.saver.clear()
        self._build(found)
        for line in describe(self.config, self.reader, self.model, self.ranks, found):
            self.progress.say(line)
        self._loop(stop)
        return Outcome(self.step, self.step >= self.config.training.steps, self.journal.run)

    def _build(self, found: checkpoint.Checkpoint | None) -> None:
        config, vocab = self.config, self.reader.vocab_size
        self.model = build_model(config, vocab, self.ranks.device, is_new=found is None)
        if config.training.parallel == "fsdp" and self.ranks.world > 1:
            shard(self.model, self.ranks.world, self.ranks.device)
        self.gauge = Gauge(self.model, self.ranks)
        self.optimizer = build_optimizer(self.model, config.optimizer, self.model.layers)
        self.updates: LayerUpdates | None = None
        if config.training.update == "layer":
            self.updates = LayerUpdates(self.model, self.optimizer, self.ranks)
        if found is not None:
            ranks = self.ranks
            checkpoint.restore(
                found, self.model, self.optimizer, ranks.device, ranks.rank, ranks.world
            )

    def _loop(self, stop: StopRequest) -> None:
        source = StepSource(self.reader, self.ranks, self.state)
        self._event("start")
        with contextlib.closing(self.journal), contextlib.closing(source):
            self.journal.open(self.step)
            self._steps(source, stop)
            if self.step > self.saved:
                self._save()
            self.saver.wait()
            self._log_saved()
            self.ranks.wait_for_all()
            for line in self.gauge.lines():
                self.progress.say(line)
        left = ", ".join(str(retry.plan_step) for retry in self.watch.queue)
        self._event(
            "end", detail=f"steps of the plan not trained again yet: {left}" if left else ""
        )

    def _steps(self, source: StepSource, stop: StopRequest) -> None:
        while self.step < self.config.training.steps and not self._stops(stop):
            self.progress.step(self._train_step(source))
            if self.watch.in_a_row == MAX_SKIPPED:
                raise TrainingError(
                    f"step {self.step - 1}: {MAX_SKIPPED} steps in a row were left out, the last "
                    f"one since {self.reason}; lower optimizer.lr, or look at the rows of the "
                    f"skip events, and go on from {self.out}/checkpoint-{self.saved}"
                )
            self._log_saved()
            if self.step % self.config.checkpoint.interval == 0:
                self._save()

    def _train_step(self, source: StepSource) -> StepMetrics:
        """Train one step and move on behind it."""
        begun = time.perf_counter()
        retry = self.watch.due(self.step)
        portion = source.take(retry)
        settings = self.config.training
        rate = self.watch.factor * learning_rate(
            self.step, settings.steps, self.config.optimizer.lr, self.config.lr_scheduler
        )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with memory_told(self.step, self.config, self.ranks.device):
            found = None if portion.damage else self._gradients(portion)
        spike = None if found is None else self.watch.judge(found.loss, found.norm)
        if retry is not None:
            self._event("retry", self.plan_rows.of(portion.plan_step), f"try {retry.attempt + 1}")
        trained = found is not None and spike is None
        if found is not None and trained:
            with memory_told(self.step, self.config, self.ranks.device):
                self._update(found.norm)
            for event, detail in self.watch.accept(found.loss, found.norm):
                self._event(event, detail=detail)
        else:
            self._leave_out(portion, found, spike)
        self.optimizer.zero_grad(set_to_none=True)
        metrics = self._measured(portion, found, rate, begun, skipped=not trained)
        self.journal.add(metrics, self._receipt(portion, trained))
        self.step, self.state = self.step + 1, portion.after
        return metrics

    def _measured(
        self,
        portion: Portion,
        found: StepGradients | None,
        rate: float,
        begun: float,
        *,
        skipped: bool,
    ) -> StepMetrics:
        reading = self.gauge.read(portion.micro_batches)
        is_known = found is not None and math.isfinite(found.loss) and math.isfinite(found.norm)
        seconds = time.perf_counter() - begun
        peak = self.gauge.peak
        return StepMetrics(
            self.step,
            found.loss if found and is_known else None,
            found.norm if found and is_known else None,
            rate,
            found.tokens if found else 0,
            round(seconds, 6),
            found.rows if found else 0,
            skipped,
            reading.tflop,
            reading.tflop * 1e12 / (seconds * peak) if peak else None,
            reading.exposed_seconds,
            reading.device_bytes,
        )

    def _gradients(self, portion: Portion) -> StepGradients:
        if self.updates is None:
            return step_gradients(self.model, portion.micro_batches, self.ranks)
        found = step_by_layers(self.model, portion.micro_batches, self.ranks, self.updates)
        if self.updates.broken:
            raise TrainingError(
                f"step {self.step}: a gradient was not finite when layers above it had been "
                f"updated; go on from {self.out}/checkpoint-{self.saved} with a lower "
                'optimizer.lr, or with training.update = "step", which leaves such steps out'
            )
        return found

    def _leave_out(
        self, portion: Portion, found: StepGradients | None, spike: Spike | None
    ) -> None:
        """Log a step that changes no weight, and see when its rows come again."""
        rows = self.plan_rows.of(portion.plan_step)
        if found is None or spike is None:
            self.reason = portion.damage
            self._event("damaged", rows, portion.damage)
            if self.config.training.damaged == "stop":
                raise ShardError(
                    f"step {self.step}: {portion.damage}; or leave the step out with "
                    'training.damaged = "skip"'
                )
            self.progress.say(f"step {self.step} is left out: {portion.damage}")
            self.watch.in_a_row += 1
            return
        self.reason = spike.detail
        self._event("spike", found.suspects(spike.loss_limit, self.ranks), spike.detail)
        self._event("skip", rows, spike.detail)
        follows = self.watch.leave_out(self.step, portion.epoch, portion.plan_step, portion.attempt)
        for event, detail in follows:
            self._event(event, rows if event in ("drop", "requeue") else (), detail)
            self.progress.say(f"step {self.step}: {spike.detail}: {detail}")

    def _receipt(self, portion: Portion, trained: bool) -> Receipt:
        rows = self.plan_rows.of(portion.plan_step)
        at = (self.step, portion.epoch, portion.plan_step, portion.attempt)
        return Receipt(*at, trained, rows)

    def _update(self, norm: float) -> None:
        """Clip the gradients by their norm and let AdamW change the weights."""
        if self.updates is not None:
            return
        clip = self.config.training.clip
        if clip:
            clip_gradients(self.model, clip, norm)
        self.optimizer.step()

    def _stops(self, stop: StopRequest) -> bool:
        """Whether any rank was told to stop; all of them then stop at the same step."""
        return self.ranks.sum((float(stop.requested),))[0] > 0

    def _save(self) -> None:
        self.journal.sync()
        facts = {
            "reader": self.state.to_dict(),
            "watch": self.watch.to_dict(),
            "chain": self.journal.chain.value,
            "identity": self.identity,
            "config": asdict(self.config),
        }
        self.saver.save(self.step, training_state(self.model, self.optimizer), facts)
        self.saved = self.step

    def _log_saved(self) -> None:
        """Log the checkpoints that are complete."""
        for step in self.saver.finished():
            self.journal.event(step, "checkpoint")

    def _event(self, event: str, rows: Sequence[int] = (), detail: str = "") -> None:
        self.journal.event(self.step, event, rows, detail)

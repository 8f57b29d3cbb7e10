"""The training loop: steps of the plan in order, each one optimizer update.

A step whose loss or gradient is not finite leaves weights and optimizer as they are and is logged.
SIGTERM (and Ctrl-C) ends the run after the step with a checkpoint. Started again, a run goes on
from its newest complete checkpoint, on the CPU to the same bits with the same number of threads.
"""

import contextlib
import os
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from packing.format import ShardError
from packing.reader import PackedReader, StepBatch
from trainer import checkpoint
from trainer.config import TrainerConfig
from trainer.geometry import weight_count
from trainer.gradients import step_gradients
from trainer.lineage import PipelineRun, find_dataset, run_of
from trainer.metrics import Events, MetricsFile, StepMetrics
from trainer.model import DTYPES, Decoder
from trainer.optim import build_optimizer, learning_rate
from trainer.progress import Progress
from trainer.ranks import Ranks
from trainer.stopping import StopRequest

MAX_SKIPPED = 20
"""Steps in a row that may be skipped; then the run is lost and says so."""


class TrainingError(RuntimeError):
    """The run cannot go on; says at which step, why and what to do."""


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
    _make_deterministic()
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
        self.identity = checkpoint.identity(config, reader.plan.plan_fingerprint, reader.vocab_size)
        self.step = 0
        self.state = reader.initial_state()
        self.saved = 0
        """The step of the newest checkpoint."""
        made_by = run_of(reader.folder.path) if reader.folder.local else None
        self.events = Events(made_by, self.out)

    def go(self, stop: StopRequest) -> Outcome:
        """Build or restore the model and train it to the last step or a stop."""
        found, passed = checkpoint.newest(self.out)
        for reason in passed:
            self.progress.say(f"passed over {reason}")
        if found is not None:
            checkpoint.check(found, self.identity)
            self.step = self.saved = found.step
            self.state = found.reader
        if self.step >= self.config.training.steps:
            self.progress.say(f"finished before: {found.path if found else ''}")
            return Outcome(self.step, True, self.events.run)
        self._build(found)
        self._announce(found)
        self._loop(stop)
        return Outcome(self.step, self.step >= self.config.training.steps, self.events.run)

    def _build(self, found: checkpoint.Checkpoint | None) -> None:
        config = self.config
        self.model = Decoder(
            config.model.shape(self.reader.vocab_size),
            tied=config.model.is_tied,
            recompute=config.training.activations == "recompute",
            plan=config.training.layer_plan(),
            dtype=DTYPES[config.dtype],
        )
        if found is None:
            self.model.initialize(config.seed)
        self.model.to(self.ranks.device)
        self.optimizer = build_optimizer(self.model, config.optimizer)
        if found is not None:
            checkpoint.restore(found, self.model, self.optimizer, self.ranks.device)

    def _announce(self, found: checkpoint.Checkpoint | None) -> None:
        config, reader = self.config, self.reader
        shape = config.model.shape(reader.vocab_size)
        say = self.progress.say
        say(
            f"model: {weight_count(shape, tied=config.model.is_tied):,} weights, "
            f"vocabulary {reader.vocab_size}; {config.dtype} on {self.ranks.device}, "
            f"ranks {self.ranks.world}"
        )
        say(
            f"data: {reader.folder.path}: {reader.n_rows:,} rows of up to {reader.seq_len} tokens, "
            f"{reader.n_steps:,} steps an epoch; {config.training.steps:,} steps are "
            f"{config.training.steps / reader.n_steps:.3g} epochs"
        )
        if found is not None:
            changed = "; ".join(checkpoint.changes(found, config))
            say(f"goes on from {found.path}" + (f"; changed: {changed}" if changed else ""))

    def _loop(self, stop: StopRequest) -> None:
        writer = MetricsFile(self.out, self.step) if self.ranks.is_first else None
        self._event("start")
        try:
            with contextlib.closing(self._batches()) as batches:
                self._steps(batches, stop, writer)
            if self.step > self.saved:
                self._save(writer)
            self._event("end")
        finally:
            if writer is not None:
                writer.close()

    def _steps(
        self, batches: Iterator[StepBatch], stop: StopRequest, writer: MetricsFile | None
    ) -> None:
        skipped = 0
        while self.step < self.config.training.steps and not self._stops(stop):
            metrics = self._train_step(next(batches))
            if writer is not None:
                writer.write(metrics)
            self.progress.step(metrics)
            skipped = skipped + 1 if metrics.loss is None else 0
            if skipped == MAX_SKIPPED:
                raise TrainingError(
                    f"step {self.step - 1}: neither loss nor gradient was finite in "
                    f"{skipped} steps in a row; lower optimizer.lr, or look at the rows of the "
                    f"skip events, and go on from {self.out}/checkpoint-{self.saved}"
                )
            if self.step % self.config.checkpoint.interval == 0:
                self._save(writer)

    def _batches(self) -> Generator[StepBatch, None, None]:
        ranks = self.ranks
        yield from self.reader.steps(ranks.rank, ranks.world, self.state, epochs=None)

    def _train_step(self, batch: StepBatch) -> StepMetrics:
        """Train one step and move on behind it."""
        begun = time.perf_counter()
        settings = self.config.training
        rate = learning_rate(
            self.step, settings.steps, self.config.optimizer.lr, self.config.lr_scheduler
        )
        try:
            found = step_gradients(self.model, batch.micro_batches, self.ranks)
            if found.finite:
                self._update(found.norm, rate)
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"step {self.step}: the device's memory ran out ({str(error).splitlines()[0]}); "
                'set training.activations = "planned", use a smaller model, or make a plan of '
                "fewer rows per micro-batch with drystone replan"
            ) from error
        self.optimizer.zero_grad(set_to_none=True)
        if not found.finite:
            self._event("skip", found.suspects)
        step, self.step, self.state = self.step, self.step + 1, batch.state
        return StepMetrics(
            step,
            found.loss if found.finite else None,
            found.norm if found.finite else None,
            rate,
            found.tokens,
            round(time.perf_counter() - begun, 6),
            found.rows,
        )

    def _update(self, norm: float, rate: float) -> None:
        """Clip the gradients by their norm and let AdamW change the weights."""
        clip = self.config.training.clip
        if clip:
            total = torch.tensor(norm, dtype=torch.float64)
            nn.utils.clip_grads_with_norm_(self.model.parameters(), clip, total)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()

    def _stops(self, stop: StopRequest) -> bool:
        """Whether any rank was told to stop; all of them then stop at the same step."""
        return self.ranks.sum((float(stop.requested),))[0] > 0

    def _save(self, writer: MetricsFile | None) -> None:
        if writer is not None:
            writer.sync()
            checkpoint.save(
                self.out,
                self.step,
                self.model,
                self.optimizer,
                self.state,
                self.identity,
                self.config,
            )
            checkpoint.prune(self.out, self.config.checkpoint.keep_latest_k)
        self.ranks.wait_for_all()
        self.saved = self.step
        self._event("checkpoint")

    def _event(self, event: str, rows: Sequence[int] = ()) -> None:
        if self.ranks.is_first:
            self.events.add(self.step, event, rows)


def _make_deterministic() -> None:
    """Ask torch for algorithms that give the same bits in every run, where it has them."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]

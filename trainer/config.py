"""The trainer's configuration: plain dataclasses, and what a mistake in the TOML is told.

Nothing here imports torch, so that a mistake is told at once.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from trainer.anomalies import AnomalySettings
from trainer.model_settings import ModelSettings
from trainer.plan import LayerPlan
from trainer.settings import Below, Maximum, Minimum, MoreThan, Problem, read_settings, read_toml


class ConfigError(ValueError):
    """Mistakes in a configuration, one a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSettings:
    """What planned layers store. By default layer inputs and attention outputs, on the host."""

    tile: Annotated[int, Minimum(1)] = 8192
    """Tokens that a layer works on at a time. Another size changes the last bits of gradients;
    nothing else in this table does."""
    recompute_prefix: Annotated[float, Minimum(0.0), Maximum(1.0)] = 0.0
    """Share of each document, from its start, whose attention output is made again. Its first half
    costs a quarter of its attention."""
    alpha: Annotated[float, Minimum(0.0), Maximum(1.0)] = 0.0
    """Share of a row's tokens whose queries, keys, values and MLP tensors are stored."""
    input_stride: Annotated[int, Minimum(1)] = 1
    """Layer inputs are stored every so many layers, and made again between."""
    resident_layers: Annotated[int, Minimum(0)] = 2
    """Last layers whose tensors stay on the device."""
    head_groups: Annotated[int, Minimum(1)] = 1
    """Parts of the heads that attention's backward pass takes one after another; divides
    ``model.kv_heads``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """How long to train, and what a step does."""

    steps: Annotated[int, Minimum(1)]
    """Steps of the run. More than the plan has go through it again."""
    activations: Literal["keep", "recompute", "planned"] = "keep"
    """What the backward pass works from: everything the forward pass made; each layer's input,
    from which the rest is made again (less memory, about a third more time, the same bits); or
    what ``training.plan`` says, most of it in host memory meanwhile."""
    plan: PlanSettings | None = None
    """What planned layers store."""
    clip: Annotated[float, Minimum(0.0)] = 1.0
    """Largest global norm of a step's gradient; 0 leaves gradients as they are."""
    update: Literal["step", "layer"] = "step"
    """When weights change: once a step, after all its micro-batches; or each layer inside the
    backward pass, so that gradients of one layer exist at a time."""
    parallel: Literal["ddp", "fsdp"] = "ddp"
    """What several processes hold: all of the weights and moments each; or a part each, and layers
    are gathered for their turns (FSDP2)."""
    damaged: Literal["stop", "skip"] = "stop"
    """What becomes of a step whose rows cannot be read: the run stops, or goes on without it."""

    def layer_plan(self) -> LayerPlan | None:
        """Return what planned layers store, or None where activations are not planned."""
        if self.activations != "planned":
            return None
        return LayerPlan(**asdict(self.plan or PlanSettings()))


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSettings:
    """AdamW."""

    lr: Annotated[float, MoreThan(0.0)] = 3e-4
    """Learning rate after the warm-up."""
    weight_decay: Annotated[float, Minimum(0.0)] = 0.1
    """Decay of the matrices (the embedding included); norms do not decay."""
    betas: tuple[
        Annotated[float, Minimum(0.0), Below(1.0)], Annotated[float, Minimum(0.0), Below(1.0)]
    ] = (0.9, 0.95)
    """Decay of the first and second moment."""
    states: Literal["fp32", "split-bf16"] = "fp32"
    """What layers' matrices are held as: float32, cast for every use; or bfloat16 with 16 bits more
    beside them, which together are the same float32. Moments are float32 in both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """The learning rate over the steps."""

    warmup_steps: Annotated[int, Minimum(0)] = 0
    """Steps in which the rate rises to ``optimizer.lr``."""
    decay: Literal["cosine", "wsd", "constant"] = "cosine"
    """After the warm-up: along a cosine to ``min_lr``; stable, then falling in a line over the last
    fifth of the steps; or constant."""
    min_lr: Annotated[float, Minimum(0.0)] = 0.0
    """The rate that the decay ends at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """When checkpoints are written; the end and a stop write one too."""

    interval: Annotated[int, Minimum(1)] = 100
    """Steps between checkpoints."""
    keep_latest_k: Annotated[int, Minimum(1)] = 2
    """Checkpoints that are kept; older ones are removed."""
    background: bool = True
    """Write them beside the training, from a copy in host memory; false waits for each."""
    world: Literal["any", "same"] = "any"
    """Whether a run may go on with another number of ranks than wrote the checkpoint. The rows of
    each step stay the same; sums are made in another order, so that bits differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerConfig:
    """What ``drystone train CONFIG.toml`` is told."""

    dataset: str
    """Folder of a packed dataset, or a work directory, which stands for the dataset of its newest
    run. Relative paths start at the current folder."""
    out: str
    """Folder for metrics and checkpoints."""
    seed: Annotated[int, Minimum(0)] = 0
    """Seed of the first weights."""
    device: str = "auto"
    """auto (CUDA where there is one), cpu, cuda or cuda:N."""
    dtype: Literal["float32", "bfloat16", "float64"] = "float32"
    """What is computed in. Weights and optimizer states are float32 under bfloat16."""
    model: ModelSettings
    training: TrainingSettings
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    lr_scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    checkpoint: CheckpointSettings = field(default_factory=CheckpointSettings)
    anomalies: AnomalySettings | None = None
    """Loss spikes: not watched without the table."""

    def problems(self) -> list[Problem]:
        """Return mistakes across the tables."""
        found = self.model.problems()
        kind, _, number = self.device.partition(":")
        if self.device not in ("auto", "cpu", "cuda") and not (
            kind == "cuda" and number.isdecimal()
        ):
            found.append(Problem.choice("device", self.device, ("auto", "cpu", "cuda", "cuda:0")))
        found += self._plan_problems()
        wrong = self.anomalies.problem() if self.anomalies else None
        if wrong:
            found.append(Problem(f"anomalies.{wrong[0]}", wrong[1]))
        found += self._update_problems()
        if self.lr_scheduler.min_lr > self.optimizer.lr:
            found.append(
                Problem(
                    "lr_scheduler.min_lr",
                    f"{self.lr_scheduler.min_lr} is above optimizer.lr = {self.optimizer.lr}; "
                    "use a smaller one",
                )
            )
        return found

    def _update_problems(self) -> list[Problem]:
        found = []
        if self.optimizer.states == "split-bf16" and self.dtype != "bfloat16":
            text = f'"split-bf16" is for dtype = "bfloat16", found "{self.dtype}"; use "fp32"'
            found.append(Problem("optimizer.states", text))
        if self.training.parallel == "fsdp" and self.optimizer.states != "fp32":
            text = f'"{self.optimizer.states}" is for training.parallel = "ddp"; use "fp32"'
            found.append(Problem("optimizer.states", text))
        if self.training.update == "step":
            return found
        if self.training.parallel == "fsdp":
            text = '"layer" is for training.parallel = "ddp"; use "step"'
            found.append(Problem("training.update", text))
        if self.training.clip:
            text = f'"layer" cannot clip by a global norm (clip = {self.training.clip:g}); '
            found.append(Problem("training.update", text + 'set training.clip = 0, or use "step"'))
        if self.anomalies is not None:
            text = '"layer" cannot leave a step out; remove [anomalies], or use "step"'
            found.append(Problem("training.update", text))
        return found

    def _plan_problems(self) -> list[Problem]:
        plan, activations = self.training.plan, self.training.activations
        if plan is None and activations != "planned":
            return []
        plan = plan or PlanSettings()
        if activations != "planned":
            return [
                Problem(
                    "training.plan",
                    f'given, and training.activations = "{activations}" stores by no plan; set '
                    'training.activations = "planned", or remove the table',
                )
            ]
        if not self.model.problems():
            found = self.model.architecture
            if found.qkv_bias or found.qk_norm:
                text = "layers of Qwen are not planned; use keep or recompute"
                return [Problem("training.activations", f'"planned": {text}')]
        kv_heads = self.model.shape().kv_heads if not self.model.problems() else plan.head_groups
        if kv_heads % plan.head_groups:
            return [
                Problem(
                    "training.plan.head_groups",
                    f"{plan.head_groups} does not divide the {kv_heads} key heads; use a divisor "
                    "of model.kv_heads",
                )
            ]
        return []


NOT_BUILT: dict[tuple[str, Any], str] = {}
"""Values known elsewhere that this trainer does not have, and what it has instead."""


def load_config(path: str | Path) -> TrainerConfig:
    """Read and check a configuration.

    Raises:
        ConfigError: all mistakes, one a line, each with file, key, what was found and what to do.
    """
    try:
        raw = read_toml(Path(path))
        config, problems = read_settings(TrainerConfig, raw, NOT_BUILT)
    except Problem as error:
        raise ConfigError(error.line(str(path))) from None
    if config is not None:
        problems = config.problems()
    if config is None or problems:
        raise ConfigError("\n".join(problem.line(str(path)) for problem in problems))
    return config

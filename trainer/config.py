"""The trainer's configuration: plain dataclasses, and what a mistake in the TOML is told.

Nothing here imports torch, so that a mistake is told at once.
"""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from packing.cost import ModelShape
from trainer.geometry import PRESETS, TIED_PRESETS
from trainer.plan import LayerPlan
from trainer.settings import Below, Maximum, Minimum, MoreThan, Problem, read_settings, read_toml

SIZES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn")
"""Sizes that every model needs."""

EXPERT_SIZES = ("experts", "active_experts", "shared_experts", "expert_ffn", "dense_layers")
"""Sizes of a model with experts."""


class ConfigError(ValueError):
    """Mistakes in a configuration, one a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Shape of the model; vocabulary and sequence length come from the dataset."""

    preset: str | None = None
    """A shape by name: tiny, 20m, 125m, 1b, 3b or 8b. Sizes given beside it replace its own."""
    layers: Annotated[int, Minimum(1)] | None = None
    """Decoder layers."""
    hidden: Annotated[int, Minimum(1)] | None = None
    """Width of the residual stream."""
    heads: Annotated[int, Minimum(1)] | None = None
    """Query heads."""
    kv_heads: Annotated[int, Minimum(1)] | None = None
    """Key and value heads; divides ``heads``."""
    head_dim: Annotated[int, Minimum(2)] | None = None
    """Width of one head, even."""
    ffn: Annotated[int, Minimum(1)] | None = None
    """Inner width of the gated MLP."""
    experts: Annotated[int, Minimum(0)] | None = None
    """Routed experts of a layer; none where it is 0 or not given."""
    active_experts: Annotated[int, Minimum(1)] | None = None
    """Routed experts that compute each token."""
    shared_experts: Annotated[int, Minimum(0)] | None = None
    """Experts that compute every token."""
    expert_ffn: Annotated[int, Minimum(1)] | None = None
    """Inner width of one expert."""
    dense_layers: Annotated[int, Minimum(0)] | None = None
    """First layers that have one MLP of ``ffn`` instead of experts."""
    tied: bool | None = None
    """Whether the embedding is the output head; by default true, and the preset's with one."""

    @property
    def is_tied(self) -> bool:
        """Whether the embedding is the output head."""
        if self.tied is not None:
            return self.tied
        return self.preset is None or self.preset in TIED_PRESETS

    def shape(self, vocab: int = 0) -> ModelShape:
        """Return the sizes of the model; complete once the configuration was checked."""
        return ModelShape(**self._sizes(), vocab=vocab)

    def _sizes(self) -> dict[str, int]:
        base = PRESETS.get(self.preset or "")
        sizes = {}
        for name in (*SIZES, *EXPERT_SIZES):
            own = getattr(self, name)
            value = own if own is not None else getattr(base, name, None)
            if value is not None:
                sizes[name] = value
        return sizes

    def problems(self) -> list[Problem]:
        """Return mistakes across the fields."""
        if self.preset is not None and self.preset not in PRESETS:
            return [Problem.choice("model.preset", self.preset, PRESETS)]
        sizes = self._sizes()
        missing = [n for n in SIZES if n not in sizes]
        found = [
            Problem(f"model.{name}", "missing; give a size, or model.preset for all of them")
            for name in missing
        ]
        if "heads" in sizes and "kv_heads" in sizes and sizes["heads"] % sizes["kv_heads"]:
            found.append(
                Problem(
                    "model.kv_heads",
                    f"{sizes['kv_heads']} does not divide the {sizes['heads']} query heads; "
                    "use a divisor of model.heads",
                )
            )
        if sizes.get("head_dim", 0) % 2:
            found.append(
                Problem(
                    "model.head_dim",
                    f"{sizes['head_dim']} is odd, and rotary positions turn pairs; "
                    "use an even number",
                )
            )
        wrong = None if found else self.shape().problem()
        return [Problem("model", wrong)] if wrong else found


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
    update: Literal["step"] = "step"
    """When weights change: once a step, after all its micro-batches."""

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

    def problems(self) -> list[Problem]:
        """Return mistakes across the tables."""
        found = self.model.problems()
        kind, _, number = self.device.partition(":")
        if self.device not in ("auto", "cpu", "cuda") and not (
            kind == "cuda" and number.isdecimal()
        ):
            found.append(Problem.choice("device", self.device, ("auto", "cpu", "cuda", "cuda:0")))
        found += self._plan_problems()
        if self.lr_scheduler.min_lr > self.optimizer.lr:
            found.append(
                Problem(
                    "lr_scheduler.min_lr",
                    f"{self.lr_scheduler.min_lr} is above optimizer.lr = {self.optimizer.lr}; "
                    "use a smaller one",
                )
            )
        return found

    def _plan_problems(self) -> list[Problem]:
        plan, activations = self.training.plan, self.training.activations
        if plan is None:
            return []
        if activations != "planned":
            return [
                Problem(
                    "training.plan",
                    f'given, and training.activations = "{activations}" stores by no plan; set '
                    'training.activations = "planned", or remove the table',
                )
            ]
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


NOT_BUILT: dict[tuple[str, Any], str] = {
    ("training.update", "layer"): 'layers are not updated one by one; use "step"',
}
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

"""Steps that stand out: their update is left out, their rows come again, the rate falls if it lasts.

Ling's handling of loss spikes ("Every FLOP Counts", arXiv 2503.05139, section 3.4.4), with limits
from the steps before. A step's rows come again together, as a step of their own between those of
the plan, so that which rows a step has stays a question of one number. Nothing here imports torch.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Annotated, Any, Literal

from trainer.settings import Below, Minimum, MoreThan

LEAST_LOSS = 0.01
"""Least deviation that is taken for one, as a share of the median loss."""

LEAST_NORM = 0.05
"""Least deviation of the natural logarithm of the gradient's norm."""

_SIGMA = 1.4826
"""Median absolute deviation to standard deviation, for a normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnomalySettings:
    """Which steps are spikes, and what becomes of them.

    Without the table only steps are left out whose loss or gradient is not finite, and their rows
    do not come again.
    """

    loss_limit: Annotated[float, Minimum(0.0)] = 6.0
    """Deviations (robust ones) that a step's loss may stand above the median of the window; 0 does
    not watch the loss."""
    norm_limit: Annotated[float, Minimum(0.0)] = 10.0
    """The same of the logarithm of the gradient's norm, before clipping; 0 does not watch it."""
    window: Annotated[int, Minimum(4)] = 64
    """Steps before that a step is compared with; those left out are not among them."""
    min_steps: Annotated[int, Minimum(4)] = 16
    """Steps that the window must hold before any is judged."""
    retries: Annotated[int, Minimum(0)] = 1
    """Times that the rows of a step left out are trained again."""
    retry_within: Annotated[int, Minimum(1)] = 32
    """Steps within which they are; at which is drawn by the seed."""
    patience: Annotated[int, Minimum(1)] = 3
    """Steps left out one after another at which the learning rate falls, and the losses from then
    on are the new measure."""
    lower: Annotated[float, MoreThan(0.0), Below(1.0)] = 0.5
    """What the rate is multiplied with then. Each ``window`` steps without a spike take one such
    factor back."""

    def problem(self) -> tuple[str, str] | None:
        """Return the key and text of a mistake across the fields, or None."""
        if not self.loss_limit and not self.norm_limit:
            return "loss_limit", "0, as norm_limit: nothing is watched; remove the table"
        if self.min_steps > self.window:
            text = f"{self.min_steps} is more than the window of {self.window}; use a smaller one"
            return "min_steps", text
        return None


@dataclass(frozen=True, slots=True)
class Retry:
    """A step of the plan whose rows come again."""

    epoch: int
    plan_step: int
    due: int
    """Step of the run at which they do, or the first after it that is free."""
    attempt: int
    """1 for the first time that they come again."""


@dataclass(frozen=True, slots=True)
class Spike:
    """Why a step is left out."""

    detail: str
    loss_limit: float | None
    """The most that a loss may be; None where it is not the loss, or is not finite."""


Event = Literal["lower", "raise", "drop", "requeue"]


@dataclass(slots=True)
class Watch:
    """What is known of the steps so far; equal on all ranks, and part of a checkpoint.

    Args:
        settings: None watches only whether losses and gradients are finite.
        seed: of the run.
    """

    settings: AnomalySettings | None
    seed: int
    factor: float = 1.0
    """What the learning rate is multiplied with."""
    in_a_row: int = 0
    """Steps left out since the last that was not."""
    calm: int = 0
    """Steps since the last that was left out, or since the factor rose."""
    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    queue: list[Retry] = field(default_factory=list)

    def judge(self, loss: float, norm: float) -> Spike | None:
        """Say why a step must not change the weights, or None where it may."""
        if not (math.isfinite(loss) and math.isfinite(norm)):
            return Spike(f"loss {loss:.4g}, gradient {norm:.4g}: not finite", None)
        settings = self.settings
        if settings is None or len(self.losses) < settings.min_steps:
            return None
        most = _limit(self.losses, settings.loss_limit, LEAST_LOSS * median(self.losses))
        if loss > most:
            of = f"median {median(self.losses):.4g} of {len(self.losses)} steps"
            return Spike(f"loss {loss:.4g} is above {most:.4g} ({of})", most)
        logs = [math.log(max(x, 1e-300)) for x in self.norms]
        steepest = math.exp(min(_limit(logs, settings.norm_limit, LEAST_NORM), 700.0))
        if norm > steepest:
            of = f"median {median(self.norms):.4g} of {len(self.norms)} steps"
            return Spike(f"gradient {norm:.4g} is above {steepest:.4g} ({of})", None)
        return None

    def accept(self, loss: float, norm: float) -> list[tuple[Event, str]]:
        """Note a step that changed the weights; return what follows from it."""
        self.in_a_row, self.calm = 0, self.calm + 1
        settings = self.settings
        if settings is None:
            return []
        for values, value in ((self.losses, loss), (self.norms, norm)):
            values.append(value)
            del values[: -settings.window]
        if self.factor < 1 and self.calm >= settings.window:
            self.factor, self.calm = min(1.0, self.factor / settings.lower), 0
            return [("raise", f"rate x {self.factor:.4g} after {settings.window} calm steps")]
        return []

    def leave_out(
        self, step: int, epoch: int, plan_step: int, attempt: int
    ) -> list[tuple[Event, str]]:
        """Note a step that is left out, see when its rows come again, and what else follows.

        Args:
            step: the step of the run.
            epoch: its epoch.
            plan_step: its step of the plan.
            attempt: times that its rows have come again, 0 in their turn.
        """
        self.in_a_row, self.calm = self.in_a_row + 1, 0
        settings = self.settings
        if settings is None:
            return []
        found: list[tuple[Event, str]] = []
        if attempt < settings.retries:
            drawn = _mix(self.seed, step, plan_step, attempt) % settings.retry_within
            self.queue.append(Retry(epoch, plan_step, step + 1 + drawn, attempt + 1))
            self.queue.sort(key=lambda r: (r.due, r.epoch, r.plan_step))
            found.append(("requeue", f"again from step {step + 1 + drawn} on"))
        else:
            found.append(("drop", f"given up after {attempt + 1} tries"))
        if self.in_a_row % settings.patience == 0:
            self.factor *= settings.lower
            self.losses.clear()
            self.norms.clear()
            found.append(("lower", f"rate x {self.factor:.4g} after {self.in_a_row} in a row"))
        return found

    def due(self, step: int) -> Retry | None:
        """Return the rows that come again at a step, and take them off the queue."""
        if self.queue and self.queue[0].due <= step:
            return self.queue.pop(0)
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return what is known as plain JSON values."""
        value = asdict(self)
        del value["settings"], value["seed"]
        return value

    @classmethod
    def of(
        cls, settings: AnomalySettings | None, seed: int, value: Mapping[str, Any] | None
    ) -> "Watch":
        """Restore from :meth:`to_dict`, or begin."""
        if value is None:
            return cls(settings, seed)
        queue = [Retry(**retry) for retry in value["queue"]]
        return cls(settings, seed, **{**value, "queue": queue})


def _limit(values: list[float], deviations: float, least: float) -> float:
    """Return the median plus so many robust deviations; infinity for none."""
    if not deviations:
        return math.inf
    middle = median(values)
    spread = _SIGMA * median(abs(v - middle) for v in values)
    return middle + deviations * max(spread, least)


def _mix(*numbers: int) -> int:
    """Return 64 well-mixed bits of some numbers (splitmix64)."""
    mask, value = (1 << 64) - 1, 0
    for number in numbers:
        value = (value + number + 0x9E3779B97F4A7C15) & mask
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
        value ^= value >> 31
    return value

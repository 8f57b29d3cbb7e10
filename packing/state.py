"""Where a run stands in a plan: four numbers, equal on all ranks.

Imports the standard library alone, so that it can be vendored with the reader.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class ReaderState:
    """Where a run stands: equal on all ranks, valid for any world size that divides the slots."""

    plan: str
    """Fingerprint of the plan that is obeyed."""
    epoch: int = 0
    """Times the plan was read to its end."""
    step: int = 0
    """Step to be trained next."""
    skip: tuple[tuple[int, int], ...] = ()
    """Half-open ranges of steps that are left out, in every epoch."""

    def skipping(self, first: int, stop: int) -> "ReaderState":
        """Return the state with steps ``first`` to ``stop`` left out as well."""
        return replace(self, skip=tuple(sorted({*self.skip, (first, stop)})))

    def skips(self, step: int) -> bool:
        """Say whether a step is left out."""
        return any(first <= step < stop for first, stop in self.skip)

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        skip = [list(pair) for pair in self.skip]
        return {"plan": self.plan, "epoch": self.epoch, "step": self.step, "skip": skip}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """Restore a state from :meth:`to_dict`."""
        skip = tuple((int(a), int(b)) for a, b in value["skip"])
        return cls(str(value["plan"]), int(value["epoch"]), int(value["step"]), skip)

    def walk(
        self, first: int, stop: int, epochs: int | None
    ) -> Iterator[tuple["ReaderState", "ReaderState"]]:
        """Give every step to be trained from here on, as (state before it, state after it).

        Args:
            first: first step of the plan.
            stop: step after the plan's last.
            epochs: stop when the epoch reaches this; None never stops.
        """
        state = self
        if all(state.skips(step) for step in range(first, stop)):
            return
        while epochs is None or state.epoch < epochs:
            if state.step >= stop:
                state = replace(state, epoch=state.epoch + 1, step=first)
                continue
            after = replace(state, step=state.step + 1)
            if not state.skips(state.step):
                yield state, after
            state = after

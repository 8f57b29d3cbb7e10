"""Where a step's rows come from: the plan in its order, or rows that come again.

A damaged shard is found by the rank that reads it, and all ranks are told.
"""

from collections.abc import Generator
from dataclasses import dataclass

from packing.format import ShardError
from packing.reader import MicroBatch, PackedReader, ReaderState, StepBatch
from trainer.anomalies import Retry
from trainer.ranks import Ranks


@dataclass(frozen=True, slots=True)
class Portion:
    """What this rank trains in a step of the run."""

    epoch: int
    plan_step: int
    """The plan's step that the rows are of."""
    attempt: int
    """Times that they came before."""
    micro_batches: list[MicroBatch]
    after: ReaderState
    """Where the reader goes on."""
    damage: str = ""
    """What could not be read, by any rank; then there are no rows."""


class StepSource:
    """The steps of a run, one by one.

    Args:
        reader: of the dataset.
        ranks: all ranks ask for the same steps.
        state: where the reader goes on.

    Raises:
        ShardError: the state belongs to another plan, or the ranks do not divide the slots.
    """

    def __init__(self, reader: PackedReader, ranks: Ranks, state: ReaderState) -> None:
        self._reader, self._ranks, self._state = reader, ranks, state
        for _ in reader.steps(ranks.rank, ranks.world, state, epochs=0):
            pass  # gives nothing, but refuses what does not fit the plan
        self._steps = self._from(state)

    def take(self, retry: Retry | None) -> Portion:
        """Return the rows that come again, or the next of the plan."""
        if retry is not None:
            at, after = (retry.epoch, retry.plan_step), self._state
        else:
            here, after = next(self._walk())
            at = (here.epoch, here.step)
        found: list[MicroBatch] = []
        trouble = ""
        try:
            found = self._read(retry)
        except ShardError as error:
            trouble = str(error)
        attempt = retry.attempt if retry is not None else 0
        if retry is None:
            self._state = after
        (failed,) = self._ranks.sum((float(bool(trouble)),))
        if not failed:
            return Portion(*at, attempt, found, after)
        if retry is None:
            self.close()
            self._steps = self._from(after)
        told = sorted({text for text in self._ranks.gather(trouble) if text})
        return Portion(*at, attempt, [], after, "; ".join(told))

    def close(self) -> None:
        """Stop reading ahead."""
        self._steps.close()

    def _walk(self) -> "Generator[tuple[ReaderState, ReaderState], None, None]":
        first = self._reader.first_step
        yield from self._state.walk(first, first + self._reader.n_steps, None)

    def _from(self, state: ReaderState) -> Generator[StepBatch, None, None]:
        ranks = self._ranks
        yield from self._reader.steps(ranks.rank, ranks.world, state, epochs=None)

    def _read(self, retry: Retry | None) -> list[MicroBatch]:
        if retry is None:
            return next(self._steps).micro_batches
        ranks = self._ranks
        return self._reader.micro_batches(retry.plan_step, ranks.rank, ranks.world)

"""Reads a packed dataset: the rows of a rank, step by step, and a state that is four numbers.

``PackedReader`` obeys the plan: ``micro_batches(step, rank, world)`` gives a rank's rows of one
step, one batch per slot, for any ``world`` that divides the rows of a slot. Where a run stands is
``{plan, epoch, step, skip}``, equal on all ranks; a run goes on with another number of ranks from
the same state. A later epoch reads the same plan again, in the same order.

Imports numpy, pyarrow and the standard library alone; ``drystone vendor reader`` writes it and
what it needs as one file.
"""

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import numpy as np
from pyarrow import fs

from packing.fetch import RowSource
from packing.format import PLAN_FILE, ShardError, load_manifest
from packing.rows import MicroBatch, PaddedBatch, RowGroup
from packing.schedule import Schedule, load_plan
from packing.state import ReaderState
from packing.storage import ShardFolder, resolve

__all__ = ["MicroBatch", "PackedReader", "PaddedBatch", "ReaderState", "RowGroup", "StepBatch"]


@dataclass(frozen=True, slots=True)
class StepBatch:
    """What one rank trains in one step."""

    step: int
    epoch: int
    micro_batches: list[MicroBatch]
    """One per slot; without rows where a short step has none for the rank."""
    state: ReaderState
    """The state after this step: save it with the weights that this step made."""


class PackedReader:
    """Reads the packed rows of a dataset by step, rank and world size.

    Args:
        dataset: folder of the dataset, or a URI that pyarrow can open.
        plan: another plan over the same shards, or over the rest of them; the dataset's
            ``plan.parquet`` by default.
        filesystem: the pyarrow file system that holds the dataset.
        cache_dir: local folder for copies of remote shards; without it they are read by ranges.
        cache_bytes: size above which copies used longest ago are removed from ``cache_dir``.
        memory_bytes: size of the decoded row groups that are held.
        prefetch: steps that :meth:`steps` reads ahead in a thread; 0 reads in the caller's.
        continue_positions: count positions from the document's start instead of the piece's.

    Raises:
        ShardError: the dataset is unfinished or damaged, or the plan is not one for it.
    """

    def __init__(
        self,
        dataset: str | os.PathLike[str],
        plan: str | os.PathLike[str] | None = None,
        *,
        filesystem: fs.FileSystem | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_bytes: int = 16 << 30,
        memory_bytes: int = 256 << 20,
        prefetch: int = 2,
        continue_positions: bool = False,
    ) -> None:
        path, found = resolve(dataset, filesystem)
        manifest = load_manifest(path, found)
        self.folder = ShardFolder(
            path, found, None if cache_dir is None else os.fspath(cache_dir), cache_bytes
        )
        first = load_plan(f"{path}/{PLAN_FILE}", found)
        if first.dataset.fingerprint != manifest.fingerprint:
            raise ShardError(
                f"{path}: plan of dataset {first.dataset.fingerprint[:12]} beside a manifest of "
                f"{manifest.fingerprint[:12]}; restore the folder"
            )
        chosen = first if plan is None else load_plan(*resolve(plan, None))
        if chosen.dataset.fingerprint != manifest.fingerprint:
            raise ShardError(
                f"{os.fspath(plan or path)}: a plan of dataset "
                f"{chosen.dataset.fingerprint[:12]}, not of {path} "
                f"({manifest.fingerprint[:12]}); make one with drystone replan"
            )
        self.info = first.dataset
        self.plan = chosen.info
        self._row_id = first.row_id
        self._schedule = Schedule.of(chosen, first.row_id)
        self._continue_positions = continue_positions
        self._prefetch = prefetch
        self._source = RowSource(
            self.folder, manifest.row_files, self.info, first.row_id, memory_bytes
        )
        self._held_for: tuple[int, int] = (-1, 0)
        self._lock = threading.Lock()

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the dataset."""
        return self.info.fingerprint

    @property
    def seq_len(self) -> int:
        """Tokens a row can hold."""
        return self.info.seq_len

    @property
    def vocab_size(self) -> int:
        """Token ids lie in ``[0, vocab_size)``."""
        return self.info.vocab_size

    @property
    def bos_id(self) -> int | None:
        """Id that begins a document, or None."""
        return self.info.bos_id

    @property
    def eos_id(self) -> int | None:
        """Id that ends a document, or None."""
        return self.info.eos_id

    @property
    def pad_id(self) -> int:
        """Id that fills a row up: the tokenizer's, else eos, else 0."""
        return self.info.padding_id

    @property
    def domain_names(self) -> tuple[str, ...]:
        """Names that ``domain`` indexes."""
        return self.info.domains

    @property
    def n_steps(self) -> int:
        """Steps of one epoch."""
        return self._schedule.n_steps

    @property
    def first_step(self) -> int:
        """Number of the first step: 0 but where the plan deals the rest of a run anew."""
        return self._schedule.first_step

    @property
    def n_rows(self) -> int:
        """Rows of the dataset."""
        return len(self._row_id)

    @property
    def slot_rows(self) -> int:
        """Rows of a full slot; a world size must divide it."""
        return self.plan.slot_rows

    @property
    def slots_per_step(self) -> int:
        """Micro-batches of a full step."""
        return self.plan.slots_per_step

    def initial_state(self) -> ReaderState:
        """Return the state before the first step."""
        return ReaderState(self.plan.plan_fingerprint, step=self.first_step)

    def check_state(self, state: ReaderState) -> None:
        """Refuse a state that belongs to another plan or does not fit this one.

        Raises:
            ShardError: it names both plans.
        """
        if state.plan != self.plan.plan_fingerprint:
            raise ShardError(
                f"the state belongs to plan {state.plan[:12]}, this reader obeys plan "
                f"{self.plan.plan_fingerprint[:12]} of {self.folder.path}; open the reader with "
                "the plan of the run, or begin a new run"
            )
        stop = self.first_step + self.n_steps
        if not self.first_step <= state.step <= stop or state.epoch < 0:
            raise ShardError(
                f"the state says epoch {state.epoch}, step {state.step}; the plan has steps "
                f"{self.first_step} to {stop - 1}: it was damaged, begin from an older one"
            )

    def micro_batches(self, step: int, rank: int = 0, world: int = 1) -> list[MicroBatch]:
        """Return what one rank trains in one step: one batch per slot.

        Ranks of a world that divides the slot share each slot's rows, in the order of the plan's
        ranks; a short last step leaves the batches of some ranks empty.

        Raises:
            ShardError: the step, rank or world do not fit the plan, or a shard is damaged.
        """
        slots = self._schedule.slots(step, rank, world)
        with self._lock:
            self._hold(rank, world)
            return [
                MicroBatch.of(
                    self._source.read(rows),
                    step=step,
                    slot=slot,
                    seq_len=self.seq_len,
                    pad_id=self.pad_id,
                    continue_positions=self._continue_positions,
                    align=self.info.align,
                    cp=cp,
                )
                for slot, rows, cp in slots
            ]

    def rows(self, row_ids: Sequence[int]) -> MicroBatch:
        """Return rows by their numbers, whatever step they are trained in.

        Raises:
            ShardError: there is no such row, or a shard is damaged.
        """
        wanted = np.array(row_ids, np.int64)
        order = np.argsort(self._row_id, kind="stable")
        at = np.minimum(np.searchsorted(self._row_id, wanted, sorter=order), self.n_rows - 1)
        unknown = wanted[self._row_id[order[at]] != wanted] if self.n_rows else wanted
        if len(unknown):
            raise ShardError(
                f"{self.folder.path}: no row {unknown[0]}; it has {self.n_rows} rows, numbered "
                f"{self._row_id.min(initial=0)} to {self._row_id.max(initial=0)}"
            )
        with self._lock:
            self._held_for = (-1, 0)
            self._source.want(np.arange(self.n_rows))
            return MicroBatch.of(
                self._source.read(order[at]),
                seq_len=self.seq_len,
                pad_id=self.pad_id,
                align=self.info.align,
            )

    def steps(
        self,
        rank: int = 0,
        world: int = 1,
        state: ReaderState | None = None,
        epochs: int | None = 1,
    ) -> Iterator[StepBatch]:
        """Give one rank's steps from a state on, reading ahead.

        Args:
            rank: this rank.
            world: number of ranks; it divides the rows of a slot.
            state: where to go on; the beginning by default.
            epochs: stop when the state's epoch reaches this; None never stops.

        Yields:
            The steps, each with the state after it.

        Raises:
            ShardError: the state belongs to another plan, the world does not divide the slots,
                or a shard is damaged.
        """
        state = state or self.initial_state()
        self.check_state(state)
        self._schedule.check_world(rank, world)
        ahead = state.walk(self.first_step, self.first_step + self.n_steps, epochs)
        if self._prefetch <= 0:
            for at, after in ahead:
                batches = self.micro_batches(at.step, rank, world)
                yield StepBatch(at.step, at.epoch, batches, after)
            return
        pool = ThreadPoolExecutor(1, "packed-reader")
        waiting: deque[tuple[ReaderState, ReaderState, Future[list[MicroBatch]]]] = deque()
        try:
            for at, after in ahead:
                waiting.append((at, after, pool.submit(self.micro_batches, at.step, rank, world)))
                if len(waiting) > self._prefetch:
                    yield _finished(*waiting.popleft())
            while waiting:
                yield _finished(*waiting.popleft())
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """Close the shards and stop copying."""
        self.folder.close()
        with self._lock:
            self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _hold(self, rank: int, world: int) -> None:
        """Remember whose rows decoded groups are kept for."""
        if self._held_for != (rank, world):
            self._held_for = (rank, world)
            self._source.want(self._schedule.owned(rank, world))


def _finished(
    at: ReaderState, after: ReaderState, reading: "Future[list[MicroBatch]]"
) -> StepBatch:
    return StepBatch(at.step, at.epoch, reading.result(), after)

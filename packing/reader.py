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
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from pyarrow import fs

from packing.format import PLAN_FILE, ShardError, load_manifest
from packing.rows import Int64, MicroBatch, PaddedBatch, RowGroup, offsets_of
from packing.schedule import Schedule, load_plan
from packing.shard import ShardFile
from packing.storage import ShardFolder, resolve

__all__ = ["MicroBatch", "PackedReader", "PaddedBatch", "ReaderState", "RowGroup", "StepBatch"]

_OPEN_FILES = 4


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


@dataclass(frozen=True, slots=True)
class StepBatch:
    """What one rank trains in one step."""

    step: int
    epoch: int
    micro_batches: list[MicroBatch]
    """One per slot; without rows where a short step has none for the rank."""
    state: ReaderState
    """The state after this step: save it with the weights that this step made."""


@dataclass(slots=True)
class _Held:
    """A decoded row group, cut down to the rows one rank reads."""

    key: tuple[int, int]
    """Number of the file, and of the group in it."""
    first: int
    """Place in the shards of the group's first row."""
    stop: int
    places: Int64
    """Places in the shards of the rows that are kept, ascending."""
    rows: RowGroup
    left: int
    """Rows that were not read yet; a group without any is let go."""


class PackedReader:
    """Reads the packed rows of a dataset by step, rank and world size.

    Args:
        dataset: folder of the dataset, or a URI that pyarrow can open.
        plan: another plan over the same shards; the dataset's ``plan.parquet`` by default.
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
        self._files = manifest.row_files
        self._file_bounds = offsets_of(np.array([f.rows for f in self._files], np.int64))
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
        if len(first.row_id) != self._file_bounds[-1]:
            raise ShardError(
                f"{path}: the plan has {len(first.row_id)} rows, the shards "
                f"{self._file_bounds[-1]}; restore the folder"
            )
        self.info = first.dataset
        self.plan = chosen.info
        self._row_id = first.row_id
        self._schedule = Schedule.of(chosen, first.row_id)
        self._continue_positions = continue_positions
        self._prefetch = prefetch
        self._memory_bytes = memory_bytes
        self._open: OrderedDict[int, ShardFile] = OrderedDict()
        self._groups: OrderedDict[tuple[int, int], _Held] = OrderedDict()
        self._last: _Held | None = None
        self._held_for: tuple[int, int] = (-1, 0)
        self._owned = np.empty(0, np.int64)
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
        return ReaderState(self.plan.plan_fingerprint)

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
        if not 0 <= state.step <= self.n_steps or state.epoch < 0:
            raise ShardError(
                f"the state says epoch {state.epoch}, step {state.step}; the plan has steps 0 to "
                f"{self.n_steps}: it was damaged, begin from an older one"
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
                    self._read(rows),
                    step=step,
                    slot=slot,
                    seq_len=self.seq_len,
                    pad_id=self.pad_id,
                    continue_positions=self._continue_positions,
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
            self._hold(0, 1)
            return MicroBatch.of(self._read(order[at]), seq_len=self.seq_len, pad_id=self.pad_id)

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
        ahead = self._walk(state, epochs)
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
            for file in self._open.values():
                file.close()
            self._open.clear()
            self._groups.clear()
            self._last = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _hold(self, rank: int, world: int) -> None:
        """Remember whose rows decoded groups are kept for."""
        if self._held_for != (rank, world):
            self._groups.clear()
            self._last = None
            self._held_for = (rank, world)
            self._owned = self._schedule.owned(rank, world)

    def _walk(
        self, state: ReaderState, epochs: int | None
    ) -> Iterator[tuple[ReaderState, ReaderState]]:
        """Give (state, state after it) of every step to be trained."""
        if all(state.skips(step) for step in range(self.n_steps)):
            return
        while epochs is None or state.epoch < epochs:
            if state.step >= self.n_steps:
                state = replace(state, epoch=state.epoch + 1, step=0)
                continue
            after = replace(state, step=state.step + 1)
            if not state.skips(state.step):
                yield state, after
            state = after

    def _read(self, rows: Int64) -> RowGroup:
        """Return rows by their place in the shards, in the order given."""
        parts = []
        at = 0
        while at < len(rows):
            held = self._group_of(int(rows[at]))
            # The longest run of wanted rows that stand next to each other in this group.
            first = int(np.searchsorted(held.places, rows[at]))
            run = min(len(rows) - at, len(held.places) - first)
            same = rows[at : at + run] == held.places[first : first + run]
            n = run if same.all() else int(np.argmin(same))
            parts.append(held.rows.slice(first, first + n))
            at += n
            held.left -= n
            if held.left <= 0:
                self._groups.pop(held.key, None)
                self._last = None
        found = RowGroup.concat(parts)
        if not (found.row_id == self._row_id[rows]).all():
            raise ShardError(
                f"{self.folder.path}: the shards hold rows {found.row_id[:3].tolist()}… where "
                f"the plan expects {self._row_id[rows][:3].tolist()}…; restore the folder"
            )
        return found

    def _group_of(self, row: int) -> _Held:
        """Return the decoded group that holds a row, as far as this rank needs it."""
        if self._last is not None and self._last.first <= row < self._last.stop:
            return self._last
        index = int(np.searchsorted(self._file_bounds, row, "right")) - 1
        file = self._file(index)
        inside = row - int(self._file_bounds[index])
        number = int(np.searchsorted(file.group_bounds, inside, "right")) - 1
        key = (index, number)
        if key not in self._groups:
            self._groups[key] = self._decoded(file, key, int(self._file_bounds[index]))
            size = sum(held.rows.nbytes for held in self._groups.values())
            while size > self._memory_bytes and len(self._groups) > 1:
                size -= self._groups.popitem(last=False)[1].rows.nbytes
        self._groups.move_to_end(key)
        self._last = self._groups[key]
        return self._last

    def _decoded(self, file: ShardFile, key: tuple[int, int], base: int) -> _Held:
        """Read a group and keep what this rank needs of it."""
        number = key[1]
        first, stop = (file.group_bounds[number : number + 2] + base).tolist()
        group = file.read(number)
        a, b = np.searchsorted(self._owned, [first, stop])
        places = self._owned[a:b]
        if len(places) < stop - first:
            group = RowGroup.concat([group.slice(i, i + 1) for i in (places - first).tolist()])
        return _Held(key, first, stop, places, group, len(places))

    def _file(self, index: int) -> ShardFile:
        """Return an open shard."""
        if index in self._open:
            self._open.move_to_end(index)
            return self._open[index]
        entry = self._files[index]
        source = self.folder.open(entry, self.fingerprint)
        file = ShardFile(source, f"{self.folder.path}/{entry.name}")
        if file.info != self.info or file.group_bounds[-1] != entry.rows:
            raise ShardError(
                f"{file.name}: its footer belongs to dataset {file.info.fingerprint[:12]} with "
                f"{file.group_bounds[-1]} rows, the manifest says {self.fingerprint[:12]} with "
                f"{entry.rows}; restore the file"
            )
        self._open[index] = file
        if index + 1 < len(self._files):
            self.folder.prefetch(self._files[index + 1], self.fingerprint)
        while len(self._open) > _OPEN_FILES:
            self._open.popitem(last=False)[1].close()
        return file


def _finished(
    at: ReaderState, after: ReaderState, reading: "Future[list[MicroBatch]]"
) -> StepBatch:
    return StepBatch(at.step, at.epoch, reading.result(), after)

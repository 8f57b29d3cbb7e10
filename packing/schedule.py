"""A plan in memory: which rows each rank of any world trains in a step.

Imports numpy, pyarrow and the standard library alone, so that it can be vendored with the reader.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from packing.format import PLAN_SCHEMA, DatasetInfo, PlanInfo, ShardError
from packing.rows import Int16, Int32, Int64


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan's table and footer."""

    where: str
    dataset: DatasetInfo
    info: PlanInfo
    table: pa.Table

    @property
    def row_id(self) -> Int64:
        """Rows in the order of the plan, [r]."""
        ids: Int64 = self.table["row_id"].to_numpy()
        return ids


def load_plan(path: str, filesystem: fs.FileSystem | None = None) -> Plan:
    """Read a plan and its footer.

    Raises:
        ShardError: it is missing, damaged, or no plan.
    """
    try:
        with (filesystem or fs.LocalFileSystem()).open_input_file(path) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            metadata = file.metadata.metadata
            dataset = DatasetInfo.from_metadata(metadata, path)
            info = PlanInfo.from_metadata(metadata, path)
            table = file.read(columns=PLAN_SCHEMA.names, use_threads=False)
            found = {field.name: field.type for field in table.schema}
            if found != {field.name: field.type for field in PLAN_SCHEMA}:
                raise ShardError(f"{path}: its columns are not those of a plan; restore the file")
            return Plan(path, dataset, info, table.select(PLAN_SCHEMA.names))
    except FileNotFoundError as error:
        raise ShardError(f"{path}: not found; give a plan, or the folder of a dataset") from error
    except (OSError, ValueError, KeyError, MemoryError, pa.ArrowException) as error:
        raise ShardError(f"{path}: cannot be read as a plan ({error}); restore the file") from error


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rows by step and slot, each with its place among the ranks the plan was made for.

    Within a slot a row stands on a lane in ``[0, dp x micro_batch)``: the rows of rank k take the
    lanes from ``k x micro_batch`` on. Rank r of another world takes the r-th part of the lanes.
    """

    info: PlanInfo
    rows: Int64
    """[n] place of each row in the shards, by step, slot and lane."""
    lane: Int32
    """[n] lane of each row."""
    cp: Int16
    """[n] ranks that share each row."""
    slot_number: Int32
    """[slots] number of each slot within its step."""
    slot_bounds: Int64
    """[slots + 1] rows of each slot."""
    step_bounds: Int64
    """[steps + 1] slots of each step."""
    shared: int
    """The most ranks that share a row; 1 where none is shared."""
    first_step: int
    """Number of the first step: 0 but where a plan deals the rest of a run anew."""

    @classmethod
    def of(cls, plan: Plan, shard_order: Int64) -> Self:
        """Sort a plan into steps, slots and lanes.

        Args:
            plan: the plan.
            shard_order: row ids in the order of the shards, [n].

        Raises:
            ShardError: the plan is not one over these rows, or contradicts itself.
        """
        step, slot, rank, cp = (
            plan.table[name].to_numpy() for name in ("step", "slot", "rank", "cp")
        )
        order = np.lexsort((rank, slot, step))
        place = _places(plan, shard_order)[order]
        step, slot, rank, cp = step[order], slot[order], rank[order], cp[order]
        new_step = _changes(step)
        new_slot = new_step | _changes(slot)
        new_rank = new_slot | _changes(rank)
        starts = np.flatnonzero(new_rank)
        nth = np.arange(len(rank)) - starts[np.cumsum(new_rank) - 1]
        micro, dp = plan.info.micro_batch, plan.info.dp
        if (nth >= micro).any() or ((rank < 0) | (rank + cp > dp) | (cp < 1)).any():
            raise ShardError(
                f"{plan.where}: a slot gives a rank more than {micro} rows, or names a rank "
                f"outside the {dp} of the plan; make the plan again with drystone replan"
            )
        slots = np.flatnonzero(new_slot)
        steps = np.flatnonzero(new_step[slots])
        first_step = int(step[0]) if len(step) else 0
        if first_step < 0 or (np.diff(step[slots[steps]]) != 1).any():
            raise ShardError(
                f"{plan.where}: its {len(steps)} steps are not numbered one after the other from "
                f"{first_step}; make the plan again with drystone replan"
            )
        return cls(
            plan.info,
            place,
            (rank * micro + nth).astype(np.int32),
            cp,
            slot[slots],
            np.append(slots, len(rank)),
            np.append(steps, len(slots)),
            int(cp.max(initial=1)),
            first_step,
        )

    @property
    def n_steps(self) -> int:
        """Number of steps."""
        return len(self.step_bounds) - 1

    def check_world(self, rank: int, world: int) -> None:
        """Refuse a rank and world size that the plan cannot serve.

        Raises:
            ShardError: the world does not divide the slots, or rows are shared by ranks and the
                world is not the plan's own.
        """
        slot_rows = self.info.slot_rows
        if world < 1 or slot_rows % world:
            fit = [n for n in range(1, slot_rows + 1) if slot_rows % n == 0]
            raise ShardError(
                f"world size {world} does not divide the {slot_rows} rows of a slot; use one of "
                f"{', '.join(map(str, fit))}, or make another plan with drystone replan --dp"
            )
        if not 0 <= rank < world:
            raise ShardError(f"rank {rank} is outside [0, {world}); ranks count from 0")
        if world != self.info.dp and self.shared > 1:
            raise ShardError(
                f"rows of this plan are shared by up to {self.shared} ranks, so only its own "
                f"world size {self.info.dp} can read it, not {world}; use drystone replan --dp"
            )

    def slots(self, step: int, rank: int, world: int) -> list[tuple[int, Int64, Int16 | None]]:
        """Return (slot, rows by place in the shards, their cp) of one rank in one step.

        Raises:
            ShardError: the step, rank or world do not fit the plan.
        """
        self.check_world(rank, world)
        at = step - self.first_step
        if not 0 <= at < self.n_steps:
            last = self.first_step + self.n_steps - 1
            raise ShardError(f"step {step} is outside the plan's steps {self.first_step} to {last}")
        found: list[tuple[int, Int64, Int16 | None]] = []
        for index in range(int(self.step_bounds[at]), int(self.step_bounds[at + 1])):
            a, b = int(self.slot_bounds[index]), int(self.slot_bounds[index + 1])
            if self.shared == 1 and b - a == self.info.slot_rows:
                # A full slot has one row on every lane, in their order.
                per_rank = (b - a) // world
                mine: slice | Int64 = slice(a + rank * per_rank, a + (rank + 1) * per_rank)
            else:
                mine = a + np.flatnonzero(self._mine(slice(a, b), rank, world))
            cp = self.cp[mine] if self.shared > 1 else None
            if cp is not None and (cp == 1).all():
                cp = None
            found.append((int(self.slot_number[index]), self.rows[mine], cp))
        return found

    def owned(self, rank: int, world: int) -> Int64:
        """Return the places in the shards of all rows that a rank reads, ascending."""
        return np.sort(self.rows[self._mine(slice(None), rank, world)])

    def _mine(self, part: slice, rank: int, world: int) -> npt.NDArray[np.bool_]:
        """Say which of some rows a rank reads."""
        lane: Int32 = self.lane[part]
        per_rank = self.info.slot_rows // world
        if world != self.info.dp:
            return np.asarray(lane // per_rank == rank)
        first = lane // self.info.micro_batch
        return np.asarray((first <= rank) & (rank < first + self.cp[part]))


def _changes(values: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Say where a value differs from the one before; the first always does."""
    changed = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed


def _places(plan: Plan, shard_order: Int64) -> Int64:
    """Return the place in the shards of each row of the plan.

    Raises:
        ShardError: the plan names a row that the dataset does not have, or one twice.
    """
    ids = plan.row_id
    if np.array_equal(ids, shard_order):
        return np.arange(len(ids), dtype=np.int64)
    order = np.argsort(shard_order, kind="stable")
    at = np.minimum(np.searchsorted(shard_order, ids, sorter=order), len(order) - 1)
    places: Int64 = order[at]
    unknown = ids[shard_order[places] != ids]
    if len(unknown) or len(np.unique(ids)) != len(ids):
        what = f"row {unknown[0]} is not in the dataset" if len(unknown) else "a row stands twice"
        raise ShardError(f"{plan.where}: {what}; make the plan again with drystone replan")
    return places

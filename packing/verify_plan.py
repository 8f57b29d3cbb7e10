"""Proves that a plan deals every row once, in full slots, at the cost it says."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from packing.cost import SHAPE_SIZES, ModelShape, attention_squares, row_cost
from packing.findings import Findings
from packing.format import DatasetManifest, ShardError, plan_fingerprint
from packing.rows import RowGroup
from packing.schedule import Plan, Schedule
from packing.trained import row_targets

PLAN_CHECKS = (
    "the plan deals every row once, in shard order",
    "slots and steps are full up to the last",
    "costs are those of the rows",
)
_SHAPE = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn")
"""The sizes that every manifest has; others are absent where an older version wrote it."""


@dataclass(slots=True)
class RowSums:
    """What the plan's checks need of each row, in the order of the shards."""

    row_id: npt.NDArray[np.int64]
    n_tokens: npt.NDArray[np.int64]
    squares: npt.NDArray[np.float64]
    """Sum over the row's pieces of what their attention costs (`attention_squares`)."""
    shape: ModelShape | None = None
    """The model that prices rows, where the manifest holds it."""
    trained: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Trained targets; empty where every target of the dataset is trained."""
    _parts: list[tuple[Any, Any, Any, Any]] = field(default_factory=list)
    _spans: bool = False

    @classmethod
    def empty(cls, manifest: DatasetManifest) -> Self:
        """Return sums of no rows, to be priced by the model in a dataset's settings."""
        no = np.empty(0, np.int64)
        return cls(no, no, np.empty(0, np.float64), _shape(manifest))

    def add(self, group: RowGroup) -> None:
        """Take in the rows of one row group."""
        if self.shape is None:
            squares = np.zeros(group.n_rows)
        else:
            each = attention_squares(group.length, self.shape)
            squares = np.add.reduceat(each, group.piece_offsets[:-1])
        n_tokens, pieces = np.diff(group.row_offsets), group.pieces_per_row.astype(np.int64)
        self._spans |= group.loss_spans is not None
        trained = row_targets(group.loss_spans, n_tokens, group.next_token, pieces)
        self._parts.append((group.row_id.copy(), n_tokens, squares, trained))

    def joined(self) -> "RowSums":
        """Return the sums of all rows taken in."""
        parts = [(self.row_id, self.n_tokens, self.squares, self.trained), *self._parts]
        row_id, n_tokens, squares, trained = (np.concatenate(c) for c in zip(*parts, strict=True))
        some = trained if self._spans else self.trained
        return RowSums(row_id, n_tokens, squares, self.shape, some)


def prove_plan(findings: Findings, plan: Plan, sums: RowSums) -> None:
    """Check the plan against the rows of the shards.

    Args:
        findings: takes the results.
        plan: the dataset's first plan.
        sums: the rows, in the order of the shards.
    """
    order, full, costs = PLAN_CHECKS
    if not np.array_equal(plan.row_id, sums.row_id):
        same = np.array_equal(np.sort(plan.row_id), np.sort(sums.row_id))
        findings.fail(
            order,
            f"{plan.where} lists {len(plan.row_id)} rows, the shards hold {len(sums.row_id)}"
            + ("; the same ones in another order" if same else "; not the same ones"),
        )
        for check in (full, costs):
            findings.cannot(check, "the plan does not list the rows of the shards")
        return
    if len(np.unique(sums.row_id)) != len(sums.row_id):
        findings.fail(order, "a row number occurs twice in the shards")
    _prove_slots(findings, plan, sums)
    if sums.shape is None:
        findings.cannot(costs, "the manifest's settings do not hold the model's shape")
    else:
        _prove_costs(findings, plan, sums, sums.shape)
    _report_balance(findings, plan, sums.trained)


def _prove_slots(findings: Findings, plan: Plan, sums: RowSums) -> None:
    check = PLAN_CHECKS[1]
    info = plan.info
    expected = plan_fingerprint(
        plan.dataset.fingerprint, (info.dp, info.micro_batch, info.slots_per_step), plan.table
    )
    if expected != info.plan_fingerprint:
        findings.fail(
            check,
            f"{plan.where}: its footer says {info.plan_fingerprint[:12]}, its rows make "
            f"{expected[:12]}",
        )
    try:
        schedule = Schedule.of(plan, sums.row_id)
    except ShardError as error:
        findings.fail(check, str(error))
        return
    if schedule.first_step:
        findings.fail(check, f"{plan.where}: steps begin at {schedule.first_step} instead of 0")
    if not len(sums.row_id):
        return
    if not np.array_equal(schedule.rows, np.arange(len(schedule.rows))):
        findings.fail(
            PLAN_CHECKS[0], f"{plan.where}: rows do not stand by step, slot and rank in the shards"
        )
    filled = np.add.reduceat(schedule.cp.astype(np.int64), schedule.slot_bounds[:-1])
    for index in np.flatnonzero(filled[:-1] != info.slot_rows)[:1]:
        findings.fail(
            check, f"slot {index} of the plan has {filled[index]} places of {info.slot_rows}"
        )
    if schedule.shared > 1:
        _prove_blocks(findings, plan, schedule)
    per_step = np.diff(schedule.step_bounds)
    for step in np.flatnonzero(per_step[:-1] != info.slots_per_step)[:1]:
        findings.fail(
            check, f"step {step} has {per_step[step]} slots instead of {info.slots_per_step}"
        )
    if filled[-1] > info.slot_rows or per_step[-1] > info.slots_per_step:
        findings.fail(check, "the last step has more rows than a step holds")
    numbers = np.arange(len(filled)) - np.repeat(schedule.step_bounds[:-1], per_step)
    if not np.array_equal(schedule.slot_number, numbers):
        findings.fail(check, "slots of a step are not numbered from 0")


def _prove_blocks(findings: Findings, plan: Plan, schedule: Schedule) -> None:
    """Check that shared rows lie on aligned blocks, and that each rank has its rows of a slot."""
    cp = schedule.cp.astype(np.int64)
    first = schedule.lane.astype(np.int64) // plan.info.micro_batch
    crooked = np.flatnonzero((cp & (cp - 1) != 0) | (first % cp != 0))
    for at in crooked[:1]:
        findings.fail(
            PLAN_CHECKS[1],
            f"row {plan.row_id[schedule.rows[at]]} is shared by {cp[at]} ranks from rank "
            f"{first[at]} on; blocks are aligned and powers of two",
            len(crooked),
        )
    slots = len(schedule.slot_bounds) - 1
    slot = np.repeat(np.arange(slots), np.diff(schedule.slot_bounds))
    held = np.zeros((slots, plan.info.dp + 1), np.int64)
    np.add.at(held, (slot, first), 1)
    np.add.at(held, (slot, first + cp), -1)
    held = np.cumsum(held, axis=1)[:, :-1]
    wrong = held > plan.info.micro_batch
    wrong[:-1] |= held[:-1] < plan.info.micro_batch
    for index, rank in np.argwhere(wrong)[:1]:
        findings.fail(
            PLAN_CHECKS[1],
            f"slot {index} of the plan gives rank {rank} {held[index, rank]} rows instead of "
            f"{plan.info.micro_batch}",
            int(wrong.sum()),
        )


def _shape(manifest: DatasetManifest) -> ModelShape | None:
    """Return the model that prices rows, from the settings in the manifest."""
    config = manifest.config
    if not all(isinstance(config.get(name), int) for name in _SHAPE):
        return None
    return ModelShape(**{name: config[name] for name in SHAPE_SIZES if name in config})


def _prove_costs(findings: Findings, plan: Plan, sums: RowSums, shape: ModelShape) -> None:
    said = plan.table["cost"].to_numpy()
    found = row_cost(sums.n_tokens, sums.squares, shape)
    wrong = np.flatnonzero(~np.isclose(said, found, rtol=1e-9))
    for at in wrong[:1]:
        findings.fail(
            PLAN_CHECKS[2],
            f"row {sums.row_id[at]} costs {found[at]:.6g} TFLOP, the plan says {said[at]:.6g}",
            len(wrong),
        )


def _report_balance(findings: Findings, plan: Plan, trained: npt.NDArray[np.int64]) -> None:
    """Count how equal the work of the ranks is, and what they train: the most loaded over the mean."""
    info = plan.info
    if not len(plan.row_id):
        return
    # A row shared by ranks is equal work for each of them.
    cp = plan.table["cp"].to_numpy()
    step, slot, rank = (
        np.repeat(plan.table[name].to_numpy(), cp) for name in ("step", "slot", "rank")
    )
    rank = rank + np.arange(len(rank)) - np.repeat(np.cumsum(cp) - cp, cp)
    cost = np.repeat(plan.table["cost"].to_numpy() / cp, cp)
    slots = step.astype(np.int64) * (int(slot.max()) + 1) + slot
    loads = [("step_max_over_mean", step, cost), ("slot_max_over_mean", slots, cost)]
    if len(trained):
        loads.append(("trained_max_over_mean", step, np.repeat(trained / cp, cp)))
    for name, key, values in loads:
        _, group = np.unique(key, return_inverse=True)
        load = np.bincount(group * info.dp + rank, values, minlength=(group.max() + 1) * info.dp)
        load = load.reshape(-1, info.dp)
        # A short last step leaves ranks idle, or one with a row more; it says nothing about the balance.
        places = np.bincount(group)
        load = load[(load > 0).all(axis=1) & (places == places.max())]
        if len(load):
            ratio = load.max(axis=1) / load.mean(axis=1)
            findings.counts[name] = round(float(ratio.mean()), 6)

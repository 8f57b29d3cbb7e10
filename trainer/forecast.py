"""``drystone train CONFIG.toml --plan``: does a dataset fit a machine, and what will a step take.

Nothing here imports torch, and nothing is computed on a device.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from packing.format import PLAN_FILE, load_manifest
from packing.reader import PackedReader
from trainer.config import ConfigError, TrainerConfig
from trainer.geometry import weight_count
from trainer.layout import Element
from trainer.lineage import find_dataset
from trainer.machine import MachineProfile, utilization
from trainer.plan import LayerPlan
from trainer.planner import Prediction, Work, choose, longest_row, predict

ELEMENTS = {"bfloat16": Element(2, 4), "float32": Element(4, 4), "float64": Element(8, 8)}
"""Bytes of a number by ``dtype``."""

STEPS_TIMED = 200
"""Steps, evenly spread over the plan, whose seconds are predicted one by one."""

Pass = tuple[int, ...]
"""Where the documents of a micro-batch begin, and the end."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a run takes on a machine."""

    dataset: str
    machine: MachineProfile
    weights: int
    """Number of weights."""
    work: Work
    """The largest micro-batch."""
    plan: LayerPlan | None
    """The plan that is used; None where none fits."""
    is_configured: bool
    """Whether the configuration gives the plan."""
    predicted: Prediction | None
    """The largest micro-batch by the plan."""
    longest: int
    """Tokens of the longest document that fits as a row, by whatever plan."""
    ranks: int
    """Ranks of the dataset's plan."""
    step_seconds: float
    """Seconds of a step, on average, without the optimizer's."""
    step_tokens: float
    """Tokens of a step, all ranks."""
    step_tflop: float
    """TFLOP of a step, all ranks, nothing that is made again."""

    @property
    def fits(self) -> bool:
        """Whether the machine holds it."""
        return self.predicted is not None and self.predicted.fits(self.machine)

    @property
    def mfu(self) -> float:
        """Model FLOP utilization."""
        if not self.step_seconds:
            return 0.0
        return utilization(self.step_tflop * 1e12, self.step_seconds, self.machine, self.ranks)


def forecast(config: TrainerConfig, machine: MachineProfile) -> Forecast:
    """Predict a run; where layers are planned by the configuration, by its plan.

    Raises:
        ConfigError: the model has experts, which are not predicted.
        ShardError: the dataset cannot be read.
    """
    dataset = find_dataset(config.dataset)
    with PackedReader(dataset) as reader:
        shape = config.model.shape(reader.vocab_size)
        if shape.experts:
            raise ConfigError(
                f"model.experts = {shape.experts}: what experts take is not predicted; "
                "train without --plan"
            )
        passes, ranks = _passes(reader), reader.plan.dp
    element = ELEMENTS[config.dtype]
    largest = max(
        (p for step in passes for p in step.values()),
        key=lambda p: (p[-1], max(b - a for a, b in pairwise(p))),
    )
    work = Work(shape, config.model.is_tied, element, largest)
    given = config.training.layer_plan()
    plan, predicted = _planned(work, given, machine)
    every = -(-len(passes) // STEPS_TIMED)
    timed = [] if plan is None else [_step(work, s, plan, machine) for s in passes[::every]]
    seconds, tokens, tflop = np.mean(timed, axis=0).tolist() if timed else (0.0, 0.0, 0.0)
    tile = 8192 if plan is None else plan.tile
    return Forecast(
        dataset=dataset,
        machine=machine,
        weights=weight_count(shape, tied=config.model.is_tied),
        work=work,
        plan=plan,
        is_configured=given is not None,
        predicted=predicted,
        longest=longest_row(work, machine, tile),
        ranks=ranks,
        step_seconds=seconds,
        step_tokens=tokens,
        step_tflop=tflop,
    )


def _planned(
    work: Work, given: LayerPlan | None, machine: MachineProfile
) -> tuple[LayerPlan | None, Prediction | None]:
    """Return the plan, the configured one where there is one, and what it takes."""
    if given is not None:
        return given, predict(work, given, machine)
    return choose(work, machine) or (None, None)


def _passes(reader: PackedReader) -> list[dict[tuple[int, int], Pass]]:
    """Return for each step of the dataset's plan its micro-batches by slot and rank."""
    folder, files = reader.folder.path, reader.folder.filesystem
    ends: dict[int, list[int]] = {}
    for entry in load_manifest(folder, files).row_files:
        table = pq.read_table(
            f"{folder}/{entry.name}", columns=["row_id", "cu_seqlens"], filesystem=files
        )
        ends |= zip(table["row_id"].to_pylist(), table["cu_seqlens"].to_pylist(), strict=True)
    columns = ["step", "slot", "rank", "row_id"]
    plan = pq.read_table(f"{folder}/{PLAN_FILE}", columns=columns, filesystem=files)
    steps: dict[int, dict[tuple[int, int], Pass]] = {}
    for step, slot, rank, row in zip(*(plan[c].to_pylist() for c in columns), strict=True):
        found = steps.setdefault(step, {})
        before = found.get((slot, rank), (0,))
        found[slot, rank] = before + tuple(before[-1] + end for end in ends[row][1:])
    return [steps[step] for step in sorted(steps)]


def _step(
    work: Work, passes: dict[tuple[int, int], Pass], plan: LayerPlan, machine: MachineProfile
) -> tuple[float, float, float]:
    """Return seconds, tokens and TFLOP of a step: in each slot the slowest rank counts."""
    slowest: dict[int, float] = {}
    tokens = tflop = 0.0
    for (slot, _), boundaries in passes.items():
        one = replace(work, boundaries=boundaries)
        seconds = predict(one, plan, machine).seconds
        slowest[slot] = max(slowest.get(slot, 0.0), seconds)
        flops = one.flops()
        tokens += one.tokens
        tflop += 3 * (flops.linear + flops.attention + flops.head) / 1e12
    return sum(slowest.values()), tokens, tflop


def as_json(found: Forecast) -> dict[str, Any]:
    """Return a forecast as plain values."""
    predicted = found.predicted
    return {
        "fits": found.fits,
        "dataset": found.dataset,
        "machine": asdict(found.machine),
        "weights": found.weights,
        "largest_micro_batch": {
            "tokens": found.work.tokens,
            "documents": len(found.work.boundaries) - 1,
            "longest_document": int(found.work.lengths.max()),
        },
        "plan": None if found.plan is None else asdict(found.plan),
        "is_configured": found.is_configured,
        "predicted": None
        if predicted is None
        else {**asdict(predicted), "device": predicted.device},
        "longest_row": found.longest,
        "ranks": found.ranks,
        "step_seconds": found.step_seconds,
        "step_tokens": found.step_tokens,
        "step_tflop": found.step_tflop,
        "mfu": found.mfu,
    }


def lines(found: Forecast, steps: int) -> Iterator[str]:
    """Return a forecast as text; every number with what it is."""
    machine, work, predicted = found.machine, found.work, found.predicted
    yield f"{found.dataset} on {machine.name} (rates are assumed or from its file, not measured now)"
    yield (
        f"largest micro-batch: {work.tokens:,} tokens, {len(work.boundaries) - 1:,} documents, "
        f"the longest of {int(work.lengths.max()):,}"
    )
    yield f"longest row of one document that fits by some plan: {found.longest:,} tokens"
    if predicted is None or found.plan is None:
        yield (
            f"does not fit: no plan takes the largest micro-batch in {_gb(machine.device_bytes)} "
            f"of device and {_gb(machine.host_bytes)} of host memory; pack shorter rows, lower "
            "balance.micro_batch, or train a smaller model"
        )
        return
    origin = "of the configuration" if found.is_configured else "the fastest that fits"
    yield f"[training.plan]  # {origin}"
    yield from (f"{name} = {value}" for name, value in asdict(found.plan).items())
    yield f"device memory: {_gb(predicted.device)} of {_gb(machine.device_bytes)}"
    yield f"  {_gb(predicted.states)} weights ({found.weights:,}), gradients and AdamW's moments"
    yield f"  {_gb(predicted.stored)} what layers store, on the device or on its way"
    yield f"  {_gb(predicted.working)} one layer's backward pass, or the loss, at its worst moment"
    yield f"host memory: {_gb(predicted.host)} of {_gb(machine.host_bytes)}"
    if not found.fits:
        yield "does not fit: remove [training.plan] to see the fastest plan that does"
    again, exposed = predicted.again / predicted.seconds, predicted.exposed / predicted.seconds
    yield (
        f"largest micro-batch: {predicted.seconds:.3g} s, {again:.1%} of it making again what was "
        f"not stored, {exposed:.1%} waiting for copies"
    )
    yield (
        f"step: {found.step_seconds:.3g} s on {found.ranks} ranks without the optimizer's, "
        f"{found.step_tokens / found.step_seconds:,.0f} tokens/s, MFU {found.mfu:.1%}"
    )
    yield f"{steps:,} steps: {steps * found.step_seconds / 3600:.3g} h"


def _gb(nbytes: int) -> str:
    return f"{nbytes / 1e9:.2f} GB"

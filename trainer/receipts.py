"""What a run trained, step by step: the rows of the plan, chained by a hash.

``out/receipts.jsonl`` has a line per step. Its hash covers the dataset, the plan and every step up
to it, so that two runs with one hash have seen the same rows in the same order, whatever their
number of ranks.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from packing.format import PLAN_FILE
from packing.reader import PackedReader

RECEIPTS_FILE = "receipts.jsonl"


class PlanRows:
    """The rows of every step of a dataset's plan, by slot and rank.

    Args:
        reader: of the dataset.
    """

    def __init__(self, reader: PackedReader) -> None:
        folder = reader.folder
        table = pq.read_table(
            f"{folder.path}/{PLAN_FILE}",
            columns=["row_id", "step", "slot", "rank"],
            filesystem=folder.filesystem,
        )
        row, step, slot, rank = (table[c].to_numpy() for c in ("row_id", "step", "slot", "rank"))
        order = np.lexsort((rank, slot, step))
        self._rows, self._steps = row[order], step[order]

    def of(self, step: int) -> list[int]:
        """Return the ids of the rows of a step of the plan, of all ranks."""
        first, stop = np.searchsorted(self._steps, (step, step + 1))
        found: list[int] = self._rows[first:stop].tolist()
        return found


@dataclass(frozen=True, slots=True)
class Receipt:
    """One line of ``receipts.jsonl``."""

    step: int
    """Step of the run, as in ``metrics.jsonl``."""
    epoch: int
    plan_step: int
    """Step of the plan whose rows these are."""
    attempt: int
    """Times that these rows had come before; 0 in their turn."""
    trained: bool
    """Whether they changed the weights."""
    rows: list[int]
    """Ids of the packed rows, by slot and rank."""


class Chain:
    """The hash over all receipts.

    Args:
        value: hex digits to go on from.
    """

    def __init__(self, value: str) -> None:
        self.value = value

    @classmethod
    def begin(cls, reader: PackedReader) -> "Chain":
        """Return the chain before the first step of a dataset's plan."""
        text = f"{reader.fingerprint} {reader.plan.plan_fingerprint}"
        return cls(hashlib.sha256(text.encode()).hexdigest())

    def add(self, receipt: Receipt) -> dict[str, Any]:
        """Take a receipt in and return its line, with the hash up to it."""
        line = {name: getattr(receipt, name) for name in Receipt.__slots__}
        text = self.value + json.dumps(line, separators=(",", ":"))
        self.value = hashlib.sha256(text.encode()).hexdigest()
        return {**line, "hash": self.value}

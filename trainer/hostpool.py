"""Host memory for what leaves the device: slabs of powers of two, every byte accounted for.

torch rounds each pinned block up to the next power of two, which on blocks of any size wastes a
quarter on average. Slabs that are powers of two waste nothing, and a slot may lie across slabs, so
all that is reserved can be used.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from trainer.layout import ALIGNMENT

MIN_SLAB = 1 << 20
"""Bytes of the smallest slab."""


class HostMemoryError(MemoryError):
    """The host memory that a run may use does not hold what its plan stores there."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Bytes of the pool, as consecutive parts of slabs."""

    parts: tuple[Tensor, ...]
    """uint8 views; together ``nbytes``."""
    nbytes: int
    ranges: tuple[tuple[int, int, int], ...]
    """Slab, begin and end of each part."""

    def split(self, flat: Tensor) -> Sequence[Tensor]:
        """Split ``nbytes`` bytes elsewhere as this slot is split."""
        return torch.split(flat, [end - begin for _, begin, end in self.ranges])


class HostPool:
    """Slots in slabs of host memory.

    Args:
        budget: bytes that the pool may reserve at most; None sets no limit.
        pinned: whether the slabs are page-locked, which copies beside the computation need.
    """

    def __init__(self, budget: int | None = None, *, pinned: bool = False) -> None:
        self.budget, self.pinned = budget, pinned
        self.slabs: list[Tensor] = []
        self.used = 0
        """Bytes of the slots that are taken."""
        self.peak = 0
        """Most bytes that were ever taken at once."""
        self._free: list[tuple[int, int, int]] = []

    @property
    def reserved(self) -> int:
        """Bytes of all slabs."""
        return sum(slab.numel() for slab in self.slabs)

    def reserve(self, nbytes: int) -> None:
        """Make slabs until ``nbytes`` are free.

        Raises:
            HostMemoryError: the budget does not allow it.
        """
        missing = nbytes - (self.reserved - self.used)
        if missing <= 0:
            return
        missing = -(-missing // MIN_SLAB) * MIN_SLAB
        if self.budget is not None and self.reserved + missing > self.budget:
            raise HostMemoryError(
                f"{self.used + nbytes:,} bytes of host memory are needed and {self.budget:,} may "
                "be used; lower training.plan.alpha, raise training.plan.recompute_prefix or "
                "training.plan.input_stride"
            )
        for bit in reversed(range(missing.bit_length())):
            if missing >> bit & 1:
                self._add_slab(1 << bit)

    def _add_slab(self, nbytes: int) -> None:
        self._free.append((len(self.slabs), 0, nbytes))
        self.slabs.append(torch.empty(nbytes, dtype=torch.uint8, pin_memory=self.pinned))

    def take(self, nbytes: int) -> Slot:
        """Return a slot, from the first free bytes on; slabs are added where they are too few.

        Args:
            nbytes: size, a multiple of ``ALIGNMENT``.

        Raises:
            HostMemoryError: the budget does not allow it.
            ValueError: the size is no such multiple.
        """
        if nbytes % ALIGNMENT:
            raise ValueError(f"a slot of {nbytes} bytes; use a multiple of {ALIGNMENT}")
        self.reserve(nbytes)
        ranges, needed = [], nbytes
        while needed:
            slab, begin, end = self._free.pop(0)
            middle = min(end, begin + needed)
            if middle < end:
                self._free.insert(0, (slab, middle, end))
            ranges.append((slab, begin, middle))
            needed -= middle - begin
        self.used += nbytes
        self.peak = max(self.peak, self.used)
        parts = tuple(self.slabs[slab][begin:end] for slab, begin, end in ranges)
        return Slot(parts, nbytes, tuple(ranges))

    def release(self, slot: Slot) -> None:
        """Take a slot back, and join its bytes with the free ones beside them."""
        self.used -= slot.nbytes
        joined: list[tuple[int, int, int]] = []
        for slab, begin, end in sorted((*self._free, *slot.ranges)):
            if joined and joined[-1][0] == slab and joined[-1][2] == begin:
                joined[-1] = (slab, joined[-1][1], end)
            else:
                joined.append((slab, begin, end))
        self._free = joined

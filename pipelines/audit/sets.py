"""Sets of 64-bit values in a file, of which a part is held at a time."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from transforms.shingles import ShingleSets

Int64s = npt.NDArray[np.int64]


class SetStore:
    """Sets written one after the other, then read by number.

    Args:
        path: the file, which is made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sink = path.open("wb")
        self._sizes: list[Int64s] = []
        self.sizes: Int64s = np.empty(0, np.int64)
        """Size of each set, shape [sets], once all are written."""
        self._starts: Int64s = self.sizes

    def append(self, sets: ShingleSets) -> None:
        """Write some sets."""
        self._sink.write(np.ascontiguousarray(sets.values).data)
        self._sizes.append(sets.sizes)

    def finish(self) -> None:
        """End writing."""
        self._sink.close()
        self.sizes = np.concatenate([self.sizes, *self._sizes])
        self._starts = np.cumsum(self.sizes) - self.sizes
        self._sizes = []

    def read(self, numbers: Int64s) -> ShingleSets:
        """Return some sets.

        Args:
            numbers: which, ascending.
        """
        sizes, starts = self.sizes[numbers], self._starts[numbers]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        values = np.empty(offsets[-1], np.uint64)
        view = values.data.cast("B")
        # Sets that lie one after the other are read at once.
        broken = starts[1:] != starts[:-1] + sizes[:-1]
        runs = np.concatenate([[0], np.flatnonzero(broken) + 1, [len(numbers)]]).tolist()
        places, bounds = (8 * starts).tolist(), (8 * offsets).tolist()
        with self._path.open("rb", buffering=0) as stream:
            for first, last in itertools.pairwise(runs):
                if bounds[first] < bounds[last]:
                    stream.seek(places[first])
                    stream.readinto(view[bounds[first] : bounds[last]])
        return ShingleSets(offsets, values)

    def blocks(self, numbers: Int64s, limit: int) -> Iterator[tuple[Int64s, ShingleSets]]:
        """Yield some sets and their numbers, about ``limit`` values at a time, at least a set.

        Args:
            numbers: which, ascending.
            limit: values held.
        """
        ends = np.cumsum(self.sizes[numbers])
        low = 0
        while low < len(numbers):
            before = int(ends[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(ends, before + limit, side="right")))
            yield numbers[low:high], self.read(numbers[low:high])
            low = high

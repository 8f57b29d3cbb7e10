"""Numbers for hashes, in the order in which they first come."""

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.shingles import Hashes

Int64s = npt.NDArray[np.int64]


class Interner:
    """Gives each distinct hash a number; 24 bytes per hash at most."""

    def __init__(self) -> None:
        self._keys = np.zeros(1 << 12, np.uint64)
        self._numbers = np.zeros(1 << 12, np.int32)
        self._used = 0

    def __len__(self) -> int:
        return self._used

    def add(
        self, hashes: Hashes, counted: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int32], Int64s]:
        """Number some hashes.

        Args:
            hashes: none of them 0 where counted, shape [n].
            counted: whether each gets a number, likewise.

        Returns:
            The number of each, -1 where it gets none; and the places of those that are new, in the
            order of their numbers.
        """
        if 2 * (self._used + len(hashes)) > len(self._keys):
            size = len(self._keys)
            while 2 * (self._used + len(hashes)) > size:
                size *= 2
            self._keys, self._numbers = _grown(self._keys, self._numbers, size)
        numbers, new = _intern(hashes, counted, self._keys, self._numbers, self._used)
        self._used += len(new)
        return numbers, new


@kernel
def _slot(keys: Hashes, value: np.uint64) -> int:
    """Return the place of a value, or the free one where it belongs."""
    mask = len(keys) - 1
    place = int(value >> np.uint64(20)) & mask
    while keys[place] != np.uint64(0) and keys[place] != value:
        place = (place + 1) & mask
    return place


@kernel
def _grown(
    keys: Hashes, numbers: npt.NDArray[np.int32], size: int
) -> tuple[Hashes, npt.NDArray[np.int32]]:
    larger, moved = np.zeros(size, np.uint64), np.zeros(size, np.int32)
    for old in range(len(keys)):
        if keys[old] != np.uint64(0):
            place = _slot(larger, keys[old])
            larger[place], moved[place] = keys[old], numbers[old]
    return larger, moved


@kernel
def _intern(
    hashes: Hashes,
    counted: npt.NDArray[np.bool_],
    keys: Hashes,
    known: npt.NDArray[np.int32],
    used: int,
) -> tuple[npt.NDArray[np.int32], Int64s]:
    numbers = np.full(len(hashes), -1, np.int32)
    new, count = np.empty(len(hashes), np.int64), 0
    for k in range(len(hashes)):
        if not counted[k]:
            continue
        place = _slot(keys, hashes[k])
        if keys[place] == np.uint64(0):
            keys[place] = hashes[k]
            known[place] = used + count
            new[count] = k
            count += 1
        numbers[k] = known[place]
    return numbers, new[:count].copy()

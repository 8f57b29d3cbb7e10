"""Where row groups and files begin: whole slots in a group, whole groups in a file."""

import numpy as np
import numpy.typing as npt

from packing.rows import Int64, offsets_of

GROUP_BYTES = 8 << 20
FILE_BYTES = 256 << 20
DISK_BYTES_PER_TOKEN = 2.1
"""What a token takes on disk, all columns together; measured on web text and code."""


def group_bounds(
    step: npt.NDArray[np.int32],
    slot: npt.NDArray[np.int32],
    n_tokens: npt.NDArray[np.int32],
    target_bytes: int = GROUP_BYTES,
) -> Int64:
    """Return where row groups begin: whole slots up to a size; a larger slot in equal parts.

    A reader that trains a slot then decodes one group; much smaller groups would cost bytes and
    time, and larger ones memory.

    Args:
        step: step of each row in the order of the shards, [r].
        slot: slot of each row within its step, [r].
        n_tokens: tokens of each row, [r].
        target_bytes: size of a group's token ids at 4 bytes each.

    Returns:
        [g + 1] rows at which groups begin, from 0 to r, int64.
    """
    if not len(n_tokens):
        return np.zeros(1, np.int64)
    first = np.flatnonzero((np.diff(step, prepend=-1) != 0) | (np.diff(slot, prepend=-1) != 0))
    slots = np.append(first, len(n_tokens))
    raw = offsets_of(n_tokens.astype(np.int64) * 4)[slots]
    bounds: list[npt.NDArray[np.int64]] = []
    at = 0
    while at < len(slots) - 1:
        # As many whole slots as fit, and at least one.
        stop = max(int(np.searchsorted(raw, raw[at] + target_bytes, "right")) - 1, at + 1)
        rows, parts = int(slots[stop] - slots[at]), 1
        if stop == at + 1:
            parts = _parts(rows, int(raw[stop] - raw[at]), target_bytes)
        bounds.append(slots[at] + np.arange(parts, dtype=np.int64) * (rows // parts))
        at = stop
    return np.append(np.concatenate(bounds), len(n_tokens)).astype(np.int64)


def _parts(rows: int, raw_bytes: int, target_bytes: int) -> int:
    """Return the divisor of ``rows`` whose parts come nearest to the target size."""
    divisors = np.array([d for d in range(1, rows + 1) if rows % d == 0])
    distance = np.abs(np.log(max(raw_bytes, 1) / divisors / target_bytes))
    return int(divisors[np.argmin(distance)])


def file_bounds(group_tokens: npt.NDArray[np.int64], target_bytes: int = FILE_BYTES) -> Int64:
    """Return where files begin: whole groups, files of about equal size.

    Args:
        group_tokens: tokens of each row group, [g].
        target_bytes: size of a file on disk, estimated at 2.1 bytes a token. Files come to between
            half of it and twice it, except where the whole dataset is smaller.

    Returns:
        [f + 1] groups at which files begin, from 0 to g, int64.
    """
    n_groups = len(group_tokens)
    if not n_groups:
        return np.zeros(1, np.int64)
    size = offsets_of(group_tokens) * DISK_BYTES_PER_TOKEN
    n_files = max(1, min(round(size[-1] / target_bytes), n_groups))
    cuts = np.searchsorted(size, size[-1] * np.arange(1, n_files) / n_files)
    return np.unique(np.concatenate([[0], cuts, [n_groups]])).astype(np.int64)

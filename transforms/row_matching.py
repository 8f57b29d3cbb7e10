"""Rows of 64-bit words matched by equality: groups of equal ones, and pairs of one from each side."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Groups:
    """Documents with equal hashes, taken together; numbered in the order of their first one."""

    group: Int64s
    """Group of each document, shape [documents]."""
    first: Int64s
    """The first document of each group, ascending, shape [groups]."""


def group_equal(hashes: npt.NDArray[np.uint64]) -> Groups:
    """Group rows of 128 bits, shape [documents, 2], by equality."""
    order = np.lexsort((hashes[:, 1], hashes[:, 0]))
    ordered = hashes[order]
    new = np.ones(len(ordered), bool)
    np.any(ordered[1:] != ordered[:-1], axis=1, out=new[1:])
    run = np.cumsum(new) - 1
    # lexsort is stable: the first row of a run is its first document.
    first = order[new]
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    group = np.empty(len(order), np.int64)
    group[order] = rank[run]
    return Groups(group, np.sort(first))


def match_rows(
    ours: npt.NDArray[np.uint64],
    theirs: npt.NDArray[np.uint64],
    ours_open: npt.NDArray[np.bool_],
    theirs_open: npt.NDArray[np.bool_],
) -> Int64s:
    """Match equal rows one to one: the n-th of theirs with a key to the n-th of ours with it.

    Args:
        ours: keys, shape [ours, words].
        theirs: keys, shape [theirs, words].
        ours_open: which of ours may be matched.
        theirs_open: which of theirs may.

    Returns:
        For each of theirs the row of ours, or -1; shape [theirs].
    """
    left, right = np.flatnonzero(ours_open), np.flatnonzero(theirs_open)
    keys = np.concatenate([ours[left], theirs[right]])
    rows = np.concatenate([left, right])
    other = np.arange(len(keys)) >= len(left)
    order = np.lexsort((other, *keys.T))
    keys, rows, other = keys[order], rows[order], other[order]
    new = np.ones(len(keys), bool)
    np.any(keys[1:] != keys[:-1], axis=1, out=new[1:])
    run = np.cumsum(new) - 1
    start = np.flatnonzero(new)
    owned = np.bincount(run, weights=~other, minlength=len(start)).astype(np.int64)
    place = np.arange(len(keys)) - start[run] - owned[run]
    matched = other & (place < owned[run])
    found = np.full(len(theirs), -1, np.int64)
    found[rows[matched]] = rows[(start[run] + place)[matched]]
    return found

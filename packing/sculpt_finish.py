"""What the clusters left over, and rows of very many documents that are shared out."""

# Kernels have no annotations.
# mypy: disable-error-code="no-untyped-call"

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from packing.sculpt_group import GROUP_DOCUMENTS, GROUP_ROWS, fill_cluster, fill_group
from packing.sculpt_limits import Limits, by_length
from packing.sculpt_order import row_relevance
from packing.sculpt_state import OPEN
from packing.spherical import Grid

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Doubles = npt.NDArray[np.float64]

_BLOCK_ROWS = 800
_SHORT = 4
"""A row holds at least so many of the documents that others are filled up with."""
ROUNDS = 4
"""How often rows are opened to fill up the last ones, at most."""
_TRIES = 2
"""Blocks of the second pass that a document is tried in."""


@dataclass(frozen=True, slots=True)
class Documents:
    """Some documents, by cluster along the tree."""

    points: Grid
    """Projected vectors, int16[n, d]."""
    full: Grid
    """The vectors themselves, int16[n, width]."""
    n_tokens: Int32s
    """Tokens, int32[n]."""


def finish_rows(
    n_tokens: Int32s,
    row: Int64s,
    relevance: Doubles,
    take: Callable[[Int64s], Documents],
    limits: Limits,
    squares: float,
) -> tuple[Int64s, Doubles, npt.NDArray[np.bool_]]:
    """Place what the clusters left over, and share out rows of very many documents.

    Args:
        n_tokens: tokens of all documents by cluster, in seeded order within, int32[n].
        row: row of each, as the clusters were filled, int64[n]; `OPEN` for none.
        relevance: mean cosine of each row, float64[rows].
        take: gives some documents by their places.
        limits: what a row can hold.
        squares: what the squared numbers of documents of all rows may add up to.

    Returns:
        The row of each document without holes, the mean cosine of each row, and which rows are as
        the clusters were filled.
    """
    row = row.copy()
    of_row = [relevance]

    def add(group: Int64s, found: Int64s, documents: Documents) -> None:
        rows = sum(len(part) for part in of_row)
        row[group] = np.where(found >= 0, rows + found, OPEN)
        of_row.append(relevance_of(documents.full, found, int(found.max(initial=-1)) + 1))

    over = np.flatnonzero(row == OPEN)
    left = take(over)
    add(over, second_pass(left, limits), left)
    for _ in range(ROUNDS):
        pile = np.flatnonzero(row == OPEN)
        placed = np.flatnonzero(row != OPEN)
        known = np.concatenate(of_row)
        filled = Filled(
            np.bincount(row[placed], minlength=len(known)),
            np.bincount(row[placed], n_tokens[placed], len(known)).astype(np.int64),
            known,
        )
        dense, few = rows_to_open(n_tokens[pile], filled, squares, limits)
        if not dense.any():
            break
        takers = np.flatnonzero((row == OPEN) | np.r_[few, False][row])
        group = mingle(takers, placed[dense[row[placed]]])
        documents = take(group)
        add(group, last_pass(documents, limits), documents)
    pile = np.flatnonzero(row == OPEN)
    add(pile, by_length(n_tokens[pile], limits), take(pile))
    used, row = np.unique(row, return_inverse=True)
    return row.astype(np.int64), np.concatenate(of_row)[used], used < len(relevance)


def second_pass(left: Documents, limits: Limits) -> Int64s:
    """Return the rows of what clusters left over, int64[n], from 0; `OPEN` for the last pass.

    Blocks of neighbouring clusters are filled like a cluster; what a block cannot place is tried
    again with the next ones.
    """
    row = np.full(len(left.points), OPEN, np.int64)
    rows = 0
    tries = np.zeros(len(left.points), np.int8)
    carried = np.empty(0, np.int64)
    for block in _blocks(left.n_tokens, limits, _BLOCK_ROWS):
        group = np.concatenate([carried, block])
        found = fill_cluster(
            left.points[group], left.full[group], left.n_tokens[group], limits, 4 * _BLOCK_ROWS
        )
        placed = found >= 0
        row[group[placed]] = rows + found[placed]
        rows += int(found.max(initial=-1)) + 1
        tries[group] += 1
        carried = group[~placed & (tries[group] < _TRIES)]
    return row


@dataclass(frozen=True, slots=True)
class Filled:
    """What is known of full rows."""

    documents: Int64s
    """Documents of each row, int64[rows]."""
    tokens: Int64s
    """Tokens of each row, int64[rows]."""
    relevance: Doubles
    """How alike the documents of each row are, float64[rows]."""


def rows_to_open(
    pile: Int32s, filled: Filled, squares: float, limits: Limits
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which full rows are opened for their short documents, and which to take some of these.

    Documents that are in no row yet are mostly of more than half a row, and short ones are used up:
    rows of the most documents are opened until their tokens are half more than the last rows would
    lack. To bring the numbers of documents per row closer together, further rows of the most
    documents are opened with as many of the least relevance that have few.

    Args:
        pile: tokens of the documents that are in no row, int32[n].
        filled: the full rows.
        squares: what the squared numbers of documents may add up to.
        limits: what a row can hold.
    """
    lacking = 0
    rows = 0
    if len(pile):
        rows = int(by_length(pile, limits).max()) + 1
        lacking = rows * limits.seq_len - int(pile.sum(dtype=np.int64))
    documents, tokens = filled.documents, filled.tokens
    dense = np.argsort(-documents, kind="stable")
    dense = dense[tokens[dense] * _SHORT <= documents[dense] * limits.seq_len]
    before = np.cumsum(tokens[dense]) - tokens[dense]
    needed = int(np.count_nonzero(before < lacking * 3 // 2)) if lacking > limits.seq_len else 0
    few = np.flatnonzero((documents * len(documents) <= documents.sum()) & (documents > 0))
    few = few[np.argsort(filled.relevance[few], kind="stable")]
    pairs = min(len(dense) - needed, len(few))
    saved = (documents[dense[needed : needed + pairs]] - documents[few[:pairs]]) ** 2 / 2.0
    now = float((documents.astype(np.float64) ** 2).sum())
    if needed:
        # Rows that are filled up get the mean of what is spread over them.
        spread = float(documents[dense[:needed]].sum() + len(pile))
        now += spread**2 / (rows + needed) - float((documents[dense[:needed]] ** 2.0).sum())
    enough = np.cumsum(saved) - saved < now - squares
    pairs = int(np.count_nonzero(enough)) if now > squares else 0
    opened = np.zeros((2, len(documents)), bool)
    opened[0, dense[: needed + pairs]] = True
    opened[1, few[:pairs]] = True
    return opened[0], opened[1] & ~opened[0]


def last_pass(pile: Documents, limits: Limits) -> Int64s:
    """Return rows of the last documents and those of opened rows, int64[n], from 0.

    Blocks of neighbours are filled like a group, but evenly; short documents that a block cannot
    place go on to the next. `OPEN` for what is in no full row.
    """
    row = np.full(len(pile.n_tokens), OPEN, np.int64)
    rows = 0
    carried = np.empty(0, np.int64)
    for block in _blocks(pile.n_tokens, limits, GROUP_ROWS):
        group = np.concatenate([carried, block])
        group = group[np.argsort(-pile.n_tokens[group], kind="stable")]
        found = fill_group(
            pile.points[group], pile.full[group], pile.n_tokens[group], limits, even=True
        )
        placed = found >= 0
        row[group[placed]] = rows + found[placed]
        rows += int(found.max(initial=-1)) + 1
        carried = group[~placed]
        carried = carried[pile.n_tokens[carried] * _SHORT <= limits.seq_len][-GROUP_DOCUMENTS:]
    return row


def mingle(pile: Int64s, fillers: Int64s) -> Int64s:
    """Return the last documents with those that fill them up dealt evenly among them."""
    spread = np.concatenate(
        [
            np.arange(len(pile)) * max(1, len(fillers)),
            np.arange(len(fillers)) * max(1, len(pile)),
        ]
    )
    return np.concatenate([pile, fillers])[np.argsort(spread, kind="stable")]


def _blocks(n_tokens: Int32s, limits: Limits, rows: int) -> Iterator[Int64s]:
    ends = np.cumsum(n_tokens, dtype=np.int64)
    low = 0
    while low < len(n_tokens):
        before = int(ends[low - 1]) if low else 0
        high = int(np.searchsorted(ends, before + rows * limits.seq_len, side="right"))
        high = min(max(high, low + 1), low + GROUP_DOCUMENTS, len(n_tokens))
        yield np.arange(low, high)
        low = high


def relevance_of(full: Grid, row: Int64s, rows: int) -> Doubles:
    """Return the mean cosine of the pairs of documents of each row, float64[rows]."""
    relevance = np.zeros(rows)
    placed = np.flatnonzero(row >= 0)
    member = placed[np.argsort(row[placed], kind="stable")]
    begin = np.searchsorted(row[member], np.arange(rows + 1))
    row_relevance(full, begin, member, relevance)
    return relevance

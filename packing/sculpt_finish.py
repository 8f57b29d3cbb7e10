"""What the clusters left over, and rows of very many documents that are shared out."""

# Kernels have no annotations.
# mypy: disable-error-code="no-untyped-call"

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from packing.sculpt_group import EVEN, GROUP_DOCUMENTS, GROUP_ROWS, fill_group, of_blocks
from packing.sculpt_limits import Limits, by_length
from packing.sculpt_order import row_relevance
from packing.sculpt_spread import too_short
from packing.sculpt_state import OPEN, SPARE
from packing.spherical import Grid

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Doubles = npt.NDArray[np.float64]

_SCALES = (20, 96)
"""Rows of the blocks in which what clusters left over is filled, one after the other."""
_REGION_ROWS = 32
"""Rows of neighbouring clusters whose shortest documents leave together."""
_FEW = 3
"""Documents of a row at least, for it to be opened to take some of others."""
_SAVING = 3.0
"""The squared difference of two rows over what sharing out their documents saves."""
_SHORT = 4
"""A row holds at least so many of the documents that others are filled up with."""
ROUNDS = 4
"""How often rows are opened to fill up the last ones, at most."""
_TRIES = 4
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
        row: row of each, as the clusters were filled, int64[n]; `OPEN` and `SPARE` for
            none.
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
        row[group] = np.where(found >= 0, rows + found, np.minimum(row[group], OPEN))
        of_row.append(relevance_of(documents.full, found, int(found.max(initial=-1)) + 1))

    for rows in _SCALES:
        thin_out(row, n_tokens, limits)
        left, spare = np.flatnonzero(row == OPEN), np.flatnonzero(row == SPARE)
        over, ends = dealt(left, spare, n_tokens, limits, rows)
        documents = take(over)
        add(over, second_pass(documents, ends, limits), documents)
    for _ in range(ROUNDS):
        pile = np.flatnonzero(row < 0)
        placed = np.flatnonzero(row >= 0)
        known = np.concatenate(of_row)
        filled = Filled(
            np.bincount(row[placed], minlength=len(known)),
            np.bincount(row[placed], n_tokens[placed], len(known)).astype(np.int64),
            known,
        )
        dense, few = rows_to_open(n_tokens[pile], filled, squares, limits)
        if not dense.any():
            break
        takers = np.flatnonzero((row < 0) | np.r_[few, False, False][row])
        group = mingle(takers, placed[dense[row[placed]]])
        documents = take(group)
        add(group, last_pass(documents, limits), documents)
    pile = np.flatnonzero(row < 0)
    add(pile, by_length(n_tokens[pile], limits), take(pile))
    used, row = np.unique(row, return_inverse=True)
    return row.astype(np.int64), np.concatenate(of_row)[used], used < len(relevance)


def thin_out(row: Int64s, n_tokens: Int32s, limits: Limits) -> None:
    """Let the shortest of what is left leave where rows would have too many documents."""
    left = np.flatnonzero(row == OPEN)
    for block in _blocks(n_tokens[left], limits, _REGION_ROWS):
        row[left[block[too_short(n_tokens[left[block]], limits)]]] = SPARE


def dealt(
    left: Int64s, spare: Int64s, n_tokens: Int32s, limits: Limits, rows: int
) -> tuple[Int64s, Int64s]:
    """Deal spare documents to blocks of those that are left: first what their rows would lack.

    Both kinds keep their order, so that a block gets spare documents that are alike.

    Args:
        left: places of documents that were left over, by cluster, int64[l].
        spare: places of short documents that left their clusters, by cluster, int64[s].
        n_tokens: tokens of all documents.
        limits: what a row can hold.
        rows: rows of a block, by its tokens.

    Returns:
        The documents block by block, and where each block ends.
    """
    blocks = [left[block] for block in _blocks(n_tokens[left], limits, rows)] or [left]
    tokens = np.array([n_tokens[block].sum(dtype=np.int64) for block in blocks], np.float64)
    needed = [int(by_length(n_tokens[block], limits).max(initial=-1)) + 1 for block in blocks]
    lacks = np.array(needed, np.float64) * limits.seq_len - tokens
    ends = np.cumsum(n_tokens[spare], dtype=np.int64)
    have = float(ends[-1]) if len(spare) else 0.0
    share = lacks * min(1.0, have / max(1.0, lacks.sum()))
    share += max(0.0, have - lacks.sum()) * tokens / max(1.0, tokens.sum())
    parts = []
    cuts = np.searchsorted(ends, np.cumsum(share)[:-1])
    for block, fillers in zip(blocks, np.split(spare, cuts), strict=True):
        count = max(1, -(-(len(block) + len(fillers)) // GROUP_DOCUMENTS))
        pairs = zip(np.array_split(block, count), np.array_split(fillers, count), strict=True)
        parts += [np.concatenate(pair) for pair in pairs]
    return np.concatenate(parts), np.cumsum([len(part) for part in parts])


def second_pass(left: Documents, ends: Int64s, limits: Limits) -> Int64s:
    """Return the rows of what clusters left over, int64[n], from 0; `OPEN` for none.

    Blocks of neighbouring clusters are filled like a cluster; what a block cannot place is tried
    again with the next ones.

    Args:
        left: documents block by block.
        ends: where each block ends.
        limits: what a row can hold.
    """
    row = np.full(len(left.points), OPEN, np.int64)
    rows = 0
    tries = np.zeros(len(left.points), np.int8)
    carried = np.empty(0, np.int64)
    weights = of_blocks(limits.settings)
    for low, high in itertools.pairwise([0, *ends.tolist()]):
        group = np.concatenate([carried, np.arange(low, high)])
        group = group[np.argsort(-left.n_tokens[group], kind="stable")]
        found = fill_group(
            left.points[group], left.full[group], left.n_tokens[group], limits, weights
        )
        placed = found >= 0
        used, numbers = np.unique(found[placed], return_inverse=True)
        row[group[placed]] = rows + numbers
        rows += len(used)
        tries[group] += 1
        carried = group[~placed & (tries[group] < _TRIES)][-GROUP_DOCUMENTS:]
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
    few = np.flatnonzero((documents * len(documents) <= documents.sum()) & (documents >= _FEW))
    few = few[np.argsort(filled.relevance[few], kind="stable")]
    pairs = min(len(dense) - needed, len(few))
    saved = (documents[dense[needed : needed + pairs]] - documents[few[:pairs]]) ** 2 / _SAVING
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
        found = fill_group(pile.points[group], pile.full[group], pile.n_tokens[group], limits, EVEN)
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

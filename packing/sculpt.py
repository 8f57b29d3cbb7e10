"""Rows of documents that belong together, after "DataSculpt" (Lu et al., arXiv:2409.00997).

Pure steps, each a function of its arguments alone, so that the plan is the same however the work is
dealt out: centres from a sample, clusters of documents, rows of one cluster, and a second pass over
what no cluster could fill. :func:`sculpt_rows` runs them one after the other in one process.
"""

# Kernels have no annotations.
# mypy: disable-error-code="no-untyped-call"

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from packing.fit import PackSettings, Pieces, fit_rows
from packing.pieces import in_tokens, in_units
from packing.sculpt_fill import place, refine
from packing.sculpt_order import arrange, near_labels, row_relevance
from packing.sculpt_settings import SculptSettings
from packing.sculpt_state import OPEN
from packing.sculpt_tighten import tighten
from packing.shared_rows import keep_long
from packing.spherical import (
    Centres,
    Grid,
    directions,
    find_centres,
    project,
    sample_size,
    to_grid,
)
from transforms.kernel import kernel
from transforms.record import mix64

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Doubles = npt.NDArray[np.float64]

NO_LIMIT = (1 << 31) - 1
"""Documents of a row where there is no limit."""

_GROUP_ROWS = 24
_GROUP_DOCUMENTS = 8192
_BLOCK_ROWS = 800
_EVEN_PENALTY = 0.005
_SHORT = 4
"""A row holds at least so many of the documents that others are filled up with."""
_NEAR_BLOCK = 512
_LOOK = 192
ROUNDS = 4
"""How often rows are opened to fill up the last ones, at most."""
_TRIES = 2
"""Blocks of the second pass that a document is tried in."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a row can hold, and how it is filled."""

    seq_len: int
    max_docs: int
    settings: SculptSettings

    @property
    def slack(self) -> int:
        """Tokens that a full row may lack."""
        return int((1.0 - self.settings.fill) * self.seq_len + 1e-9)


def clusters_for(tokens: int, seq_len: int, settings: SculptSettings) -> int:
    """Return how many clusters documents of so many tokens in all are split into."""
    return max(1, tokens // (seq_len * settings.rows_per_cluster))


def learn_centres(grid: Grid, n_tokens: Int32s, clusters: int) -> Centres:
    """Return directions and cluster centres of a sample.

    Args:
        grid: vectors of the sample in seeded order, as `to_grid` gives them, int16[n, width].
        n_tokens: tokens of each, int32[n].
        clusters: how many clusters are wanted.
    """
    lively = np.flatnonzero(grid.any(axis=1))
    basis = directions(grid[lively[: 1 << 12]], np.arange(min(len(lively), 1 << 12)))
    points = project(grid[lively], basis)
    return find_centres(points, n_tokens[lively].astype(np.int64), clusters, basis)


def fill_cluster(
    points: Grid, full: Grid, n_tokens: Int32s, limits: Limits, group_rows: int = _GROUP_ROWS
) -> Int32s:
    """Return the rows of one cluster's documents, int32[n]; `OPEN` for those of the second pass.

    Args:
        points: projected vectors, int16[n, d].
        full: the vectors themselves, int16[n, width].
        n_tokens: tokens, int32[n], each from 1 to ``seq_len``.
        limits: what a row can hold.
        group_rows: rows that are filled together.
    """
    row = np.full(len(points), OPEN, np.int32)
    rows = 0
    most_tokens, most_docs = group_rows * limits.seq_len, _GROUP_DOCUMENTS
    for group in split(points, n_tokens, np.arange(len(points)), most_tokens, most_docs):
        group = group[np.argsort(-n_tokens[group], kind="stable")]
        found = fill_group(points[group], full[group], n_tokens[group], limits)
        used = np.unique(found[found >= 0])
        row[group[found >= 0]] = rows + np.searchsorted(used, found[found >= 0])
        rows += len(used)
    return row


def fill_group(
    points: Grid, full: Grid, n_tokens: Int32s, limits: Limits, *, even: bool = False
) -> Int32s:
    """Return the rows of some documents, longest first, int32[n]; `OPEN` for those in none.

    With ``even``, rows get equal numbers of documents before documents that are alike.
    """
    s = limits.settings
    row = np.full(len(points), OPEN, np.int32)
    rows = -(-int(n_tokens.sum(dtype=np.int64)) // limits.seq_len)
    if rows < 2:
        if len(points) and limits.seq_len - int(n_tokens.sum()) <= limits.slack:
            row[:] = 0 if len(points) <= limits.max_docs else OPEN
        return row
    label = labels(points, full, n_tokens, s.near_duplicate)
    weights = np.array([1.0, 1.0, 1.0] if even else [s.relevance, s.residual, s.count])
    common = (points, n_tokens, rows, limits.seq_len, limits.max_docs, label, s.near_duplicate_cap)
    place(*common, weights, s.score == "product" and not even, row)
    penalty = max(s.count_penalty, _EVEN_PENALTY if even else 0.0)
    refine(*common, penalty, s.refine_passes, row)
    tighten(*common, limits.slack, -1.0 if even else s.alike, row)
    return row


def labels(points: Grid, full: Grid, n_tokens: Int32s, threshold: float) -> Int32s:
    """Return the group of near-duplicates of each document, int32[n]; -1 for none.

    More than some hundred documents are compared in parts of similar ones.
    """
    label = np.full(len(points), -1, np.int32)
    used = 0
    for part in split(points, n_tokens, np.arange(len(points)), 1 << 62, _NEAR_BLOCK):
        part = np.sort(part)
        here = np.empty(len(part), np.int32)
        count = near_labels(points[part], full[part], threshold, here)
        label[part] = np.where(here >= 0, here + used, -1)
        used += count
    return label


def split(
    points: Grid, n_tokens: Int32s, group: Int64s, most_tokens: int, most_docs: int
) -> Iterator[Int64s]:
    """Yield parts of a group that are within the limits, halved by similarity; near ones follow."""
    if len(group) <= most_docs and int(n_tokens[group].sum(dtype=np.int64)) <= most_tokens:
        if len(group):
            yield group
        return
    if len(group) == 1:
        yield group
        return
    side = np.empty(len(group), np.int32)
    halve(points, group, side)
    order = np.argsort(-side, kind="stable")
    tokens = np.cumsum(n_tokens[group[order]], dtype=np.int64)
    cut = int(np.searchsorted(tokens, tokens[-1] // 2, side="right"))
    if len(group) > most_docs:
        cut = len(group) // 2
    cut = min(max(1, cut), len(group) - 1)
    yield from split(points, n_tokens, group[order[:cut]], most_tokens, most_docs)
    yield from split(points, n_tokens, group[order[cut:]], most_tokens, most_docs)


@kernel
def halve(points, group, side):  # type: ignore[no-untyped-def]  # noqa: C901
    """Score documents by how much more they are like the first of two means than the second.

    Args:
        points: projected vectors, int16[n, d].
        group: which of them, int64[m].
        side: receives the scores, int32[m].
    """
    n = len(group)
    d = points.shape[1]
    means = np.zeros((2, d), np.int16)
    total = np.zeros((2, d), np.int64)
    for i in range(n):
        for c in range(d):
            total[0, c] += points[group[i], c]
    for c in range(d):
        means[0, c] = np.rint(total[0, c] / n)
    for step in range(5):
        if step < 2:
            # Means to start from: the least like the mean of all, and the least like that one.
            worst = 0
            worst_score = np.int32(2147483647)
            for i in range(n):
                s = np.int32(0)
                for c in range(d):
                    s += np.int32(points[group[i], c]) * np.int32(means[0, c])
                if s < worst_score:
                    worst_score = s
                    worst = i
            for c in range(d):
                if step == 1:
                    means[1, c] = points[group[worst], c]
                else:
                    means[0, c] = points[group[worst], c]
            continue
        total[:] = 0
        members = np.zeros(2, np.int64)
        for i in range(n):
            s = np.int32(0)
            for c in range(d):
                s += np.int32(points[group[i], c]) * (np.int32(means[0, c]) - np.int32(means[1, c]))
            side[i] = s
            k = 0 if s >= 0 else 1
            members[k] += 1
            for c in range(d):
                total[k, c] += points[group[i], c]
        for k in range(2):
            if members[k]:
                for c in range(d):
                    means[k, c] = np.rint(total[k, c] / members[k])


@dataclass(frozen=True, slots=True)
class Documents:
    """Some documents, by cluster along the tree."""

    points: Grid
    """Projected vectors, int16[n, d]."""
    full: Grid
    """The vectors themselves, int16[n, width]."""
    n_tokens: Int32s
    """Tokens, int32[n]."""


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
    for block in _blocks(pile.n_tokens, limits, _GROUP_ROWS):
        group = np.concatenate([carried, block])
        group = group[np.argsort(-pile.n_tokens[group], kind="stable")]
        found = fill_group(
            pile.points[group], pile.full[group], pile.n_tokens[group], limits, even=True
        )
        placed = found >= 0
        row[group[placed]] = rows + found[placed]
        rows += int(found.max(initial=-1)) + 1
        carried = group[~placed]
        carried = carried[pile.n_tokens[carried] * _SHORT <= limits.seq_len][-_GROUP_DOCUMENTS:]
    return row


def squares_allowed(n_tokens: Int32s, settings: PackSettings) -> float:
    """Return what the squared numbers of documents of rows without full ones may add up to.

    Args:
        n_tokens: length of each document, int32[n].
        settings: ``count_spread`` says how much of best-fit's spread is allowed.
    """
    best = fit_rows(
        n_tokens[n_tokens > 0],
        np.arange(np.count_nonzero(n_tokens), dtype=np.uint64),
        PackSettings(seq_len=settings.seq_len, max_docs_per_row=settings.max_docs_per_row),
    )
    count = np.bincount(best.row).astype(np.float64)
    variance = float(count.var()) * settings.sculpt.count_spread**2
    full = int((n_tokens // np.int32(settings.seq_len)).sum(dtype=np.int64))
    return len(count) * (variance + float(count.mean()) ** 2) - full


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
        high = min(max(high, low + 1), low + _GROUP_DOCUMENTS, len(n_tokens))
        yield np.arange(low, high)
        low = high


def by_length(n_tokens: Int32s, limits: Limits) -> Int64s:
    """Return the rows of documents that are packed by length alone, int64[n]."""
    settings = PackSettings(
        seq_len=limits.seq_len,
        max_docs_per_row=limits.max_docs if limits.max_docs < NO_LIMIT else None,
    )
    pieces = fit_rows(n_tokens, np.arange(len(n_tokens), dtype=np.uint64), settings)
    row = np.empty(len(n_tokens), np.int64)
    row[pieces.document] = pieces.row
    return row


def sculpt_rows(
    n_tokens: Int32s,
    order: npt.NDArray[np.uint64],
    vectors: npt.NDArray[Any],
    settings: PackSettings,
    widest: int = 1,
) -> Pieces:
    """Fit documents into rows by what they are about, in one process.

    Documents of more than ``seq_len`` tokens give full rows of their own and one remainder, which
    has the vector of its document; with ``long = "keep"`` rows of their own that several ranks
    share. Other rows are in seeded order, documents in a row in that of a path
    from the longest one always to the most similar of the rest.

    Args:
        n_tokens: length of each document, int32[n], at least 1; none longer than ``seq_len`` with
            ``long = "drop"``.
        order: seeded key of each document, uint64[n], all different.
        vectors: vectors of length 1, or 0 where there is none, float[n, width].
        settings: how to fit.
        widest: the most ranks that may share a row; looked at for ``long = "keep"`` alone.

    Returns:
        The pieces; every token lies in exactly one.

    Raises:
        ShardError: vectors that cannot be used.
    """
    align = settings.align
    inner = in_unit_rows(settings)
    limits = limits_of(inner)
    width = vectors.shape[1] if vectors.ndim == 2 else 0
    grid = to_grid(vectors, np.arange(len(n_tokens)), width)
    parts = parts_of(in_units(n_tokens, align), order, inner, widest)
    taken = np.argsort(order, kind="stable")
    rest = parts.left % np.int32(inner.seq_len)
    taken = taken[rest[taken] > 0]
    if not len(taken):
        empty = np.empty(0, np.int64)
        pieces = assemble(parts.left, order, empty, empty, inner.seq_len)
        return in_tokens(parts.with_own(pieces), n_tokens, align)
    clusters = clusters_for(int(rest.sum(dtype=np.int64)), limits.seq_len, limits.settings)
    sample = taken[: sample_size(clusters)]
    centres = learn_centres(grid[sample], rest[sample], clusters)
    points = project(grid[taken], centres.basis)
    cluster = centres.assign(points)
    by_cluster = np.argsort(cluster, kind="stable")
    taken, points, cluster = taken[by_cluster], points[by_cluster], cluster[by_cluster]
    full, lengths = grid[taken], rest[taken]
    found = fill_clusters(cluster, points, full, lengths, limits)

    def some(documents: Int64s) -> Documents:
        return Documents(points[documents], full[documents], lengths[documents])

    squares = squares_allowed(parts.left, inner)
    row, _, _ = finish_rows(lengths, found.row, found.relevance, some, limits, squares)
    member = in_rows(points, lengths, row)
    pieces = assemble(parts.left, order, taken[member], row[member], inner.seq_len)
    return in_tokens(parts.with_own(pieces), n_tokens, align)


@dataclass(frozen=True, slots=True)
class Placed:
    """Documents in rows."""

    row: Int64s
    """Row of each document, int64[n]; `OPEN` for those in none."""
    relevance: Doubles
    """Mean cosine of the pairs of each row, float64[rows]."""


def fill_clusters(
    cluster: Int32s, points: Grid, full: Grid, n_tokens: Int32s, limits: Limits
) -> Placed:
    """Fill the rows of some whole clusters, each by itself.

    Args:
        cluster: cluster of each document, int32[n], ascending; seeded order within.
        points: projected vectors, int16[n, d].
        full: the vectors themselves, int16[n, width].
        n_tokens: tokens, int32[n].
        limits: what a row can hold.
    """
    row = np.full(len(cluster), OPEN, np.int64)
    rows = 0
    edges = [0, *(np.flatnonzero(np.diff(cluster)) + 1).tolist(), len(cluster)]
    for low, high in itertools.pairwise(edges):
        part = slice(low, high)
        found = fill_cluster(points[part], full[part], n_tokens[part], limits)
        row[part] = np.where(found >= 0, rows + found, OPEN)
        rows += int(found.max(initial=-1)) + 1
    return Placed(row, relevance_of(full, row, rows))


def finish_rows(
    n_tokens: Int32s,
    row: Int64s,
    relevance: Doubles,
    take: Callable[[Int64s], "Documents"],
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


def relevance_of(full: Grid, row: Int64s, rows: int) -> Doubles:
    """Return the mean cosine of the pairs of documents of each row, float64[rows]."""
    relevance = np.zeros(rows)
    placed = np.flatnonzero(row >= 0)
    member = placed[np.argsort(row[placed], kind="stable")]
    begin = np.searchsorted(row[member], np.arange(rows + 1))
    row_relevance(full, begin, member, relevance)
    return relevance


@dataclass(frozen=True, slots=True)
class Parts:
    """Documents less what has rows of its own because several ranks share them."""

    own: Pieces
    """Those rows."""
    left: Int32s
    """Units of each document that are still to be fitted, int32[n]; may be 0."""
    gone: Int32s
    """Units of each document in rows of its own, which come before the others, int32[n]."""

    def with_own(self, pieces: Pieces) -> Pieces:
        """Return the rows of their own, then the pieces of what was left."""
        return Pieces(
            np.concatenate([self.own.row, pieces.row + self.own.rows]),
            np.concatenate([self.own.document, pieces.document]),
            np.concatenate([self.own.start, pieces.start + self.gone[pieces.document]]),
            np.concatenate([self.own.length, pieces.length]),
        )


def parts_of(
    units: Int32s, order: npt.NDArray[np.uint64], settings: PackSettings, widest: int
) -> Parts:
    """Take apart what several ranks share: nothing but for ``long = "keep"``."""
    if settings.long == "keep":
        kept = keep_long(units, order, settings.seq_len, widest)
        return Parts(kept.rows, kept.n_tokens, units - kept.n_tokens)
    places, numbers = np.empty(0, np.int64), np.empty(0, np.int32)
    return Parts(Pieces(places, places, numbers, numbers), units, np.zeros_like(units))


def in_unit_rows(settings: PackSettings) -> PackSettings:
    """Return the settings of rows that are counted in units of ``align`` tokens."""
    return replace(settings, seq_len=settings.seq_len // settings.align, align=1)


def limits_of(settings: PackSettings) -> Limits:
    """Return what a row can hold."""
    return Limits(settings.seq_len, settings.max_docs_per_row or NO_LIMIT, settings.sculpt)


def in_rows(points: Grid, n_tokens: Int32s, row: Int64s) -> Int64s:
    """Return documents by row, and in it along a path of similar ones from the longest.

    Args:
        points: projected vectors, int16[n, d].
        n_tokens: tokens, int32[n].
        row: row of each document, int64[n]; those in none are left out.
    """
    placed = np.flatnonzero(row >= 0)
    member = placed[np.lexsort((placed, -n_tokens[placed], row[placed]))]
    begin = np.searchsorted(row[member], np.arange(int(row.max(initial=-1)) + 2))
    arrange(points, begin, member, _LOOK)
    return member


def assemble(
    n_tokens: Int32s,
    order: npt.NDArray[np.uint64],
    document: Int64s,
    row: Int64s,
    seq_len: int,
) -> Pieces:
    """Return the pieces of full rows and of fitted remainders, rows in seeded order.

    Args:
        n_tokens: length of each document, int32[n].
        order: seeded key of each document, uint64[n].
        document: documents with a remainder by row, in the order in which they stand there.
        row: row of each of them, ascending without holes.
        seq_len: tokens of a row.
    """
    windows = (n_tokens // np.int32(seq_len)).astype(np.int64)
    long = np.repeat(np.arange(len(n_tokens)), windows)
    ends = np.cumsum(windows)
    window = np.arange(len(long)) - (ends - windows)[long]
    first = np.flatnonzero(np.diff(row, prepend=-1))
    keys = np.concatenate(
        [
            mix64((order[long] + window.astype(np.uint64)).view(np.int64), 1),
            mix64(order[document[first]].view(np.int64), 2),
        ]
    )
    place_of = np.empty(len(keys), np.int64)
    place_of[np.argsort(keys, kind="stable")] = np.arange(len(keys))
    rows = np.concatenate([place_of[: len(long)], place_of[len(long) + row]])
    documents = np.concatenate([long, document])
    start = np.concatenate([window * seq_len, windows[document] * seq_len])
    rest = n_tokens[document] % np.int32(seq_len)
    length = np.concatenate([np.full(len(long), seq_len), rest])
    by_row = np.argsort(rows, kind="stable")
    return Pieces(
        rows[by_row],
        documents[by_row],
        start[by_row].astype(np.int32),
        length[by_row].astype(np.int32),
    )

"""Rows of documents that belong together, after "DataSculpt" (Lu et al., arXiv:2409.00997).

Pure steps, each a function of its arguments alone, so that the plan is the same however the work is
dealt out: centres from a sample, clusters of documents, rows of one cluster, and a second pass over
what no cluster could fill. :func:`sculpt_rows` runs them one after the other in one process.
"""

# Kernels have no annotations.
# mypy: disable-error-code="no-untyped-call"

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from packing.fit import PackSettings, Pieces
from packing.pieces import in_tokens, in_units
from packing.sculpt_finish import Documents, finish_rows, relevance_of
from packing.sculpt_group import fill_cluster
from packing.sculpt_limits import (
    Limits,
    clusters_for,
    in_unit_rows,
    limits_of,
)
from packing.sculpt_order import arrange
from packing.sculpt_spread import densest, squares_allowed
from packing.sculpt_state import OPEN
from packing.shared_rows import keep_long
from packing.spherical import (
    Centres,
    Floats,
    Grid,
    directions,
    find_centres,
    project,
    sample_size,
    to_grid,
)
from transforms.record import mix64

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Doubles = npt.NDArray[np.float64]

_LOOK = 192
_DIRECTING = 1 << 12


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
    clusters = clusters_for(int(rest.sum(dtype=np.int64)), inner.seq_len, inner.sculpt)
    sample = slice(0, sample_size(clusters))
    basis = learn_directions(grid[taken[sample]])
    points = project(grid[taken], basis)
    centres = learn_centres(points[sample], rest[taken[sample]], clusters, basis)
    cluster = centres.assign(points)
    squares = squares_allowed(parts.left, inner)
    dense = densest(cluster[sample], rest[taken[sample]], len(taken), inner.seq_len, squares)
    limits = limits_of(inner, dense)
    by_cluster = np.argsort(cluster, kind="stable")
    taken, points, cluster = taken[by_cluster], points[by_cluster], cluster[by_cluster]
    full, lengths = grid[taken], rest[taken]
    found = fill_clusters(cluster, points, full, lengths, limits)

    def some(documents: Int64s) -> Documents:
        return Documents(points[documents], full[documents], lengths[documents])

    row, _, _ = finish_rows(lengths, found.row, found.relevance, some, limits, squares)
    member = in_rows(points, lengths, row)
    pieces = assemble(parts.left, order, taken[member], row[member], inner.seq_len)
    return in_tokens(parts.with_own(pieces), n_tokens, align)


def learn_directions(grid: Grid) -> Floats:
    """Return the directions of a sample in seeded order, int16[n, width]; see `directions`."""
    lively = np.flatnonzero(grid.any(axis=1))[:_DIRECTING]
    return directions(grid[lively], np.arange(len(lively)))


def learn_centres(points: Grid, n_tokens: Int32s, clusters: int, basis: Floats) -> Centres:
    """Return cluster centres of a sample.

    Args:
        points: projected vectors of the sample in seeded order, int16[n, d].
        n_tokens: tokens of each, int32[n].
        clusters: how many clusters are wanted.
        basis: the directions of the projection.
    """
    lively = np.flatnonzero(points.any(axis=1))
    return find_centres(points[lively], n_tokens[lively].astype(np.int64), clusters, basis)


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
        row[part] = np.where(found >= 0, rows + found, found)
        rows += int(found.max(initial=-1)) + 1
    return Placed(row, relevance_of(full, row, rows))


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

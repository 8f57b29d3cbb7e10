"""Spherical clustering of unit vectors that gives the same clusters everywhere.

Vectors are rounded to steps of 1/2048, and every similarity that decides anything is a dot product
of such integers. In float32 or float64 their sums are exact, whatever order a BLAS takes them in:
by Cauchy-Schwarz no partial sum passes 2**22 times a rounding margin. The number of threads, the
shape of a tile and the instruction set therefore change no bit.

Centres come from a bounded sample that is chosen by seeded key. They form a tree of one or two
levels, so that assigning costs twice the square root of their number. What "DataSculpt" (Lu et al.,
arXiv:2409.00997) draws in its method figure is done on the sample: a document goes to its most
similar centre, centres become the means of their members, centres that grow alike are merged (the
lower number stays), and the places that become free go to documents that are similar to none; the
figure has no split, here the heaviest clusters are split with them.
"""

# Kernels have no annotations.
# mypy: disable-error-code="no-untyped-call"

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from packing.format import ShardError
from transforms.kernel import inlined_kernel, kernel

UNIT = 2048
"""Length of a unit vector in the integers used here."""
DIMENSIONS = 128
"""Dimensions in which documents are compared; wider vectors are projected."""

Grid = npt.NDArray[np.int16]
Floats = npt.NDArray[np.float32]

_ROUNDS = 2
_PASSES = 4
_FLAT = 96
"""Centres up to which the tree has one level."""
_SAMPLE_PER_CENTRE = 24
_TILE = 4096
_BEAM = 2
_TOLERANCE = 0.05
"""Share by which the square of a vector's length may differ from 1."""
_LARGEST = 1.01
"""The largest value of a vector of length 1, with what rounding adds."""
_NO_VALUE = -32768
_SETTLE = 1
_FOLLOW = 0.9
"""Quantile of the similarities of centres above which two of them are merged."""


def to_grid(vectors: npt.NDArray[Any], documents: npt.NDArray[np.int64], width: int) -> Grid:
    """Round vectors of length 1 (or 0) to integers, int16[n, width].

    Args:
        vectors: floats of any precision, [n, width].
        documents: what to call each of them in an error, int64[n].
        width: the width that all of the corpus's vectors have.

    Raises:
        ShardError: vectors of another width, with a value that is no number, or not of length 1.
    """
    if vectors.ndim != 2 or vectors.shape[1] != width:
        found = vectors.shape[1] if vectors.ndim == 2 else list(vectors.shape)
        first = f"document {documents[0]}" if len(documents) else "the vectors"
        raise ShardError(
            f"{first}: vector of width {found} where {width} is expected; "
            "embed all documents with the same settings"
        )
    grid = np.empty(vectors.shape, np.int16)
    halves = vectors.dtype == np.float16
    for low in range(0, len(vectors), _TILE):
        part, into = vectors[low : low + _TILE], grid[low : low + _TILE]
        if halves:
            at = _round_halves(np.ascontiguousarray(part).view(np.uint16), _of_halves(), into)
        else:
            at = _round(np.ascontiguousarray(part, np.float32), into)
        if at >= 0:
            _refuse(part[at].astype(np.float32), documents[low + at])
    return grid


@functools.cache
def _of_halves() -> Grid:
    """Return what each float16 is rounded to, by its bits, int16[65536]; `_NO_VALUE` for none."""
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    good = np.abs(values) <= _LARGEST  # False for NaN
    table = np.full(1 << 16, _NO_VALUE, np.int16)
    table[good] = np.rint(values[good] * np.float32(UNIT))
    return table


@kernel
def _round_halves(bits, table, grid):  # type: ignore[no-untyped-def]
    """Round vectors of float16; return the first that has a wrong value or length, or -1."""
    for i in range(len(bits)):
        squares = np.int32(0)
        least = np.int16(0)
        for c in range(bits.shape[1]):
            whole = table[bits[i, c]]
            grid[i, c] = whole
            least = min(least, whole)
        if least == _NO_VALUE:
            return i
        for c in range(bits.shape[1]):
            squares += np.int32(grid[i, c]) * np.int32(grid[i, c])
        if squares != 0 and abs(squares - UNIT * UNIT) > _TOLERANCE * UNIT * UNIT:
            return i
    return -1


@kernel
def _round(tile, grid):  # type: ignore[no-untyped-def]
    """Round vectors; return the first that has a wrong value or length, or -1."""
    for i in range(len(tile)):
        squares = np.int64(0)
        good = True
        for c in range(tile.shape[1]):
            value = tile[i, c]
            good &= abs(value) <= _LARGEST  # False for NaN
        if not good:
            return i
        for c in range(tile.shape[1]):
            whole = np.int16(np.rint(tile[i, c] * np.float32(UNIT)))
            grid[i, c] = whole
            squares += np.int64(whole) * np.int64(whole)
        if squares != 0 and abs(squares - UNIT * UNIT) > _TOLERANCE * UNIT * UNIT:
            return i
    return -1


def _refuse(vector: Floats, document: np.int64) -> None:
    """Say what is wrong with a vector."""
    bad = np.flatnonzero(~(np.abs(vector) <= _LARGEST))
    if len(bad):
        raise ShardError(
            f"document {document}: value {vector[bad[0]]} at place {bad[0]} of its vector; a "
            "vector of length 1 has finite values from -1 to 1: embed the document anew or drop it"
        )
    length = float(np.linalg.norm(vector))
    raise ShardError(
        f"document {document}: vector of length {length:.4g}; scale vectors to length 1 (one of "
        "zeros stands for none)"
    )


def directions(sample: Grid, seed_rows: npt.NDArray[np.int64]) -> Floats:
    """Return the directions in which a sample varies most, integers of length `UNIT`.

    Orthogonal iteration (Golub and Van Loan, "Matrix Computations", section 8.2.4) from rows of
    the sample; products are sums of integers below 2**53 and so exact in float64.

    Args:
        sample: rounded vectors, int16[n, width], n at most 2**17.
        seed_rows: rows to start from, at least `DIMENSIONS` of them where there are so many.

    Returns:
        float32[width, d] of whole numbers, d at most `DIMENSIONS`; the unit matrix for vectors
        that are no wider.
    """
    width = sample.shape[1]
    if width <= DIMENSIONS:
        return np.eye(width, dtype=np.float32) * np.float32(UNIT)
    x = sample.astype(np.float64)
    basis = np.zeros((DIMENSIONS, width))
    rows = seed_rows[:DIMENSIONS]
    basis[: len(rows)] = x[rows]
    _orthogonal(basis)
    for _ in range(_ROUNDS):
        np.rint(basis * UNIT, out=basis)
        # Whole numbers below 2**24: exact in float32, too.
        along = sample.astype(np.float32) @ basis.T.astype(np.float32)
        basis = np.ascontiguousarray((x.T @ along.astype(np.float64)).T)
        _orthogonal(basis)
    return np.ascontiguousarray(np.rint(basis * UNIT).T.astype(np.float32))


@kernel
def _orthogonal(rows):  # type: ignore[no-untyped-def]
    """Make rows orthonormal in their order (modified Gram-Schmidt); dependent ones become 0."""
    n, width = rows.shape
    for i in range(n):
        before = 0.0
        for c in range(width):
            before += rows[i, c] * rows[i, c]
        for j in range(i):
            s = 0.0
            for c in range(width):
                s += rows[i, c] * rows[j, c]
            for c in range(width):
                rows[i, c] -= s * rows[j, c]
        after = 0.0
        for c in range(width):
            after += rows[i, c] * rows[i, c]
        scale = 1.0 / np.sqrt(after) if after > 1e-10 * before else 0.0
        for c in range(width):
            rows[i, c] *= scale


def project(grid: Grid, basis: Floats) -> Grid:
    """Return vectors along some directions, int16[n, d]; a product of two lengths is exact."""
    out = np.empty((len(grid), basis.shape[1]), np.int16)
    for low in range(0, len(grid), _TILE):
        tile = grid[low : low + _TILE].astype(np.float32) @ basis
        np.rint(tile / np.float32(UNIT), out=tile)
        out[low : low + _TILE] = tile
    return out


@dataclass(frozen=True, slots=True)
class Centres:
    """A tree of cluster centres; clusters are numbered along the tree, near ones side by side."""

    basis: Floats
    """Directions, as `directions` gives them, float32[width, d]."""
    top: Floats
    """First level, float32[t, d], whole numbers of length `UNIT`."""
    leaf: Floats
    """Second level, float32[k, d], grouped by first level."""
    begin: npt.NDArray[np.int64]
    """Leaves of each centre of the first level: begin[t] to begin[t + 1], int64[t + 1]."""

    @property
    def clusters(self) -> int:
        """Number of clusters."""
        return len(self.leaf)

    def assign(self, points: Grid) -> npt.NDArray[np.int32]:
        """Return the cluster of each projected vector, int32[n]; the lower number among equals.

        Looked for below the `_BEAM` most similar centres of the first level.
        """
        found = np.zeros(len(points), np.int32)
        top, leaf = self.top.astype(np.int16), self.leaf.astype(np.int16)
        _descend(points, top, leaf, self.begin, found)
        return found


@kernel
def _descend(points, top, leaf, begin, found):  # type: ignore[no-untyped-def]
    """Find the most similar centre below the most similar ones of the first level."""
    score = np.empty(len(top), np.int32)
    for i in range(len(points)):
        for t in range(len(top)):
            score[t] = _dot(points[i], top[t])
        best = np.int32(-2147483647)
        for _ in range(min(_BEAM, len(top))):
            t = int(np.argmax(score))
            score[t] = -2147483648
            for k in range(begin[t], begin[t + 1]):
                s = _dot(points[i], leaf[k])
                if s > best or (s == best and k < found[i]):
                    best = s
                    found[i] = k


@inlined_kernel
def _dot(a, b):  # type: ignore[no-untyped-def]
    """Dot product of two rounded vectors; below 2**23 by their lengths."""
    s = np.int32(0)
    for c in range(len(a)):
        s += np.int32(a[c]) * np.int32(b[c])
    return s


def nearest(points: Grid, centres: Floats) -> npt.NDArray[np.int32]:
    """Return the most similar centre of each vector, int32[n]; the first among equals."""
    found = np.zeros(len(points), np.int32)
    if len(centres) > 1:
        across = np.ascontiguousarray(centres.T)
        for low in range(0, len(points), _TILE):
            scores = points[low : low + _TILE].astype(np.float32) @ across
            found[low : low + _TILE] = scores.argmax(axis=1)
    return found


def find_centres(
    points: Grid, weight: npt.NDArray[np.int64], clusters: int, basis: Floats
) -> Centres:
    """Cluster a sample.

    Args:
        points: projected vectors of the sample in seeded order, int16[n, d].
        weight: tokens of each, int64[n].
        clusters: how many clusters are wanted; fewer come out where vectors are too alike.
        basis: the directions of the projection, kept with the centres.
    """
    if not len(points):
        none = np.zeros((1, basis.shape[1]), np.float32)
        return Centres(basis, none, none, np.array([0, 1]))
    clusters = min(clusters, len(points))
    if clusters <= _FLAT:
        leaf = _spherical(points, weight, clusters)
        leaf = leaf[path(leaf)]
        only = _unit(points.astype(np.int64).sum(axis=0, keepdims=True))
        return Centres(basis, only, leaf, np.array([0, len(leaf)]))
    tops = int(np.ceil(np.sqrt(clusters)))
    some = 4 * _SAMPLE_PER_CENTRE * tops
    top = _spherical(points[:some], weight[:some], tops)
    top = top[path(top)]
    member = nearest(points, top).astype(np.int64)
    mass = np.bincount(member, weight, len(top))
    leaves = [top]
    for t in range(len(top)):
        here = np.flatnonzero(member == t)
        wanted = round(float(clusters * mass[t] / max(1.0, mass.sum())))
        if len(here) and wanted > 1:
            leaves.append(_spherical(points[here], weight[here], min(wanted, len(here))))
    centres = _tree(top, np.concatenate(leaves), basis)
    for _ in range(_SETTLE):
        member = centres.assign(points).astype(np.int64)
        sums = _sums(points, member, len(centres.leaf))
        sums = sums[np.bincount(member, minlength=len(sums)) > 0]
        centres = _tree(top, _unit(sums), basis)
    return centres


def _tree(top: Floats, leaf: Floats, basis: Floats) -> Centres:
    """Group the centres of the second level under those of the first, near ones side by side."""
    parent = nearest(leaf.astype(np.int16), top)
    groups = [leaf[parent == t] for t in range(len(top))]
    groups = [group[path(group)] if len(group) else group for group in groups]
    begin = np.cumsum([0, *(len(group) for group in groups)])
    return Centres(basis, top, np.concatenate(groups), begin)


def sample_size(clusters: int) -> int:
    """Return how many documents `find_centres` wants to see."""
    return min(1 << 17, max(4096, _SAMPLE_PER_CENTRE * clusters))


def _spherical(points: Grid, weight: npt.NDArray[np.int64], k: int) -> Floats:
    """Return at most k centres of some vectors, float32[k, d]; see the module."""
    centres = _unit(points[:: max(1, len(points) // k)][:k].astype(np.int64))
    used = len(centres)
    for step in range(_PASSES):
        score = points.astype(np.float32) @ np.ascontiguousarray(centres.T)
        member = score.argmax(axis=1)
        best = score[np.arange(len(points)), member]
        sums = _sums(points, member, len(centres))
        mass = np.bincount(member, weight, len(centres))
        kept = np.flatnonzero(np.bincount(member, minlength=len(centres)))
        centres = _unit(sums[kept])
        if step + 1 < _PASSES:
            stays = _merged(centres)
            freed = used - int(stays.sum())
            centres = np.concatenate(
                [centres[stays], _opened(points, weight, best, mass, member, freed)]
            )
    return centres[(centres != 0).any(axis=1)] if (centres != 0).any() else centres[:1]


def _merged(centres: Floats) -> npt.NDArray[np.bool_]:
    """Return which centres stay where those that grew alike are merged into the lower number."""
    stays = np.ones(len(centres), bool)
    if len(centres) < 3:
        return stays
    alike = centres @ centres.T
    upper = alike[np.triu_indices(len(centres), 1)]
    limit = max(0.8 * UNIT**2, float(np.quantile(upper, _FOLLOW, method="lower")))
    for j in range(1, len(centres)):
        stays[j] = not (stays[:j] & (alike[j, :j] >= limit)).any()
    return stays


def _opened(
    points: Grid,
    weight: npt.NDArray[np.int64],
    best: Floats,
    mass: npt.NDArray[Any],
    member: npt.NDArray[np.int64],
    count: int,
) -> Floats:
    """Return new centres: the document least like its centre in each of the heaviest clusters."""
    opened = []
    for cluster in np.argsort(-mass, kind="stable")[:count].tolist():
        here = np.flatnonzero(member == cluster)
        if len(here) > 1:
            opened.append(here[int(np.argmin(best[here]))])
    return _unit(points[np.array(opened, np.int64)].astype(np.int64))


def _sums(points: Grid, member: npt.NDArray[np.int64], k: int) -> npt.NDArray[np.int64]:
    order = np.argsort(member, kind="stable")
    sums = np.zeros((k, points.shape[1]), np.int64)
    _add_up(points, order, member, sums)
    return sums


@kernel
def _add_up(points, order, member, sums):  # type: ignore[no-untyped-def]
    """Add vectors to the sums of their clusters."""
    for at in range(len(order)):
        i = order[at]
        for c in range(points.shape[1]):
            sums[member[i], c] += points[i, c]


def _unit(sums: npt.NDArray[np.int64]) -> Floats:
    """Return directions of sums as integers of length `UNIT`; 0 stays 0."""
    out = np.zeros(sums.shape, np.float32)
    _scale(sums, out)
    return out


@kernel
def _scale(sums, out):  # type: ignore[no-untyped-def]
    """Scale each row to length `UNIT` and round; added up in order, so that no bit varies."""
    for i in range(len(sums)):
        squares = 0.0
        for c in range(sums.shape[1]):
            squares += float(sums[i, c]) * float(sums[i, c])
        if squares > 0.0:
            scale = UNIT / np.sqrt(squares)
            for c in range(sums.shape[1]):
                out[i, c] = np.rint(sums[i, c] * scale)


def path(centres: Floats) -> npt.NDArray[np.int64]:
    """Return an order in which similar centres are neighbours: from each to the nearest unseen."""
    n = len(centres)
    seen = np.zeros(n, bool)
    order = np.zeros(n, np.int64)
    here = 0
    for step in range(n):
        order[step] = here
        seen[here] = True
        scores = np.where(seen, -np.inf, centres @ centres[here])
        here = int(np.argmax(scores))
    return order

"""The filled clusters of ``sculpt`` as the last phase reads them, and what its rows are like."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from packing.fit import Pieces
from packing.sculpt import in_rows
from packing.sculpt_finish import Documents
from pipelines.steps.near_sets import read_scratch
from pipelines.steps.sculpt_vectors import fixed

_ARRANGED = 1 << 16
"""Documents whose vectors the last phase holds while it puts rows in order."""
NO_ROW = -1

Grid = npt.NDArray[np.int16]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Filled:
    """A partition whose clusters are filled."""

    order: int
    documents: str
    """Scratch table, by cluster: entry, units, cluster, row, place, points, full."""
    rows: str
    """Scratch table: the relevance of each row."""


@dataclass(frozen=True, slots=True)
class AllFilled:
    """The filled partitions as narrow columns by cluster; vectors stay in mapped files."""

    entry: Ints
    units: npt.NDArray[np.int32]
    cluster: npt.NDArray[np.int32]
    row: Ints
    place: Ints
    relevance: npt.NDArray[np.float64]
    points: tuple[Grid, ...]
    full: tuple[Grid, ...]

    def take(self, documents: Ints) -> Documents:
        """Return the vectors and lengths of some documents."""
        return Documents(
            _gather(self.points, documents), _gather(self.full, documents), self.units[documents]
        )

    def in_order(self, row: Ints, kept: npt.NDArray[np.bool_]) -> Ints:
        """Return documents by row, each row in the order in which its documents stand."""
        place = self.place.copy()
        fresh = np.flatnonzero(~kept[row])
        fresh = fresh[np.argsort(row[fresh], kind="stable")]
        ends = np.flatnonzero(np.diff(row[fresh], append=-1)) + 1
        low = 0
        while low < len(fresh):
            high = int(ends[min(int(np.searchsorted(ends, low + _ARRANGED)), len(ends) - 1)])
            part = np.sort(fresh[low:high])
            numbers = np.unique(row[part], return_inverse=True)[1]
            member = in_rows(_gather(self.points, part), self.units[part], numbers)
            place[part[member]] = np.arange(len(member))
            low = high
        return np.lexsort((place, row))


def _gather(parts: tuple[Grid, ...], documents: Ints) -> Grid:
    """Return rows of arrays that follow each other, in any order."""
    ends = np.cumsum([len(part) for part in parts])
    width = parts[0].shape[1] if parts else 0
    found = np.empty((len(documents), width), np.int16)
    number = np.searchsorted(ends, documents, side="right")
    for k in np.unique(number).tolist():
        here = np.flatnonzero(number == k)
        found[here] = parts[k][documents[here] - (ends[k] - len(parts[k]))]
    return found


def read_filled(filled: tuple[Filled, ...]) -> AllFilled:
    """Open what the partitions left, in their order: that is the order of the clusters."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("entry", "units", "cluster", "row", "place", "points", "full")
    }
    relevance = [np.empty(0)]
    rows = 0
    for part in filled:
        table = read_scratch(part.documents)
        for name in ("entry", "units", "cluster", "place"):
            columns[name].append(table[name].to_numpy())
        row = table["row"].to_numpy()
        columns["row"].append(np.where(row >= 0, rows + row, row))
        for name in ("points", "full"):
            columns[name].append(fixed(table[name], "<i2"))
        relevance.append(read_scratch(part.rows)["relevance"].to_numpy())
        rows += len(relevance[-1])

    def joined(name: str, kind: Any) -> Any:
        return np.concatenate([np.empty(0, kind), *columns[name]])

    return AllFilled(
        joined("entry", np.int64),
        joined("units", np.int32),
        joined("cluster", np.int32),
        joined("row", np.int64),
        joined("place", np.int64),
        np.concatenate(relevance),
        tuple(columns["points"]),
        tuple(columns["full"]),
    )


def quality_of(
    pieces: Pieces,
    fitted: Ints,
    relevance: npt.NDArray[np.float64],
    cluster: npt.NDArray[np.int32],
) -> tuple[pa.Table, dict[str, float]]:
    """Return what the rows are like, one by one and all together.

    Args:
        pieces: pieces in row order.
        fitted: number of each piece's row before rows were put into seeded order, or `NO_ROW` for
            a full row of a long document.
        relevance: mean cosine of the pairs of each fitted row.
        cluster: cluster of each fitted row, or `NO_ROW`.
    """
    first = np.flatnonzero(np.diff(pieces.row, prepend=-1))
    count = np.bincount(pieces.row, minlength=pieces.rows)
    of_row = fitted[first]
    alone = (count < 2) | (of_row < 0)
    cosine = np.where(alone, 0.0, np.r_[relevance, 0.0][of_row])
    number = np.r_[cluster, np.int32(NO_ROW)][of_row]
    table = pa.table(
        {
            "row": np.arange(pieces.rows),
            "cluster": pa.array(number, pa.int32(), mask=number < 0),
            "similarity": pa.array(cosine, pa.float64(), mask=alone),
            "pieces": count.astype(np.int32),
            "n_tokens": pieces.row_tokens(),
        }
    )
    shared = int(count[~alone].sum())
    figures = {
        "similarity": float((cosine * count)[~alone].sum() / shared) if shared else 0.0,
        "spread": float(count.std() / count.mean()) if len(count) else 0.0,
    }
    return table, {name: round(value, 6) for name, value in figures.items()}

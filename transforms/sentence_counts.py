"""Counts of forms over distinct documents."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

SCALE = 1_000_000
"""Values are summed in millionths, as integers, so that their order does not matter."""
EDGE, LEAST_UNITS = 2, 8
"""Units at either end of a document that are its edges, and units of one that has edges."""


@dataclass(frozen=True, slots=True)
class FormCounts:
    """What some documents have of each form; arrays of shape [forms]."""

    documents: Int64s
    """Distinct documents that have it."""
    occurrences: Int64s
    chars: Int64s
    """Characters of all occurrences."""
    rank: Int64s
    """Place in the keep order of the first document that has it."""
    first: Int64s
    """Number of that document, -1 where none has it."""
    unit: Int64s
    """Number of the form's first sentence among that document's."""
    value: Int64s
    """Sum of the documents' values in millionths, over those that have one."""
    valued: Int64s
    """Their number."""
    alone: Int64s
    """Occurrences that are a line of their own."""
    edges: Int64s
    """Those among them that are one of the first or last units of a document of enough units."""


def count_forms(
    forms: int,
    offsets: Int64s,
    units: Int32s,
    chars: Int32s,
    kept: npt.NDArray[np.bool_],
    rank: Int64s,
    value: npt.NDArray[np.float64],
    alone: npt.NDArray[np.bool_],
) -> FormCounts:
    """Count the forms of documents.

    Args:
        forms: how many there are.
        offsets: where the units of each document begin, shape [documents + 1].
        units: form of each unit, -1 for none.
        chars: characters of each unit.
        kept: whether each document counts, shape [documents].
        rank: its place in the keep order, likewise; of equal ones the earlier document is first.
        value: its value, not a number where it has none; likewise.
        alone: whether each unit is a line of its own, shape [units].
    """
    has = ~np.isnan(value)
    scaled = np.zeros(len(value), np.int64)
    scaled[has] = np.round(value[has] * SCALE).astype(np.int64)
    return FormCounts(*_count(forms, offsets, units, chars, kept, rank, scaled, has, alone))


@kernel
def _count(
    forms: int,
    offsets: Int64s,
    units: Int32s,
    chars: Int32s,
    kept: npt.NDArray[np.bool_],
    rank: Int64s,
    value: Int64s,
    has: npt.NDArray[np.bool_],
    alone: npt.NDArray[np.bool_],
) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s, Int64s, Int64s, Int64s, Int64s, Int64s]:
    documents, occurrences = np.zeros(forms, np.int64), np.zeros(forms, np.int64)
    total, best = np.zeros(forms, np.int64), np.zeros(forms, np.int64)
    first, place = np.full(forms, -1, np.int64), np.zeros(forms, np.int64)
    values, valued = np.zeros(forms, np.int64), np.zeros(forms, np.int64)
    lines, edges = np.zeros(forms, np.int64), np.zeros(forms, np.int64)
    seen = np.full(forms, -1, np.int64)
    for document in range(len(offsets) - 1):
        if not kept[document]:
            continue
        start, stop = offsets[document], offsets[document + 1]
        for unit in range(start, stop):
            form = units[unit]
            if form < 0:
                continue
            occurrences[form] += 1
            total[form] += chars[unit]
            if alone[unit]:
                lines[form] += 1
                at_edge = unit < start + EDGE or unit >= stop - EDGE
                edges[form] += at_edge and stop - start >= LEAST_UNITS
            if seen[form] == document:
                continue
            seen[form] = document
            documents[form] += 1
            if has[document]:
                values[form] += value[document]
                valued[form] += 1
            if first[form] < 0 or rank[document] < best[form]:
                first[form], best[form] = document, rank[document]
                place[form] = unit - offsets[document]
    return documents, occurrences, total, best, first, place, values, valued, lines, edges

"""Which forms of sentences are removed, and which are reported."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.artifacts import Workdir
from pipelines.steps.near_sets import read_scratch, write_scratch
from transforms.sentence_counts import SCALE
from transforms.sentences import EXTREME, FREQUENT, SentenceSettings, removed_forms

TOP = 1000
"""Sentences whose characters are reported: those that most documents have."""

Int64s = npt.NDArray[np.int64]

SENTENCES = pa.schema(
    [
        # Of the form: 64 bits, as a signed integer.
        pa.field("hash", pa.int64(), nullable=False),
        # As the first document in keep order has it.
        pa.field("text", pa.string()),
        pa.field("doc_uid", pa.int64(), nullable=False),
        # Distinct documents with this form.
        pa.field("documents", pa.int64(), nullable=False),
        pa.field("occurrences", pa.int64(), nullable=False),
        # Characters of all occurrences.
        pa.field("chars", pa.int64(), nullable=False),
        pa.field("quality", pa.float64(), nullable=False),
        pa.field("removed", pa.bool_(), nullable=False),
        # ``frequent`` or ``extreme``; null where it is kept.
        pa.field("reason", pa.string()),
        # Occurrences and characters in documents that this stage drops.
        pa.field("dropped_occurrences", pa.int64(), nullable=False),
        pa.field("dropped_documents", pa.int64(), nullable=False),
        pa.field("dropped_chars", pa.int64(), nullable=False),
    ]
)
"""One row per sentence that is removed, frequent, or among those that most documents have."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What the rule made of the counts."""

    removed: str
    """Scratch table: hash of each removed form, ascending, and the document that has it first."""
    listed: str
    """Scratch table: the forms to report, ascending by hash."""


def decide(
    store: Workdir,
    paths: Sequence[str],
    documents: int,
    settings: SentenceSettings,
) -> Decided:
    """Apply the rule to the counted forms.

    Args:
        store: the work directory.
        paths: scratch tables of merged counts.
        documents: documents that were searched.
        settings: the thresholds.
    """
    above = settings.frequent_above(documents)
    parts = []
    for path in paths:
        table = read_scratch(path).drop_columns(["rank"])
        table = _put(table, "quality", _quality(table))
        count = table["documents"].to_numpy()
        frequent, extreme = removed_forms(
            count,
            table["quality"].to_numpy(),
            table["weight"].to_numpy().astype(np.int64),
            documents,
            settings,
        )
        reasons = np.array([None, FREQUENT, EXTREME], object)[frequent + 2 * extreme]
        table = _put(table, "removed", frequent | extreme)
        table = table.append_column("reason", pa.array(reasons.tolist(), pa.string()))
        listed = (count > above) | frequent | extreme
        # Twice as many as are reported: some of them fall away with the documents that are dropped.
        kept = np.flatnonzero(count > 1)
        most = top(count[kept], table["hash"].to_numpy()[kept], TOP)
        listed[kept[most]] = True
        rest = np.flatnonzero((count > 1) & ~(frequent | extreme))
        most = top(count[rest], table["hash"].to_numpy()[rest], 2 * TOP)
        listed[rest[most]] = True
        parts.append(table.filter(pa.array(listed)))
    listed_forms = pa.concat_tables(parts).sort_by("hash").combine_chunks()
    removed = listed_forms.filter(listed_forms["removed"])
    first = removed.select(["hash", "first_uid"]).combine_chunks()
    return Decided(write_scratch(store, first), write_scratch(store, listed_forms))


def top(documents: Int64s, hashes: Int64s, most: int) -> Int64s:
    """Return the places of the forms that most documents have, in that order."""
    return np.lexsort((hashes, -documents))[:most]


def _quality(table: pa.Table) -> npt.NDArray[np.float64]:
    """Return the mean of the documents' values where they have some, else the model's quality."""
    valued, value = table["valued"].to_numpy(), table["value"].to_numpy()
    quality = table["quality"].to_numpy()
    mean = value / np.maximum(valued, 1) / SCALE
    found: npt.NDArray[np.float64] = np.where(valued > 0, mean, quality)
    return found


def _put(table: pa.Table, name: str, values: npt.NDArray[Any]) -> pa.Table:
    place = table.schema.get_field_index(name)
    if place < 0:
        return table.append_column(name, pa.array(values))
    return table.set_column(place, name, pa.array(values))

"""Which forms of sentences are removed, and which are reported."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.artifacts import Workdir
from pipelines.steps.near_sets import read_scratch, write_scratch
from pipelines.steps.sentence_counts import mean_quality
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
        # Hash of the form that leads the similar ones it is counted with; null where there are none.
        pa.field("near_group", pa.int64()),
        # Distinct documents with one of them.
        pa.field("group_documents", pa.int64(), nullable=False),
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
    """Scratch table: hash of each removed form, ascending, and the document that has it, or a form
    that it is counted with, first."""
    listed: str
    """Scratch table: the forms to report, ascending by hash."""


def decide(
    store: Workdir,
    paths: Sequence[str],
    documents: int,
    settings: SentenceSettings,
    groups: pa.Table | None = None,
) -> Decided:
    """Apply the rule to the counted forms.

    Args:
        store: the work directory.
        paths: scratch tables of merged counts.
        documents: documents that were searched.
        settings: the thresholds.
        groups: hash, near_group, group_documents and group_uid of the forms that are counted
            together, ascending by hash.
    """
    above = settings.frequent_above(documents)
    parts = []
    for path in paths:
        table = _with_groups(read_scratch(path).drop_columns(["rank", "text"]), groups)
        table = _put(table, "quality", mean_quality(table))
        alone, count = table["documents"].to_numpy(), table["group_documents"].to_numpy()
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
        kept = np.flatnonzero(alone > 1)
        most = top(alone[kept], table["hash"].to_numpy()[kept], TOP)
        listed[kept[most]] = True
        rest = np.flatnonzero((alone > 1) & ~(frequent | extreme))
        most = top(alone[rest], table["hash"].to_numpy()[rest], 2 * TOP)
        listed[rest[most]] = True
        parts.append(table.filter(pa.array(listed)))
    listed_forms = pa.concat_tables(parts).sort_by("hash").combine_chunks()
    removed = listed_forms.filter(listed_forms["removed"])
    first = removed.select(["hash", "group_uid"]).combine_chunks()
    first = first.rename_columns(["hash", "first_uid"])
    return Decided(write_scratch(store, first), write_scratch(store, listed_forms))


def top(documents: Int64s, hashes: Int64s, most: int) -> Int64s:
    """Return the places of the forms that most documents have, in that order."""
    return np.lexsort((hashes, -documents))[:most]


def _with_groups(table: pa.Table, groups: pa.Table | None) -> pa.Table:
    """Append near_group, group_documents and group_uid; a form without a group is its own."""
    hashes = table["hash"].to_numpy()
    leader, grouped = np.zeros(len(table), np.int64), np.zeros(len(table), np.bool_)
    documents, uid = table["documents"].to_numpy().copy(), table["first_uid"].to_numpy().copy()
    if groups is not None and len(groups):
        known = groups["hash"].to_numpy()
        place = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
        grouped = known[place] == hashes
        place = place[grouped]
        leader[grouped] = groups["near_group"].to_numpy()[place]
        documents[grouped] = groups["group_documents"].to_numpy()[place]
        uid[grouped] = groups["group_uid"].to_numpy()[place]
    table = table.append_column("near_group", pa.array(leader, pa.int64(), mask=~grouped))
    table = table.append_column("group_documents", pa.array(documents, pa.int64()))
    return table.append_column("group_uid", pa.array(uid, pa.int64()))


def _put(table: pa.Table, name: str, values: npt.NDArray[Any]) -> pa.Table:
    place = table.schema.get_field_index(name)
    if place < 0:
        return table.append_column(name, pa.array(values))
    return table.set_column(place, name, pa.array(values))

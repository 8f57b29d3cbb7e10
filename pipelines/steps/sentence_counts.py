"""Counts of sentences: per ingest file, by form over all of them, and which forms are removed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.artifacts import Workdir
from pipelines.shuffle import Partition, Partitioned
from pipelines.steps.columns import split
from pipelines.steps.near_pairs import Written
from pipelines.steps.near_sets import read_scratch, write_scratch
from pipelines.steps.removed import Uids
from pipelines.tasks import Clock, Task, record_cost
from transforms.sentence_counts import SCALE, count_forms
from transforms.sentence_quality import in_context

Int64s = npt.NDArray[np.int64]


_COUNTS = (
    *("documents", "occurrences", "chars", "rank", "unit", "value", "valued"),
    *("alone", "edges"),
)
MERGED = pa.schema(
    [
        pa.field("hash", pa.int64()),
        pa.field("size", pa.int32()),
        pa.field("weight", pa.int32()),
        pa.field("quality", pa.float64()),
        pa.field("text", pa.string()),
        *(pa.field(name, pa.int64()) for name in _COUNTS),
        pa.field("first_uid", pa.int64()),
    ]
)
"""Columns of the counts, by file and merged."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of one ingest file's kept documents."""

    path: str
    """Scratch table: one row per form that they have."""
    forms: int
    documents: int
    sentences: int
    chars: int


@dataclass(frozen=True, slots=True)
class Documents:
    """The sentences of an ingest file's documents."""

    table: pa.Table
    """Columns doc_uid, source, domain, n_chars, value."""
    offsets: Int64s
    """Where the units of each document begin and the last ones end."""
    forms: npt.NDArray[np.int32]
    """Form of each unit, below 0 where it is not counted (:mod:`pipelines.steps.sentence_units`)."""
    chars: npt.NDArray[np.int32]
    """Characters of each unit."""
    alone: npt.NDArray[np.bool_]
    """Whether each unit is a line of its own."""

    @classmethod
    def read(cls, path: str) -> "Documents":
        """Read a file that :func:`pipelines.steps.sentence_units.write_units` wrote."""
        table = pq.read_table(path, use_threads=False).combine_chunks()
        names = ["forms", "chars", "alone"]
        lists = [table[name].combine_chunks() for name in names]
        facts = table.drop_columns(names)
        if not len(table):
            none = np.empty(0, np.int32)
            return cls(facts, np.zeros(1, np.int64), none, none, none.astype(np.bool_))
        forms, chars, alone = (array.flatten().to_numpy(zero_copy_only=False) for array in lists)
        offsets = lists[0].offsets.to_numpy().astype(np.int64)
        return cls(facts, offsets - offsets[0], forms, chars, alone)

    def ranks(self, sources: list[str]) -> Int64s:
        """Return the documents' places in the keep order: by source, then longest first."""
        rank = sources.index(self.table["source"][0].as_py())
        places: Int64s = (rank << 40) + ((1 << 40) - 1 - self.table["n_chars"].to_numpy())
        return places

    def kept(self, removed: Uids | None) -> npt.NDArray[np.bool_]:
        """Return which documents earlier stages kept."""
        uids = self.table["doc_uid"].to_numpy()
        if removed is None or not len(removed):
            return np.ones(len(uids), np.bool_)
        return ~np.isin(uids, removed)


def count_file(
    store: Workdir,
    documents: str,
    forms: str,
    removed: Uids | None,
    sources: list[str],
    domains: tuple[str, ...] | None,
) -> Counted | None:
    """Count the forms of an ingest file's kept documents; None where its domain is not searched."""
    found = Documents.read(documents)
    if not len(found.table) or (
        domains is not None and found.table["domain"][0].as_py() not in domains
    ):
        return None
    kept = found.kept(removed)
    table = pq.read_table(forms, use_threads=False)
    n_chars = found.table["n_chars"].to_numpy()
    counts = count_forms(
        len(table),
        found.offsets,
        found.forms,
        found.chars,
        kept,
        found.ranks(sources),
        found.table["value"].to_numpy(zero_copy_only=False).astype(np.float64),
        found.alone,
    )
    uids = found.table["doc_uid"].to_numpy()
    rows = table.select(["hash", "size", "weight", "quality", "text"])
    for name in _COUNTS:
        rows = rows.append_column(name, pa.array(getattr(counts, name)))
    present = counts.first >= 0
    first = uids[counts.first]
    rows = rows.append_column("first_uid", pa.array(first, pa.int64())).filter(pa.array(present))
    sentences = int(counts.occurrences.sum())
    return Counted(
        write_scratch(store, rows.combine_chunks()),
        len(rows),
        int(kept.sum()),
        sentences,
        int(n_chars[kept].sum()),
    )


def by_form(task: Task) -> Partitioned:
    """Send each form's counts to the partition of its hash."""
    table = read_scratch(task.payload)
    hashes = table["hash"].to_numpy().view(np.uint64)
    partitions = task.shared["partitions"]
    number = (hashes >> np.uint64(32)).astype(np.int64) * partitions >> 32
    yield from split(table, number, partitions)


def merge(partition: Partition) -> Written:
    """Add up the counts of each form; keep those that can matter."""
    clock = Clock()
    table = pa.concat_tables(partition.tables()).combine_chunks()
    merged = merged_counts(table)
    # A form of one document is removed only with similar ones, and its characters are not repeated.
    repeated = merged["documents"].to_numpy() > 1
    counters = (
        ("forms", len(merged)),
        ("repeated forms", int(repeated.sum())),
    )
    wanted = pa.array(repeated)
    if partition.shared["near"]:
        wanted = pc.or_(wanted, merged["text"].is_valid())
    merged = merged.filter(wanted)
    path = write_scratch(partition.store, merged.combine_chunks())
    record_cost(partition.folder, clock)
    return Written(partition.order, partition.origin, path, counters)


def merged_counts(table: pa.Table) -> pa.Table:
    """Return one row per form, ascending by hash: sums, and the first document's place."""
    keys = table["hash"].to_numpy()
    order = np.lexsort((table["first_uid"].to_numpy(), table["rank"].to_numpy(), keys))
    keys = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    heads = table.take(pa.array(order[starts]))
    for name in ("documents", "occurrences", "chars", "value", "valued", "alone", "edges"):
        sums = np.add.reduceat(table[name].to_numpy()[order], starts)
        heads = _with(heads, name, sums)
    best = np.maximum.reduceat(table["quality"].to_numpy()[order], starts)
    return _with(heads, "quality", best)


def mean_quality(table: pa.Table) -> npt.NDArray[np.float64]:
    """Return the mean of the documents' values where they have some, else the model's in context."""
    valued, value = table["valued"].to_numpy(), table["value"].to_numpy()
    places = (table[name].to_numpy() for name in ("occurrences", "alone", "edges"))
    quality = in_context(table["quality"].to_numpy(), *places)
    mean = value / np.maximum(valued, 1) / SCALE
    found: npt.NDArray[np.float64] = np.where(valued > 0, mean, quality)
    return found


def _with(table: pa.Table, name: str, values: npt.NDArray[Any]) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values))

"""Candidate pairs of near-duplicates: what is sent by set, by band and by pair, and what is found."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.artifacts import Workdir
from pipelines.shuffle import Partition, Partitioned
from pipelines.steps.columns import split
from pipelines.steps.dedupe import split_by_hash
from pipelines.steps.earlier import accepted, reading
from pipelines.steps.near_sets import pair_table, read_scratch, write_scratch
from pipelines.steps.near_signatures import (
    bands_of,
    comparable,
    may_hold,
    signed_groups,
    source_rank,
)
from pipelines.steps.removed import id_overlay
from pipelines.tasks import Clock, Task, record_cost
from transforms.candidates import bucket_pairs, distinct
from transforms.exact import exact_duplicates
from transforms.ids import apply_ids
from transforms.record import mix64

ROWS_PER_TABLE = 1 << 20
"""Band keys that a task sends at once, and that a partition holds."""
PAIRS = 1 << 32
"""Added to the order of pair tables, so that they follow those of the buckets."""


@dataclass(frozen=True, slots=True)
class Written:
    """A scratch table that a partition became; what follows reads it by its path."""

    order: int
    origin: Any
    path: str
    counters: tuple[tuple[str, int], ...] = ()

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.origin.store  # type: ignore[no-any-return]

    @property
    def folder(self) -> Path:
        """Folder of the artifact."""
        return self.origin.folder  # type: ignore[no-any-return]

    @property
    def shared(self) -> Any:
        """What the tasks of the phase know."""
        return self.origin.shared


def by_set(task: Task) -> Partitioned:
    """Send each comparable document to the partition of its set's hash, with its place in the order."""
    file, removed = task.payload
    names = ["doc_uid", "source", "n_chars", "n_shingles", "set_hash"]
    with reading(file.corpus):
        signed = pq.read_table(file.signatures, columns=names, use_threads=False)
        columns = ["doc_uid", "id", "reason"]
        ids = pq.read_table(file.ingest, columns=columns, use_threads=False)
        overlay = id_overlay(file.corpus, Path(file.ingest))
    ids = ids.filter(pc.is_null(ids["reason"]))
    numbers = pa.array(file.numbers(signed["doc_uid"].to_numpy()), pa.int64())
    # Signatures are those of the file's documents, in its order.
    table = signed.append_column("id", ids["id"]).append_column("number", numbers)
    table = apply_ids(table.filter(comparable(signed, removed)).combine_chunks(), overlay)
    if len(table):
        rank = source_rank(table, task.shared["ranks"][file.origin])
        table = table.select(["set_hash", "number", "n_chars", "id"])
        table = table.rename_columns(["exact_hash", "doc_uid", "n_chars", "id"])
        ranks = pa.repeat(pa.scalar(rank, pa.int32()), len(table))
        table = table.append_column("source_rank", ranks)
        yield from split_by_hash(table, task.shared["partitions"])


def find_equal(partition: Partition) -> Written:
    """Find the documents whose set an earlier one in keep order has; new documents alone."""
    clock = Clock()
    table = accepted(exact_duplicates(pa.concat_tables(partition.tables())))
    table = table.select(["doc_uid", "keeper_uid"])
    path = write_scratch(partition.store, table)
    record_cost(partition.folder, clock)
    return Written(partition.order, partition.origin, path, (("equal", len(table)),))


def by_band(task: Task) -> Partitioned:
    """Send each band key, with its document, to the key's partition."""
    file, gone = task.payload
    partitions = task.shared["bands"]
    at = 0
    for group in signed_groups(file):
        numbers = file.numbers(group["doc_uid"].to_numpy(), at)
        at += len(group)
        mask = comparable(group, gone)
        group, numbers = group.filter(mask).combine_chunks(), numbers[mask.to_numpy(False)]
        if not len(group):
            continue
        rank = source_rank(group, task.shared["ranks"][file.origin])
        sought = task.shared.get("sought") if file.earlier else None
        ranks = (rank << 40) + ((1 << 40) - 1 - group["n_chars"].to_numpy())
        keys = bands_of(group)
        columns = (numbers, ranks, group["n_shingles"].to_numpy())
        bands = keys.shape[1]
        step = max(1, ROWS_PER_TABLE // bands)
        for start in range(0, len(group), step):
            part = keys[start : start + step]
            uid, order, size = (np.repeat(c[start : start + step], bands) for c in columns)
            flat = part.ravel()
            names = {"key": flat, "uid": uid, "rank": order, "size": size.astype(np.int32)}
            if sought is not None:
                found = may_hold(sought, flat)
                flat, names = flat[found], {name: c[found] for name, c in names.items()}
            yield from split(pa.table(names), _head(flat.view(np.uint64), partitions), partitions)


def pair(partition: Partition) -> Written:
    """Pair the documents that share a band key."""
    clock = Clock()
    table = pa.concat_tables(partition.tables())
    keys, uids, ranks, sizes = (table[n].to_numpy() for n in ("key", "uid", "rank", "size"))
    rows = _with_new(keys, uids)
    keys, uids, ranks, sizes = keys[rows], uids[rows], ranks[rows], sizes[rows]
    found = bucket_pairs(keys, uids, ranks, sizes, partition.shared["threshold"])
    path = write_scratch(partition.store, pair_table(found.first, found.second))
    record_cost(partition.folder, clock)
    counters = (("pairs left out", found.skipped),)
    return Written(partition.order, partition.origin, path, counters)


def by_first(written: Written) -> Partitioned:
    """Send pairs to the partition of their first document, where those of all bands meet."""
    table = read_scratch(written.path)
    partitions = written.shared["bands"]
    yield from split(table, _head(mix64(table["first"].to_numpy(), 0), partitions), partitions)


def unique(partition: Partition) -> Written:
    """Take out pairs that several bands found; sort them."""
    clock = Clock()
    table = pa.concat_tables(partition.tables())
    first, second = table["first"].to_numpy(), table["second"].to_numpy()
    uids = distinct(np.concatenate([distinct(first), distinct(second)]))
    codes = distinct(np.searchsorted(uids, first) << 32 | np.searchsorted(uids, second))
    table = pair_table(uids[codes >> 32], uids[codes & 0xFFFFFFFF])
    path = write_scratch(partition.store, table)
    record_cost(partition.folder, clock)
    counters = (("candidate pairs", len(table)),)
    return Written(PAIRS + partition.order, partition.origin, path, counters)


def _with_new(
    keys: npt.NDArray[np.int64], uids: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_] | slice:
    """Return the rows whose band key a new document has: all, where no earlier run is compared."""
    earlier = uids < 0
    if not earlier.any():
        return slice(None)
    rows = ~earlier
    new = distinct(keys[rows])
    if len(new):
        old = keys[earlier]
        rows[earlier] = new[np.minimum(np.searchsorted(new, old), len(new) - 1)] == old
    return rows


def _head(hashes: npt.NDArray[np.uint64], partitions: int) -> npt.NDArray[np.int64]:
    """Return the partition of each hash by its upper half."""
    return (hashes >> np.uint64(32)).astype(np.int64) * partitions >> 32

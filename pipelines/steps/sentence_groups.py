"""Forms that are counted together: pairs by shared bands, their groups, and documents of each group.

A form's number is its row in the tables of merged counts, one after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.artifacts import Workdir
from pipelines.shuffle import Partition, Partitioned
from pipelines.steps.columns import partitions_for, split
from pipelines.steps.near_pairs import ROWS_PER_TABLE, Written
from pipelines.steps.near_sets import read_scratch, write_scratch
from pipelines.steps.removed import Uids
from pipelines.steps.sentence_counts import Documents, mean_quality
from pipelines.tasks import Clock, Task, record_cost
from transforms.candidates import bucket_pairs
from transforms.sentence_counts import count_forms
from transforms.sentence_near import band_keys, lead, similar

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Forms:
    """The tables of merged counts."""

    paths: tuple[str, ...] = ()
    starts: tuple[int, ...] = (0,)
    """Number of the first form of each, and the number of all forms."""

    @classmethod
    def of(cls, paths: Sequence[str]) -> "Forms":
        """Number the forms of some tables."""
        rows = [len(read_scratch(path)) for path in paths]
        return cls(tuple(paths), tuple(np.cumsum([0, *rows]).tolist()))

    def rows(self, numbers: Int64s, names: list[str]) -> pa.Table:
        """Return columns of some forms.

        Args:
            numbers: of the forms, ascending.
            names: of the columns.
        """
        parts = []
        bounds = np.searchsorted(numbers, self.starts)
        for number, path in enumerate(self.paths):
            here = numbers[bounds[number] : bounds[number + 1]] - self.starts[number]
            parts.append(read_scratch(path).select(names).take(pa.array(here)))
        return pa.concat_tables(parts).combine_chunks()


def band_partitions(forms: int) -> int:
    """Return how many partitions the band keys of so many forms go to."""
    return partitions_for(10 * forms, rows_each=ROWS_PER_TABLE)


def by_band(task: Task) -> Partitioned:
    """Send the band keys of the forms that may have similar ones to their partitions."""
    path, start = task.payload
    settings, partitions = task.shared["settings"], task.shared["partitions"]
    table = read_scratch(path)
    low = mean_quality(table) < settings.max_quality
    chosen = np.flatnonzero(table["text"].is_valid().to_numpy() & low)
    step = ROWS_PER_TABLE // 10
    for begin in range(0, len(chosen), step):
        rows = chosen[begin : begin + step]
        part = table.select(["hash", "documents", "text"]).take(pa.array(rows)).combine_chunks()
        texts = _strings(part["text"])
        keys, sizes = band_keys(texts, settings.near)
        bands = keys.shape[1]
        hashes = part["hash"].to_numpy().view(np.uint64)
        rare = (1 << 20) - np.minimum(part["documents"].to_numpy(), 1 << 20)
        names = {
            "key": keys.ravel().view(np.int64),
            "number": np.repeat(start + rows, bands),
            "rank": np.repeat(rare << 42 | (hashes >> np.uint64(22)).astype(np.int64), bands),
            "size": np.repeat(sizes, bands),
        }
        head = (keys.ravel() >> np.uint64(32)).astype(np.int64) * partitions >> 32
        yield from split(pa.table(names), head, partitions)


def pair_forms(partition: Partition) -> Written:
    """Pair the forms that share a band key, and verify the pairs: first, second, jaccard."""
    clock = Clock()
    table = pa.concat_tables(partition.tables())
    threshold, forms = partition.shared["settings"].near, partition.shared["forms"]
    keys, numbers, ranks, sizes = (
        table[name].to_numpy() for name in ("key", "number", "rank", "size")
    )
    found = bucket_pairs(keys, numbers, ranks, sizes, threshold)
    used = np.unique(np.concatenate([found.first, found.second]))
    one, two = np.searchsorted(used, found.first), np.searchsorted(used, found.second)
    jaccard = np.empty(0)
    if len(used):
        texts = _strings(forms.rows(used, ["text"])["text"])
        jaccard = similar(texts, one, two, threshold)
    near = jaccard > 0
    columns = {"first": found.first[near], "second": found.second[near], "jaccard": jaccard[near]}
    path = write_scratch(partition.store, pa.table(columns))
    record_cost(partition.folder, clock)
    counters = (("candidate pairs", len(near)), ("similar pairs", int(near.sum())))
    return Written(partition.order, partition.origin, path, counters)


def _strings(column: pa.ChunkedArray) -> pa.StringArray:
    """Return the one chunk of a column."""
    [chunk] = column.chunks
    return chunk


def group_forms(store: Workdir, forms: Forms, pairs: Sequence[str], above: int) -> str | None:
    """Group similar forms; None where no group can have more than ``above`` documents.

    Returns:
        Path of a scratch table, ascending by hash: hash, near_group (hash of the form that leads),
        group (number of the group).
    """
    tables = [read_scratch(path) for path in pairs]
    first, second, jaccard = (
        np.concatenate([table[name].to_numpy() for table in tables] or [np.empty(0, kind)])
        for name, kind in (("first", np.int64), ("second", np.int64), ("jaccard", np.float64))
    )
    if not len(first):
        return None
    # Partitions of band keys may each have found a pair.
    order = np.lexsort((second, first))
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (np.diff(first[order]) != 0) | (np.diff(second[order]) != 0)
    first, second, jaccard = (values[order[fresh]] for values in (first, second, jaccard))
    numbers = np.unique(np.concatenate([first, second]))
    rows = forms.rows(numbers, ["hash", "documents"])
    hashes, documents = rows["hash"].to_numpy(), rows["documents"].to_numpy()
    # By hash, so that the result does not depend on how the tables were cut.
    one, two = (hashes[np.searchsorted(numbers, values)] for values in (first, second))
    order = np.argsort(hashes)
    groups = lead(hashes[order], documents[order], one, two, jaccard)
    leaders, number = np.unique(groups.leaders, return_inverse=True)
    known = documents[order][np.searchsorted(hashes[order], groups.forms)]
    most = np.bincount(number, weights=known, minlength=len(leaders)).astype(np.int64)
    matters = most[number] > above
    if not matters.any():
        return None
    _, number = np.unique(number[matters], return_inverse=True)
    columns = {
        "hash": groups.forms[matters],
        "near_group": groups.leaders[matters],
        "group": number.astype(np.int64),
    }
    return write_scratch(store, pa.table(columns))


def count_groups(
    store: Workdir, documents: str, forms: str, removed: Uids | None, sources: list[str], path: str
) -> str:
    """Count the distinct documents of each group in an ingest file: group, documents, rank, first_uid."""
    found = Documents.read(documents)
    hashes = pq.read_table(forms, columns=["hash"], use_threads=False)["hash"].to_numpy()
    groups = read_scratch(path)
    known, numbers = groups["hash"].to_numpy(), groups["group"].to_numpy()
    place = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    group = np.where(known[place] == hashes, numbers[place], -1).astype(np.int32)
    units = np.full(len(found.forms), -1, np.int32)
    counted = found.forms >= 0
    units[counted] = group[found.forms[counted]]
    counts = count_forms(
        int(numbers.max()) + 1,
        found.offsets,
        units,
        found.chars,
        found.kept(removed),
        found.ranks(sources),
        np.full(len(found.table), np.nan),
        found.alone,
    )
    here = np.flatnonzero(counts.documents)
    columns = {
        "group": here,
        "documents": counts.documents[here],
        "rank": counts.rank[here],
        "first_uid": found.table["doc_uid"].to_numpy()[counts.first[here]],
    }
    return write_scratch(store, pa.table(columns))


def counted_groups(path: str, counts: Sequence[str]) -> pa.Table:
    """Return the groups of :func:`group_forms` with group_documents and group_uid, their first one."""
    groups = read_scratch(path)
    table = pa.concat_tables([read_scratch(count) for count in counts])
    number, rank, uid = (table[name].to_numpy() for name in ("group", "rank", "first_uid"))
    order = np.lexsort((uid, rank, number))
    starts = np.flatnonzero(np.diff(number[order], prepend=-1))
    documents = np.add.reduceat(table["documents"].to_numpy()[order], starts)
    place = np.searchsorted(number[order][starts], groups["group"].to_numpy())
    return (
        groups.drop_columns(["group"])
        .append_column("group_documents", pa.array(documents[place]))
        .append_column("group_uid", pa.array(uid[order][starts][place]))
    )

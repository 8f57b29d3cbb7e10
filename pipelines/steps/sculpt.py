"""Stage ``pack`` with ``strategy = "sculpt"``: rows of documents that belong together.

Four phases: one worker learns cluster centres from a bounded sample of vectors; each file of
vectors is assigned to clusters and sent to their partitions; each partition fills the rows of its
clusters, each cluster by itself; one worker places what they left over, from narrow columns and the
vectors of the documents that are not in a row yet or whose row is opened again.
"""

import functools
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from packing.fit import PackSettings, Pieces
from packing.pieces import in_tokens, in_units
from packing.sculpt import (
    Documents,
    assemble,
    clusters_for,
    fill_clusters,
    finish_rows,
    in_rows,
    in_unit_rows,
    learn_centres,
    limits_of,
    parts_of,
    squares_allowed,
)
from packing.spherical import Centres, project, sample_size, to_grid
from pipelines.artifacts import Workdir, fingerprint
from pipelines.barrier import Barrier
from pipelines.corpus import Corpus
from pipelines.runners import ShuffleKind
from pipelines.shuffle import Partition, Partitioned, Shuffle
from pipelines.steps.columns import partitions_for, row_groups, split, write_table
from pipelines.steps.near_sets import read_scratch, write_scratch
from pipelines.steps.pack import PackStage, read_entries
from pipelines.tasks import Clock, ListTasks, Phase, Result, Task, Work, dealt, record_cost

_ROWS_EACH = 1 << 15
"""Documents of a partition: some 60 MiB of vectors at 768 dimensions."""
_ARRANGED = 1 << 16
"""Documents whose vectors the last phase holds while it puts rows in order."""
_NO_ROW = -1

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
class Sculpting:
    """A corpus on its way through the phases."""

    corpus: Corpus
    settings: PackSettings
    """In units of ``align`` tokens."""
    centres: str = ""
    entries: str = ""
    """Scratch table of what has a remainder: doc_uid, entry, order, units."""
    unknown: str = ""
    """Scratch table: places in ``entries`` of documents without a vector."""
    clusters: int = 0
    partitions: int = 1
    filled: tuple[Filled, ...] = ()

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.corpus.store


@dataclass(frozen=True)
class SculptStage(PackStage):
    """Cluster, fill, and place what is left; see the module."""

    shuffle: ShuffleKind = "files"

    parents: ClassVar[tuple[str, ...]] = ("encode", "mixture", "embed")

    def note(self, corpus: Corpus) -> str:
        """Return how full rows get and what they are chosen by."""
        s = self.settings.sculpt
        how = "similarity times room"
        if s.score == "sum":
            how = f"{s.relevance:g} similarity + {s.residual:g} room - {s.count:g} documents"
        return f"rows by {how}; opened again below {s.fill:.1%} of {self.settings.seq_len} tokens"

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        learnt = corpora | "Centres" >> Phase(
            "Centres", self._centre_tasks, self._centres, self._learnt
        )
        listed = learnt | "List Assign" >> beam.ParDo(ListTasks(self._assign_tasks)).with_outputs(
            "adopted", main="missing"
        )
        filled = (
            dealt(listed.missing, "Assign")
            | "By cluster" >> Shuffle(_assign, self.shuffle)
            | "Fill" >> beam.Map(_fill)
        )
        joined = (learnt, (filled,)) | "Filled" >> Barrier(_with_filled)
        return joined | "Place" >> Phase("Place", self._place_tasks, self._place, self._placed)

    def _task(self, corpus: Corpus, key: str, *, cached: bool = False, **fields: Any) -> Task:
        artifact = self.fingerprint(corpus)
        return Task(
            fingerprint=fingerprint(stage=self.name, artifact=artifact, task=key),
            corpus=corpus,
            stage=self.name,
            artifact=artifact,
            cached=cached,
            **fields,
        )

    # Centres, from a sample.

    def _centre_tasks(self, corpus: Corpus) -> list[Task]:
        return [self._task(corpus, "centres")]

    def _centres(self, task: Task) -> Work:
        corpus, settings = task.corpus, in_unit_rows(self.settings)
        entries = read_entries(corpus, self.settings, self.seed)
        units = in_units(entries.n_tokens, self.settings.align)
        units = parts_of(units, entries.order, settings, self._widest).left
        rest = units % np.int32(settings.seq_len)
        entry = np.flatnonzero(rest)
        uid = entries.lengths.doc_uid[entries.chosen[entry]]
        tokens = int(rest.sum(dtype=np.int64))
        clusters = clusters_for(tokens, settings.seq_len, settings.sculpt)
        taken = np.argsort(entries.order[entry], kind="stable")[: sample_size(clusters)]
        width = int(corpus.manifest("embed").config["width"])
        sample, known = _sample(corpus, uid, taken, width)
        centres = learn_centres(sample, rest[entry[taken]], clusters)
        path = task.store.scratch / f"{uuid.uuid4().hex}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, basis=centres.basis, top=centres.top, leaf=centres.leaf, begin=centres.begin)
        table = pa.table(
            {
                "doc_uid": uid,
                "entry": entry,
                "order": entries.order[entry],
                "units": rest[entry],
            }
        )
        return Work(
            value=Sculpting(
                corpus,
                settings,
                str(path),
                write_scratch(task.store, table),
                write_scratch(task.store, pa.table({"place": np.flatnonzero(~known)})),
                centres.clusters,
                partitions_for(len(entry), rows_each=_ROWS_EACH),
            )
        )

    def _learnt(self, corpus: Corpus, results: list[Result]) -> Sculpting:
        return results[0].value  # type: ignore[no-any-return]

    # Clusters of documents.

    def _assign_tasks(self, state: Sculpting) -> list[Task]:
        shared = replace(state, corpus=Corpus(""))
        width = int(state.corpus.manifest("embed").config["width"])
        tasks = [
            self._task(
                state.corpus,
                f"assign {entry.name}",
                payload=str(state.corpus.folder("embed") / entry.name),
                shared=(shared, width),
                weight=entry.rows,
            )
            for entry in state.corpus.manifest("embed").entries()
        ]
        return [*tasks, self._task(state.corpus, "assign", payload="", shared=(shared, width))]

    # What the clusters left over, and the files.

    def _place_tasks(self, state: Sculpting) -> list[Task]:
        return [self._task(state.corpus, "place", cached=True, payload=state.filled)]

    def _place(self, task: Task) -> Work:
        settings = in_unit_rows(self.settings)
        entries = read_entries(task.corpus, self.settings, self.seed)
        units = in_units(entries.n_tokens, self.settings.align)
        parts = parts_of(units, entries.order, settings, self._widest)
        units = parts.left
        filled = _read_filled(task.payload)
        row, relevance, kept = finish_rows(
            filled.units,
            filled.row,
            filled.relevance,
            filled.take,
            limits_of(settings),
            squares_allowed(units, settings),
        )
        member = filled.in_order(row, kept)
        document = filled.entry[member]
        pieces = assemble(units, entries.order, document, row[member], settings.seq_len)
        fitted = np.full(len(units), _NO_ROW, np.int64)
        fitted[filled.entry] = row
        cluster = np.full(len(relevance), _NO_ROW, np.int32)
        cluster[row] = np.where(kept[row], filled.cluster, _NO_ROW)
        full = pieces.start < units[pieces.document] // settings.seq_len * settings.seq_len
        of_piece = np.where(full, _NO_ROW, fitted[pieces.document])
        of_piece = np.concatenate([np.full(len(parts.own.row), _NO_ROW), of_piece])
        pieces = in_tokens(parts.with_own(pieces), entries.n_tokens, self.settings.align)
        work = self._write(task, entries, pieces)
        quality, figures = _quality(pieces, of_piece, relevance, cluster)
        work.files.append(
            write_table(task.folder / "quality-00000.parquet", quality, kind="quality")
        )
        work.counters["clusters"] = len(np.unique(filled.cluster))
        work.detail["quality"] = figures
        return work

    def _placed(self, state: Sculpting, results: list[Result]) -> Corpus:
        receipt = results[0].receipt
        config = {"domains": receipt.detail["domains"], "quality": receipt.detail["quality"]}
        return self.commit(state.corpus, [receipt], config=config)


def pack_stage(settings: PackSettings, seed: int, dp: int, shuffle: ShuffleKind) -> PackStage:
    """Return the stage that packs as the settings say."""
    if settings.strategy == "sculpt":
        return SculptStage(settings, seed, dp, shuffle)
    return PackStage(settings, seed, dp)


def _vector_files(corpus: Corpus) -> Iterator[Path]:
    for entry in corpus.manifest("embed").entries():
        yield corpus.folder("embed") / entry.name


def _sample(corpus: Corpus, uid: Ints, taken: Ints, width: int) -> tuple[Grid, Any]:
    """Read the vectors of some documents; also say which of all have a vector.

    Args:
        corpus: an embedded corpus.
        uid: addresses of all entries, ascending.
        taken: places of the wanted ones.
        width: width of the vectors.
    """
    known = np.zeros(len(uid), bool)
    found = np.zeros((len(taken), width), np.int16)
    place = np.full(len(uid), -1, np.int64)
    place[taken] = np.arange(len(taken))
    for path in _vector_files(corpus):
        with pq.ParquetFile(path, memory_map=True) as file:
            for number in range(file.num_row_groups):
                uids = file.read_row_group(number, columns=["doc_uid"], use_threads=False)
                at, entry = _entries_of(uids["doc_uid"].to_numpy(), uid)
                known[entry] = True
                wanted = place[entry] >= 0
                if wanted.any():
                    group = file.read_row_group(number, columns=["vector"], use_threads=False)
                    halves = _fixed(group["vector"], "<f2")[at[wanted]]
                    found[place[entry[wanted]]] = to_grid(halves, uid[entry[wanted]], width)
    return found, known


def _entries_of(uids: Ints, all_uids: Ints) -> tuple[Ints, Ints]:
    """Return the entries of some documents: the place of each document, and of its entry."""
    low = np.searchsorted(all_uids, uids, side="left")
    count = np.searchsorted(all_uids, uids, side="right") - low
    at = np.repeat(np.arange(len(uids)), count)
    ends = np.cumsum(count)
    return at, low[at] + np.arange(len(at)) - (ends - count)[at]


def _fixed(column: pa.ChunkedArray, kind: str) -> npt.NDArray[Any]:
    """Return fixed-size binary values as [n, width] of a kind; a single chunk is not copied."""
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    size = array.type.byte_width
    if not len(array):
        return np.empty((0, size // np.dtype(kind).itemsize), kind)
    values = np.frombuffer(array.buffers()[1], np.uint8)
    return values[array.offset * size :][: len(array) * size].view(kind).reshape(len(array), -1)


def _binary(grid: Grid) -> pa.Array:
    """Return integers [n, width] as fixed-size binary values."""
    content = pa.py_buffer(np.ascontiguousarray(grid, "<i2"))
    kind = pa.binary(2 * grid.shape[1])
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(grid), [None, content])


@functools.lru_cache(maxsize=2)
def _load_centres(path: str) -> Centres:
    with np.load(path) as file:
        return Centres(file["basis"], file["top"], file["leaf"], file["begin"])


def _assign(task: Task) -> Partitioned:
    """Send the documents of a file of vectors to the partitions of their clusters."""
    state, width = task.shared
    centres = _load_centres(state.centres)
    entries = read_scratch(state.entries)
    uid = entries["doc_uid"].to_numpy()
    if task.payload:
        groups: Iterator[tuple[Grid, Ints]] = _grids(Path(task.payload), uid, width)
    else:
        places = read_scratch(state.unknown)["place"].to_numpy()
        groups = (
            (np.zeros((len(part), width), np.int16), part)
            for part in (places[low : low + 8192] for low in range(0, len(places), 8192))
        )
    for grid, entry in groups:
        points = project(grid, centres.basis)
        cluster = centres.assign(points)
        table = pa.table(
            {
                **{name: entries[name].to_numpy()[entry] for name in ("entry", "order", "units")},
                "cluster": cluster,
                "points": _binary(points),
                "full": _binary(grid),
            }
        )
        number = cluster.astype(np.int64) * state.partitions // state.clusters
        yield from split(table, number, state.partitions)


def _grids(path: Path, uid: Ints, width: int) -> Iterator[tuple[Grid, Ints]]:
    """Yield the rounded vectors of the entries of a file, and the places of these."""
    for group in row_groups(path, ("doc_uid", "vector")):
        uids = group["doc_uid"].to_numpy()
        at, entry = _entries_of(uids, uid)
        yield to_grid(_fixed(group["vector"], "<f2"), uids, width)[at], entry


def _fill(partition: Partition) -> Filled:
    """Fill the rows of a partition's clusters."""
    clock = Clock()
    state, _ = partition.shared
    table = pa.concat_tables(partition.tables())
    order = np.lexsort(tuple(table[name].to_numpy() for name in ("entry", "order", "cluster")))
    table = table.take(pa.array(order)).combine_chunks()
    cluster, units = table["cluster"].to_numpy(), table["units"].to_numpy()
    points = _fixed(table["points"], "<i2")
    full = _fixed(table["full"], "<i2")
    found = fill_clusters(cluster, points, full, units, limits_of(state.settings))
    member = in_rows(points, units, found.row)
    place = np.zeros(len(units), np.int64)
    place[member] = np.arange(len(member))
    table = table.append_column("row", pa.array(found.row)).append_column("place", pa.array(place))
    documents = write_scratch(partition.store, table)
    rows = write_scratch(partition.store, pa.table({"relevance": found.relevance}))
    record_cost(partition.folder, clock)
    return Filled(partition.order, documents, rows)


def _with_filled(state: Sculpting, results: list[Filled]) -> Sculpting:
    return replace(state, filled=tuple(results))


@dataclass(frozen=True, slots=True)
class _AllFilled:
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


def _read_filled(filled: tuple[Filled, ...]) -> _AllFilled:
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
        columns["row"].append(np.where(row >= 0, rows + row, _NO_ROW))
        for name in ("points", "full"):
            columns[name].append(_fixed(table[name], "<i2"))
        relevance.append(read_scratch(part.rows)["relevance"].to_numpy())
        rows += len(relevance[-1])

    def joined(name: str, kind: Any) -> Any:
        return np.concatenate([np.empty(0, kind), *columns[name]])

    return _AllFilled(
        joined("entry", np.int64),
        joined("units", np.int32),
        joined("cluster", np.int32),
        joined("row", np.int64),
        joined("place", np.int64),
        np.concatenate(relevance),
        tuple(columns["points"]),
        tuple(columns["full"]),
    )


def _quality(
    pieces: Pieces,
    fitted: Ints,
    relevance: npt.NDArray[np.float64],
    cluster: npt.NDArray[np.int32],
) -> tuple[pa.Table, dict[str, float]]:
    """Return what the rows are like, one by one and all together.

    Args:
        pieces: pieces in row order.
        fitted: number of each piece's row before rows were put into seeded order, or `_NO_ROW` for
            a full row of a long document.
        relevance: mean cosine of the pairs of each fitted row.
        cluster: cluster of each fitted row, or `_NO_ROW`.
    """
    first = np.flatnonzero(np.diff(pieces.row, prepend=-1))
    count = np.bincount(pieces.row, minlength=pieces.rows)
    of_row = fitted[first]
    alone = (count < 2) | (of_row < 0)
    cosine = np.where(alone, 0.0, np.r_[relevance, 0.0][of_row])
    number = np.r_[cluster, np.int32(_NO_ROW)][of_row]
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

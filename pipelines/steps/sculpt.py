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

from packing.fit import PackSettings
from packing.pieces import in_tokens, in_units
from packing.sculpt import (
    assemble,
    fill_clusters,
    in_rows,
    learn_centres,
    learn_directions,
    parts_of,
)
from packing.sculpt_finish import finish_rows
from packing.sculpt_limits import NO_LIMIT, clusters_for, in_unit_rows, limits_of
from packing.sculpt_spread import densest, squares_allowed
from packing.spherical import Centres, project, sample_size
from pipelines.artifacts import Workdir, fingerprint
from pipelines.barrier import Barrier
from pipelines.corpus import Corpus
from pipelines.runners import ShuffleKind
from pipelines.shuffle import Partition, Partitioned, Shuffle
from pipelines.steps.columns import partitions_for, split, write_table
from pipelines.steps.near_sets import read_scratch, write_scratch
from pipelines.steps.pack import PackStage, read_entries
from pipelines.steps.sculpt_filled import NO_ROW, Filled, quality_of, read_filled
from pipelines.steps.sculpt_vectors import binary, fixed, grids, sample_vectors
from pipelines.tasks import Clock, ListTasks, Phase, Result, Task, Work, dealt, record_cost

_ROWS_EACH = 1 << 15
"""Documents of a partition: some 60 MiB of vectors at 768 dimensions."""

Grid = npt.NDArray[np.int16]
Ints = npt.NDArray[np.int64]


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
    dense: float = NO_LIMIT
    """Documents that the mean row of a cluster may have."""

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.corpus.store


@dataclass(frozen=True)
class SculptStage(PackStage):
    """Cluster, fill, and place what is left; see the module."""

    shuffle: ShuffleKind = "files"

    version: ClassVar[int] = 2
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
        sample, known = sample_vectors(corpus, uid, taken, width)
        basis = learn_directions(sample)
        points = project(sample, basis)
        centres = learn_centres(points, rest[entry[taken]], clusters, basis)
        squares = squares_allowed(units, settings)
        dense = densest(
            centres.assign(points), rest[entry[taken]], len(entry), settings.seq_len, squares
        )
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
                dense=dense,
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
        return [self._task(state.corpus, "place", cached=True, payload=(state.filled, state.dense))]

    def _place(self, task: Task) -> Work:
        settings = in_unit_rows(self.settings)
        entries = read_entries(task.corpus, self.settings, self.seed)
        units = in_units(entries.n_tokens, self.settings.align)
        parts = parts_of(units, entries.order, settings, self._widest)
        units = parts.left
        partitions, dense = task.payload
        filled = read_filled(partitions)
        row, relevance, kept = finish_rows(
            filled.units,
            filled.row,
            filled.relevance,
            filled.take,
            limits_of(settings, dense),
            squares_allowed(units, settings),
        )
        member = filled.in_order(row, kept)
        document = filled.entry[member]
        pieces = assemble(units, entries.order, document, row[member], settings.seq_len)
        fitted = np.full(len(units), NO_ROW, np.int64)
        fitted[filled.entry] = row
        cluster = np.full(len(relevance), NO_ROW, np.int32)
        cluster[row] = np.where(kept[row], filled.cluster, NO_ROW)
        full = pieces.start < units[pieces.document] // settings.seq_len * settings.seq_len
        of_piece = np.where(full, NO_ROW, fitted[pieces.document])
        of_piece = np.concatenate([np.full(len(parts.own.row), NO_ROW), of_piece])
        pieces = in_tokens(parts.with_own(pieces), entries.n_tokens, self.settings.align)
        work = self._write(task, entries, pieces)
        quality, figures = quality_of(pieces, of_piece, relevance, cluster)
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
        groups: Iterator[tuple[Grid, Ints]] = grids(Path(task.payload), uid, width)
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
                "points": binary(points),
                "full": binary(grid),
            }
        )
        number = cluster.astype(np.int64) * state.partitions // state.clusters
        yield from split(table, number, state.partitions)


def _fill(partition: Partition) -> Filled:
    """Fill the rows of a partition's clusters."""
    clock = Clock()
    state, _ = partition.shared
    table = pa.concat_tables(partition.tables())
    order = np.lexsort(tuple(table[name].to_numpy() for name in ("entry", "order", "cluster")))
    table = table.take(pa.array(order)).combine_chunks()
    cluster, units = table["cluster"].to_numpy(), table["units"].to_numpy()
    points = fixed(table["points"], "<i2")
    full = fixed(table["full"], "<i2")
    found = fill_clusters(cluster, points, full, units, limits_of(state.settings, state.dense))
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

"""Scratch files of near-duplicate removal: tables, and shingle sets read back by document."""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.artifacts import Workdir
from pipelines.steps.earlier import reading
from pipelines.steps.near_signatures import SignedFile
from pipelines.steps.removed import id_overlay
from transforms.candidates import chunks, distinct
from transforms.clusters import jaccards
from transforms.ids import apply_ids
from transforms.shingles import ShingleSets, shingle_sets, text_blocks

Int64s = npt.NDArray[np.int64]

_SET_LIMIT = 8 << 20
"""Shingles that a worker holds to verify pairs: 64 MiB."""


@dataclass(frozen=True, slots=True)
class SetFile:
    """The shingle sets of one ingest file's candidates."""

    index: str
    """Arrow file, sorted by doc_uid: doc_uid, start, size, source_rank, n_chars, id."""
    values: str
    """The sets one after the other, 64-bit integers of this machine."""


def pair_table(first: Int64s, second: Int64s) -> pa.Table:
    """Return pairs of addresses as a table: first, second."""
    return pa.table({"first": pa.array(first, pa.int64()), "second": pa.array(second, pa.int64())})


def write_scratch(store: Workdir, table: pa.Table) -> str:
    """Write a table that lives as long as the run; return its path."""
    path = scratch_path(store, "arrow")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return str(path)


def read_scratch(path: str) -> pa.Table:
    """Return a table that :func:`write_scratch` wrote; mapped, not read."""
    with pa.memory_map(path) as source:
        return pa.ipc.open_file(source).read_all()


def write_sets(
    store: Workdir, file: SignedFile, wanted: Int64s, source_rank: int, ngram: int
) -> SetFile:
    """Compute the shingle sets of some documents of an ingest file from their text.

    Args:
        store: the work directory.
        file: the ingest file.
        wanted: what the documents are called, ascending.
        source_rank: place of the file's source in the keep order.
        ngram: tokens per shingle.
    """
    values = scratch_path(store, "sets")
    with reading(file.corpus):
        overlay = id_overlay(file.corpus, Path(file.ingest))
        uids = file.addresses(wanted)
    parts, start = [], 0
    with values.open("wb") as sink:
        for group in _wanted_rows(file, uids):
            sizes = []
            for texts in text_blocks(group["text"]):
                sets = shingle_sets(texts, ngram)
                sink.write(sets.values.data)
                sizes.append(sets.sizes)
            size = np.concatenate(sizes)
            begins = start + np.concatenate([[0], np.cumsum(size)[:-1]])
            start += int(size.sum())
            rows = apply_ids(group.select(["doc_uid", "id", "n_chars"]).combine_chunks(), overlay)
            del group
            parts.append(
                rows.append_column("start", pa.array(begins, pa.int64()))
                .append_column("size", pa.array(size, pa.int64()))
                .append_column(
                    "source_rank", pa.repeat(pa.scalar(source_rank, pa.int32()), len(rows))
                )
            )
    index = pa.concat_tables(parts)
    if file.earlier:
        order = np.argsort(uids)
        place = np.searchsorted(uids, index["doc_uid"].to_numpy(), sorter=order)
        numbers = pa.array(wanted[order[place]], pa.int64())
        index = index.set_column(0, index.schema.field(0), numbers)
    return SetFile(write_scratch(store, index.sort_by("doc_uid")), str(values))


def _wanted_rows(file: SignedFile, wanted: Int64s) -> Iterator[pa.Table]:
    """Yield the wanted rows of each row group that has some; the text of others is not read."""
    with reading(file.corpus), pq.ParquetFile(file.ingest, memory_map=True) as source:
        for number in range(source.num_row_groups):
            uids = source.read_row_group(number, columns=["doc_uid"], use_threads=False)["doc_uid"]
            mask = np.isin(uids.to_numpy(), wanted)
            if mask.any():
                names = ["doc_uid", "id", "n_chars", "text"]
                group = source.read_row_group(number, columns=names, use_threads=False)
                group = group.filter(pa.array(mask))
                yield group
                del group


class SetReader:
    """Shingle sets of some documents, read part by part.

    Args:
        files: the files that hold them.
        uids: addresses of the documents, ascending, shape [documents].
    """

    def __init__(self, files: Sequence[SetFile], uids: Int64s) -> None:
        self._files = files
        self._file = np.full(len(uids), -1, np.int32)
        self._start = np.zeros(len(uids), np.int64)
        self.sizes = np.zeros(len(uids), np.int64)
        """Number of shingles of each document, shape [documents]."""
        for number, file in enumerate(files):
            index = read_scratch(file.index)
            known = index["doc_uid"].to_numpy()
            place = np.minimum(np.searchsorted(known, uids), len(known) - 1)
            here = known[place] == uids
            self._file[here] = number
            self._start[here] = index["start"].to_numpy()[place[here]]
            self.sizes[here] = index["size"].to_numpy()[place[here]]
        if (self._file < 0).any():
            missing = uids[self._file < 0][0]
            raise RuntimeError(f"no shingles were written for document {missing}")

    def read(self, documents: Int64s) -> tuple[Int64s, ShingleSets]:
        """Return some documents' sets, and those documents in the order of the sets.

        Args:
            documents: numbers of documents, distinct.
        """
        order = np.lexsort((self._start[documents], self._file[documents]))
        documents = documents[order]
        sizes, starts = self.sizes[documents], self._start[documents]
        files = self._file[documents]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        values = np.empty(offsets[-1], np.uint64)
        # Sets that lie one after the other in a file are read at once.
        broken = (files[1:] != files[:-1]) | (starts[1:] != starts[:-1] + sizes[:-1])
        runs = np.concatenate([[0], np.flatnonzero(broken) + 1, [len(documents)]])
        view = values.data.cast("B")
        for number in np.unique(files).tolist():
            with Path(self._files[number].values).open("rb", buffering=0) as stream:
                for run in np.flatnonzero(files[runs[:-1]] == number):
                    first, last = runs[run], runs[run + 1]
                    stream.seek(8 * int(starts[first]))
                    stream.readinto(view[8 * int(offsets[first]) : 8 * int(offsets[last])])
        return documents, ShingleSets(offsets, values)


def verified_pairs(path: str, files: Sequence[SetFile], threshold: float) -> pa.Table:
    """Return the pairs that reach the threshold, with their Jaccard similarity.

    Args:
        path: a scratch table of distinct pairs, sorted, so that neighbours share documents.
        files: where the sets of their documents are; 64 MiB of them are held at a time.
        threshold: Jaccard similarity asked for.

    Returns:
        first, second, jaccard.
    """
    table = read_scratch(path)
    first, second = table["first"].to_numpy(), table["second"].to_numpy()
    uids = distinct(np.concatenate([first, second]))
    one, two = np.searchsorted(uids, first), np.searchsorted(uids, second)
    reader = SetReader(files, uids)
    jaccard = np.zeros(len(first))
    local = np.empty(len(uids), np.int64)
    for start, end in chunks(one, two, reader.sizes, _SET_LIMIT):
        part = slice(start, end)
        documents, sets = reader.read(distinct(np.concatenate([one[part], two[part]])))
        local[documents] = np.arange(len(documents))
        jaccard[part] = jaccards(sets, local[one[part]], local[two[part]], threshold)
    near = jaccard > 0
    found = pair_table(first[near], second[near])
    return found.append_column("jaccard", pa.array(jaccard[near]))


def set_files(path: str) -> list[SetFile]:
    """Return the set files that a scratch table lists."""
    return [SetFile(**row) for row in read_scratch(path).to_pylist()]


def order_columns(files: Sequence[SetFile], uids: Int64s) -> pa.Table:
    """Return doc_uid, source_rank, n_chars and id of some documents.

    Args:
        files: the files that hold them.
        uids: addresses, ascending.
    """
    names = ["doc_uid", "source_rank", "n_chars", "id"]
    wanted = pa.array(uids, pa.int64())
    tables = []
    for file in files:
        index = read_scratch(file.index).select(names)
        tables.append(index.filter(pc.is_in(index["doc_uid"], wanted)))
    return pa.concat_tables(tables)


def scratch_path(store: Workdir, suffix: str) -> Path:
    """Return the path of a new file that lives as long as the run."""
    store.scratch.mkdir(parents=True, exist_ok=True)
    return store.scratch / f"{uuid.uuid4().hex}.{suffix}"

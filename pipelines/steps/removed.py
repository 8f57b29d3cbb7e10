"""Which documents of a shard earlier stages removed."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.corpus import Corpus
from pipelines.parts import MANY
from transforms.candidates import distinct
from transforms.ids import OVERLAY_SCHEMA
from transforms.record import ROW_BITS

REMOVING_STAGES = ("decontaminate", "dedupe.exact", "dedupe.near", "dedupe.sentence")
"""Stages whose artifact lists removed documents in files sorted by ``doc_uid``."""

Uids = npt.NDArray[np.int64]


def id_overlay(corpus: Corpus, file: Path | None = None) -> pa.Table:
    """Return the new ids of documents that repeat one, of all documents or of one ingest file's.

    Columns as :data:`transforms.ids.OVERLAY_SCHEMA`, sorted by ``doc_uid``; a null id means that
    the document was rejected.
    """
    folder = corpus.folder("ingest")
    filters = None
    if file is not None and not file.name.endswith(MANY):
        shard = int(file.name[:10], 16)
        low, high = shard << ROW_BITS, (shard + 1) << ROW_BITS
        filters = [("doc_uid", ">=", low), ("doc_uid", "<", high)]
    tables = [OVERLAY_SCHEMA.empty_table()]
    for entry in corpus.manifest("ingest").entries("ids"):
        tables.append(pq.read_table(folder / entry.name, filters=filters, use_threads=False))
    return pa.concat_tables(tables).sort_by("doc_uid")


def removed_by_file(corpus: Corpus) -> dict[str, Uids]:
    """Return the removed documents of every ingest file that has some, ascending, by file name.

    Reads one narrow file at a time; memory is the removed addresses, 8 bytes each.
    """
    return by_file(corpus, removed_uids(corpus))


def by_file(corpus: Corpus, addresses: Iterable[Uids]) -> dict[str, Uids]:
    """Return the addresses that lie in each ingest file, ascending, by file name.

    Args:
        corpus: a corpus that is ingested.
        addresses: arrays of addresses, each ascending; files without any are left out.
    """
    by_shard: dict[int, list[Uids]] = {}
    for uids in addresses:
        shards, starts = np.unique(uids >> ROW_BITS, return_index=True)
        bounds = [*starts.tolist(), len(uids)]
        for shard, start, end in zip(shards.tolist(), bounds[:-1], bounds[1:], strict=True):
            by_shard.setdefault(shard, []).append(uids[start:end])
    found = {}
    for entry, path in corpus.documents():
        shards = shards_of(path)
        parts = [part for shard in shards for part in by_shard.get(shard, [])]
        if parts:
            found[entry.name] = distinct(np.concatenate(parts))
    return found


def shards_of(path: Path) -> list[int]:
    """Return the shard numbers of an ingest file: one, or those of many small source files."""
    if not path.name.endswith(MANY):
        return [int(path.name[:10], 16)]
    uids = pq.read_table(path, columns=["doc_uid"], use_threads=False)["doc_uid"].to_numpy()
    return np.unique(uids >> ROW_BITS).tolist()  # type: ignore[no-any-return]


def removed_uids(corpus: Corpus) -> Iterator[Uids]:
    """Yield sorted addresses of removed documents, file by file."""
    overlay = id_overlay(corpus)
    rejected = overlay.filter(pc.is_null(overlay["id"]))["doc_uid"].to_numpy()
    if len(rejected):
        yield rejected
    for stage in REMOVING_STAGES:
        if corpus.has(stage):
            folder = corpus.folder(stage)
            for entry in corpus.manifest(stage).entries():
                table = pq.read_table(folder / entry.name, columns=["doc_uid"], use_threads=False)
                if len(table):
                    yield table["doc_uid"].to_numpy()
    if corpus.has("mixture"):
        for entry in corpus.manifest("mixture").entries():
            table = pq.read_table(corpus.folder("mixture") / entry.name, use_threads=False)
            yield table.filter(pc.equal(table["copies"], 0))["doc_uid"].to_numpy()


def kept_rows(group: pa.Table, removed: Uids | None) -> pa.Array:
    """Return the mask of the documents that no stage has dropped so far.

    Args:
        group: rows of an ingest file with ``doc_uid`` and ``reason``.
        removed: addresses of the file's removed documents, or None.
    """
    kept = pc.is_null(group["reason"]).to_numpy()
    if removed is not None and len(removed):
        kept = kept & ~np.isin(group["doc_uid"].to_numpy(), removed)
    return pa.array(kept)

"""Which documents of a shard earlier stages removed."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.corpus import Corpus
from transforms.ids import OVERLAY_SCHEMA
from transforms.record import MAX_ROWS_PER_PART, ROW_BITS

REMOVING_STAGES = ("dedupe.exact",)
"""Stages whose artifact lists removed documents in files sorted by ``doc_uid``."""

Rows = npt.NDArray[np.int32]


def id_overlay(corpus: Corpus, shard: int | None = None) -> pa.Table:
    """Return the new ids of documents that repeat one, of all shards or of one.

    Columns as :data:`transforms.ids.OVERLAY_SCHEMA`, sorted by ``doc_uid``; a null id means that
    the document was rejected.
    """
    folder = corpus.folder("ingest")
    filters = None
    if shard is not None:
        low, high = shard << ROW_BITS, (shard + 1) << ROW_BITS
        filters = [("doc_uid", ">=", low), ("doc_uid", "<", high)]
    tables = [OVERLAY_SCHEMA.empty_table()]
    for entry in corpus.manifest("ingest").entries("ids"):
        tables.append(pq.read_table(folder / entry.name, filters=filters, use_threads=False))
    return pa.concat_tables(tables).sort_by("doc_uid")


def removed_by_shard(corpus: Corpus) -> dict[str, Rows]:
    """Return the removed rows of every ingest file that has some, ascending, by file name.

    Reads one narrow file at a time; memory is the removed rows, 4 bytes each.
    """
    found: dict[int, list[Rows]] = {}
    for uids in _removed(corpus):
        shards, starts = np.unique(uids >> ROW_BITS, return_index=True)
        rows = (uids & (MAX_ROWS_PER_PART - 1)).astype(np.int32)
        for shard, part in zip(shards.tolist(), np.split(rows, starts[1:]), strict=True):
            found.setdefault(shard, []).append(part)
    names = {int(e.name[:10], 16): e.name for e in corpus.manifest("ingest").entries()}
    return {names[shard]: np.unique(np.concatenate(parts)) for shard, parts in found.items()}


def _removed(corpus: Corpus) -> Iterator[npt.NDArray[np.int64]]:
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


def kept_rows(group: pa.Table, removed: Rows | None) -> pa.Array:
    """Return the mask of the documents that no stage has dropped so far.

    Args:
        group: rows of an ingest file with ``doc_uid`` and ``reason``.
        removed: removed rows of the file, or None.
    """
    kept = pc.is_null(group["reason"]).to_numpy()
    if removed is not None and len(removed):
        rows = group["doc_uid"].to_numpy() & (MAX_ROWS_PER_PART - 1)
        kept = kept & ~np.isin(rows, removed)
    return pa.array(kept)

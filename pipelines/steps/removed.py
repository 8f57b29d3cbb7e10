"""Which documents of a shard earlier stages removed."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.corpus import Corpus
from transforms.record import MAX_ROWS_PER_PART, ROW_BITS

REMOVING_STAGES = ("dedupe.exact",)
"""Stages whose artifact lists removed documents in files sorted by ``doc_uid``."""

Rows = npt.NDArray[np.int32]


def removed_by_shard(corpus: Corpus) -> dict[str, Rows]:
    """Return the removed rows of every ingest file that has some, ascending, by file name.

    Reads one narrow file at a time; memory is the removed rows, 4 bytes each.
    """
    found: dict[int, list[Rows]] = {}
    for stage in REMOVING_STAGES:
        if not corpus.has(stage):
            continue
        folder = corpus.folder(stage)
        for entry in corpus.manifest(stage).entries():
            uids = pq.read_table(folder / entry.name, columns=["doc_uid"])["doc_uid"].to_numpy()
            shards, starts = np.unique(uids >> ROW_BITS, return_index=True)
            rows = (uids & (MAX_ROWS_PER_PART - 1)).astype(np.int32)
            for shard, part in zip(shards.tolist(), np.split(rows, starts[1:]), strict=True):
                found.setdefault(shard, []).append(part)
    names = {int(e.name[:10], 16): e.name for e in corpus.manifest("ingest").entries()}
    return {names[shard]: np.unique(np.concatenate(parts)) for shard, parts in found.items()}


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

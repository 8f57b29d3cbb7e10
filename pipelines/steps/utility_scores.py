"""The scores of the stage ``utility``: of every document of an ingest file, and their weights."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.steps.columns import row_groups
from pipelines.steps.removed import Uids
from pipelines.steps.utility_tables import float32, token_blocks
from transforms.student import score
from transforms.utility import UtilitySettings, quantiles, weights


def score_file(path: Path, student: str) -> pa.Table:
    """Score the documents of an ingest file: doc_uid, words, utility, similarity.

    Args:
        path: the ingest file.
        student: path of the student's table.
    """
    learnt = pq.read_table(student, use_threads=False)
    by = np.stack([learnt[name].to_numpy() for name in ("utility", "similarity")])
    uids, sizes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    scores = [np.empty((2, 0), np.float32)]
    for group in row_groups(path, ("doc_uid", "reason", "text")):
        for uid, offsets, tokens in token_blocks(group.filter(pc.is_null(group["reason"]))):
            uids.append(uid)
            sizes.append(np.diff(offsets))
            scores.append(score(offsets, tokens, by))
    utility, similarity = np.concatenate(scores, axis=1)
    return pa.table(
        {
            "doc_uid": np.concatenate(uids),
            "words": np.concatenate(sizes),
            "utility": utility,
            "similarity": similarity,
        }
    )


def scores_left(paths: Sequence[Path], removed: Sequence[Uids | None]) -> pa.Table:
    """Return the scores of some files without the documents that were removed from each, by uid."""
    tables = []
    for path, gone in zip(paths, removed, strict=True):
        table = pq.read_table(path, use_threads=False)
        if gone is not None:
            table = table.filter(pc.invert(pc.is_in(table["doc_uid"], pa.array(gone))))
        tables.append(table)
    return pa.concat_tables(tables).sort_by("doc_uid").combine_chunks()


def weighted(table: pa.Table, settings: UtilitySettings, *, reliable: bool) -> pa.Table:
    """Return scores with their quantiles and weights; weights are 1 where they are not reliable."""
    names = ("utility", "similarity", "words")
    utility, similarity, size = (table[name].to_numpy() for name in names)
    weight = weights(utility, similarity, size, settings)
    if not reliable:
        weight = np.ones_like(weight)
    return pa.table(
        {
            "doc_uid": table["doc_uid"],
            "words": table["words"],
            "utility": pa.array(utility, from_pandas=True),
            "similarity": pa.array(similarity, from_pandas=True),
            "utility_quantile": pa.array(float32(quantiles(utility, size)), from_pandas=True),
            "similarity_quantile": pa.array(float32(quantiles(similarity, size)), from_pandas=True),
            "weight": weight,
        }
    )

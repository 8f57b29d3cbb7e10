"""The end of near-duplicate removal: from verified pairs to the rows of removed documents."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.steps.near_sets import SetFile, order_columns, pair_table, read_scratch
from pipelines.steps.removed import Uids
from transforms.candidates import distinct
from transforms.clusters import duplicate_rows, near_duplicates

_NONE = np.empty(0, np.int64)


def removed_rows(pairs: Sequence[str], equal: Sequence[str], sets: Sequence[SetFile]) -> pa.Table:
    """Return the rows of all documents that near-duplicate removal drops, sorted by ``doc_uid``.

    Holds 24 bytes per verified pair, and the keep order of the documents in them.

    Args:
        pairs: scratch tables of verified pairs: first, second, jaccard.
        equal: scratch tables of documents whose set another one has: doc_uid, keeper_uid.
        sets: where the candidates' places in the keep order are.
    """
    none = pair_table(_NONE, _NONE).append_column("jaccard", pa.array([], pa.float64()))
    table = pa.concat_tables([none, *map(read_scratch, pairs)])
    first, second, jaccard = (table[name].to_numpy() for name in none.column_names)
    documents = distinct(np.concatenate([first, second]))
    found = (
        near_duplicates(order_columns(sets, documents), first, second, jaccard)
        if len(documents)
        else (_NONE, _NONE, np.empty(0))
    )
    tables = [read_scratch(path) for path in equal]
    same = np.concatenate([_NONE, *(t["doc_uid"].to_numpy() for t in tables)])
    leader = np.concatenate([_NONE, *(t["keeper_uid"].to_numpy() for t in tables)])
    return _rows(*found, same, leader)


def _rows(
    removed: Uids, keeper: Uids, jaccard: npt.NDArray[np.float64], same: Uids, leader: Uids
) -> pa.Table:
    """Add the documents that share their set with a leader, which may itself be removed.

    A document with the set of one that is removed is as near to that one's keeper.
    """
    similarity = np.ones(len(same))
    if len(removed):
        place = np.minimum(np.searchsorted(removed, leader), len(removed) - 1)
        lost = removed[place] == leader
        similarity[lost] = jaccard[place[lost]]
        leader = np.where(lost, keeper[place], leader)
    uids = np.concatenate([removed, same])
    order = np.argsort(uids)
    keepers = np.concatenate([keeper, leader])[order]
    _, place, counts = np.unique(keepers, return_inverse=True, return_counts=True)
    similarities = np.concatenate([jaccard, similarity])[order]
    return duplicate_rows(uids[order], keepers, similarities, counts[place] + 1)

"""Tokens of documents that an earlier run encoded, and documents from several ways in one order."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from transforms.tokenize.encoder import Encoded


class EarlierTokens:
    """Tokens of the same shard by the same tokenizer, from an earlier run's artifact."""

    def __init__(self, path: str | None) -> None:
        columns = ["doc_uid", "input_ids"]
        table = pq.read_table(path, columns=columns, use_threads=False) if path else None
        table = table.sort_by("doc_uid") if table is not None else None
        self.uids = table["doc_uid"].to_numpy() if table is not None else np.empty(0, np.int64)
        self._lists = table["input_ids"].combine_chunks() if table is not None else None

    def find(self, uids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the place of each document among the earlier ones, -1 where it is not."""
        if not len(self.uids):
            return np.full(len(uids), -1, np.int64)
        place = np.minimum(np.searchsorted(self.uids, uids), len(self.uids) - 1)
        return np.where(self.uids[place] == uids, place, -1)

    def take(self, places: npt.NDArray[np.int64]) -> Encoded:
        """Return the tokens of some of the earlier documents."""
        if self._lists is None or not len(places):
            return Encoded(np.zeros(1, np.int64), np.empty(0, np.int32))
        lists = self._lists.take(pa.array(places))
        offsets = lists.offsets.to_numpy().astype(np.int64)
        ids = lists.values.to_numpy()[offsets[0] : offsets[-1]]
        return Encoded(offsets - offsets[0], ids)


def interleaved(parts: Sequence[tuple[npt.NDArray[np.bool_], Encoded]]) -> Encoded:
    """Put documents that were encoded in different ways back into their order.

    Args:
        parts: which of all documents a part holds, [d], and their tokens in order. Every document
            is in one part.
    """
    held = [(mask, encoded) for mask, encoded in parts if mask.any()]
    if len(held) == 1:
        return held[0][1]
    if not held:
        return Encoded(np.zeros(1, np.int64), np.empty(0, np.int32))
    places = np.concatenate([np.flatnonzero(mask) for mask, _ in held])
    order = np.empty(len(places), np.int64)
    order[places] = np.arange(len(places))
    counts = np.concatenate([encoded.lengths for _, encoded in held])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    lists = pa.LargeListArray.from_arrays(
        pa.array(offsets), pa.array(np.concatenate([encoded.ids for _, encoded in held]))
    ).take(pa.array(order))
    return Encoded(lists.offsets.to_numpy(), lists.values.to_numpy())

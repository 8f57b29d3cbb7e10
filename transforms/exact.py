"""Exact duplicates: documents with the same hash of their normalized text."""

import hashlib
import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.text import string_buffers

HASH_BYTES = 16

DUPLICATE_SCHEMA = pa.schema(
    [
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("cluster", pa.int64(), nullable=False),
        pa.field("keeper_uid", pa.int64(), nullable=False),
        # The work directory that holds the keeper; null = this run's.
        pa.field("keeper_ingest", pa.string()),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("jaccard", pa.float64(), nullable=False),
        pa.field("cluster_size", pa.int64(), nullable=False),
    ]
)
"""One row per removed document; a cluster is named by the uid of its keeper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactSettings:
    """Removal of exact duplicates (`[dedupe.exact]`); the table has no keys."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}


def text_hashes(texts: pa.StringArray) -> pa.FixedSizeBinaryArray:
    """Return the BLAKE2b-128 of each text's UTF-8 bytes; no Python strings are made."""
    offsets, data = string_buffers(texts)
    view, bounds = data.data, offsets.tolist()
    digest = hashlib.blake2b
    joined = b"".join(
        [
            digest(view[start:end], digest_size=HASH_BYTES).digest()
            for start, end in itertools.pairwise(bounds)
        ]
    )
    return pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(HASH_BYTES), len(texts), [None, pa.py_buffer(joined)]
    )


def exact_duplicates(documents: pa.Table) -> pa.Table:
    """Return the documents that lose to another one with the same hash.

    Of each group the first in keep order stays: lowest ``source_rank``, highest ``quality`` (where
    that column is given; null and NaN lose), most characters, lowest id bytewise, lowest
    ``doc_uid``. The result depends neither on the order of the rows nor, taken together, on how
    they are split into tables, as long as equal hashes share a table.

    Args:
        documents: columns exact_hash binary(16), doc_uid int64, source_rank int32, n_chars int64,
            id string, and optionally quality float64.

    Returns:
        Rows of :data:`DUPLICATE_SCHEMA`, sorted by ``doc_uid``.
    """
    repeated = _in_groups(documents["exact_hash"])
    documents = documents.filter(pa.array(repeated))
    order = [("exact_hash", "ascending"), ("source_rank", "ascending")]
    if "quality" in documents.column_names:
        order.append(("quality", "descending"))
    order += [("n_chars", "descending"), ("id", "ascending"), ("doc_uid", "ascending")]
    documents = documents.take(pc.sort_indices(documents, sort_keys=order))
    uids = documents["doc_uid"].to_numpy()
    high, low = _halves(documents["exact_hash"])
    first = np.ones(len(uids), bool)
    first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    starts = np.flatnonzero(first)
    sizes = np.diff(np.append(starts, len(uids)))
    keepers, cluster_sizes = np.repeat(uids[starts], sizes), np.repeat(sizes, sizes)
    lost = np.flatnonzero(~first)
    lost = lost[np.argsort(uids[lost])]
    keeper = pa.array(keepers[lost], pa.int64())
    return pa.table(
        [
            pa.array(uids[lost], pa.int64()),
            keeper,
            keeper,
            pa.nulls(len(lost), pa.string()),
            pa.repeat("exact", len(lost)),
            pa.array(np.ones(len(lost))),
            pa.array(cluster_sizes[lost], pa.int64()),
        ],
        schema=DUPLICATE_SCHEMA,
    )


def _in_groups(hashes: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return which rows may share their hash with another one, shape [rows].

    Compares the first half only: sorting one int64 column is cheap, and the few strangers it lets
    through fall out when whole hashes are compared.
    """
    high, _ = _halves(hashes)
    order = np.argsort(high)
    ordered = high[order]
    equal = ordered[1:] == ordered[:-1]
    mask = np.zeros(len(high), bool)
    mask[order[1:]] |= equal
    mask[order[:-1]] |= equal
    return mask


def _halves(
    hashes: pa.ChunkedArray,
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return the first and last eight bytes of each hash as integers, shape [rows] each."""
    pairs = [
        np.frombuffer(chunk.buffers()[1], np.uint64).reshape(-1, 2)[
            chunk.offset : chunk.offset + len(chunk)
        ]
        for chunk in hashes.chunks
        if len(chunk)
    ]
    both = np.concatenate(pairs) if pairs else np.empty((0, 2), np.uint64)
    return both[:, 0], both[:, 1]

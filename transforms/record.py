"""Documents: their schema, their address and the error that names a bad one.

A document is addressed by ``doc_uid = (shard << 24) | row``: ``shard`` is a 39-bit hash of (source
name, path relative to the fixed part of the source's glob, part number) and ``row`` the document's
place in that part. The address depends on no other file, so adding a file renumbers nothing.
"""

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ROW_BITS = 24
SHARD_BITS = 39
MAX_ROWS_PER_PART = 1 << ROW_BITS

DOCUMENT_SCHEMA = pa.schema(
    [
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("domain", pa.string(), nullable=False),
        pa.field("lang", pa.string()),
        pa.field("n_chars", pa.int64(), nullable=False),
        pa.field("n_bytes", pa.int64(), nullable=False),
        pa.field("exact_hash", pa.binary(16), nullable=False),
        # Why ingest itself dropped the document (``under min_chars``); null where it did not.
        pa.field("reason", pa.string()),
        pa.field("text", pa.string(), nullable=False),
    ]
)
"""Columns of an ingested shard; the source's own typed columns follow them."""

REJECT_SCHEMA = pa.schema(
    [
        pa.field("source", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("line", pa.int64()),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string()),
    ]
)
"""Columns of the quarantine: one row per input record that could not be ingested."""


class RecordError(ValueError):
    """Input data that cannot be used; the message says what, where, what was found, what to do."""


def shard_number(source: str, relative_path: str, part: int) -> int:
    """Return the 39-bit address of one part of one source file.

    Args:
        source: name of the source in the recipe.
        relative_path: path below the fixed part of the source's glob, with forward slashes.
        part: number of the part within the file, from 0.

    Returns:
        An integer in [0, 2**39).
    """
    return _address(source, relative_path, part) >> (64 - SHARD_BITS)


def file_uid(source: str, relative_path: str) -> int:
    """Return the ``doc_uid`` of a document that is a whole file.

    Such a file is a shard of its own. Its row is no count but 24 further bits of the hash, so that
    the addresses of millions of files do not meet.

    Args:
        source: name of the source in the recipe.
        relative_path: path below the fixed part of the source's glob, with forward slashes.

    Returns:
        An integer in [0, 2**63), with ``shard_number(source, relative_path, 0)`` in its high bits.
    """
    return _address(source, relative_path, 0) >> (64 - SHARD_BITS - ROW_BITS)


def _address(source: str, relative_path: str, part: int) -> int:
    """Hash the name of a part to 64 bits."""
    key = "\0".join((source, relative_path, str(part))).encode()
    digest = hashlib.blake2b(key, digest_size=8, person=b"drystone-shard").digest()
    return int.from_bytes(digest, "big")


def doc_uids(shard: int, rows: int) -> npt.NDArray[np.int64]:
    """Return the addresses of the first ``rows`` documents of a shard, shape [rows], int64.

    Raises:
        RecordError: the part has more rows than 24 bits can address.
    """
    if rows > MAX_ROWS_PER_PART:
        raise RecordError(
            f"a part of {rows} rows is too long: at most {MAX_ROWS_PER_PART} fit; "
            "lower ingest.part_size_mib"
        )
    return np.int64(shard << ROW_BITS) + np.arange(rows, dtype=np.int64)


def mix64(values: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.uint64]:
    """Hash 64-bit integers to 64 uniform bits (the finalizer of splitmix64), vectorised.

    Every seeded choice by document is made from this, so that it depends on the document's address
    and the seed alone, never on order, partition or worker.

    Args:
        values: any shape, int64.
        seed: any Python integer; its low 64 bits count.

    Returns:
        The same shape, uint64.
    """
    with np.errstate(over="ignore"):
        x = values.astype(np.uint64) + np.uint64(
            (seed * 0x9E3779B97F4A7C15 + 0x1234567) % (1 << 64)
        )
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))

"""Signatures of an ingest file's documents, as a Parquet file beside it, and what is read of it."""

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.steps.columns import row_groups
from pipelines.steps.removed import Uids
from transforms.exact import HASH_BYTES
from transforms.minhash import NearSettings, band_keys, set_hashes, signatures
from transforms.shingles import shingle_sets, text_blocks

_ROWS_PER_GROUP = 1 << 15
"""Rows that are read of a signature file at once: some 8 MiB."""


def signature_schema(settings: NearSettings) -> pa.Schema:
    """Return the columns of a signature file: one row per document that ingest did not drop."""
    return pa.schema(
        [
            pa.field("doc_uid", pa.int64(), nullable=False),
            pa.field("source", pa.string(), nullable=False),
            pa.field("n_chars", pa.int64(), nullable=False),
            pa.field("n_shingles", pa.int64(), nullable=False),
            pa.field("set_hash", pa.binary(HASH_BYTES), nullable=False),
            pa.field("bands", pa.binary(8 * settings.bands), nullable=False),
        ]
    )


def sign_file(path: Path, target: Path, settings: NearSettings) -> dict[str, int]:
    """Write the signatures of an ingest file, atomically, in the order of its documents.

    Returns:
        Counters: ``signed`` documents and their ``shingles``.
    """
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    schema = signature_schema(settings)
    counters = {"signed": 0, "shingles": 0}
    with pq.ParquetWriter(
        temporary,
        schema,
        # Hashes do not compress.
        compression={name: "none" if name == "bands" else "zstd" for name in schema.names},
        use_dictionary=["source"],
        write_statistics=["doc_uid"],
    ) as writer:
        for group in row_groups(path, ("doc_uid", "source", "n_chars", "reason", "text")):
            if group["reason"].null_count < len(group):
                group = group.filter(pc.is_null(group["reason"]))
            if len(group):
                table = _signed(group, settings)
                writer.write_table(table, row_group_size=_ROWS_PER_GROUP)
                counters["signed"] += len(table)
                counters["shingles"] += pc.sum(table["n_shingles"]).as_py()
            # Else it would live until the next one is read.
            del group
    temporary.replace(target)
    return counters


def _signed(documents: pa.Table, settings: NearSettings) -> pa.Table:
    sizes, hashes, keys = [], [], []
    for texts in text_blocks(documents["text"]):
        sets = shingle_sets(texts, settings.ngram)
        sizes.append(sets.sizes)
        hashes.append(set_hashes(sets))
        keys.append(band_keys(signatures(sets, settings.hashes), settings.bands, settings.rows))
    columns = [
        documents["doc_uid"],
        documents["source"],
        documents["n_chars"],
        pa.array(np.concatenate(sizes), pa.int64()),
        _binary(np.concatenate(hashes)),
        _binary(np.concatenate(keys)),
    ]
    return pa.table(columns, schema=signature_schema(settings))


def _binary(integers: npt.NDArray[Any]) -> pa.FixedSizeBinaryArray:
    """Return rows of 64-bit integers as binary values of one length."""
    kind = pa.binary(8 * integers.shape[1])
    content = pa.py_buffer(np.ascontiguousarray(integers))
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(integers), [None, content])


def bands_of(signed: pa.Table) -> npt.NDArray[np.int64]:
    """Return the band keys of signed documents, shape [documents, bands]."""
    array = signed["bands"].combine_chunks()
    flat = np.frombuffer(array.buffers()[1], np.int64)
    rows = flat.reshape(-1, array.type.byte_width // 8)
    return rows[array.offset : array.offset + len(array)]


def comparable(signed: pa.Table, gone: Uids | None) -> pa.Array:
    """Return the mask of documents that have shingles and are not dropped.

    Args:
        signed: rows of a signature file with ``doc_uid`` and ``n_shingles``.
        gone: addresses of dropped documents, or None.
    """
    mask = signed["n_shingles"].to_numpy() > 0
    if gone is not None and len(gone):
        mask &= ~np.isin(signed["doc_uid"].to_numpy(), gone)
    return pa.array(mask)


def source_rank(signed: pa.Table, sources: list[str]) -> int:
    """Return the place of a signature file's source among those of the recipe; it has one."""
    return sources.index(signed["source"][0].as_py())

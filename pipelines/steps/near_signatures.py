"""Signatures of an ingest file's documents, as a Parquet file beside it, and what is read of it."""

import unicodedata
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.artifacts import FileEntry, fingerprint
from pipelines.corpus import Corpus
from pipelines.steps.columns import row_groups
from pipelines.steps.earlier import reading
from pipelines.steps.removed import Uids
from transforms.exact import HASH_BYTES
from transforms.minhash import NearSettings, band_keys, set_hashes, signatures
from transforms.shingles import shingle_sets, text_blocks

STAGE = "dedupe.near"
VERSION = 1
"""Raised whenever the same documents get other signatures than before."""

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


@dataclass(frozen=True, slots=True)
class SignedFile:
    """An ingest file with the signatures of its documents, of this run or of an earlier one."""

    corpus: Corpus
    """The corpus that the ingest file belongs to."""
    ingest: str
    signatures: str
    """Paths of both files."""
    rows: int
    """Signed documents."""
    key: str
    """Tells it from all others of the run."""
    origin: int = -1
    """Place of the earlier run in the list of ``dedupe.against``; -1 for this run."""
    start: int = 0
    """Number of the first signed document, of an earlier run."""

    @property
    def earlier(self) -> bool:
        """Whether it belongs to an earlier run."""
        return self.origin >= 0

    def numbers(self, uids: Uids, first: int = 0) -> Uids:
        """Return what documents are called within the stage: their address, or a negative number.

        Args:
            uids: addresses of documents that follow each other in the file of signatures.
            first: place of the first of them in it.
        """
        if not self.earlier:
            return uids
        return np.arange(self.start + first, self.start + first + len(uids))

    def addresses(self, numbers: Uids) -> Uids:
        """Return the addresses of documents of the file by what they are called."""
        if not self.earlier:
            return numbers
        table = pq.read_table(self.signatures, columns=["doc_uid"], use_threads=False)
        found: Uids = table["doc_uid"].to_numpy()[numbers - self.start]
        return found


class OtherSchemeError(ValueError):
    """Signatures that those of this run cannot be compared with; the message says what to do."""


def scheme(settings: NearSettings) -> dict[str, Any]:
    """Return the settings that a signature depends on; the threshold is none of them."""
    return {name: getattr(settings, name) for name in ("ngram", "bands", "rows", "shingle")}


def signing(settings: NearSettings, entry: FileEntry) -> str:
    """Return the fingerprint of the task that signs the documents of an ingest file."""
    return fingerprint(
        stage=STAGE,
        version=VERSION,
        settings=scheme(settings),
        unicode=unicodedata.unidata_version,
        # Files without documents have equal bytes.
        file=[entry.name[:10], entry.sha256],
    )


def signature_entries(corpus: Corpus, settings: NearSettings) -> list[tuple[FileEntry, FileEntry]]:
    """Return each ingest file with its signatures, of a corpus that near-duplicates left.

    Raises:
        OtherSchemeError: there are no signatures, or they were made in another way.
    """
    refuse_other_scheme(corpus, settings)
    signed = {entry.task: entry for entry in corpus.manifest(STAGE).entries("signatures")}
    files = corpus.manifest("ingest").entries()
    return [(entry, signed[signing(settings, entry)]) for entry in files]


def refuse_other_scheme(corpus: Corpus, settings: NearSettings) -> None:
    """Check that the documents of an earlier run have signatures like those of this one.

    Raises:
        OtherSchemeError: they have not; the message says what differs and what to do.
    """
    here = {**scheme(settings), "unicode": unicodedata.unidata_version}
    wanted = ", ".join(f"{key} = {here[key]}" for key in ("ngram", "bands", "rows"))
    if not corpus.has(STAGE):
        raise OtherSchemeError(
            f"its newest run has no signatures (no [{STAGE}]); run its recipe with [{STAGE}] "
            f"{wanted} (--until {STAGE} is enough), or leave out [{STAGE}] here"
        )
    manifest = corpus.manifest(STAGE)
    there = {key: manifest.config.get(key) for key in here}
    different = [key for key in here if here[key] != there[key]]
    if different:
        found = ", ".join(f"{key} = {there[key]} (here {here[key]})" for key in different)
        same = ", ".join(f"{key} = {there[key]}" for key in different if key != "unicode")
        remedy = f"set {same} in [{STAGE}] here, or " if same else ""
        raise OtherSchemeError(
            f"its signatures are of another scheme: {found}; {remedy}run its recipe again with "
            f"{wanted} and this installation"
        )
    signed = {entry.task for entry in manifest.entries("signatures")}
    entries = corpus.manifest("ingest").entries()
    if not signed.issuperset(signing(settings, entry) for entry in entries):
        raise OtherSchemeError(
            "its signatures are of another version of Drystone; run its recipe again with this one"
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


def signed_groups(file: SignedFile) -> Iterator[pa.Table]:
    """Yield all columns of a file of signatures, some 8 MiB at a time."""
    with reading(file.corpus):
        yield from row_groups(Path(file.signatures), None)


def bands_of(signed: pa.Table) -> npt.NDArray[np.int64]:
    """Return the band keys of signed documents, shape [documents, bands]."""
    array = signed["bands"].combine_chunks()
    flat = np.frombuffer(array.buffers()[1], np.int64)
    rows = flat.reshape(-1, array.type.byte_width // 8)
    return rows[array.offset : array.offset + len(array)]


def write_sought(path: Path, files: Sequence[SignedFile], bands: int) -> None:
    """Write a set of bits that tells which band keys new documents have, and a few others.

    Args:
        path: where to; 2 bytes per key, at least.
        files: the signatures of new documents.
        bands: band keys per document.
    """
    keys = max(1, sum(file.rows for file in files) * bands)
    size = 1 << (16 * keys - 1).bit_length()
    bits = np.zeros(size // 8, np.uint8)
    for file in files:
        for group in signed_groups(file):
            place = bands_of(group).ravel() & (size - 1)
            np.bitwise_or.at(bits, place >> 3, np.uint8(1) << (place & 7).astype(np.uint8))
    np.save(path, bits)


def may_hold(path: str, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which band keys a new document may have: all that one has, and 1 in 16 others."""
    bits = np.load(path, mmap_mode="r")
    place = keys & (8 * len(bits) - 1)
    found: npt.NDArray[np.bool_] = (bits[place >> 3] >> (place & 7).astype(np.uint8)) & 1 == 1
    return found


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


def source_rank(signed: pa.Table, ranks: Mapping[str, int]) -> int:
    """Return the place of a signature file's source in the keep order; it has one source."""
    return ranks[signed["source"][0].as_py()]

"""How many documents have each term, as Parquet files: by ingest file, and of a whole corpus."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.artifacts import FileEntry
from pipelines.steps.columns import row_groups, write_table
from transforms.embed import (
    Counts,
    DocumentCounter,
    EmbedSettings,
    counted_rows,
    term_rarity,
    unicode_version,
)
from transforms.embed_kernels import Vectors
from transforms.record import RecordError
from transforms.shingles import text_blocks

COUNT_SCHEMA = pa.schema(
    [
        pa.field("bucket", pa.int32(), nullable=False),
        pa.field("documents", pa.int64(), nullable=False),
    ]
)
"""Buckets that occur, ascending, and in how many documents."""


@dataclass(frozen=True, slots=True)
class Rarity:
    """The weights of terms of a corpus."""

    file: str
    """Name of the file of counts in the artifact's folder."""
    digest: str
    """Hash of the weights."""
    weights: Vectors = field(repr=False, compare=False)

    def __reduce__(self) -> tuple[object, tuple[str, str, None]]:
        """Travel without the weights: whoever needs them reads the file."""
        return Rarity, (self.file, self.digest, None)


def count_file(
    path: Path, target: Path, settings: EmbedSettings, times: int, seed: int
) -> tuple[FileEntry, int]:
    """Write in how many documents of an ingest file each bucket occurs.

    Args:
        path: the file; its documents count that ingest did not drop.
        target: where to write.
        settings: how many buckets there are.
        times: how often the corpus is halved before it is counted.
        seed: chooses the documents that count.

    Returns:
        The file, and the number of documents.
    """
    counter = DocumentCounter(settings)
    for group in row_groups(path, ("doc_uid", "reason", "text")):
        chosen = pa.array(counted_rows(group["doc_uid"].to_numpy(), times, seed))
        chosen = pc.and_(chosen, pc.is_null(group["reason"].combine_chunks()))
        for block in text_blocks(group.filter(chosen)["text"]):
            counter.add(block)
        # Else it would live until the next one is read.
        del group
    table = _table(counter.counts)
    return write_table(target, table, kind="counts"), counter.documents


def sum_counts(
    files: Sequence[Path], folder: Path, documents: int, settings: EmbedSettings
) -> FileEntry:
    """Write the counts of a corpus, the sums of its files': ``frequencies-*.parquet``.

    Args:
        files: counts by ingest file.
        folder: where to write.
        documents: how many were counted.
        settings: how many buckets there are.
    """
    counts = np.zeros(settings.buckets, np.int64)
    for file in files:
        table = pq.read_table(file, use_threads=False)
        counts[table["bucket"].to_numpy()] += table["documents"].to_numpy()
    facts = {
        "documents": str(documents),
        "buckets": str(settings.buckets),
        "unicode": unicode_version(),
    }
    digest = hashlib.sha256(repr(sorted(facts.items())).encode() + counts.tobytes()).hexdigest()
    folder.mkdir(parents=True, exist_ok=True)
    table = _table(counts).replace_schema_metadata(facts)
    return write_table(folder / f"frequencies-{digest[:12]}.parquet", table, kind="frequencies")


def load_rarity(path: Path, settings: EmbedSettings) -> Rarity:
    """Return the weights of terms by a file of counts."""
    table = pq.read_table(path, use_threads=False)
    counts = np.zeros(settings.buckets, np.int64)
    counts[table["bucket"].to_numpy()] = table["documents"].to_numpy()
    documents = int(table.schema.metadata[b"documents"])
    weights = term_rarity(counts, documents, settings.min_documents)
    return Rarity(path.name, hashlib.sha256(weights.tobytes()).hexdigest(), weights)


def refuse_other_counts(path: Path, settings: EmbedSettings) -> None:
    """Check that counts of an earlier run are there and of the same buckets and letters.

    Raises:
        RecordError: they are not.
    """
    where = f"embed.frequencies = {str(path)!r}"
    try:
        schema = pq.read_schema(path)
    except FileNotFoundError as error:
        raise RecordError(f"{where}: no such file; name frequencies-*.parquet of a run") from error
    except (OSError, pa.ArrowInvalid) as error:
        raise RecordError(
            f"{where}: cannot be read ({error}); name frequencies-*.parquet of a run"
        ) from error
    facts = schema.metadata or {}
    if schema.names != COUNT_SCHEMA.names or b"documents" not in facts:
        raise RecordError(
            f"{where}: no table of counts (columns {', '.join(schema.names)}); "
            "name frequencies-*.parquet of the folder artifacts/embed-* of a run"
        )
    wanted = {"buckets": str(settings.buckets), "unicode": unicode_version()}
    for name, value in wanted.items():
        found = facts.get(name.encode(), b"").decode()
        if found != value:
            raise RecordError(
                f"{where}: counted with {name} {found}, this run has {value}; "
                + ("set embed.buckets to it" if name == "buckets" else "count anew")
            )


def _table(counts: Counts) -> pa.Table:
    buckets = np.flatnonzero(counts)
    return pa.table([buckets.astype(np.int32), counts[buckets]], schema=COUNT_SCHEMA)

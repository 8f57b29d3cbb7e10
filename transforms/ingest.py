"""Rows as a format reader found them become documents: normalized, measured, hashed."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.columns import Values
from transforms.exact import text_hashes
from transforms.record import DOCUMENT_SCHEMA
from transforms.text import IngestSettings, normalize

INGEST_SCHEMA = pa.schema(
    [
        *DOCUMENT_SCHEMA,
        # Where the document came from: path as in ``rejects``, line or row from 1.
        pa.field("source_path", pa.string(), nullable=False),
        pa.field("source_line", pa.int64()),
    ]
)
"""Columns of an ingested shard that every source has; the source's typed columns follow them."""

UNDER_MIN_CHARS = "under min_chars"
OVER_MAX_CHARS = "over max_chars"


@dataclass(frozen=True, slots=True)
class Reject:
    """An input record that cannot become a document."""

    line: int | None
    """Line, or row, in the decompressed file, from 1."""
    reason: str
    """One of a small set of short strings."""
    detail: str | None = None
    """What was found, with as much of it as helps."""
    path: str | None = None
    """Relative path of the file, where the part does not say it."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some records of one part that have a text and an id, and the rejects between them."""

    part: int
    """Number of the part, within its file, that the records belong to."""
    text: pa.StringArray
    """Valid UTF-8, no nulls."""
    id: pa.StringArray
    """Never null or empty."""
    lang: pa.StringArray
    line: npt.NDArray[np.int64]
    """Line or row of each record, from 1."""
    columns: dict[str, Values] = field(default_factory=dict)
    """The source's own columns."""
    rejects: list[Reject] = field(default_factory=list)
    path: pa.StringArray | None = None
    """Relative path of each record's file, where a part has several."""
    uid: npt.NDArray[np.int64] | None = None
    """Address of each record, where it is not its place in the part."""

    def __len__(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True)
class Documents:
    """Documents made of some rows."""

    table: pa.Table
    """Columns of INGEST_SCHEMA."""
    columns: dict[str, Values]
    """The source's own columns, of the same length."""
    rejects: list[Reject]
    """Records that are no documents because of what their text is."""


def make_documents(
    rows: Rows,
    uids: npt.NDArray[np.int64],
    *,
    source: str,
    domain: str,
    path: str,
    settings: IngestSettings,
) -> Documents:
    """Normalize, measure and hash the texts of some rows.

    Args:
        rows: what a format reader found.
        uids: address of each row, shape [len(rows)]; rows over ``max_chars`` leave holes.
        source: name of the source.
        domain: mixture domain of the documents.
        path: relative path of the file, for rows that do not say it.
        settings: normalization and limits.
    """
    texts, n_chars = normalize(rows.text, settings)
    rejects: list[Reject] = []
    kept = None
    if settings.max_chars is not None:
        rejects = _over(n_chars, rows, settings.max_chars)
        kept = pa.array(n_chars <= settings.max_chars) if rejects else None
    n = len(texts)
    short = n_chars < settings.min_chars
    reasons = pa.nulls(n, pa.string())
    if short.any():
        reasons = pc.if_else(pa.array(short), UNDER_MIN_CHARS, reasons)
    table = pa.table(
        [
            pa.array(uids, pa.int64()),
            rows.id,
            pa.repeat(source, n),
            pa.repeat(domain, n),
            rows.lang,
            pa.array(n_chars, pa.int64()),
            pc.binary_length(texts).cast(pa.int64()),
            text_hashes(texts),
            reasons,
            texts,
            pa.repeat(path, n) if rows.path is None else rows.path,
            pa.array(rows.line, pa.int64()),
        ],
        schema=INGEST_SCHEMA,
    )
    if kept is None:
        return Documents(table, rows.columns, rejects)
    columns = {name: filter_values(values, kept) for name, values in rows.columns.items()}
    return Documents(table.filter(kept), columns, rejects)


def filter_values(values: Values, mask: pa.BooleanArray) -> Values:
    """Return the values where the mask is true."""
    if isinstance(values, pa.Array):
        return values.filter(mask)
    return [value for value, kept in zip(values, mask.to_pylist(), strict=True) if kept]


def _over(n_chars: npt.NDArray[np.int64], rows: Rows, limit: int) -> list[Reject]:
    """Return a reject for each text of more than ``limit`` characters."""
    return [
        Reject(
            int(rows.line[place]),
            OVER_MAX_CHARS,
            f"{n_chars[place]} characters, at most {limit}",
            None if rows.path is None else rows.path[place].as_py(),
        )
        for place in np.flatnonzero(n_chars > limit).tolist()
    ]

"""Output of one ingest task: a Parquet file per part, and one of rejects."""

import uuid
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.artifacts import FileEntry
from transforms.columns import Values, widen
from transforms.ingest import Documents, Reject
from transforms.record import REJECT_SCHEMA

ROW_GROUP_BYTES = 32 << 20
"""Most text in a row group of more than one document."""
ROW_GROUP_ROWS = 1 << 17

_REJECTS_HELD = 1 << 16
_CODED = ["source", "domain", "lang", "reason", "source_path"]
_MEASURED = ["doc_uid", "id", "source", "domain", "lang", "n_chars", "n_bytes", "reason"]


class ShardWriter:
    """Collects the documents of one part and writes them as one Parquet file.

    They are held until the part is complete, since the types of the source's own columns are known
    only then; memory is the part's text.
    """

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._columns: list[dict[str, Values]] = []

    def add(self, documents: Documents) -> None:
        """Take some documents, in the order of their addresses."""
        if len(documents.table):
            self._tables.append(documents.table)
            self._columns.append(documents.columns)

    def write(self, path: Path) -> FileEntry | None:
        """Write the file atomically; return what it is, or None where there is no document."""
        if not self._tables:
            return None
        rows = sum(map(len, self._tables))
        table = pa.concat_tables(self._tables)
        for name in self._columns[0]:
            chunks = widen([columns[name] for columns in self._columns])
            table = table.append_column(name, pa.chunked_array(chunks))
        self._tables, self._columns = [], []
        temporary = _temporary(path)
        with pq.ParquetWriter(
            temporary,
            table.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=_CODED,
            column_encoding={
                "doc_uid": "DELTA_BINARY_PACKED",
                "source_line": "DELTA_BINARY_PACKED",
            },
            write_statistics=_MEASURED,
        ) as writer:
            for low, high in _row_groups(table["n_bytes"].to_numpy()):
                # One chunk a row group, so that the bytes do not depend on how batches came.
                writer.write_table(table.slice(low, high - low).combine_chunks(), high - low)
        temporary.replace(path)
        return FileEntry.of(path, rows=rows)


class RejectWriter:
    """Writes rejects as they come; without any there is no file."""

    def __init__(self, path: Path, source: str) -> None:
        self._path = path
        self._source = source
        self._temporary = _temporary(path)
        self._writer: pq.ParquetWriter | None = None
        self._held: list[tuple[str, Reject]] = []
        self.count = 0
        """Rejects so far."""

    def __enter__(self) -> "RejectWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove what is not finished."""
        if self._writer is not None:
            self._writer.close()
            self._temporary.unlink(missing_ok=True)

    def add(self, rejects: Iterable[Reject], path: str) -> None:
        """Take rejects; ``path`` is the file of those that do not name one."""
        before = len(self._held)
        self._held += [(reject.path or path, reject) for reject in rejects]
        self.count += len(self._held) - before
        while len(self._held) >= _REJECTS_HELD:
            self._flush(_REJECTS_HELD)

    def finish(self) -> FileEntry | None:
        """Complete the file; return what it is, or None where there is no reject."""
        if self._held:
            self._flush(len(self._held))
        if self._writer is None:
            return None
        self._writer.close()
        self._writer = None
        self._temporary.replace(self._path)
        return FileEntry.of(self._path, rows=self.count, kind="rejects")

    def _flush(self, count: int) -> None:
        some, self._held = self._held[:count], self._held[count:]
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._temporary, REJECT_SCHEMA, compression="zstd", compression_level=1
            )
        columns = [
            [self._source] * count,
            [path for path, _ in some],
            [reject.line for _, reject in some],
            [reject.reason for _, reject in some],
            [reject.detail for _, reject in some],
        ]
        arrays = [
            pa.array(values, column.type)
            for values, column in zip(columns, REJECT_SCHEMA, strict=True)
        ]
        self._writer.write_table(pa.table(arrays, schema=REJECT_SCHEMA), count)


def _row_groups(n_bytes: np.ndarray) -> Iterable[tuple[int, int]]:
    """Yield the row groups as ranges of rows: as long as bytes and rows allow, at least one row."""
    ends = np.cumsum(n_bytes, dtype=np.int64)
    low = 0
    while low < len(ends):
        before = int(ends[low - 1]) if low else 0
        high = int(np.searchsorted(ends, before + ROW_GROUP_BYTES, side="right"))
        high = max(low + 1, min(high, low + ROW_GROUP_ROWS))
        yield low, high
        low = high


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")

"""The curated text itself: the documents that a run kept, as JSON lines, Parquet or a dataset folder.

Documents are written in the order of their addresses, so the bytes depend on the run and the
condition alone. Memory is a few ingest files (``part_size_mib`` each) per core, of four at most, and
12 bytes per kept document.
"""

import os
import shutil
import uuid
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from catalog.json_rows import to_json_values
from catalog.store import query
from pipelines.artifacts import Manifest
from pipelines.corpus import DOCUMENT_STAGES
from pipelines.locate import UsageError, run_record
from pipelines.sources import RESERVED_COLUMNS
from pipelines.steps.removed import shards_of
from pipelines.text_spans import read_spans, span_files
from transforms.ids import OVERLAY_SCHEMA, apply_ids
from transforms.json_lines import json_lines
from transforms.record import ROW_BITS, RecordError
from transforms.tokenize.text_spans import apply_spans

DocumentFormat = Literal["jsonl.zst", "parquet", "hf"]

PART_TEXT_BYTES = 256 * 1024**2
"""Text of one file of a folder, at least, unless it is the last."""

_LEADING = ("source", "id", "text", "domain", "lang")
_SUFFIXES = {"jsonl.zst": ".zst", "parquet": ".parquet"}
_ZSTD_LEVEL = 1
_MOST_THREADS = 4


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    documents: int
    files: tuple[Path, ...]
    bytes: int


def export_documents(
    workdir: Path, run_id: str, form: DocumentFormat, out: Path, where: str | None = None
) -> Exported:
    """Write the documents that a run kept.

    A row has ``source, id, text, domain, lang``, the source's columns, and ``copies``, the number
    of times the document is taken. The text is the ingested one with the spans of the run's stages
    applied, as tokenizing does (:func:`transforms.tokenize.text_spans.apply_spans`).

    Args:
        workdir: the work directory of the run.
        run_id: the run.
        form: ``jsonl.zst``, ``parquet``, or ``hf``: a folder that ``datasets.load_dataset`` opens.
        out: a folder that is made, or a single file where the name ends in ``.zst`` or
            ``.parquet`` like the format.
        where: SQL condition over the columns of ``documents`` and ``selection``.

    Returns:
        Documents, files and bytes written.

    Raises:
        UsageError: there is no such run, or ``out`` is a folder that holds something.
        RecordError: sources have columns of one name that do not go together.
        CatalogError: the condition cannot be evaluated.
    """
    one_file = out.suffix == _SUFFIXES.get(form)
    if not one_file and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out}: exists and is no empty folder; remove it or name another")
    kept = _Kept(workdir, run_id, where, _overlay(workdir, run_id))
    spans = span_files(workdir, run_record(run_id, workdir)["stages"])
    paths = _document_files(workdir, run_id)
    schema = _schema(paths)
    temporary = out.with_name(f".{out.name}.{uuid.uuid4().hex[:8]}.tmp")
    temporary.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.mkdir()
        writer = _Writer(temporary, form, schema, rolling=not one_file)
        for piece in _pieces(paths, kept, spans, form):
            writer.write(piece)
        names = writer.finish()
        if one_file:
            (temporary / names[0]).replace(out)
            written = [out]
        else:
            if out.exists():
                out.rmdir()
            temporary.replace(out)
            written = [out / name for name in names]
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return Exported(writer.documents, tuple(written), sum(p.stat().st_size for p in written))


def _document_files(workdir: Path, run_id: str) -> list[Path]:
    """Return the files of the documents that a run read or made."""
    found = []
    stages = [s for s in run_record(run_id, workdir)["stages"] if s["stage"] in DOCUMENT_STAGES]
    if not stages:
        raise UsageError(f"run {run_id} ingested nothing; choose another")
    for stage in stages:
        folder = workdir / str(stage["path"])
        if not (folder / "manifest.json").exists():
            raise UsageError(f"{folder}: removed since run {run_id}; run its recipe again")
        manifest = Manifest.load(folder / "manifest.json")
        found += [folder / entry.name for entry in manifest.entries()]
    return found


def _overlay(workdir: Path, run_id: str) -> pa.Table:
    """Return the new ids of documents that repeat one, sorted by address."""
    tables = [OVERLAY_SCHEMA.empty_table()]
    for stage in run_record(run_id, workdir)["stages"]:
        if stage["stage"] == "ingest":
            folder = workdir / str(stage["path"])
            entries = Manifest.load(folder / "manifest.json").entries("ids")
            tables += [pq.read_table(folder / e.name, use_threads=False) for e in entries]
    return pa.concat_tables(tables).sort_by("doc_uid")


class _Kept:
    """The addresses of the documents to export, ascending, how often each is taken, and new ids."""

    def __init__(self, workdir: Path, run_id: str, where: str | None, ids: pa.Table) -> None:
        self.ids = ids
        condition = f"AND (\n{where}\n)" if where else ""
        table = query(
            workdir,
            "SELECT doc_uid, copies FROM selection JOIN documents USING (doc_uid) "
            f"WHERE kept {condition} ORDER BY doc_uid",
            run=run_id,
        )
        self.uids: npt.NDArray[np.int64] = table["doc_uid"].to_numpy()
        self.copies: npt.NDArray[np.int32] = table["copies"].to_numpy()

    def of_shards(
        self, shards: Sequence[int]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return the addresses and copies of the documents of some shards, in their order."""
        numbers = np.array(shards, np.int64)
        bounds = np.searchsorted(self.uids, np.stack([numbers, numbers + 1], axis=1) << ROW_BITS)
        place = np.concatenate([np.arange(first, last) for first, last in bounds.tolist()])
        return self.uids[place], self.copies[place]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some documents on their way into a file."""

    documents: int
    text_bytes: int
    content: Any
    """A table, or JSON lines as bytes."""


def _pieces(
    paths: Sequence[Path], kept: _Kept, spans: Sequence[Path], form: DocumentFormat
) -> Iterator[_Piece]:
    """Yield the documents to export in the order of their files, which several threads read."""
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    waiting: deque[Future[list[_Piece]]] = deque()
    # A context that is left early waits for the threads; what they have not begun is dropped.
    with ThreadPoolExecutor(threads) as pool:
        try:
            for path in paths:
                waiting.append(pool.submit(_read_pieces, path, kept, spans, form))
                if len(waiting) > threads:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def _read_pieces(
    path: Path, kept: _Kept, spans: Sequence[Path], form: DocumentFormat
) -> list[_Piece]:
    pieces = []
    for table in _documents(path, kept, spans):
        content = json_lines(table, to_json_values) if form == "jsonl.zst" else table
        pieces.append(_Piece(len(table), table["text"].nbytes, content))
    return pieces


def _documents(path: Path, kept: _Kept, spans: Sequence[Path]) -> Iterator[pa.Table]:
    """Yield the documents of one ingest file that are kept, a row group at a time."""
    # Small source files, a shard each, share an ingest file.
    shards = shards_of(path)
    uids, copies = kept.of_shards(shards)
    if not len(uids):
        return
    found_spans = read_spans(spans, shards)
    with pq.ParquetFile(path) as file:
        columns = _columns(file.schema_arrow)
        for group in range(file.num_row_groups):
            found = file.read_row_group(group, columns=["doc_uid"], use_threads=False)
            found = found["doc_uid"].to_numpy()
            place = np.minimum(np.searchsorted(uids, found), len(uids) - 1)
            wanted = uids[place] == found
            if wanted.any():
                table = file.read_row_group(group, columns=columns, use_threads=False)
                table = table.select(columns).filter(pa.array(wanted))
                table = table.append_column("doc_uid", pa.array(found[wanted]))
                table = apply_ids(table, kept.ids).select(columns)
                text = apply_spans(table["text"].combine_chunks(), found[wanted], found_spans).text
                table = table.set_column(columns.index("text"), "text", text)
                taken = pa.array(copies[place[wanted]], pa.int32())
                yield table.append_column("copies", taken)


def _columns(schema: pa.Schema) -> list[str]:
    """Return the columns of an ingest file that are exported, in their order."""
    own = [name for name in schema.names if name not in RESERVED_COLUMNS]
    if "copies" in own:
        raise RecordError(
            "a source has a column named copies, which the export has itself; give it another name "
            "in sources.columns and run again"
        )
    return [*_LEADING, *own]


def _schema(paths: list[Path]) -> pa.Schema:
    """Return the columns of all sources together.

    Raises:
        RecordError: two sources have a column of one name and of types that do not go together.
    """
    found: list[pa.Schema] = []
    for path in paths:
        schema = pq.read_schema(path)
        schema = pa.schema([schema.field(name) for name in _columns(schema)])
        if schema not in found:
            found.append(schema)
    try:
        whole = pa.unify_schemas(found, promote_options="permissive") if found else pa.schema([])
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise RecordError(
            f"columns of the sources do not go together: {error}; rename one in sources.columns, "
            "or export the sources one by one: --where \"source = '...'\""
        ) from error
    return pa.schema([f.with_nullable(True) for f in whole]).append(pa.field("copies", pa.int32()))


class _Writer:
    """Writes documents to files of bounded size."""

    def __init__(
        self, folder: Path, form: DocumentFormat, schema: pa.Schema, rolling: bool
    ) -> None:
        self._folder, self._form, self._schema, self._rolling = folder, form, schema, rolling
        self._parts: list[Path] = []
        self._stream: Any = None
        self._text_bytes = 0
        self.documents = 0

    def write(self, piece: _Piece) -> None:
        """Add documents to the current file, and begin another when it is full."""
        stream = self._stream or self._open()
        if self._form == "jsonl.zst":
            stream.write(piece.content)
        else:
            stream.write_table(_fit(piece.content, self._schema))
        self.documents += piece.documents
        self._text_bytes += piece.text_bytes
        if self._rolling and self._text_bytes >= PART_TEXT_BYTES:
            self._close()

    def finish(self) -> list[str]:
        """Close the last file; return the names of all, relative to the folder."""
        if not self._parts:
            self._open()
        self._close()
        if self._form == "hf":
            (self._folder / "data").mkdir()
            total = len(self._parts)
            for number, path in enumerate(self._parts):
                name = f"train-{number:05d}-of-{total:05d}.parquet"
                self._parts[number] = path.rename(self._folder / "data" / name)
        return [str(path.relative_to(self._folder)) for path in self._parts]

    def _open(self) -> Any:
        suffix = "jsonl.zst" if self._form == "jsonl.zst" else "parquet"
        path = self._folder / f"documents-{len(self._parts):05d}.{suffix}"
        self._parts.append(path)
        if suffix == "parquet":
            self._stream = pq.ParquetWriter(path, self._schema, compression="zstd")
        else:
            compressor = zstandard.ZstdCompressor(level=_ZSTD_LEVEL)
            self._stream = compressor.stream_writer(path.open("wb"), closefd=True)
        self._text_bytes = 0
        return self._stream

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _fit(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the documents with all columns of the schema; a source without one has null."""
    arrays = [
        table[f.name].cast(f.type) if f.name in table.column_names else pa.nulls(len(table), f.type)
        for f in schema
    ]
    return pa.table(arrays, schema=schema)

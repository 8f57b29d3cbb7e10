"""The character spans that the stages of a run have found in documents."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.artifacts import Manifest
from pipelines.corpus import Corpus
from transforms.record import ROW_BITS
from transforms.tokenize.text_spans import TEXT_SPAN_SCHEMA

SPAN_STAGES: tuple[str, ...] = ("decontaminate", "dedupe.sentence")
"""Stages whose artifacts hold files of kind ``spans`` (columns of TEXT_SPAN_SCHEMA)."""


def span_artifacts(corpus: Corpus) -> list[Path]:
    """Return the files of spans that the stages of a corpus have written."""
    return [
        corpus.folder(stage) / entry.name
        for stage in SPAN_STAGES
        if corpus.has(stage)
        for entry in corpus.manifest(stage).entries("spans")
    ]


def span_files(workdir: Path, stages: Iterable[Mapping[str, Any]]) -> list[Path]:
    """Return the files of spans of a run.

    Args:
        workdir: the work directory.
        stages: the run's stages, as its ``run.json`` has them.
    """
    folders = [workdir / str(s["path"]) for s in stages if s["stage"] in SPAN_STAGES]
    return [
        folder / entry.name
        for folder in folders
        for entry in Manifest.load(folder / "manifest.json").entries("spans")
    ]


def read_spans(files: Sequence[Path], shards: Iterable[int]) -> pa.Table | None:
    """Return the spans of the documents of some shards; None where there are none.

    Args:
        files: files of spans.
        shards: numbers of the shards.
    """
    if not files:
        return None
    inside = [
        [("doc_uid", ">=", shard << ROW_BITS), ("doc_uid", "<", (shard + 1) << ROW_BITS)]
        for shard in shards
    ]
    tables = [
        pq.read_table(file, columns=TEXT_SPAN_SCHEMA.names, filters=inside, use_threads=False)
        for file in files
    ]
    found = pa.concat_tables([table.cast(TEXT_SPAN_SCHEMA) for table in tables])
    return found if len(found) else None


def spans_digest(files: Sequence[Path], shards: Iterable[int]) -> str:
    """Return a hash of the spans of the documents of some shards."""
    spans = read_spans(files, shards)
    if spans is None:
        return ""
    order = [(name, "ascending") for name in TEXT_SPAN_SCHEMA.names]
    rows = spans.sort_by(order).to_pylist()
    return hashlib.sha256(repr([tuple(row.values()) for row in rows]).encode()).hexdigest()

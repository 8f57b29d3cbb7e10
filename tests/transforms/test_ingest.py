"""Rows to documents: what is measured, dropped and rejected."""

import hashlib

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from transforms.ingest import INGEST_SCHEMA, Rows, make_documents
from transforms.record import (
    ROW_BITS,
    SHARD_BITS,
    doc_uids,
    file_uid,
    shard_number,
)
from transforms.text import IngestSettings, normalize_text


def rows_of(texts, path=None):
    n = len(texts)
    return Rows(
        part=0,
        text=pa.array(texts, pa.string()),
        id=pa.array([f"d{number}" for number in range(n)], pa.string()),
        lang=pa.nulls(n, pa.string()),
        line=np.arange(1, n + 1),
        columns={"score": pa.array(range(n), pa.int64()), "mixed": [*range(n)]},
        path=None if path is None else pa.array([path] * n, pa.string()),
    )


@given(
    st.lists(st.text("ab\r\x00é\u0301中", max_size=8), max_size=8),
    st.integers(0, 3),
    st.one_of(st.none(), st.integers(3, 6)),
)
def test_documents_are_measured_after_normalization(texts, min_chars, max_chars):
    """Lengths, hash and limits see the normalized text; addresses keep the holes of rejects."""
    settings = IngestSettings(min_chars=min_chars, max_chars=max_chars)
    uids = doc_uids(7, len(texts))
    made = make_documents(rows_of(texts), uids, source="s", domain="d", path="p", settings=settings)
    normal = [normalize_text(text, settings) for text in texts]
    over = [max_chars is not None and len(text) > max_chars for text in normal]
    kept = [number for number in range(len(texts)) if not over[number]]
    assert made.table.schema.equals(INGEST_SCHEMA)
    assert made.table["text"].to_pylist() == [normal[n] for n in kept]
    assert made.table["doc_uid"].to_pylist() == [(7 << ROW_BITS) + n for n in kept]
    assert made.table["n_chars"].to_pylist() == [len(normal[n]) for n in kept]
    assert made.table["n_bytes"].to_pylist() == [len(normal[n].encode()) for n in kept]
    assert made.table["exact_hash"].to_pylist() == [
        hashlib.blake2b(normal[n].encode(), digest_size=16).digest() for n in kept
    ]
    short = ["under min_chars" if len(normal[n]) < min_chars else None for n in kept]
    assert made.table["reason"].to_pylist() == short
    assert [reject.line for reject in made.rejects] == [n + 1 for n, o in enumerate(over) if o]
    assert {reject.reason for reject in made.rejects} <= {"over max_chars"}
    assert [len(values) for values in made.columns.values()] == [len(kept)] * 2
    assert made.columns["score"].to_pylist() == list(made.columns["mixed"]) == kept


def test_rejects_name_their_own_file():
    """Where rows have paths of their own, a reject has the path of its row."""
    settings = IngestSettings(max_chars=1)
    made = make_documents(
        rows_of(["a", "bb"], "x.txt"),
        np.array([1, 2]),
        source="s",
        domain="d",
        path="unused",
        settings=settings,
    )
    assert made.table["source_path"].to_pylist() == ["x.txt"]
    assert [(reject.path, reject.line) for reject in made.rejects] == [("x.txt", 2)]


@given(st.text(st.characters(codec="utf-8"), max_size=9), st.text("ab/.", max_size=9))
def test_address_of_a_file_extends_its_shard(source, path):
    """A whole-file document's address begins with its shard number and is a positive int64."""
    uid = file_uid(source, path)
    assert uid >> ROW_BITS == shard_number(source, path, 0)
    assert 0 <= uid < 1 << (SHARD_BITS + ROW_BITS)

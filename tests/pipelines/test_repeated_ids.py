"""Repeated ids through a whole run: the summary and the catalog agree, in both modes."""

import json

import pyarrow.parquet as pq
import pytest
from small_runs import recipe_of, write_corpus

from catalog.store import open_catalog
from pipelines.export_documents import export_documents
from pipelines.run import run


@pytest.mark.parametrize("mode", ["suffix", "unique"])
def test_accounts_close_with_repeated_ids(tmp_path, mode):
    """Repeats, some of them too short to keep, are renamed or rejected, and counted once."""
    corpus = write_corpus(tmp_path / "in", n_docs=60)
    texts = ["long enough to be kept, once", "short", "long enough to be kept, twice", "tiny"]
    lines = [json.dumps({"id": "d1", "text": text}) for text in texts]
    (corpus / "repeats.jsonl").write_text("\n".join([*lines, "{broken"]))
    done = run(recipe_of(corpus, tmp_path / "w", ingest={"ids": mode, "min_chars": 8}))
    assert done.lines == 65
    assert done.rejected == (5 if mode == "unique" else 1)
    assert done.lines == done.ingested + done.rejected
    assert done.ingested == done.kept + sum(done.dropped.values())
    assert done.dropped.get("under min_chars", 0) == (0 if mode == "unique" else 2)
    rows = {}
    for name, sql in {
        "documents": "select count(*), count(distinct id), count(*) filter (kept) "
        "from documents join selection using (doc_uid)",
        "rejects": "select count(*) filter (reason = 'repeated id'), count(*) from rejects",
    }.items():
        with open_catalog(tmp_path / "w") as connection:
            [rows[name]] = connection.sql(sql).fetchall()
    assert rows["documents"] == (done.ingested, done.ingested, done.kept)
    assert rows["rejects"] == (done.rejected - 1, done.rejected)


def test_exported_documents_bear_their_new_ids(tmp_path):
    """The curated text has the ids of the catalog, each once."""
    corpus = write_corpus(tmp_path / "in", n_docs=20)
    lines = [json.dumps({"id": "d1", "text": f"a text of its own, {n}"}) for n in range(5)]
    (corpus / "repeats.jsonl").write_text("\n".join(lines))
    done = run(recipe_of(corpus, tmp_path / "w"))

    export_documents(tmp_path / "w", done.run_id, "parquet", tmp_path / "kept.parquet")

    exported = pq.read_table(tmp_path / "kept.parquet")["id"].to_pylist()
    with open_catalog(tmp_path / "w") as connection:
        sql = "select id from documents join selection using (doc_uid) where kept"
        expected = [row[0] for row in connection.sql(sql).fetchall()]
    assert sorted(exported) == sorted(expected)
    assert len(set(exported)) == len(exported)
    assert {"d1#2", "d1#3"} <= set(exported)

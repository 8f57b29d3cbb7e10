"""The views show what the artifacts hold, against an oracle in plain Python."""

import datetime
import itertools
import json
import subprocess
import sys

import duckdb
import pyarrow as pa
import pytest

from catalog.ingest import STORAGE_VERSION, rebuild
from catalog.parquet import SHARD_FILES
from catalog.selection import DECISIONS, Decision, selection_sql
from catalog.store import CatalogError, query, to_json_rows
from catalog.views import VIEWS
from catalog.workdir import read_artifacts

CONTRACT = {
    "runs": "run_id name started finished status fingerprint",
    "stages": "run_id stage fingerprint cached rows_in rows_out bytes cpu_s wall_s",
    "artifacts": "fingerprint stage bytes created parents",
    "documents": "doc_uid id source domain lang n_chars n_bytes exact_hash",
    "signals": "doc_uid",
    "duplicates": "doc_uid cluster keeper_uid keeper_ingest kind jaccard cluster_size",
    "spans": "doc_uid start end kind detail",
    "selection": "doc_uid kept reason copies weight",
    "rejects": "source path line reason detail",
    "conversations": "record_id doc_uid world pattern labels verdict",
    "packed_rows": "row_id n_tokens n_docs bucket",
    "row_quality": "fitted_row cluster similarity pieces n_tokens",
    "plan": "row_id step slot rank cp cost",
    "placements": "row_id doc_uid copy token_start token_end row_offset",
    "zones": "step slot row_id piece length zone ranks chunk_offsets",
    "transfers": "step slot source target tokens",
    "training": "run_id out step event row_id detail",
}


def rows(workdir, sql, run=None):
    return to_json_rows(query(workdir, sql, run))


def truth_of_selection(world):
    return {
        d.uid: (d.fate == "kept", None if d.fate == "kept" else d.fate, int(d.fate == "kept"))
        for d in world.ingested
    }


def shown_selection(workdir, run=None):
    found = rows(workdir, "SELECT * FROM selection", run)
    shown = {r["doc_uid"]: (r["kept"], r["reason"], r["copies"]) for r in found}
    assert len(found) == len(shown)
    assert all(r["weight"] == r["copies"] for r in found)
    return shown


def test_documents_are_all_ingested_ones_with_their_sources_columns(standing):
    """One row per ingested document, dropped ones too, with new ids, typed extra columns, no text."""
    found = rows(standing.path, "SELECT * FROM documents")
    truth = {
        d.uid: (d.new_id, d.source, f"domain-{d.source}", len(d.text), d.extra["edu"])
        for d in standing.world.ingested
    }
    names = ("id", "source", "domain", "n_chars", "edu")
    assert {r["doc_uid"]: tuple(r[n] for n in names) for r in found} == truth
    assert {r["doc_uid"]: r["exact_hash"] for r in found} == {
        d.uid: d.exact_hash.hex() for d in standing.world.ingested
    }
    assert not {"text", "reason"} & set(found[0])
    kinds = dict(duckdb_types(standing.path, "documents"))
    assert kinds["edu"] == "BIGINT"
    assert kinds["exact_hash"] == "BLOB"


def duckdb_types(workdir, view):
    found = rows(workdir, f"DESCRIBE {view}")
    return [(r["column_name"], r["column_type"]) for r in found]


@pytest.mark.parametrize(
    "until", ["ingest", "dedupe.exact", "tokenizer", "encode", "pack", "balance"]
)
def test_selection_follows_the_run_as_far_as_it_went(workdir, make_world, until):
    """A run stopped early counts what survived so far as kept; a later stage's reason is not known."""
    names = ["ingest", "dedupe.exact", "tokenizer", "encode", "pack", "balance"]
    decided_by = {"under min_chars": 0, "dedupe.exact": 1, "empty": 3, "too long": 4}
    world = make_world(seed=3)
    workdir.run("r", workdir.world(world, until=until))
    rebuild(workdir.path)
    for doc in world.docs:
        if decided_by.get(doc.fate, 0) > names.index(until):
            doc.fate = "kept"
    assert shown_selection(workdir.path) == truth_of_selection(world)


@pytest.mark.parametrize("seed", range(4))
def test_selection_has_one_row_per_document_with_the_first_reason(workdir, make_world, seed):
    """Selection agrees with the fates that the world was made with, and names the stage."""
    world = make_world(seed=seed)
    workdir.run("r", workdir.world(world))
    rebuild(workdir.path)
    assert shown_selection(workdir.path) == truth_of_selection(world)
    stage = {"under min_chars": "ingest", "empty": "encode", "too long": "pack", "kept": None}
    shown = rows(workdir.path, "SELECT doc_uid, dropped_by FROM selection")
    assert {r["doc_uid"]: r["dropped_by"] for r in shown} == {
        d.uid: stage.get(d.fate, d.fate) for d in world.docs
    }


def test_the_first_stage_that_drops_a_document_gives_the_reason(workdir, make_world):
    """A document that several stages name keeps the earliest reason, and appears once."""
    world = make_world()
    stages = workdir.world(world, until="ingest")
    uids = pa.array([d.uid for d in world.docs if d.fate != "under min_chars"], pa.int64())
    table = {"doc_uid": uids, "reason": ["too long"] * len(uids)}
    stages["pack"] = workdir.artifact("pack", {"drops-0.parquet": pa.table(table)})
    lost = pa.table({"doc_uid": uids[:5], "kind": ["exact"] * 5})
    stages["dedupe.exact"] = workdir.artifact("dedupe.exact", {"duplicates-0.parquet": lost})
    workdir.run("r", stages)
    rebuild(workdir.path)
    shown = shown_selection(workdir.path)
    first = set(uids[:5].to_pylist())
    assert {u for u, row in shown.items() if row[1] == "dedupe.exact"} == first
    assert {u for u, row in shown.items() if row[1] == "too long"} == set(uids.to_pylist()) - first


def test_a_stage_that_sets_copies_plugs_in_by_one_entry(workdir, make_world):
    """Copies and weights of a mixture come from its files; zero copies drop with its reason."""
    world = make_world()
    stages = workdir.world(world, until="dedupe.exact")
    kept = [d.uid for d in world.docs if d.fate not in ("under min_chars", "dedupe.exact")]
    copies = [number % 3 for number in range(len(kept))]
    table = {"doc_uid": kept, "copies": pa.array(copies, pa.int16()), "weight": [0.5] * len(kept)}
    stages["mixture"] = workdir.artifact("mixture", {"copies-0.parquet": pa.table(table)})
    reason = "CASE WHEN copies = 0 THEN 'mixture' END"
    mixture = Decision("mixture", r"copies-.*", reason, copies="copies", weight="weight")
    by_print = read_artifacts(workdir.path)
    artifacts = {stage: by_print[mark] for stage, mark in stages.items()}
    sql = selection_sql(artifacts, (*DECISIONS, mixture))
    shown = {r[0]: r[1:] for r in duckdb.sql(sql).fetchall()}
    assert len(shown) == len(world.docs)
    for uid, n in zip(kept, copies, strict=True):
        reason = None if n else "mixture"
        weight = 0.5 if n else 0.0
        assert shown[uid] == (n > 0, reason, n, weight, reason)
    lost = next(d for d in world.docs if d.fate == "dedupe.exact")
    assert shown[lost.uid] == (False, "dedupe.exact", 0, 0.0, "dedupe.exact")


def test_duplicates_rejects_tokens_and_texts_are_the_artifacts_rows(standing):
    """Views over one stage's files show all of their rows, empty files included."""
    world = standing.world
    lost = {d.uid: (d.keeper.uid, "exact", 1.0) for d in world.docs if d.keeper}
    found = rows(standing.path, "SELECT * FROM duplicates")
    assert {r["doc_uid"]: (r["keeper_uid"], r["kind"], r["jaccard"]) for r in found} == lost
    found = rows(standing.path, "SELECT source, path, line, reason, detail FROM rejects")
    assert sorted(tuple(r.values()) for r in found) == sorted(world.rejects)
    found = rows(standing.path, "SELECT * FROM tokens")
    assert {r["doc_uid"]: r["n_tokens"] for r in found} == {
        d.uid: d.n_tokens for d in world.docs if d.fate in ("kept", "empty", "too long")
    }
    found = rows(standing.path, "SELECT * FROM texts")
    assert {r["doc_uid"]: r["text"] for r in found} == {d.uid: d.text for d in world.ingested}


def test_document_text_answers_alone_for_many_and_in_a_join(standing):
    """document_text is a table function, lateral too, and a scalar one; unknown gives nothing."""
    doc = standing.world.ingested[3]
    one = rows(standing.path, f"SELECT doc_uid, text FROM document_text({doc.uid})")
    assert one == [{"doc_uid": doc.uid, "text": doc.text}]
    assert rows(standing.path, "SELECT * FROM document_text(1)") == []
    truth = {d.uid: d.text for d in standing.world.ingested if d.source == "books"}
    for sql in (
        "SELECT doc_uid, document_text(doc_uid) AS text FROM documents WHERE source = 'books'",
        "SELECT t.* FROM documents d, document_text(d.doc_uid) t WHERE source = 'books'",
        "SELECT doc_uid, text FROM documents JOIN texts USING (doc_uid) WHERE source = 'books'",
    ):
        assert {r["doc_uid"]: r["text"] for r in rows(standing.path, sql)} == truth


@pytest.mark.parametrize("flat", [False, True])
def test_placements_and_rows_agree_with_the_packing(workdir, make_world, world_writer, flat):
    """Pieces come out of the rows' lists, or of placements.parquet where the dataset has it."""
    world = make_world(seed=5)
    stages = workdir.world(world)
    if flat:
        tables = world_writer["balance"](world)
        names = CONTRACT["placements"].split()
        pieces = [dict(zip(names, piece, strict=True)) for piece in sorted(world.placements())]
        tables["placements.parquet"] = pa.Table.from_pylist(pieces)
        stages["balance"] = workdir.artifact("balance", tables, mark="flat")
    workdir.run("r", stages)
    rebuild(workdir.path)
    found = rows(
        workdir.path, f"SELECT {', '.join(CONTRACT['placements'].split())} FROM placements"
    )
    assert {tuple(r.values()) for r in found} == world.placements()
    assert len(found) == len(world.placements())
    found = rows(workdir.path, "SELECT * FROM packed_rows ORDER BY row_id")
    assert [(r["row_id"], r["n_tokens"], r["n_docs"], r["bucket"]) for r in found] == [
        (
            number,
            sum(end - start for _, start, end in row),
            len(row),
            max(end - start for _, start, end in row).bit_length() - 1,
        )
        for number, row in enumerate(world.rows)
    ]
    found = rows(workdir.path, "SELECT * FROM plan ORDER BY row_id")
    assert [(r["step"], r["slot"], r["rank"], r["cp"]) for r in found] == [
        (number // 2, 0, number % 2, 1) for number in range(len(world.rows))
    ]


def test_runs_stages_and_artifacts_are_what_the_records_say(mini):
    """Times are UTC, parents a map, sizes the sum of the files; a failed run is listed too."""
    mini.workdir.run("20260302-bad", {}, day=2, status="failed")
    rebuild(mini.path)
    runs = rows(mini.path, "SELECT * FROM runs ORDER BY started")
    assert [(r["run_id"], r["status"], r["available"]) for r in runs] == [
        (mini.run_id, "ok", True),
        ("20260302-bad", "failed", False),
    ]
    assert runs[0]["started"] == "2026-03-01T10:00:00"
    assert runs[0]["finished"] == "2026-03-01T10:00:30.500000"
    fates = [d.fate for d in mini.world.ingested]
    assert json.loads(runs[0]["dropped"]) == {f: fates.count(f) for f in set(fates) - {"kept"}}
    assert json.loads(runs[0]["recipe"])["pack"]["seq_len"] == 16
    stages = rows(mini.path, "SELECT stage, fingerprint, path FROM stages ORDER BY position")
    assert {s["stage"]: s["fingerprint"] for s in stages} == mini.stages
    assert [s["stage"] for s in stages] == list(mini.stages)
    artifacts = {r["stage"]: r for r in rows(mini.path, "SELECT * FROM artifacts")}
    assert json.loads(artifacts["dedupe.exact"]["parents"]) == {"ingest": mini.stages["ingest"]}
    for stage, artifact in artifacts.items():
        folder = mini.workdir.folder(stage, mini.stages[stage])
        assert artifact["path"] == str(folder)
        data = [p for p in folder.iterdir() if p.name != "manifest.json"]
        assert artifact["bytes"] == sum(p.stat().st_size for p in data)
        when = datetime.datetime.fromisoformat(artifact["created"]).replace(tzinfo=datetime.UTC)
        written = (folder / "manifest.json").stat().st_mtime
        assert when.timestamp() == pytest.approx(written, abs=1e-3)


def test_every_view_has_its_columns_whatever_ran(workdir, make_world):
    """The columns of the contract are there, with the same types, for a whole run and for none."""
    (workdir.path / "runs").mkdir()
    rebuild(workdir.path)
    empty = {view: duckdb_types(workdir.path, view) for view in CONTRACT}
    for view, names in CONTRACT.items():
        assert [n for n in names.split() if n not in dict(empty[view])] == []
        assert rows(workdir.path, f"SELECT count(*) AS n FROM {view}") == [{"n": 0}]
    assert rows(workdir.path, "SELECT * FROM document_text(1)") == []
    workdir.run("r", workdir.world(make_world()))
    rebuild(workdir.path)
    for view in CONTRACT:
        full = dict(duckdb_types(workdir.path, view))
        assert {name: full[name] for name, _ in empty[view]} == dict(empty[view])


def test_artifacts_without_files_or_rows_break_nothing(workdir, world_writer, make_world):
    """Stages that ran on nothing give views without rows."""
    world = make_world()
    world.docs, world.rows, world.rejects = [], [], []
    stages = workdir.world(world)
    workdir.run("no-files", stages, day=1)
    one = make_world()
    tables = {n: t.schema.empty_table() for n, t in world_writer["ingest"](one).items()}
    workdir.run("no-rows", {"ingest": workdir.artifact("ingest", tables, mark="0")}, day=2)
    rebuild(workdir.path)
    for view, run in itertools.product(VIEWS, ("no-files", "no-rows")):
        assert rows(workdir.path, f"SELECT count(*) AS n FROM {view.name}", run) == [{"n": 0}]


def test_each_run_has_its_schema_and_main_shows_the_newest_good_one(workdir, make_world):
    """--run selects a run's views, in a plain client the schema run_<id> does."""
    worlds = {"b-old": make_world(seed=1), "a new'er": make_world(seed=2)}
    for day, (run, world) in enumerate(worlds.items(), 1):
        workdir.run(run, workdir.world(world, mark=run), day=day)
    workdir.run("failed", {}, day=9, status="failed")
    path = rebuild(workdir.path)
    assert shown_selection(workdir.path) == truth_of_selection(worlds["a new'er"])
    with duckdb.connect(str(path), read_only=True) as plain:
        for run, world in worlds.items():
            assert shown_selection(workdir.path, run) == truth_of_selection(world)
            assert len(rows(workdir.path, "SELECT * FROM runs", run)) == 3
            kept = plain.execute(
                f'SELECT count(*) FROM "run_{run}".selection WHERE kept'
            ).fetchone()
            assert kept == (sum(d.fate == "kept" for d in world.docs),)
    with pytest.raises(CatalogError, match="run failed failed and has no views"):
        query(workdir.path, "SELECT 1", "failed")
    with pytest.raises(CatalogError, match="no run 'b-odl'; did you mean b-old"):
        query(workdir.path, "SELECT 1", "b-odl")


def test_a_run_whose_files_are_gone_is_listed_without_views(mini, make_world):
    """The newest run that is complete takes its place, and asking for the other one says why."""
    stages = mini.workdir.world(make_world(seed=8), mark="second")
    mini.workdir.run("second", stages, day=5)
    next(mini.workdir.folder("encode", stages["encode"]).glob("*.parquet")).unlink()
    rebuild(mini.path)
    assert shown_selection(mini.path) == truth_of_selection(mini.world)
    with pytest.raises(CatalogError, match="artifacts of run second were removed"):
        query(mini.path, "SELECT 1", "second")


def test_uncommitted_artifacts_and_runs_do_not_exist(mini):
    """Folders without a manifest or a run record are not in the catalog."""
    (mini.path / "artifacts" / "encode-000000000000").mkdir()
    (mini.path / "runs" / "killed").mkdir()
    rebuild(mini.path)
    assert rows(mini.path, "SELECT count(*) AS n FROM artifacts") == [{"n": len(mini.stages)}]
    assert rows(mini.path, "SELECT count(*) AS n FROM runs") == [{"n": 1}]


def test_columns_of_differing_types_and_no_type_come_together(workdir):
    """Sources may differ in their columns: a file of nulls, of integers, of fractions."""
    base = {"id": ["x"], "source": ["s"], "reason": pa.nulls(1, pa.string()), "text": ["t"]}
    extra = [{"a": pa.nulls(1)}, {"a": pa.array([1])}, {"a": pa.array([1.5])}, {"B": ["z"]}, {}]
    tables = {
        f"{shard:010x}-0.parquet": pa.table({"doc_uid": pa.array([shard << 24]), **base, **columns})
        for shard, columns in enumerate(extra)
    }
    workdir.run("r", {"ingest": workdir.artifact("ingest", tables)})
    rebuild(workdir.path)
    found = rows(workdir.path, 'SELECT a, "B" FROM documents ORDER BY doc_uid')
    assert [tuple(r.values()) for r in found] == [
        (None, None), (1, None), (1.5, None), (None, "z"), (None, None)
    ]  # fmt: skip
    assert rows(workdir.path, "SELECT count(*) AS n FROM selection WHERE kept") == [{"n": 5}]


def test_training_events_show_without_a_rebuild(mini):
    """A trainer appends to the run's log; a half-written line waits; events of all runs show."""
    log = mini.path / "runs" / mini.run_id / "training.jsonl"
    assert rows(mini.path, "SELECT * FROM training") == []
    event = {"out": "o'ut", "step": 3, "event": "spike", "row_id": 2, "loss": 4.5}
    log.write_text(
        json.dumps(event) + '\n{"out": "x", "event": "end", "step": 4}\n{"out": "x", "ev'
    )
    expected = [
        {"run_id": mini.run_id, "out": "o'ut", "step": 3, "event": "spike", "row_id": 2},
        {"run_id": mini.run_id, "out": "x", "step": 4, "event": "end", "row_id": None},
    ]
    expected = [{**row, "detail": None} for row in expected]
    assert rows(mini.path, "SELECT * FROM training ORDER BY step") == expected
    assert rows(mini.path, "SELECT * FROM training ORDER BY step", mini.run_id) == expected


PLAIN = """
import duckdb, sys
c = duckdb.connect(sys.argv[1], read_only=True)
print(c.execute("SELECT count(*) FROM selection WHERE kept").fetchone()[0])
print(c.execute("SELECT count(*) FROM placements").fetchone()[0])
print(c.execute("SELECT text FROM document_text(CAST(? AS BIGINT))", [sys.argv[2]]).fetchone()[0])
"""


def test_a_plain_client_elsewhere_reads_everything(standing, tmp_path):
    """Another process, in another folder, without Drystone, answers from the same file."""
    doc = standing.world.ingested[0]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    command = [
        sys.executable,
        "-I",
        "-c",
        PLAIN,
        str(standing.path / "catalog.duckdb"),
        str(doc.uid),
    ]
    out = subprocess.run(command, cwd=elsewhere, capture_output=True, check=True).stdout.decode()
    kept, placed, text = out.splitlines()
    assert int(kept) == sum(d.fate == "kept" for d in standing.world.docs)
    assert int(placed) == len(standing.world.placements())
    assert text == doc.text


def test_the_file_has_the_oldest_storage_version(standing):
    """Format 64, which every DuckDB from 0.10 on reads; nothing of a log is left beside it."""
    content = (standing.path / "catalog.duckdb").read_bytes()
    assert STORAGE_VERSION == "v1.0.0"
    assert content[8:12] == b"DUCK"
    assert int.from_bytes(content[12:20], "little") == 64
    assert [p.name for p in standing.path.glob("*catalog*")].count("catalog.duckdb.wal") == 0


def test_tables_hold_nothing_that_old_clients_cannot_read(standing):
    """No key, which makes an index, and no list, map or struct: 0.10 and 1.0 fail on them."""
    tables = rows(standing.path, "SELECT * FROM duckdb_tables() WHERE database_name = 'catalog'")
    assert {t["table_name"] for t in tables} == {"runs", "stages", "artifacts", "against"}
    assert all(not t["has_primary_key"] and t["index_count"] == 0 for t in tables)
    for table in tables:
        kinds = {kind for _, kind in duckdb_types(standing.path, table["table_name"])}
        assert kinds <= {"VARCHAR", "BIGINT", "INTEGER", "DOUBLE", "BOOLEAN", "TIMESTAMP"}


def test_the_catalog_holds_no_text(standing):
    """Texts stay in the artifacts: none is in the file."""
    content = (standing.path / "catalog.duckdb").read_bytes()
    for doc in standing.world.docs:
        assert not doc.text or doc.text.encode() not in content


def test_shard_files_are_told_from_the_others():
    """Overlays and rejects beside the shards are no shards."""
    import re

    for name in ("0123456789-ab.parquet", "00000000ff-ab-many.parquet"):
        assert re.fullmatch(SHARD_FILES, name)
    for name in ("rejects-0123456789-ab.parquet", "ids-00000.parquet", "0123456789.json"):
        assert not re.fullmatch(SHARD_FILES, name)

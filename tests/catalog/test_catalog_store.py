"""Opening, asking and rebuilding the catalog."""

import datetime
import json
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from catalog.ingest import rebuild
from catalog.parquet import scan
from catalog.store import (
    CatalogError,
    QueryError,
    find_workdir,
    named_queries,
    named_query,
    open_catalog,
    query,
    quote_name,
    to_json_rows,
)


def test_the_nearest_catalog_upwards_is_found(standing, tmp_path, monkeypatch):
    """From the work directory or any folder in it; elsewhere the error says what to do."""
    monkeypatch.chdir(standing.workdir.folder("ingest", standing.stages["ingest"]))
    assert find_workdir() == standing.path
    assert find_workdir(standing.path) == standing.path
    with pytest.raises(CatalogError, match=r"no catalog.duckdb here or in a folder above"):
        find_workdir(tmp_path)


def test_rows_become_plain_json():
    """Every type DuckDB gives turns into JSON values as documented."""
    table = duckdb.sql(
        "SELECT true AS b, 9007199254740993::BIGINT AS i, sum(x) AS total, 1.50 AS d, "
        "'ab'::BLOB AS bin, TIMESTAMP '2026-03-01 10:00:00.5' AS t, "
        "TIMESTAMP_NS '2026-03-01 10:00:00.123456789' AS ns, TIME '01:02:03' AS clock, "
        "TIMESTAMPTZ '2026-03-01 10:00:00+00' AS tz, DATE '2026-03-01' AS day, 'nan'::DOUBLE AS nan, "
        "MAP {'k': 'ab'::BLOB} AS m, {'s': DATE '2026-03-01', 'n': 1} AS st, "
        "[1.5::DOUBLE, 'inf'::DOUBLE, NULL] AS l, NULL AS nothing, 'e'::ENUM ('e') AS en, "
        "INTERVAL 1 DAY AS span, 1 AS a, 2 AS a, [[1], NULL] AS nested, "
        "'00000000-0000-0000-0000-000000000001'::UUID AS u FROM range(3) t(x)"
        " GROUP BY ALL"
    ).to_arrow_table()
    [row] = to_json_rows(table)
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    span = row.pop("span")
    assert "1" in span
    tz = datetime.datetime.fromisoformat(row.pop("tz"))
    assert tz == datetime.datetime(2026, 3, 1, 10, tzinfo=datetime.UTC)
    assert row == {
        "b": True,
        "i": 9007199254740993,
        "total": 3,
        "d": 1.5,
        "bin": "6162",
        "t": "2026-03-01T10:00:00.500000",
        "ns": "2026-03-01T10:00:00.123456",
        "clock": "01:02:03",
        "day": "2026-03-01",
        "nan": None,
        "m": {"k": "6162"},
        "st": {"s": "2026-03-01", "n": 1},
        "l": [1.5, None, None],
        "nothing": None,
        "en": "e",
        "a": 1,
        "a_1": 2,
        "nested": [[1], None],
        "u": "00000000-0000-0000-0000-000000000001",
    }
    assert row["b"] is True
    assert type(row["total"]) is int


def test_there_is_no_row_limit_and_no_row_is_fine(standing):
    """All rows come, and no rows are an empty array."""
    assert len(to_json_rows(query(standing.path, "SELECT range AS i FROM range(70000)"))) == 70000
    assert to_json_rows(query(standing.path, "SELECT 1 AS a WHERE false")) == []
    assert to_json_rows(pa.table({})) == []


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a INT)",
        "DROP VIEW documents",
        "COPY (SELECT 1) TO 'out.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'",
        "ATTACH 'other.duckdb' AS other",
        "PRAGMA database_list",
        "SET threads = 1",
        "UPDATE runs SET name = 'x'",
        "PIVOT runs ON status USING count(*)",
    ],
)
def test_what_would_write_is_refused(standing, sql, monkeypatch, tmp_path):
    """Only statements that answer with rows run; the file is as it was, nothing else is written."""
    monkeypatch.chdir(tmp_path)
    before = (standing.path / "catalog.duckdb").read_bytes()
    with pytest.raises(CatalogError, match="read-only: expected SELECT"):
        query(standing.path, sql)
    assert (standing.path / "catalog.duckdb").read_bytes() == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("", "the query is empty"),
        ("-- a comment", "the query is empty"),
        ("SELECT 1; SELECT 2", "expected one statement, found 2"),
        ("SELECT FROM WHERE", "syntax error"),
        ("SELECT nothing FROM documents", "nothing"),
        ("SELECT CAST('x' AS INTEGER)", "x"),
    ],
)
def test_wrong_queries_are_explained(standing, sql, message):
    """DuckDB's own message comes through as a QueryError: the question is wrong."""
    with pytest.raises(QueryError, match=message):
        query(standing.path, sql)


@pytest.mark.parametrize(
    "sql", ["DESCRIBE documents", "SHOW TABLES", "SUMMARIZE plan", "FROM runs;"]
)
def test_statements_that_answer_with_rows_run(standing, sql):
    """DESCRIBE, SHOW, SUMMARIZE and FROM-first are queries too."""
    assert query(standing.path, sql).num_rows > 0


def test_values_travel_as_parameters(standing):
    """A name with quotes in it is a value, never SQL."""
    sql = "SELECT count(*) AS n FROM documents WHERE source = $source"
    count = to_json_rows(query(standing.path, sql, parameters={"source": "books"}))
    assert count == [{"n": sum(d.source == "books" for d in standing.world.ingested)}]
    nasty = {"source": "books' OR '1' = '1"}
    assert to_json_rows(query(standing.path, sql, parameters=nasty)) == [{"n": 0}]


def test_missing_and_damaged_catalogs_are_explained(mini, tmp_path):
    """No file, a file that is none, and files moved away: each says what to do."""
    with pytest.raises(CatalogError, match="no catalog; make one with"):
        query(tmp_path / "nowhere", "SELECT 1")
    moved = mini.path.rename(tmp_path / "moved")
    with pytest.raises(CatalogError, match=r"after moving a work directory.*catalog rebuild"):
        query(moved, "SELECT count(*) FROM documents")
    rebuild(moved)
    count = to_json_rows(query(moved, "SELECT count(*) AS n FROM documents"))
    assert count == [{"n": len(mini.world.ingested)}]
    (moved / "catalog.duckdb").write_bytes(b"no database" * 1000)
    with pytest.raises(CatalogError, match="not a readable catalog"):
        query(moved, "SELECT 1")


def test_paths_stand_for_themselves(tmp_path):
    """Glob characters, quotes and key=value folders in a path neither match others nor add columns."""
    for number, name in enumerate(["b*c", "bXc", "a[1]", "a1", "d?e", "dXe", "k=v", "o'p", "q\\r"]):
        folder = tmp_path / name
        folder.mkdir()
        pa.parquet.write_table(pa.table({"x": [number]}), folder / "f.parquet")
        assert duckdb.sql(f"FROM {scan([folder / 'f.parquet'])}").fetchall() == [(number,)]
    for number, name in enumerate(["b*c", "bXc", "a[1]", "a1", "d?e", "dXe"]):
        path = tmp_path / name / "f.parquet"
        assert duckdb.sql(f"FROM {scan([path], union=True)}").fetchall() == [(number,)]


def test_names_are_quoted():
    """Any text is an identifier once quoted."""
    name = "a \"b' c;--"
    [row] = to_json_rows(duckdb.sql(f"SELECT 1 AS {quote_name(name)}").to_arrow_table())
    assert row == {name: 1}


def test_a_reader_keeps_what_it_opened_and_new_ones_see_the_new(mini, make_world):
    """A rebuild replaces the file by rename: an open reader goes on, the next sees the new run."""
    sql = "SELECT count(*) FROM runs"
    with (
        open_catalog(mini.path) as old,
        duckdb.connect(str(mini.path / "catalog.duckdb"), read_only=True) as plain,
    ):
        assert old.execute(sql).fetchone() == (1,)
        assert plain.execute(sql).fetchone() == (1,)
        mini.workdir.run("second", mini.workdir.world(make_world(seed=4), mark="b"), day=2)
        rebuild(mini.path)
        assert old.execute(sql).fetchone() == (1,)
        assert plain.execute(sql).fetchone() == (1,)
        assert query(mini.path, sql).to_pylist() == [{"count_star()": 2}]


def test_readers_and_rebuilds_do_not_disturb_each_other(mini):
    """Rebuilds at once, and readers all the while: every answer is whole, nothing is left over."""
    expected = len(mini.world.ingested)
    stop = threading.Event()

    def read() -> int:
        answers = 0
        while not stop.is_set():
            table = query(mini.path, "SELECT count(*) AS n FROM selection")
            assert to_json_rows(table) == [{"n": expected}]
            answers += 1
        return answers

    with ThreadPoolExecutor(6) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for future in [pool.submit(rebuild, mini.path) for _ in range(6)]:
            assert future.result() == mini.path / "catalog.duckdb"
        stop.set()
        assert all(reader.result() > 0 for reader in readers)
    left = {p.name for p in mini.path.iterdir()}
    assert left == {"artifacts", "runs", "catalog.duckdb", ".catalog.duckdb.lock"}


def test_what_a_killed_rebuild_left_is_no_obstacle(mini):
    """A half-written temporary file and its log are replaced."""
    for name in (".catalog.duckdb.tmp", ".catalog.duckdb.tmp.wal"):
        (mini.path / name).write_bytes(b"half")
    rebuild(mini.path)
    assert not list(mini.path.glob(".catalog.duckdb.tmp*"))


def test_rebuilding_elsewhere_or_over_damage_is_refused(mini, tmp_path):
    """A folder that is no work directory, a broken record, a broken manifest; the old file stays."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(CatalogError, match="no work directory"):
        rebuild(tmp_path / "empty")
    before = (mini.path / "catalog.duckdb").read_bytes()
    record = mini.path / "runs" / mini.run_id / "run.json"
    good = record.read_bytes()
    for bad in (b"{", b"[]", b'{"run_id": 1}', b"\xff"):
        record.write_bytes(bad)
        with pytest.raises(
            CatalogError, match=r"run\.json: not a run record .*; remove its folder"
        ):
            rebuild(mini.path)
    record.write_bytes(good)
    manifest = mini.workdir.folder("encode", mini.stages["encode"]) / "manifest.json"
    manifest.write_text(json.dumps({"stage": "encode", "files": [{}]}))
    with pytest.raises(
        CatalogError, match=r"manifest\.json: not a manifest .*run the recipe again"
    ):
        rebuild(mini.path)
    assert (mini.path / "catalog.duckdb").read_bytes() == before


def test_damaged_parquet_names_the_catalog(mini):
    """A file that is no Parquet fails the rebuild with its path, and the old catalog stays."""
    folder = mini.workdir.folder("encode", mini.stages["encode"])
    for path in folder.glob("*.parquet"):
        path.write_bytes(b"not parquet")
    with pytest.raises(CatalogError, match=r"catalog\.duckdb: cannot be written: .*encode"):
        rebuild(mini.path)


@pytest.mark.parametrize("name", sorted(named_queries()))
def test_named_queries_run_and_describe_themselves(standing, name, workdir):
    """Each has a description and answers, for a whole run and for a work directory without one."""
    asked = named_query(name)
    assert 20 < len(asked.description) < 120
    rows = query(standing.path, asked.sql, standing.run_id).num_rows
    assert rows > 0 or name == "contamination"  # the fixture has no such stage
    empty = workdir.path / "empty" / uuid.uuid4().hex
    (empty / "runs").mkdir(parents=True)
    rebuild(empty)
    assert query(empty, asked.sql).num_rows <= 1


def test_named_queries_count_right(standing):
    """dropped, sources and domains agree with the truth."""
    docs = standing.world.ingested
    found = to_json_rows(query(standing.path, named_query("dropped").sql))
    fates = [d.fate for d in docs if d.fate != "kept"]
    assert {r["reason"]: r["documents"] for r in found} == {f: fates.count(f) for f in fates}
    found = to_json_rows(query(standing.path, named_query("sources").sql))
    for row in found:
        mine = [d for d in docs if d.source == row["source"]]
        kept = [d for d in mine if d.fate == "kept"]
        assert (row["documents"], row["kept"]) == (len(mine), len(kept))
        assert row["tokens"] == sum(d.n_tokens for d in kept)
    found = to_json_rows(query(standing.path, named_query("domains").sql))
    assert sum(r["share"] for r in found) == pytest.approx(1, abs=1e-3)


def test_the_stages_query_follows_the_run(mini, make_world):
    """With --run it shows that run's stages, without it the newest good run's."""
    mini.workdir.run(
        "second", mini.workdir.world(make_world(seed=4), mark="b", until="ingest"), day=2
    )
    rebuild(mini.path)
    sql = named_query("stages").sql
    assert [r["stage"] for r in to_json_rows(query(mini.path, sql))] == ["ingest"]
    shown = to_json_rows(query(mini.path, sql, mini.run_id))
    assert [r["stage"] for r in shown] == list(mini.stages)


def test_an_unknown_named_query_is_explained():
    """The nearest name is proposed, and all are listed."""
    with pytest.raises(CatalogError, match=r"did you mean dropped.*sources"):
        named_query("dropp")


def test_a_million_documents_are_asked_in_place(workdir):
    """Selection, a point look-up and a join over a million rows; figures from a closed form."""
    n = 1_000_000
    uids = (7 << 24) + pa.compute.cast(pa.array(range(n)), pa.int64()).to_numpy()
    ids = duckdb.sql(f"SELECT 'doc-' || range AS id FROM range({n})").to_arrow_table()["id"]
    reason = duckdb.sql(
        f"SELECT CASE WHEN range % 10 = 0 THEN 'under min_chars' END AS r FROM range({n})"
    ).to_arrow_table()["r"]
    table = pa.table(
        {
            "doc_uid": uids,
            "id": ids,
            "source": pa.array(["s"] * n).dictionary_encode(),
            "n_chars": pa.array(range(n)),
            "reason": reason,
            "text": pa.array(["t"] * n).dictionary_encode(),
        }
    )
    lost = pa.table(
        {"doc_uid": uids[1::10], "keeper_uid": uids[2::10], "kind": ["exact"] * (n // 10)}
    )
    ingest = workdir.artifact("ingest", {"0000000007-0.parquet": table})
    dedupe = workdir.artifact("dedupe.exact", {"duplicates-0.parquet": lost})
    workdir.run("r", {"ingest": ingest, "dedupe.exact": dedupe})
    rebuild(workdir.path)
    sql = "SELECT reason, count(*) AS n, sum(n_chars) AS c FROM selection JOIN documents USING (doc_uid)"
    found = to_json_rows(query(workdir.path, f"{sql} GROUP BY reason ORDER BY n, reason"))
    tenth = n // 10
    chars = {k: 10 * tenth * (tenth - 1) // 2 + k * tenth for k in (0, 1)}
    assert [tuple(r.values()) for r in found] == [
        ("dedupe.exact", tenth, chars[1]),
        ("under min_chars", tenth, chars[0]),
        (None, n - 2 * tenth, n * (n - 1) // 2 - chars[0] - chars[1]),
    ]
    point = query(workdir.path, f"SELECT id FROM documents WHERE doc_uid = {uids[777_777]}")
    assert to_json_rows(point) == [{"id": "doc-777777"}]


def test_the_queries_are_package_data():
    """Every query file begins with the line that describes it."""
    import catalog

    folder = Path(catalog.__file__).parent / "queries"
    for path in folder.glob("*.sql"):
        assert path.read_text().startswith("-- ")
    assert {p.stem for p in folder.glob("*.sql")} == set(named_queries())

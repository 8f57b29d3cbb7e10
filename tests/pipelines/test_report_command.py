"""``drystone report`` on real runs: files, JSON, exit codes, every stage's section."""

import hashlib
import itertools
import json
import re
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from small_runs import whole_recipe_of, write_near_corpus
from typer.testing import CliRunner

from pipelines import cli
from pipelines.run import run


def call(*args):
    """Run a command in this process; every argument as text."""
    return CliRunner().invoke(cli.app, [str(arg) for arg in args])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run with near-duplicates, repeated sentences, contamination and a mixture: (recipe, summary)."""
    folder = tmp_path_factory.mktemp("whole")
    corpus = write_near_corpus(folder / "in")
    line = (corpus / "part-1.jsonl").read_text(encoding="utf-8").splitlines()
    longest = max((json.loads(text)["text"] for text in line), key=len)
    item = {"id": "item <1>", "text": longest[:600]}
    (folder / "items.jsonl").write_text(json.dumps(item) + "\n")
    (corpus / "part-9.jsonl").write_text('{"broken\n')
    recipe = whole_recipe_of(
        corpus,
        folder / "w",
        dedupe={"exact": {}, "near": {}, "sentence": {}},
        embed={"width": 64},
        pack={"seq_len": 512, "strategy": "sculpt"},
        mixture={
            "tokens": 60_000,
            "max_epochs": 3,
            "weights": {"even": 0.6, "odd": 0.4},
            "utility": {"target": [str(folder / "items.jsonl")]},
        },
        balance={"dp": 2, "global_batch": 4, "ranks_per_node": 1, "topology": {}},
        decontaminate={"path": [str(folder / "items.jsonl")]},
    )
    return recipe, run(recipe)


def test_the_report_is_written_beside_the_run(whole):
    """Both files lie in the run's folder, and the paths are what is printed."""
    recipe, summary = whole
    home = recipe.workdir
    done = call("report", "--workdir", home)
    assert done.exit_code == 0, done.output
    folder = f"{home}/runs/{summary.run_id}"
    assert done.stdout.split() == [f"{folder}/report.html", f"{folder}/report.json"]
    assert "next: drystone query" in done.stderr


def test_every_figure_of_a_real_run_is_its_sql_and_the_accounts_agree(whole):
    """All stages have their sections; a plain client gives the same rows; the summary's numbers."""
    recipe, summary = whole
    told = json.loads(call("report", summary.run_id, "--json", "--workdir", recipe.workdir).stdout)
    sections = {section["id"]: section["figures"] for section in told["sections"]}
    expected = {
        "utility",
        "similarity",
        "sharing",
        "contamination",
        "duplicates",
        "sentences",
        "mixture",
        "rows",
        "costs",
        "order",
    }
    assert expected <= set(sections)
    figures = {f["id"]: f for found in sections.values() for f in found}
    with duckdb.connect(f"{recipe.workdir}/catalog.duckdb", read_only=True) as client:
        for figure in figures.values():
            rows = client.execute(figure["sql"]).fetchall()
            assert json.loads(json.dumps(rows, default=plain)) == figure["rows"], figure["id"]
    run_row = dict(zip(figures["run"]["columns"], figures["run"]["rows"][0], strict=True))
    for name in ("lines", "rejected", "ingested", "kept", "tokens", "packed_rows"):
        assert run_row[name] == getattr(summary, name)
    assert all(row[-1] is True for row in figures["account"]["rows"])
    assert figures["funnel"]["rows"][-1][1] == summary.kept
    assert {row[0]: row[1] for row in figures["reasons"]["rows"]} == summary.dropped
    assert {"decontaminate", "dedupe.near", "dedupe.exact"} <= set(summary.dropped)
    assert figures["rejects"]["rows"][0][2] == 1
    assert figures["contamination-pairs"]["rows"]
    clusters = figures["clusters-of-rows"]
    rows_of_clusters = clusters["columns"].index("rows")
    assert sum(row[rows_of_clusters] for row in clusters["rows"]) == summary.packed_rows
    clusters = [
        dict(zip(figures["largest-clusters"]["columns"], row, strict=True))
        for row in figures["largest-clusters"]["rows"]
    ]
    for row in (row for row in clusters if row["kind"] == "near"):
        kept, lost = (row[f"{side}_text"].split("\n") for side in ("keeper", "member"))
        skipped = row["equal_lines_before"]
        assert kept[:2] != lost[:2]
        assert skipped == 0 or kept[0] == lost[0]
    assert any(row.get("equal_lines_before") for row in clusters)


def test_similarities_are_those_of_the_vectors(whole):
    """Inside and across: pairs chosen by hash, cosines by numpy from the float16 of the files."""
    recipe, summary = whole
    told = json.loads(call("report", summary.run_id, "--json", "--workdir", recipe.workdir).stdout)
    [section] = [s for s in told["sections"] if s["id"] == "similarity"]
    shown = {row[0]: row[1:] for row in section["figures"][0]["rows"]}
    vectors = {}
    for path in sorted(Path(recipe.workdir).glob("artifacts/embed-*/vectors-*.parquet")):
        table = pq.read_table(path)
        for uid, raw in zip(*(table[c].to_pylist() for c in ("doc_uid", "vector")), strict=True):
            vectors[uid] = np.frombuffer(raw, "<f2").astype(np.float64)
    with duckdb.connect(f"{recipe.workdir}/catalog.duckdb", read_only=True) as client:
        pieces = client.execute("SELECT DISTINCT row_id, doc_uid FROM placements").fetchall()
    two = {}
    for row in {row for row, _ in pieces}:
        docs = sorted((uid for r, uid in pieces if r == row), key=lambda u: md5(f"{u} {row}"))
        if len(docs) > 1:
            two[row] = docs[0], docs[-1]
    order = sorted(two, key=lambda row: md5(str(row)))
    pairs = {
        "inside": [two[row] for row in order[:400]],
        "across": [
            (two[a][0], two[b][1])
            for a, b in itertools.pairwise(order[:401])
            if two[a][0] != two[b][1]
        ],
    }
    for place, found in pairs.items():
        cosines = [float(cosine(vectors[a], vectors[b])) for a, b in found]
        assert shown[place][0] == len(cosines) > 5
        assert shown[place][1] == pytest.approx(np.mean(cosines), abs=2e-4)


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


def cosine(a, b):
    return a @ b / np.sqrt((a @ a) * (b @ b))


def plain(value):
    """A decimal or a time as the report has it."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return int(value) if value == int(value) else float(value)


def test_the_same_run_gives_the_same_files(whole, tmp_path):
    """Twice, in two folders: the same bytes; nothing in them is loaded from elsewhere."""
    recipe, _ = whole
    for name in ("a", "b"):
        assert call("report", "--out", tmp_path / name, "--workdir", recipe.workdir).exit_code == 0
    for file in ("report.html", "report.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    html = (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"<(script|link|img|iframe)\b|\b(src|href)=[\"']?(?!#|[\"']#)", html)
    assert "item &lt;1&gt;" in html


def test_mistakes_end_with_2(whole, tmp_path):
    """An unknown run is refused with the known ones; so is a folder that is no work directory."""
    recipe, summary = whole
    done = call("report", "nope", "--workdir", recipe.workdir)
    assert done.exit_code == 2
    assert "nope" in done.stderr
    assert summary.run_id in done.stderr
    assert call("report", "--workdir", tmp_path).exit_code == 2


def test_a_place_that_cannot_be_written_ends_with_4(whole, tmp_path):
    """A file stands where the folder should be."""
    recipe, _ = whole
    (tmp_path / "file").write_text("")
    done = call("report", "--out", tmp_path / "file" / "x", "--workdir", recipe.workdir)
    assert done.exit_code == 4
    assert "file" in done.stderr


def test_a_run_that_failed_has_a_report_of_what_is_known(tmp_path):
    """Its id is taken, exit code 0, and the page says failed; by default it is not chosen."""
    (tmp_path / "in.jsonl").write_text('{"broken\n{"id": "a", "text": "some words to keep"}\n')
    (tmp_path / "r.toml").write_text(
        f'name = "bad"\nworkdir = "{tmp_path}/w"\n[[sources]]\nname = "a"\n'
        f'path = "{tmp_path}/in.jsonl"\n[ingest]\nmax_rejected = 0.1\n[tokenizer]\nvocab_size = 300\n'
    )
    assert call("run", tmp_path / "r.toml").exit_code == 3
    [record] = (tmp_path / "w" / "runs").glob("*/run.json")
    done = call("report", record.parent.name, "--workdir", tmp_path / "w")
    assert done.exit_code == 0, done.output
    assert "failed" in done.stderr
    assert "failed" in (record.parent / "report.html").read_text(encoding="utf-8")
    assert call("report", "--workdir", tmp_path / "w").exit_code == 2

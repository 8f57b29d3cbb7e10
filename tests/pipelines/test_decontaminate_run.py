"""Decontamination end to end: drop and cut, the catalog, caching, workers, and what is refused."""

import gzip
import json
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from small_runs import digest, recipe_of, sentences

from catalog.explain import explain
from catalog.store import query
from pipelines.cli import app
from pipelines.export_documents import export_documents
from pipelines.recipe import RecipeError, load_recipe
from pipelines.run import run
from pipelines.stages import plan
from transforms.record import RecordError

ITEMS = [
    {
        "id": f"q{k}",
        "text": f"A farmer named {name} builds {k + 3} walls of stone, each {k + 11} metres long, "
        f"and sells {k + 5} sheep to pay {worker}. How many metres of wall has {name} in the end?",
        "answer": f"{(k + 3) * (k + 11)} metres of wall in all, says {worker}.",
    }
    for k, (name, worker) in enumerate(
        [("Agnes", "Bertram"), ("Cedric", "Dorothea"), ("Edwin", "Felicity"), ("Greta", "Hubert")]
    )
]
CHINESE = {"text": "甲乙两人从相距三十公里的两座村庄同时出发，相向而行，问他们几小时后在途中相遇？"}


def write_items(folder):
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(item) + "\n" for item in ITEMS)
    (folder / "walls.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (folder / "zh.jsonl").write_text(json.dumps(CHINESE) + "\n\n")
    return folder


def planted(k):
    item = ITEMS[k % 4]
    kind = k % 5
    if kind == 0:
        return item["text"]
    if kind == 1:
        return item["text"].upper().replace(" ", "  ")
    if kind == 2:
        return item["text"][: len(item["text"]) // 2]
    if kind == 3:
        return item["text"].replace("stone", "brick")
    return CHINESE["text"]


def write_corpus(folder):
    """120 documents in 3 files: every fourth holds an item, and each of those has a clean twin."""
    rng = random.Random(5)
    documents = []
    for k in range(60):
        before, after = sentences(rng, 40), sentences(rng, 40)
        if k % 2:
            documents.append({"id": f"bad{k}", "text": f"{before}\n{planted(k)}\n{after}"})
            documents.append({"id": f"twin{k}", "text": documents[-1]["text"]})
        else:
            documents.append({"id": f"good{k}", "text": before + after})
            documents.append({"id": f"copy{k}", "text": before + after})
    folder.mkdir(parents=True)
    for f in range(3):
        lines = [json.dumps(d) for d in documents[f::3]]
        (folder / f"part-{f}.jsonl").write_text("".join(line + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    return write_corpus(folder / "corpus"), write_items(folder / "items")


def recipe(inputs, workdir, policy="drop", **changes):
    corpus, items = inputs
    table = {"path": [str(items / "*.jsonl*")], "policy": policy}
    dedupe = {"exact": {}, "near": {}}
    return recipe_of(corpus, workdir, decontaminate=table, dedupe=dedupe, **changes)


@pytest.fixture(scope="module")
def dropped(inputs, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("dropped")
    return workdir, run(recipe(inputs, workdir))


@pytest.fixture(scope="module")
def cut(inputs, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("cut")
    return workdir, run(recipe(inputs, workdir, "cut"))


def test_drop_takes_out_what_holds_an_item(dropped):
    """Exactly the documents that hold an item are dropped, before duplicates are looked for."""
    workdir, summary = dropped
    assert summary.dropped["decontaminate"] == 60
    assert summary.kept == 30
    rows = query(
        workdir, "SELECT id, kept, reason FROM selection JOIN documents USING (doc_uid)"
    ).to_pylist()
    reasons = {row["id"]: row["reason"] for row in rows}
    assert {i for i, r in reasons.items() if r == "decontaminate"} == {
        i for i in reasons if i.startswith(("bad", "twin"))
    }
    keepers = query(workdir, "SELECT keeper_uid FROM duplicates").to_pylist()
    gone = query(workdir, "SELECT doc_uid FROM selection WHERE reason = 'decontaminate'")
    assert not {row["keeper_uid"] for row in keepers} & set(gone["doc_uid"].to_pylist())


def test_the_catalog_shows_pairs(dropped, inputs):
    """The view has both sides of each pair; spans and explain say the same."""
    workdir, _ = dropped
    rows = query(
        workdir,
        "SELECT c.*, d.id, d.text FROM contamination c JOIN "
        "(SELECT doc_uid, id, text FROM documents JOIN texts USING (doc_uid)) d USING (doc_uid)",
    ).to_pylist()
    assert len({row["doc_uid"] for row in rows}) == 60
    texts = {item["id"]: item["text"] for item in ITEMS} | {"zh.jsonl#1": CHINESE["text"]}
    for row in rows:
        assert row["text"][row["start"] : row["end"]][:300] == row["found"]
        assert texts[row["item_id"]][row["item_start"] : row["item_end"]] == row["item"]
        assert row["item_set"] == ("zh.jsonl" if "zh" in row["item_id"] else "walls.jsonl.gz")
        assert 0.4 <= row["score"] <= 1
    spans = query(workdir, "SELECT kind, count(*) AS n FROM spans GROUP BY kind").to_pylist()
    assert spans == [{"kind": "contamination", "n": len(rows)}]
    told = explain(workdir, "bad1")
    [decision] = [d for d in told.decisions if d.stage == "decontaminate"]
    assert (told.reason, decision.kept, decision.score) == ("decontaminate", False, 1.0)
    assert "walls.jsonl.gz q1" in decision.detail


def test_cut_leaves_the_rest(cut, inputs, tmp_path):
    """Cut documents go on without the items: no token of them is packed, nothing else is lost."""
    workdir, summary = cut
    assert "decontaminate" not in summary.dropped
    out = tmp_path / "out.jsonl.parquet"
    export_documents(workdir, summary.run_id, "parquet", out)
    kept = {row["id"]: row["text"] for row in pq.read_table(out).to_pylist()}
    before = {}
    for file in inputs[0].iterdir():
        before |= {d["id"]: d["text"] for d in map(json.loads, file.read_text().splitlines())}
    assert len(kept) == 60
    for name, text in kept.items():
        if name.startswith(("good", "copy")):
            assert text == before[name]
            continue
        k = int(name.removeprefix("bad").removeprefix("twin"))
        left, right = before[name].split(planted(k))
        assert text.startswith(left.rstrip())
        assert text.endswith(right.lstrip())
        assert len(text) <= len(left) + len(right) + 12


def test_the_same_bytes_with_other_workers_and_shuffle(cut, dropped, inputs, tmp_path):
    """Neither the number of workers nor the shuffle changes a byte."""
    for policy, (workdir, _) in (("drop", dropped), ("cut", cut)):
        other = tmp_path / policy
        runner = {"kind": "local", "workers": 1, "shuffle": "runner"}
        run(recipe(inputs, other, policy, runner=runner))
        for stage in ("decontaminate", "encode", "balance"):
            [one], [two] = (list(w.glob(f"artifacts/{stage}-*")) for w in (workdir, other))
            assert one.name == two.name
            assert digest(one) == digest(two)


def test_another_policy_searches_nothing_again(inputs, tmp_path):
    """The policy, and where the files lie, change no match: the tasks are adopted."""
    first = run(recipe(inputs, tmp_path), until="decontaminate")
    assert first.dropped == {"decontaminate": 60}
    run(recipe(inputs, tmp_path, "cut"), until="decontaminate")
    folders = list(tmp_path.glob("artifacts/decontaminate-*"))
    assert len(folders) == 2
    inodes = [{f.stat().st_ino for f in d.glob("matches-*")} for d in folders]
    assert inodes[0] == inodes[1]
    [line] = [s for s in plan(recipe(inputs, tmp_path)) if s.stage == "decontaminate"]
    assert line.state == "cached"
    assert line.note.startswith("5 items of 2 files, ")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "fine"}\n{"text": \n', r"a\.jsonl, line 2: not JSON"),
        ("a.jsonl", '["text"]\n', r"line 1: .* is no JSON object"),
        (
            "a.jsonl",
            '{"question": "x", "id": 1}\n',
            r"no key 'text' among 'question', 'id'.*decontaminate\.text",
        ),
        ("a.jsonl", '\n{"text": "  "}\n', r"line 2: 'text' is empty"),
        ("a.jsonl", '{"text": 7}\n', r"line 1: 'text' is 7, not a string"),
        ("a.jsonl", "\n", r"a\.jsonl has no items"),
        ("a.jsonl.gz", "not gzip", r"a\.jsonl\.gz: corrupt stream"),
        ("a.csv", "text\n", r"a\.csv is no JSON lines file"),
        ("b.txt", "", r"a\.\* names no file"),
    ],
)
def test_bad_evaluation_files_are_refused(inputs, tmp_path, name, content, message):
    """A file that cannot be used is refused before work starts, with its line and the remedy."""
    (tmp_path / name).write_text(content)
    table = {"path": [str(tmp_path / "a.*")]}
    bad = recipe_of(inputs[0], tmp_path / "work", decontaminate=table)
    with pytest.raises(RecordError, match=message):
        run(bad)
    assert not list((tmp_path / "work").glob("artifacts/*"))


def test_the_command_line_refuses(inputs, tmp_path):
    """Exit code 3 for an evaluation file, 2 for a setting."""
    from typer.testing import CliRunner

    file = tmp_path / "r.toml"
    head = (
        f'name = "x"\nworkdir = "{tmp_path}/w"\n[[sources]]\nname = "s"\npath = "{inputs[0]}/*"\n'
    )
    file.write_text(f'{head}[decontaminate]\npath = ["{tmp_path}/none.jsonl"]\n')
    result = CliRunner().invoke(app, ["run", str(file)])
    assert result.exit_code == 3
    file.write_text(f"{head}[decontaminate]\npath = []\n")
    assert CliRunner().invoke(app, ["run", str(file)]).exit_code == 2
    file.write_text(f'{head}[decontaminate]\npath = ["x.jsonl"]\npolicy = "remove"\n')
    with pytest.raises(RecipeError, match=r"decontaminate\.policy"):
        load_recipe(file)


SHARED = Path(__file__).parents[2] / "../shared/data/evalsets"


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs ../shared/data")
def test_planted_items_of_real_sets(tmp_path):
    """Of the planted items of six public sets all kinds are found, and no clean document is."""
    from pipelines.recipe import from_dict

    value = {
        "name": "planted",
        "workdir": str(tmp_path),
        "sources": [{"name": "p", "path": str(SHARED / "planted-contamination.jsonl.gz")}],
        "decontaminate": {"path": [str(SHARED / "[!p]*.jsonl.gz")]},
    }
    run(from_dict(value), until="decontaminate")
    found = set(
        query(
            tmp_path,
            "SELECT DISTINCT d.id || ' ' || item_id AS pair FROM contamination "
            "JOIN documents d USING (doc_uid)",
        )["pair"].to_pylist()
    )
    hits: dict[str, list[bool]] = {}
    content = gzip.decompress((SHARED / "planted-contamination.jsonl.gz").read_bytes())
    for line in content.decode().splitlines():
        document = json.loads(line)
        plant = document["contamination"]
        if plant is None:
            assert not any(pair.startswith(document["id"] + " ") for pair in found)
        else:
            hit = f"{document['id']} {plant['eval_id']}" in found
            hits.setdefault(plant["kind"], []).append(hit)
    assert len(hits) == 5
    for kind, found_ones in hits.items():
        least = 0.9 if "substitution" in kind else 0.99
        assert sum(found_ones) / len(found_ones) >= least, kind

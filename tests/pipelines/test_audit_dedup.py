"""``audit dedup`` through the command line, against plain Python sets over the same texts."""

import gzip
import json
import random
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.recipe import from_dict
from pipelines.run import run

WORDS = [f"w{k}" for k in range(60)]


def shingles(text, ngram=5):
    """The sets of the published definition, for texts of ASCII words."""
    tokens = re.findall(r"\w+", text.lower())
    grams = {tuple(tokens[k : k + ngram]) for k in range(len(tokens) - ngram + 1)}
    return grams or {("short", *tokens)}


def similarity(one, two):
    a, b = shingles(one), shingles(two)
    return len(a & b) / len(a | b)


def texts_of(rng, n):
    """Texts with many neighbours at all similarities, copies and short ones among them."""
    texts = []
    for _ in range(n):
        kind = rng.random()
        if texts and kind < 0.6:
            words = rng.choice(texts).split()
            for _ in range(rng.choice([0, 0, 1, 1, 2, 5, 12])):
                words[rng.randrange(len(words))] = rng.choice(WORDS)
            texts.append(" ".join(words))
        else:
            texts.append(" ".join(rng.choices(WORDS, k=rng.choice([1, 3, 8, 40, 120]))))
    return texts


def write(path, rows):
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode()))
    elif path.suffix == ".zst":
        path.write_bytes(zstandard.compress(lines.encode()))
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text(lines)
    return path


def audit(*arguments, code=None):
    result = CliRunner().invoke(app, ["audit", "dedup", *map(str, arguments)])
    if code is not None:
        assert result.exit_code == code, result.output
    return result


def audited(raw, kept, *more, code=None):
    return json.loads(audit("--input", raw, "--kept", kept, "--json", *more, code=code).stdout)


@pytest.mark.parametrize("threshold", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_leaks_and_losses_are_those_of_brute_force(tmp_path, monkeypatch, seed, threshold):
    """Counts of documents and pairs, the levels of the lost ones, and the worst of each kind."""
    monkeypatch.setattr("pipelines.audit.dedup._RARE", seed)
    rng = random.Random(seed)
    rows = [{"id": f"d{k}", "text": t} for k, t in enumerate(texts_of(rng, 150))]
    kept = [row for row in rows if rng.random() < 0.5]
    removed = [row for row in rows if row not in kept]
    rng.shuffle(kept)
    write(tmp_path / "raw" / "a.jsonl", rows[:70])
    write(tmp_path / "raw" / "deep" / "b.jsonl.gz", rows[70:])
    out = write(tmp_path / "kept.jsonl.zst", kept)
    found = audited(tmp_path / "raw", out, "--threshold", threshold, "--show", 1000)

    pairs = {
        frozenset((one["id"], two["id"])): similarity(one["text"], two["text"])
        for k, one in enumerate(kept)
        for two in kept[:k]
        if similarity(one["text"], two["text"]) >= threshold
    }
    best = {r["id"]: max(similarity(r["text"], k["text"]) for k in kept) for r in removed}
    lost = {name: value for name, value in best.items() if value < threshold}
    assert found["leaked"] == {"documents": len(set().union(*pairs)), "pairs": len(pairs)}
    assert found["lost"]["documents"] == len(lost) > 0
    for level, count in found["lost"]["best_below"].items():
        assert count == sum(value < float(level) for value in lost.values())
    assert found["lost"]["nothing_in_common"] == sum(value == 0 for value in lost.values())
    assert found["removed"] == len(removed)
    assert found["kept"]["by_id"] == found["kept"]["documents"] == len(kept)
    for pair in found["worst_leaks"]:
        assert pair["similarity"] == pairs[frozenset((pair["a"]["id"], pair["b"]["id"]))]
    if pairs:
        assert found["worst_leaks"][0]["similarity"] == max(pairs.values())
    for pair in found["worst_losses"]:
        assert pair["similarity"] == best[pair["a"]["id"]]
        assert (pair["b"] is None) == (pair["similarity"] == 0)


def test_a_run_is_clean(tmp_path):
    """What ``drystone run`` keeps of exact and near duplicates has neither leak nor loss."""
    rng = random.Random(5)
    raw = write(
        tmp_path / "in" / "a.jsonl",
        [{"id": f"d{k}", "text": t} for k, t in enumerate(texts_of(rng, 300))],
    )
    recipe = from_dict(
        {
            "name": "audited",
            "workdir": str(tmp_path / "w"),
            "sources": [{"name": "a", "path": str(raw)}],
            "dedupe": {"exact": {}, "near": {}},
        }
    )
    summary = run(recipe, until="dedupe.near")
    out = tmp_path / "out"
    export = ["export", summary.run_id, "--documents", "--to", "parquet", str(out)]
    assert CliRunner().invoke(app, [*export, "--workdir", str(tmp_path / "w")]).exit_code == 0
    found = audited(raw, out, code=0)
    assert found["clean"]
    assert found["removed"] == sum(summary.dropped.values()) > 50
    assert found["kept"]["documents"] == summary.kept


def test_without_ids_copies_are_counted_by_their_texts(tmp_path):
    """Of three copies two are kept: one pair leaks. A fourth one is not the input's."""
    rows = [{"text": "one two three four five six"}] * 3 + [{"text": "other words, once"}]
    raw = write(tmp_path / "raw.parquet", rows)
    found = audited(raw, write(tmp_path / "two.jsonl", rows[1:]), code=1)
    assert found["leaked"] == {"documents": 2, "pairs": 1}
    assert found["kept"]["by_text"] == 3
    assert found["lost"]["documents"] == 0
    found = audited(raw, write(tmp_path / "five.jsonl", [rows[0], *rows]), code=1)
    assert found["leaked"] == {"documents": 3, "pairs": 3}
    assert found["kept"]["unknown"] == 1


def test_altered_renamed_and_unknown_documents_are_told_apart(tmp_path):
    """An altered text is judged as it was in the input; a renamed document is found by its text."""
    texts = [" ".join(random.Random(k).choices(WORDS, k=30)) for k in range(4)]
    rows = [{"key": k, "body": t} for k, t in enumerate(texts)]
    raw = write(tmp_path / "raw.jsonl", rows)
    kept = [rows[0], {"key": 1, "body": texts[1] + " more"}, {"key": "x", "body": texts[2]}]
    kept += [{"key": "y", "body": "nobody knows it"}]
    out = write(tmp_path / "kept.jsonl", kept)
    found = audited(raw, out, "--text", "body", "--id", "key", code=1)
    told = {name: found["kept"][name] for name in ("by_id", "by_text", "altered", "unknown")}
    assert told == {"by_id": 2, "by_text": 1, "altered": 1, "unknown": 1}
    assert found["kept"]["unknown_first"] == ["y"]
    assert found["lost"]["documents"] == 1
    assert found["worst_losses"][0]["a"]["id"] == "3"


def test_documents_without_tokens_and_without_text(tmp_path):
    """Punctuation is a duplicate of the same punctuation alone; empty texts are not judged."""
    rows = [{"id": str(k), "text": t} for k, t in enumerate(["!!!", "!!!", "???", "", "a b"])]
    raw = write(tmp_path / "raw.jsonl", rows)
    found = audited(raw, write(tmp_path / "a.jsonl", [rows[0], rows[2], rows[4]]), code=0)
    assert found["input"]["without_text"] == 1
    assert found["removed"] == 1
    whole = audited(raw, write(tmp_path / "c.jsonl", rows), code=1)
    assert whole["kept"]["documents"] == whole["kept"]["by_id"] == 4
    assert whole["removed"] == whole["kept"]["unknown"] == 0
    found = audited(raw, write(tmp_path / "b.jsonl", [rows[0], rows[4]]), code=1)
    assert found["lost"] == {
        "documents": 1,
        "best_below": dict.fromkeys(["0.7", "0.6", "0.5"], 1),
        "nothing_in_common": 1,
    }


def test_the_report_shows_the_pairs_side_by_side(tmp_path):
    """Both names, the similarity, and both texts from before the place where they part."""
    head = " ".join(f"same{k}" for k in range(60))
    rows = [
        {"id": "left", "text": f"{head} LEFTEND"},
        {"id": "right", "text": f"{head} RIGHTEND"},
        {"id": "gone", "text": "a document that had nothing to do with any of it"},
    ]
    raw = write(tmp_path / "raw.jsonl", rows)
    shown = audit("--input", raw, "--kept", write(tmp_path / "k.jsonl", rows[:2]), code=1).stdout
    for part in (
        "kept: left",
        "kept: right",
        "LEFTEND",
        "RIGHTEND",
        "removed: gone",
        "2 documents",
    ):
        assert part in shown
    assert "same0 " not in shown
    assert f"{similarity(rows[0]['text'], rows[1]['text']):.4f}" in shown


@pytest.mark.parametrize(
    ("raw", "kept", "more", "code", "message"),
    [
        ("raw.jsonl", "none.jsonl", [], 3, "none.jsonl names no file"),
        ("raw.jsonl", "raw.jsonl", ["--text", "body"], 3, "no key 'body'"),
        ("raw.jsonl", "other.jsonl", [], 3, "none of its 1 documents is in"),
        ("raw.jsonl", "bad.jsonl", [], 3, "bad.jsonl line 2: bad JSON"),
        ("raw.jsonl", "empty", [], 3, "holds no file that can be read"),
        ("raw.jsonl", "raw.csv", [], 3, "no suffix of a known format"),
        ("raw.jsonl", "raw.jsonl", ["--threshold", "1.5"], 2, "at most 1"),
        ("raw.jsonl", "raw.jsonl", ["--threshold", "nan"], 2, "at most 1"),
        ("raw.jsonl", "raw.jsonl", ["--ngram", "0"], 2, "ngram"),
    ],
)
def test_what_cannot_be_judged_is_refused(tmp_path, raw, kept, more, code, message):
    """The message names the file or option and what was found."""
    write(tmp_path / "raw.jsonl", [{"id": "1", "text": "one"}])
    write(tmp_path / "other.jsonl", [{"id": "2", "text": "two"}])
    (tmp_path / "bad.jsonl").write_text('{"id": "1", "text": "one"}\n{"id"\n')
    (tmp_path / "raw.csv").write_text("id,text\n")
    (tmp_path / "empty").mkdir()
    result = audit("--input", tmp_path / raw, "--kept", tmp_path / kept, *more, code=code)
    assert message in result.stderr


def test_temporary_files_are_removed(tmp_path, monkeypatch):
    """Also when the output cannot be judged."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    raw = write(tmp_path / "raw.jsonl", [{"id": "1", "text": "one"}])
    other = write(tmp_path / "other.jsonl", [{"id": "2", "text": "two"}])
    audited(raw, raw, code=0)
    audit("--input", raw, "--kept", other, code=3)
    assert not list((tmp_path / "scratch").iterdir())

"""Utility weights through whole runs: what is drawn, what is kept, and what is refused."""

import gzip
import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_runs import digest, recipe_of, sentences
from typer.testing import CliRunner

from catalog.store import open_catalog
from pipelines.cli import app
from pipelines.recipe import from_dict, resolved
from pipelines.run import run
from pipelines.stages import bind, plan, stages_of
from pipelines.steps.utility import MeasureUtility, UtilityStage
from transforms.record import RecordError
from transforms.text import IngestSettings
from transforms.utility import UtilitySettings

TOPIC = "coping batter hearting throughstone lintel quarry mason plumb course wedge".split()  # noqa: SIM905


def topical(rng, share, n_words):
    """Return text of which a share of the words is of the topic, in the topic's order."""
    words, k = [], 0
    while len(words) < n_words:
        if rng.random() < share:
            words += [TOPIC[k % len(TOPIC)], TOPIC[(k + 1) % len(TOPIC)]]
            k += 1
        else:
            words.append(sentences(rng, 1).strip())
    return " ".join(words)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Two sources of one domain, 400 documents, a quarter of them of the topic; and a target."""
    folder = tmp_path_factory.mktemp("utility")
    rng = random.Random(9)
    for name in "ab":
        lines = []
        for k in range(200):
            useful = k % 4 == 0
            text = topical(rng, 0.6 if useful else 0.0, rng.randint(40, 120))
            lines.append(json.dumps({"id": f"{'u' if useful else 'o'}{k}", "text": text}))
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    target = [json.dumps({"text": topical(rng, 0.6, 100)}) for _ in range(20)]
    (folder / "target.jsonl.gz").write_bytes(gzip.compress("\n".join(target).encode()))
    return folder


def recipe(corpora, workdir, utility=None, **changes):
    sources = [{"name": n, "path": str(corpora / f"{n}.jsonl"), "domain": "all"} for n in "ab"]
    mixture = {"tokens": 20_000, "temperature": 1.0, "max_epochs": 2}
    if utility is not None:
        mixture["utility"] = {"target": [str(corpora / "target.jsonl.gz")], **utility}
    value = {"sources": sources, "mixture": mixture, "tokenizer": {"vocab_size": 500}, **changes}
    return recipe_of(corpora, workdir, **value)


def rows_of(workdir, sql):
    with open_catalog(workdir) as connection:
        return connection.sql(sql).fetchall()


def drawn(workdir):
    """Return the mean number of copies of useful and of other documents."""
    return dict(
        rows_of(
            workdir,
            "select left(id, 1), avg(copies) from documents join selection using (doc_uid) "
            "group by 1",
        )
    )


def test_useful_documents_are_drawn_more_often(corpora, tmp_path):
    """Planted documents win, by the table the catalog shows; any workers and shuffle, same bytes."""
    made = recipe(corpora, tmp_path / "w", {})
    [before] = [line.note for line in plan(made) if line.stage == "utility"]
    assert "4,096 documents are measured" in before
    assert "of 20 target documents" in before
    done = run(made)
    assert [s["stage"] for s in done.stages][-4:] == ["utility", "mixture", "pack", "balance"]
    assert not [w for w in done.warnings if "utility" in w]
    assert "correlate by" in next(line.note for line in plan(made) if line.stage == "utility")
    plain = run(recipe(corpora, tmp_path / "p"))
    assert "utility" not in [s["stage"] for s in plain.stages]
    without, found = drawn(tmp_path / "p"), drawn(tmp_path / "w")
    assert found["u"] > 1.5 * without["u"]
    assert 0 < found["o"] < without["o"]
    table = rows_of(
        tmp_path / "w",
        "select left(id, 1), u.weight, utility, similarity, utility_quantile, similarity_quantile "
        "from documents join utility u using (doc_uid)",
    )
    assert len(table) == 400
    best = sorted(table, key=lambda row: -row[2])[:100]
    assert sum(row[0] == "u" for row in best) > 90
    for _, weight, _, _, u, s in table:
        reach = min(1, max(u, s) / 0.9) ** 4
        assert weight == pytest.approx(0.25 + 3.75 * reach, rel=1e-4)
    [folder] = (tmp_path / "w" / "artifacts").glob("utility-*")
    config = json.loads((folder / "manifest.json").read_text())["config"]
    assert config["student"]["reliable"]
    assert config["student"]["spearman"] > 0.3
    other_run = recipe(
        corpora, tmp_path / "v", {}, runner={"kind": "local", "workers": 1, "shuffle": "runner"}
    )
    again = run(other_run)
    assert again.fingerprint == done.fingerprint
    [second] = (tmp_path / "v" / "artifacts").glob("utility-*")
    assert digest(second) == digest(folder)
    assert digest(tmp_path / "v" / again.dataset) == digest(tmp_path / "w" / done.dataset)


def test_scores_are_kept_by_file(corpora, tmp_path):
    """Other bounds of the weights score no text again; another target does."""
    made = recipe(corpora, tmp_path / "w", {})
    run(made, until="encode")
    # What the mixture can reach is known before utility is.
    assert [line.note for line in plan(made) if line.stage == "mixture"] == [
        "reaches 0.020M tokens, no domain runs dry"
    ]
    run(made, until="utility")
    run(recipe(corpora, tmp_path / "w", {"min_weight": 1.0, "top": 0.3}), until="utility")
    first, second = (tmp_path / "w" / "artifacts").glob("utility-*")
    inodes = [{p.name: p.stat().st_ino for p in f.glob("scores-*")} for f in (first, second)]
    assert len(inodes[0]) == 2
    assert inodes[0] == inodes[1]
    weights = rows_of(tmp_path / "w", "select min(weight), max(weight) from utility")
    assert weights == [(pytest.approx(1.0, rel=1e-4), 4.0)]
    renamed = tmp_path / "renamed.jsonl.gz"
    renamed.write_bytes((corpora / "target.jsonl.gz").read_bytes())
    made = recipe(corpora, tmp_path / "w", {"target": [str(renamed)]})
    stages = {p.stage.name: p for p in bind(stages_of(made), made.workdir)}
    assert stages["utility"].manifest is not None
    renamed.write_bytes(gzip.compress(b'{"text": "something else"}'))
    stages = {p.stage.name: p for p in bind(stages_of(made), made.workdir)}
    assert stages["utility"].manifest is None
    assert stages["encode"].manifest is not None


def test_weights_multiply(corpora, tmp_path):
    """Weights by utility and those of ``soft`` multiply; a bound of 0 erases only on demand."""
    value = resolved(recipe(corpora, tmp_path / "w", {"min_weight": 0.0}))
    value["mixture"]["soft"] = {"column": "n_chars"}
    run(from_dict(value), until="mixture")
    [folder] = (tmp_path / "w" / "artifacts").glob("mixture-*")
    found = rows_of(
        tmp_path / "w",
        "select soft_weight, u.weight * n_chars, copies from documents join utility u "
        f"using (doc_uid) join '{folder}/copies-00000.parquet' using (doc_uid)",
    )
    assert len(found) == 400
    for soft, wanted, copies in found:
        assert soft == pytest.approx(wanted, rel=1e-5)
        assert soft > 0 or copies == 0


def test_a_student_that_learns_nothing_is_left_out(tmp_path):
    """Where ranks are chance all weights are 1 and the run says so; strict ends it."""
    rng = random.Random(0)
    lines = [json.dumps({"text": f"{rng.random()} {rng.random()}"}) for _ in range(300)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "target.txt").write_text("nothing of this is in there")
    value = {
        "sources": [{"name": "a", "path": str(tmp_path / "a.jsonl")}],
        "mixture": {
            "tokens": 100,
            "unimax": True,
            "utility": {"target": [str(tmp_path / "*.txt")]},
        },
        "tokenizer": {"vocab_size": 600},
    }
    done = run(recipe_of(tmp_path, tmp_path / "w", **value), until="utility")
    [warning] = [w for w in done.warnings if "utility" in w]
    assert "mixture.utility has no effect" in warning
    assert "no better than chance" in warning
    weights = rows_of(tmp_path / "w", "select distinct weight from utility")
    assert weights == [(1.0,)]
    value["mixture"]["utility"]["strict"] = True
    with pytest.raises(RecordError, match="strict = true ends the run"):
        run(recipe_of(tmp_path, tmp_path / "v", **value), until="utility")


BROKEN = {
    "not json": ("x.jsonl", b'{"text": "a"}\n{"text": \n', "x.jsonl record 2: bad JSON"),
    "no key": ("x.jsonl", b'{"body": "a"}\n', "missing text .*mixture.utility.text"),
    "empty": ("x.jsonl", b"", "x.jsonl is empty"),
    "blank lines": ("x.jsonl", b"\n\n", "x.jsonl is empty"),
    "no word": ("x.jsonl", b'{"text": "..."}\n', "1 documents without a word"),
    "not parquet": ("x.parquet", b"PAR0", "unreadable file"),
    "cut short": ("x.jsonl.gz", gzip.compress(b'{"text": "a"}\n' * 999)[:30], "truncated stream"),
    "not UTF-8": ("x.txt", b"\xff\xfe\xff", "invalid UTF-8"),
    "no format": ("x.bin", b"abc", "no suffix of a known format"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_bad_targets_are_refused_before_work(corpora, tmp_path, name):
    """A target file that cannot be used is named with the key, what was found, and the remedy."""
    file, content, message = BROKEN[name]
    (tmp_path / file).write_bytes(content)
    made = recipe(corpora, tmp_path / "w", {"target": [str(tmp_path / file)]})
    with pytest.raises(RecordError, match=message) as error:
        run(made)
    assert str(error.value).startswith("mixture.utility.target")
    assert not (tmp_path / "w" / "artifacts").exists()


def test_missing_targets_and_bad_settings(corpora, tmp_path):
    """On the command line: exit code 3 for a file that is not there, 2 for wrong values."""
    text = f"""
name = "x"
workdir = "{tmp_path}/w"
[[sources]]
name = "a"
path = "{corpora}/a.jsonl"
[mixture]
tokens = 100
unimax = true
[mixture.utility]
"""
    path = tmp_path / "r.toml"
    cases = {
        'target = ["nowhere/*.jsonl"]': (3, "mixture.utility.target: nowhere/*.jsonl names no fil"),
        f'target = ["{tmp_path}"]': (3, "is a folder; name the files in it"),
        "target = []": (2, "mixture.utility.target"),
        "": (2, "mixture.utility.target"),
        'target = ["x"]\ntop = 1.5': (2, "mixture.utility.top"),
        'target = ["x"]\nmin_weight = 2.0': (2, "mixture.utility.min_weight"),
        'target = ["x"]\ntemperature = 2.0': (2, "temperature"),
    }
    for table, (code, message) in cases.items():
        path.write_text(text + table)
        result = CliRunner().invoke(app, ["run", str(path)])
        told = " ".join((result.stdout + result.stderr).split())
        assert result.exit_code == code, (table, told)
        assert message in told
    assert not (tmp_path / "w" / "artifacts").exists()


def test_parquet_targets_and_the_library(corpora, tmp_path):
    """The transform takes a Parquet target and another text column; the same fingerprint twice."""
    table = pa.table({"body": ["coping batter hearting", "a second text"]})
    pq.write_table(table, tmp_path / "t.parquet")
    settings = UtilitySettings(target=(str(tmp_path / "t.parquet"),), text="body")
    stage = MeasureUtility(settings, seed=3).stage
    assert isinstance(stage, UtilityStage)
    assert stage.target.documents == 2
    assert stage.target.tokens == 6
    other = UtilityStage.prepare(settings, IngestSettings(), 3)
    assert other.identity() == stage.identity()
    assert UtilityStage.prepare(settings, IngestSettings(), 4).identity() != stage.identity()

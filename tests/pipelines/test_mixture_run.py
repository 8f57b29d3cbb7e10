"""A mixture through whole runs: shares in the packed rows, accounts, proof, and what is refused."""

import json
import random
from dataclasses import replace

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to
from small_runs import digest, recipe_of, sentences

from catalog.explain import explain
from catalog.store import open_catalog
from packing.verify import verify
from pipelines.recipe import RecipeError, from_dict, load_recipe, resolved
from pipelines.run import run
from pipelines.stages import bind, plan, stages_of
from pipelines.steps.documents import ReadDocuments
from pipelines.steps.mixture import Mix
from transforms.record import RecordError


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Three sources of 60, 120 and 240 documents, some repeated; source ``a`` has a column."""
    folder = tmp_path_factory.mktemp("mixture")
    rng = random.Random(4)
    for name, count in (("a", 60), ("b", 120), ("c", 240)):
        texts = [sentences(rng, rng.randint(20, 120)) for _ in range(count)]
        texts += texts[:5] * 3
        lines = [
            json.dumps({"id": f"{name}{k}", "text": text, "score": k % 3, "label": "x"})
            for k, text in enumerate(texts)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return folder


def recipe(corpora, workdir, mixture, **changes):
    sources = [{"name": n, "path": str(corpora / f"{n}.jsonl"), "domain": f"d-{n}"} for n in "abc"]
    sources[0]["columns"] = {"score": "score", "label": "label"}
    return recipe_of(corpora, workdir, sources=sources, mixture=mixture, **changes)


def rows_of(workdir, sql):
    with open_catalog(workdir) as connection:
        return connection.sql(sql).fetchall()


WEIGHTS = {"d-a": 0.5, "d-b": 0.2, "d-c": 0.3}


def test_mixture_reaches_the_rows(corpora, tmp_path):
    """Packed tokens have the asked shares; accounts, catalog and verify agree; workers are free."""
    mixture = {"tokens": 60_000, "weights": WEIGHTS}
    made = recipe(corpora, tmp_path / "w", mixture)
    done = run(made)
    assert done.ingested == done.kept + sum(done.dropped.values())
    assert done.dropped["mixture"] > 0
    assert [s["stage"] for s in done.stages][-4:] == ["encode", "mixture", "pack", "balance"]
    assert done.tokens == pytest.approx(60_000, rel=0.01)
    got, copies = {}, {}
    for path in sorted((tmp_path / "w" / done.dataset).glob("rows-*.parquet")):
        for row in pq.read_table(path).to_pylist():
            for uid, copy, n in zip(
                row["doc_uid"], row["doc_copy"], np.diff(row["cu_seqlens"]).tolist(), strict=True
            ):
                got[uid] = got.get(uid, 0) + n
                copies[uid] = max(copies.get(uid, 0), copy + 1)
    listed = rows_of(
        tmp_path / "w",
        "select doc_uid, domain, copies, kept, reason, n_tokens "
        "from selection join documents using (doc_uid) left join tokens using (doc_uid)",
    )
    share = dict.fromkeys(WEIGHTS, 0)
    for uid, domain, asked, kept, reason, n_tokens in listed:
        assert kept == (asked > 0) == (uid in got)
        assert copies.get(uid, 0) == asked <= 4
        assert kept or reason in ("mixture", "dedupe.exact")
        if kept:
            assert got[uid] == asked * n_tokens
            share[domain] += got[uid]
    for domain, tokens in share.items():
        assert tokens / done.tokens == pytest.approx(WEIGHTS[domain], abs=0.005)
    report = rows_of(tmp_path / "w", "select domain, tokens from mixture order by domain")
    assert dict(report) == share
    findings = verify(tmp_path / "w" / done.dataset)
    assert not findings.failed
    assert "every selected token is placed once per copy" not in findings.unproved
    # The same bytes with one worker, in another work directory.
    other = recipe(corpora, tmp_path / "v", mixture, runner={"kind": "local", "workers": 1})
    again = run(other)
    assert again.fingerprint == done.fingerprint
    assert digest(tmp_path / "v" / again.dataset) == digest(tmp_path / "w" / done.dataset)
    # Another number of copies is found out.
    [folder] = (tmp_path / "v" / "artifacts").glob("mixture-*")
    path = folder / "copies-00000.parquet"
    table = pq.read_table(path)
    more = table["copies"].to_numpy().copy()
    more[more.argmax()] += 1
    pq.write_table(table.set_column(1, "copies", [more]), path)
    assert (
        "every selected token is placed once per copy"
        in verify(tmp_path / "v" / again.dataset).failed
    )


def test_plan_and_run_say_what_runs_dry(corpora, tmp_path):
    """A domain that lacks tokens is capped, the rest goes to the others; plan says so beforehand."""
    mixture = {"tokens": 80_000, "max_epochs": 2, "weights": {"d-a": 0.9, "d-c": 0.1}}
    made = recipe(corpora, tmp_path / "w", mixture, pack={"seq_len": 90, "long": "drop"})
    assert [line.note for line in plan(made) if line.stage == "mixture"] == [""]
    run(made, until="ingest")
    [guess] = [line.note for line in plan(made) if line.stage == "mixture"]
    assert guess.endswith("an estimate, by 4 bytes of text a token, before duplicates are removed")
    assert "d-a runs dry" in guess
    assert "leaves out d-b" in guess
    run(made, until="encode")
    [note] = [line.note for line in plan(made) if line.stage == "mixture"]
    done = run(made)
    assert "an estimate" not in note
    assert "d-a runs dry" in note
    assert "leaves out d-b" in note
    assert all(part in done.warnings for part in note.split("; "))
    assert done.ingested == done.kept + sum(done.dropped.values())
    assert done.dropped["too long"] > 0
    [(epochs,)] = rows_of(tmp_path / "w", "select epochs from mixture where domain = 'd-a'")
    assert epochs == 2
    [(tokens,)] = rows_of(tmp_path / "w", "select sum(tokens) from mixture")
    assert tokens == done.tokens
    reasons = dict(
        rows_of(tmp_path / "w", "select reason, count(*) from selection where not kept group by 1")
    )
    assert reasons == done.dropped
    assert not verify(tmp_path / "w" / done.dataset).failed


def test_soft_weights(corpora, tmp_path):
    """Frequency counts the duplicates a document stands for; a column of 0 is never drawn."""
    mixture = {
        "tokens": 20_000,
        "unimax": True,
        "soft": {"frequency": 1.0, "column": "score", "missing": 1.0},
    }
    run(recipe(corpora, tmp_path / "w", mixture), until="mixture")
    found = rows_of(
        tmp_path / "w",
        "select id, coalesce(score, 1), copies, reason "
        "from documents join selection using (doc_uid) where reason is distinct from "
        "'dedupe.exact'",
    )
    assert all((score > 0) or (copies == 0 and why == "mixture") for _, score, copies, why in found)
    [folder] = (tmp_path / "w" / "artifacts").glob("mixture-*")
    weights = rows_of(
        tmp_path / "w",
        f"select id, soft_weight from documents join '{folder}/copies-00000.parquet' "
        "using (doc_uid)",
    )
    assert len(weights) == len(found)
    by_id = dict(weights)
    assert len([w for name, w in weights if name[0] != "a" and w == 4]) == 10
    assert sorted(w for name, w in weights if name[0] == "b")[:-5] == [1] * 115
    assert {w for name, w in by_id.items() if name[0] == "a"} <= {0, 1, 2, 4, 8}


def test_library_and_explain(corpora, tmp_path):
    """The transform drops for `ReadDocuments` what it does not draw; explain says why."""
    made = recipe(corpora, tmp_path / "w", {"tokens": 9_000, "weights": {"d-a": 0.5, "d-b": 0.5}})
    run(made, until="mixture")
    kept = rows_of(tmp_path / "w", "select doc_uid from selection where kept")
    corpus = bind(stages_of(made)[:4], made.workdir)[-1].after
    with beam.Pipeline("FnApiRunner") as pipeline:
        rows = (
            pipeline
            | beam.Create([corpus], reshuffle=False)
            | Mix(made.mixture, seed=made.seed)
            | ReadDocuments()
        )
        assert_that(rows | beam.Map(lambda row: row["doc_uid"]), equal_to([u for (u,) in kept]))
    [(gone,)] = rows_of(
        tmp_path / "w",
        "select id from documents join selection using (doc_uid) "
        "where reason = 'mixture' and domain = 'd-b' limit 1",
    )
    told = explain(tmp_path / "w", gone)
    assert "drawn from the domain d-b, which is drawn 0." in told.decisions[-1].detail


def test_weights_in_the_loss(corpora, tmp_path):
    """With ``apply = "loss"`` documents are drawn alike, and their targets carry their weights."""
    mixture = {
        "tokens": 60_000,
        "weights": WEIGHTS,
        "soft": {"column": "score", "power": 2.0, "apply": "loss"},
    }
    done = run(recipe(corpora, tmp_path / "w", mixture, pack={"seq_len": 200}))
    dataset = tmp_path / "w" / done.dataset
    weight = dict(rows_of(tmp_path / "w", "select doc_uid, weight from selection"))
    assert set(weight.values()) == {0.0, 1.0, 4.0}
    seen = set()
    for path in sorted(dataset.glob("rows-*.parquet")):
        for row in pq.read_table(path).to_pylist():
            bounds = row["cu_seqlens"]
            trained = np.ones(row["n_tokens"] + 1)
            if row["loss_spans"] is not None:
                trained[:] = 0
                for span in row["loss_spans"]:
                    trained[span["start"] : span["end"]] = span["weight"]
            for k, uid in enumerate(row["doc_uid"]):
                stop = bounds[k + 1] + (row["next_token"][k] >= 0)
                assert (trained[bounds[k] + 1 : stop] == weight[uid]).all()
                seen.add(weight[uid])
    assert seen == {1.0, 4.0}
    assert not verify(dataset).failed
    # Another weight is found out.
    [folder] = (tmp_path / "w" / "artifacts").glob("mixture-*")
    path = folder / "copies-00000.parquet"
    table = pq.read_table(path)
    other = table["weight"].to_numpy().copy()
    other[other == 4] = 3
    pq.write_table(table.set_column(2, "weight", [other]), path)
    assert "loss spans are those of the tokens artifact" in verify(dataset).failed


def test_refused_before_work(corpora, tmp_path):
    """Unknown domains and columns, and weights that do not add up, are mistakes in the recipe."""
    value = resolved(recipe(corpora, tmp_path / "w", {"tokens": 9, "weights": WEIGHTS}))
    value["mixture"]["weights"] = {"d-a": 0.5, "d-x": 0.5}
    with pytest.raises(ValueError, match=r'mixture\.weights\.d-x: "d-x" is no domain'):
        from_dict(value)
    text = f"""
name = "x"
[[sources]]
name = "a"
path = "{corpora}/a.jsonl"
[mixture]
tokens = 100
[mixture.weights]
b = 0.5
a = 0.6
[mixture.soft]
column = "scor"
"""
    path = tmp_path / "r.toml"
    path.write_text(text)
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    lines = "\n".join(error.value.problems)
    for part in ("add up to 1.1", '"b" is no domain', '"scor" is no column'):
        assert part in lines
    assert not (tmp_path / "w").exists()


def test_refused_column_of_text(corpora, tmp_path):
    """A soft weight from a column that holds no numbers ends the run with its name."""
    mixture = {"tokens": 100, "unimax": True, "soft": {"column": "label"}}
    with pytest.raises(RecordError, match="'label' is string"):
        run(recipe(corpora, tmp_path / "w", mixture), until="mixture")


def test_recipes_without_mixture_keep_their_fingerprints(corpora, tmp_path):
    """The stages' fingerprints of a recipe without the table do not know of it."""
    made = recipe(corpora, tmp_path / "w", {"tokens": 100, "unimax": True})
    plain = replace(made, mixture=None)
    with_mixture = {p.stage.name: p for p in bind(stages_of(made), made.workdir)}
    without = {p.stage.name: p for p in bind(stages_of(plain), plain.workdir)}
    assert "mixture" not in without
    assert without["encode"].fingerprint == with_mixture["encode"].fingerprint
    assert without["pack"].fingerprint != with_mixture["pack"].fingerprint
    assert without["pack"].before.parents("encode", "mixture").keys() == {"encode"}

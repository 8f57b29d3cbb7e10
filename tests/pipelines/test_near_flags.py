"""Clusters of near-duplicates that take much of a source: flagged, counted apart, named."""

import json
from collections import Counter

import pytest
from small_runs import recipe_of

from catalog.store import query
from pipelines.run import run


def page(*words):
    return " ".join([*(f"w{k}" for k in range(40)), *words])


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Source a: 60 of 200 are like one page, 8 like another; source b: 12 of 20 like the first."""
    folder = tmp_path_factory.mktemp("flags")
    unlike = iter(range(10_000))
    other = " ".join(f"z{k}" for k in range(40))
    texts = {
        "a": [page(f"x{k}") for k in range(60)] + [f"{other} x{k}" for k in range(9)],
        "b": [page(f"y{k}") for k in range(12)],
    }
    for name, size in (("a", 200), ("b", 20)):
        while len(texts[name]) < size:
            texts[name].append(" ".join(f"u{next(unlike)}" for _ in range(20)))
        lines = [json.dumps({"id": f"{name}{k}", "text": t}) for k, t in enumerate(texts[name])]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return folder


def job(corpus, workdir, names, near, **against):
    sources = [{"name": n, "path": str(corpus / f"{n}.jsonl")} for n in names]
    return recipe_of(corpus, workdir, sources=sources, dedupe={"near": near, **against})


def flags(workdir):
    return query(workdir, "SELECT * FROM flagged_clusters").to_pylist()


def test_flags_are_what_the_ledger_adds_up_to(corpus, tmp_path):
    """Each cluster and source above share and floor, and no other, with counts from the ledger."""
    done = run(job(corpus, tmp_path, "ab", {"flag_least": 9}), until="dedupe.near")
    sql = "SELECT x.cluster, d.source FROM duplicates x JOIN documents d USING (doc_uid)"
    counts = Counter((r["cluster"], r["source"]) for r in query(tmp_path, sql).to_pylist())
    assert sorted(counts.values()) == [8, 12, 59]
    found = flags(tmp_path)
    assert [(f["source"], f["removed"], f["documents"]) for f in found] == [
        ("a", 59, 200),
        ("b", 12, 20),
    ]
    for flag in found:
        assert counts[flag["cluster"], flag["source"]] == flag["removed"]
        assert flag["share"] == flag["removed"] / flag["documents"]
        # Longest first, then the lowest id bytewise.
        assert (flag["keeper_source"], flag["keeper_id"]) == ("a", "a10")
        assert flag["keeper_ingest"] is None
    [warning] = [w for w in done.warnings if "near-duplicates" in w]
    assert "2 clusters" in warning
    assert "59 of 200 documents of a (29.5%) for a10 of a" in warning


@pytest.mark.parametrize(
    ("near", "expected"),
    [({"flag_least": 60}, []), ({"flag_share": 0.3, "flag_least": 1}, ["b"])],
    ids=["floor", "share"],
)
def test_share_and_floor(corpus, tmp_path, near, expected):
    """Neither a small number nor a small share is flagged; without a flag nothing is warned of."""
    done = run(job(corpus, tmp_path, "ab", near), until="dedupe.near")
    assert [flag["source"] for flag in flags(tmp_path)] == expected
    assert bool([w for w in done.warnings if "near-duplicates" in w]) == bool(expected)


def test_a_keeper_of_an_earlier_run_is_named(corpus, tmp_path):
    """Of source b against a: the flag has the id that the keeper has there."""
    run(job(corpus, tmp_path / "a", "a", {}), until="dedupe.near")
    against = {"against": [str(tmp_path / "a")]}
    run(job(corpus, tmp_path / "b", "b", {"flag_least": 5}, **against), until="dedupe.near")
    [flag] = flags(tmp_path / "b")
    assert (flag["removed"], flag["keeper_source"], flag["keeper_id"]) == (12, "a", "a10")
    assert flag["keeper_ingest"] is not None
    assert flag["cluster"] < 0

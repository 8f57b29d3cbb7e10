"""diff: settings, stages, counts and documents of two runs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.diff import diff, flatten
from catalog.ingest import rebuild
from catalog.store import QueryError


def test_flattening_names_every_leaf():
    """Tables in lists go by name, or number; plain lists and nulls are leaves."""
    recipe = {
        "seed": 7,
        "sources": [{"name": "web", "path": "a", "columns": {"edu": "x"}}, {"path": "b"}],
        "dedupe": {"exact": None, "list": [1, 2]},
    }
    assert flatten(recipe) == {
        "seed": 7,
        "sources.web.name": "web",
        "sources.web.path": "a",
        "sources.web.columns.edu": "x",
        "sources.1.path": "b",
        "dedupe.exact": None,
        "dedupe.list": [1, 2],
    }
    assert flatten(None) == {}


leaves = st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
keys = st.text("abc", min_size=1, max_size=2)


@given(st.dictionaries(keys, leaves | st.dictionaries(keys, leaves, min_size=1), max_size=4))
def test_flattening_loses_nothing(value):
    """As many leaves as the tree has, each reachable by its dotted key."""
    for key, leaf in flatten(value).items():
        found = value
        for part in key.split("."):
            found = found[part]
        assert found == leaf
    count = sum(len(v) if isinstance(v, dict) else 1 for v in value.values())
    assert len(flatten(value)) == count


def second_run(mini, make_world, change, **options):
    """Write a second run over the same documents, changed; returns its world."""
    world = make_world()
    change(world)
    recipe = {"name": "mini", "seed": 8, "pack": {"seq_len": 16, "long": "drop"}}
    stages = mini.workdir.world(world, mark="b", **options)
    mini.workdir.run("second", stages, day=2, recipe=recipe, kept=3, dropped={"empty": 2})
    rebuild(mini.path)
    return world


def test_documents_added_removed_and_changed_are_counted(mini, make_world):
    """By source and id: what came, what went, what has another text, what is decided otherwise."""
    first = mini.world

    def change(world):
        del world.docs[:5]
        kept = [d for d in world.docs if d.fate == "kept" and d.n_tokens]
        for doc in kept[:3]:
            doc.text += " and more"
        for doc in kept[3:7]:
            doc.fate, doc.n_tokens = "empty", 0
        for doc in kept[7:9]:
            doc.extra["_new_id"] = f"new {doc.id}"

    second = second_run(mini, make_world, change)
    a = {(d.source, d.new_id): d for d in first.ingested}
    b = {(d.source, d.new_id): d for d in second.ingested}
    both = a.keys() & b.keys()
    text = {k for k in both if a[k].exact_hash != b[k].exact_hash}
    selection = {k for k in both - text if a[k].fate != b[k].fate}
    found = diff(mini.path, mini.run_id, "second", examples=4)
    for change, truth in (
        (found.documents.added, b.keys() - a.keys()),
        (found.documents.removed, a.keys() - b.keys()),
        (found.documents.text_changed, text),
        (found.documents.selection_changed, selection),
    ):
        assert truth
        assert change.count == len(truth)
        shown = [(r["source"], r["id"]) for r in change.examples]
        assert shown == sorted(truth)[:4]
    example = found.documents.selection_changed.examples[0]
    before = a[example["source"], example["id"]]
    assert (example["kept_a"], example["kept_b"]) == (before.fate == "kept", False)
    assert example["uid_a"] == before.uid
    back = diff(mini.path, "second", mini.run_id)
    assert back.documents.added.count == found.documents.removed.count
    assert json.loads(json.dumps(found.to_json()))["run_b"] == "second"


def test_settings_stages_and_counts_are_compared(mini, make_world):
    """Keys that differ, with null where absent; fingerprints of all stages; counts by reason."""
    second_run(mini, make_world, lambda world: None, until="pack")
    found = diff(mini.path, mini.run_id, "second")
    assert found.config == {
        "seed": (7, 8),
        "ingest.min_chars": (1, None),
        "sources.web.name": ("web", None),
        "sources.web.path": ("a/*.jsonl", None),
        "sources.books.name": ("books", None),
        "sources.books.path": ("*.txt", None),
    }
    assert list(found.stages) == list(mini.stages)
    assert found.stages["balance"] == (mini.stages["balance"], None)
    assert all(a != b for a, b in found.stages.values())
    fates = [d.fate for d in mini.world.ingested]
    assert found.counts["kept"] == (fates.count("kept"), 3)
    assert found.counts["dropped.empty"] == (fates.count("empty"), 2)
    assert found.counts["dropped.too long"] == (fates.count("too long"), None)
    assert "cpu_s" not in found.counts


def test_runs_over_the_same_documents_differ_in_the_selection_alone(mini):
    """With the same ingest artifact nothing is added or removed; a run equals itself."""
    stages = {name: mini.stages[name] for name in ("ingest", "dedupe.exact")}
    mini.workdir.run("short", stages, day=2)
    rebuild(mini.path)
    found = diff(mini.path, mini.run_id, "short").documents
    assert (found.added.count, found.removed.count, found.text_changed.count) == (0, 0, 0)
    changed = [d for d in mini.world.ingested if d.fate in ("empty", "too long")]
    assert found.selection_changed.count == len(changed)
    same = diff(mini.path, mini.run_id, mini.run_id)
    assert (same.config, same.counts) == ({}, {})
    assert same.documents.selection_changed.count == 0


def test_a_failed_run_is_compared_without_documents(mini):
    """Settings and stages differ; there are no documents to compare. An unknown run is refused."""
    mini.workdir.run("bad", {"ingest": mini.stages["ingest"]}, day=2, status="failed")
    rebuild(mini.path)
    found = diff(mini.path, mini.run_id, "bad")
    assert found.documents is None
    assert found.stages["ingest"] == (mini.stages["ingest"],) * 2
    with pytest.raises(QueryError, match="no run 'nix'; list them with"):
        diff(mini.path, mini.run_id, "nix")

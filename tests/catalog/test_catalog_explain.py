"""explain: every decision about one document, and help where there is no such document."""

import json

import pytest

from catalog.explain import explain
from catalog.ingest import rebuild
from catalog.store import CatalogError

STAGES = ["ingest", "dedupe.exact", "encode", "pack"]
DROPPED_AT = {"under min_chars": 0, "dedupe.exact": 1, "empty": 2, "too long": 3, "kept": 4}


def test_every_document_is_explained_as_it_was_decided(standing):
    """Of every fate: decisions up to the last, keeper, losers, tokens and places."""
    world = standing.world
    seen: dict[str, int] = {}
    for doc in sorted(world.ingested, key=lambda d: -sum(o.keeper is d for o in world.docs)):
        seen[doc.fate] = seen.get(doc.fate, 0) + 1
        if seen[doc.fate] > (4 if doc.fate == "kept" else 1):
            continue
        told = explain(standing.path, doc.new_id, source=doc.source)
        assert told.found
        assert (told.document["doc_uid"], told.document["id"]) == (doc.uid, doc.new_id)
        assert told.kept == (doc.fate == "kept")
        assert told.reason == (None if doc.fate == "kept" else doc.fate)
        last = DROPPED_AT[doc.fate]
        assert [d.stage for d in told.decisions] == STAGES[: last + 1]
        assert [d.kept for d in told.decisions] == [n < last for n in range(min(last + 1, 4))]
        if doc.fate != "kept":
            assert told.decisions[-1].reason == doc.fate
        measured = told.decisions[0]
        assert (measured.measure, measured.score) == ("n_chars", len(doc.text))
        assert measured.threshold == 1
        keeper = doc.keeper
        assert (told.keeper or {}).get("doc_uid") == (keeper.uid if keeper else None)
        if keeper:
            assert (told.keeper["id"], told.keeper["source"]) == (keeper.new_id, keeper.source)
            assert told.keeper["cluster_size"] == 1 + sum(d.keeper is keeper for d in world.docs)
        losers = [d.uid for d in world.docs if d.keeper is doc]
        assert told.n_lost_to_it == len(losers)
        assert [r["doc_uid"] for r in told.lost_to_it] == sorted(losers)[:10]
        encoded = doc.fate in ("kept", "empty", "too long")
        assert told.n_tokens == (doc.n_tokens if encoded else None)
        pieces = {
            (p["row_id"], doc.uid, p["copy"], p["token_start"], p["token_end"], p["row_offset"])
            for p in told.placements
        }
        assert pieces == {p for p in world.placements() if p[1] == doc.uid}
        for piece in told.placements:
            row = piece["row_id"]
            assert (piece["step"], piece["slot"], piece["rank"]) == (row // 2, 0, row % 2)
        assert json.loads(json.dumps(told.to_json()))["document"]["id"] == doc.new_id
    assert set(seen) == set(DROPPED_AT)


def test_what_befell_its_rows_in_training(mini):
    """Events of the trainer that name a row of the document are told; those of other rows are not."""
    placed = sorted(mini.world.placements())
    row, uid = placed[0][0], placed[0][1]
    other = next(p[0] for p in placed if p[0] not in {q[0] for q in placed if q[1] == uid})
    log = mini.path / "runs" / mini.run_id / "training.jsonl"
    events = [
        {"out": "o", "step": 3, "event": "start", "row_id": None},
        {"out": "o", "step": 7, "event": "spike", "row_id": row, "detail": "loss 9 is above 5"},
        {"out": "o", "step": 7, "event": "spike", "row_id": other, "detail": "loss 9 is above 5"},
    ]
    log.write_text("".join(json.dumps(e) + "\n" for e in events))
    try:
        told = explain(mini.path, uid)
    finally:
        log.write_text("")

    assert told.training == [events[1]]


def test_a_document_is_found_by_its_address_too(mini):
    """doc_uid as a number or as digits; an id of digits comes before an address."""
    doc = mini.world.ingested[5]
    for asked in (doc.uid, str(doc.uid)):
        assert explain(mini.path, asked).document["id"] == doc.new_id
    assert not explain(mini.path, 5).found
    assert not explain(mini.path, "9" * 19).found
    other = mini.world.ingested[6]
    other.extra["_new_id"] = str(doc.uid)
    mini.workdir.run("second", mini.workdir.world(mini.world, mark="2"), day=2)
    rebuild(mini.path)
    assert explain(mini.path, str(doc.uid)).document["doc_uid"] == other.uid
    assert explain(mini.path, doc.uid).document["doc_uid"] == doc.uid


def test_an_id_of_several_sources_lists_them(mini):
    """Namesakes are candidates; naming the source, or the address, chooses."""
    one = next(d for d in mini.world.ingested if d.source == "web" and d.fate == "kept")
    two = next(d for d in mini.world.ingested if d.source == "books")
    one.extra["_new_id"] = two.extra["_new_id"] = "same ' id"
    mini.workdir.run("second", mini.workdir.world(mini.world, mark="2"), day=2)
    rebuild(mini.path)
    told = explain(mini.path, "same ' id")
    assert not told.found
    assert told.decisions == []
    assert [(c["source"], c["doc_uid"]) for c in told.candidates] == [
        ("books", two.uid),
        ("web", one.uid),
    ]
    assert explain(mini.path, "same ' id", source="web").document["doc_uid"] == one.uid
    # The run chooses too: in the first one only one document had such an id, under another name.
    assert explain(mini.path, "same ' id", mini.run_id).candidates == []


def test_an_unknown_id_gets_near_ones_and_the_rejects_of_its_file(standing):
    """Did you mean: ids in order of likeness; and lines of the same file that were rejected."""
    doc = standing.world.ingested[3]
    told = explain(standing.path, doc.new_id.upper() + "x")
    assert not told.found
    assert doc.uid in [s["doc_uid"] for s in told.suggestions[:3]]
    assert len(told.suggestions) <= 10
    told = explain(standing.path, "a/bad.jsonl#6")
    assert [(r["line"], r["reason"]) for r in told.rejects] == [(7, "bad JSON"), (3, "bad JSON")]
    assert [r["line"] for r in explain(standing.path, "bad.jsonl").rejects] == [3, 7]
    assert explain(standing.path, "zzzz").suggestions == []
    assert explain(standing.path, "zzzz%").rejects == []
    assert explain(standing.path, doc.new_id, source="nowhere").document is None


def test_a_run_that_stopped_early_is_explained_as_far_as_it_went(workdir, make_world):
    """No tokens, no places, no decision of a stage that did not run."""
    world = make_world()
    workdir.run("r", workdir.world(world, until="dedupe.exact"))
    rebuild(workdir.path)
    doc = next(d for d in world.docs if d.fate == "kept")
    told = explain(workdir.path, doc.uid)
    assert told.kept
    assert [d.stage for d in told.decisions] == ["ingest", "dedupe.exact"]
    assert (told.n_tokens, told.placements, told.spans) == (None, [], [])


def test_without_a_good_run_there_is_nothing_to_explain(workdir):
    """A catalog without runs says so."""
    workdir.run("bad", {}, status="failed")
    rebuild(workdir.path)
    with pytest.raises(CatalogError, match="no run that ended well"):
        explain(workdir.path, "x")

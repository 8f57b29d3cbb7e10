"""New sources against what earlier runs accepted: the same as one run with the old ones first."""

import json
import random
import shutil

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from small_runs import digest, recipe_of

from catalog.explain import explain
from catalog.store import open_catalog
from pipelines.against import newest_run
from pipelines.artifacts import StorageError
from pipelines.corpus import Corpus
from pipelines.recipe import RecipeError, from_dict, resolved
from pipelines.run import run
from pipelines.stages import plan
from pipelines.steps.dedupe import ExactDedupe
from pipelines.steps.documents import IngestDocuments, ReadDocuments
from pipelines.steps.earlier import reading
from pipelines.steps.near import NearDedupe
from transforms.minhash import NearSettings

BOTH = {"exact": {}, "near": {"threshold": 0.7, "bands": 40}}


def make_texts(rng, known, n):
    """Half new texts, the others copies and edits (some re-cased) of those before them."""
    made = []
    for _ in range(n):
        before = known + made
        if before and rng.random() < 0.65:
            words = rng.choice(before).split(" ")
            for _ in range(rng.choice([0, 0, 0, 1, 1, 2, 4])):
                words[rng.randrange(len(words))] = f"e{rng.randrange(400)}"
            if rng.random() < 0.2:
                words = [word.upper() for word in words]
            made.append(" ".join(words))
        else:
            made.append(" ".join(f"w{rng.randrange(3000)}" for _ in range(rng.randint(3, 120))))
    return made


def write_sources(folder, seed, sizes):
    """Write a jsonl folder per source; texts of later sources copy from those of earlier ones."""
    rng, known, sources = random.Random(seed), [], {}
    for name, size in sizes.items():
        texts = make_texts(rng, known, size)
        known += texts
        (folder / name).mkdir(parents=True)
        for part in range(2):
            lines = [
                json.dumps({"id": f"{name}-{k}", "text": texts[k]}) for k in range(part, size, 2)
            ]
            (folder / name / f"{part}.jsonl").write_text("\n".join(lines) + "\n")
        sources[name] = {"name": name, "path": str(folder / name / "*.jsonl")}
    return sources


def job(sources, workdir, against=(), dedupe=BOTH, **changes):
    listed = {"against": [str(folder) for folder in against]} if against else {}
    changes = {"sources": sources, "dedupe": {**dedupe, **listed}, **changes}
    return recipe_of(workdir, workdir, **changes)


def dedupe(sources, workdir, against=(), **changes):
    return run(job(sources, workdir, against, **changes), until="dedupe.near")


def kept(workdir):
    with open_catalog(workdir) as catalog:
        sql = "SELECT source, id FROM documents JOIN selection USING (doc_uid) WHERE kept"
        return set(catalog.sql(sql).fetchall())


def ledger(workdir):
    """Return id -> row of `duplicates`, with the id of a keeper of this run."""
    sql = (
        "SELECT d.id, x.*, k.id AS keeper FROM duplicates x JOIN documents d USING (doc_uid) LEFT "
        "JOIN documents k ON k.doc_uid = x.keeper_uid AND x.keeper_ingest IS NULL"
    )
    with open_catalog(workdir) as catalog:
        return {row["id"]: row for row in catalog.sql(sql).to_arrow_table().to_pylist()}


def counters(workdir, stage="dedupe.near"):
    folders = workdir.glob(f"artifacts/{stage}-*/manifest.json")
    newest = max(folders, key=lambda path: path.stat().st_mtime)
    return json.loads(newest.read_text())["counters"]


def ingested(workdir):
    """Return (ingest fingerprint, doc_uid) -> id."""
    found = {}
    for path in workdir.glob("artifacts/ingest-*/manifest.json"):
        mark = json.loads(path.read_text())["fingerprint"]
        for file in path.parent.glob("[0-9a-f]*.parquet"):
            table = pq.read_table(file, columns=["doc_uid", "id"])
            ids = zip(table["doc_uid"].to_pylist(), table["id"].to_pylist(), strict=True)
            found |= {(mark, uid): name for uid, name in ids}
    return found


SIZES = {"a1": 90, "a2": 60, "b1": 110, "c1": 40, "c2": 60}


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Three work directories, each against those before it, and one run over everything."""
    folder = tmp_path_factory.mktemp("against")
    sources = write_sources(folder / "in", 3, SIZES)
    a, b, c = ([sources[n] for n in sources if n[0] == letter] for letter in "abc")
    done = {
        "a": dedupe(a, folder / "a"),
        "b": dedupe(b, folder / "b", [folder / "a"]),
        "c": dedupe(c, folder / "c", [folder / "a", folder / "b"]),
        "all": dedupe([*a, *b, *c], folder / "all"),
    }
    return folder, sources, done


def test_a_chain_of_increments_keeps_what_one_run_keeps(chain):
    """C against A and B, B against A: together they keep what one run over A, B, C keeps."""
    folder, _, done = chain
    parts = [kept(folder / name) for name in "abc"]
    assert set().union(*parts) == kept(folder / "all")
    assert sum(map(len, parts)) == done["all"].kept
    for name in "bc":
        assert sum(done[name].dropped.values()) > 30
        assert counters(folder / name)["removed against earlier runs"] > 20
        assert counters(folder / name, "dedupe.exact")["removed against earlier runs"] > 5
        accounts = done[name]
        assert accounts.ingested == accounts.kept + sum(accounts.dropped.values())


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("exact", 0),
        ("near", 1),
        *(pytest.param("near", n, marks=pytest.mark.slow) for n in range(9)),
    ],
)
def test_one_kind_alone(tmp_path, kind, seed):
    """With one of the two stages: new documents kept as in one run with the old ones first."""
    sources = write_sources(tmp_path / "in", seed, {"a": 100, "b": 100})
    for name, wanted, against in (("a", "a", ()), ("b", "b", ["a"]), ("ab", "ab", ())):
        folders = [tmp_path / other for other in against]
        listed = [sources[n] for n in wanted]
        made = job(listed, tmp_path / name, folders, dedupe={kind: BOTH[kind]})
        run(made, until=f"dedupe.{kind}")
    assert kept(tmp_path / "a") | kept(tmp_path / "b") == kept(tmp_path / "ab")
    assert counters(tmp_path / "b", f"dedupe.{kind}")["removed against earlier runs"] > 5


def test_the_ledger_names_the_keeper_where_it_is(chain):
    """Each removed document has a kept keeper, here or in the work directory that is named."""
    folder, _, _ = chain
    where = {name: ingested(folder / name) for name in "ab"}
    stays = {name: {doc for _, doc in kept(folder / name)} for name in "abc"}
    rows = ledger(folder / "c")
    assert {row["keeper_ingest"] is None for row in rows.values()} == {True, False}
    sizes = {}
    for row in rows.values():
        if row["keeper_ingest"] is None:
            # Of equal texts the first may have lost to a similar one.
            assert row["keeper"] in stays["c"] or row["kind"] == "exact"
            assert row["cluster"] == row["keeper_uid"]
            continue
        key = (row["keeper_ingest"], row["keeper_uid"])
        [home] = [name for name in "ab" if key in where[name]]
        assert where[home][key] in stays[home]
        assert row["cluster"] < 0
        assert row["jaccard"] >= 0.7
        sizes.setdefault((row["kind"], row["cluster"]), []).append((row["cluster_size"], key))
    for members in sizes.values():
        assert {size for size, _ in members} == {len(members) + 1}
        assert len({key for _, key in members}) == 1


def test_old_texts_are_read_for_candidates_alone(chain):
    """No pair of two old documents is made, and fewer old texts are read than there are."""
    folder, _, done = chain
    found = counters(folder / "c")
    assert 0 < found["earlier texts read"] < (done["a"].kept + done["b"].kept) / 2
    assert found["earlier texts read"] <= found["candidate pairs"]


@pytest.mark.parametrize(
    "runner",
    [{"workers": 1}, {"workers": 4, "shuffle": "runner"}],
    ids=["1 worker", "runner shuffle"],
)
def test_workers_shuffle_and_place_change_no_byte(chain, tmp_path, runner, monkeypatch):
    """The same bytes for any workers, both shuffles and small tables, and with moved old folders."""
    folder, sources, done = chain
    for name in "ab":
        shutil.copytree(folder / name, tmp_path / name)
    if runner["workers"] == 4:
        monkeypatch.setattr("pipelines.steps.near_sets._SET_LIMIT", 500)
        # All band keys are sent, not only those that a new document may have.
        assert done["a"].kept + done["b"].kept > SIZES["c1"] + SIZES["c2"]
        monkeypatch.setattr("pipelines.steps.near_search._MOST_SOUGHT", 0)
    own = [sources[n] for n in sources if n[0] == "c"]
    against = [tmp_path / "a", tmp_path / "b"]
    dedupe(own, tmp_path / "c", against, runner={"kind": "local", **runner})
    for stage in ("dedupe.exact", "dedupe.near"):
        one, two = ([*w.glob(f"artifacts/{stage}-*")] for w in (folder / "c", tmp_path / "c"))
        assert [path.name for path in one] == [path.name for path in two]
        assert digest(one[0]) == digest(two[0])


def test_many_partitions_keep_the_same(chain, tmp_path, monkeypatch):
    """Small partitions in both stages: the same removals for the same keepers."""
    folder, sources, _ = chain
    for name in ("near_pairs", "near_search"):
        monkeypatch.setattr(f"pipelines.steps.{name}.ROWS_PER_TABLE", 500)
    for name in ("dedupe", "near_search"):
        few = lambda rows, *, rows_each=30: max(1, rows // rows_each)  # noqa: E731
        monkeypatch.setattr(f"pipelines.steps.{name}.partitions_for", few)
    own = [sources[n] for n in sources if n[0] == "c"]
    dedupe(own, tmp_path, [folder / "a", folder / "b"])
    assert len([*tmp_path.glob("artifacts/dedupe.exact-*/*.parquet")]) > 1
    assert ledger(tmp_path) == ledger(folder / "c")


def test_the_same_files_again(chain, tmp_path):
    """A source that was accepted before has equal addresses there and here, and nothing of it stays."""
    folder, sources, done = chain
    again = dedupe([sources["a1"], sources["c1"]], tmp_path, [folder / "a"])
    rows = ledger(tmp_path)
    mark = newest_run(folder / "a").ingest
    old = ingested(folder / "a")
    stays = {name for _, name in kept(folder / "a")}
    for k in range(SIZES["a1"]):
        row = rows[f"a1-{k}"]
        if row["keeper_ingest"] is None:
            # Equal to another one here, which then lost to a similar one there.
            assert row["kind"] == "exact"
            assert row["keeper"] in rows
            continue
        assert row["keeper_ingest"] == mark
        assert old[mark, row["keeper_uid"]] in stays
        assert (row["keeper_uid"] == row["doc_uid"]) == (f"a1-{k}" in stays)
    assert again.dropped["dedupe.exact"] + again.dropped["dedupe.near"] == len(rows)
    assert again.removed_against >= len(stays & rows.keys()) > 20
    assert done["a"].removed_against == 0


def test_soft_weights_count_this_run_alone(tmp_path):
    """A keeper of an earlier run with the address of a document here adds nothing to its weight."""
    texts = [" ".join(f"{letter}{k}" for k in range(50)) for letter in "abc"]
    source = {"name": "s", "path": str(tmp_path / "in" / "*.jsonl")}
    (tmp_path / "in").mkdir()
    for name, written in (("old", texts[:2]), ("new", [texts[2], *texts[:1] * 3, texts[2]])):
        lines = [json.dumps({"id": f"{name}{k}", "text": text}) for k, text in enumerate(written)]
        (tmp_path / "in" / "x.jsonl").write_text("\n".join(lines))
        against = [tmp_path / "old"] if name == "new" else []
        mixture = {"tokens": 10**6, "unimax": True, "soft": {"frequency": 1.0}}
        settings = {"mixture": mixture, "tokenizer": {"vocab_size": 600}}
        run(job([source], tmp_path / name, against, **settings), until="mixture")
    [file] = tmp_path.glob("new/artifacts/mixture-*/copies-*.parquet")
    [row] = pq.read_table(file).to_pylist()
    assert row["soft_weight"] == 2
    lost = [r for r in ledger(tmp_path / "new").values() if r["keeper_ingest"] is not None]
    assert [(r["keeper_uid"], r["cluster_size"]) for r in lost] == [(row["doc_uid"], 4)] * 3


def test_explain_and_plan_name_the_earlier_run(chain):
    """`explain` has id, source and folder of a keeper elsewhere; `plan` how many are compared."""
    folder, sources, done = chain
    row = next(r for r in ledger(folder / "c").values() if r["keeper_ingest"] is not None)
    told = explain(folder / "c", row["doc_uid"])
    where = ingested(folder / "a") | ingested(folder / "b")
    assert told.keeper["id"] == where[row["keeper_ingest"], row["keeper_uid"]]
    assert told.keeper["source"] == told.keeper["id"].partition("-")[0]
    assert told.keeper["workdir"] == str(folder / told.keeper["source"][0])
    [decision] = [d for d in told.decisions if not d.kept]
    assert told.keeper["workdir"] in decision.detail
    own = [sources[n] for n in sources if n[0] == "c"]
    lines = plan(job(own, folder / "c", [folder / "a", folder / "b"]))
    for line in lines[1:3]:
        assert line.state == "cached"
        assert f"{done['b'].kept} documents of {folder / 'b'} ({done['b'].run_id})" in line.note
    assert done["c"].against[0]["documents"] == done["a"].kept


def test_explain_without_the_earlier_folder(chain, tmp_path):
    """When the old folder is gone, `explain` still says what the ledger says."""
    folder, sources, _ = chain
    shutil.copytree(folder / "a", tmp_path / "a")
    dedupe([sources["b1"]], tmp_path / "b", [tmp_path / "a"])
    shutil.rmtree(tmp_path / "a")
    row = next(r for r in ledger(tmp_path / "b").values() if r["keeper_ingest"] is not None)
    told = explain(tmp_path / "b", row["doc_uid"])
    assert (told.keeper["id"], told.keeper["doc_uid"]) == (None, row["keeper_uid"])
    assert told.keeper["workdir"] == str(tmp_path / "a")


def refused(made):
    with pytest.raises(RecipeError) as caught:
        plan(made)
    return caught.value.problems


def test_folders_that_cannot_be_compared_with(chain, tmp_path):
    """No folder, no good run, the own workdir, the same documents: refused, all with their key."""
    folder, sources, _ = chain
    own = [sources["c1"]]
    (tmp_path / "empty").mkdir()
    shutil.copytree(folder / "a", tmp_path / "copy")
    names = [tmp_path / "none", folder / "a", tmp_path / "empty", tmp_path / "w", tmp_path / "copy"]
    dedupe(own, tmp_path / "w")
    none, empty, self, copy = refused(job(own, tmp_path / "w", names))
    assert none.startswith(f"recipe: dedupe.against.0: {tmp_path / 'none'}: no such folder; give")
    assert empty.startswith("recipe: dedupe.against.2: ")
    assert "no run in it ended well" in empty
    assert "this recipe's own workdir" in self
    assert f"same documents as {folder / 'a'}; name one" in copy


def test_against_needs_a_kind_and_distinct_folders(chain, tmp_path):
    """Mistakes of the table itself are mistakes of the recipe."""
    folder, sources, _ = chain
    made = resolved(job([sources["c1"]], tmp_path / "w", [folder / "a"]))
    for change, words in (
        ({"exact": None, "near": None}, "neither is there; add one"),
        ({"against": [str(folder / "a"), f"{folder}/b/../a"]}, "twice; remove one"),
        ({"against": str(folder / "a")}, "against"),
    ):
        with pytest.raises(ValueError, match=words):
            from_dict({**made, "dedupe": {**made["dedupe"], **change}})


@pytest.mark.parametrize(
    ("near", "words"),
    [
        ({"ngram": 4}, "ngram = 5 (here 4); set ngram = 5"),
        ({"bands": 41}, "bands = 40 (here 41); set bands = 40"),
        ({"rows": 4}, "rows = 5 (here 4)"),
    ],
)
def test_another_scheme_is_refused(chain, tmp_path, near, words):
    """Signatures of another scheme: refused before work, with both values and the remedy."""
    folder, sources, _ = chain
    dedupe_of = {"exact": {}, "near": {**BOTH["near"], **near}}
    [line] = refused(job([sources["c1"]], tmp_path / "w", [folder / "a"], dedupe=dedupe_of))
    assert line.startswith("recipe: dedupe.against.0: ")
    assert words in line
    assert "run its recipe again with ngram" in line
    assert not (tmp_path / "w" / "artifacts").exists()


def test_another_version_unicode_or_normalization_is_refused(chain, tmp_path, monkeypatch):
    """What no key of the recipe says is compared too; another threshold is no matter."""
    folder, sources, _ = chain
    made = job([sources["c1"]], tmp_path / "w", [folder / "a"])
    [line] = refused(
        job([sources["c1"]], tmp_path / "w", [folder / "a"], ingest={"unicode": "none"})
    )
    assert "unicode = 'NFC', here ingest.unicode = 'none'" in line
    other = {"exact": {}, "near": {**BOTH["near"], "threshold": 0.9}}
    assert plan(job([sources["c1"]], tmp_path / "w", [folder / "a"], dedupe=other))
    monkeypatch.setattr("pipelines.steps.near_signatures.VERSION", 99)
    assert "another version of Drystone" in refused(made)[0]
    monkeypatch.setattr("unicodedata.unidata_version", "1.0")
    assert "unicode = " in refused(made)[0]


def test_a_run_without_signatures(chain, tmp_path):
    """An earlier run without dedupe.near serves the exact stage, and is refused for the near one."""
    _, sources, _ = chain
    a = [sources[n] for n in sources if n[0] == "a"]
    run(job(a, tmp_path / "a", dedupe={"exact": {}}), until="dedupe.exact")
    own = [sources["c1"]]
    [line] = refused(job(own, tmp_path / "w", [tmp_path / "a"]))
    assert "no signatures" in line
    assert "--until dedupe.near" in line
    made = job(own, tmp_path / "w", [tmp_path / "a"], dedupe={"exact": {}})
    assert run(made, until="dedupe.exact").removed_against > 0


def test_what_was_removed_there_is_missed_by_name(chain, tmp_path):
    """Artifacts that are gone, before or while they are read: the folder and the remedy are named."""
    folder, sources, _ = chain
    shutil.copytree(folder / "a", tmp_path / "a")
    made = job([sources["c1"]], tmp_path / "w", [tmp_path / "a"])
    [manifest] = tmp_path.glob("a/artifacts/ingest-*/manifest.json")
    text = manifest.read_text()
    manifest.unlink()
    with pytest.raises(StorageError, match=r"not there any more.* run the recipe of"):
        plan(made)
    manifest.write_text(text)
    next(tmp_path.glob("a/artifacts/dedupe.near-*/signatures-*.parquet")).unlink()
    with pytest.raises(
        StorageError, match=r"dedupe.against.*missing or of another size.*run again"
    ):
        plan(made)


def test_what_goes_while_it_is_read_is_missed_by_name(tmp_path):
    """A file that vanishes in mid-run is a matter of storage: the folder and the remedy."""
    words = f"{tmp_path}/x.*run the recipe of that folder again"
    with pytest.raises(StorageError, match=words), reading(Corpus(str(tmp_path))):
        pq.read_table(tmp_path / "x")


def test_in_another_pipeline(chain, tmp_path):
    """As PTransforms: rows of any source against a work directory."""
    folder, _, _ = chain
    old = json.loads((folder / "in" / "a1" / "0.jsonl").read_text().splitlines()[0])["text"]
    rows = [
        {"id": "same", "text": old},
        {"id": "upper", "text": old.upper()},
        {"id": "new", "text": " ".join(f"y{k}" for k in range(30))},
    ]
    earlier = [newest_run(folder / "a")]
    with beam.Pipeline("FnApiRunner") as pipeline:
        ids = (
            pipeline
            | beam.Create(rows)
            | IngestDocuments(str(tmp_path / "w"), shards=2)
            | ExactDedupe(against=earlier)
            | NearDedupe(NearSettings(**BOTH["near"]), against=earlier)
            | ReadDocuments()
            | beam.Map(lambda d: d["id"])
            | beam.combiners.ToList()
        )
        _ = ids | beam.Map(lambda found: (tmp_path / "ids").write_text(" ".join(sorted(found))))
    assert (tmp_path / "ids").read_text() == "new"

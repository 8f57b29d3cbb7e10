"""Near-duplicate removal end to end, against sets of word tuples."""

import json
import random
import re
from collections import Counter, defaultdict

import apache_beam as beam
import pyarrow.parquet as pq
import pytest
from small_runs import digest, recipe_of

from catalog.explain import explain
from pipelines.run import run
from pipelines.stages import plan
from pipelines.steps.dedupe import ExactDedupe
from pipelines.steps.documents import IngestDocuments, ReadDocuments
from pipelines.steps.near import NearDedupe
from transforms.minhash import NearSettings

THRESHOLD = 0.8


def edited(rng, words, vocabulary, share):
    """Return words with some of them replaced, inserted or taken out."""
    words = list(words)
    for _ in range(int(len(words) * share)):
        place, kind = rng.randrange(len(words)), rng.random()
        if kind < 0.5:
            words[place] = rng.choice(vocabulary)
        elif kind < 0.75:
            words.insert(place, rng.choice(vocabulary))
        elif len(words) > 12:
            del words[place]
    return words


def mutated_documents(n, seed):
    """Half of the documents random words, the others edits of earlier ones, also of edits."""
    rng = random.Random(seed)
    vocabulary = ["".join(rng.choices("abcdefghij", k=rng.randint(2, 7))) for _ in range(9000)]
    sizes = [int(min(900, max(12, rng.lognormvariate(4.5, 0.7)))) for _ in range(n // 2)]
    documents = [rng.choices(vocabulary, k=size) for size in sizes]
    while len(documents) < n:
        origin = documents[int(len(documents) * rng.random() ** 2)]
        share = rng.choice([0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1])
        documents.append(edited(rng, origin, vocabulary, share))
    return documents


def write(folder, texts, files=3):
    folder.mkdir(parents=True)
    for k in range(files):
        lines = [json.dumps({"id": f"d{n}", "text": texts[n]}) for n in range(k, len(texts), files)]
        (folder / f"part-{k}.jsonl").write_text("".join(line + "\n" for line in lines))
    return folder


def near_recipe(corpus, workdir, **changes):
    settings = {"dedupe": {"exact": {}, "near": {}}, "tokenizer": {"vocab_size": 300}}
    return recipe_of(corpus, workdir, **{**settings, **changes})


def ids_of(workdir):
    found = {}
    for file in sorted(workdir.glob("artifacts/ingest-*/[0-9a-f]*.parquet")):
        table = pq.read_table(file, columns=["doc_uid", "id"])
        found.update(zip(table["doc_uid"].to_pylist(), table["id"].to_pylist(), strict=True))
    return found


def removals(workdir):
    """Return id -> (keeper's id, jaccard, kind, cluster size) of all removed documents."""
    names = ids_of(workdir)
    return {
        names[row["doc_uid"]]: (
            names[row["keeper_uid"]],
            row["jaccard"],
            row["kind"],
            row["cluster_size"],
        )
        for file in sorted(workdir.glob("artifacts/dedupe.*/duplicates-*.parquet"))
        for row in pq.read_table(file).to_pylist()
    }


def counters(workdir):
    [manifest] = workdir.glob("artifacts/dedupe.near-*/manifest.json")
    return json.loads(manifest.read_text())["counters"]


@pytest.fixture(scope="module")
def documents():
    return mutated_documents(2400, seed=5)


@pytest.fixture(scope="module")
def texts(tmp_path_factory, documents):
    return write(tmp_path_factory.mktemp("near") / "in", [" ".join(words) for words in documents])


@pytest.fixture(scope="module")
def done(texts, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("near") / "w"
    return workdir, run(near_recipe(texts, workdir))


def near_pairs(documents):
    """Return the pairs at or above the threshold, by counting every shared 5-gram."""
    sets = [{tuple(words[k : k + 5]) for k in range(len(words) - 4)} for words in documents]
    holders = defaultdict(list)
    for number, grams in enumerate(sets):
        for gram in grams:
            holders[gram].append(number)
    common = Counter(
        (one, two) for found in holders.values() for k, two in enumerate(found) for one in found[:k]
    )
    jaccard = {(a, b): n / (len(sets[a]) + len(sets[b]) - n) for (a, b), n in common.items()}
    return {pair: value for pair, value in jaccard.items() if value >= THRESHOLD}


def test_nothing_leaks_and_nothing_is_removed_without_cause(documents, done):
    """Of each pair at or above 0.8 one is gone; each removed one has a kept one at or above it."""
    workdir, summary = done
    gone, pairs = removals(workdir), near_pairs(documents)
    near = {f"d{a} d{b}": value for pair, value in pairs.items() for a, b in (pair, pair[::-1])}
    assert len(pairs) > 500
    assert not [(a, b) for a, b in pairs if not {f"d{a}", f"d{b}"} & gone.keys()]
    for name, (keeper, jaccard, _, _) in gone.items():
        assert near[f"{name} {keeper}"] == jaccard
        # An exact duplicate may have lost to a document that then lost to a near one.
        assert keeper not in gone or gone[name][2] == "exact"
    kinds = Counter(kind for _, _, kind, _ in gone.values())
    assert summary.dropped == {"dedupe.exact": kinds["exact"], "dedupe.near": kinds["near"]}
    assert min(kinds.values()) > 50
    sizes = Counter(keeper for keeper, _, kind, _ in gone.values() if kind == "near")
    assert all(size == sizes[k] + 1 for k, _, kind, size in gone.values() if kind == "near")


def test_the_longer_document_stays(documents, done):
    """Keep order: a removed document's keeper has more characters, or as many and a lower id."""
    gone = removals(done[0])
    for name, (keeper, _, _, _) in gone.items():
        lost, kept = (len(" ".join(documents[int(n[1:])])) for n in (name, keeper))
        assert (-kept, keeper) < (-lost, name)


@pytest.mark.parametrize(
    "runner",
    [{"workers": 1}, {"workers": 4, "shuffle": "runner"}],
    ids=["1 worker", "runner shuffle"],
)
def test_workers_and_shuffle_change_no_byte(texts, done, tmp_path, runner):
    """Removals and dataset are the same bytes for any workers and both shuffles."""
    workdir, summary = done
    other = run(near_recipe(texts, tmp_path, runner={"kind": "local", **runner}))
    assert digest(other.dataset) == digest(summary.dataset)
    [one], [two] = (list(w.glob("artifacts/dedupe.near-*")) for w in (workdir, tmp_path))
    assert one.name == two.name
    assert digest(one) == digest(two)


def test_many_partitions_change_no_removal(texts, done, tmp_path, monkeypatch):
    """Small partitions, tables and set limits: the same removals."""
    for name, value in {
        "near_pairs.ROWS_PER_TABLE": 2000,
        "near_search.ROWS_PER_TABLE": 2000,
        "near_sets._SET_LIMIT": 3000,
    }.items():
        monkeypatch.setattr(f"pipelines.steps.{name}", value)
    run(near_recipe(texts, tmp_path), until="dedupe.near")
    assert removals(tmp_path) == removals(done[0])


def test_without_exact_duplicates_equal_texts_are_near(texts, done, tmp_path):
    """The near stage alone keeps the same documents; equal ones go with Jaccard 1."""
    run(near_recipe(texts, tmp_path, dedupe={"near": {}}), until="dedupe.near")
    gone = removals(tmp_path)
    assert gone.keys() == removals(done[0]).keys()
    assert {kind for _, _, kind, _ in gone.values()} == {"near"}
    assert counters(tmp_path)["equal"] > 50


def test_a_new_threshold_signs_nothing_anew(texts, tmp_path):
    """Signatures are kept by file: another threshold takes them over."""
    run(near_recipe(texts, tmp_path), until="dedupe.near")
    before = {file.stat().st_ino for file in tmp_path.glob("artifacts/dedupe.near-*/signatures-*")}
    dedupe = {"exact": {}, "near": {"threshold": 0.9}}
    run(near_recipe(texts, tmp_path, dedupe=dedupe), until="dedupe.near")
    after = [file.stat().st_ino for file in tmp_path.glob("artifacts/dedupe.near-*/signatures-*")]
    assert len(after) == 2 * len(before)
    assert set(after) == before


def test_hostile_documents(tmp_path):
    """Thousands of equal and two-word documents, no tokens, NUL, one long line: the right answer."""
    long = " ".join(f"w{k}" for k in range(60_000))
    texts = ["same text over and over again"] * 2000 + [f"word {k % 50}" for k in range(1500)]
    texts += [f"Word, {k}!" for k in range(25, 75)]
    texts += ["", "\0", "?", "!", "\0 \0", "🪨" * 9, "🪨 " * 9]
    texts += [long, long.upper(), long.replace("w5 ", "x "), "a " * 500, "a " * 900, "A! " * 7]
    corpus = write(tmp_path / "in", texts)
    settings = {"ingest": {"min_chars": 0}, "dedupe": {"near": {}}}
    summary = run(near_recipe(corpus, tmp_path / "w", **settings), until="dedupe.near")
    gone = removals(tmp_path / "w")
    kept = [texts[n] for n in range(len(texts)) if f"d{n}" not in gone]
    tokens = Counter(" ".join(re.findall(r"\w+", text.casefold())) for text in kept)
    assert tokens["same text over and over again"] == 1
    assert all(tokens[f"word {k}"] == 1 for k in range(75))
    # Documents without tokens are not compared.
    assert tokens[""] == 7
    assert sum(len(text) > 100_000 for text in kept) == 1
    assert sum(set(text.lower()) <= set("a !") and "a" in text.lower() for text in kept) == 1
    assert len(kept) == 1 + 75 + 7 + 1 + 1
    assert summary.dropped == {"dedupe.near": len(gone)}


def test_near_equal_crowds_stay_in_bounds(tmp_path):
    """1,500 documents that differ in one word make no more pairs than their leaders allow."""
    base = [f"w{k}" for k in range(60)]
    texts = [" ".join([*base[:30], f"x{k}", *base[30:]]) for k in range(1500)]
    run(near_recipe(write(tmp_path / "in", texts), tmp_path / "w"), until="dedupe.near")
    found = counters(tmp_path / "w")
    assert found["candidate pairs"] <= 1500 * 1499 // 2
    assert found["dropped"] == 1499


def test_explain_and_plan_say_what_was_compared(done, texts):
    """The catalog names keeper, similarity and threshold; the plan the S-curve."""
    workdir, summary = done
    gone = removals(workdir)
    name = next(name for name, row in gone.items() if row[2] == "near")
    told = explain(workdir, name, summary.run_id)
    assert (told.kept, told.reason, told.keeper["id"]) == (False, "dedupe.near", gone[name][0])
    [decision] = [d for d in told.decisions if d.stage == "dedupe.near"]
    assert (decision.kept, decision.score, decision.threshold) == (False, gone[name][1], 0.8)
    [line] = [s for s in plan(near_recipe(texts, workdir)) if s.stage == "dedupe.near"]
    assert line.state == "cached"
    assert "25 bands of 5 hashes" in line.note
    assert "99.9951%" in line.note


def test_in_another_pipeline(tmp_path):
    """As PTransforms over rows of any source, with a threshold of one's own."""
    words = [f"w{k}" for k in range(40)]
    rows = [
        {"id": "a", "text": " ".join(words)},
        {"id": "b", "text": " ".join([*words[:39], "other"])},
        {"id": "c", "text": " ".join([*words[:20], *reversed(words)])},
    ]
    with beam.Pipeline("FnApiRunner") as pipeline:
        kept = (
            pipeline
            | beam.Create(rows)
            | IngestDocuments(str(tmp_path), shards=2)
            | ExactDedupe()
            | NearDedupe(NearSettings(threshold=0.9))
            | ReadDocuments()
        )
        ids = kept | beam.Map(lambda d: d["id"]) | beam.combiners.ToList()
        _ = ids | beam.Map(lambda found: (tmp_path / "ids").write_text(" ".join(sorted(found))))
    assert (tmp_path / "ids").read_text() == "b c"

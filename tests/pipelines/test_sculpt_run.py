"""Packing by what documents are about, in whole runs: bytes, the plan, vectors that are given."""

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_runs import digest, recipe_of

from packing.fit import PackSettings
from packing.sculpt import sculpt_rows
from packing.verify import verify
from pipelines.run import run
from pipelines.stages import bind, plan, stages_of
from pipelines.steps.pack import read_entries

TOPICS = [
    [f"{stem}{middle}{ending}" for middle in "aeiou" for ending in ("ber", "din", "fal", "gos")]
    for stem in ("st", "riv", "fl", "cl", "wh", "br")
]
SCULPT = {"rows_per_cluster": 4, "fill": 0.98, "count_spread": 1.0}


def write_topics(folder: Path, n: int = 900, files: int = 3) -> Path:
    """Write documents that each use the words of one topic; the id says which."""
    rng = random.Random(4)
    folder.mkdir(parents=True)
    lines: list[list[str]] = [[] for _ in range(files)]
    for k in range(n):
        topic = rng.randrange(len(TOPICS))
        words = rng.choices(TOPICS[topic], k=int(min(900, rng.lognormvariate(3.2, 1.0))) + 2)
        row = {"id": f"t{topic}-{k}", "text": " ".join(words)}
        lines[k % files].append(json.dumps(row))
    for k, part in enumerate(lines):
        (folder / f"part-{k}.jsonl").write_text("\n".join(part) + "\n", encoding="utf-8")
    return folder


def sculpted(corpus: Path, workdir: Path, pack=None, **changes):
    """Run the recipe with sculpt; return the result and the folder of the fitted rows."""
    wanted = {
        "seq_len": 256,
        "strategy": "sculpt",
        "sculpt": SCULPT,
        **(pack or {}),
    }
    recipe = recipe_of(corpus, workdir, pack=wanted, **changes)
    result = run(recipe)
    [folder] = Path(workdir).glob("artifacts/pack-*")
    return recipe, result, folder


def pieces_of(folder: Path) -> pa.Table:
    """Read the pieces of the fitted rows."""
    return pa.concat_tables([pq.read_table(p) for p in sorted(folder.glob("pieces-*.parquet"))])


@pytest.fixture(scope="module")
def topics(tmp_path_factory):
    """A corpus of planted topics and one run over it."""
    base = tmp_path_factory.mktemp("sculpt")
    corpus = write_topics(base / "corpus")
    return corpus, *sculpted(corpus, base / "w")


def test_rows_are_the_plan_of_one_process(topics):
    """The stage gives what the library gives in one process from the same vectors."""
    _, recipe, _, folder = topics
    corpus = next(
        p for p in bind(stages_of(recipe), recipe.workdir) if p.stage.name == "pack"
    ).before
    entries = read_entries(corpus, recipe.pack, recipe.seed)
    uid = entries.lengths.doc_uid[entries.chosen]
    width = corpus.manifest("embed").config["width"]
    vectors = np.zeros((len(uid), width), np.float16)
    for entry in corpus.manifest("embed").entries():
        table = pq.read_table(corpus.folder("embed") / entry.name)
        known = table["doc_uid"].to_numpy()
        values = np.frombuffer(b"".join(table["vector"].to_pylist()), "<f2").reshape(-1, width)
        at = np.minimum(np.searchsorted(known, uid), len(known) - 1)
        here = known[at] == uid
        vectors[here] = values[at[here]]
    expected = sculpt_rows(entries.n_tokens, entries.order, vectors, recipe.pack)
    found = pieces_of(folder)
    assert found["row"].to_numpy().tolist() == expected.row.tolist()
    assert found["doc_uid"].to_numpy().tolist() == uid[expected.document].tolist()
    assert found["token_start"].to_numpy().tolist() == expected.start.tolist()


def test_rows_hold_one_topic_and_verify(topics):
    """Most tokens lie in rows of their own topic; the dataset proves all its invariants."""
    _, recipe, result, folder = topics
    assert verify(result.dataset).ok
    found = pieces_of(folder)
    shards = sorted(Path(recipe.workdir).glob("artifacts/ingest-*/[0-9a-f]*.parquet"))
    documents = pa.concat_tables([pq.read_table(p, columns=["doc_uid", "id"]) for p in shards])
    names = dict(zip(documents["doc_uid"].to_pylist(), documents["id"].to_pylist(), strict=True))
    topic = np.array([int(names[uid][1]) for uid in found["doc_uid"].to_pylist()])
    row = found["row"].to_numpy()
    tokens = found["token_end"].to_numpy() - found["token_start"].to_numpy()
    shared = np.bincount(row)[row] > 1
    held = np.bincount(row[shared] * 8 + topic[shared], tokens[shared], 8 * (row.max() + 1))
    held = held.reshape(-1, 8)
    assert held.max(axis=1).sum() / held.sum() > 0.8


def test_quality_is_recorded_by_row(topics):
    """Each row has its pieces, tokens and similarity; the manifest has the figures of all."""
    _, _, _, folder = topics
    found, quality = pieces_of(folder), pq.read_table(folder / "quality-00000.parquet")
    row = found["row"].to_numpy()
    assert quality["pieces"].to_pylist() == np.bincount(row).tolist()
    lone = np.bincount(row) == 1
    assert [s is None for s in quality["similarity"].to_pylist()] == lone.tolist()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert 0.1 < manifest["config"]["quality"]["similarity"] <= 1
    assert manifest["counters"]["clusters"] > 1


@pytest.mark.parametrize(
    "runner",
    [
        {"kind": "local", "workers": 1},
        {"kind": "local", "workers": 4, "shuffle": "runner"},
    ],
)
def test_bytes_do_not_depend_on_workers_or_shuffle(topics, tmp_path, runner):
    """One worker or four, files or the runner's shuffle: the same bytes."""
    corpus, _, _, folder = topics
    _, _, other = sculpted(corpus, tmp_path / "w", runner=runner)
    assert digest(other) == digest(folder)


def test_partitions_change_nothing(topics, tmp_path, monkeypatch):
    """Clusters dealt to many partitions give the plan of one."""
    corpus, _, _, folder = topics
    monkeypatch.setattr("pipelines.steps.sculpt._ROWS_EACH", 50)
    _, _, other = sculpted(corpus, tmp_path / "w", runner={"kind": "local", "workers": 1})
    assert digest(other) == digest(folder)


def test_copies_of_a_document_keep_apart(topics, tmp_path):
    """A mixture that draws documents several times does not put two copies into one row."""
    corpus, _, _, _ = topics
    mixture = {"tokens": 90_000, "max_epochs": 3, "weights": {"s": 1.0}}
    _, _, folder = sculpted(corpus, tmp_path / "w", mixture=mixture, pack={"align": 4})
    found = pieces_of(folder)
    assert max(found["copy"].to_pylist()) >= 1
    key = list(zip(found["row"].to_pylist(), found["doc_uid"].to_pylist(), strict=True))
    again = len(key) - len(set(key))
    assert again <= 0.01 * len(key)


def test_plan_says_how_rows_are_chosen(topics):
    """``drystone plan`` shows the terms and the fill; a repeated run is cached."""
    _, recipe, _, _ = topics
    [line] = [line for line in plan(recipe) if line.stage == "pack"]
    assert line.state == "cached"
    assert "0.5 similarity" in line.note
    assert "98.0%" in line.note


def test_best_fit_does_not_depend_on_sculpt_settings(topics):
    """Settings of sculpt change no fingerprint of another strategy."""
    corpus, recipe, _, _ = topics
    one = recipe_of(corpus, recipe.workdir, pack={"seq_len": 256})
    two = recipe_of(corpus, recipe.workdir, pack={"seq_len": 256, "sculpt": {"relevance": 1.0}})
    prints = [bind(stages_of(r), r.workdir)[-2].fingerprint for r in (one, two)]
    assert prints[0] == prints[1]
    assert PackSettings(seq_len=256).strategy == "best_fit"

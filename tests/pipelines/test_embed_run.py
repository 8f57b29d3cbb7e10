"""Vectors in whole runs: files, columns, refusals, the same bytes for any way of running."""

import gzip
import json
import math
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_runs import digest, recipe_of, sentences
from typer.testing import CliRunner

from pipelines.cli import app
from pipelines.recipe import RecipeError, load_recipe
from pipelines.run import run
from transforms.embed import DocumentCounter, EmbedSettings, embed_texts, term_rarity
from transforms.record import RecordError, mix64

TABLES = {"dedupe": {"exact": {}}, "tokenizer": {"vocab_size": 300}}


def write(folder, n=240, files=3, seed=1, first=0):
    """Write documents of all lengths, some twice, in several files."""
    rng = random.Random(seed)
    texts = []
    for _ in range(n):
        again = texts and rng.random() < 0.1
        length = int(min(900, rng.lognormvariate(4, 1.2))) + 1
        texts.append(rng.choice(texts) if again else sentences(rng, length))
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(files):
        lines = [json.dumps({"id": f"d{j}", "text": texts[j]}) for j in range(k, n, files)]
        (folder / f"part-{first + k}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def embed_recipe(corpus, workdir, embed=None, **changes):
    return recipe_of(
        corpus, workdir, **{**TABLES, "embed": embed or {"part": 128, "count": 100}, **changes}
    )


def artifact(workdir):
    [folder] = Path(workdir).glob("artifacts/embed-*")
    return folder


def vectors_of(workdir):
    """Return doc_uid -> vector, file by file, and check the files' form."""
    found = {}
    folder = artifact(workdir)
    manifest = json.loads((folder / "manifest.json").read_text())
    width = manifest["config"]["width"]
    for file in sorted(folder.glob("vectors-*.parquet")):
        assert len(file.stem) == len("vectors-") + 10 + 1 + 12
        schema = pq.read_schema(file)
        assert schema.field("doc_uid").type == pa.int64()
        assert schema.field("vector").type == pa.binary(2 * width)
        table = pq.read_table(file)
        uids = table["doc_uid"].to_pylist()
        assert uids == sorted(uids)
        shard = int(file.stem.split("-")[1], 16)
        assert not uids or uids[0] >> 24 == shard or len({u >> 24 for u in uids}) > 1
        found.update(zip(uids, table["vector"].to_pylist(), strict=True))
    listed = [e["name"] for e in manifest["files"] if e["kind"] == "data"]
    assert sorted(listed) == sorted(f.name for f in folder.glob("vectors-*.parquet"))
    return {uid: np.frombuffer(value, "<f2") for uid, value in found.items()}


def ingested(workdir):
    files = sorted(Path(workdir).glob("artifacts/ingest-*/[0-9a-f]*.parquet"))
    return pa.concat_tables(
        [pq.read_table(f, columns=["doc_uid", "id", "reason", "text"]) for f in files]
    ).to_pylist()


def kept_uids(workdir):
    gone = set()
    for file in Path(workdir).glob("artifacts/dedupe.*/duplicates-*.parquet"):
        gone.update(pq.read_table(file)["doc_uid"].to_pylist())
    return {d["doc_uid"] for d in ingested(workdir) if not d["reason"]} - gone


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write(tmp_path_factory.mktemp("embed") / "in")


@pytest.fixture(scope="module")
def done(texts, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("embed") / "w"
    return workdir, run(embed_recipe(texts, workdir))


def test_each_kept_document_has_a_vector(done):
    """Files as their readers expect them; the vectors are those of the kernel over all counts."""
    workdir, summary = done
    found = vectors_of(workdir)
    assert set(found) == kept_uids(workdir)
    assert len(found) < summary.ingested
    documents = [d for d in ingested(workdir) if not d["reason"]]
    settings = EmbedSettings(part=128, count=100)
    counter = DocumentCounter(settings)
    # 240 documents, halved twice.
    chosen = [d for d in documents if int(mix64(np.array([d["doc_uid"]]), 7)[0]) < 1 << 62]
    assert 30 < len(chosen) < 90
    counter.add(pa.array([d["text"] for d in chosen]))
    rarity = term_rarity(counter.counts, len(chosen), 1)
    for document in documents:
        if document["doc_uid"] in found:
            want = embed_texts(pa.array([document["text"]]), settings, rarity, 7)[0]
            assert found[document["doc_uid"]].tobytes() == want.tobytes()
    names = [stage["stage"] for stage in summary.stages]
    assert names.index("encode") < names.index("embed") < names.index("pack")


def test_the_same_bytes_however_it_runs(done, texts, tmp_path):
    """For any number of workers, either shuffle, and files written in another order."""
    runner = {"workers": 4, "shuffle": "runner"}
    reversed_copy = tmp_path / "in"
    reversed_copy.mkdir()
    for file in sorted(texts.glob("*"), reverse=True):
        shutil.copy(file, reversed_copy / file.name)
    run(
        embed_recipe(reversed_copy, tmp_path / "w", runner={"kind": "local", **runner}),
        until="embed",
    )
    assert digest(artifact(tmp_path / "w")) == digest(artifact(done[0]))


def test_a_removal_changes_no_other_vector(texts, done, tmp_path):
    """Counts are of ingested documents: without de-duplication, the same vectors and more."""
    run(embed_recipe(texts, tmp_path / "w", dedupe={}), until="embed")
    more, fewer = vectors_of(tmp_path / "w"), vectors_of(done[0])
    assert len(more) > len(fewer)
    assert all(more[uid].tobytes() == vector.tobytes() for uid, vector in fewer.items())


def test_given_counts_keep_vectors_when_the_corpus_grows(tmp_path):
    """A new file is embedded; the other files' tasks are adopted as they were."""
    corpus = write(tmp_path / "in", n=120)
    workdir = tmp_path / "w"
    run(embed_recipe(corpus, workdir, dedupe={}), until="embed")
    [counts] = artifact(workdir).glob("frequencies-*.parquet")
    kept = tmp_path / "counts.parquet"
    shutil.copy(counts, kept)
    embed = {"part": 128, "frequencies": str(kept)}
    before = {f.name: f.read_bytes() for f in artifact(workdir).glob("vectors-*")}
    write(corpus, n=30, files=1, seed=2, first=9)
    run(embed_recipe(corpus, workdir, embed, dedupe={}), until="embed")
    [grown] = set(workdir.glob("artifacts/embed-*")) - {counts.parent}
    after = {f.name: f.read_bytes() for f in grown.glob("vectors-*")}
    assert len(after) == len(before) + 1
    assert all(after[name] == content for name, content in before.items())


def test_small_files_in_one_shard_are_in_order(tmp_path):
    """One-document files share shard files; their vectors ascend by address."""
    folder = tmp_path / "in"
    folder.mkdir()
    rng = random.Random(4)
    for k in range(150):
        (folder / f"{k}.txt").write_text(sentences(rng, 20), encoding="utf-8")
    sources = [{"name": "s", "path": str(folder / "*.txt")}]
    run(embed_recipe(folder, tmp_path / "w", sources=sources), until="embed")
    assert set(vectors_of(tmp_path / "w")) == kept_uids(tmp_path / "w")


def vector_rows(n, width, seed=3):
    rng = random.Random(seed)
    return [
        {
            "id": f"d{k}",
            "text": sentences(rng, 30),
            "v": [rng.choice([rng.gauss(0, 3), 1.0, 2]) for _ in range(width)],
        }
        for k in range(n)
    ]


def column_recipe(path, workdir, rows, width=16, **changes):
    """Write rows as Parquet or JSON lines and return a recipe that takes their vectors."""
    if path.suffix == ".parquet":
        kind = pa.list_(pa.float32())
        columns = [[r["id"] for r in rows], [r["text"] for r in rows], [r["v"] for r in rows]]
        arrays = [pa.array(c, t) for c, t in zip(columns, (None, None, kind), strict=True)]
        pq.write_table(pa.table(arrays, names=["id", "text", "v"]), path)
    else:
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    source = {"name": "given", "path": str(path), "columns": {"vec": "v"}}
    embed = {"column": "vec", "width": width}
    return embed_recipe(path, workdir, embed, sources=[source], **changes)


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl.gz"])
def test_a_column_gives_the_vectors(tmp_path, name):
    """Lists of a Parquet file or JSON arrays, scaled to length 1; zeros stay zeros."""
    rows = vector_rows(80, 16)
    rows[5]["v"] = [0] * 16
    run(column_recipe(tmp_path / name, tmp_path / "w", rows), until="embed")
    found = vectors_of(tmp_path / "w")
    ids = {d["doc_uid"]: d["id"] for d in ingested(tmp_path / "w")}
    given = {r["id"]: np.array(r["v"], np.float64) for r in rows}
    assert set(found) == kept_uids(tmp_path / "w")
    for uid, vector in found.items():
        want = given[ids[uid]] / max(np.linalg.norm(given[ids[uid]]), 1e-9)
        assert np.abs(vector - want).max() < 1e-3


@pytest.mark.parametrize(
    ("vector", "found"),
    [
        (None, "no vector (null)"),
        ([1.0, 2.0], "a vector of 2 numbers, not 16"),
        ([0.5] * 7 + [math.nan] + [0.5] * 8, "nan at place 7 of its vector"),
    ],
)
def test_useless_vectors_are_refused_before_anything_is_written(tmp_path, vector, found):
    """Source, id, place in the file, value and remedy; no file of vectors is left."""
    rows = vector_rows(40, 16)
    rows[29]["v"] = rows[33]["v"] = vector
    with pytest.raises(RecordError) as error:
        run(column_recipe(tmp_path / "a.parquet", tmp_path / "w", rows), until="embed")
    for part in ("'given'", "'d29'", "a.parquet:30", found, "2 documents", "embed.width", "'vec'"):
        assert part in str(error.value)
    assert not list(tmp_path.glob("w/artifacts/embed-*/vectors-*"))


def test_a_dropped_document_needs_no_vector(tmp_path):
    """Only what is kept is looked at."""
    rows = vector_rows(40, 16)
    rows[39] = {**rows[0], "id": "d39", "v": None}
    summary = run(column_recipe(tmp_path / "a.parquet", tmp_path / "w", rows), until="embed")
    assert summary.dropped == {"dedupe.exact": 1}
    assert len(vectors_of(tmp_path / "w")) == 39


@pytest.mark.parametrize(
    ("embed", "words"),
    [
        ("column = 'vec'", ["embed.column", '"vec"', "source s", "columns = { vec"]),
        ("width = 100", ["embed", "width = 100", "take 104"]),
        ("widht = 64", ["widht", "width"]),
    ],
)
def test_recipes_that_cannot_work_are_refused(tmp_path, embed, words):
    """With the key, the value and what to do."""
    path = tmp_path / "r.toml"
    source = f"[[sources]]\nname = 's'\npath = '{tmp_path}/*.jsonl'\n"
    path.write_text(f"name = 'r'\n{source}[embed]\n{embed}\n", encoding="utf-8")
    with pytest.raises(RecipeError) as error:
        load_recipe(path)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_counts_that_cannot_be_used_are_refused(texts, done, tmp_path):
    """Missing, no Parquet, another table, other buckets: before the run, with a remedy, exit 3."""
    [counts] = artifact(done[0]).glob("frequencies-*.parquet")
    [other] = Path(done[0]).glob("artifacts/tokenizer-*/manifest.json")
    shards = sorted(Path(done[0]).glob("artifacts/ingest-*/[0-9a-f]*.parquet"))
    cases = [
        ({"frequencies": str(tmp_path / "none.parquet")}, "no such file"),
        ({"frequencies": str(other)}, "cannot be read"),
        ({"frequencies": str(shards[0])}, "no table of counts"),
        ({"frequencies": str(counts), "buckets": 1024}, "set embed.buckets"),
    ]
    for embed, message in cases:
        with pytest.raises(RecordError, match=message):
            run(embed_recipe(texts, tmp_path / "w", embed))
    recipe = tmp_path / "r.toml"
    recipe.write_text(
        f"name = 'r'\nworkdir = '{tmp_path}/w'\n[[sources]]\nname = 's'\n"
        f"path = '{texts}/*.jsonl'\n[embed]\nfrequencies = 'none'\n",
        encoding="utf-8",
    )
    assert CliRunner().invoke(app, ["run", str(recipe)]).exit_code == 3

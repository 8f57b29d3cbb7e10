"""Character spans of a stage reach encoding and the export of documents alike."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_chats import write_tokenizer
from small_runs import recipe_of

import pipelines.text_spans
from pipelines.artifacts import FileEntry, Manifest, Workdir
from pipelines.corpus import Corpus
from pipelines.export_documents import export_documents
from pipelines.run import run
from pipelines.stages import bind, stages_of
from transforms.tokenize.encoder import load_encoder
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.text_spans import TEXT_SPAN_SCHEMA

TEXTS = [
    "keep this. drop this. mail a@b.c now",
    "nothing here",
    "drop this. ",
    "train only THIS word",
]


@pytest.fixture
def marked(tmp_path, monkeypatch):
    """A finished run, to which a stage with spans is added: (recipe, corpus, summary, uids)."""
    lines = [json.dumps({"id": str(k), "text": text}) for k, text in enumerate(TEXTS)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    tokenizer = {
        "kind": "hf",
        "model": str(write_tokenizer(tmp_path / "t")),
        "eos_token": "<|im_end|>",
    }
    recipe = recipe_of(tmp_path, tmp_path / "w", tokenizer=tokenizer)
    summary = run(recipe)
    store = Workdir(str(tmp_path / "w"))
    [ingest] = store.path.glob("artifacts/ingest-*/[0-9a-f]*.parquet")
    uids = pq.read_table(ingest)["doc_uid"].to_numpy()
    spans = [
        (uids[0], 11, 22, "remove", None, None),
        (uids[0], 27, 32, "mask", "[MAIL]", None),
        (uids[2], 0, 11, "remove", None, None),
        (uids[3], 11, 20, "loss", None, 0.5),
    ]
    table = pa.Table.from_pylist(
        [dict(zip(TEXT_SPAN_SCHEMA.names, row, strict=True)) for row in spans],
        schema=TEXT_SPAN_SCHEMA,
    )
    folder = store.folder("marks", "f" * 64)
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "spans-00000.parquet")
    entry = FileEntry.of(folder / "spans-00000.parquet", rows=len(spans), kind="spans")
    store.commit(Manifest("marks", "f" * 64, {}, {}, (entry,), {}))
    record = store.path / "runs" / summary.run_id / "run.json"
    value = json.loads(record.read_text())
    value["stages"].append({"stage": "marks", "path": f"artifacts/{folder.name}"})
    record.write_text(json.dumps(value))
    monkeypatch.setattr(pipelines.text_spans, "SPAN_STAGES", ("marks",))
    corpus = bind(stages_of(recipe), recipe.workdir)[-1].after
    return recipe, corpus.with_artifact("marks", "f" * 64), summary, uids


def encoded(recipe, corpus: Corpus):
    """Encode the corpus's only shard under the spans; returns its table."""
    stage = next(s for s in stages_of(recipe) if s.name == "encode")
    [task] = stage._tasks(replace(corpus))
    task.folder.mkdir(parents=True, exist_ok=True)
    work = stage._encode(task)
    return pq.read_table(task.folder / work.files[0].name), task


def test_export_and_encode_have_the_same_text(marked, tmp_path):
    """Encoding the exported text again gives the packed ids; spans are removed and masked in it."""
    recipe, corpus, summary, uids = marked
    out = tmp_path / "out.parquet"
    export_documents(tmp_path / "w", summary.run_id, "parquet", out)
    texts = dict(zip(uids.tolist(), pq.read_table(out)["text"].to_pylist(), strict=True))
    table, _ = encoded(recipe, corpus)

    assert texts[uids[0]] == "keep this. mail [MAIL] now"
    assert texts[uids[2]] == ""
    settings = TokenizerSettings(**{"kind": "hf", **_tokenizer(recipe)})
    encoder = load_encoder(tmp_path / "t" / "tokenizer.json", settings)
    for uid, ids, n in zip(
        *(table[c].to_pylist() for c in ("doc_uid", "input_ids", "n_tokens")), strict=True
    ):
        assert len(ids) == n
        if uid == uids[3]:
            continue  # cut at its loss span: other ids, the same text
        want = encoder.encode(pa.array([texts[uid]])).ids.tolist()
        assert ids == (want and [*want, encoder.eos_id])


def _tokenizer(recipe):
    return {"model": recipe.tokenizer.model, "eos_token": recipe.tokenizer.eos_token}


def test_loss_spans_are_exact_in_tokens(marked, tmp_path):
    """The trained tokens of a document are just those of the trained characters, and its end."""
    recipe, corpus, _, uids = marked
    table, _ = encoded(recipe, corpus)
    encoder = load_encoder(
        tmp_path / "t" / "tokenizer.json", TokenizerSettings(**{"kind": "hf", **_tokenizer(recipe)})
    )
    rows = {row["doc_uid"]: row for row in table.to_pylist()}
    assert [rows[uid]["loss_spans"] for uid in uids[:3]] == [None, None, None]
    row = rows[uids[3]]
    [span] = row["loss_spans"]
    trained = row["input_ids"][span["start"] : span["end"]]
    assert encoder.decode(trained) == "THIS word<|im_end|>"
    assert encoder.decode(row["input_ids"]) == TEXTS[3] + "<|im_end|>"
    assert (span["end"], span["weight"]) == (row["n_tokens"], 0.5)


def test_spans_are_part_of_a_tasks_identity(marked, monkeypatch):
    """Another set of spans encodes the shard again."""
    recipe, corpus, _, _ = marked
    _, task = encoded(recipe, corpus)
    monkeypatch.setattr(pipelines.text_spans, "SPAN_STAGES", ())
    _, plain = encoded(recipe, corpus)
    assert task.base != plain.base
    assert np.unique([task.fingerprint, plain.fingerprint]).size == 2

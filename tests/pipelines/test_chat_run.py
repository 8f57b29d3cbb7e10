"""Runs over conversations and fill in the middle: same bytes everywhere, exact masks, accounts."""

import json
import random
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_chats import conversation, write_tokenizer
from small_runs import digest, recipe_of, sentences

from packing.format import IGNORED_LABEL
from packing.reader import PackedReader
from packing.rows import MicroBatch
from packing.verify import verify
from pipelines.dataset import replan_dataset
from pipelines.run import run
from transforms.record import RecordError
from transforms.tokenize.chat import ChatRenderer
from transforms.tokenize.chat_templates import find_template
from transforms.tokenize.conversation import Training, conversation_text
from transforms.tokenize.encoder import load_encoder
from transforms.tokenize.runs import encode_runs
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.special_vocabulary import special_vocabulary

BAD = [
    {"id": "x0", "messages": "no"},
    {"id": "x1", "messages": [{"role": "user", "content": "never answered"}]},
    {"id": "x2", "messages": [{"role": "user"}]},
    {"id": "x3"},
    [],
]

UNSTABLE = """{%- if messages[0].content == 'boom' %}{{ raise_exception('boom') }}{% endif %}
{%- for m in messages %}{{ m.role + ': ' }}
{%- if messages[0].content == 'shifty' and not loop.last %}?{% else %}{{ m.content or '' }}{% endif %}
{{- '<|im_end|>' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Conversations as jsonl and Parquet, plain text beside them, and a tokenizer."""
    folder = tmp_path_factory.mktemp("chats")
    rng = random.Random(11)
    good = [{"id": f"c{k}", **conversation(rng)} for k in range(120)]
    good[7]["messages"][-1]["content"] = "ordinary <|im_end|> text"
    lines = [json.dumps(record, ensure_ascii=False) for record in [*good[:80], *BAD]]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [
        {
            "id": record["id"],
            "messages": json.dumps(record["messages"]),
            "tools": json.dumps(record["tools"]),
        }
        for record in good[80:]
    ]
    rows.append({"id": "x5", "messages": "[]", "tools": None})
    pq.write_table(pa.Table.from_pylist(rows), folder / "b.parquet")
    texts = [{"id": f"t{k}", "text": sentences(rng, rng.randint(1, 900))} for k in range(60)]
    (folder / "texts").mkdir()
    (folder / "texts" / "t.jsonl").write_text("\n".join(map(json.dumps, texts)) + "\n")
    write_tokenizer(folder / "tokenizer")
    return folder, good


def recipe(folder, workdir, sources=None, **changes):
    chat = {"name": "chat", "messages": "messages", "tools": "tools"}
    sources = sources or [
        {**chat, "path": str(folder / "*.*")},
        {"name": "text", "path": str(folder / "texts" / "*.jsonl")},
    ]
    tokenizer = {
        "kind": "hf",
        "model": str(folder / "tokenizer" / "tokenizer.json"),
        "chat_template": "hermes",
    }
    value = {"sources": sources, "tokenizer": tokenizer, "pack": {"seq_len": 512}, **changes}
    return recipe_of(folder, workdir, **value)


@pytest.fixture(scope="module")
def chat_run(inputs, tmp_path_factory):
    """A finished run over all of it."""
    return run(recipe(inputs[0], tmp_path_factory.mktemp("run") / "w"))


@pytest.mark.parametrize(
    "runner",
    [{"workers": 1}, {"workers": 4}, {"workers": 2, "shuffle": "runner"}],
    ids=["1 worker", "4 workers", "runner shuffle"],
)
def test_workers_and_shuffle_change_no_byte(runner, inputs, chat_run, tmp_path):
    """A run over conversations gives the same bytes for any workers and both shuffles."""
    again = run(recipe(inputs[0], tmp_path / "w", runner={"kind": "local", **runner}))
    assert digest(again.dataset) == digest(chat_run.dataset)


def test_packed_weights_are_those_of_the_conversations(inputs, chat_run):
    """Every document, put together from its pieces, has the ids and weights of its conversation."""
    folder, good = inputs
    file = folder / "tokenizer" / "tokenizer.json"
    settings = TokenizerSettings(kind="hf", model=str(file), chat_template="hermes")
    renderer = ChatRenderer(find_template(settings), special_vocabulary(file, settings), file)
    encoder = load_encoder(file, settings)
    found = packed_documents(chat_run.dataset)
    ids = document_ids(chat_run)
    expected = {}
    for record in good:
        text = conversation_text(record["messages"], record["tools"], Training())
        encoded, spans = encode_runs(encoder, [renderer.runs(text, Training())])
        weights = np.zeros(len(encoded.ids), np.float32)
        for span in spans[0].as_py():
            weights[span["start"] : span["end"]] = span["weight"]
        expected[record["id"]] = encoded.ids.tolist(), weights.tolist()
    seen = 0
    for uid, (tokens, weights) in found.items():
        if ids[uid].startswith("t"):
            assert set(weights[1:]) <= {1.0}
            continue
        want, mask = expected[ids[uid]]
        assert tokens == want
        assert weights[1:] == mask[1:]
        seen += 1
    assert seen > 100
    assert any(len(tokens) > 512 for tokens, _ in found.values())


def test_ranks_train_equally_much(inputs, tmp_path, monkeypatch):
    """With several slots a step, its ranks train more equally than by work alone; so replanned."""
    folder = inputs[0]
    balance = {"dp": 2, "global_batch": 8}
    sources = [{"name": "chat", "path": str(folder / "*.*"), "messages": "messages"}]
    even = run(recipe(folder, tmp_path / "a", sources, balance=balance))
    found = verify(even.dataset)
    assert found.ok, found.failed
    new = replan_dataset(Path(even.dataset), dp=2, global_batch=8)
    monkeypatch.setattr("pipelines.steps.balance.even_trained", lambda plan, *_: plan)
    plain = verify(run(recipe(folder, tmp_path / "b", sources, balance=balance)).dataset)
    before = plain.counts["trained_max_over_mean"]
    assert found.counts["trained_max_over_mean"] - 1 < (before - 1) / 2
    assert new.imbalance < 1.1
    load = np.zeros((new.last_step + 1, 2))
    with PackedReader(even.dataset, plan=new.path) as reader:
        for rank in range(2):
            for step in reader.steps(rank, 2):
                for batch in step.micro_batches:
                    load[step.step, rank] += (batch.labels != IGNORED_LABEL).sum()
    full = load[:-1]
    assert (full.max(1) / full.mean(1)).mean() - 1 < (before - 1) / 2


def packed_documents(dataset):
    """Return tokens and target weights of every document, from the rows alone."""
    reader = PackedReader(dataset)
    rows = MicroBatch.of(reader.rows(range(reader.n_rows)))
    labels, found = rows.labels, {}
    order = np.lexsort((rows.doc_offset, rows.doc_uid))
    for piece in order.tolist():
        low, high = rows.cu_seqlens[piece : piece + 2].tolist()
        tokens, weights = found.setdefault(int(rows.doc_uid[piece]), ([], [0.0]))
        assert len(tokens) == rows.doc_offset[piece]
        tokens += rows.input_ids[low:high].tolist()
        targets = rows.loss_weights[low:high].tolist()
        assert [w > 0 for w in targets] == (labels[low:high] != IGNORED_LABEL).tolist()
        weights += targets if rows.next_token[piece] >= 0 else targets[:-1]
    return found


def document_ids(summary):
    rows = duckdb.connect(summary.catalog, read_only=True).sql("SELECT doc_uid, id FROM documents")
    return dict(rows.fetchall())


def test_rows_of_text_alone_keep_null_spans(chat_run):
    """Spans are null where a row is trained throughout, and only there."""
    chats = {uid for uid, name in document_ids(chat_run).items() if name.startswith("c")}
    kinds = set()
    for file in sorted(Path(chat_run.dataset).glob("rows-*.parquet")):
        for row in pq.read_table(file, columns=["doc_uid", "loss_spans"]).to_pylist():
            has_chat = bool(chats & set(row["doc_uid"]))
            assert (row["loss_spans"] is None) == (not has_chat)
            kinds.add(has_chat)
    assert kinds == {True, False}


def test_the_dataset_verifies(chat_run):
    """Loss spans are compared with the tokens artifact, and hold."""
    findings = verify(chat_run.dataset)
    assert not findings.failed
    assert "loss spans are those of the tokens artifact" in findings.held


def test_malformed_conversations_are_rejects(chat_run):
    """Each has its line, reason and detail; lines = ingested + rejected."""
    rows = duckdb.connect(chat_run.catalog, read_only=True).sql(
        "SELECT path, line, reason FROM rejects ORDER BY path, line"
    )
    assert rows.fetchall() == [
        ("a.jsonl", 81, "messages is not a list"),
        ("a.jsonl", 82, "no trained token"),
        ("a.jsonl", 83, "message without content"),
        ("a.jsonl", 84, "missing messages"),
        ("a.jsonl", 85, "not an object"),
        ("b.parquet", 41, "messages is empty"),
    ]
    assert chat_run.lines == chat_run.ingested + chat_run.rejected == 186


def test_what_the_template_refuses_is_dropped_with_a_reason(inputs, tmp_path):
    """Conversations that only encoding can judge stay ingested and are dropped; accounts close."""
    folder, _ = inputs
    (tmp_path / "t.jinja").write_text(UNSTABLE)
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    records = [{"messages": turns}]
    for word in ("boom", "shifty"):
        records.append({"messages": [{"role": "user", "content": word}, *turns[1:], *turns]})
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, records)))
    source = {"name": "c", "path": str(tmp_path / "c.jsonl"), "messages": "messages"}
    tokenizer = {
        "kind": "hf",
        "model": str(folder / "tokenizer" / "tokenizer.json"),
        "chat_template": str(tmp_path / "t.jinja"),
    }
    summary = run(recipe(folder, tmp_path / "w", sources=[source], tokenizer=tokenizer))

    assert summary.dropped == {"template failed": 1, "template is not prefix-stable": 1}
    assert (summary.ingested, summary.kept) == (3, 1)
    reasons = duckdb.connect(summary.catalog, read_only=True).sql(
        "SELECT reason FROM selection WHERE NOT kept ORDER BY ALL"
    )
    assert reasons.fetchall() == [("template failed",), ("template is not prefix-stable",)]
    assert not verify(summary.dataset).failed


def test_parquet_structs_and_json_lines_give_the_same_documents(inputs, tmp_path):
    """Nested Parquet columns give the texts that the same records give as JSON lines."""
    folder, _ = inputs
    call = {"function": {"name": "f", "arguments": '{"a": 1}'}}
    records = [
        {
            "id": str(k),
            "messages": [
                {"role": "user", "content": f"hello {k}"},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "content": "1"},
                {"role": "assistant", "content": f"bye {k}"},
            ],
        }
        for k in range(5)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "b.parquet")
    hashes = []
    for name in ("a.jsonl", "b.parquet"):
        source = {"name": "c", "path": str(tmp_path / name), "messages": "messages"}
        summary = run(recipe(folder, tmp_path / name[0], sources=[source]), until="ingest")
        rows = pq.read_table(
            next(Path(summary.workdir).glob("artifacts/ingest-*/[0-9a-f]*.parquet"))
        )
        hashes.append(rows["exact_hash"].to_pylist())
    assert hashes[0] == hashes[1]


FIM_NAMES = {"prefix": "<|im_start|>", "middle": "<|im_end|>", "suffix": "<|eot_id|>"}


def fim_recipe(folder, workdir, **fim):
    tokenizer = {
        "kind": "hf",
        "model": str(folder / "tokenizer" / "tokenizer.json"),
        "fim": {**FIM_NAMES, **fim},
    }
    texts = str(folder / "texts" / "*.jsonl")
    sources = [
        {"name": "code", "path": texts},
        {"name": "prose", "path": texts},
    ]
    return recipe(folder, workdir, sources=sources, tokenizer=tokenizer, dedupe={})


def test_fill_in_the_middle_is_drawn_by_domain_and_undone_by_verify(inputs, tmp_path):
    """Rearranged documents hold the same text; only the named domains are touched; verify holds."""
    folder, _ = inputs
    plain = run(fim_recipe(folder, tmp_path / "w", rate=0.0))
    summary = run(fim_recipe(folder, tmp_path / "w", rate=0.6, domains=["code"]))
    findings = verify(summary.dataset)
    assert not findings.failed
    assert "fill in the middle can be undone" in findings.held

    rows = duckdb.connect(summary.catalog, read_only=True).sql(
        "SELECT doc_uid, source FROM documents"
    )
    source = dict(rows.fetchall())
    before, after = packed_documents(plain.dataset), packed_documents(summary.dataset)
    file = folder / "tokenizer" / "tokenizer.json"
    specials = special_vocabulary(file, TokenizerSettings(kind="hf", model=str(file)))
    pre, mid, suf = (specials[FIM_NAMES[n]].id for n in ("prefix", "middle", "suffix"))
    touched = {"code": 0, "prose": 0}
    for uid, (tokens, weights) in after.items():
        assert set(weights[1:]) <= {1.0}
        if tokens[0] == pre:
            touched[source[uid]] += 1
            low, high = tokens.index(suf), tokens.index(mid)
            body = tokens[1:low] + tokens[high + 1 : -1] + tokens[low + 1 : high] + tokens[-1:]
            assert body == before[uid][0]
        else:
            assert tokens == before[uid][0]
    assert touched["prose"] == 0
    assert 25 <= touched["code"] <= 47

    again = run(fim_recipe(folder, tmp_path / "v", rate=0.6, domains=["code"]))
    assert digest(again.dataset) == digest(summary.dataset)


def test_verify_finds_a_document_rearranged_otherwise(inputs, tmp_path):
    """Settings other than those that made the tokens do not prove them."""
    summary = run(fim_recipe(inputs[0], tmp_path / "w", rate=1.0))
    [folder] = (tmp_path / "w" / "artifacts").glob("encode-*")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["config"]["fim"]["seed"] += 1
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert "fill in the middle can be undone" in verify(summary.dataset).failed


def test_unknown_fim_domains_and_tokens_are_refused(inputs, tmp_path):
    """A domain that no source has, and a token that the tokenizer lacks, end with a message."""
    with pytest.raises(
        ValueError, match=r"tokenizer\.fim\.domains: no source has the domain 'cod'"
    ):
        fim_recipe(inputs[0], tmp_path / "w", domains=["cod"])
    with pytest.raises(RecordError, match=r"tokenizer\.fim\.prefix = '<PRE>' is not a special"):
        run(fim_recipe(inputs[0], tmp_path / "w", prefix="<PRE>"))

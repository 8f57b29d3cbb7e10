"""Repeated sentences end to end: from planted lines to the exported text and the packed tokens."""

import json
import random
import re
from collections import defaultdict

import pyarrow.parquet as pq
import pytest
from small_runs import digest, recipe_of

from catalog.explain import explain
from pipelines.export_documents import export_documents
from pipelines.run import run

FRAME = [
    lambda r: f"Copyright © {r.randint(1990, 2024)} Hillside News Ltd. All rights reserved.",
    lambda r: (
        f"Posted on {r.choice(['May', 'June', 'January'])} {r.randint(1, 28)}, {r.randint(1999, 2024)}"
    ),
    lambda r: "Home > News > Sports",
    lambda r: "We use cookies to give you the best experience on our website.",
    lambda r: "Subscribe to our newsletter for the latest updates.",
    lambda r: "Share this article on Facebook and Twitter",
    lambda r: f"责任编辑：{r.choice('李王张刘陈')}{r.choice('明红伟')}",
    lambda r: f"上一篇：关于第{r.randint(1, 99)}次会议的通知",
    lambda r: f"发布时间：{r.randint(2000, 2024)}-{r.randint(1, 12)}-{r.randint(1, 28)} 来源：本站",
    lambda r: f"版权所有 © {r.randint(2000, 2024)} 未经授权禁止转载",
    lambda r: "点击阅读全文",
]
GOOD = [
    "The early bird catches the worm.",
    "No person shall be deprived of life, liberty, or property without due process of law.",
    "A prime number is a natural number that has exactly two divisors.",
    "千里之行，始于足下。",
    "本法自公布之日起施行。",
    "To be, or not to be, that is the question.",
]


def body(rng, lang):
    if lang == "zh":
        return "".join(rng.choices("山水风雨田野石墙天地人心日月星云花草树木", k=14)) + "。"
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(2, 8))) for _ in range(11)]
    return " ".join(words).capitalize() + "."


def planted(n=240, seed=4):
    """Return documents: (lines, planted frame lines, planted good sentences)."""
    rng = random.Random(seed)
    documents = []
    for k in range(n):
        lang = "zh" if k % 2 else "en"
        lines = [" ".join(body(rng, lang) for _ in range(4)) for _ in range(4)]
        frame = [line(rng) for line in rng.sample(FRAME, 2)]
        good = rng.sample(GOOD, 2)
        lines[rng.randrange(4)] += " " + good[0]
        lines.insert(rng.randrange(5), good[1])
        lines.insert(0, frame[0])
        lines.append(frame[1])
        documents.append((lines, frame, good))
    return documents


def write(folder, texts, files=3):
    folder.mkdir(parents=True)
    for k in range(files):
        lines = [
            json.dumps({"id": f"d{n}", "text": texts[n], "score": (n % 10) / 10})
            for n in range(k, len(texts), files)
        ]
        (folder / f"part-{k}.jsonl").write_text("".join(line + "\n" for line in lines))
    return folder


def sentence_recipe(corpus, workdir, sentence=None, **changes):
    base = {"dedupe": {"exact": {}, "sentence": sentence or {}}, "tokenizer": {"vocab_size": 400}}
    return recipe_of(corpus, workdir, **{**base, **changes})


def exported(workdir, summary):
    out = workdir / "out.parquet"
    export_documents(workdir, summary.run_id, "parquet", out)
    table = pq.read_table(out)
    return dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))


@pytest.fixture(scope="module")
def planted_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sentences")
    documents = planted()
    corpus = write(folder / "c", ["\n".join(lines) for lines, _, _ in documents])
    summary = run(sentence_recipe(corpus, folder / "w"))
    return folder, documents, summary


def test_planted_frames_go_and_good_sentences_stay(planted_run):
    """All frame lines are gone from the exported text, the rest of it is as it was."""
    folder, documents, summary = planted_run
    texts = exported(folder / "w", summary)
    assert len(texts) == len(documents)
    for number, (lines, frame, _) in enumerate(documents):
        assert texts[f"d{number}"] == "\n".join(line for line in lines if line not in frame)


def test_packed_tokens_are_those_of_the_shortened_text(planted_run):
    """What is packed decodes to the exported text."""
    import sentencepiece

    folder, _, summary = planted_run
    [model] = (folder / "w").glob("artifacts/balance-*/tokenizer.model")
    encoder = sentencepiece.SentencePieceProcessor(model_file=str(model))
    texts = exported(folder / "w", summary)
    [tokens] = (folder / "w").glob("artifacts/encode-*/manifest.json")
    want = sorted((*encoder.encode(text), encoder.eos_id()) for text in texts.values())
    found = []
    for entry in json.loads(tokens.read_text())["files"]:
        if entry["kind"] == "data" and not entry["name"].startswith("drops"):
            table = pq.read_table(tokens.parent / entry["name"], columns=["input_ids"])
            found += [tuple(ids) for ids in table["input_ids"].to_pylist()]
    assert sorted(found) == want


def test_accounts_and_catalog(planted_run):
    """Nothing is lost in the accounts; the spans are in the catalog and in ``explain``."""
    folder, documents, summary = planted_run
    assert summary.ingested == summary.kept + sum(summary.dropped.values()) == len(documents)
    told = explain(folder / "w", "d0")
    assert [span["kind"] for span in told.spans] == ["sentence", "sentence"]
    [manifest] = (folder / "w").glob("artifacts/dedupe.sentence-*/manifest.json")
    value = json.loads(manifest.read_text())
    assert value["counters"]["removed sentences"] >= 2 * len(documents)
    assert value["config"]["top_1000_share_after"] < value["config"]["top_1000_share_before"]


@pytest.mark.parametrize(
    "runner", [{"workers": 1}, {"workers": 2}, {"workers": 2, "shuffle": "runner"}]
)
def test_same_bytes(planted_run, tmp_path, runner):
    """Neither the number of workers nor the kind of shuffle changes a byte."""
    folder, _, summary = planted_run
    other = run(sentence_recipe(folder / "c", tmp_path / "w", runner=runner))
    assert other.fingerprint == summary.fingerprint
    for stage in ("dedupe.sentence", "balance"):
        [one], [two] = (
            list(w.glob(f"artifacts/{stage}-*")) for w in (folder / "w", tmp_path / "w")
        )
        assert digest(one) == digest(two)


def test_counts_against_brute_force(tmp_path):
    """Counts are of distinct documents that earlier stages kept, each once."""
    rng = random.Random(2)
    pool = [body(rng, "en") for _ in range(30)]
    texts = ["\n".join(rng.choices(pool, k=rng.randint(1, 12))) for _ in range(150)]
    texts += texts[:20]
    corpus = write(tmp_path / "c", texts)
    settings = {"frequent_min": 1, "max_quality": 0.0}
    run(sentence_recipe(corpus, tmp_path / "w", settings), until="dedupe.sentence")
    want = defaultdict(lambda: [0, 0])
    for text in set(texts):
        for line in set(text.split("\n")):
            want[line][0] += 1
            want[line][1] += text.split("\n").count(line)
    [file] = (tmp_path / "w").glob("artifacts/dedupe.sentence-*/sentences-*.parquet")
    rows = pq.read_table(file).to_pylist()
    found = {row["text"]: [row["documents"], row["occurrences"]] for row in rows}
    assert found == {line: counts for line, counts in want.items() if counts[0] > 1}


def test_documents_of_which_little_is_left_are_dropped(tmp_path):
    """More than half of the characters gone: the document is dropped, with reason and account."""
    rng = random.Random(3)
    notice = "Subscribe to our newsletter and follow us on Facebook for the latest updates."
    texts = [notice + "\n" + " ".join(body(rng, "en") for _ in range(5)) for _ in range(20)]
    texts += [notice + f"\n{body(rng, 'en')[:20]}." for _ in range(7)]
    corpus = write(tmp_path / "c", texts)
    summary = run(sentence_recipe(corpus, tmp_path / "w"))
    assert summary.dropped == {"dedupe.sentence": 7}
    assert summary.kept == 20
    told = explain(tmp_path / "w", "d22")
    assert told.reason == "dedupe.sentence"
    texts = exported(tmp_path / "w", summary)
    assert len(texts) == 20
    assert not any(notice in text for text in texts.values())


def test_settings_change_what_is_removed(tmp_path):
    """``keep_first`` leaves one copy; ``domains`` leaves others alone; a column can be the quality."""
    documents = planted(60, seed=9)
    notice = "Subscribe to our newsletter for the latest updates."
    corpus = write(tmp_path / "c", ["\n".join([*lines, notice]) for lines, _, _ in documents])

    def left(name, sentence):
        summary = run(sentence_recipe(corpus, tmp_path / name, sentence))
        return sum(notice in text for text in exported(tmp_path / name, summary).values())

    assert left("all", {}) == 0
    assert left("first", {"keep_first": True}) == 1
    assert left("none", {"max_quality": 0.0}) == 60
    assert left("strict", {"frequent_min": 60}) == 60


def test_column_of_qualities(tmp_path):
    """The mean of a column over the documents that have a sentence can be its quality."""
    rng = random.Random(5)
    good, bad = "A sentence that good documents share.", "A sentence that bad documents share."
    texts = [
        "\n".join([body(rng, "en"), body(rng, "en"), good if n % 10 >= 5 else bad])
        for n in range(60)
    ]
    corpus = write(tmp_path / "c", texts)
    source = {"name": "s", "path": str(corpus / "*.jsonl"), "columns": {"score": "score"}}
    recipe = recipe_of(
        corpus,
        tmp_path / "w",
        dedupe={"sentence": {"quality_column": "score"}},
        tokenizer={"vocab_size": 300},
        sources=[source],
    )
    summary = run(recipe)
    found = exported(tmp_path / "w", summary).values()
    assert sum(good in text for text in found) == 30
    assert sum(bad in text for text in found) == 0
    with pytest.raises(ValueError, match=re.escape('"nope" is no column')):
        sentence_recipe(corpus, tmp_path / "x", {"quality_column": "nope"})
    with pytest.raises(ValueError, match=re.escape('"nope" is no domain')):
        sentence_recipe(corpus, tmp_path / "x", {"domains": ["nope"]})

"""Repeated sentences end to end: from planted lines to the exported text and the packed tokens."""

import json
import random
import re
from collections import defaultdict

import pyarrow.parquet as pq
import pytest
from small_runs import digest, recipe_of, similar_frame

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
    lambda r: similar_frame(r, "abcdefghijklmnop"),
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
    "runner", [{"workers": 1}, {"workers": 4}, {"workers": 2, "shuffle": "runner"}]
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


def jaccard(one, two):
    """Return the similarity of two sentences of words parted by single spaces."""
    one, two = (text.lower().rstrip(".") for text in (one, two))
    one, two = ({text[k : k + 4] for k in range(len(text) - 3)} for text in (one, two))
    return len(one & two) / len(one | two)


def test_similar_sentences_are_counted_together(tmp_path):
    """Groups and their distinct documents are those of brute force, without chains."""
    rng = random.Random(7)
    pool = []
    for _ in range(6):
        words = [
            "subscribe",
            "newsletter",
            *("".join(rng.choices("abcdef", k=5)) for _ in range(13)),
        ]
        rng.shuffle(words)
        pool.append(" ".join(words))
        for _ in range(5):
            line = rng.choice(pool[-1:] if rng.random() < 0.5 else pool)
            place = rng.randrange(len(line) - 3)
            pool.append(line[:place] + "x" + line[place + 1 :])
    pool = sorted({line.capitalize() + "." for line in pool})
    texts = [
        "\n".join([*rng.choices(pool, k=rng.randint(1, 4)), *(body(rng, "en") for _ in range(9))])
        for _ in range(70)
    ]
    has = {line: {n for n, t in enumerate(texts) if line in t.split("\n")} for line in pool}
    has = {line: documents for line, documents in has.items() if documents}
    corpus = write(tmp_path / "c", texts)
    run(sentence_recipe(corpus, tmp_path / "w", {"max_quality": 1.0}), until="dedupe.sentence")
    [file] = (tmp_path / "w").glob("artifacts/dedupe.sentence-*/sentences-*.parquet")
    rows = {row["text"]: row for row in pq.read_table(file).to_pylist()}
    found = {line: row for line, row in rows.items() if row["near_group"] is not None}
    assert len({row["near_group"] for row in found.values()}) > 3
    hashes = {line: row["hash"] for line, row in rows.items()}
    names = {code: line for line, code in hashes.items()}
    # Forms of groups that cannot matter are not listed where one document alone has them.
    for line, row in found.items():
        leader = names[row["near_group"]]
        assert row["documents"] == len(has[line])
        assert leader == line or jaccard(leader, line) >= 0.85
        members = [m for m, r in found.items() if r["near_group"] == row["near_group"]]
        assert row["group_documents"] == len(set().union(*(has[m] for m in members)))
        assert row["removed"] == (row["group_documents"] > 10)
    leaders = {names[row["near_group"]] for row in found.values()}
    assert all(jaccard(a, b) < 0.85 for a in leaders for b in leaders if a < b)
    order = sorted(has, key=lambda line: (-len(has[line]), hashes.get(line, 0)))
    for line in order:
        if line in found or line not in hashes:
            continue
        near = [m for m in has if m != line and jaccard(m, line) >= 0.85]
        assert len(set().union(has[line], *(has[m] for m in near))) <= 10 or all(
            names[found[m]["near_group"]] != m for m in near if m in found
        )


def test_similar_sentences_that_one_document_each_has(tmp_path):
    """A line that varies in every document goes; not where ``near`` is off; one stays if asked."""
    rng = random.Random(8)
    lines = [similar_frame(rng, "abcdefgh") for _ in range(40)]
    assert len(set(lines)) == 40
    texts = ["\n".join([*(body(rng, "en") for _ in range(9)), line]) for line in lines]
    corpus = write(tmp_path / "c", texts)

    def left(name, sentence):
        summary = run(sentence_recipe(corpus, tmp_path / name, sentence))
        found = exported(tmp_path / name, summary)
        return sum(line in found[f"d{n}"] for n, line in enumerate(lines))

    assert left("near", {}) == 0
    assert left("exact", {"near": False}) == 40
    assert left("first", {"keep_first": True}) == 1
    assert left("far", {"near": 1}) == 40


def test_only_some_domains(tmp_path):
    """Documents of other domains are neither counted nor cut; none at all is no error."""
    rng = random.Random(10)
    notice = "Subscribe to our newsletter for the latest updates."
    sources = []
    for name in ("web", "books", "none"):
        texts = ["\n".join([*(body(rng, "en") for _ in range(6)), notice]) for _ in range(20)]
        folder = write(tmp_path / name, texts if name != "none" else [""])
        sources.append({"name": name, "domain": name, "path": str(folder / "*.jsonl")})

    def left(name, domains):
        sentence = {"domains": domains}
        recipe = sentence_recipe(tmp_path, tmp_path / name, sentence, sources=sources)
        summary = run(recipe)
        found = defaultdict(int)
        out = tmp_path / name / "out.parquet"
        export_documents(tmp_path / name, summary.run_id, "parquet", out)
        for row in pq.read_table(out).to_pylist():
            found[row["source"]] += notice in row["text"]
        [file] = (tmp_path / name).glob("artifacts/dedupe.sentence-*/sentences-*.parquet")
        return dict(found), pq.read_table(file)["documents"].to_pylist()

    found, counts = left("w1", ["web"])
    assert found == {"web": 0, "books": 20}
    assert counts == [20]
    found, counts = left("w2", ["none"])
    assert found == {"web": 20, "books": 20}
    assert counts == []


def test_evaluation_items_and_repeated_sentences_in_one_run(tmp_path):
    """Both stages' spans are cut: from the export, from the packed tokens, and in the accounts."""
    import sentencepiece

    rng = random.Random(12)
    item = (
        "A farmer named Agnes builds seven walls of stone, each eleven metres long, and sells five "
        "sheep to pay Bertram. How many metres of wall has Agnes in the end?"
    )
    (tmp_path / "items.jsonl").write_text(json.dumps({"id": "q", "text": item}) + "\n")
    notice = "Subscribe to our newsletter for the latest updates."
    texts = []
    for k in range(60):
        lines = [" ".join(body(rng, "en") for _ in range(5)) for _ in range(4)]
        lines.insert(rng.randrange(5), notice)
        if k % 4 == 0:
            lines.insert(rng.randrange(6), item)
        texts.append("\n".join(lines))
    corpus = write(tmp_path / "c", texts)
    table = {"path": [str(tmp_path / "items.jsonl")], "policy": "cut"}
    workdir = tmp_path / "w"
    summary = run(sentence_recipe(corpus, workdir, {}, decontaminate=table))
    assert summary.ingested == summary.kept + sum(summary.dropped.values()) == 60
    found = exported(workdir, summary)
    assert len(found) == summary.kept == 60
    cut = 0
    for n, text in enumerate(texts):
        left = found[f"d{n}"]
        assert notice not in left
        assert "farmer named Agnes" not in left
        rest = [line for line in text.split("\n") if line not in (notice, item)]
        assert [line for line in left.split("\n") if line in rest] == rest
        cut += len({span["kind"] for span in explain(workdir, f"d{n}").spans}) == 2
    assert cut == 15
    [model] = workdir.glob("artifacts/balance-*/tokenizer.model")
    encoder = sentencepiece.SentencePieceProcessor(model_file=str(model))
    want = sorted((*encoder.encode(text), encoder.eos_id()) for text in found.values())
    [tokens] = workdir.glob("artifacts/encode-*/manifest.json")
    packed = []
    for entry in json.loads(tokens.read_text())["files"]:
        if entry["kind"] == "data" and not entry["name"].startswith("drops"):
            rows = pq.read_table(tokens.parent / entry["name"], columns=["input_ids"])
            packed += [tuple(ids) for ids in rows["input_ids"].to_pylist()]
    assert sorted(packed) == want


def test_what_is_not_counted_stays_and_planted_halves_go(tmp_path):
    """Beside a removed sentence short and wrapped ones stay; a removed one goes from wrapped text."""
    rng = random.Random(3)
    frame = "Subscribe to our newsletter for the latest updates"
    wrapped = "Cookies are what the bakers of this town leave upon the\nwindow sills"
    texts = []
    for k in range(40):
        lines = [" ".join(body(rng, "en") for _ in range(3)) for _ in range(4)]
        lines[1] = f"{frame}! {wrapped} of house {body(rng, 'en')}"
        lines[2] = f"{frame}! Oh no!"
        lines.insert(0, frame)
        if k < 5:
            half = "it was in those years that the river froze from bank to"
            lines.insert(3, f"And {half}\n{frame}\nbank, {body(rng, 'en').lower()}")
        texts.append("\n".join(lines))
    corpus = write(tmp_path / "c", texts)
    summary = run(sentence_recipe(corpus, tmp_path / "w", {"min_chars": 10}))
    left = exported(tmp_path / "w", summary)
    for k, text in enumerate(texts):
        expected = text.replace(f"{frame}! ", "").replace(f"{frame}\n", "")
        assert left[f"d{k}"] == expected

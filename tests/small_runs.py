"""Small generated corpora and runs over them."""

import hashlib
import json
import random
from pathlib import Path

from pipelines.recipe import from_dict

WORDS = [
    "stone",
    "wall",
    "dry",
    "field",
    "hill",
    "sheep",
    "water",
    "rain",
    "north",
    "path",
    "moss",
    "gate",
    "lime",
    "ridge",
    "frost",
    "token",
    "row",
    "shard",
    "plan",
    "rank",
    "step",
    "cost",
    "slot",
    "piece",
    "whole",
    "window",
    "long",
    "short",
    "even",
    "kerb",
    "cope",
    "hearting",
    "石",
    "墙",
    "田",
    "野",
    "风",
    "雨",
    "mauer",
    "stein",
    "feld",
    "straße",
    "été",
    "où",
    "naïve",
    "🪨",
]


def sentences(rng, n_words):
    """Return text of so many words, with sentence ends and line breaks."""
    words = rng.choices(WORDS, k=n_words)
    return "".join(w + rng.choice([" ", " ", " ", ", ", ". ", ".\n"]) for w in words)


def write_corpus(folder: Path, n_docs=300, n_files=4, seed=1) -> Path:
    """Write jsonl files of documents of very different lengths, a tenth of them duplicates."""
    rng = random.Random(seed)
    docs = []
    for k in range(n_docs):
        if docs and rng.random() < 0.1:
            text = rng.choice(docs)["text"]
        else:
            text = sentences(rng, int(min(4000, rng.lognormvariate(4.5, 1.2))) + 1)
        docs.append({"id": f"d{k}", "text": text, "lang": rng.choice(["en", "zh", None])})
    folder.mkdir(parents=True)
    for f in range(n_files):
        lines = [json.dumps(doc, ensure_ascii=rng.random() < 0.5) for doc in docs[f::n_files]]
        (folder / f"part-{f}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def digest(folder) -> str:
    """Return one hash over the names and bytes of a folder's Parquet files."""
    whole = hashlib.sha256()
    for file in sorted(Path(folder).glob("*.parquet")):
        whole.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def recipe_of(corpus: Path, workdir: Path, **changes):
    """Return the recipe of the main job over a folder of jsonl files."""
    value = {
        "name": "small",
        "seed": 7,
        "workdir": str(workdir),
        "sources": [{"name": "s", "path": str(corpus / "*.jsonl")}],
        "dedupe": {"exact": {}},
        "tokenizer": {"kind": "sentencepiece", "vocab_size": 400},
        "pack": {"seq_len": 512},
        "balance": {"dp": 2, "global_batch": 4},
        "runner": {"kind": "local", "workers": 2},
    }
    return from_dict({**value, **changes})


def write_near_corpus(folder: Path, **sizes) -> Path:
    """Write a corpus as :func:`write_corpus` does, and beside it copies with a word replaced."""
    write_corpus(folder, **sizes)
    rng = random.Random(9)
    lines = []
    for line in (folder / "part-0.jsonl").read_text(encoding="utf-8").splitlines():
        doc = json.loads(line)
        words = doc["text"].split(" ")
        if len(words) > 60:
            words[rng.randrange(len(words))] = "replaced"
            lines.append(json.dumps({**doc, "id": f"{doc['id']} again", "text": " ".join(words)}))
    (folder / "part-near-1.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def write_whole_corpus(folder: Path, **sizes) -> Path:
    """Write a near corpus, and beside it documents with repeated sentences, equal and similar ones."""
    write_near_corpus(folder, **sizes)
    rng = random.Random(11)
    for f in range(2):
        lines = []
        for k in range(60):
            text = "\n".join([*FRAME_LINES, similar_frame(rng, "abc"), "The " + sentences(rng, 60)])
            lines.append(json.dumps({"id": f"framed {f} {k}", "text": text, "lang": "en"}))
        (folder / f"part-frame-{f}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


FRAME_LINES = ("Subscribe to our newsletter", "版权所有 未经授权禁止转载")


def similar_frame(rng, letters):
    """Return a line of a page's frame that hardly two documents have alike."""
    name = "".join(rng.choices(letters, k=6)).capitalize()
    return (
        f"Subscribe to our newsletter, and share this article with {name}, "
        "or follow us on Facebook and Twitter for the latest updates of our website"
    )


def whole_recipe_of(corpus: Path, workdir: Path, **changes):
    """Return a recipe of two sources with all kinds of removal by repetition, and a mixture."""
    sources = [
        {"name": name, "path": str(corpus / f"part*[{digits}].jsonl")}
        for name, digits in (("even", "02468"), ("odd", "13579"))
    ]
    mixture = {"tokens": 60_000, "max_epochs": 3, "weights": {"even": 0.6, "odd": 0.4}}
    dedupe = {"exact": {}, "near": {}, "sentence": {}}
    value = {"sources": sources, "dedupe": dedupe, "mixture": mixture}
    return recipe_of(corpus, workdir, **{**value, **changes})

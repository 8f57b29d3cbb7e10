"""Repeated sentences: cost of the stage, what it removes, and a plain-Python counter of lines in the same run.

    python -m benchmarks.sentences [--corpus ../shared/data/corpus] [--documents 2000]

Three tables, in CPU seconds of this process:

* the stage alone on a corpus of real texts, with and without the search of similar sentences, next to
  a dictionary that counts normalized lines in distinct documents and leaves out those that more than
  ten have, as C4 and CCNet do;
* characters of the 1,000 most repeated sentences before and after;
* planted frames of pages and well-formed sentences, none of which the quality model was fitted on.
"""

import argparse
import json
import random
import re
import tempfile
import time
import unicodedata
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from pipelines.export_documents import export_documents
from pipelines.recipe import from_dict
from pipelines.run import run

NAMES = ("Avery", "Blake", "Casey", "Devon", "Ellis", "Flynn", "Gray", "Harper", "Jules", "Lane")
FRAME = [
    lambda r: f"Copyright © {r.randint(1995, 2024)} Northgate Post. All rights reserved.",
    lambda r: f"Page {r.randint(1, 90)} of {r.randint(91, 400)}",
    lambda r: f"Posted by {r.choice(NAMES)} on {r.randint(1, 28)} May {r.randint(2001, 2023)}",
    lambda r: "Home » World » Europe » Opinion",
    lambda r: "This site uses cookies to improve your browsing experience.",
    lambda r: "Sign up for our weekly newsletter and never miss a story",
    lambda r: "Share this article with your friends",
    lambda r: f"Updated {r.randint(2, 23)} hours ago",
    lambda r: "404 Not Found",
    lambda r: "Find out more",
    lambda r: f"Editor: {r.choice(NAMES)}",
    lambda r: (
        f"Subscribe to the {r.choice(NAMES)} newsletter, follow us on Facebook and "
        "Twitter, and share this article by email with your friends and family"
    ),
    lambda r: f"责任编辑：{r.choice('赵钱孙李周吴')}{r.choice('芳强磊静')}",
    lambda r: f"版权所有 © {r.randint(2000, 2024)} 某某都市报 未经许可不得转载",
    lambda r: f"点击：{r.randint(10, 99999)}次",
    lambda r: f"上一篇：{r.choice('春夏秋冬')}季运动会在我市举行",
    lambda r: "分享到：微信 微博 QQ空间",
    lambda r: f"第{r.randint(1, 16):02d}版：要闻",
    lambda r: f"第 {r.randint(1, 30)} 页 共 {r.randint(31, 60)} 页",
    lambda r: f"{r.randint(2005, 2024)}年{r.randint(1, 12)}月{r.randint(1, 28)}日 来源：某某网",
]
GOOD = [
    'The key words "MUST" and "SHOULD" are to be interpreted as described in RFC 2119.',
    "Where there is a will, there is a way.",
    "Necessity is the mother of invention.",
    "A verb is a word that describes an action or a state.",
    "The accused shall be presumed innocent until proved guilty.",
    "Nothing in this Act affects the prerogative of the Crown.",
    "Hope is the thing with feathers that perches in the soul.",
    "The Treaty of Versailles was signed on 28 June 1919.",
    "Stir the sauce until it thickens.",
    "She closed the book and looked out of the window.",
    "本法自公布之日起施行。",
    "任何组织和个人都有权检举违法行为。",
    "当事人应当遵循公平原则确定各方的权利和义务。",
    "己欲立而立人，己欲达而达人。",
    "山重水复疑无路，柳暗花明又一村。",
    "1983年9月20日，国务院发布了这项规定。",
    "细胞是生命活动的基本单位。",
    "她合上书，望着窗外。",
]


def stage_run(value: dict, workdir: Path) -> tuple[float, dict, float]:
    """Run the stage of an ingested corpus; return its CPU seconds, manifest and characters."""
    summary = run(from_dict({**value, "workdir": str(workdir)}), until="dedupe.sentence")
    [stage] = [s for s in summary.stages if s["stage"] == "dedupe.sentence"]
    manifest = json.loads((workdir / stage["path"] / "manifest.json").read_text())
    return stage["cpu_s"], manifest, manifest["counters"]["characters"]


def rival(folder: Path) -> tuple[float, int, int]:
    """Count normalized lines of ingested documents; return CPU seconds, bytes and bytes left."""
    before = time.process_time()
    texts: list[str] = []
    for file in sorted(folder.glob("*.parquet")):
        if "rejects" not in file.name:
            texts += pq.read_table(file, columns=["text"])["text"].to_pylist()
    number, punctuation = re.compile(r"\d+"), re.compile(r"[^\w\s]")

    def form(line: str) -> str:
        line = unicodedata.normalize("NFKC", line).lower()
        return " ".join(punctuation.sub(" ", number.sub("0", line)).split())

    counts: Counter[str] = Counter()
    for text in texts:
        counts.update({form(line) for line in text.split("\n")})
    left = 0
    for text in texts:
        left += sum(len(line.encode()) for line in text.split("\n") if counts[form(line)] <= 10)
    size = sum(len(text.encode()) for text in texts)
    return time.process_time() - before, size, left


def costs(corpus: Path, scratch: Path) -> None:
    """Print the costs on real texts."""
    sources = [
        {"name": folder.name, "path": str(folder / "*.jsonl*")}
        for folder in sorted(corpus.iterdir())
        if folder.is_dir() and list(folder.glob("*.jsonl*"))
    ]
    value = {"name": "sentences", "seed": 1, "sources": sources, "dedupe": {"exact": {}}}
    warm = [{**sources[0]}]
    stage_run({**value, "sources": warm, "dedupe": {"exact": {}, "sentence": {}}}, scratch / "warm")
    run(from_dict({**value, "workdir": str(scratch / "real")}), until="dedupe.exact")
    [ingest] = (scratch / "real").glob("artifacts/ingest-*")
    rival_s, size, left = rival(ingest)
    print(f"{len(sources)} sources, {size / 1e6:.1f} MB of text")
    print(f"{'':34}{'CPU s':>8}{'MB/s':>8}  top 1,000 before -> after")
    for name, settings in (("equal sentences", {"near": False}), ("equal and similar ones", {})):
        table = {**value, "dedupe": {"exact": {}, "sentence": settings}}
        cpu, manifest, _ = stage_run(table, scratch / "real")
        shares = [manifest["config"][f"top_1000_share_{w}"] for w in ("before", "after")]
        print(f"{name:34}{cpu:8.1f}{size / 1e6 / cpu:8.1f}  {shares[0]:.3%} -> {shares[1]:.3%}")
    print(f"{'dict of normalized lines':34}{rival_s:8.1f}{size / 1e6 / rival_s:8.1f}", end="")
    print(f"  leaves {left / size:.1%} of the bytes, and no sentences inside of lines")


def planted(documents: int, scratch: Path) -> None:
    """Print which planted lines are removed."""
    rng = random.Random(20)
    letters = "abcdefghijklmnoprstuvw"
    rows: list[tuple[list[str], list[str]]] = []
    folder = scratch / "planted"
    folder.mkdir()
    with (folder / "a.jsonl").open("w") as sink:
        for number in range(documents):
            frames = [make(rng) for make in rng.sample(FRAME, 3)]
            good = rng.sample(GOOD, 3)
            body = []
            for _ in range(6):
                words = ["".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(20)]
                body.append(" ".join(words).capitalize() + ".")
            body[1] += " " + good[0]
            lines = [frames[0], *body[:3], *good[1:2], frames[1], *body[3:], *good[2:], frames[2]]
            rows.append((frames, good))
            record = {"id": f"d{number}", "text": "\n".join(lines)}
            sink.write(json.dumps(record, ensure_ascii=False) + "\n")
    value = {
        "name": "planted",
        "seed": 1,
        "workdir": str(scratch / "w"),
        "sources": [{"name": "s", "path": str(folder / "*.jsonl")}],
        "dedupe": {"exact": {}, "sentence": {}},
        "tokenizer": {"vocab_size": 500},
    }
    summary = run(from_dict(value))
    out = scratch / "out.parquet"
    export_documents(scratch / "w", summary.run_id, "parquet", out)
    table = pq.read_table(out)
    texts = dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
    missed: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    for number, (frames, good) in enumerate(rows):
        lines = texts[f"d{number}"].split("\n")
        missed.update(line for line in frames if line in lines)
        lost.update(line for line in good if line not in texts[f"d{number}"])
    total = 3 * len(rows)
    print(
        f"planted in {documents} documents: {total - missed.total()} of {total} frames removed",
        end="",
    )
    print(f", {total - lost.total()} of {total} good sentences kept")
    for name, lines in (("left", missed), ("lost", lost)):
        for line, count in lines.most_common(8):
            print(f"  {name} {count:5} {line}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=Path("../shared/data/corpus"))
    parser.add_argument("--documents", type=int, default=2000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        planted(options.documents, Path(scratch))
        if options.corpus.is_dir():
            costs(options.corpus, Path(scratch))


if __name__ == "__main__":
    main()

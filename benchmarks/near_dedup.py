#!/usr/bin/env python3
"""Near-duplicate removal over a folder of corpora: cost per GB of text, memory, and quality.

Quality is judged on ``corpus-pairs.jsonl.zst`` beside the corpora where it is there: pairs of known
similarity. Similarities are recomputed under the published tokens, since those of the file differ a
little from them. Every removal is recomputed from the text.
"""

import argparse
import io
import json
import random
import tempfile
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from near_split import grouped, measured

from pipelines.recipe import from_dict
from pipelines.run import RunSummary, run
from transforms.shingles import INVISIBLE, UNSPACED_SCRIPTS, shingle_sets

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


def main() -> None:
    """Run the stage and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=DATA / "corpus", help="folder of folders")
    parser.add_argument("--pairs", type=Path, default=DATA / "neardup" / "corpus-pairs.jsonl.zst")
    parser.add_argument("--only", nargs="*", help="names of folders")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    folders = sorted(path for path in arguments.corpus.iterdir() if path.is_dir())
    folders = [path for path in folders if not arguments.only or path.name in arguments.only]
    with tempfile.TemporaryDirectory() as scratch:
        workdir = Path(scratch) / "w"
        sources = [{"name": f.name, "path": str(f / "*.jsonl*")} for f in folders]
        recipe = from_dict(
            {
                "name": "near-dedup",
                "workdir": str(workdir),
                "sources": sources,
                "dedupe": {"exact": {}, "near": {}},
                "runner": {"workers": arguments.workers},
            }
        )
        began = time.process_time()
        with measured() as watch:
            summary = run(recipe, until="dedupe.near")
        report_cost(summary, workdir)
        report_split(workdir, {"start-up: imports": began, **watch.seconds})
        report_quality(workdir, arguments.pairs)


def report_cost(summary: RunSummary, workdir: Path) -> None:
    """Print documents, bytes and CPU seconds per GB of text."""
    [manifest] = workdir.glob("artifacts/ingest-*/manifest.json")
    text = json.loads(manifest.read_text())["counters"]["bytes"]
    print(f"documents {summary.ingested:,}   text {text / 1e6:,.1f} MB")
    for stage in summary.stages:
        per_gb = stage["cpu_s"] / text * 1e9
        print(
            f"{stage['stage']:<13} cpu {stage['cpu_s']:7.2f} s   wall {stage['wall_s']:7.2f} s   "
            f"{per_gb:6.1f} CPU s per GB   rows {stage['rows_in']:,} -> {stage['rows_out']:,}"
        )
    [near] = workdir.glob("artifacts/dedupe.near-*/manifest.json")
    print(json.dumps(json.loads(near.read_text())["counters"]))
    print(f"peak memory {summary.peak_rss_bytes / 1e6:,.0f} MB")


def report_split(workdir: Path, seconds: dict[str, float]) -> None:
    """Print the CPU seconds of each part of the run, and of all but reading, writing and engine."""
    [manifest] = workdir.glob("artifacts/ingest-*/manifest.json")
    text = json.loads(manifest.read_text())["counters"]["bytes"]
    seconds = {**seconds, "other": time.process_time() - sum(seconds.values())}
    for name, value in sorted(seconds.items(), key=lambda item: -item[1]):
        print(f"  {name:<34}{value:7.2f} s")
    groups = grouped(seconds)
    print("  ".join(f"{name} {value:.2f}" for name, value in groups.items()))
    work = sum(value for name, value in groups.items() if name not in ("read", "write", "engine"))
    print(f"outside reading, writing and engine: {work / text * 1e9:.1f} CPU s per GB of text")


def report_quality(workdir: Path, pairs: Path) -> None:
    """Print how many removals have no kept neighbour, and how many known pairs leaked."""
    texts, removed = read_run(workdir)
    near = {name: row for name, row in removed.items() if row[2] == "near"}
    wrong = [
        name
        for name, (keeper, jaccard, _) in near.items()
        if keeper in removed or jaccard < 0.8 or similarity(texts[name], texts[keeper]) != jaccard
    ]
    print(f"near removals {len(near):,}, without a kept neighbour at 0.8: {len(wrong)}")
    sample = random.Random(1).sample(sorted(near), min(300, len(near)))
    slow = sum(slow_similarity(texts[n], texts[near[n][0]]) != near[n][1] for n in sample)
    print(f"of {len(sample)} of them, similarity differs from plain Python sets: {slow}")
    if not pairs.exists():
        return
    known = leaked = 0
    worst: list[tuple[float, str, str]] = []
    for pair in read_jsonl(pairs):
        one, two = pair["a"], pair["b"]
        if pair["jaccard"] < 0.7 or one not in texts or two not in texts:
            continue
        exact = similarity(texts[one], texts[two])
        if exact >= 0.8:
            known += 1
            if one not in removed and two not in removed:
                leaked += 1
                worst.append((exact, one, two))
    print(f"known pairs at 0.8 {known:,}, both kept: {leaked} ({leaked / max(known, 1):.2e})")
    for exact, one, two in sorted(worst, reverse=True)[:5]:
        print(f"  {exact:.3f} {one} {two}")


def read_run(workdir: Path) -> tuple[dict[str, str], dict[str, tuple[str, float, str]]]:
    """Return the texts by id, and id -> (keeper's id, similarity, kind) of removed documents."""
    texts, names = {}, {}
    for file in workdir.glob("artifacts/ingest-*/[0-9a-f]*.parquet"):
        table = pq.read_table(file, columns=["doc_uid", "id", "text"])
        for uid, name, text in zip(*(c.to_pylist() for c in table.columns), strict=True):
            names[uid], texts[name] = name, text
    removed = {}
    for file in workdir.glob("artifacts/dedupe.*/duplicates-*.parquet"):
        for row in pq.read_table(file).to_pylist():
            keeper = names[row["keeper_uid"]]
            removed[names[row["doc_uid"]]] = (keeper, row["jaccard"], row["kind"])
    return texts, removed


def read_jsonl(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a zstd-compressed file of JSON lines."""
    with path.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as stream:
        for line in io.TextIOWrapper(stream, "utf-8"):
            yield json.loads(line)


def similarity(one: str, two: str) -> float:
    """Return Jaccard over the sets of the kernel."""
    sets = shingle_sets(pa.array([one, two]), 5)
    a, b = (set(sets.values[sets.offsets[k] : sets.offsets[k + 1]].tolist()) for k in (0, 1))
    return len(a & b) / len(a | b) if a or b else 0.0


def slow_similarity(one: str, two: str) -> float:
    """Return Jaccard by the definition of tokens in docs/near-duplicates.md, in plain Python."""
    sets = []
    for text in (one, two):
        tokens = list(slow_tokens(text))
        grams = {tuple(tokens[k : k + 5]) for k in range(len(tokens) - 4)}
        sets.append(grams or {tuple(tokens)})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def slow_tokens(text: str) -> Iterator[str]:
    """Yield the tokens of a text."""
    run = ""
    for character in text:
        code, category = ord(character), unicodedata.category(character)
        if any(a <= code < b for a, b in INVISIBLE) or (category == "Cf" and code != 0x200B):
            continue
        word = category[0] in "LMN" or category == "Pc"
        single = word and any(a <= code < b for a, b in UNSPACED_SCRIPTS)
        if word and not single:
            run += character.casefold()
            continue
        if run:
            yield run
            run = ""
        if single:
            yield character
    if run:
        yield run


if __name__ == "__main__":
    main()

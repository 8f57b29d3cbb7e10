"""Contamination found in planted documents, by kind, and the speed on clean text; beside n-gram overlap.

The rivals are the published rules in plain Python over the same tokens: a document is contaminated
when it shares a 13-gram with an item (GPT-3, appendix C; datatrove's filter works like this), or when
70 % of an item's 8-grams stand in it (PaLM, section 8).

    python benchmarks/contamination.py [--data ../shared/data] [--sources en-books zh-laws ...]
"""

import argparse
import gzip
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import zstandard

from transforms.contamination import (
    DecontaminateSettings,
    EvaluationItems,
    evaluation_items,
    find_contamination,
)

Search = Callable[[list[str]], list[set[int]]]
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


def main() -> None:
    """Print recall by kind, false positives and MB per CPU second of each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sources", nargs="*", default=["en-books", "en-peps", "zh-laws"])
    parser.add_argument("--rival-mb", type=float, default=8.0, help="clean text for the rivals")
    options = parser.parse_args()
    records = [
        {**record, "set": file.name}
        for file in sorted((options.data / "evalsets").glob("*.jsonl.gz"))
        if "planted" not in file.name
        for record in read(file)
    ]
    names = {(record["set"], record["id"]): n for n, record in enumerate(records)}
    texts = [record["text"] for record in records]
    started = time.process_time()
    items = evaluation_items(texts, [""] * len(texts), DecontaminateSettings(path=("-",)))
    seconds = time.process_time() - started
    print(f"{len(texts):,} items, {items.index.ngrams:,} n-grams, indexed in {seconds:.1f} CPU s")
    planted = list(read(options.data / "evalsets/planted-contamination.jsonl.gz"))
    clean = [
        record["text"]
        for source in options.sources
        for file in sorted((options.data / "corpus" / source).iterdir())
        for record in read(file)
    ]
    ways: dict[str, Search] = {
        "drystone": lambda documents: ours(documents, items),
        "a 13-gram in common": lambda documents: overlap(documents, grams13, 13, None),
        "70 % of the 8-grams": lambda documents: overlap(documents, grams8, 8, sizes8),
    }
    grams13, _ = gram_index(texts, 13)
    grams8, sizes8 = gram_index(texts, 8)
    for name, search in ways.items():
        judge(name, search, planted, names)
        part = clean if name == "drystone" else first_bytes(clean, options.rival_mb)
        started = time.process_time()
        found = search(part)
        seconds = time.process_time() - started
        megabytes = sum(len(text.encode()) for text in part) / 1e6
        hit = sum(map(bool, found))
        print(
            f"  clean corpora: {hit} of {len(part):,} documents found in {megabytes:.0f} MB; "
            f"{megabytes / seconds:.1f} MB per CPU second"
        )


def judge(
    name: str, search: Search, planted: Sequence[dict[str, Any]], names: dict[tuple[str, str], int]
) -> None:
    """Print recall by kind and the clean documents among the planted ones that were found."""
    search(["warm up"])
    found = search([record["text"] for record in planted])
    total: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    for record, items in zip(planted, found, strict=True):
        plant = record["contamination"]
        kind = plant["kind"] if plant else "clean"
        total[kind] += 1
        wanted = names[plant["eval_file"], plant["eval_id"]] if plant else None
        hits[kind] += wanted in items if plant else bool(items)
    shares = ", ".join(f"{kind} {hits[kind]}/{total[kind]}" for kind in sorted(total))
    print(f"{name}: {shares}")


def ours(documents: list[str], items: EvaluationItems) -> list[set[int]]:
    """Return the items found in each document."""
    found: list[set[int]] = [set() for _ in documents]
    for match in find_contamination(pa.chunked_array([pa.array(documents, pa.string())]), items):
        found[match.row].add(match.item)
    return found


def words(text: str) -> list[str]:
    """Return the tokens of a text, all but some rare characters as Drystone has them."""
    return _WORD.findall(text.casefold())


def gram_index(
    texts: Sequence[str], size: int
) -> tuple[dict[tuple[str, ...], list[int]], list[int]]:
    """Return the items of each n-gram, and how many n-grams each item has."""
    index: dict[tuple[str, ...], list[int]] = defaultdict(list)
    sizes = []
    for number, text in enumerate(texts):
        tokens = words(text)
        grams = {tuple(tokens[k : k + size]) for k in range(len(tokens) - size + 1)}
        for gram in grams:
            index[gram].append(number)
        sizes.append(len(grams))
    return index, sizes


def overlap(
    documents: list[str],
    index: dict[tuple[str, ...], list[int]],
    size: int,
    sizes: list[int] | None,
) -> list[set[int]]:
    """Return the items with an n-gram in each document; with sizes, those with 70 % of theirs."""
    found = []
    for text in documents:
        tokens = words(text)
        common: Counter[int] = Counter()
        for gram in {tuple(tokens[k : k + size]) for k in range(len(tokens) - size + 1)}:
            common.update(index.get(gram, ()))
        found.append({n for n, c in common.items() if sizes is None or c >= 0.7 * sizes[n]})
    return found


def first_bytes(texts: list[str], megabytes: float) -> list[str]:
    """Return every n-th of some texts, so that they have about so many bytes."""
    step = max(1, round(sum(map(len, texts)) / 1e6 / megabytes))
    return texts[::step]


def read(file: Path) -> list[dict[str, Any]]:
    """Return the records of a compressed file of JSON lines."""
    raw = file.read_bytes()
    if file.suffix == ".gz":
        content = gzip.decompress(raw)
    else:
        content = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw).read()
    return [json.loads(line) for line in content.splitlines() if line.strip()]


if __name__ == "__main__":
    main()

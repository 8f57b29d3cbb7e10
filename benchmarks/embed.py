#!/usr/bin/env python3
"""Vectors of documents: documents per CPU second, and how true they are, beside scikit-learn's.

The rival (``--rivals``, where scikit-learn is installed) is HashingVectorizer over words and Chinese
character pairs, TfidfTransformer and SparseRandomProjection to as many dimensions, in one process
with one thread. Both are judged by halves: of documents cut in two, how often the nearest second
half of a first one is its own, and how often it is of the same source.
"""

import argparse
import gzip
import io
import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import zstandard

from transforms.embed import (
    DocumentCounter,
    EmbedSettings,
    counted_rows,
    embed_texts,
    halvings,
    term_rarity,
)
from transforms.shingles import text_blocks

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TERMS = 256
HALVES = 2000
Embedder = Callable[[list[str]], npt.NDArray[Any]]


def main() -> None:
    """Embed everything and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=DATA / "corpus", help="folder of folders")
    parser.add_argument("--only", nargs="*", help="names of folders")
    parser.add_argument("--rivals", action="store_true", help="also run scikit-learn")
    arguments = parser.parse_args()
    texts, sources = read_corpus(arguments.corpus, arguments.only)
    settings = EmbedSettings()
    warm_up(settings)
    lengths = np.array([len(text.encode()) for text in texts])
    print(f"{len(texts):,} documents, {lengths.sum() / 1e6:.1f} MB")
    halves = pick_halves(texts, sources)
    report("drystone", texts, sources, halves, *drystone(texts, settings))
    if arguments.rivals:
        report("scikit-learn", texts, sources, halves, *scikit_learn(texts, settings.width))


def report(
    name: str,
    texts: list[str],
    sources: list[str],
    halves: list[int],
    embed: Embedder,
    counting_s: float,
) -> None:
    """Print what a way of embedding costs and what it is worth."""
    started = time.process_time()
    embed(texts)
    spent = time.process_time() - started + counting_s
    print(f"{name:<13} all        {spent:8.2f} CPU s {len(texts) / spent:10,.0f} documents/s")
    long = [text for text in texts if len(text) >= 6 * TERMS]
    started = time.process_time()
    embed(long)
    # Counting is done for all; the share of the long ones is that of their characters.
    share = sum(map(len, long)) / sum(map(len, texts))
    spent = time.process_time() - started + counting_s * share
    size = sum(map(len, long)) / len(long)
    print(
        f"{name:<13} {TERMS}+ words {spent:8.2f} CPU s {len(long) / spent:10,.0f} documents/s "
        f"({len(long):,} documents of {size:,.0f} characters)"
    )
    first = embed([texts[k][: len(texts[k]) // 2] for k in halves]).astype(np.float32)
    second = embed([texts[k][len(texts[k]) // 2 :] for k in halves]).astype(np.float32)
    nearest = (first @ second.T).argmax(axis=1)
    own = float((nearest == np.arange(len(halves))).mean())
    names = np.array([sources[k] for k in halves])
    same = float((names[nearest] == names).mean())
    print(f"{name:<13} halves     own {own:.3f}   same source {same:.3f}")


def drystone(texts: list[str], settings: EmbedSettings) -> tuple[Embedder, float]:
    """Count terms; return the function to vectors, and the CPU seconds of counting."""
    chosen = counted_rows(np.arange(len(texts)), halvings(len(texts), settings.count), 7)
    counted = [text for text, is_chosen in zip(texts, chosen, strict=True) if is_chosen]
    column = pa.chunked_array(
        [pa.array(counted[k : k + 4096]) for k in range(0, len(counted), 4096)]
    )
    started = time.process_time()
    counter = DocumentCounter(settings)
    for block in text_blocks(column):
        counter.add(block)
    spent = time.process_time() - started
    rarity = term_rarity(counter.counts, counter.documents, settings.min_documents)

    def embed(some: list[str]) -> npt.NDArray[Any]:
        blocks = [pa.array(some[k : k + 4096]) for k in range(0, len(some), 4096)]
        parts = [
            embed_texts(block, settings, rarity, 7)
            for block in text_blocks(pa.chunked_array(blocks))
        ]
        return np.concatenate(parts)

    return embed, spent


def scikit_learn(texts: list[str], width: int) -> tuple[Embedder, float]:
    """Fit the rival; return the function to vectors, and the CPU seconds of counting."""
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
    from sklearn.preprocessing import normalize
    from sklearn.random_projection import SparseRandomProjection

    started = time.process_time()
    # Words, and each character of unspaced scripts with the one after it.
    pattern = r"(?u)(?=([\u3400-\u9fff]{2}))|([^\W\u3400-\u9fff]+)"

    hashing = HashingVectorizer(
        n_features=1 << 18,
        alternate_sign=False,
        norm=None,
        tokenizer=_Tokens(pattern),
        token_pattern=None,
    )
    weighting = TfidfTransformer(sublinear_tf=True)
    weighting.fit(hashing.transform(texts))
    projection = SparseRandomProjection(width, density=8 / width, random_state=7)
    projection.fit(hashing.transform(["a"]))
    spent = time.process_time() - started

    def embed(some: list[str]) -> npt.NDArray[Any]:
        parts = []
        for k in range(0, len(some), 4096):
            weighted = weighting.transform(hashing.transform(some[k : k + 4096]))
            parts.append(normalize(projection.transform(weighted).toarray()).astype(np.float16))
        return np.concatenate(parts)

    return embed, spent


class _Tokens:
    """Case-folded words and character pairs by a regular expression."""

    def __init__(self, pattern: str) -> None:
        import re

        self._find = re.compile(pattern).finditer

    def __call__(self, text: str) -> list[str]:
        return [m[1] or m[2] for m in self._find(text.casefold())]


def pick_halves(texts: list[str], sources: list[str]) -> list[int]:
    """Return documents of some length, as many of each source as there are, up to a share."""
    rng = random.Random(1)
    names = sorted(set(sources))
    found = []
    for name in names:
        mine = [k for k, s in enumerate(sources) if s == name and 1500 < len(texts[k]) < 40_000]
        found += rng.sample(mine, min(len(mine), HALVES // len(names)))
    return sorted(found)


def read_corpus(folder: Path, only: list[str] | None) -> tuple[list[str], list[str]]:
    """Return all texts and the names of their folders."""
    texts, sources = [], []
    for child in sorted(path for path in folder.iterdir() if path.is_dir()):
        if only and child.name not in only:
            continue
        for file in sorted(child.glob("*.jsonl*")):
            for line in lines_of(file):
                texts.append(json.loads(line)["text"])
                sources.append(child.name)
    return texts, sources


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of a compressed file."""
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from lines
    else:
        with path.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as stream:
            yield from io.TextIOWrapper(stream, "utf-8")


def warm_up(settings: EmbedSettings) -> None:
    """Load the kernels."""
    text = pa.array(["stone wall 石墙"])
    counter = DocumentCounter(settings)
    counter.add(text)
    embed_texts(text, settings, term_rarity(counter.counts, 1, 1), 7)


if __name__ == "__main__":
    main()

"""Synthetic corpora of any size with near-duplicates that are known.

Words are drawn by Zipf's law, documents have lognormal lengths of 1.4 KB on average. 15 % are copies
of an earlier document with other punctuation and capitals; in 12 % single words are replaced too.
The similarity of each copy to what it was made of is counted here, over the words' numbers. Written block by block; the same seed gives the
same bytes.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import zstandard

WORDS = 60_000
BLOCK = 20_000
"""Documents of a file."""
_RECENT = 100_000
"""Copies are made of one of so many documents before them."""
_EXACT, _MUTATED, _MOST_REPLACED = 0.03, 0.12, 0.05
_MEAN_LOG, _SIGMA, _SHORTEST = 5.13, 0.75, 20
_ENDINGS = (" ", ", ", ". ", "\\n")
_ENDING_SHARES = (0.85, 0.08, 0.05, 0.02)
_TITLE_SHARE = 0.06
_NGRAM = 5

Words = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class Made:
    """A corpus on disk."""

    folder: Path
    documents: int
    truth: Path
    """Parquet: first, second (ids), jaccard; a row per copy."""


def make_corpus(folder: Path, documents: int, seed: int = 1) -> Made:
    """Write a corpus of ``documents`` as ``part-*.jsonl.zst``, and the similarities of its copies."""
    truth = folder / "truth.parquet"
    if truth.exists():
        # Written last: all of it is there.
        return Made(folder, documents, truth)
    folder.mkdir(parents=True, exist_ok=True)
    entries, drawn = _vocabulary(seed)
    recent: list[Words] = []
    pairs: list[tuple[int, int, float]] = []
    for number, start in enumerate(range(0, documents, BLOCK)):
        rng = np.random.default_rng([seed, number])
        block = _block(rng, min(BLOCK, documents - start), start, drawn, recent, pairs)
        _write(folder / f"part-{number:05d}.jsonl.zst", rng, block, start, entries)
    first, second, jaccard = zip(*pairs, strict=True)
    names = {"first": _ids(np.array(first)), "second": _ids(np.array(second))}
    pq.write_table(pa.table({**names, "jaccard": pa.array(jaccard, pa.float64())}), truth)
    return Made(folder, documents, truth)


def _vocabulary(seed: int) -> tuple[pa.StringArray, Words]:
    """Return every form of every word with each ending, and a table to draw words from."""
    rng = np.random.default_rng([seed, 1 << 20])
    syllables = [c + v for c in "bcdfghjklmnprstvwz" for v in ("a", "e", "i", "o", "u", "é", "ei")]
    found: dict[str, None] = {}
    while len(found) < WORDS:
        count = 1 + int(rng.integers(4)) if len(found) > 500 else 1 + int(rng.integers(2))
        found["".join(rng.choice(syllables, count))] = None
    words = list(found)
    entries = [
        w + end for form in (words, [w.title() for w in words]) for end in _ENDINGS for w in form
    ]
    share = 1 / (np.arange(WORDS) + 2.7)
    counts = np.maximum(1, np.rint(share / share.sum() * (1 << 22))).astype(np.int64)
    return pa.array(entries, pa.string()), np.repeat(np.arange(WORDS, dtype=np.uint16), counts)


def _block(
    rng: np.random.Generator,
    count: int,
    start: int,
    drawn: Words,
    recent: list[Words],
    pairs: list[tuple[int, int, float]],
) -> list[Words]:
    """Return the words of some documents; add their copies' similarities to ``pairs``."""
    lengths = np.maximum(_SHORTEST, rng.lognormal(_MEAN_LOG, _SIGMA, count)).astype(np.int64)
    flat = drawn[rng.integers(0, len(drawn), int(lengths.sum()))]
    texts = np.split(flat, np.cumsum(lengths)[:-1])
    kinds = rng.random(count)
    begin = start - len(recent)
    for place in np.flatnonzero(kinds < _EXACT + _MUTATED).tolist():
        if start + place == 0:
            continue
        origin = int(rng.integers(begin, start + place))
        original = recent[origin - begin] if origin < start else texts[origin - start]
        copy = original
        if kinds[place] >= _EXACT:
            replaced = rng.random(len(copy)) < rng.random() * _MOST_REPLACED
            fresh = drawn[rng.integers(0, len(drawn), len(copy))]
            copy = np.where(replaced, fresh, copy)
        texts[place] = copy
        pairs.append((origin, start + place, _jaccard(original, copy)))
    recent.extend(texts)
    del recent[:-_RECENT]
    return texts


def _jaccard(one: Words, two: Words) -> float:
    """Return the similarity of two texts' sets of 5-grams of words."""
    a, b = _grams(one), _grams(two)
    common = len(np.intersect1d(a, b, assume_unique=True))
    return common / (len(a) + len(b) - common)


def _grams(words: Words) -> npt.NDArray[np.void]:
    windows = np.lib.stride_tricks.sliding_window_view(words, _NGRAM)
    rows = np.ascontiguousarray(windows).view(f"V{2 * _NGRAM}").ravel()
    return np.unique(rows)


def _write(
    path: Path, rng: np.random.Generator, block: list[Words], start: int, entries: pa.StringArray
) -> None:
    """Write documents as JSON lines."""
    words = np.concatenate(block).astype(np.int32)
    form = rng.choice(len(_ENDINGS), len(words), p=_ENDING_SHARES).astype(np.int32)
    form += len(_ENDINGS) * (rng.random(len(words)) < _TITLE_SHARE)
    joined = entries.take(pa.array(words + WORDS * form))
    ends = np.frombuffer(joined.buffers()[1], np.int32)[: len(words) + 1]
    bounds = ends[np.concatenate([[0], np.cumsum([len(text) for text in block])])]
    offsets = pa.py_buffer(np.ascontiguousarray(bounds))
    texts = pa.StringArray.from_buffers(len(block), offsets, joined.buffers()[2])
    ids = _ids(np.arange(start, start + len(block)))
    lines = pc.binary_join_element_wise('{"id":"', ids, '","text":"', texts, '"}\n', "")
    content = memoryview(lines.buffers()[2])[
        : np.frombuffer(lines.buffers()[1], np.int32)[len(lines)]
    ]
    path.write_bytes(zstandard.ZstdCompressor(level=1).compress(content))


def _ids(numbers: npt.NDArray[np.int64]) -> pa.StringArray:
    return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 8, "0")

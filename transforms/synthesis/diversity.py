"""How much texts and choices differ: entropy, distinct n-grams, self-BLEU, near-duplicates.

Questions are compared as skeletons, with entities and numbers masked; else names alone would make
them look different.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

_WORDS = re.compile(r"\[[A-Za-z]\d*\]|\w+|[^\w\s]")
_WIDE = re.compile(r"\[[A-Za-z]\d*\]|[A-Za-z0-9]+|\S")
_TINY = 0.1
"""Stands in for no match at all in BLEU (Chen and Cherry 2014, method 1)."""


def tokens(text: str, lang: str) -> list[str]:
    """Return the words of a text; single characters of Chinese. Placeholders stay whole."""
    return (_WIDE if lang == "zh" else _WORDS).findall(text.lower() if lang != "zh" else text)


def entropy(counts: Mapping[Hashable, int] | Mapping[str, int]) -> float:
    """Return the entropy of a distribution, in bits."""
    total = sum(counts.values())
    return -sum(n / total * math.log2(n / total) for n in counts.values() if n) + 0.0


def largest_share(counts: Mapping[Hashable, int] | Mapping[str, int]) -> float:
    """Return the share of the most frequent one."""
    return max(counts.values(), default=0) / max(1, sum(counts.values()))


def ngrams(words: Sequence[str], n: int) -> Iterable[tuple[str, ...]]:
    """Return the runs of n words."""
    return zip(*(words[k:] for k in range(n)), strict=False)


def distinct(texts: Sequence[Sequence[str]], n: int) -> float:
    """Return the share of the n-grams of all texts that are different ones (Li et al. 2016)."""
    found = Counter(gram for text in texts for gram in ngrams(text, n))
    return len(found) / max(1, sum(found.values()))


def distinct_per_thousand(texts: Sequence[str]) -> float:
    """Return how many of 1,000 texts in their order are different, on average over such runs.

    Fewer than 1,000 texts are scaled up.
    """
    size = min(1000, len(texts))
    if not size:
        return 0.0
    runs = [texts[k : k + size] for k in range(0, len(texts) - size + 1, size)]
    return sum(len(set(run)) for run in runs) / len(runs) * 1000 / size


def self_bleu(texts: Sequence[Sequence[str]], order: int = 4) -> float:
    """Return the mean BLEU of each text with all others as references (Zhu et al. 2018)."""
    logs = np.zeros(len(texts))
    for n in range(1, order + 1):
        counts = [Counter(ngrams(text, n)) for text in texts]
        # The most often that any text has an n-gram, and that any other text has it.
        most: dict[tuple[str, ...], tuple[int, int]] = defaultdict(lambda: (0, 0))
        for one in counts:
            for gram, count in one.items():
                first, second = most[gram]
                most[gram] = (max(first, count), max(second, min(first, count)))
        for place, one in enumerate(counts):
            matched = 0
            for gram, count in one.items():
                first, second = most[gram]
                matched += min(count, second if count == first else first)
            logs[place] += math.log(max(matched, _TINY) / max(1, sum(one.values()))) / order
    lengths = np.array([len(text) for text in texts])
    penalties = np.zeros(len(texts))
    for place, length in enumerate(lengths):
        others = np.delete(lengths, place)
        closest = others[np.argmin(np.abs(others - length))]
        penalties[place] = min(0.0, 1 - closest / max(1, length))
    return float(np.exp(logs + penalties).mean())


def most_similar(sets: Sequence[Iterable[Hashable]]) -> npt.NDArray[np.float64]:
    """Return for each set its largest Jaccard similarity to another one, exactly."""
    numbers: dict[Hashable, int] = {}
    members = [
        np.array(sorted({numbers.setdefault(item, len(numbers)) for item in one}), np.int64)
        for one in sets
    ]
    holders: list[list[int]] = [[] for _ in numbers]
    for place, one in enumerate(members):
        for number in one.tolist():
            holders[number].append(place)
    held = [np.array(places, np.int64) for places in holders]
    sizes = np.array([len(one) for one in members], np.float64)
    found = np.zeros(len(members))
    for place, one in enumerate(members):
        if not len(one):
            continue
        beside = np.concatenate([held[number] for number in one.tolist()])
        shared = np.bincount(beside, minlength=len(members)).astype(np.float64)
        shared[place] = 0
        found[place] = (shared / (sizes + sizes[place] - shared)).max()
    return found

"""Measures of diversity by hand, and against plain definitions."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.synthesis.diversity import (
    distinct,
    distinct_per_thousand,
    entropy,
    largest_share,
    most_similar,
    ngrams,
    self_bleu,
    tokens,
)

TEXTS = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=8), min_size=2, max_size=6)


def test_entropy_and_shares_by_hand():
    """Four alike are two bits; a half and two quarters one and a half."""
    assert entropy(dict.fromkeys("abcd", 5)) == pytest.approx(2)
    assert entropy({"a": 2, "b": 1, "c": 1}) == pytest.approx(1.5)
    assert entropy({}) == 0
    assert largest_share({"a": 3, "b": 1}) == 0.75
    assert largest_share({}) == 0


def test_words_are_cut_by_language():
    """Placeholders stay whole; Chinese is cut into characters."""
    assert tokens("Who made [E1], and?", "en") == ["who", "made", "[e1]", ",", "and", "?"]
    assert tokens("[E1]的导演", "zh") == ["[E1]", "的", "导", "演"]


def test_distinct_counts_runs():
    """Two of three pairs differ; a thousand texts are scaled up from fewer."""
    assert distinct([["a", "b", "c"], ["a", "b"]], 2) == pytest.approx(2 / 3)
    assert distinct([["a"]], 2) == 0
    assert distinct_per_thousand(["x", "y", "x", "z"]) == 750
    assert distinct_per_thousand([]) == 0


def test_equal_texts_have_bleu_one():
    """And texts with nothing in common nearly none."""
    same = [["a", "b", "c", "d", "e"]] * 3
    assert self_bleu(same) == pytest.approx(1)
    assert self_bleu([list("abcde"), list("fghij")]) < 0.05


@given(TEXTS)
def test_self_bleu_is_that_of_its_definition(texts):
    """Each text against all others, n-grams clipped by the most that one other has."""
    expected = []
    for place, text in enumerate(texts):
        others = [one for k, one in enumerate(texts) if k != place]
        total = 0.0
        for n in range(1, 5):
            own = Counter(ngrams(text, n))
            theirs = [Counter(ngrams(one, n)) for one in others]
            hits = sum(min(c, max(one[gram] for one in theirs)) for gram, c in own.items())
            total += math.log(max(hits, 0.1) / max(1, sum(own.values()))) / 4
        closest = min((abs(len(one) - len(text)), k) for k, one in enumerate(others))[1]
        total += min(0.0, 1 - len(others[closest]) / len(text))
        expected.append(math.exp(total))
    assert self_bleu(texts) == pytest.approx(np.mean(expected))


@given(st.lists(st.frozensets(st.integers(0, 12), max_size=8), min_size=1, max_size=12))
def test_the_most_similar_set_is_found(sets):
    """The largest exact Jaccard similarity to any other set; empty sets are like none."""
    expected = [
        max(
            (len(a & b) / len(a | b) for k, b in enumerate(sets) if k != n and a | b),
            default=0.0,
        )
        for n, a in enumerate(sets)
    ]
    assert most_similar(sets).tolist() == pytest.approx(expected)

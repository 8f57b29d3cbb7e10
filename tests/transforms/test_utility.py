"""Utility: the proxy's measurement, the student, the sample, and the weights."""

import math
import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.proxy import STRENGTH, WORDS, count, loss, target_of, utilities
from transforms.shingles import shingle_sets, token_hashes
from transforms.student import (
    BUCKETS,
    GROUP,
    buckets_of,
    fit,
    importance,
    kl,
    reliability,
    score,
)
from transforms.utility import (
    WINDOW,
    UtilitySettings,
    draw_sample,
    held_out,
    quantiles,
    weights,
    windows,
)

SETTINGS = UtilitySettings(target=("x",))


def documents(rng, n, words="abcdefgh", most=30):
    """Return documents of few distinct words, so that they share n-grams."""
    return [" ".join(rng.choices(words, k=rng.randint(0, most))) for _ in range(n)]


class Oracle:
    """The model of the module, trained from scratch on lists of words."""

    def __init__(self, docs):
        self.n = sum(map(len, docs))
        self.grams, self.histories = Counter(), Counter()
        for doc in docs:
            for k in range(1, 4):
                for i in range(len(doc) - k + 1):
                    self.grams[tuple(doc[i : i + k])] += 1
                    self.histories[tuple(doc[i : i + k - 1])] += k > 1

    def p(self, history, word):
        if not history:
            return (self.grams[word,] + STRENGTH[0] / WORDS) / (self.n + STRENGTH[0])
        s = STRENGTH[len(history)]
        lower = self.p(history[1:], word)
        return (self.grams[(*history, word)] + s * lower) / (self.histories[history] + s)

    def bits(self, docs):
        return -sum(
            math.log2(self.p(tuple(doc[max(0, i - 2) : i]), doc[i]))
            for doc in docs
            for i in range(len(doc))
        )


@pytest.mark.parametrize("seed", range(6))
def test_measurement_is_retraining_from_scratch(seed):
    """Adding a document's shared counts gives the loss of a model trained anew with it."""
    rng = random.Random(seed)
    target, reference, candidates = (documents(rng, n) for n in (5, 12, 15))
    prepared = target_of(*token_hashes(pa.array(target)))
    counts, total = count(prepared, *token_hashes(pa.array(reference)))
    kept = counts.copy()
    found = utilities(prepared, counts, total, *token_hashes(pa.array(candidates)))
    assert (counts == kept).all()
    asked = [doc.split() for doc in target]
    seen = [doc.split() for doc in reference]
    before = Oracle(seen).bits(asked)
    assert loss(prepared, counts, total) == pytest.approx(before, rel=1e-12)
    for doc, utility in zip(candidates, found, strict=True):
        words = doc.split()
        wanted = (before - Oracle([*seen, words]).bits(asked)) / len(words) if words else 0
        assert utility == pytest.approx(wanted, rel=1e-7, abs=1e-10)
    assert (found > 0).any()


def test_nothing_to_measure():
    """No reference, no candidates, documents without a word: no failure, and nothing saved."""
    prepared = target_of(*token_hashes(pa.array(["dry stone wall"])))
    none = token_hashes(pa.array([], pa.string()))
    counts, total = count(prepared, *none)
    assert total == 0
    assert loss(prepared, counts, total) == pytest.approx(3 * 20)
    assert len(utilities(prepared, counts, total, *none)) == 0
    assert utilities(prepared, counts, total, *token_hashes(pa.array(["", "..."]))).tolist() == [
        0,
        0,
    ]


def test_useful_documents_save_bits():
    """A document of the target's phrases saves bits; its words in another order, or others, do not."""
    rng = random.Random(0)
    text = "the wall of dry stone stands on the hill above the old road to the sea"
    sentence = text.split()
    shuffled = rng.sample(sentence, len(sentence))
    other = [f"other{k}" for k in range(len(sentence))]
    prepared = target_of(*token_hashes(pa.array([" ".join(sentence)])))
    reference = token_hashes(pa.array([" ".join(rng.choices(sentence + other, k=5000))]))
    counts, total = count(prepared, *reference)
    texts = [" ".join(words) for words in (sentence, shuffled, other)]
    a, b, c = utilities(prepared, counts, total, *token_hashes(pa.array(texts)))
    assert a > 1
    assert b < a / 10
    assert c < 0


@given(st.lists(st.text(alphabet="aB \u0301é石田-", max_size=12), max_size=6))
def test_tokens_in_order(texts):
    """The distinct tokens of a text are its shingles of one token."""
    offsets, tokens = token_hashes(pa.array(texts, pa.string()))
    sets = shingle_sets(pa.array(texts, pa.string()), 1)
    assert len(offsets) == len(texts) + 1
    grams = [set(sets.values[a:b].tolist()) for a, b in pairwise(sets.offsets)]
    sizes = [len(set(tokens[a:b].tolist())) for a, b in pairwise(offsets)]
    assert sizes == [len(g) for g in grams]
    again, alone = token_hashes(pa.array(texts[::-1], pa.string()))
    for k in range(len(texts)):
        j = len(texts) - 1 - k
        assert (
            tokens[offsets[k] : offsets[k + 1]].tolist() == alone[again[j] : again[j + 1]].tolist()
        )


def test_gradient():
    """The gradient of the divergence is its finite difference; at the goal both are 0."""
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(list("abcdef"), rng.integers(0, 9))) for _ in range(GROUP + 5)]
    offsets, buckets = buckets_of(*token_hashes(pa.array(texts)))
    goal = rng.normal(size=len(texts))
    theta = np.zeros(BUCKETS)
    used = np.unique(buckets)
    theta[used] = rng.normal(size=len(used))
    order = rng.permutation(len(texts))
    value, gradient = kl(offsets, buckets, goal, theta, order)
    assert value > 0
    assert not np.delete(gradient, used).any()
    for bucket in used[:12]:
        ends = []
        for sign in (1, -1):
            moved = theta.copy()
            moved[bucket] += sign * 1e-5
            ends.append(kl(offsets, buckets, goal, moved, order)[0])
        assert gradient[bucket] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-9)
    sums = np.add.reduceat(np.append(theta[buckets], 0), np.minimum(offsets[:-1], len(buckets)))
    sizes = np.diff(offsets)
    own = np.where(sizes > 0, sums / np.maximum(sizes, 1), 0)
    value, gradient = kl(offsets, buckets, own, theta, order)
    assert value == pytest.approx(0, abs=1e-12)
    assert np.abs(gradient).max() < 1e-12


def test_student_ranks_what_it_has_not_seen():
    """Words that help are learnt from some documents and found in others; twice the same bytes."""
    rng = random.Random(3)
    useful = [rng.random() for _ in range(600)]
    texts = [
        " ".join(f"good{rng.randrange(20)}" if rng.random() < u else f"w{rng.randrange(99)}" for _ in range(60))
        for u in useful
    ]  # fmt: skip
    offsets, tokens = token_hashes(pa.array(texts[:400]))
    learnt = fit(*buckets_of(offsets, tokens), np.array(useful[:400]), tau=1.0, seed=1)
    again = fit(*buckets_of(offsets, tokens), np.array(useful[:400]), tau=1.0, seed=1)
    assert (learnt == again).all()
    [scored] = score(*token_hashes(pa.array(texts[400:])), learnt[None])
    judged = reliability(np.array(useful[400:]), scored.astype(np.float64))
    assert judged.reliable
    assert judged.spearman > 0.8
    assert judged.lift > 4
    noise = reliability(np.array([rng.random() for _ in range(200)]), scored.astype(np.float64))
    assert not noise.reliable
    assert abs(noise.spearman) < 0.2


def test_score_is_the_mean_of_the_buckets():
    """Several sets of weights at once; no number for a document without tokens."""
    rng = np.random.default_rng(5)
    by = rng.integers(-(2**31), 2**31, (2, BUCKETS)).astype(np.int32)
    texts = ["a b c", "", "石 a"]
    offsets, tokens = token_hashes(pa.array(texts))
    bounds, buckets = buckets_of(offsets, tokens)
    assert np.diff(bounds).tolist() == [5, 0, 3]
    found = score(offsets, tokens, by)
    assert np.isnan(found[:, 1]).all()
    for k in (0, 2):
        mean = by[:, buckets[bounds[k] : bounds[k + 1]]].astype(np.float64).mean(1) / 2**20
        assert found[:, k] == pytest.approx(mean.astype(np.float32), rel=1e-6)


def test_importance_is_the_ratio_of_frequencies():
    """Log-ratio of smoothed bucket frequencies, to 2^-20."""
    target, reference = np.array([1, 1, 2], np.int32), np.array([2, 3], np.int32)
    found = importance(target, reference) / 2**20
    n, m = BUCKETS + 3, BUCKETS + 2
    for bucket, ratio in {1: 3 / n * m, 2: 2 / n * m / 2, 3: 1 / n * m / 2, 4: m / n}.items():
        assert found[bucket] == pytest.approx(math.log(ratio), abs=2**-20)


def test_reliability_against_a_plain_rank_correlation():
    """Ties share their mean rank; few documents are never reliable."""
    measured = np.array([1.0, 2, 2, 3, 9] * 8)
    scored = np.array([2.0, 1, 3, 3, 8] * 8)
    ranks = [[1 + sum(b < a for b in x) + sum(b == a for b in x) / 2 for a in x] for x in (measured, scored)]  # fmt: skip
    judged = reliability(measured, scored)
    assert judged.spearman == pytest.approx(np.corrcoef(ranks)[0, 1], abs=1e-6)
    assert judged.lift == 10
    assert judged.reliable
    assert not reliability(measured[:5], measured[:5]).reliable
    assert reliability(np.empty(0), np.empty(0)).documents == 0
    assert not reliability(np.ones(50), np.ones(50)).reliable


def test_sample():
    """Strata are alike, at most half of each is measured, order is free, nobody is both."""
    rng = np.random.default_rng(2)
    uid = rng.choice(1 << 40, 3000, replace=False)
    stratum = np.repeat([0, 1, 2], [2000, 960, 40]).astype(np.int32)
    settings = UtilitySettings(target=("x",), candidates=300, reference=500)
    drawn = draw_sample(uid, stratum, settings, 7)
    of = dict(zip(uid.tolist(), stratum.tolist(), strict=True))
    assert Counter(of[u] for u in drawn.candidates.tolist()) == {0: 140, 1: 140, 2: 20}
    assert len(drawn.reference) == 500
    assert not np.intersect1d(drawn.candidates, drawn.reference).size
    order = rng.permutation(3000)
    again = draw_sample(uid[order], stratum[order], settings, 7)
    assert (again.candidates == drawn.candidates).all()
    assert (again.reference == drawn.reference).all()
    assert (draw_sample(uid, stratum, settings, 8).candidates != drawn.candidates).any()
    assert 30 < held_out(drawn.candidates, 7).sum() < 90
    empty = draw_sample(uid[:0], stratum[:0], settings, 7)
    assert len(empty.candidates) == len(empty.reference) == 0


def test_windows():
    """A window is a stretch of the document, whole where it is short, wherever the document is."""
    sizes = np.array([0, 5, WINDOW, 3 * WINDOW])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    tokens = np.arange(offsets[-1]).astype(np.uint64)
    uid = np.array([4, 8, 15, 16])
    bounds, cut = windows(uid, offsets, tokens, 1)
    assert np.diff(bounds).tolist() == [0, 5, WINDOW, WINDOW]
    for k in range(4):
        part = cut[bounds[k] : bounds[k + 1]]
        assert (np.diff(part) == 1).all()
        assert ((part >= offsets[k]) & (part < offsets[k + 1])).all()
    _, alone = windows(uid[3:], np.array([0, 3 * WINDOW]), tokens[offsets[3] :], 1)
    assert (alone == cut[bounds[3] :]).all()


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5), st.integers(1, 9)), max_size=30))
def test_weights(rows):
    """Weights keep their bounds and rise with the better quantile; either score alone can lift."""
    utility, similarity = (np.array([r[k] for r in rows], np.float32) for k in (0, 1))
    size = np.array([r[2] for r in rows], np.int64)
    found = weights(utility, similarity, size, SETTINGS)
    q = np.fmax(quantiles(utility, size), quantiles(similarity, size))
    for k, (score_, _, own) in enumerate(rows):
        others = int(size.sum()) - own
        lower = sum(s for u, _, s in rows if u < score_)
        wanted = lower / others if others else 1.0
        assert quantiles(utility, size)[k] == pytest.approx(wanted)
    assert ((found >= SETTINGS.min_weight) & (found <= SETTINGS.max_weight)).all()
    order = np.argsort(q, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    assert (found[q >= 1 - SETTINGS.top] == SETTINGS.max_weight).all()
    assert (found[q == 0] == SETTINGS.min_weight).all()


def test_documents_without_tokens_weigh_one():
    """They have no score, and change nobody's."""
    scores = np.array([1, np.nan, 3], np.float32)
    found = weights(scores, scores, np.array([4, 0, 4]), SETTINGS)
    assert found.tolist() == [0.25, 1.0, 4.0]

"""Vectors of text against plain Python and numpy: strings, dictionaries, float64."""

import gzip
import itertools
import json
import math
import os
import random
import subprocess
import sys
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.embed import (
    DocumentCounter,
    EmbedSettings,
    counted_rows,
    embed_texts,
    halvings,
    term_rarity,
)
from transforms.embed_column import read_vectors, unit_vectors
from transforms.shingles import INVISIBLE, UNSPACED_SCRIPTS

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
M64 = (1 << 64) - 1
START, PRIME = 0xCBF29CE484222325, 0x100000001B3


def kind_of(character):
    """separator, word, single or invisible, as docs/near-duplicates.md defines them."""
    code, category = ord(character), unicodedata.category(character)
    if any(low <= code < high for low, high in INVISIBLE):
        return "invisible"
    if category == "Cf" and code != 0x200B:
        return "invisible"
    if category[0] in "LMN" or category == "Pc" or 0x20000 <= code < 0x40000:
        unspaced = any(low <= code < high for low, high in UNSPACED_SCRIPTS)
        return "single" if unspaced else "word"
    return "separator"


def terms_of(text):
    """The published definition: words, and pairs of unspaced characters (or one alone)."""
    seen = [(kind_of(c), c.casefold()) for c in text if kind_of(c) != "invisible"]
    terms = []
    for kind, group in itertools.groupby(seen, key=lambda item: item[0]):
        characters = [folded for _, folded in group]
        if kind == "word":
            terms.append("".join(characters))
        elif kind == "single":
            terms += map("".join, itertools.pairwise(characters))
            terms += characters if len(characters) == 1 else []
    return terms


def mixed(x):
    """The finalizer of MurmurHash3."""
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCD & M64
    x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53 & M64
    return x ^ (x >> 33)


def hash_of(term):
    """FNV-1a over code points, finished."""
    state = START
    for character in term:
        state = (state ^ ord(character)) * PRIME & M64
    return mixed(state)


def splitmix(seed):
    """The finalizer of splitmix64 over a seed, as transforms.record.mix64 of 0."""
    x = (seed * 0x9E3779B97F4A7C15 + 0x1234567) & M64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & M64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & M64
    return x ^ (x >> 31)


def projected(term, width, seed):
    """The eight dimensions and signs of a term."""
    low = mixed(hash_of(term) ^ splitmix(seed))
    high = mixed(low ^ START)
    block = width // 8
    for eighth in range(8):
        drawn = (low if eighth < 4 else high) >> (16 * (eighth % 4)) & 0xFFFF
        yield eighth * block + ((drawn & 0x7FFF) * block >> 15), -1.0 if drawn & 0x8000 else 1.0


def bucket_of(term, settings):
    return hash_of(term) >> (64 - int(math.log2(settings.buckets)))


def document_counts(texts, settings):
    counts = Counter()
    for text in texts:
        counts.update({bucket_of(term, settings) for term in terms_of(text)})
    return counts


def slow_vector(terms, settings, counts, n, seed):
    """The definition in float64, for the terms of one part."""
    vector = np.zeros(settings.width)
    for term, count in Counter(terms).items():
        df = counts[bucket_of(term, settings)]
        if df < settings.min_documents:
            continue
        rarity = max(1 + round(8 * math.log2((n + 1) / (df + 1))) / 8, 0)
        weight = (1 + round(1024 * math.log2(count)) / 1024) * rarity
        for place, sign in projected(term, settings.width, seed):
            vector[place] += sign * weight
    length = np.sqrt((vector**2).sum())
    return vector / length if length else vector


def counted(texts, settings):
    counter = DocumentCounter(settings)
    counter.add(pa.array(texts, pa.string()))
    return counter


def embedded(texts, settings, seed=7):
    counter = counted(texts, settings)
    rarity = term_rarity(counter.counts, counter.documents, settings.min_documents)
    return embed_texts(pa.array(texts, pa.string()), settings, rarity, seed)


alphabet = st.one_of(
    st.sampled_from("ab Aß, .\n_é中文かなแລខ\u200b\u200d\ufe0f\u00ad\u0301İΣςﬃ🪨Ⅳ々\U00020001"),
    st.characters(codec="utf-8"),
)
documents = st.lists(st.text(alphabet, max_size=60), max_size=6)
SMALL = EmbedSettings(width=64, buckets=256, part=64)


@given(documents)
def test_counts_are_those_of_sets_of_terms(texts):
    """A bucket counts the documents with a term of it, whatever blocks they come in."""
    want = document_counts(texts, SMALL)
    counter = DocumentCounter(SMALL)
    for start in range(0, len(texts), 2):
        counter.add(pa.array(texts, pa.string()).slice(start, 2))
    assert {b: n for b, n in enumerate(counter.counts.tolist()) if n} == dict(want)
    assert counter.documents == len(texts)


@given(documents, st.integers(0, 2**63 - 1), st.integers(1, 2))
def test_vectors_are_those_of_the_definition(texts, seed, least):
    """Projected TF-IDF in float64, to the precision of float16; also in a sliced array."""
    settings = EmbedSettings(width=64, buckets=256, min_documents=least)
    counts = document_counts(texts, settings)
    counter = counted(texts, settings)
    rarity = term_rarity(counter.counts, len(texts), least)
    array = pa.array(["a b", *texts], pa.string()).slice(1)
    found = embed_texts(array, settings, rarity, seed)
    want = [slow_vector(terms_of(t), settings, counts, len(texts), seed) for t in texts]
    assert found.shape == (len(texts), 64)
    for mine, theirs in zip(found, want, strict=True):
        assert np.abs(mine - theirs).max(initial=0) < 1e-3


@given(st.integers(0, 10**12), st.integers(1, 10**6))
def test_a_corpus_is_halved_until_it_is_small_enough(documents, count):
    """So often and not oftener."""
    times = halvings(documents, count)
    assert documents <= count << times
    assert times == 0 or documents > count << (times - 1)


def test_halves_are_nested_and_chosen_by_seed():
    """Of 2^k documents about one is chosen; fewer of them where the corpus is larger."""
    uids = np.arange(1 << 16, dtype=np.int64) + (12345 << 24)
    chosen = [counted_rows(uids, times, 7) for times in range(5)]
    assert chosen[0].all()
    for times in range(1, 5):
        assert not (chosen[times] & ~chosen[times - 1]).any()
        assert abs(chosen[times].mean() * 2**times - 1) < 0.1
    assert (chosen[1] != counted_rows(uids, 1, 8)).any()


def words(rng, n):
    return "".join(
        rng.choice(["stone", "Wall", "straße", "石墙田野", "風", "ﬃ"])
        + str(rng.randrange(400))
        + rng.choice([" ", ", ", "", "\n"])
        for _ in range(n)
    )


def test_a_long_document_is_the_mean_of_its_parts():
    """Each part has ``part`` terms, the last one what is left; each counts by its terms."""
    rng = random.Random(3)
    settings = EmbedSettings(width=64, buckets=4096, part=64)
    texts = [words(rng, n) for n in (1, 40, 63, 64, 65, 200, 3000)]
    texts += [text + "尾" for text in texts] + ["石墙" * 700, "石 墙a" * 100, "a" * 100_000]
    texts += ["石 墙a " * n + tail for n in (31, 32, 33) for tail in ("", "石", "石墙", "石b")]
    found = embedded(texts, settings)
    counts = document_counts(texts, settings)
    whole = EmbedSettings(width=64, buckets=4096)
    for text, vector in zip(texts, found, strict=True):
        total, terms = np.zeros(64), terms_of(text)
        for start in range(0, len(terms), 64):
            part = terms[start : start + 64]
            total += len(part) * slow_vector(part, whole, counts, len(texts), 7)
        assert np.abs(vector - total / np.sqrt((total**2).sum())).max() < 1e-3


def test_vectors_have_length_one_or_none():
    """Length 1 to the precision of float16; zeros without terms; one term in one document counts."""
    found = embedded(["", " .,!", "stone", "stone wall 石墙", "stone " * 50], EmbedSettings())
    lengths = np.linalg.norm(found.astype(np.float64), axis=1)
    assert lengths[:2].tolist() == [0, 0]
    assert np.abs(lengths[2:] - 1).max() < 1e-3
    assert np.abs(embedded(["only"], EmbedSettings())).max() > 0


def test_blocks_and_neighbours_do_not_matter():
    """The bytes of a vector depend on its text, the weights and the seed alone."""
    rng = random.Random(1)
    texts = [words(rng, rng.randrange(1, 300)) for _ in range(60)]
    settings = EmbedSettings(part=128)
    counter = counted(texts, settings)
    rarity = term_rarity(counter.counts, counter.documents, 1)
    whole = embed_texts(pa.array(texts), settings, rarity, 7)
    single = [embed_texts(pa.array([text]), settings, rarity, 7)[0] for text in texts]
    assert whole.tobytes() == np.array(single).tobytes()
    assert (whole != embed_texts(pa.array(texts), settings, rarity, 8)).any()


def test_kernels_run_without_being_compiled():
    """The same bytes from plain Python, for a small input."""
    program = (
        "import sys, pyarrow as pa; from transforms.embed import *\n"
        "s = EmbedSettings(width=64, buckets=256, part=64)\n"
        "t = pa.array(['Stone wall 石墙田野 stone', '', 'straße ' * 70 + '風 a', 'ﬃ x'])\n"
        "c = DocumentCounter(s); c.add(t)\n"
        "v = embed_texts(t, s, term_rarity(c.counts, c.documents, 1), 7)\n"
        "print(c.counts.sum(), v.tobytes().hex())"
    )
    root = Path(__file__).resolve().parents[2]
    outcomes = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env={**os.environ, "NUMBA_DISABLE_JIT": switch, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
        ).stdout
        for switch in ("0", "1")
    }
    assert len(outcomes) == 1


def test_dot_products_are_cosines_of_the_terms():
    """Unbiased; the error is that of random signs in 768 dimensions, 1 / sqrt(768) = 0.036."""
    rng = random.Random(5)
    vocabulary = [f"w{k}" for k in range(3000)]
    topics = [rng.sample(vocabulary, 400) for _ in range(12)]
    texts = [
        " ".join(rng.choices(topics[k % 12], k=150) + rng.choices(vocabulary, k=100))
        for k in range(120)
    ]
    settings = EmbedSettings(buckets=1 << 20)
    found = embedded(texts, settings).astype(np.float64)
    df = Counter(term for text in texts for term in set(terms_of(text)))
    exact = np.zeros((len(texts), len(df)))
    number = {term: k for k, term in enumerate(df)}
    for row, text in enumerate(texts):
        for term, count in Counter(terms_of(text)).items():
            rarity = 1 + math.log2((len(texts) + 1) / (df[term] + 1))
            exact[row, number[term]] = (1 + math.log2(count)) * rarity
    exact /= np.linalg.norm(exact, axis=1)[:, None]
    upper = np.triu_indices(len(texts), 1)
    error = (found @ found.T - exact @ exact.T)[upper]
    assert np.sqrt((error**2).mean()) < 1.1 / math.sqrt(768)
    assert abs(error.mean()) < 0.002
    assert abs(np.polyfit((exact @ exact.T)[upper], (found @ found.T)[upper], 1)[0] - 1) < 0.1


@pytest.mark.skipif(not DATA.exists(), reason="the shared corpora are not here")
def test_neighbours_of_real_documents_belong_together():
    """The nearest document is of the same source, versions with Jaccard 0.8 or more are near."""
    documents = {}
    for file in sorted((DATA / "mini").glob("*.jsonl.gz")):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            documents.update((d["id"], d) for d in map(json.loads, lines) if "text" in d)
    with (DATA / "mini" / "pairs.jsonl").open(encoding="utf-8") as lines:
        pairs = [pair for pair in map(json.loads, lines) if pair["jaccard"] >= 0.8]
    names = list(documents)
    found = embedded([documents[n]["text"] for n in names], EmbedSettings()).astype(np.float32)
    place = {name: k for k, name in enumerate(names)}
    long = [k for k, name in enumerate(names) if len(documents[name]["text"]) > 1000]
    sources = np.array([documents[names[k]]["source"] for k in long])
    similarity = found[long] @ found[long].T
    np.fill_diagonal(similarity, -1)
    hits = float((sources[similarity.argmax(axis=1)] == sources).mean())
    chance = sum((np.mean(sources == name)) ** 2 for name in set(sources))
    assert hits > 0.85
    assert hits > 4 * chance
    cosines = [float(found[place[p["a"]]] @ found[place[p["b"]]]) for p in pairs]
    assert len(cosines) > 20
    assert np.quantile(cosines, 0.05) >= 0.9


finite = st.floats(-1e300, 1e300, allow_subnormal=False)


@given(st.lists(st.lists(finite, min_size=3, max_size=3), max_size=5))
def test_given_vectors_are_scaled(rows):
    """Lists and JSON arrays read alike; lengths become 1, zeros stay."""
    as_lists = read_vectors(pa.array(rows, pa.list_(pa.float64())), 3)
    as_text = read_vectors(pa.array([json.dumps(row) for row in rows], pa.string()), 3)
    assert not as_lists.problems
    assert not as_text.problems
    assert as_lists.vectors.tobytes() == as_text.vectors.tobytes()
    for row, unit in zip(rows, unit_vectors(as_lists.vectors), strict=True):
        length = math.hypot(*row)
        if length == 0:
            assert not unit.any()
        elif math.isfinite(length) and length > 1e-290:
            want = [float(np.float64(x) / length) for x in row]
            assert np.abs(unit - np.array(want)).max() < 1e-3


@pytest.mark.parametrize("as_text", [False, True])
def test_useless_vectors_are_named(as_text):
    """Null, another width, null or non-finite numbers: each with what was found and where."""
    rows = [[1.0, 2.0], None, [1.0], [3.0, float("nan")], [None, 1.0], [], [0.0, -math.inf], [0, 0]]
    want = {
        1: "no vector (null)",
        2: "a vector of 1 numbers, not 2",
        3: "nan at place 1 of its vector",
        4: "null at place 0 of its vector",
        5: "a vector of 0 numbers, not 2",
        6: "-inf at place 1 of its vector",
    }
    column = pa.array(rows, pa.list_(pa.float64()))
    if as_text:
        # JSON has no such numbers.
        text = [None if row is None else json.dumps(row) for row in rows]
        text[3], text[6] = '[3.0, "nan"]', "[0, true]"
        want |= {6: "True at place 1 of its vector"}
        column = pa.array([*text, "a b", "7"])
        want |= {8: "'a b', which is no array of numbers", 9: "'7', which is no array of numbers"}
    found = read_vectors(column, 2)
    assert found.problems == want
    assert found.vectors[0].tolist() == [1, 2]
    assert not found.vectors[list(want)].any()


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"width": 100}, "take 104"),
        ({"buckets": 1000}, "take 512"),
        ({"column": "v", "frequencies": "f"}, "remove one"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings, remedy):
    """With what to do."""
    with pytest.raises(ValueError, match=remedy):
        EmbedSettings(**settings)

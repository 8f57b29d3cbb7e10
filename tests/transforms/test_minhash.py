"""Signatures, bands and the S-curve against numpy, datasketch and simulation."""

import itertools
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from datasketch import LeanMinHash, MinHash

from transforms.minhash import (
    NearSettings,
    band_keys,
    collision_probability,
    from_datasketch,
    permutations,
    set_hashes,
    signatures,
    to_datasketch,
)
from transforms.record import RecordError
from transforms.shingles import ShingleSets, shingle_sets


def random_sets(sizes, seed=1):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    parts = [np.sort(rng.integers(0, 2**64, size, np.uint64)) for size in sizes]
    return ShingleSets(offsets, np.concatenate(parts) if parts else np.empty(0, np.uint64))


def numpy_signatures(sets, hashes):
    """The definition in numpy: finalizer, affine maps modulo 2^32, minima."""
    a, b = permutations(hashes)
    found = np.full((len(sets), hashes), 0xFFFFFFFF, np.uint32)
    for k in range(len(sets)):
        x = (sets.values[sets.offsets[k] : sets.offsets[k + 1]] >> np.uint64(32)).astype(np.uint32)
        x = (x ^ (x >> 16)) * np.uint32(0x85EBCA6B)
        x = (x ^ (x >> 13)) * np.uint32(0xC2B2AE35)
        x ^= x >> 16
        if len(x):
            found[k] = (x[:, None] * a + b).min(axis=0)
    return found


SIZES = [0, 1, 7, 8, 9, 0, 64, 301]


@pytest.mark.parametrize("hashes", [1, 16, 125])
def test_signatures_are_those_of_numpy_and_of_datasketch(hashes):
    """The kernel, numpy and datasketch 2 give the same bits, for any number of shingles."""
    sets = random_sets(SIZES)
    found = signatures(sets, hashes)
    assert found.dtype == np.uint32
    assert np.array_equal(found, numpy_signatures(sets, hashes))
    for k in range(len(sets)):
        values = sets.values[sets.offsets[k] : sets.offsets[k + 1]]
        sketch = MinHash(hashes, hashfunc=lambda value: value >> 32)
        sketch.update_batch(values.tolist())
        assert np.array_equal(sketch.hashvalues, found[k])


def test_signatures_go_to_datasketch_and_back():
    """A LeanMinHash made of a signature estimates Jaccard; one of another scheme is refused."""
    one, two = signatures(random_sets([50, 50]), 128)
    lean = to_datasketch(one)
    assert isinstance(lean, LeanMinHash)
    assert lean.jaccard(to_datasketch(two)) == (one == two).mean()
    assert np.array_equal(from_datasketch(lean), one)
    with pytest.raises(RecordError, match="legacy"):
        from_datasketch(MinHash(8, scheme="legacy"))
    with pytest.raises(RecordError, match="seed 2"):
        from_datasketch(MinHash(8, seed=2))


def test_bands_are_equal_where_their_hashes_are():
    """A key stands for one band's hashes and its number; equal rows in two bands differ."""
    rows = np.array([[1, 2, 3, 4], [1, 2, 9, 4], [3, 4, 1, 2], [1, 2, 1, 2]], np.uint32)
    keys = band_keys(rows, 2, 2)
    assert keys.dtype == np.int64
    assert keys[0, 0] == keys[1, 0] == keys[3, 0]
    assert keys[2, 1] == keys[3, 1]
    assert len(np.unique(keys)) == 5


def test_set_hashes_tell_sets_apart():
    """Equal sets share all 128 bits; sets that differ in one element share neither half."""
    texts = ["a b c d e f", "A, b c d e f!", "a b c d e g", "", "?", "a a a", "a a a a a"]
    sets = shingle_sets(pa.array(texts), 3)
    hashes = set_hashes(sets)
    assert (hashes[0] == hashes[1]).all()
    assert (hashes[3] == hashes[4]).all()
    assert (hashes[5] == hashes[6]).all()
    distinct = hashes[[0, 2, 3, 5]]
    assert len(np.unique(distinct[:, 0])) == len(np.unique(distinct[:, 1])) == 4


def test_the_s_curve_is_the_share_of_pairs_that_agree_in_a_band():
    """Simulated sets of known Jaccard collide as often as the formula says (within 4 sigma)."""
    rng = np.random.default_rng(2)
    trials, size = 400, 60
    for common in (30, 40, 48, 54):
        sizes = [size] * (2 * trials)
        values = rng.integers(0, 2**64, (trials, 2 * size - common), np.uint64)
        both = np.concatenate([values[:, :size], values[:, -size:]], axis=1).reshape(-1, size)
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        keys = band_keys(signatures(ShingleSets(offsets, np.sort(both).ravel()), 40), 10, 4)
        share = (keys[::2] == keys[1::2]).any(axis=1).mean()
        expected = collision_probability(common / (2 * size - common), 10, 4)
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / trials) + 1e-9


def test_the_defaults_miss_one_pair_in_ten_thousand_at_most():
    """25 bands of 5 rows find all but 5 in 100,000 pairs just at the threshold of 0.8."""
    assert 1 - NearSettings().recall < 5e-5
    assert NearSettings().hashes == 125
    assert collision_probability(0, 25, 5) == 0
    assert collision_probability(1, 25, 5) == 1


def test_the_documented_curve_is_the_formula():
    """The table of docs/near-duplicates.md holds rounded values of the formula."""
    page = (Path(__file__).parents[2] / "docs" / "near-duplicates.md").read_text()
    # The first table of the page.
    tables = itertools.groupby(page.splitlines(), key=lambda line: line.startswith("|"))
    table = next(list(found) for is_table, found in tables if is_table)
    lines = [line.strip("|").split("|") for line in table]
    similarities = [float(cell) for cell in lines[0][1:]]
    assert len(lines) > 4
    for name, *cells in lines[2:]:
        bands, rows = (int(number) for number in re.findall(r"[0-9]+", name)[:2])
        for similarity, cell in zip(similarities, cells, strict=True):
            digits = len(cell.strip().partition(".")[2]) or 3
            share = collision_probability(similarity, bands, rows)
            assert round(share, digits) == float(cell), (name, similarity)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bands": 9, "rows": 13}, ["39.9%", "threshold = 0.8", "raise bands or lower rows"]),
        ({"threshold": 0.3}, ["compares only", "threshold = 0.3"]),
        ({"bands": 200, "rows": 2}, ["nearly every document", "raise rows or lower bands"]),
        ({"verify": False}, ["verify = false", "remove the key"]),
    ],
)
def test_bands_without_a_usable_curve_are_refused(settings, words):
    """The message says what is wrong and what to change."""
    with pytest.raises(ValueError, match="=") as error:
        NearSettings(**settings)
    assert all(word in str(error.value) for word in words)


CODE = """
import pyarrow as pa
from transforms.minhash import band_keys, set_hashes, signatures
from transforms.shingles import shingle_sets
sets = shingle_sets(pa.array(["Straße a b c", "中文字", "", "x y z x y z"]), 2)
found = signatures(sets, 10)
print(sets.values.tolist(), found.tolist(), band_keys(found, 5, 2).tolist())
print(set_hashes(sets).tolist())
"""


def test_the_kernels_mean_the_same_without_compilation():
    """Plain Python gives the bits of the compiled kernels."""
    outputs = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", CODE],
            env={"NUMBA_DISABLE_JIT": disable, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for disable in ("0", "1")
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 100


def test_jaccard_is_estimated_without_bias():
    """The mean error over many pairs of real word sets is within 4 sigma of nothing."""
    rng = random.Random(4)
    words = [f"w{k}" for k in range(400)]
    texts, truth = [], []
    for _ in range(150):
        one = rng.choices(words, k=120)
        two = one.copy()
        for _ in range(rng.randint(1, 15)):
            two[rng.randrange(120)] = rng.choice(words)
        texts += [" ".join(one), " ".join(two)]
        a, b = ({tuple(w[k : k + 3]) for k in range(118)} for w in (one, two))
        truth.append(len(a & b) / len(a | b))
    found = signatures(shingle_sets(pa.array(texts), 3), 128)
    errors = (found[::2] == found[1::2]).mean(axis=1) - truth
    sigma = np.sqrt(np.mean(np.multiply(truth, np.subtract(1, truth))) / 128 / len(truth))
    assert abs(errors.mean()) < 4 * sigma

"""MinHash signatures and their bands, after Broder 1997 and Leskovec et al., MMDS, chapter 3.

The scheme is datasketch's ``affine32``: the upper 32 bits of a shingle's hash go through the
finalizer of MurmurHash3, then through ``a * x + b mod 2^32`` with odd ``a`` for each permutation.
"""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numba
import numpy as np
import numpy.typing as npt
from annotated_types import Gt, Le

from transforms.record import RecordError
from transforms.shingles import Hashes, Offsets, ShingleSets

if TYPE_CHECKING:
    from datasketch import LeanMinHash

SCHEME = "affine32"
SEED = 1
"""The scheme and seed of datasketch that signatures belong to."""

LEAST_RECALL = 0.9
"""Bands and rows that find a smaller share of the pairs at the threshold are refused."""
MOST_STRAYS = 0.95
"""Those that pair a larger share of documents half as similar are refused too."""

Signatures = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, kw_only=True)
class NearSettings:
    """Removal of near-duplicates (`[dedupe.near]`): documents that share most of their n-grams."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    threshold: Annotated[float, Gt(0), Le(1)] = 0.8
    """Jaccard similarity of two documents' sets of n-grams from which on they are duplicates. A
    document is removed only when one at or above it is kept."""
    ngram: Annotated[int, Gt(0), Le(64)] = 5
    """Tokens per n-gram. A document with fewer tokens is a duplicate only of one with the same
    tokens."""
    bands: Annotated[int, Gt(0), Le(1024)] = 25
    """Bands of the MinHash signature; two documents are compared when they agree in one."""
    rows: Annotated[int, Gt(0), Le(64)] = 5
    """Hashes per band. More bands find more pairs, more rows compare fewer documents in vain."""
    verify: bool = True
    """Whether the sets of each pair are compared before one is removed; always, in this version."""
    shingle: Literal["auto"] = "auto"
    """What a token is: a case-folded word; in scripts that write no spaces, a character."""
    flag_share: Annotated[float, Gt(0), Le(1)] = 0.01
    """A document that others of one source were removed for, more than this share of it, is listed in
    the view `flagged_clusters`, and the run warns of the largest."""
    flag_least: Annotated[int, Gt(0)] = 10
    """Fewer removed documents are never flagged."""

    def __post_init__(self) -> None:
        """Check the rules across fields.

        Raises:
            ValueError: `verify = false`, or bands and rows that miss pairs at the threshold or
                compare nearly everything.
        """
        if not self.verify:
            raise ValueError(
                "verify = false would remove documents that are no duplicates; remove the key"
            )
        refuse_useless_bands(self.threshold, self.bands, self.rows)

    @property
    def hashes(self) -> int:
        """Hashes of a signature."""
        return self.bands * self.rows

    @property
    def recall(self) -> float:
        """Probability that two documents just at the threshold are compared."""
        return collision_probability(self.threshold, self.bands, self.rows)


def collision_probability(jaccard: float, bands: int, rows: int) -> float:
    """Return the probability that two documents agree in some band: the S-curve.

    Args:
        jaccard: similarity of their shingle sets, from 0 to 1.
        bands: bands of the signature.
        rows: hashes per band.
    """
    return 1.0 - (1.0 - jaccard**rows) ** bands


def refuse_useless_bands(threshold: float, bands: int, rows: int) -> None:
    """Check that bands and rows tell documents at the threshold from unlike ones.

    Raises:
        ValueError: they do not; the message says what to change.
    """
    recall = collision_probability(threshold, bands, rows)
    if recall < LEAST_RECALL:
        raise ValueError(
            f"bands = {bands} x rows = {rows} compares only {recall:.1%} of the pairs at "
            f"threshold = {threshold:g}; raise bands or lower rows"
        )
    strays = collision_probability(threshold / 2, bands, rows)
    if strays > MOST_STRAYS:
        raise ValueError(
            f"bands = {bands} x rows = {rows} compares {strays:.1%} of the pairs at half of "
            f"threshold = {threshold:g}: nearly every document with every other; raise rows or "
            "lower bands"
        )


@functools.cache
def permutations(hashes: int) -> tuple[Signatures, Signatures]:
    """Return the factors and summands of the permutations: those of datasketch 2.

    Computed here because importing datasketch takes more than a second.

    Returns:
        ``a``, odd, and ``b``, shape [hashes] each.
    """
    generator = np.random.RandomState(SEED)  # the generator of datasketch
    a = generator.randint(0, 1 << 31, hashes, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
    b = generator.randint(0, 1 << 32, hashes, dtype=np.uint32)
    a.flags.writeable = b.flags.writeable = False
    return a, b


def signatures(sets: ShingleSets, hashes: int) -> Signatures:
    """Return the MinHash signature of each set, shape [sets, hashes]; all ones for an empty set."""
    a, b = permutations(hashes)
    found: Signatures = _signatures(sets.offsets, sets.values, a, b)
    return found


def band_keys(signatures: Signatures, bands: int, rows: int) -> npt.NDArray[np.int64]:
    """Return a 64-bit hash of each band with its number, shape [documents, bands].

    Args:
        signatures: shape [documents, bands * rows].
        bands: bands of the signature.
        rows: hashes per band.
    """
    keys: npt.NDArray[np.int64] = _band_keys(signatures, bands, rows).view(np.int64)
    return keys


def set_hashes(sets: ShingleSets) -> npt.NDArray[np.uint64]:
    """Return 128 bits that only equal sets share, shape [sets, 2]."""
    hashes: Hashes = _set_hashes(sets.offsets, sets.values)
    return hashes


def to_datasketch(signature: Signatures) -> "LeanMinHash":
    """Return one signature, shape [hashes], as datasketch's own object."""
    from datasketch import LeanMinHash

    return LeanMinHash(seed=SEED, hashvalues=signature, scheme=SCHEME)


def from_datasketch(sketch: Any) -> Signatures:
    """Return the signature of a ``MinHash`` or ``LeanMinHash``, shape [hashes].

    Raises:
        RecordError: it was made by another scheme or seed, and cannot be compared.
    """
    scheme, seed = getattr(sketch, "scheme", "none"), sketch.seed
    if (scheme, seed) != (SCHEME, SEED):
        raise RecordError(
            f"a signature of scheme {scheme!r}, seed {seed} cannot be compared with those of scheme "
            f"{SCHEME!r}, seed {SEED}; make it anew with them"
        )
    return np.asarray(sketch.hashvalues, np.uint32).copy()


@numba.njit(cache=True, nogil=True)
def _premixed(value: np.uint64) -> np.uint32:
    """Return the upper half of a hash, mixed (32-bit finalizer of MurmurHash3)."""
    x = np.uint32(value >> np.uint64(32))
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x85EBCA6B))
    x = np.uint32((x ^ (x >> np.uint32(13))) * np.uint32(0xC2B2AE35))
    return np.uint32(x ^ (x >> np.uint32(16)))


@numba.njit(cache=True, nogil=True)
def _signatures(offsets: Offsets, values: Hashes, a: Signatures, b: Signatures) -> Signatures:
    n, hashes = len(offsets) - 1, len(a)
    out = np.full((n, hashes), 0xFFFFFFFF, np.uint32)
    for document in range(n):
        row = out[document]
        place, end = offsets[document], offsets[document + 1]
        while place < end:
            # Eight shingles per sweep, so that the row is loaded and stored once for all of them;
            # the last one counts several times, which changes no minimum.
            last = end - 1
            x0 = _premixed(values[place])
            x1 = _premixed(values[min(place + 1, last)])
            x2 = _premixed(values[min(place + 2, last)])
            x3 = _premixed(values[min(place + 3, last)])
            x4 = _premixed(values[min(place + 4, last)])
            x5 = _premixed(values[min(place + 5, last)])
            x6 = _premixed(values[min(place + 6, last)])
            x7 = _premixed(values[min(place + 7, last)])
            for k in range(hashes):
                p, q = a[k], b[k]
                low = min(np.uint32(p * x0 + q), np.uint32(p * x1 + q))
                low = min(low, min(np.uint32(p * x2 + q), np.uint32(p * x3 + q)))
                high = min(np.uint32(p * x4 + q), np.uint32(p * x5 + q))
                high = min(high, min(np.uint32(p * x6 + q), np.uint32(p * x7 + q)))
                row[k] = min(row[k], min(low, high))
            place += 8
    return out


@numba.njit(cache=True, nogil=True)
def _band_keys(signatures: Signatures, bands: int, rows: int) -> Hashes:
    n = len(signatures)
    keys = np.empty((n, bands), np.uint64)
    for document in range(n):
        for band in range(bands):
            state = np.uint64(band + 1) * np.uint64(0x9E3779B97F4A7C15)
            for k in range(band * rows, (band + 1) * rows):
                state = _mix(state ^ np.uint64(signatures[document, k]))
            keys[document, band] = state
    return keys


@numba.njit(cache=True, nogil=True)
def _set_hashes(offsets: Offsets, values: Hashes) -> Hashes:
    n = len(offsets) - 1
    out = np.empty((n, 2), np.uint64)
    for document in range(n):
        start, end = offsets[document], offsets[document + 1]
        one = np.uint64(end - start)
        two = np.uint64(0x2545F4914F6CDD1D) ^ one
        for place in range(start, end):
            one = (one ^ values[place]) * np.uint64(0x9E3779B97F4A7C15)
            one ^= one >> np.uint64(32)
            two = (two + values[place]) * np.uint64(0xBF58476D1CE4E5B9)
            two ^= two >> np.uint64(29)
        out[document, 0] = _mix(one)
        out[document, 1] = _mix(two)
    return out


@numba.njit(cache=True, nogil=True)
def _mix(x: np.uint64) -> np.uint64:
    """Mix the bits of a hash (finalizer of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))

"""Sentences whose forms differ a little: sets of 4-grams, bands, pairs, and what leads each group."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.clusters import jaccards, keepers
from transforms.kernel import kernel
from transforms.sentence_characters import Bytes, Int64s
from transforms.sentence_forms import plain_form, word_tables
from transforms.shingles import Hashes, ShingleSets, token_table
from transforms.text import string_buffers

LEAST_NEAR, MOST_NEAR = 15, 200
"""Characters of the forms that are compared with similar ones."""
_HASHES = 40
"""Hashes of a form's MinHash signature."""
_PAIRS_AT_ONCE = 1 << 17


def rows_of(threshold: float) -> int:
    """Return the hashes per band: of pairs just at the threshold, 99 % share a band's key."""
    return 4 if threshold >= 0.8 else 3


def gram_sets(texts: pa.StringArray) -> ShingleSets:
    """Return the sets of 4-character sequences of sentences' forms, as hashes.

    Args:
        texts: sentences, none of which ends in a label.
    """
    offsets, data = string_buffers(texts)
    table, expansions = token_table()
    found, values = _gram_sets(offsets, data, table, expansions, *word_tables())
    return ShingleSets(found, values)


def band_keys(texts: pa.StringArray, threshold: float) -> tuple[Hashes, npt.NDArray[np.int32]]:
    """Return the keys of the bands of sentences' forms, and the sizes of their sets.

    Args:
        texts: sentences, none of which ends in a label.
        threshold: Jaccard similarity from which on two forms are to share a key.

    Returns:
        Keys, no two bands' alike, shape [texts, bands]; and sizes, shape [texts].
    """
    sets = gram_sets(texts)
    generator = np.random.Generator(np.random.PCG64(7))
    factors = generator.integers(0, 1 << 32, _HASHES, np.uint32) | np.uint32(1)
    terms = generator.integers(0, 1 << 32, _HASHES, np.uint32)
    keys: Hashes = _bands(sets.offsets, sets.values, factors, terms, rows_of(threshold))
    return keys, sets.sizes.astype(np.int32)


def similar(
    texts: pa.StringArray, first: Int64s, second: Int64s, threshold: float
) -> npt.NDArray[np.float64]:
    """Return the Jaccard similarity of pairs of forms, 0 where it is below the threshold.

    Args:
        texts: sentences, none of which ends in a label.
        first: number of the one text of each pair, shape [pairs].
        second: number of the other one, likewise.
        threshold: similarity asked for.
    """
    found = np.zeros(len(first))
    for start in range(0, len(first), _PAIRS_AT_ONCE):
        part = slice(start, start + _PAIRS_AT_ONCE)
        used = np.unique(np.concatenate([first[part], second[part]]))
        sets = gram_sets(texts.take(pa.array(used)))
        one, two = np.searchsorted(used, first[part]), np.searchsorted(used, second[part])
        found[part] = jaccards(sets, one, two, threshold)
    return found


@dataclass(frozen=True, slots=True)
class Groups:
    """Forms that are counted together."""

    forms: Int64s
    """Names of the forms, ascending."""
    leaders: Int64s
    """The form that leads the group of each; leads itself."""


def lead(
    forms: Int64s,
    documents: Int64s,
    first: Int64s,
    second: Int64s,
    jaccard: npt.NDArray[np.float64],
) -> Groups:
    """Group forms around those that most documents have.

    In the order of their documents, then of their names, each form leads a group unless an earlier
    one that leads is similar to it: so every member is similar to its leader, and there are no
    chains. Of several leaders the most similar one counts, of equal ones the earliest.

    Args:
        forms: names of the forms of some pair, ascending, shape [forms].
        documents: how many have each, likewise.
        first: name of the one form of each verified pair, shape [pairs], every pair once.
        second: name of the other one, likewise.
        jaccard: their similarity, likewise.

    Returns:
        The groups of two forms and more.
    """
    order = np.lexsort((forms, -documents))
    number = np.empty(len(forms), np.int64)
    number[order] = np.arange(len(forms))
    one, two = (number[np.searchsorted(forms, names)] for names in (first, second))
    leader, _ = keepers(len(forms), np.minimum(one, two), np.maximum(one, two), jaccard)
    led = np.bincount(leader, minlength=len(forms))
    grouped = led[leader] > 1
    names = forms[order]
    place = np.argsort(names[grouped])
    return Groups(names[grouped][place], names[leader[grouped]][place])


@kernel
def copy_texts(data: Bytes, places: Int64s, chosen: Int64s) -> tuple[Int64s, Bytes]:
    """Return where the bytes of some units begin, shape [chosen + 1], and those bytes."""
    offsets = np.zeros(len(chosen) + 1, np.int64)
    for number in range(len(chosen)):
        unit = chosen[number]
        offsets[number + 1] = offsets[number] + places[unit, 2] - places[unit, 1]
    out = np.empty(offsets[len(chosen)], np.uint8)
    for number in range(len(chosen)):
        start = places[chosen[number], 1]
        for k in range(offsets[number + 1] - offsets[number]):
            out[offsets[number] + k] = data[start + k]
    return offsets, out


@kernel
def _gram(codes: npt.NDArray[np.int32], start: int, end: int) -> np.uint64:
    state = np.uint64(0x9E3779B97F4A7C15)
    for place in range(start, end):
        state = (state ^ np.uint64(codes[place])) * np.uint64(0xC4CEB9FE1A85EC53)
        state ^= state >> np.uint64(29)
    return state


@kernel
def _gram_sets(
    ends: Int64s,
    data: Bytes,
    table: npt.NDArray[np.int32],
    expansions: npt.NDArray[np.int32],
    dates: Hashes,
    labels: Hashes,
    bare: Hashes,
) -> tuple[Int64s, Hashes]:
    room = 0
    for text in range(len(ends) - 1):
        room = max(room, ends[text + 1] - ends[text])
    codes = np.empty(3 * room + 8, np.int32)
    offsets = np.zeros(len(ends), np.int64)
    values = np.empty(3 * (ends[-1] - ends[0]) + len(ends), np.uint64)
    last = 0
    for text in range(len(ends) - 1):
        used = plain_form(
            data, ends[text], ends[text + 1], table, expansions, dates, labels, bare, codes
        )
        first, count = last, max(used - 3, 1)
        for place in range(count):
            values[first + place] = _gram(codes, place, min(place + 4, used))
        grams = values[first : first + count]
        grams.sort()
        for place in range(count):
            if place == 0 or grams[place] != values[last - 1]:
                values[last] = grams[place]
                last += 1
        offsets[text + 1] = last
    return offsets, values[:last].copy()


@kernel
def _bands(
    offsets: Int64s,
    grams: Hashes,
    factors: npt.NDArray[np.uint32],
    terms: npt.NDArray[np.uint32],
    rows: int,
) -> Hashes:
    hashes, n = len(factors), len(offsets) - 1
    keys = np.empty((n, hashes // rows), np.uint64)
    least = np.empty(hashes, np.uint32)
    for number in range(n):
        least[:] = np.uint32(0xFFFFFFFF)
        for place in range(offsets[number], offsets[number + 1]):
            value = np.uint32(grams[place] >> np.uint64(32))
            for k in range(hashes):
                least[k] = min(least[k], np.uint32(factors[k] * value + terms[k]))
        for band in range(hashes // rows):
            state = np.uint64(0xCBF29CE484222325) + np.uint64(band)
            for k in range(band * rows, (band + 1) * rows):
                state = (state ^ np.uint64(least[k])) * np.uint64(0x9E3779B97F4A7C15)
                state ^= state >> np.uint64(29)
            keys[number, band] = state
    return keys

"""The index of evaluation items: which n-grams of tokens stand where in which item."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.kernel import kernel
from transforms.shingles import mixed_bits
from transforms.token_places import PlacedTokens, placed_tokens

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

LEAST_LETTERS = 24
"""Items of fewer letters are not searched: they stand in ordinary text by chance."""
BASE = np.uint64(0x9E3779B97F4A7C15)
"""Of the rolling hash: token hashes as digits of a number to this base, modulo 2^64."""
_SIZES = np.uint64(0xD6E8FEB86659FD93)

ENOUGH_LETTERS = 40
"""Telling letters that a document must have in common with an item it does not hold whole: 8 words
of four letters and what separates them. GPT-3 (appendix C) has 8 words for its shortest n-gram."""
EDGE = 5
"""Tokens, and at most an eighth of the item's, that may be missing at the end of it to which a part
belongs: the number of a question, say."""

COMMON = 8
"""Items that an n-gram may stand in before its words count for less."""
SCALE = 16
"""Telling letters are counted in sixteenths."""

FLOOR = 4
"""What a letter tells at least, in sixteenths."""
_MOST_POSTINGS = 256
"""Places of an n-gram above which it begins no match, unless the item has nothing rarer."""
_MOST_IN_ITEM = 16
"""Places of an n-gram in one item that begin a match."""
_BITS_PER_GRAM = 16


class Tables(NamedTuple):
    """The index as flat arrays, for the kernels."""

    sizes: Int64s
    """Lengths of the n-grams, [sizes]: the one asked for, and those of shorter items."""
    bitmap: Hashes
    """One bit per hash modulo its size; clear for most n-grams that are not in the index."""
    keys: Hashes
    """Hash table with open addressing: hash of an n-gram, 0 where free, [slots]."""
    grams: Int32s
    """Number of the n-gram in each slot."""
    gram_starts: Int64s
    """Where each n-gram's postings begin, [grams + 1]."""
    items: Int32s
    """Item of each posting, ascending within an n-gram."""
    places: Int32s
    """First token of each posting in its item."""
    item_starts: Int64s
    """Where each item's tokens begin, [items + 1]."""
    tokens: Hashes
    """The items' tokens."""
    seeds: npt.NDArray[np.uint8]
    """Whether the n-gram at each token is a posting."""
    letters: Int64s
    """Letters before each token of all items, [tokens + 1]."""
    telling: Int64s
    """Letters, those of n-grams that many items share counted for less, likewise; in 1/16."""
    least_seeds: Int32s
    """Places that a document must share with each item before it is looked at closely."""


@dataclass(frozen=True, slots=True)
class ContaminationIndex:
    """Evaluation items, ready to be searched for."""

    tables: Tables
    tokens: PlacedTokens
    """The items' tokens and where they stand in their texts."""
    threshold: float
    part_threshold: float

    @property
    def searched(self) -> int:
        """Number of items that are long enough to be searched."""
        return len(np.unique(self.tables.items))

    @property
    def ngrams(self) -> int:
        """Number of distinct n-grams in the index."""
        return len(self.tables.gram_starts) - 1


def build_index(
    texts: pa.StringArray, ngram: int, threshold: float, part_threshold: float
) -> ContaminationIndex:
    """Index evaluation items.

    Args:
        texts: the items, normalized as documents are.
        ngram: tokens per n-gram.
        threshold: see :class:`transforms.contamination.DecontaminateSettings`.
        part_threshold: likewise.
    """
    tokens = placed_tokens(texts)
    lengths = np.diff(tokens.offsets)
    letters = np.concatenate([[0], np.cumsum(tokens.letters, dtype=np.int64)])
    size = letters[tokens.offsets[1:]] - letters[tokens.offsets[:-1]]
    grams = _item_grams(tokens, ngram, size)
    weight = _telling(tokens, grams)
    telling = np.concatenate([[0], np.cumsum(tokens.letters.astype(np.int64) * weight)])
    kept = grams.take(_seeding(grams))
    unique, starts = np.unique(kept.hashes, return_index=True)
    seeds = np.zeros(len(tokens.hashes), np.uint8)
    seeds[tokens.offsets[kept.items] + kept.places] = 1
    least = np.minimum(
        np.maximum(part_threshold * size, ENOUGH_LETTERS),
        np.maximum(threshold * size, ENOUGH_LETTERS),
    )
    sizes = np.unique(np.minimum(lengths[size >= LEAST_LETTERS], ngram))
    bitmap, keys, numbers = _hash_table(unique)
    tables = Tables(
        sizes=sizes.astype(np.int64),
        bitmap=bitmap,
        keys=keys,
        grams=numbers,
        gram_starts=np.concatenate([starts, [len(kept.hashes)]]).astype(np.int64),
        items=kept.items,
        places=kept.places,
        item_starts=tokens.offsets,
        tokens=tokens.hashes,
        seeds=seeds,
        letters=letters,
        telling=telling,
        # Words of at most 8 letters, in runs of 6 that share 2 n-grams of 5 every 7 words.
        least_seeds=np.maximum(least / 9 * 2 / 7, 1).astype(np.int32),
    )
    return ContaminationIndex(tables, tokens, threshold, part_threshold)


class _Grams(NamedTuple):
    """N-grams of items, sorted by hash, item and place."""

    hashes: Hashes
    items: Int32s
    places: Int32s
    sizes: Int32s

    def take(self, rows: npt.NDArray[np.bool_]) -> "_Grams":
        return _Grams(self.hashes[rows], self.items[rows], self.places[rows], self.sizes[rows])


def _item_grams(tokens: PlacedTokens, ngram: int, letters: Int64s) -> _Grams:
    """Return the n-grams of all items that are long enough, sorted."""
    lengths = np.diff(tokens.offsets)
    counts = np.where(letters >= LEAST_LETTERS, np.maximum(lengths - ngram + 1, 1), 0)
    counts[lengths == 0] = 0
    total = int(counts.sum())
    hashes = np.empty(total, np.uint64)
    _hash_grams(tokens.hashes, tokens.offsets, counts, ngram, hashes)
    items = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    places = (np.arange(total) - np.repeat(first, counts)).astype(np.int32)
    order = np.argsort(hashes, kind="stable")
    sizes = np.minimum(lengths, ngram).astype(np.int32)[items]
    return _Grams(hashes[order], items[order], places[order], sizes[order])


def _telling(tokens: PlacedTokens, grams: _Grams) -> Int64s:
    """Return how much a letter of each token tells, in 1/16: less where all n-grams are common."""
    fewest = np.full(len(tokens.hashes), np.iinfo(np.int64).max)
    spread = _items_with(grams)
    place = tokens.offsets[grams.items] + grams.places
    for step in range(int(grams.sizes.max(initial=0))):
        inside = grams.sizes > step
        np.minimum.at(fewest, place[inside] + step, spread[inside])
    fewest = np.where(fewest == np.iinfo(np.int64).max, 1, fewest)
    # floor(log2) of a whole number is exact, and so the same on every machine.
    excess = np.maximum(fewest // COMMON, 1)
    doublings = np.frexp(excess.astype(np.float64))[1] - 1
    weight: Int64s = np.maximum(SCALE // (1 + doublings), FLOOR).astype(np.int64)
    return weight


def _items_with(grams: _Grams) -> Int64s:
    """Return, for each n-gram, in how many items it stands."""
    n = len(grams.hashes)
    if not n:
        return np.empty(0, np.int64)
    new_gram = np.concatenate([[True], grams.hashes[1:] != grams.hashes[:-1]])
    new_item = new_gram | np.concatenate([[True], grams.items[1:] != grams.items[:-1]])
    number = np.cumsum(new_gram) - 1
    found: Int64s = np.bincount(number, weights=new_item).astype(np.int64)[number]
    return found


def _seeding(grams: _Grams) -> npt.NDArray[np.bool_]:
    """Return which n-grams begin matches: rare ones, and the rarest of an item without any."""
    n = len(grams.hashes)
    if not n:
        return np.zeros(0, np.bool_)
    new_gram = np.concatenate([[True], grams.hashes[1:] != grams.hashes[:-1]])
    new_item = new_gram | np.concatenate([[True], grams.items[1:] != grams.items[:-1]])
    starts = np.flatnonzero(new_item)
    within = np.arange(n) - starts[np.cumsum(new_item) - 1]
    number = np.cumsum(new_gram) - 1
    total = np.bincount(number)[number]
    rare = total <= _MOST_POSTINGS
    fewest = np.full(int(grams.items.max()) + 1, np.iinfo(np.int64).max)
    np.minimum.at(fewest, grams.items, total)
    chosen: npt.NDArray[np.bool_] = (rare | (total == fewest[grams.items])) & (
        within < _MOST_IN_ITEM
    )
    return chosen


def _hash_table(unique: Hashes) -> tuple[Hashes, Hashes, Int32s]:
    """Return the bitmap, the keys and the n-gram's number of each slot."""
    bits = 1 << max(10, int(len(unique) * _BITS_PER_GRAM).bit_length())
    slots = 1 << max(4, int(len(unique) * 2).bit_length())
    bitmap = np.zeros(bits // 64, np.uint64)
    keys, numbers = np.zeros(slots, np.uint64), np.zeros(slots, np.int32)
    _fill(unique, bitmap, keys, numbers)
    return bitmap, keys, numbers


@kernel
def gram_hash(state: np.uint64, size: int) -> np.uint64:
    """Return the hash of an n-gram from its rolling state; never 0."""
    found = mixed_bits(state ^ np.uint64(size) * _SIZES)
    return found if found else BASE


@kernel
def _hash_grams(tokens: Hashes, offsets: Int64s, counts: Int64s, ngram: int, out: Hashes) -> None:
    """Write the hashes of the n-grams of each item, in order."""
    used = 0
    for item in range(len(counts)):
        if not counts[item]:
            continue
        start, end = offsets[item], offsets[item + 1]
        size = min(ngram, end - start)
        leaving = np.uint64(1)
        for _ in range(size):
            leaving *= BASE
        state = np.uint64(0)
        for k in range(start, end):
            state = state * BASE + tokens[k]
            if k >= start + size:
                state -= tokens[k - size] * leaving
            if k >= start + size - 1:
                out[used] = gram_hash(state, size)
                used += 1


@kernel
def _fill(unique: Hashes, bitmap: Hashes, keys: Hashes, numbers: Int32s) -> None:
    bits, slots = np.uint64(len(bitmap) * 64 - 1), np.uint64(len(keys) - 1)
    for number in range(len(unique)):
        found = unique[number]
        bit = found & bits
        bitmap[np.int64(bit >> np.uint64(6))] |= np.uint64(1) << (bit & np.uint64(63))
        slot = (found >> np.uint64(20)) & slots
        while keys[np.int64(slot)]:
            slot = (slot + np.uint64(1)) & slots
        keys[np.int64(slot)] = found
        numbers[np.int64(slot)] = number

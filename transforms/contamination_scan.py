"""Kernels that find evaluation items in documents: shared n-grams, runs of equal tokens, matches."""

import numpy as np
import numpy.typing as npt

from transforms.contamination_chains import GAP, best_chain
from transforms.contamination_index import (
    BASE,
    EDGE,
    ENOUGH_LETTERS,
    SCALE,
    Tables,
    gram_hash,
)
from transforms.kernel import kernel
from transforms.token_places import locate_tokens

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

COLUMNS = 11
"""Of a match: text, item, begin and end of the span in bytes, first and last (excluded) token of the
item, tokens in common, letters in common, first and last (excluded) token of the text, telling letters in common."""


@kernel
def scan(
    offsets: Int64s,
    data: npt.NDArray[np.uint8],
    table: npt.NDArray[np.int32],
    expansions: npt.NDArray[np.int32],
    index: Tables,
    threshold: float,
    part: float,
) -> Int64s:
    """Return the matches of some texts, [matches, COLUMNS]; by text, in no order within one."""
    longest = 0
    for text in range(len(offsets) - 1):
        longest = max(longest, offsets[text + 1] - offsets[text])
    room = longest // 2 + 1
    hashes = np.empty(room, np.uint64)
    begins, ends = np.empty(room, np.int32), np.empty(room, np.int32)
    unused = np.empty(0, np.int32)
    hit_place = np.empty(room * len(index.sizes), np.int32)
    hit_gram = np.empty(room * len(index.sizes), np.int32)
    counts = np.zeros(len(index.item_starts), np.int64)
    touched = np.empty(len(index.item_starts), np.int32)
    out, used = np.empty((64, COLUMNS), np.int64), 0
    for text in range(len(offsets) - 1):
        start, end = offsets[text], offsets[text + 1]
        count = locate_tokens(data, start, end, table, expansions, hashes, begins, ends, unused)
        hits = _probe(hashes, count, index, hit_place, hit_gram)
        if not hits:
            continue
        found = _candidates(hit_gram, hits, index, counts, touched)
        if found:
            before = used
            out, used = _follow(
                hashes[:count],
                hit_place[:hits],
                hit_gram[:hits],
                touched[:found],
                counts,
                index,
                threshold,
                part,
                out,
                used,
            )
            for row in range(before, used):
                out[row, 0] = text
                out[row, 2] = begins[out[row, 8]]
                out[row, 3] = ends[out[row, 9] - 1]
            for k in range(found):
                counts[touched[k]] = 0
    return out[:used].copy()


@kernel
def _probe(hashes: Hashes, count: int, index: Tables, hit_place: Int32s, hit_gram: Int32s) -> int:
    """Write place and number of each n-gram of a document that is in the index, by length."""
    bits = np.uint64(len(index.bitmap) * 64 - 1)
    slots = np.uint64(len(index.keys) - 1)
    hits = 0
    for size in index.sizes:
        leaving = np.uint64(1)
        for _ in range(size):
            leaving *= BASE
        state = np.uint64(0)
        for k in range(count):
            state = state * BASE + hashes[k]
            if k >= size:
                state -= hashes[k - size] * leaving
            elif k < size - 1:
                continue
            found = gram_hash(state, size)
            bit = found & bits
            if not (
                index.bitmap[np.int64(bit >> np.uint64(6))] >> (bit & np.uint64(63))
            ) & np.uint64(1):
                continue
            slot = (found >> np.uint64(20)) & slots
            key = index.keys[np.int64(slot)]
            while key and key != found:
                slot = (slot + np.uint64(1)) & slots
                key = index.keys[np.int64(slot)]
            if key:
                hit_place[hits] = k - size + 1
                hit_gram[hits] = index.grams[np.int64(slot)]
                hits += 1
    return hits


@kernel
def _candidates(hit_gram: Int32s, hits: int, index: Tables, counts: Int64s, touched: Int32s) -> int:
    """Count the places that a document shares with each item; keep the items that share enough."""
    seen = 0
    for hit in range(hits):
        gram = hit_gram[hit]
        for posting in range(index.gram_starts[gram], index.gram_starts[gram + 1]):
            item = index.items[posting]
            if not counts[item]:
                touched[seen] = item
                seen += 1
            counts[item] += 1
    kept = 0
    for k in range(seen):
        item = touched[k]
        if counts[item] >= index.least_seeds[item]:
            touched[kept] = item
            kept += 1
        else:
            counts[item] = 0
    return kept


@kernel
def _follow(
    document: Hashes,
    hit_place: Int32s,
    hit_gram: Int32s,
    items: Int32s,
    counts: Int64s,
    index: Tables,
    threshold: float,
    part: float,
    out: Int64s,
    used: int,
) -> tuple[Int64s, int]:
    """Add the matches of a document with some items; return the matches and their number."""
    starts = np.zeros(len(items) + 1, np.int64)
    for k in range(len(items)):
        starts[k + 1] = starts[k] + counts[items[k]]
        # From here on: where the item's next pair goes, shifted by one to tell it from none.
        counts[items[k]] = starts[k] + 1
    place = np.empty(starts[-1], np.int32)
    where = np.empty(starts[-1], np.int32)
    for hit in range(len(hit_place)):
        gram = hit_gram[hit]
        for posting in range(index.gram_starts[gram], index.gram_starts[gram + 1]):
            item = index.items[posting]
            free = counts[item]
            if free:
                place[free - 1] = hit_place[hit]
                where[free - 1] = index.places[posting]
                counts[item] = free + 1
    for k in range(len(items)):
        low, high = starts[k], starts[k + 1]
        runs = _runs(document, place[low:high], where[low:high], items[k], index)
        out, used = _matches(document, runs, items[k], index, threshold, part, out, used)
    return out, used


@kernel
def _runs(document: Hashes, place: Int32s, where: Int32s, item: int, index: Tables) -> Int32s:
    """Return the maximal runs of equal tokens that hold shared n-grams.

    Returns:
        [runs, 3]: first token in the document, first token in the item, tokens; sorted.
    """
    base = index.item_starts[item]
    length = index.item_starts[item + 1] - base
    runs = np.empty((len(place), 3), np.int32)
    used = 0
    for k in range(len(place)):
        first, within = int(place[k]), int(where[k])
        known = False
        while first and within and document[first - 1] == index.tokens[base + within - 1]:
            first -= 1
            within -= 1
            if index.seeds[base + within]:
                known = True  # this run was made by an n-gram to the left
                break
        if known:
            continue
        end, stop = int(place[k]), int(where[k])
        while end < len(document) and stop < length:
            if document[end] != index.tokens[base + stop]:
                break
            end += 1
            stop += 1
        spot = used
        while spot and (runs[spot - 1, 0], runs[spot - 1, 1]) > (first, within):
            runs[spot] = runs[spot - 1]
            spot -= 1
        runs[spot, 0], runs[spot, 1], runs[spot, 2] = first, within, end - first
        used += 1
    return runs[:used]


@kernel
def _matches(
    document: Hashes,
    runs: Int32s,
    item: int,
    index: Tables,
    threshold: float,
    part: float,
    out: Int64s,
    used: int,
) -> tuple[Int64s, int]:
    """Add the matches that runs make up: groups of near runs, best chain first."""
    base = index.item_starts[item]
    length = index.item_starts[item + 1] - base
    letters = index.letters[base + length] - index.letters[base]
    all_telling = index.telling[base + length] - index.telling[base]
    free = np.ones(len(runs), np.bool_)
    score, before = np.empty(len(runs), np.int64), np.empty(len(runs), np.int64)
    low = 0
    while low < len(runs):
        high, reach, most = low, runs[low, 0], 0
        while high < len(runs) and runs[high, 0] <= reach + GAP:
            reach = max(reach, runs[high, 0] + runs[high, 2])
            first = base + runs[high, 1]
            most += index.letters[first + runs[high, 2]] - index.letters[first]
            high += 1
        # Runs hold most of a match: what lies between them and at the ends may double them.
        while 2 * most >= min(part, threshold) * letters:
            match = best_chain(document, runs, free, low, high, score, before, item, index)
            span, tokens = match[1] - match[0], match[4]
            whole = tokens == length and span == length
            enough = match[6] >= ENOUGH_LETTERS * SCALE
            found = enough and match[6] >= threshold * all_telling
            # An item that is cut off keeps one of its ends; what is quoted in both has none.
            missing = min(EDGE, length // 8)
            edge = match[2] <= missing or match[3] >= length - missing
            cut = enough and match[5] >= part * letters
            if not (whole or found or (edge and cut)):
                break
            if 2 * tokens < span:
                break
            if used == len(out):
                more = np.empty((2 * used, COLUMNS), np.int64)
                more[:used] = out
                out = more
            out[used, 1] = item
            out[used, 4], out[used, 5] = match[2], match[3]
            out[used, 6], out[used, 7] = tokens, match[5]
            out[used, 8], out[used, 9] = match[0], match[1]
            out[used, 10] = match[6]
            used += 1
            left = False
            for k in range(low, high):
                if runs[k, 0] < match[1] and runs[k, 0] + runs[k, 2] > match[0]:
                    free[k] = False
                left = left or free[k]
            if not left:
                break
        low = high
    return out, used

"""Kernels that join runs of equal tokens into a match with an evaluation item, and measure it."""

import numpy as np
import numpy.typing as npt

from transforms.contamination_index import Tables
from transforms.kernel import kernel

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

GAP = 24
"""Tokens of the document that may stand between two runs of a match."""
_LOOK_BACK = 64
"""Runs before a run that it may follow."""
_WIDEST = 64
"""Tokens of the item in a gap that are compared in order."""
_DROP = 3
"""Unequal tokens, over equal ones, at which a match stops growing at its ends."""


@kernel
def best_chain(
    document: Hashes,
    runs: Int32s,
    free: npt.NDArray[np.bool_],
    low: int,
    high: int,
    score: Int64s,
    before: Int64s,
    item: int,
    index: Tables,
) -> tuple[int, int, int, int, int, int, int]:
    """Return the chain of runs, in order in document and item, with the most letters.

    Returns:
        First and last token (excluded) in the document, likewise in the item, tokens, letters and
        telling letters in common.
    """
    base = index.item_starts[item]
    best = -1
    for k in range(low, high):
        if not free[k]:
            continue
        first, within, size = int(runs[k, 0]), int(runs[k, 1]), int(runs[k, 2])
        end = base + within + size
        score[k] = index.letters[end] - index.letters[base + within]
        before[k] = -1
        for j in range(max(low, k - _LOOK_BACK), k):
            if not free[j]:
                continue
            last, stop = int(runs[j, 0] + runs[j, 2]), int(runs[j, 1] + runs[j, 2])
            shared = max(0, last - first, stop - within)
            if shared >= size or first + shared - last > GAP:
                continue
            gained = index.letters[end] - index.letters[base + within + shared]
            if first - last == within - stop:
                gained += _between(document, last, stop, first, item, index)[1]
            if score[j] + gained > score[k]:
                score[k] = score[j] + gained
                before[k] = j
        if best < 0 or score[k] > score[best]:
            best = k
    if best < 0:
        return 0, 0, 0, 0, 0, 0, 0
    return _measured(document, runs, before, best, item, index)


@kernel
def _between(
    document: Hashes, place: int, within: int, end: int, item: int, index: Tables
) -> tuple[int, int, int]:
    """Return tokens, letters and telling letters that are equal, place by place, up to ``end``."""
    base = index.item_starts[item]
    tokens, letters, telling = 0, 0, 0
    while place < end:
        spot = base + within
        if document[place] == index.tokens[spot]:
            tokens += 1
            letters += index.letters[spot + 1] - index.letters[spot]
            telling += index.telling[spot + 1] - index.telling[spot]
        place += 1
        within += 1
    return tokens, letters, telling


@kernel
def _in_order(
    document: Hashes, within: int, end: int, item: int, index: Tables
) -> tuple[int, int, int]:
    """Return tokens, letters and telling letters of the heaviest common subsequence of a gap."""
    base = index.item_starts[item] + within
    end = min(end, within + _WIDEST)
    best = np.zeros((end - within + 1, 3), np.int64)
    for token in document:
        tokens, letters, telling = 0, 0, 0
        for k in range(1, end - within + 1):
            above = best[k, 0], best[k, 1], best[k, 2]
            spot = base + k - 1
            if best[k - 1, 1] > best[k, 1]:
                best[k] = best[k - 1]
            if token == index.tokens[spot]:
                letters += index.letters[spot + 1] - index.letters[spot]
                if letters > best[k, 1]:
                    best[k, 0], best[k, 1] = tokens + 1, letters
                    best[k, 2] = telling + index.telling[spot + 1] - index.telling[spot]
            tokens, letters, telling = above
    last = end - within
    return best[last, 0], best[last, 1], best[last, 2]


@kernel
def _measured(
    document: Hashes, runs: Int32s, before: Int64s, last: int, item: int, index: Tables
) -> tuple[int, int, int, int, int, int, int]:
    """Follow a chain back to its start and grow it at both ends; see :func:`best_chain`."""
    base = index.item_starts[item]
    length = index.item_starts[item + 1] - base
    end, stop = int(runs[last, 0] + runs[last, 2]), int(runs[last, 1] + runs[last, 2])
    tokens, letters, telling = 0, 0, 0
    k = last
    while True:
        first, within, size = int(runs[k, 0]), int(runs[k, 1]), int(runs[k, 2])
        j = before[k]
        if j >= 0:
            past, over = int(runs[j, 0] + runs[j, 2]), int(runs[j, 1] + runs[j, 2])
            if first - past == within - over:
                more = _between(document, past, over, first, item, index)
                tokens, letters, telling = tokens + more[0], letters + more[1], telling + more[2]
            elif first > past and within > over:
                more = _in_order(document[past:first], over, within, item, index)
                tokens, letters, telling = tokens + more[0], letters + more[1], telling + more[2]
            shared = max(0, past - first, over - within)
            within, size = within + shared, size - shared
        spot = base + within
        tokens += size
        letters += index.letters[spot + size] - index.letters[spot]
        telling += index.telling[spot + size] - index.telling[spot]
        if j < 0:
            break
        k = j
    forward = _growth(document, end, stop, 1, item, index)
    more = _between(document, end, stop, end + forward, item, index)
    tokens, letters, telling = tokens + more[0], letters + more[1], telling + more[2]
    back = _growth(document, first - 1, within - 1, -1, item, index)
    more = _between(document, first - back, within - back, first, item, index)
    tokens, letters, telling = tokens + more[0], letters + more[1], telling + more[2]
    first, within, end, stop = first - back, within - back, end + forward, stop + forward
    return first, end, within, min(stop, length), tokens, letters, telling


@kernel
def _growth(document: Hashes, place: int, within: int, step: int, item: int, index: Tables) -> int:
    """Return by how many tokens a match grows past an unequal token, in one direction.

    It grows as long as equal tokens outweigh unequal ones, and to the end of the item also where
    they balance.
    """
    base = index.item_starts[item]
    length = index.item_starts[item + 1] - base
    score, best, grown, steps = 0, 0, 0, 0
    while 0 <= place < len(document) and 0 <= within < length and score > best - _DROP:
        steps += 1
        if document[place] == index.tokens[base + within]:
            score += 1
            edge = within == 0 or within == length - 1
            if score > best or (edge and score == best):
                best, grown = score, steps
        else:
            score -= 1
        place += step
        within += step
    return grown

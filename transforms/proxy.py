"""A proxy of training: what a document does to the loss of an n-gram model on a target text.

The model is an interpolated trigram model over word tokens (:mod:`transforms.shingles`), each order
smoothed by the next lower one with a Dirichlet prior (MacKay and Peto, "A hierarchical Dirichlet
language model", Natural Language Engineering 1, 1995, section 3)::

    p(w | h) = (c(h w) + s p(w | h')) / (c(h) + s)

which is Jelinek-Mercer interpolation whose weight grows with the count of the history. Below the
single tokens stands a uniform distribution over 2^20 words. Only counts of the target's own n-grams
and histories are needed, so that a document is added, measured and taken back by counting those it
shares with the target.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.shingles import Hashes, Offsets

Counts = npt.NDArray[np.int64]

STRENGTH = (1024.0, 32.0, 8.0)
"""Prior counts of the next lower order, for single tokens, pairs and triples."""
WORDS = float(1 << 20)
"""Words among which the lowest order does not tell."""

_KINDS = 5
_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX_A, _MIX_B = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


@dataclass(frozen=True, slots=True)
class Target:
    """The n-grams of a target text, and the predictions that it asks for."""

    keys: Hashes
    """Hashes of its n-grams and histories, ascending, shape [s]."""
    table: Counts
    """Open addressing over the keys: place in ``keys`` or -1, shape [a power of two]."""
    events: npt.NDArray[np.int32]
    """Distinct predictions, shape [e, 5]: places of the token, the pair, its history, the triple,
    its history; -1 where a document begins too near."""
    times: npt.NDArray[np.float64]
    """How often each is asked for, shape [e]."""

    @property
    def tokens(self) -> float:
        """Number of the target's tokens."""
        return float(self.times.sum())


def target_of(offsets: Offsets, tokens: Hashes) -> Target:
    """Prepare a target text.

    Args:
        offsets: [n + 1] where each of its documents begins, and the last one ends.
        tokens: hashes of the tokens.
    """
    asked = np.empty((len(tokens), _KINDS), np.uint64)
    there = np.empty((len(tokens), _KINDS), np.bool_)
    _fill_keys(offsets, tokens, asked, there)
    keys = np.unique(asked[there])
    places = np.where(there, np.searchsorted(keys, asked), -1).astype(np.int32)
    events, times = np.unique(places, axis=0, return_counts=True)
    bits = max(4, int(2 * len(keys)).bit_length())
    table = np.full(1 << bits, -1, np.int64)
    _fill_table(keys, table)
    return Target(keys, table, events.reshape(-1, _KINDS), times.astype(np.float64))


def count(target: Target, offsets: Offsets, tokens: Hashes) -> tuple[Counts, int]:
    """Count the target's n-grams in documents.

    Returns:
        [s] counts, and the number of all tokens.
    """
    counts = np.zeros(len(target.keys), np.int64)
    touched = np.empty(_KINDS * int(np.diff(offsets).max(initial=0)), np.int64)
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        _add(tokens, begin, end, target.keys, target.table, counts, touched)
    return counts, int(offsets[-1] - offsets[0])


def loss(target: Target, counts: Counts, total: int) -> float:
    """Return the bits that a model of these counts needs for the whole target."""
    return float(_loss(target.events, target.times, counts, total))


def utilities(
    target: Target, counts: Counts, total: int, offsets: Offsets, tokens: Hashes
) -> npt.NDArray[np.float64]:
    """Say how many bits of the target each token of a document saves, if the model had seen it.

    Args:
        target: the target.
        counts: [s] counts of the reference model; as before when this returns.
        total: tokens that the reference model has seen.
        offsets: [n + 1] where each document begins, and the last one ends.
        tokens: hashes of the tokens.

    Returns:
        [n] (loss before - loss after) / tokens of the document; 0 for one without tokens.
    """
    saved = np.zeros(len(offsets) - 1)
    touched = np.empty(_KINDS * int(np.diff(offsets).max(initial=0)), np.int64)
    _utilities(
        target.events,
        target.times,
        target.keys,
        target.table,
        counts,
        total,
        offsets,
        tokens,
        touched,
        saved,
    )
    return saved


@kernel
def _key(
    kind: int, first: np.uint64, second: np.uint64, third: np.uint64
) -> np.uint64:  # pragma: no cover
    state = (first ^ np.uint64(kind + 1)) * _MIX_A
    state = ((state ^ (state >> np.uint64(33))) + second) * _MIX_B
    state = ((state ^ (state >> np.uint64(29))) + third) * _ODD
    state = (state ^ (state >> np.uint64(32))) * _MIX_A
    return state ^ (state >> np.uint64(33))


@kernel
def _keys_at(
    tokens: Hashes, begin: int, end: int, place: int, out: Hashes, there: npt.NDArray[np.bool_]
) -> None:
    """Write what one position counts: its token, pair and triple, and each as a history."""
    none = np.uint64(0)
    w = tokens[place]
    there[0] = True
    out[0] = _key(0, w, none, none)
    there[1] = there[2] = place > begin
    there[3] = there[4] = place > begin + 1
    if place > begin:
        v = tokens[place - 1]
        out[1] = _key(1, v, w, none)
        out[2] = _key(2, v, none, none)
        if place > begin + 1:
            u = tokens[place - 2]
            out[3] = _key(3, u, v, w)
            out[4] = _key(4, u, v, none)


@kernel
def _fill_keys(
    offsets: Offsets, tokens: Hashes, asked: Hashes, there: npt.NDArray[np.bool_]
) -> None:
    """Write the keys of all positions of all documents."""
    for d in range(len(offsets) - 1):
        for place in range(offsets[d], offsets[d + 1]):
            _keys_at(tokens, offsets[d], offsets[d + 1], place, asked[place], there[place])


@kernel
def _fill_table(keys: Hashes, table: Counts) -> None:
    """Enter the keys into an empty table."""
    mask = np.uint64(len(table) - 1)
    for place in range(len(keys)):
        slot = np.int64(keys[place] & mask)
        while table[slot] >= 0:
            slot = np.int64(np.uint64(slot + 1) & mask)
        table[slot] = place


@kernel
def _add(
    tokens: Hashes,
    begin: int,
    end: int,
    keys: Hashes,
    table: Counts,
    counts: Counts,
    touched: Counts,
) -> int:
    """Count what a document shares with the target; write the places, return how many."""
    mask = np.uint64(len(table) - 1)
    key = np.empty(_KINDS, np.uint64)
    there = np.empty(_KINDS, np.bool_)
    found = 0
    for place in range(begin, end):
        _keys_at(tokens, begin, end, place, key, there)
        for kind in range(_KINDS):
            if not there[kind]:
                continue
            slot = np.int64(key[kind] & mask)
            while table[slot] >= 0 and keys[table[slot]] != key[kind]:
                slot = np.int64(np.uint64(slot + 1) & mask)
            if table[slot] >= 0:
                counts[table[slot]] += 1
                touched[found] = table[slot]
                found += 1
    return found


@kernel
def _loss(
    events: npt.NDArray[np.int32], times: npt.NDArray[np.float64], counts: Counts, total: int
) -> float:
    """Return the bits of all predictions, added up in their order."""
    bits = 0.0
    for e in range(len(events)):
        p = (counts[events[e, 0]] + STRENGTH[0] / WORDS) / (total + STRENGTH[0])
        if events[e, 1] >= 0:
            p = (counts[events[e, 1]] + STRENGTH[1] * p) / (counts[events[e, 2]] + STRENGTH[1])
        if events[e, 3] >= 0:
            p = (counts[events[e, 3]] + STRENGTH[2] * p) / (counts[events[e, 4]] + STRENGTH[2])
        bits -= times[e] * np.log2(p)
    return bits


@kernel
def _utilities(
    events: npt.NDArray[np.int32],
    times: npt.NDArray[np.float64],
    keys: Hashes,
    table: Counts,
    counts: Counts,
    total: int,
    offsets: Offsets,
    tokens: Hashes,
    touched: Counts,
    saved: npt.NDArray[np.float64],
) -> None:
    """Add each document, measure, and take it back."""
    before = _loss(events, times, counts, total)
    for d in range(len(offsets) - 1):
        size = offsets[d + 1] - offsets[d]
        if size == 0:
            continue
        found = _add(tokens, offsets[d], offsets[d + 1], keys, table, counts, touched)
        saved[d] = (before - _loss(events, times, counts, total + size)) / size
        for k in range(found):
            counts[touched[k]] -= 1

"""A vocabulary as arrays: characters, bytes, merges, and what may stand on both sides of a merge."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from transforms.tokenize.merges import last_merges, pair_table, slot_of

CODE_POINTS = 0x110000
NO_SYMBOL = -1
SINGLE_BYTES, IDS, UNKNOWN, LONGEST_USER = range(4)
"""Indices of Vocabulary.facts."""


class Vocabulary(NamedTuple):
    """What the kernels see of a vocabulary.

    Attributes:
        facts: int64 [4]: whether symbols are single bytes; number of ids (higher symbols are
            characters that only occur inside tokens); id of unknown characters, -1 where they are
            spelled in bytes; bytes of the longest user-defined symbol of several characters.
        characters: int32 [0x110000], symbol of each code point, -1 for none; empty for bytes.
        byte_ids: int32 [256].
        pairs: int64 [slots, 2], the merges (:func:`transforms.tokenize.merges.pair_table`).
        user_steps: int64 [slots, 2], a trie of user-defined symbols: ``node << 21 | code point`` to
            node, -1 where empty.
        user_ids: int32 [nodes], id of the symbol that ends at a node, else -1.
    """

    facts: npt.NDArray[np.int64]
    characters: npt.NDArray[np.int32]
    byte_ids: npt.NDArray[np.int32]
    pairs: npt.NDArray[np.int64]
    user_steps: npt.NDArray[np.int64]
    user_ids: npt.NDArray[np.int32]


class Merges(NamedTuple):
    """The merges that can happen, one for each token that its own text gives.

    Attributes:
        left: int64 [merges].
        right: int64 [merges].
        rank: int64 [merges].
        merged: int64 [merges].
    """

    left: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]
    rank: npt.NDArray[np.int64]
    merged: npt.NDArray[np.int64]


def possible_merges(
    merges: Merges,
    symbols: npt.NDArray[np.int32],
    lengths: npt.NDArray[np.int64],
    tokens: npt.NDArray[np.int32],
) -> Merges:
    """Keep the merges that can happen: the last one of each token's own text.

    Args:
        merges: every pair that the tokenizer would merge.
        symbols: int32, the characters (or bytes) of all tokens, joined.
        lengths: int64 [tokens], symbols of each token.
        tokens: int32 [tokens], symbol of each token.
    """
    table = pair_table(*merges)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    last = last_merges(table, offsets, symbols, tokens)
    reached = last[last[:, 0] >= 0]
    kept = np.isin(merges.left << 32 | merges.right, reached[:, 0] << 32 | reached[:, 1])
    return Merges(*(column[kept] for column in merges))


def hash_map(entries: Mapping[int, int]) -> npt.NDArray[np.int64]:
    """Return an open-addressing table int64 [slots, 2] of keys (-1 where empty) and values."""
    slots = 1 << max(4, (2 * len(entries)).bit_length())
    table = np.full((slots, 2), -1, dtype=np.int64)
    for key, value in entries.items():
        slot = slot_of(key, slots)
        while table[slot, 0] != -1:
            slot = (slot + 1) & (slots - 1)
        table[slot] = (key, value)
    return table


def user_trie(symbols: Mapping[str, int]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return the trie of user-defined symbols as Vocabulary's user_steps and user_ids."""
    steps: dict[int, int] = {}
    ids = [NO_SYMBOL]
    for text, number in symbols.items():
        node = 0
        for character in text:
            key = node << 21 | ord(character)
            if key not in steps:
                steps[key] = len(ids)
                ids.append(NO_SYMBOL)
            node = steps[key]
        ids[node] = number
    return hash_map(steps), np.array(ids, dtype=np.int32)

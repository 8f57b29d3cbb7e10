"""What is known of words and of sequences of ideographs: kinds from the lists, and learnt weights.

The learnt weights are read from ``sentence_lexicon.txt``, which ``scripts/fit_sentence_quality.py``
writes: one line per word, pair of words (``click here``), beginning of a word (``subsc*``) or
sequence of one to three ideographs, with a hundredth of what it adds to the score; ``^`` marks the
first one of a sentence, ``0`` stands for words with digits and of dates. Negative ones speak for the
frame of a page.
"""

import functools
import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.sentence_forms import code_hash
from transforms.sentence_words import (
    CHINESE_COUNTERS,
    CHINESE_FUNCTION,
    CHINESE_READER,
    CHINESE_STRONG,
    CHINESE_VERBS,
    CHINESE_WEAK,
    COMMAND_WORDS,
    COUNTER_WORDS,
    DATE_WORDS,
    FUNCTION_WORDS,
    HEADING_PHRASES,
    HEADING_WORDS,
    READER_WORDS,
    STRONG_PHRASES,
    STRONG_WORDS,
    VERB_CUES,
    WEAK_WORDS,
    phrases,
)
from transforms.shingles import Hashes

Kinds = npt.NDArray[np.uint16]
Learnt = npt.NDArray[np.int16]

_FUNCTION, _VERB, _STRONG, _WEAK, _PAIR, _DATE, _READER, _ADDRESS = (1 << k for k in range(8))
_COMMAND, _COUNTER, _HEADING = (1 << k for k in range(8, 11))
_BITS = 18
"""Of a hash that say, in a table of 32 KiB, that the lexicon does not have it."""
_PATH = Path(__file__).with_name("sentence_lexicon.txt")


@functools.cache
def learnt_weights() -> dict[str, int]:
    """Return the learnt weights, in hundredths."""
    weights = {}
    for line in _PATH.read_text(encoding="utf-8").splitlines():
        weight, _, gram = line.partition("\t")
        weights[gram] = int(weight)
    return weights


@functools.cache
def lexicon_digest() -> str:
    """Return the hash of the learnt weights' file."""
    return hashlib.sha256(_PATH.read_bytes()).hexdigest()


@functools.cache
def lexicon() -> tuple[Hashes, Hashes, Kinds, Learnt]:
    """Return a hash table of all words and sequences.

    Returns:
        Bits of the hashes that are in it, keys (0 where free), flags, and learnt weights.
    """
    kinds: dict[int, int] = {}
    for words, flag in (
        (FUNCTION_WORDS, _FUNCTION),
        (VERB_CUES, _VERB),
        (STRONG_WORDS, _STRONG),
        (WEAK_WORDS, _WEAK),
        (phrases(STRONG_PHRASES), _PAIR),
        (DATE_WORDS, _DATE),
        (phrases(CHINESE_STRONG), _STRONG),
        (phrases(CHINESE_WEAK), _WEAK),
        (list(CHINESE_FUNCTION), _FUNCTION),
        (list(CHINESE_VERBS), _VERB),
        (READER_WORDS, _READER),
        (phrases(CHINESE_READER), _READER),
        (("http", "https", "www", "com"), _ADDRESS),
        (COMMAND_WORDS, _COMMAND),
        (COUNTER_WORDS, _COUNTER),
        (list(CHINESE_COUNTERS), _COUNTER),
        ([*HEADING_WORDS, *phrases(HEADING_PHRASES)], _HEADING),
    ):
        for word in words:
            key = code_hash(word)
            kinds[key] = kinds.get(key, 0) | flag
    learnt = {code_hash(gram): weight for gram, weight in learnt_weights().items()}
    known = sorted({*kinds, *learnt})
    size = 1 << (2 * len(known)).bit_length()
    keys = np.zeros(size, np.uint64)
    flags, weights = np.zeros(size, np.uint16), np.zeros(size, np.int16)
    bits = np.zeros(1 << (_BITS - 6), np.uint64)
    for key in known:
        bit = key >> 64 - _BITS
        bits[bit >> 6] |= np.uint64(1 << (bit & 63))
        place = key >> 20 & size - 1
        while keys[place]:
            place = (place + 1) % size
        keys[place], flags[place], weights[place] = key, kinds.get(key, 0), learnt.get(key, 0)
    # Where a word that is not known is found: no kind, no weight.
    return bits, keys, np.append(flags, np.uint16(0)), np.append(weights, np.int16(0))


@kernel
def find(bits: Hashes, keys: Hashes, value: np.uint64) -> int:
    """Return the place of a hash in the table, or the last one."""
    bit = int(value >> np.uint64(64 - _BITS))
    if not (bits[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1):
        return len(keys)
    mask = len(keys) - 1
    place = int(value >> np.uint64(20)) & mask
    while keys[place] != np.uint64(0):
        if keys[place] == value:
            return place
        place = (place + 1) & mask
    return len(keys)

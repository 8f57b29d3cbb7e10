"""Proving the split rules: the same pre-tokens as the library's for every sequence of classes."""

import itertools
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tiktoken

from transforms.tokenize.arrow_text import text_buffers
from transforms.tokenize.byte_level import byte_vocabulary, encode_by_splits
from transforms.tokenize.code_points import Agreement, Bools, code_point_classes, probe
from transforms.tokenize.encoder import Encoded
from transforms.tokenize.library import encode_in_batches
from transforms.tokenize.patterns import SplitRules
from transforms.tokenize.proof import ADVERSARIAL
from transforms.tokenize.span_encoder import SpanEncoder
from transforms.tokenize.splits import Splitter, pre_token_ends
from transforms.tokenize.vocabulary import Merges

CHARACTERS = "asSTrevlmdLx1٣Ⅷ½ÉéǅʰſK中あ한\u0301\u0903\u20dd \t\n\r\v\x85\xa0\u2028\u3000'!/_-“😀\0\x7f\u200d\ufeff"
"""Characters of every class that a pattern tells apart."""
TRIPLES = "aSsÉʰ中\u03011 \n\t\u3000'!/"
RANDOM_TEXTS = 800
TRIPLES_TOGETHER = 256
_PROBE_CACHE_BYTES = 8 << 20


def rule_texts() -> list[str]:
    """Return texts that try each sequence of three classes, and longer ones at random."""
    random = np.random.default_rng(1)
    triples = ["".join(triple) for triple in itertools.product(TRIPLES, repeat=3)]
    random.shuffle(triples)
    texts = [
        "".join(triples[start : start + TRIPLES_TOGETHER])
        for start in range(0, len(triples), TRIPLES_TOGETHER)
    ]
    for _ in range(RANDOM_TEXTS):
        chosen = random.integers(0, len(CHARACTERS), random.integers(1, 16))
        texts.append("".join(CHARACTERS[i] for i in chosen))
    return [*texts, *ADVERSARIAL, *(probe(chr(point)) for point in range(128))]


def plain_splitter(rules: SplitRules) -> Splitter:
    """Return a splitter that makes no cut inside a pre-token."""
    return Splitter(
        rules=rules.as_array(),
        classes=code_point_classes(),
        joins=np.full(16, -1, dtype=np.int64),
        lefts=np.empty(0, dtype=np.int32),
        rights=np.empty(0, dtype=np.int32),
        parts=np.ones((1, 1), dtype=np.uint8),
        whole=np.empty(0, dtype=np.int64),
    )


def agreement_by_ends(rules: SplitRules, library_ends: Callable[[str], list[int]]) -> Agreement:
    """Return the comparison with a library that tells where its pre-tokens end.

    Args:
        rules: the rules that the kernels follow.
        library_ends: the ends of a text's pre-tokens, counted in characters.
    """
    splitter = plain_splitter(rules)

    def agree(texts: Sequence[str]) -> Bools:
        data, offsets = text_buffers(pa.array(texts, pa.large_string()))
        ends = np.empty(len(data) + 1, dtype=np.int64)
        count = pre_token_ends(splitter, data, offsets, ends)
        is_end = np.zeros(len(data) + 1, dtype=np.bool_)
        is_end[ends[:count]] = True
        agreed = np.zeros(len(texts), dtype=np.bool_)
        for i, text in enumerate(texts):
            starts = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
            widths = 1 + (starts >= 0x80) + (starts >= 0x800) + (starts >= 0x10000)
            found = is_end[offsets[i] + np.cumsum(widths)]
            agreed[i] = (np.flatnonzero(found) + 1).tolist() == library_ends(text)
        return agreed

    return agree


def agreement_by_ids(rules: SplitRules, pattern: str) -> Agreement:
    """Return the comparison with tiktoken, which does not tell its pre-tokens.

    A vocabulary of pairs of bytes makes them visible: a character and its neighbour give one token
    exactly where they stand in one pre-token.
    """
    tokens, merges = _pair_vocabulary()
    encoding = tiktoken.Encoding(
        "pairs", pat_str=pattern, mergeable_ranks=tokens, special_tokens={}
    )
    vocabulary, _, _ = byte_vocabulary(tokens, merges)
    splitter = plain_splitter(rules)
    spans = SpanEncoder(
        lambda *arguments: bool(encode_by_splits(splitter, vocabulary, *arguments)),
        _PROBE_CACHE_BYTES,
        ids_per_byte=1,
    )

    def agree(texts: Sequence[str]) -> Bools:
        column = pa.array(texts, pa.large_string())
        expected = encode_in_batches(
            column, lambda batch: [encoding.encode_ordinary(text) for text in batch]
        )
        return same_documents(spans.encode(*text_buffers(column)), expected)

    return agree


def same_documents(found: Encoded, expected: Encoded) -> Bools:
    """Return for each document whether the ids are equal."""
    bounds = zip(
        *(pairwise(offsets.tolist()) for offsets in (found.offsets, expected.offsets)), strict=True
    )
    same = [np.array_equal(found.ids[a:b], expected.ids[c:d]) for (a, b), (c, d) in bounds]
    return np.array(same, dtype=np.bool_)


def _pair_vocabulary() -> tuple[dict[bytes, int], Merges]:
    """Return the bytes, and the pairs of bytes from the ends of two characters that may meet.

    Pairs of ASCII come last, so that the neighbours of other characters are visible first.
    """
    ends = [*range(0x80), *range(0x80, 0xC0)]
    begins = [*range(0x80), *range(0xC2, 0xF5)]
    pairs = [(a, b) for a in ends for b in begins]
    order = np.random.default_rng(2).permutation(len(pairs)).tolist()
    order.sort(key=lambda i: pairs[i][0] < 0x80 and pairs[i][1] < 0x80)
    tokens = {bytes([byte]): byte for byte in range(256)}
    tokens |= {bytes(pairs[i]): 256 + rank for rank, i in enumerate(order)}
    numbers: npt.NDArray[np.int64] = np.arange(256, 256 + len(pairs))
    chosen = np.array([pairs[i] for i in order], dtype=np.int64)
    return tokens, Merges(chosen[:, 0].copy(), chosen[:, 1].copy(), numbers, numbers)

"""Byte-pair merging, windows and the span cache, against plain Python."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.tokenize.merges import (
    NO_MERGE,
    find_pair,
    last_merges,
    merge_long,
    merge_short,
    pair_table,
)
from transforms.tokenize.span_cache import (
    BYTES,
    MAX_SPAN_BYTES,
    SPANS,
    SpanCache,
    copy_ids,
    find_short_span,
    find_span,
    keep_span,
    span_key,
)
from transforms.tokenize.spans import encode_long_span
from transforms.tokenize.vocabulary import Merges, Vocabulary, hash_map, possible_merges

Table = dict[tuple[int, int], tuple[int, int]]


def merged_by_hand(table: Table, symbols: list[int]) -> list[int]:
    """Join the leftmost pair of lowest rank until none is left."""
    symbols = list(symbols)
    while True:
        pairs = [
            (table[pair][0], i, table[pair][1])
            for i, pair in enumerate(pairwise(symbols))
            if pair in table
        ]
        if not pairs:
            return symbols
        _, place, joined = min(pairs)
        symbols[place : place + 2] = [joined]


@st.composite
def vocabularies(draw: st.DrawFn) -> tuple[list[bytes], Table]:
    """Tokens over the bytes a, b, c, and every pair of tokens whose joined text is a token."""
    texts = draw(st.lists(st.binary(min_size=2, max_size=6), max_size=20, unique=True))
    texts = [bytes(b"abc"[byte % 3] for byte in text) for text in texts]
    tokens = [b"a", b"b", b"c", *dict.fromkeys(texts)]
    number = {token: i for i, token in enumerate(tokens)}
    ranks = draw(st.permutations(range(len(tokens))))
    table: Table = {}
    for joined in tokens[3:]:
        for k in range(1, len(joined)):
            if joined[:k] in number and joined[k:] in number:
                pair = (number[joined[:k]], number[joined[k:]])
                table[pair] = (ranks[number[joined]], number[joined])
    return tokens, table


def as_merges(table: Table) -> Merges:
    rows = [(left, right, rank, joined) for (left, right), (rank, joined) in table.items()]
    return Merges(*np.array(rows, dtype=np.int64).reshape(-1, 4).T.copy())


def merged(kernel: object, pairs: np.ndarray, symbols: list[int]) -> tuple[list[int], list[int]]:
    found = np.array(symbols, dtype=np.int32)
    starts = np.arange(len(symbols) + 1)
    count = kernel(pairs, found, starts, np.empty(len(symbols), np.int64), len(symbols))  # type: ignore[operator]
    return found[:count].tolist(), starts[:count].tolist()


@given(vocabularies(), st.lists(st.integers(-1, 2), max_size=60))
@settings(max_examples=80, deadline=None)
def test_merging_is_the_plain_algorithm(
    vocabulary: tuple[list[bytes], Table], symbols: list[int]
) -> None:
    """Both kernels join as the plain loop does, with all pairs and with the possible ones only."""
    tokens, table = vocabulary
    expected = merged_by_hand(table, symbols)
    merges = as_merges(table)
    spelled = np.frombuffer(b"".join(tokens[3:]), dtype=np.uint8).astype(np.int32) - ord("a")
    lengths = np.array([len(token) for token in tokens[3:]], dtype=np.int64)
    numbers = np.arange(3, len(tokens), dtype=np.int32)
    possible = possible_merges(merges, spelled, lengths, numbers)
    assert len(possible.left) <= len(tokens) - 3
    for used in (merges, possible):
        pairs = pair_table(*used)
        for kernel in (merge_short, merge_long):
            ids, starts = merged(kernel, pairs, symbols)
            assert ids == expected
            lengths = [len(tokens[i]) if i >= 0 else 1 for i in ids]
            assert starts == np.cumsum([0, *lengths])[: len(ids)].tolist()


def test_pairs_that_never_merge() -> None:
    """A pair outside the table, and any pair with an unknown character, has the value NO_MERGE."""
    pairs = pair_table(*as_merges({(1, 2): (7, 3)}))
    assert find_pair(pairs, 1, 2) == 7 << 32 | 3
    assert [find_pair(pairs, *pair) for pair in ((2, 1), (-1, 2), (1, -1))] == [NO_MERGE] * 3


def test_last_merges_of_tokens_that_cannot_arise() -> None:
    """A token whose own text merges to something else has no last merge."""
    # "abc": a+b is merged before b+c, so "abc" arises from ab+c; "bca" never does.
    table = {(0, 1): (0, 3), (3, 2): (1, 4), (1, 2): (2, 5), (2, 0): (1, 6), (5, 0): (3, 7)}
    texts = [[0, 1], [0, 1, 2], [1, 2], [2, 0], [1, 2, 0]]
    flat = np.array([symbol for text in texts for symbol in text], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, texts)])
    pairs = pair_table(*as_merges(table))
    found = last_merges(pairs, offsets, flat, np.array([3, 4, 5, 6, 7], dtype=np.int32))
    assert found.tolist() == [[0, 1], [3, 2], [1, 2], [2, 0], [-1, -1]]


@given(
    vocabularies(),
    st.lists(st.integers(0, 2), min_size=1, max_size=12),
    st.integers(1, 40),
    st.sampled_from([(8, 2), (16, 4), (40, 8)]),
)
@settings(max_examples=60, deadline=None)
def test_windows_join_to_the_whole(
    vocabulary: tuple[list[bytes], Table],
    symbols: list[int],
    repeats: int,
    sizes: tuple[int, int],
) -> None:
    """A long span encoded in windows has the ids of merging it at once, whatever the windows."""
    _, table = vocabulary
    text = bytes(b"abc"[symbol] for symbol in symbols * repeats)
    byte_ids = np.full(256, -1, dtype=np.int32)
    byte_ids[list(b"abc")] = [0, 1, 2]
    arrays = Vocabulary(
        facts=np.array([True, 1000, -1, 0], dtype=np.int64),
        characters=np.empty(0, dtype=np.int32),
        byte_ids=byte_ids,
        pairs=pair_table(*as_merges(table)),
        user_steps=hash_map({}),
        user_ids=np.empty(0, dtype=np.int32),
    )
    out = np.empty(len(text) + 4, dtype=np.int32)
    data = np.frombuffer(text, dtype=np.uint8)
    count = encode_long_span(arrays, data, 0, len(text), out, 0, *sizes)
    assert out[:count].tolist() == merged_by_hand(table, symbols * repeats)


def key_of(data: np.ndarray, start: int, stop: int) -> tuple[np.uint64, np.uint64]:
    """The key with its words unsigned again: compiled kernels hand Python plain integers."""
    low, high = span_key(data, start, stop)
    return np.uint64(low), np.uint64(high)


@given(st.lists(st.binary(min_size=1, max_size=MAX_SPAN_BYTES), max_size=200), st.integers(0, 300))
@settings(max_examples=30, deadline=None)
def test_the_cache_is_a_dictionary(spans: list[bytes], many: int) -> None:
    """Every kept span is found again with its ids, before and after growing, and no other."""
    cache = SpanCache(1 << 22)
    spans = [*spans, *(b"%d-%d" % (i, i * i) for i in range(many)), b"\0", b"\0\0", b"x" * 17]
    kept: dict[bytes, list[int]] = {}
    for k, span in enumerate(spans):
        data = np.frombuffer(span, dtype=np.uint8)
        low, high = key_of(data, 0, len(span))
        slot = find_span(cache.arrays, data, 0, len(span), low, high)
        assert (slot >= 0) == (span in kept)
        if slot < 0:
            ids = np.arange(k, k + 1 + k % 6, dtype=np.int32)
            args = (cache.arrays, -1 - slot, data, 0, len(span), low, high, ids, 0, len(ids))
            assert keep_span(*args)
            kept[span] = ids.tolist()
    cache.grow()
    assert cache.arrays.counts[SPANS] == len(kept)
    out = np.empty(16, dtype=np.int32)
    for span, ids in kept.items():
        data = np.frombuffer(b"_" + span + bytes(16), dtype=np.uint8)
        end = 1 + len(span)
        slot = find_span(cache.arrays, data, 1, end, *key_of(data, 1, end))
        count = copy_ids(cache.arrays.slots, cache.arrays.ids, np.uint64(slot), out, 0)
        assert out[:count].tolist() == ids
        if len(span) <= 16:
            assert int(find_short_span(cache.arrays.slots, data, 1, end)) == slot


@pytest.mark.parametrize("length", [3, 40])
def test_a_full_cache_takes_no_more(length: int) -> None:
    """At its limit the cache stops growing and stays within its bound."""
    cache = SpanCache(3 << 20)
    full = 0
    for i in range(40_000):
        span = b"%0*d" % (max(length, 7), i)
        data = np.frombuffer(span, dtype=np.uint8)
        low, high = key_of(data, 0, len(span))
        slot = find_span(cache.arrays, data, 0, len(span), low, high)
        ids = np.array([i], dtype=np.int32)
        if not keep_span(cache.arrays, -1 - slot, data, 0, len(span), low, high, ids, 0, 1):
            full += 1
            cache.grow()
            if full > 10:
                break
    assert full > 10
    assert not cache.can_grow
    assert cache.nbytes <= 3 << 20
    assert cache.arrays.counts[BYTES] <= len(cache.arrays.text)

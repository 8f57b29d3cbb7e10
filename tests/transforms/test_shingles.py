"""Shingle sets against a slow reference: unicodedata, Python strings and plain sets."""

import random
import re
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms import shingles
from transforms.shingles import INVISIBLE, UNSPACED_SCRIPTS, shingle_sets, text_blocks


def kind_of(character):
    """separator, word, single or invisible, as the module's docstring defines them."""
    code, category = ord(character), unicodedata.category(character)
    if any(low <= code < high for low, high in INVISIBLE):
        return "invisible"
    if category == "Cf" and code != 0x200B:
        return "invisible"
    unspaced = any(low <= code < high for low, high in UNSPACED_SCRIPTS)
    if category[0] in "LMN" or category == "Pc" or 0x20000 <= code < 0x40000:
        return "single" if unspaced else "word"
    return "separator"


def tokens_of(text):
    """The published definition of tokens, one character at a time."""
    tokens, run = [], ""
    for character in text:
        kind = kind_of(character)
        if kind == "invisible":
            continue
        if kind == "word":
            run += character.casefold()
            continue
        if run:
            tokens.append(run)
            run = ""
        if kind == "single":
            tokens.append(character.casefold())
    return [*tokens, run] if run else tokens


def shingles_of(text, n):
    """The set of n-grams; of a shorter text the whole sequence."""
    tokens = tokens_of(text)
    if len(tokens) < n:
        return {("short", *tokens)} if tokens else set()
    return {tuple(tokens[k : k + n]) for k in range(len(tokens) - n + 1)}


def as_sets(texts, n):
    sets = shingle_sets(pa.array(texts, pa.string()), n)
    return [
        set(sets.values[a:b].tolist())
        for a, b in zip(sets.offsets[:-1], sets.offsets[1:], strict=True)
    ]


alphabet = st.one_of(
    st.sampled_from("ab Aß, .\n\0_é中文かなแลກខမ\u200b\u200d\ufe0f\u00ad\u0301İΣςﬃ🪨Ⅳ½ー々"),
    st.characters(codec="utf-8"),
)
texts = st.lists(st.text(alphabet, max_size=30), max_size=6)


@given(texts, st.integers(1, 4), st.integers(0, 2))
def test_sets_are_equal_exactly_where_the_reference_says(values, n, skip):
    """Same sizes and same intersections as plain sets of token tuples, also in a sliced array."""
    sets = shingle_sets(pa.array(values, pa.string()).slice(skip), n)
    found = [sets.values[a:b] for a, b in zip(sets.offsets[:-1], sets.offsets[1:], strict=True)]
    want = [shingles_of(value, n) for value in values[skip:]]
    for mine, theirs in zip(found, want, strict=True):
        assert len(mine) == len(theirs)
        assert (np.diff(mine.astype(object)) > 0).all()
    for k, mine in enumerate(found):
        for other in range(k):
            both = len(np.intersect1d(mine, found[other]))
            assert both == len(want[k] & want[other])


def test_every_character_is_what_the_definition_says():
    """The table agrees with unicodedata for every character, and folding changes no kind."""
    table, expansions = shingles.token_table()
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000 or 0x30000 < code < 0xDFFF0 or code > 0xE1000:
            continue
        character = chr(code)
        kind, entry = kind_of(character), shingles.character_entry.py_func(code, table)
        folded = [ord(c) for c in character.casefold()]
        if kind == "separator":
            assert entry == 0, hex(code)
        elif kind == "invisible":
            assert entry == shingles.SKIP, hex(code)
        elif entry & shingles.LONG:
            parts = expansions[entry & shingles.CODE]
            assert [p for p in parts if p >= 0] == folded
        else:
            assert [entry & shingles.CODE] == folded
            assert bool(entry & shingles.SINGLE) == (kind == "single"), hex(code)
        if kind != "invisible":
            assert {kind_of(c) for c in character.casefold()} == {kind}, hex(code)


def test_case_punctuation_and_invisible_characters_do_not_count():
    """Case folding is full, and words are told apart by what separates them."""
    pairs = [
        ("Straße", "STRASSE"),
        ("Hello,  world!\n", "hello world"),
        ("soft\u00adhyphen ❤\ufe0f", "softhyphen ❤"),
        ("snake_case", "SNAKE_CASE"),
        ("中文，字", "中文字"),
    ]
    for one, other in pairs:
        assert as_sets([one], 3) == as_sets([other], 3)
    assert tokens_of("中文abc字") == ["中", "文", "abc", "字"]
    assert as_sets(["a b"], 2) != as_sets(["ab"], 2) != as_sets(["a\u200bb"], 2)


@pytest.mark.parametrize("text", ["", " ", "\0\0", "?!…", "🪨🪨"])
def test_a_text_without_tokens_has_no_shingles(text):
    """Nothing to compare: the set is empty, not one that all such texts share."""
    assert as_sets([text, "a"], 5)[0] == set()


def test_short_texts_are_their_whole_sequence():
    """Fewer tokens than n: one shingle, which no n-gram and no other sequence equals."""
    one, two, three, longer = as_sets(["a", "a b", "b a", "a a a"], 3)
    assert len(one) == len(two) == len(three) == len(longer) == 1
    assert len(one | two | three | longer) == 4


def test_the_ascii_definition_is_that_of_word_characters():
    """For ASCII, tokens are the lower-cased runs of the regular expression's word characters."""
    rng = random.Random(3)
    text = "".join(chr(rng.randrange(128)) for _ in range(3000))
    assert tokens_of(text) == re.findall(r"\w+", text.lower())


@pytest.mark.parametrize("unit", ["ab ", "中文字", "x", " ", "a b "])
def test_one_long_line(unit):
    """Text beyond the bound of counted room: room for every token, and repeats collapse."""
    text = unit * (2 * shingles._LONG_TEXT // len(unit.encode()))
    assert len(as_sets([text, "q"], 5)[0]) == len(shingles_of(text[:300], 5))


def test_blocks_cover_all_texts():
    """Blocks are consecutive, not empty, and no larger than asked but for one long text."""
    values = pa.array(["", "x" * 10, "", "y" * 100, "z", "", ""]).slice(1)
    chunked = pa.chunked_array([values, pa.array([], pa.string()), values.slice(3)])
    found = [block.to_pylist() for block in text_blocks(chunked, 20)]
    assert [text for block in found for text in block] == chunked.to_pylist()
    assert all(block and (sum(map(len, block)) <= 20 or len(block) == 1) for block in found)


def test_sets_of_random_words():
    """Thousands of words: sizes and intersections as Python's sets have them."""
    rng = random.Random(5)
    words = [f"w{k}" for k in range(40)]
    values = [" ".join(rng.choices(words, k=rng.randint(1, 900))) for _ in range(12)]
    found, want = as_sets(values, 2), [shingles_of(v, 2) for v in values]
    assert [len(s) for s in found] == [len(s) for s in want]
    assert len(found[0] & found[1]) == len(want[0] & want[1])

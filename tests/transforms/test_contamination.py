"""Evaluation items in documents: what is found, where, and what is not."""

import itertools
import random
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.contamination import (
    DecontaminateSettings,
    evaluation_items,
    find_contamination,
)
from transforms.shingles import shingle_sets
from transforms.token_places import placed_tokens

RECIPE = DecontaminateSettings(path=("unused",))
QUESTION = (
    "Janet's ducks lay 16 eggs per day. She eats three for breakfast every morning and bakes "
    "muffins for her friends every day with four. How much does she make at the market?"
)
CHINESE = "某市为方便居民出行，在三条主要街道新建了二十四个公共自行车站点，请问平均每条街道有几个？"
CODE = (
    "def has_close_elements(numbers, threshold):\n    for i, a in enumerate(numbers):\n        pass"
)
FILLER = "The wall runs along the ridge and ends beside a gate. "


def search(texts, items, answers=None, **changes):
    recipe = DecontaminateSettings(path=("unused",), **changes)
    built = evaluation_items(items, answers or [""] * len(items), recipe)
    return find_contamination(pa.chunked_array([pa.array(texts, pa.string())]), built)


def words_of(text):
    """The tokens of docs/near-duplicates.md by another way: (folded token, start, end)."""
    found = []
    for match in re.finditer(r"[一-鿿]|[^\W一-鿿]+", text):
        found.append((match[0].casefold(), match.start(), match.end()))
    return found


def letters(token):
    return 3 if "一" <= token <= "鿿" else min(len(token) + 1, 9)


def test_the_exact_item_is_found_at_its_characters():
    """The span of an item that stands unchanged is the item itself, in any script."""
    for item in (QUESTION, CHINESE, CODE):
        text = f"{FILLER}é墙🪨 \n{item}\n{FILLER}"
        [match] = search([FILLER, text], [item])
        assert text[match.start : match.end] == item
        assert (match.row, match.score, match.answer) == (1, 1.0, False)
        assert match.tokens == match.item_tokens == len(words_of(item))
        assert item[match.item_start : match.item_end] == item


def test_case_and_spaces_do_not_matter():
    """A re-cased and re-spaced item is found whole."""
    text = FILLER + re.sub(r" ", "  \n", QUESTION.upper()) + " " + FILLER
    [match] = search([text], [QUESTION])
    assert match.score == 1.0
    assert text[match.start :].startswith("JANET'S")
    assert text[: match.end].endswith("MARKET?")


@pytest.mark.parametrize("item", [QUESTION, CHINESE, CODE * 2])
def test_half_an_item_is_found(item):
    """The first and the last half of an item count, a piece of its middle does not."""
    half = len(item) // 2
    assert len(search([FILLER + item[:half] + " 。" + FILLER], [item])) == 1
    assert len(search([FILLER + "。 " + item[half:] + " " + FILLER], [item])) == 1
    quoted = item[len(item) // 4 : 3 * len(item) // 4]
    assert search([FILLER + "。 " + quoted + " " + FILLER], [item]) == []


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_an_item_with_replaced_words_is_found(seed):
    """One word in ten replaced leaves an item found, with its span; so do words put in or out."""
    rng = random.Random(seed)
    words = QUESTION.split(" ")
    places = rng.sample(range(4, len(words) - 5, 4), len(words) // 10)
    for place in places:
        words[place] = "stone"
    text = FILLER + " ".join(words) + " " + FILLER
    [match] = search([text], [QUESTION])
    assert (match.start, match.end) == (len(FILLER), len(FILLER) + len(" ".join(words)))
    assert match.tokens == match.item_tokens - len(places)
    for place in places:
        words[place] = rng.choice(["", "stone very much"])
    [match] = search([FILLER + " ".join(words) + " " + FILLER], [QUESTION])
    assert match.start >= len(FILLER)
    assert match.end <= len(FILLER) + len(" ".join(words))
    assert 0.6 <= match.score < 1


def test_a_chinese_item_with_replaced_characters_is_found():
    """Unspaced text is compared character by character."""
    text = "开头。" + CHINESE.replace("方便", "服务").replace("公共", "共享") + "结尾。"
    [match] = search([text], [CHINESE])
    assert text[match.start : match.end] == text[3:-3]


def test_every_copy_of_an_item_is_found():
    """A document may hold an item several times, and several items."""
    text = "\n".join([QUESTION, FILLER, QUESTION, CHINESE, QUESTION])
    matches = search([text], [CHINESE, QUESTION])
    assert [m.item for m in matches] == [1, 1, 0, 1]
    assert {text[m.start : m.end] for m in matches} == {QUESTION, CHINESE}


def test_short_items_match_whole_only():
    """An item of fewer tokens than the n-gram matches whole; one of hardly any letters never."""
    text = "They said: describe photosynthesis extensively, and went on."
    assert len(search([text], ["Describe photosynthesis extensively!"])) == 1
    assert search([text], ["Describe photosynthesis extensively today"]) == []
    assert search(["What is it? " * 9], ["What is it?"]) == []
    assert search(["", "?"], ["", "?!", QUESTION]) == []


def test_the_answer_belongs_to_the_match():
    """An answer behind its item is taken in; one that does not stand there is not."""
    answer = "Janet sells 16 - 3 - 4 = 9 duck eggs a day, which makes $18."
    text = f"{FILLER}{QUESTION}\nAnswer: {answer} {FILLER}"
    [match] = search([text], [QUESTION], [answer])
    assert match.answer
    assert text[match.start : match.end] == f"{QUESTION}\nAnswer: {answer}"
    [match] = search([f"{QUESTION} (C) then"], [QUESTION], ["C"])
    assert match.answer
    assert match.end == len(QUESTION) + 3
    [match] = search([f"{QUESTION} {FILLER}"], [QUESTION], ["C"])
    assert not match.answer
    assert match.end == len(QUESTION)


def test_phrases_that_many_items_share_tell_little():
    """What stands in hundreds of items is no evidence for one of them."""
    rng = random.Random(1)
    stem = "Write a python function to find the number of different"
    names = ["".join(rng.choices("abcdefghij", k=6)) for _ in range(1200)]
    items = [f"{stem} {' '.join(names[3 * k : 3 * k + 3])} in a list." for k in range(400)]
    assert search([f"{stem} things, she asked."], items) == []
    assert [m.item for m in search([FILLER + items[7]], items)] == [7]


@given(st.integers(0, 100_000))
@settings(max_examples=60, deadline=None)
def test_against_all_alignments(seed):
    """Every long equal run is found; every match holds what it says, by a search of all pairs."""
    rng = random.Random(seed)
    vocabulary = ["ab", "cde", "fghi", "jklmn", "opqrstuvw", "石", "墙", "田", "野", "x1", "_y"]
    items = [rng.choices(vocabulary, k=rng.randint(1, 40)) for _ in range(4)]
    document = rng.choices(vocabulary, k=60)
    source = rng.choice(items)
    low = rng.randrange(len(source))
    piece = source[low : rng.randint(low, len(source)) + 1]
    place = rng.randrange(60)
    document[place:place] = piece
    text, texts = " ".join(document), [" ".join(item) for item in items]
    matches = search([text], texts)
    tokens = words_of(text)
    for match in matches:
        inside = [t for t, start, end in tokens if match.start <= start and end <= match.end]
        item = [t for t, _, _ in words_of(texts[match.item])]
        assert match.item_tokens == len(item)
        assert common(inside, item) >= match.tokens
        assert match.tokens == len(item) or match.score * sum(map(letters, item)) >= 40
    for number, item in enumerate(items):
        for size in longest_runs([t for t, _, _ in tokens], item):
            first, length, where = size
            found = sum(map(letters, item[where : where + length]))
            share = found / sum(map(letters, item))
            missing = min(5, len(item) // 8)
            edge = where <= missing or where + length >= len(item) - missing
            if length >= 5 and found >= 40 and (share >= 0.7 or (share >= 0.4 and edge)):
                spans = [(m.start, m.end) for m in matches if m.item == number]
                begin, end = tokens[first][1], tokens[first + length - 1][2]
                assert any(s < end and begin < e for s, e in spans)


def common(one, two):
    """Length of the longest common subsequence."""
    best = [0] * (len(two) + 1)
    for a in one:
        row = [0]
        for k, b in enumerate(two):
            row.append(best[k] + 1 if a == b else max(best[k + 1], row[-1]))
        best = row
    return best[-1]


def longest_runs(document, item):
    """All maximal equal runs: first token in the document, tokens, first token in the item."""
    for d in range(len(document)):
        for i in range(len(item)):
            if d and i and document[d - 1] == item[i - 1]:
                continue
            n = 0
            while d + n < len(document) and i + n < len(item) and document[d + n] == item[i + n]:
                n += 1
            if n:
                yield d, n, i


@given(st.text(max_size=80))
@settings(max_examples=150, deadline=None)
def test_placed_tokens_are_those_of_the_shingles(text):
    """Tokens are those of near-duplicate removal, and lie where their places say."""
    tokens = placed_tokens(pa.array([text], pa.string()))
    words = [
        text.encode()[begin:end].decode()
        for begin, end in zip(tokens.begins.tolist(), tokens.ends.tolist(), strict=True)
    ]
    sets = shingle_sets(pa.array([text, " ".join(words), *words], pa.string()), 1)
    bounds = sets.offsets.tolist()
    of_text, of_words, *each = [sets.values[a:b].tolist() for a, b in itertools.pairwise(bounds)]
    assert of_text == of_words
    assert [len(found) for found in each] == [1] * len(words)
    numbers = {found[0]: value for found, value in zip(each, tokens.hashes.tolist(), strict=True)}
    assert [numbers[found[0]] for found in each] == tokens.hashes.tolist()
    assert len(set(numbers.values())) == len(numbers)
    ends = [0]
    for begin, end in zip(tokens.begins.tolist(), tokens.ends.tolist(), strict=True):
        assert ends[-1] <= begin < end
        ends.append(end)


def test_blocks_and_order_change_nothing():
    """Documents are searched one by one: the matches of one do not depend on the others."""
    rng = random.Random(2)
    texts = [FILLER * rng.randint(0, 5) + rng.choice([QUESTION, CHINESE, ""]) for _ in range(50)]
    built = evaluation_items([QUESTION, CHINESE], ["", ""], RECIPE)
    whole = find_contamination(pa.chunked_array([pa.array(texts)]), built)
    parts = find_contamination(pa.chunked_array([pa.array(texts[:7]), pa.array(texts[7:])]), built)
    assert whole == parts
    assert len(whole) == sum(QUESTION in t or CHINESE in t for t in texts)
    assert np.all(np.diff([m.row for m in whole]) > 0)

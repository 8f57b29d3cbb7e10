"""Fill in the middle: an exact permutation, drawn by hash, undone from the tokens alone."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.record import RecordError
from transforms.tokenize.encoder import Encoded
from transforms.tokenize.fim import FimTokens, fim_tokens, rearrange, restore
from transforms.tokenize.settings import FimSettings

TOKENS = FimTokens(prefix=100, middle=101, suffix=102)

documents = st.lists(st.lists(st.integers(0, 99), max_size=12), max_size=20)


def encoded_of(lists) -> Encoded:
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return Encoded(offsets, np.array([t for item in lists for t in item], np.int32))


def lists_of(encoded: Encoded):
    bounds = encoded.offsets.tolist()
    return [encoded.ids[a:b].tolist() for a, b in pairwise(bounds)]


def rearranged(lists, uids=None, eligible=None, seed=1, **keys):
    uids = np.arange(len(lists), dtype=np.int64) * 977 if uids is None else uids
    eligible = np.ones(len(lists), bool) if eligible is None else eligible
    found = rearrange(encoded_of(lists), uids, eligible, TOKENS, FimSettings(**keys), seed)
    return lists_of(found.encoded), found.changed.tolist()


@settings(max_examples=60, deadline=None)
@given(documents, st.integers(0, 2**40), st.sampled_from([0.0, 0.3, 1.0]))
def test_restoring_gives_the_document_back(lists, seed, spm_rate):
    """What was rearranged is undone; what was not stays; three tokens are added."""
    found, changed = rearranged(lists, seed=seed, rate=0.7, spm_rate=spm_rate)
    restored, undone = restore(encoded_of(found), TOKENS)

    assert lists_of(restored) == lists
    assert undone.tolist() == changed
    for old, new, is_changed in zip(lists, found, changed, strict=True):
        assert len(new) == len(old) + 3 * is_changed
        assert is_changed or new == old


@settings(max_examples=40, deadline=None)
@given(documents, st.sampled_from([0.0, 1.0]))
def test_parts_stand_in_the_order_of_the_paper(lists, spm_rate):
    """PSM is prefix, suffix, middle; SPM has the suffix first, then prefix and middle together."""
    found, changed = rearranged(lists, rate=1.0, spm_rate=spm_rate)
    for old, new, is_changed in zip(lists, found, changed, strict=True):
        assert is_changed == (len(old) >= 2)
        if is_changed:
            low, high = new.index(102), new.index(101)
            first, suffix, last = new[1:low], new[low + 1 : high], new[high + 1 :]
            assert new[0] == 100
            assert old == first + last + suffix
            assert spm_rate == 0.0 or first == []


def test_choice_depends_on_address_and_seed_alone():
    """A document is treated alike beside any others; rates hold; another seed chooses others."""
    lists = [list(range(30))] * 4000
    whole, changed = rearranged(lists, rate=0.5, spm_rate=0.25)
    uids = np.arange(4000, dtype=np.int64) * 977
    part, _ = rearranged(lists[::7], uids=uids[::7], rate=0.5, spm_rate=0.25)
    _, other = rearranged(lists, rate=0.5, spm_rate=0.25, seed=2)

    assert part == whole[::7]
    assert abs(sum(changed) / 4000 - 0.5) < 0.03
    assert changed != other
    spm = sum(1 for new, c in zip(whole, changed, strict=True) if c and new[1] == 102)
    assert abs(spm / sum(changed) - 0.25) < 0.06  # PSM with an empty prefix looks the same


def test_what_may_not_be_rearranged_stays():
    """Documents that are not eligible, and those that hold one of the tokens as text, stay."""
    lists = [[1, 2, 3], [1, 100, 3], [4, 5, 6]]
    found, changed = rearranged(lists, eligible=np.array([False, True, True]), rate=1.0)

    assert changed == [False, False, True]
    assert found[:2] == lists[:2]


def test_a_missing_token_is_named():
    """The message names the key, the file and the tokens that could be meant."""
    with pytest.raises(RecordError, match=r"tokenizer.fim.middle = '<\|fim_middle\|>'.*<fim_m>"):
        fim_tokens(FimSettings(), {"<|fim_prefix|>": 1, "<fim_m>": 2}, "tokenizer.json")
    with pytest.raises(RecordError, match="three tokens"):
        fim_tokens(FimSettings(prefix="a", middle="a", suffix="b"), {"a": 1, "b": 2}, "f")

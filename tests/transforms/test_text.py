"""Normalization in bulk equals the definition, character by character."""

import itertools
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.text import IngestSettings, normalize, normalize_text, string_buffers

SPECIAL = "\r\n\t\x00\x0b\x0c\x1b\x7f\x80\x85\x9f\ufeff\u200d\u0301\u0328e\u00e9\u1100\u1161\u11a8\uac00\uf900\u212b\u0958\U0001d15e\U0002f800中。a "
texts = st.text(st.one_of(st.sampled_from(SPECIAL), st.characters(codec="utf-8")), max_size=12)
settings = st.builds(
    IngestSettings,
    unicode=st.sampled_from(["NFC", "none"]),
    line_ends=st.sampled_from(["lf", "keep"]),
    control=st.sampled_from(["remove", "keep"]),
)


def expected(text: str, chosen: IngestSettings) -> str:
    """Normalize one character at a time."""
    if chosen.line_ends == "lf":
        text = "\n".join(line for part in text.split("\r\n") for line in part.split("\r"))
    if chosen.control == "remove":
        text = "".join(c for c in text if c in "\t\n\r" or unicodedata.category(c) != "Cc")
        while text[:1] == "\ufeff":
            text = text[1:]
    return unicodedata.normalize("NFC", text) if chosen.unicode == "NFC" else text


@given(st.lists(texts, max_size=6), settings, st.integers(0, 2))
def test_bulk_equals_the_definition(values, chosen, skip):
    """Every text of a (sliced) array becomes what the definition says, with its length."""
    array = pa.array(values, pa.string()).slice(skip)
    result, n_chars = normalize(array, chosen)
    want = [expected(text, chosen) for text in values[skip:]]
    assert result.to_pylist() == want
    assert n_chars.tolist() == [len(text) for text in want]
    assert [normalize_text(text, chosen) for text in values[skip:]] == want


@given(texts, settings)
def test_normalizing_twice_changes_nothing(text, chosen):
    """Normalization is idempotent."""
    once = normalize_text(text, chosen)
    assert normalize_text(once, chosen) == once


@pytest.mark.skipif("__import__('numba').config.DISABLE_JIT", reason="a million texts")
def test_every_character_is_brought_to_nfc():
    """No character, alone or after a letter, escapes the search for texts that are not NFC."""
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    chosen = IngestSettings(control="keep", line_ends="keep")
    for before in ("", "a"):
        array = pa.array([before + chr(code) for code in codes])
        want = pa.array([unicodedata.normalize("NFC", before + chr(code)) for code in codes])
        assert normalize(array, chosen)[0].equals(want)


def test_every_composition_is_made():
    """Each pair of characters that Unicode composes is found."""
    pairs = []
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and parts[0][0] != "<":
            pairs.append("".join(chr(int(part, 16)) for part in parts))
    pairs += [chr(0xAC00) + chr(final) for final in range(0x11A8, 0x11C3)]
    result, _ = normalize(pa.array(pairs), IngestSettings())
    assert result.to_pylist() == [unicodedata.normalize("NFC", pair) for pair in pairs]


def test_clean_texts_are_not_copied():
    """An array with nothing to change comes back as the same object."""
    array = pa.array(["plain\ttext\n", "Größe 中文。"])
    assert normalize(array, IngestSettings())[0] is array


@given(st.lists(texts, max_size=5), st.integers(0, 3))
def test_string_buffers_hold_the_bytes(values, skip):
    """Offsets and bytes give each string's UTF-8 back, in slices and in arrays without buffers."""
    array = pa.array(values, pa.string()).slice(skip)
    offsets, data = string_buffers(array)
    found = [data[a:b].tobytes().decode() for a, b in itertools.pairwise(offsets.tolist())]
    assert found == values[skip:]
    assert offsets.dtype == np.int64
    assert string_buffers(pa.array([], pa.string()))[0].tolist() == [0]


def test_limits_that_exclude_every_length_are_refused():
    """max_chars below min_chars is an error that names both."""
    with pytest.raises(ValueError, match=r"max_chars = 3 is below min_chars = 5"):
        IngestSettings(min_chars=5, max_chars=3)

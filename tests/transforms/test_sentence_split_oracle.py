"""The splitter against the rule of docs/sentences.md in plain Python, and without compiled code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.sentence_split import split_units

STOPS, FULLS, CLOSERS = ".!?…", "。！？", '"”)」'
KNOWN = ("Mr", "Fig")


def is_abbreviation(line, first, place):
    """Say whether the full stop at ``place`` ends no sentence because of the word before it."""
    word = re.search(r"[A-Za-z0-9.]*$", line[first:place])[0]
    before = line[: place - len(word)][-1:] if place - len(word) > first else ""
    if not word or before > "\x7f":
        return False
    if word.isdigit():
        return place == len(word)
    if "." in word:
        letters = [c for c in word if c.isalpha()]
        return not any(c.isdigit() for c in word) and len(letters) <= word.count(".") + 1
    return word in KNOWN or (len(word) == 1 and "A" <= word <= "Z" and word != "I")


def oracle(line):
    """Return the sentences of a line of prose."""
    found, first, place = [], 0, 0
    while place < len(line):
        if line[place] not in STOPS + FULLS:
            place += 1
            continue
        after = place + 1
        while after < len(line) and line[after] in STOPS + FULLS + CLOSERS:
            after += 1
        run = line[place:after]
        single = line[place] == "." and not any(c in STOPS + FULLS for c in run[1:])
        rest = line[after:]
        if not rest.strip() or any(c in FULLS for c in run):
            ends = True
        elif rest[0] >= "⺀":
            ends = not single or line[place - 1 : place] > "\x7f"
        elif rest[0] != " ":
            ends = False
        else:
            ends_word = single and is_abbreviation(line, first, place)
            ends = not rest.lstrip()[:1].islower() and not ends_word
        if ends:
            found.append(line[first:after])
            while after < len(line) and line[after] == " ":
                after += 1
            first = after
        place = after
    return [*found, line[first:]] if first < len(line) else found


PIECES = st.sampled_from(
    [
        *"。！…”",
        '."',
        ".) ",
        "Yes",
        "Mr",
        "Fig",
        "J",
        "U.S",
        "12",
        "Hello",
        "lower",
        "世界",
        "人",
        " ",
        " ",
        ". ",
        ".",
        "! ",
        "?",
    ]
)


def text_of(pieces):
    """Return a line that begins with a word and has no code in it."""
    text = "".join(pieces).strip()
    return "A " + text if text[:1] not in ("", "1") else "A"


@settings(deadline=None, max_examples=400)
@given(st.lists(st.lists(PIECES, max_size=12).map(text_of), min_size=1, max_size=4))
def test_sentences_are_those_of_the_rule(lines):
    """Lines of words, abbreviations, stops, quotes and ideographs split as the rule says."""
    units = split_units(pa.array(["\n\n".join(lines)]))
    found = [bytes(units.data[row[1] : row[2]]).decode() for row in units.places]
    assert found == [sentence for line in lines for sentence in oracle(line)]


def test_the_same_without_compiled_code():
    """Splitting, forms, qualities, similar pairs and spans are the same without numba."""
    program = """
import numpy as np, pyarrow as pa
from transforms.sentence_forms import unit_forms
from transforms.sentence_near import band_keys, similar
from transforms.sentence_quality import default_weights, qualities
from transforms.sentence_split import split_units
from transforms.sentences import removal_spans
from transforms.text import string_buffers
texts = pa.array(["Mr. Smith left. He did! 你好。再见\\n- 12 -\\nPage 3 of 7\\n上一篇：春天", "", "One line"])
units = split_units(texts)
forms = unit_forms(units)
quality = qualities(units, np.arange(len(units)), forms.labelled, default_weights())
ends, _ = string_buffers(texts)
spans = removal_spans(units, ends, quality < 0.5, forms.sizes < 1)
near = pa.array(["subscribe to our free newsletter today", "subscribe to our free newsletter todax"])
keys, _ = band_keys(near, 0.85)
print(units.places.tolist(), forms.hashes.tolist(), quality.tolist(), [s.tolist() for s in spans])
print(keys.tolist(), similar(near, np.array([0]), np.array([1]), 0.7).tolist())
"""
    found = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env={**os.environ, "NUMBA_DISABLE_JIT": off},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for off in ("0", "1")
    ]
    assert found[0] == found[1]
    assert len(found[0].splitlines()) == 2

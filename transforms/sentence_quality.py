"""How much a sentence reads like prose: a logistic model over features that can be read.

A sentence that many documents share is a proverb, a definition or a legal formula, or it belongs to
the frame of the pages: menus, notices, credits, calls to click. The features tell these apart in
English and Chinese, and do no harm in other languages that write sentences with full stops. The
weights are fitted by ``scripts/fit_sentence_quality.py`` on the sentences that it holds;
``[dedupe.sentence] weights`` names a file with others.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from transforms.record import RecordError
from transforms.sentence_characters import Int64s
from transforms.sentence_features import Floats, features
from transforms.sentence_split import Units

FEATURES: tuple[tuple[str, str], ...] = (
    ("bias", "1"),
    ("final", "ends with . ! ? 。 ！ ？ or …, closing quotes and brackets aside"),
    ("function", "share of function words (of ideographs: 的, 了, 是 ...), scaled to prose"),
    ("verb", "has a verb cue (is, has, must; 是, 有, 应 ...)"),
    ("weak", "share of words that frames of pages are full of (news, comments; 网站, 阅读 ...)"),
    ("strong", "share of words that hardly stand elsewhere (cookies, newsletter; 责任编辑 ...)"),
    ("frame words", "number of words of both kinds, up to six"),
    ("imperative", "begins with a word of either kind"),
    ("separators", "number of | > » · • / → and the like, up to three"),
    ("digits", "share of digits and words of dates"),
    ("symbols", "share of signs that prose does not use"),
    ("capitals", "share of capitalized words after the first"),
    ("shouting", "share of words in capitals alone"),
    ("length", "logarithm of the number of words (1.7 ideographs are one), 1 at 32"),
    ("short", "fewer than four words"),
    ("address", "a URL, an e-mail address or a copyright sign"),
    ("commas", "number of commas and semicolons inside, up to two"),
    ("open end", "ends with a colon or three full stops, and is no label"),
    ("label", "its form stops after a label"),
    ("reader", "speaks to the reader or of the site (your, our, 请, 本站), times the frame words"),
    ("command", "at most six words, no full stop, begins with a call (click, view, sign, add ...)"),
    ("counter", "nothing but numbers, dates and what they count (comments, 页), or a time of day"),
    ("heading", "no full stop, and begins with a word of headings (chapter; 章, 附则 anywhere)"),
    (
        "plain",
        "nothing speaks for the frame of a page: no word, call, counter, sign or label of it",
    ),
    ("learnt", "learnt weights of its words and sequences, over the fourth root of their number"),
)
"""Names of the features, and what they are."""

WEIGHTS: dict[str, float] = {
    "bias": 0.57,
    "final": 1.73,
    "function": -0.29,
    "verb": 0.54,
    "weak": -4.58,
    "strong": -3.7,
    "frame words": -1.86,
    "imperative": -0.31,
    "separators": -1.0,
    "digits": -0.06,
    "symbols": 0.0,
    "capitals": 0.0,
    "shouting": 0.0,
    "length": 0.0,
    "short": -1.51,
    "address": -0.23,
    "commas": 0.0,
    "open end": 4.27,
    "label": -2.37,
    "reader": -1.45,
    "command": -2.17,
    "counter": -1.32,
    "heading": 1.68,
    "plain": 0.6,
    "learnt": 1.0,
}
"""Weights of the features, rounded; positive ones speak for prose."""

INLINE, LINE, EDGE = 1.3, 0.2, -0.7
"""What is added to the score of a sentence that always stands beside others in its line, and of one
that is always a line of its own; and that of lines at the edges of their texts, on top of it."""

Bools = npt.NDArray[np.bool_]


def qualities(units: Units, chosen: Int64s, labelled: Bools, weights: Floats) -> Floats:
    """Return the quality of some units: the model's probability that they are prose, in thousandths.

    Args:
        units: units of texts.
        chosen: their numbers, shape [chosen].
        labelled: whether their forms stop after a label, likewise.
        weights: as :func:`weight_array` gives them.

    Returns:
        float64, shape [chosen]: 0, 0.001, ..., 1.
    """
    found = features(units, chosen, labelled)
    # Summed in one order, and rounded, so that machines agree.
    score = np.zeros(len(chosen))
    for k in range(len(FEATURES)):
        score += found[:, k] * weights[k]
    rounded: Floats = np.round(1 / (1 + np.exp(-score)), 3)
    return rounded


def in_context(quality: Floats, occurrences: Int64s, alone: Int64s, edges: Int64s) -> Floats:
    """Return qualities that also weigh where sentences stand, in thousandths.

    Frames of pages are lines of their own, mostly at the edges of a text; what stands between other
    sentences of a paragraph is rarely one.

    Args:
        quality: of the sentences themselves, shape [forms].
        occurrences: how often each stands anywhere, likewise.
        alone: how often it is a line of its own, likewise.
        edges: how often it is one at the edge of a text, likewise.
    """
    certain = np.clip(quality, 0.0005, 0.9995)
    score = np.log(certain / (1 - certain))
    most = np.maximum(occurrences, 1)
    score += INLINE + (LINE - INLINE) * (alone / most) + EDGE * (edges / most)
    rounded: Floats = np.round(1 / (1 + np.exp(-score)), 3)
    return rounded


def default_weights() -> Floats:
    """Return the built-in weights in the order of the features."""
    return np.array([WEIGHTS[name] for name, _ in FEATURES])


def read_weights(path: str | Path) -> Floats:
    """Read weights from a JSON file: an object of a number per feature; those left out are 0.

    Raises:
        RecordError: the file cannot be read, or holds something else.
    """
    where = f"dedupe.sentence.weights {str(path)!r}"
    try:
        value: Any = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise RecordError(f"{where} cannot be read ({error.strerror}); give a JSON file") from error
    except ValueError as error:
        raise RecordError(f"{where} is no JSON ({error}); give an object of numbers") from error
    names = [name for name, _ in FEATURES]
    if not isinstance(value, dict):
        raise RecordError(f"{where} holds a {type(value).__name__}; give an object of numbers")
    for name, weight in value.items():
        if name not in names:
            raise RecordError(f"{where} has {name!r}; the features are {', '.join(names)}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or weight != weight:
            raise RecordError(f"{where}: {name} is {weight!r}; give a number")
    return np.array([float(value.get(name, 0.0)) for name in names])

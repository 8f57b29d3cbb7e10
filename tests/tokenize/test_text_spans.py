"""Character spans: removal, masks and loss spans against a model that edits character by character."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.record import RecordError
from transforms.tokenize.text_spans import TEXT_SPAN_SCHEMA, LossSpan, apply_spans, span_runs

TEXTS = ["the dry stone wall", "", "été 石墙 🪨 naïve", "abc"]
UIDS = np.array([11, 12, 40, 7], np.int64)


def table(*rows):
    names = TEXT_SPAN_SCHEMA.names
    filled = [dict(zip(names, (*row, None, None), strict=False)) for row in rows]
    return pa.Table.from_pylist(filled, schema=TEXT_SPAN_SCHEMA)


def span(n):
    bounds = st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True).map(sorted)
    kinds = st.one_of(
        st.just(("remove", None, None)),
        st.tuples(st.just("mask"), st.sampled_from(["", "[X]", "é"]), st.none()),
        st.tuples(st.just("loss"), st.none(), st.sampled_from([0.0, 0.5, 1.0, 2.0])),
    )
    return st.builds(lambda b, k: (b[0], b[1], *k), bounds, kinds)


def by_character(text, spans):
    """Edit a text one character at a time: (new text, weight of each new character)."""
    spans = sorted(spans, key=lambda s: (s[0], s[1], s[2], s[3] or "", s[4] or 0))
    action = ["keep"] * len(text)
    mask_of = [None] * len(text)
    weight = [0.0 if any(s[2] == "loss" for s in spans) else None] * len(text)
    end, current = -1, None
    for start, stop, kind, replacement, _ in spans:
        if kind == "mask":
            if start > end:
                current, end = (start, replacement or ""), stop
            end = max(end, stop)
            for i in range(start, stop):
                action[i], mask_of[i] = "mask", current
    for start, stop, kind, _, w in spans:
        for i in range(start, stop):
            if kind == "remove":
                action[i] = "remove"
            elif kind == "loss":
                weight[i] = w
    out, weights, written = [], [], set()
    for i, character in enumerate(text):
        if action[i] == "keep":
            out.append(character)
            weights.append(weight[i])
        elif action[i] == "mask" and mask_of[i] not in written:
            written.add(mask_of[i])
            out.append(mask_of[i][1])
            weights += [0.0 if weight[i] is not None else None] * len(mask_of[i][1])
    return "".join(out), weights


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_spans_do_what_editing_by_character_does(data):
    """Text and weights equal those of a model that goes character by character."""
    text = data.draw(st.sampled_from([TEXTS[0], TEXTS[2], TEXTS[3]]))
    spans = data.draw(st.lists(span(len(text)), max_size=6))
    rows = [(11, *s) for s in data.draw(st.permutations(spans))]
    found = apply_spans(
        pa.array([text, "other"]), np.array([11, 12], np.int64), table(*rows) if rows else None
    )
    want, weights = by_character(text, spans)

    assert found.text.to_pylist() == [want, "other"]
    if any(s[2] == "loss" for s in spans):
        got = [0.0] * len(want)
        for piece in found.loss[0]:
            assert piece.start < piece.end
            got[piece.start : piece.end] = [piece.weight] * (piece.end - piece.start)
        assert got == weights
        runs = span_runs(want, found.loss[0])
        assert "".join(run.text for run in runs) == want
        assert [run.weight for run in runs for _ in run.text] == weights
    else:
        assert found.loss == {}


def test_texts_without_spans_are_the_argument():
    """Where no span applies, nothing is copied."""
    texts = pa.array(TEXTS)
    assert apply_spans(texts, UIDS, None).text is texts
    assert apply_spans(texts, UIDS, table((99, 0, 1, "remove"))).text is texts


def test_what_is_removed_falls_out_of_loss_spans():
    """A trained span around a removed one shrinks; replacements are never trained."""
    found = apply_spans(
        pa.array(TEXTS),
        UIDS,
        table(
            (11, 0, 18, "loss", None, 2.0),
            (11, 4, 8, "remove"),
            (11, 8, 13, "mask", "[STONE]"),
        ),
    )
    assert found.text[0].as_py() == "the [STONE] wall"
    assert found.loss == {0: [LossSpan(0, 4, 2.0), LossSpan(11, 16, 2.0)]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((7, 2, 2, "remove"), "is empty or leaves its text of 3"),
        ((7, 0, 4, "remove"), "leaves its text of 3 characters"),
        ((7, 0, 2, "paint"), "has the action 'paint'"),
        ((7, 0, 2, "loss"), "has the loss weight None"),
        ((7, 0, 2, "loss", None, -1.0), "has the loss weight -1.0"),
    ],
)
def test_wrong_spans_are_refused_by_name(row, message):
    """The message names document and span."""
    with pytest.raises(RecordError, match=rf"document 7: span \[.*{message}"):
        apply_spans(pa.array(TEXTS), UIDS, table(row))

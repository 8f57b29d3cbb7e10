"""Similar sentences: sets of 4-grams, bands, verified pairs and the groups around leaders."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.sentence_near import band_keys, gram_sets, lead, similar
from transforms.sentences import SentenceSettings


def grams(text):
    """Return the 4-grams of the form of a text of lower-case words, punctuation and ideographs."""
    form = ""
    for character in text:
        if character.isalnum():
            if form.endswith(" ") and character >= "⺀":
                form = form[:-1]
            form += character
        elif form and not form.endswith(" ") and form[-1] < "⺀":
            form += " "
    form = form.strip()
    return {form[k : k + 4] for k in range(max(len(form) - 3, 1))}


def jaccard(one, two):
    return len(grams(one) & grams(two)) / len(grams(one) | grams(two))


TEXTS = st.text(alphabet="abc, 山水。", min_size=1, max_size=24).filter(
    lambda text: any(c.isalnum() for c in text)
)


@settings(deadline=None)
@given(st.lists(TEXTS, min_size=2, max_size=6))
def test_similarity_is_that_of_the_sets(texts):
    """Sizes of sets and Jaccard similarities of all pairs are those of plain Python."""
    array = pa.array(texts)
    assert gram_sets(array).sizes.tolist() == [len(grams(text)) for text in texts]
    first, second = np.triu_indices(len(texts), 1)
    found = similar(array, first, second, 0.5)
    for one, two, value in zip(first, second, found, strict=True):
        want = jaccard(texts[one], texts[two])
        assert value == (pytest.approx(want) if want >= 0.5 else 0)


@pytest.mark.parametrize("threshold", [0.7, 0.85])
def test_similar_forms_share_a_band(threshold):
    """Of forms just above the similarity asked for, 99 % share a key; far ones hardly ever do."""
    rng = np.random.default_rng(3)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz "))
    pairs = []
    for _ in range(600):
        base = rng.choice(letters, int(rng.integers(60, 190)))
        other = base.copy()
        for place in rng.integers(0, len(base), int(rng.integers(1, 6))):
            other[place] = "q"
        pairs.append(("".join(base).strip(), "".join(other).strip()))
    near = [p for p in pairs if threshold <= jaccard(*p) < threshold + 0.1]
    assert len(near) > 50
    keys, _ = band_keys(pa.array([text for pair in near for text in pair]), threshold)
    assert np.mean((keys[0::2] == keys[1::2]).any(axis=1)) >= 0.99
    assert (keys[0:-2:2] == keys[3::2]).mean() < 0.001


@settings(deadline=None)
@given(st.data())
def test_groups_are_greedy_around_leaders(data):
    """The groups are those of a greedy pass in plain Python; no member is unlike its leader."""
    n = data.draw(st.integers(2, 9))
    names = np.array(sorted(data.draw(st.sets(st.integers(-50, 50), min_size=n, max_size=n))))
    documents = np.array(data.draw(st.lists(st.integers(1, 4), min_size=n, max_size=n)))
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    chosen = data.draw(st.sets(st.sampled_from(pairs)))
    values = {pair: data.draw(st.sampled_from([0.85, 0.9, 1.0])) for pair in sorted(chosen)}
    order = sorted(range(n), key=lambda k: (-documents[k], names[k]))
    leader = {}
    for k in order:
        led = [(values.get((min(k, m), max(k, m)), 0), m) for m in order if leader.get(m) == m]
        best = max((value for value, _ in led), default=0)
        leader[k] = next((m for value, m in led if value == best), k) if best else k
    want = {
        int(names[k]): int(names[m])
        for k, m in leader.items()
        if list(leader.values()).count(m) > 1
    }
    listed = sorted(values)
    first = names[[a for a, _ in listed]] if listed else np.empty(0, np.int64)
    second = names[[b for _, b in listed]] if listed else np.empty(0, np.int64)
    found = lead(names, documents, second, first, np.array([values[p] for p in listed], float))
    assert dict(zip(found.forms.tolist(), found.leaders.tolist(), strict=True)) == want
    assert (np.diff(found.forms) > 0).all()


@pytest.mark.parametrize("near", [0.3, 0.69])
def test_useless_similarities_are_refused(near):
    """A similarity that groups what is unlike is refused; 0 and false switch the search off."""
    with pytest.raises(ValueError, match="count together"):
        SentenceSettings(near=near)
    for off in (0, False):
        assert SentenceSettings(near=off).near_quality == 0

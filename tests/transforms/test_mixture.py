"""The mixture: quotas, caps and the draw, against oracles in exact arithmetic."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.draw import draw
from transforms.mixture import MixtureSettings, SoftWeights, mixture, quotas
from transforms.record import RecordError, mix64


def uniform(uid, seed):
    """The published draw of a document, in exact arithmetic."""
    once = np.array([mix64(np.array([uid]), seed)[0]], np.uint64).view(np.int64)
    bits = int(mix64(once, 0x6D697874)[0])
    return Fraction(2 * (bits >> 12) + 1, 2**53)


def oracle_draw(n_tokens, uid, weight, quota, max_epochs, seed):
    """Sort all copies by cost, take while they fit, then let 64 documents fill the gap."""
    offers, copies = [], [0] * len(uid)
    for k, (size, u, w) in enumerate(zip(n_tokens, uid, weight, strict=True)):
        first, number = uniform(u, seed), 0
        while w and number + first < Fraction(max_epochs):
            offers.append(((number + first) / Fraction(w), u, k, size))
            number += 1
    offers.sort()
    at, left = 0, quota
    while at < len(offers) and offers[at][3] <= left:
        copies[offers[at][2]] += 1
        left -= offers[at][3]
        at += 1
    seen = set()
    for _, _, k, size in offers[at:]:
        if k in seen:
            continue
        seen.add(k)
        if len(seen) > 64:
            break
        if size <= left:
            copies[k] += 1
            left -= size
    return copies


@settings(deadline=None, max_examples=200)
@given(
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=150),
    share=st.floats(0, 5),
    max_epochs=st.sampled_from([0.5, 1, 2, 2.5, 4]),
    seed=st.integers(0, 2**40),
    data=st.data(),
)
def test_draw_takes_the_cheapest_copies(sizes, share, max_epochs, seed, data):
    """The vectorised draw equals the enumeration of all copies in exact arithmetic."""
    n = len(sizes)
    uid = np.random.default_rng(seed).permutation(10 * n)[:n].astype(np.int64) << 20
    weight = data.draw(
        st.one_of(
            st.just([1.0] * n),
            st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.25]), min_size=n, max_size=n),
        )
    )
    quota = int(share * sum(sizes))
    found = draw(
        np.array(sizes, np.int32), uid, np.array(weight), quota, max_epochs=max_epochs, seed=seed
    )
    assert found.tolist() == oracle_draw(sizes, uid.tolist(), weight, quota, max_epochs, seed)
    assert int((found.astype(int) * sizes).sum()) <= max(quota, 0)
    assert found.max() <= math.ceil(max_epochs)


def oracle_quotas(tokens, share, most):
    """Water filling in exact arithmetic: a common rate, cut at each domain's most."""
    left, free = Fraction(tokens), [d for d in range(len(share)) if share[d]]
    got = [Fraction(0)] * len(share)
    while free:
        rate = left / sum(share[d] for d in free)
        full = [d for d in free if rate * share[d] > most[d]]
        if not full:
            for d in free:
                got[d] = rate * share[d]
            return got
        tightest = min(full, key=lambda d: Fraction(most[d]) / share[d])
        got[tightest] = Fraction(most[tightest])
        left -= most[tightest]
        free.remove(tightest)
    return got


@settings(deadline=None)
@given(
    tokens=st.integers(1, 10**7),
    parts=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 10**6)), min_size=1, max_size=8),
)
def test_quotas_are_whole_capped_and_complete(tokens, parts):
    """Quotas are within one token a round of exact water filling and add up to what there is."""
    total = sum(p for p, _ in parts)
    if not total:
        return
    names = [f"d{k}" for k in range(len(parts))]
    share = [Fraction(p, total) for p, _ in parts]
    most = [m for _, m in parts]
    mix = MixtureSettings(
        tokens=tokens, weights={n: float(s) for n, s in zip(names, share, strict=True)}
    )
    found = quotas(mix, names, most, most)
    assert sum(found.asked) == tokens
    reach = sum(m for s, m in zip(share, most, strict=True) if s)
    assert sum(found.quota) == min(tokens, reach)
    exact = oracle_quotas(tokens, share, most)
    for got, wanted, limit in zip(found.quota, exact, most, strict=True):
        assert 0 <= got <= limit
        assert abs(got - wanted) <= len(parts) + 1


def documents(n, seed, domains=3):
    rng = np.random.default_rng(seed)
    sizes = np.minimum(rng.lognormal(6, 1.2, n).astype(np.int32) + 1, 60_000)
    uid = np.sort(rng.choice(2**40, n, replace=False).astype(np.int64))
    return sizes, rng.integers(0, domains, n).astype(np.int16), uid


NAMES = ["a", "b", "c"]


def test_shares_are_met_and_caps_hold():
    """Realised shares are within 0.1 points, the total within 0.1 %, and no epoch cap is passed."""
    sizes, domain, uid = documents(6000, 1)
    total = int(sizes.sum())
    mix = MixtureSettings(tokens=2 * total, weights={"a": 0.5, "b": 0.3, "c": 0.2})
    copies, report = mixture(sizes, domain, NAMES, uid, mix, seed=3)
    rows = report.to_pylist()
    assert sum(r["tokens"] for r in rows) == pytest.approx(2 * total, rel=1e-3)
    for r in rows:
        assert r["share"] == pytest.approx(mix.weights[r["domain"]], abs=1e-3)
        assert not r["runs_dry"]
        mine = domain == NAMES.index(r["domain"])
        e = r["epochs"]
        assert set(copies[mine].tolist()) <= {math.floor(e), math.floor(e) + 1}
    mix = MixtureSettings(tokens=5 * total // 2, weights={"a": 0.9, "b": 0.05, "c": 0.05})
    copies, report = mixture(sizes, domain, NAMES, uid, mix, seed=3)
    first, *others = report.to_pylist()
    assert first["runs_dry"]
    assert first["epochs"] == 4
    assert copies.max() == 4
    assert others[0]["tokens"] == pytest.approx(others[1]["tokens"], rel=2e-3)
    assert sum(report["tokens"].to_pylist()) == pytest.approx(5 * total / 2, rel=1e-3)


def test_order_does_not_matter():
    """Documents in another order, and domains under other numbers, are drawn alike."""
    sizes, domain, uid = documents(2000, 2)
    mix = MixtureSettings(tokens=int(sizes.sum()), temperature=3.0)
    weight = (uid % 7 + 1).astype(np.float64)
    copies, report = mixture(sizes, domain, NAMES, uid, mix, seed=1, weight=weight)
    turn = np.random.default_rng(5).permutation(len(uid))
    turned, same = mixture(
        sizes[turn], 2 - domain[turn], NAMES[::-1], uid[turn], mix, seed=1, weight=weight[turn]
    )
    assert np.array_equal(turned, copies[turn])
    assert same.equals(report)


@pytest.mark.parametrize("epochs", [0.3, 1.4, 2.0])
def test_another_document_changes_the_margin_only(epochs):
    """Adding a document moves its length in tokens at the margin, and no document by two copies."""
    sizes, domain, uid = documents(4000, 3, domains=1)
    mix = MixtureSettings(tokens=int(epochs * sizes.sum()), weights={"a": 1.0})
    before, _ = mixture(sizes[1:], domain[1:], ["a"], uid[1:], mix, seed=9)
    after, _ = mixture(sizes, domain, ["a"], uid, mix, seed=9)
    change = after[1:].astype(int) - before
    moved = int((np.abs(change) * sizes[1:]).sum())
    assert np.abs(change).max() <= 1
    # Two margins of at most 64 documents, of which few fit the gap.
    assert np.count_nonzero(change) <= 30
    assert moved <= 3 * int(sizes[0]) + 4 * int(sizes.max())


def test_draws_follow_soft_weights():
    """With weights 1 and 3 documents of weight 3 are drawn three times as often."""
    sizes, domain, uid = documents(20000, 4, domains=1)
    weight = np.where(uid % 2 == 0, 1.0, 3.0)
    mix = MixtureSettings(tokens=int(0.8 * sizes.sum()), weights={"a": 1.0})
    copies, report = mixture(sizes, domain, ["a"], uid, mix, seed=9, weight=weight)
    ratio = copies[weight == 3].mean() / copies[weight == 1].mean()
    assert ratio == pytest.approx(3, abs=0.15)
    assert report["epochs"].to_pylist()[0] == pytest.approx(0.8, abs=1e-3)


def test_shares_by_size():
    """Temperature 1 keeps proportions, a high one and UniMax make equal shares up to the cap."""
    names, available = ["a", "b", "c"], [8000, 1000, 20]

    def share(**kind):
        mix = MixtureSettings(tokens=3000, **kind)
        return quotas(mix, names, available, [4 * n for n in available]).quota

    assert share(temperature=1.0) == [2661, 332, 7]
    assert share(temperature=1e6) == [1460, 1460, 80]
    assert share(unimax=True) == [1460, 1460, 80]


def test_refusals():
    """Weights that do not add up, several kinds at once, and unknown domains are refused."""
    for wrong in (
        {"weights": {"a": 0.5, "b": 0.4}},
        {"weights": {"a": 1.0}, "unimax": True},
        {},
    ):
        with pytest.raises(ValueError, match=r"add up to|just one of"):
            MixtureSettings(tokens=10, **wrong)
    with pytest.raises(ValueError, match="neither"):
        SoftWeights()
    mix = MixtureSettings(tokens=10, weights={"x": 1.0})
    with pytest.raises(RecordError, match="'x', which no document"):
        quotas(mix, ["a"], [5], [5])
    one = np.ones(1, np.int32), np.zeros(1, np.int16), ["x"], np.ones(1, np.int64), mix
    with pytest.raises(RecordError, match="document 1 has the weight"):
        mixture(*one, seed=0, weight=np.array([np.nan]))


def test_nothing_to_draw_from():
    """Without documents there is a report of nothing."""
    none = np.empty(0, np.int32), np.empty(0, np.int16), [], np.empty(0, np.int64)
    copies, report = mixture(*none, MixtureSettings(tokens=10, unimax=True), seed=0)
    assert len(copies) == len(report) == 0

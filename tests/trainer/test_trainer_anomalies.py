"""Which steps are spikes, when their rows come again, and how the rate follows (without torch)."""

import json
import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.anomalies import AnomalySettings, Watch


def watch(seed=1, **settings):
    return Watch(AnomalySettings(**settings), seed)


def fill(found, losses, norms=None):
    for loss, norm in zip(losses, norms or [1.0] * len(losses), strict=True):
        assert found.judge(loss, norm) is None
        found.accept(loss, norm)


@pytest.mark.parametrize("field", ["loss", "norm"])
def test_limit_is_the_robust_one(field):
    """A value is a spike just above median + limit x 1.4826 MAD (numpy), of logarithms for norms."""
    rng = np.random.default_rng(4)
    values = rng.normal(3.0, 0.2, 30).tolist()
    x = np.array(values[-20:]) if field == "loss" else np.log(values[-20:])
    limit = np.median(x) + 5 * 1.4826 * np.median(np.abs(x - np.median(x)))
    limit = limit if field == "loss" else np.exp(limit)
    found = watch(window=20, min_steps=20, loss_limit=5.0, norm_limit=5.0)
    pairs = [(v, 1.0) if field == "loss" else (3.0, v) for v in values]
    for pair in pairs:
        found.accept(*pair)
    below, above = limit * (1 - 1e-9), limit * (1 + 1e-9)

    assert found.judge(*((below, 1.0) if field == "loss" else (3.0, below))) is None
    spike = found.judge(*((above, 1.0) if field == "loss" else (3.0, above)))
    assert ("loss" if field == "loss" else "gradient") in spike.detail
    assert (spike.loss_limit is None) == (field == "norm")


def test_quiet_curves_have_no_spikes():
    """A falling curve with the noise of small batches has no spike in 3,000 steps; planted ones do."""
    rng = random.Random(5)
    found, planted, seen = watch(), set(rng.sample(range(100, 3000), 20)), set()
    for step in range(3000):
        loss = 2.5 + 6.5 * 0.99**step + rng.gauss(0, 0.12)
        norm = 1.2 * 2 ** rng.gauss(0, 0.4)
        if step in planted:
            loss, norm = (loss + 2.5, norm) if rng.random() < 0.5 else (loss, norm * 60)
        if found.judge(loss, norm):
            seen.add(step)
            found.leave_out(step, 0, step, 0)
        else:
            found.accept(loss, norm)

    assert seen == planted


def test_nothing_is_judged_before_the_window_is_known():
    """The first ``min_steps`` steps may be anything finite; infinite ones never are."""
    found = watch(min_steps=8)
    fill(found, [9.0, 1.0] * 4)
    assert watch(min_steps=8).judge(1e9, 1e9) is None
    assert found.judge(1e9, 1.0) is not None
    for bad in (float("nan"), float("inf")):
        assert "not finite" in watch().judge(bad, 1.0).detail
        assert "not finite" in watch().judge(1.0, bad).detail


def test_nothing_is_watched_without_settings():
    """Without the table only what is not finite is left out, and it does not come again."""
    found = Watch(None, 0)
    fill(found, [1.0] * 100)

    assert found.judge(1e30, 1e30) is None
    assert found.judge(float("nan"), 1.0) is not None
    assert found.leave_out(100, 0, 100, 0) == []
    assert not found.queue
    assert found.factor == 1.0


@given(st.integers(0, 2**32), st.integers(0, 4), st.integers(1, 40))
def test_rows_come_again_as_often_as_said(seed, retries, within):
    """A step that always fails is tried 1 + retries times, each within ``retry_within`` steps."""
    found = watch(seed, retries=retries, retry_within=within, patience=10**6)
    tries, attempt, step = [0], 0, 0
    events = [e for e, _ in found.leave_out(0, 2, 7, 0)]
    while found.queue:
        step += 1
        retry = found.due(step)
        if retry is None:
            continue
        assert (retry.epoch, retry.plan_step, retry.attempt) == (2, 7, attempt + 1)
        assert step - tries[-1] <= within
        tries.append(step)
        attempt = retry.attempt
        events += [e for e, _ in found.leave_out(step, retry.epoch, retry.plan_step, attempt)]

    assert len(tries) == 1 + retries
    assert events == ["requeue"] * retries + ["drop"]


def test_rows_that_are_due_together_come_one_after_another():
    """Of several steps that are due, each comes once, the oldest first."""
    found = watch(retry_within=1, patience=100)
    for step in (3, 1, 2):
        found.leave_out(9, 0, step, 0)

    assert found.due(9) is None
    assert [found.due(step).plan_step for step in (10, 11, 12)] == [1, 2, 3]
    assert found.due(13) is None


def test_rate_falls_and_rises():
    """``patience`` steps in a row lower the rate and begin a new measure; calm windows undo it."""
    found = watch(patience=2, window=10, min_steps=5, lower=0.5, retries=0)
    fill(found, [1.0] * 10)
    events = []
    for step in range(4):
        assert found.judge(50.0, 1.0) is not None or step >= 2
        events += [e for e, _ in found.leave_out(step, 0, step, 0)]
    assert found.factor == 0.25
    assert events == ["drop", "drop", "lower", "drop", "drop", "lower"]

    # The new level is taken for what it is.
    assert found.judge(50.0, 1.0) is None
    factors = []
    for _ in range(25):
        found.accept(50.0, 1.0)
        factors.append(found.factor)
    assert factors == [0.25] * 9 + [0.5] * 10 + [1.0] * 6


@given(st.lists(st.floats(0.5, 20.0), min_size=1, max_size=80), st.integers(0, 79))
def test_restored_in_the_middle(losses, cut):
    """Saved as JSON after any step and restored, a watch decides as the one that went on."""

    def run(found, first, stop):
        told = []
        for step in range(first, min(stop, len(losses))):
            retry = found.due(step)
            spike = found.judge(losses[step], losses[step] / 2)
            told.append((step, retry, spike))
            if spike:
                told.append(found.leave_out(step, 0, step, retry.attempt if retry else 0))
            else:
                told.append(found.accept(losses[step], losses[step] / 2))
        return told

    settings = {"window": 8, "min_steps": 4, "loss_limit": 2.0, "patience": 2, "retry_within": 5}
    whole, first = watch(**settings), watch(**settings)
    expected = run(whole, 0, 80)
    told = run(first, 0, cut)
    second = Watch.of(first.settings, 1, json.loads(json.dumps(first.to_dict())))

    assert told + run(second, cut, 80) == expected
    assert second.to_dict() == whole.to_dict()
    assert len(second.losses) <= 8


def test_retries_are_spread():
    """Where rows come again is spread over the whole range, and depends on the seed."""
    places = []
    for seed in range(200):
        found = watch(seed, retry_within=10)
        found.leave_out(0, 0, 3, 0)
        places.append(found.queue[0].due)

    assert set(places) == set(range(1, 11))
    assert 4 < statistics.mean(places) < 7

"""Fitting documents into rows: every token once, no needless cut, as tight as the textbook."""

import json
import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from packing.fit import PackSettings, Pieces, fit_rows
from packing.format import ShardError
from packing.lengths import fewest_rows
from transforms.record import mix64

compiled = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs compiled kernels")
STRATEGIES = ("best_fit", "online", "concat")
lengths_and_window = st.integers(2, 40).flatmap(
    lambda c: st.tuples(
        st.just(c),
        st.lists(
            st.one_of(st.integers(1, c), st.integers(1, 4 * c), st.sampled_from([1, c, 2 * c])),
            max_size=60,
        ),
    )
)


def fit(lengths: list[int], settings: PackSettings, seed: int = 0) -> Pieces:
    """Fit with seeded keys."""
    return fit_rows(
        np.array(lengths, dtype=np.int32), mix64(np.arange(len(lengths)), seed), settings
    )


def check(pieces: Pieces, lengths: list[int], settings: PackSettings) -> None:
    """Assert what holds for every fit: order, room, count, and each token exactly once."""
    assert [a.dtype.name for a in (pieces.row, pieces.document)] == ["int64"] * 2
    assert [a.dtype.name for a in (pieces.start, pieces.length)] == ["int32"] * 2
    assert np.array_equal(np.unique(pieces.row), np.arange(pieces.rows))
    assert (np.diff(pieces.row) >= 0).all()
    assert (pieces.length > 0).all()
    assert (pieces.row_tokens() <= settings.seq_len).all()
    squares = [0] * pieces.rows
    for row, n in zip(pieces.row.tolist(), pieces.length.tolist(), strict=True):
        squares[row] += n * n
    assert pieces.row_squares().tolist() == squares
    if settings.max_docs_per_row and len(pieces.row):
        assert np.bincount(pieces.row).max() <= settings.max_docs_per_row
    end = dict.fromkeys(range(len(lengths)), 0)
    for i in np.lexsort((pieces.start, pieces.document)):
        document = int(pieces.document[i])
        assert pieces.start[i] == end[document]
        end[document] += int(pieces.length[i])
    dropped = settings.long == "drop"
    assert list(end.values()) == [0 if dropped and n > settings.seq_len else n for n in lengths]


def textbook(lengths: list[int], seq_len: int) -> list[int]:
    """Best-fit decreasing, one document at a time over a list of rows; the room left in each."""
    rooms: list[int] = []
    for n in sorted(lengths, reverse=True):
        fits = [room for room in rooms if room >= n]
        if fits:
            rooms.remove(min(fits))
            rooms.append(min(fits) - n)
        else:
            rooms.append(seq_len - n)
    return sorted(rooms)


@given(lengths_and_window)
def test_best_fit_is_the_textbooks(case: tuple[int, list[int]]) -> None:
    """The same rows, filled alike, as best-fit decreasing of the remainders one by one."""
    seq_len, lengths = case
    settings = PackSettings(seq_len=seq_len)
    pieces = fit(lengths, settings)
    check(pieces, lengths, settings)
    remainders = [n % seq_len for n in lengths if n % seq_len]
    expected = [0] * sum(n // seq_len for n in lengths) + textbook(remainders, seq_len)
    assert sorted(seq_len - pieces.row_tokens()) == sorted(expected)


@pytest.mark.parametrize("law", ["geometric", "uniform", "lumps"])
def test_best_fit_is_the_textbooks_on_larger_input(law: str) -> None:
    """The same over thousands of documents, where runs of documents meet runs of rows."""
    rng = np.random.default_rng(4)
    seq_len = 1000
    lengths = {
        "geometric": np.minimum(rng.geometric(0.01, 3000), seq_len),
        "uniform": rng.integers(1, 2 * seq_len, 2000),
        "lumps": rng.choice([7, 111, 333, 334, 501, 999], 3000),
    }[law].tolist()
    pieces = fit(lengths, PackSettings(seq_len=seq_len))
    remainders = [n % seq_len for n in lengths if n % seq_len]
    fitted = pieces.row_tokens()[sum(n // seq_len for n in lengths) :]
    assert sorted(seq_len - fitted) == textbook(remainders, seq_len)


@given(lengths_and_window, st.sampled_from(STRATEGIES), st.sampled_from([None, 1, 2, 7]))
def test_every_token_lies_in_one_piece(
    case: tuple[int, list[int]], strategy: str, max_docs: int | None
) -> None:
    """For each strategy, limit and way with long documents; only concat cuts what would fit."""
    seq_len, lengths = case
    for long in ("cut", "drop"):
        settings = PackSettings(
            seq_len=seq_len, strategy=strategy, long=long, max_docs_per_row=max_docs, open_rows=3
        )
        pieces = fit(lengths, settings)
        check(pieces, lengths, settings)
        if strategy != "concat":
            count = np.bincount(pieces.document, minlength=len(lengths))
            kept = [n for n in lengths if long == "cut" or n <= seq_len]
            assert sorted(count[count > 0]) == sorted(-(-n // seq_len) for n in kept)
            whole = pieces.length == seq_len
            assert (whole | (pieces.start % seq_len == 0)).all()
            assert pieces.rows >= fewest_rows(np.array(kept, dtype=np.int32), seq_len, max_docs)


@given(lengths_and_window, st.sampled_from(STRATEGIES), st.sampled_from([2, 3, 8]))
def test_aligned_pieces_fit_their_rows(
    case: tuple[int, list[int]], strategy: str, align: int
) -> None:
    """Every piece takes whole units of its row, and begins at one in its document."""
    units, lengths = case
    seq_len = units * align
    for long in ("cut", "drop"):
        settings = PackSettings(
            seq_len=seq_len, strategy=strategy, long=long, align=align, open_rows=3
        )
        pieces = fit(lengths, settings)
        check(pieces, lengths, settings)
        taken = [0] * pieces.rows
        for row, n in zip(pieces.row.tolist(), pieces.length.tolist(), strict=True):
            taken[row] += n + -n % align
        assert all(n <= seq_len for n in taken)
        assert (pieces.start % align == 0).all()
        assert pieces.alignment(align) == sum(taken) - sum(pieces.length.tolist())
        if strategy == "best_fit" and long == "cut":
            rest = [-(-(n % seq_len) // align) for n in lengths if n % seq_len]
            whole = sum(n // seq_len for n in lengths)
            expected = [0] * whole + textbook(rest, units)
            assert sorted(units - n // align for n in taken) == sorted(expected)


def test_align_must_divide_the_window() -> None:
    """A window that is no multiple of it is refused with the nearest that are."""
    with pytest.raises(ValueError, match=r"multiple of align = 16; .* 96 or"):
        PackSettings(seq_len=100, align=16)


def open_rows_oracle(lengths: list[int], seq_len: int, open_rows: int, cap: int) -> list[int]:
    """The row of each document: best fit over open rows, the fullest closed when none holds it."""
    places: list[dict[str, int] | None] = [None] * open_rows
    rows = 0
    result = []
    for n in lengths:
        fits = [(p["room"], i) for i, p in enumerate(places) if p and p["room"] >= n]
        if fits:
            at = min(fits)[1]
        else:
            at = min(range(open_rows), key=lambda i: (places[i] or {"room": -1})["room"])
            places[at] = {"room": seq_len, "row": rows, "docs": 0}
            rows += 1
        place = places[at]
        assert place
        place["room"] -= n
        place["docs"] += 1
        result.append(place["row"])
        if place["docs"] == cap:
            places[at] = None
    return result


@given(lengths_and_window, st.integers(1, 5), st.sampled_from([2, 5, 1000]))
def test_online_is_best_fit_over_open_rows(
    case: tuple[int, list[int]], open_rows: int, cap: int
) -> None:
    """Rows agree with a plain implementation that takes documents in the order of their keys."""
    seq_len, lengths = case
    lengths = [n for n in lengths if n < seq_len]
    settings = PackSettings(
        seq_len=seq_len, strategy="online", open_rows=open_rows, max_docs_per_row=cap
    )
    order = np.argsort(mix64(np.arange(len(lengths)), 0), kind="stable")
    rows = open_rows_oracle([lengths[i] for i in order], seq_len, open_rows, cap)
    pieces = fit(lengths, settings)
    found = dict(zip(pieces.document.tolist(), pieces.row.tolist(), strict=True))
    assert [found[i] for i in order] == rows


@given(lengths_and_window)
def test_concat_fills_every_row_but_the_last(case: tuple[int, list[int]]) -> None:
    """Joined in the order of the keys and cut every `seq_len` tokens."""
    seq_len, lengths = case
    pieces = fit(lengths, PackSettings(seq_len=seq_len, strategy="concat"))
    order = np.argsort(mix64(np.arange(len(lengths)), 0), kind="stable")
    stream = [(int(d), t) for d in order for t in range(lengths[d])]
    laid = [
        (int(d), int(s) + t)
        for d, s, n in zip(pieces.document, pieces.start, pieces.length, strict=True)
        for t in range(n)
    ]
    assert laid == stream
    assert (pieces.row_tokens()[:-1] == seq_len).all()


@given(lengths_and_window, st.sampled_from(STRATEGIES), st.randoms(use_true_random=False))
def test_place_in_the_arguments_does_not_matter(
    case: tuple[int, list[int]], strategy: str, random: object
) -> None:
    """The same (length, key) pairs in another order give the same rows; equal keys go by index."""
    seq_len, lengths = case
    settings = PackSettings(seq_len=seq_len, strategy=strategy, open_rows=2)
    n_tokens = np.array(lengths, dtype=np.int32)
    order = mix64(np.arange(len(lengths)), 5)
    moved = np.array(random.sample(range(len(lengths)), len(lengths)), dtype=np.int64)
    one = fit_rows(n_tokens, order, settings)
    other = fit_rows(n_tokens[moved], order[moved], settings)
    np.testing.assert_array_equal(one.document, moved[other.document])
    np.testing.assert_array_equal(one.row, other.row)
    np.testing.assert_array_equal(one.start, other.start)
    same_key = fit_rows(n_tokens, np.zeros(len(lengths), dtype=np.uint64), settings)
    by_index = fit_rows(n_tokens, np.arange(len(lengths), dtype=np.uint64), settings)
    np.testing.assert_array_equal(same_key.document, by_index.document)


ADVERSARIAL = {
    "empty": [],
    "one token": [1],
    "all equal": [37] * 500,
    "all equal to the window": [100] * 500,
    "all over the window": [101 + i % 300 for i in range(500)],
    "one giant": [1_000_003],
    "a giant among crumbs": [1_000_000, *[1] * 300],
    "exact multiples": [100 * (1 + i % 5) for i in range(300)],
    "one over half": [51] * 300,
    "one below the window": [99] * 200 + [1] * 150,
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_lengths(name: str, strategy: str) -> None:
    """Lengths that break naive packers are placed completely, at the bound by best-fit."""
    settings = PackSettings(seq_len=100, strategy=strategy)
    for cap in (None, 5):
        capped = replace(settings, max_docs_per_row=cap)
        pieces = fit(ADVERSARIAL[name], capped)
        check(pieces, ADVERSARIAL[name], capped)
    if strategy == "best_fit":
        lengths = np.array(ADVERSARIAL[name], dtype=np.int32)
        fewest = 250 if name == "all equal" else fewest_rows(lengths, 100)
        assert fit(ADVERSARIAL[name], settings).rows == fewest


@compiled
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_many_documents_of_one_token(strategy: str) -> None:
    """10^5 documents of one token fill their rows, and a limit of pieces closes rows early."""
    lengths = [1] * 100_000
    settings = PackSettings(seq_len=8192, strategy=strategy)
    assert fit(lengths, settings).rows == 13
    assert fit(lengths, replace(settings, max_docs_per_row=50)).rows == 2000


def log_normal(n: int, median: float, sigma: float) -> np.ndarray:
    """Lengths as text has them."""
    draw = np.random.default_rng(1).standard_normal(n)
    return np.clip(median * np.exp(sigma * draw), 16, 524_288).astype(np.int32)


@compiled
@pytest.mark.parametrize(
    ("median", "sigma"), [(480, 1.25), (700, 1.5), (110_000, 0.6)], ids=["web", "code", "book"]
)
def test_rows_stay_at_the_bound(median: float, sigma: float) -> None:
    """Best-fit of a million documents: at most 0.01 % above tokens over the window."""
    lengths = log_normal(1_000_000, median, sigma)
    pieces = fit_rows(lengths, mix64(np.arange(len(lengths)), 3), PackSettings(seq_len=32768))
    bound = -(-int(lengths.sum(dtype=np.int64)) // 32768)
    assert pieces.rows <= bound + bound // 10_000
    assert pieces.row_tokens().sum(dtype=np.int64) == lengths.sum(dtype=np.int64)


@compiled
def test_a_limit_of_pieces_costs_little() -> None:
    """With room for twice the mean count, best-fit still packs within 0.5 % of the bound."""
    lengths = log_normal(50_000, 480, 1.25)
    settings = PackSettings(seq_len=32768, max_docs_per_row=64)
    pieces = fit_rows(lengths, mix64(np.arange(len(lengths)), 3), settings)
    assert np.bincount(pieces.row).max() <= 64
    assert pieces.rows <= 1.005 * fewest_rows(lengths, 32768, 64)


@compiled
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_memory_is_bounded_by_documents(strategy: str) -> None:
    """At most 100 bytes a document, result included and arguments not."""
    lengths = log_normal(300_000, 480, 1.25)
    order = mix64(np.arange(len(lengths)), 3)
    settings = PackSettings(seq_len=32768, strategy=strategy)
    fit_rows(lengths[:100], order[:100], settings)
    tracemalloc.start()
    fit_rows(lengths, order, settings)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 100 * len(lengths)


def test_bad_documents_are_refused() -> None:
    """A document without tokens is named; arrays of another kind or length are too."""
    order = np.arange(3, dtype=np.uint64)
    with pytest.raises(ShardError, match="document 1 has 0 tokens"):
        fit_rows(np.array([5, 0, 3], dtype=np.int32), order, PackSettings())
    with pytest.raises(ShardError, match="int64"):
        fit_rows(np.array([5, 1, 3]), order, PackSettings())
    with pytest.raises(ShardError, match=r"int32\[2\]"):
        fit_rows(np.array([5, 1], dtype=np.int32), order, PackSettings())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"seq_len": 1}, "greater than or equal to 2"),
        ({"seq_len": 1 << 25}, "less than or equal to 16777216"),
        ({"seq_len": 4096.5}, "valid integer"),
        ({"strategy": "worst_fit"}, "'best_fit', 'sculpt', 'online' or 'concat'"),
        ({"long": "never"}, "'cut', 'keep' or 'drop'"),
        ({"max_docs_per_row": 0}, "greater than 0"),
        ({"open_rows": 0}, "greater than 0"),
        ({"rows_open": 3}, "Unexpected keyword"),
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, object], says: str) -> None:
    """Values out of range, of another type, or under another name do not pass the recipe."""
    with pytest.raises(ValidationError, match=says):
        TypeAdapter(PackSettings).validate_json(json.dumps(wrong))


SAMPLE = """
import hashlib
import numpy as np
from packing.fit import PackSettings, fit_rows
from packing.slots import BalanceSettings, plan_steps
from transforms.record import mix64

digest = hashlib.sha256()
lengths = (mix64(np.arange(120), 1) % np.uint64(250) + np.uint64(1)).astype(np.int32)
order = mix64(np.arange(120), 2)
for keys in (order, order // np.uint64(2**40), np.where(order % 2, order, np.uint64(0))):
    for strategy in ("best_fit", "online", "concat"):
        for cap in (None, 3):
            settings = PackSettings(
                seq_len=100, strategy=strategy, max_docs_per_row=cap, open_rows=4
            )
            pieces = fit_rows(lengths, keys, settings)
            for part in (pieces.row, pieces.document, pieces.start, pieces.length):
                digest.update(part.tobytes())
balance = BalanceSettings(dp=2, micro_batch=2, global_batch=12, horizon=3)
plan = plan_steps(lengths / 7.0, lengths, balance, 5, (lengths % 3).astype(np.int16))
for part in (plan.order, plan.step, plan.slot, plan.rank):
    digest.update(part.tobytes())
print(digest.hexdigest())
"""


def test_kernels_mean_the_same_without_compiler() -> None:
    """Fitting and planning give the same arrays compiled and as plain Python."""
    seen = [
        subprocess.run(
            [sys.executable, "-W", "error::RuntimeWarning", "-c", SAMPLE],
            env={**os.environ, "NUMBA_DISABLE_JIT": disabled},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for disabled in ("0", "1")
    ]
    assert seen[0] == seen[1] != ""

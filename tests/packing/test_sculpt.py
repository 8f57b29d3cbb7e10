"""Rows of documents that belong together: every token once, full rows, one plan for all workers."""

import itertools
import os
import subprocess
import sys
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as budget
from hypothesis import strategies as st

from packing.fit import PackSettings, Pieces, fit_rows
from packing.format import ShardError
from packing.sculpt import sculpt_rows
from packing.sculpt_fill import place, refine
from packing.sculpt_finish import dealt
from packing.sculpt_group import fill_cluster, labels, split
from packing.sculpt_limits import Limits
from packing.sculpt_order import arrange, near_labels, row_relevance
from packing.sculpt_settings import SculptSettings
from packing.sculpt_spread import densest, too_short
from packing.sculpt_state import OPEN
from packing.sculpt_tighten import tighten
from packing.spherical import UNIT, directions, find_centres, nearest, project, to_grid
from transforms.record import mix64

compiled = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="needs compiled kernels")
Vectors = np.ndarray[Any, Any]


def unit(vectors: Vectors) -> Vectors:
    """Scale to length 1, float16."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.maximum(length, 1e-9)).astype(np.float16)


def topics(n: int, k: int, seed: int, width: int = 160, noise: float = 1.0) -> tuple[Any, Any]:
    """Planted topics: the topic of each document, and vectors around the topics' centres."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, k, n)
    centres = unit(rng.standard_normal((k, width))).astype(np.float32)
    spread = unit(rng.standard_normal((n, width))).astype(np.float32)
    return topic, unit(centres[topic] + noise * spread)


def sculpt(lengths: Any, vectors: Vectors, seq_len: int, **options: Any) -> Pieces:
    """Fit with seeded keys."""
    lengths = np.asarray(lengths, np.int32)
    chosen = PackSettings(
        seq_len=seq_len,
        strategy="sculpt",
        max_docs_per_row=options.pop("max_docs", None),
        align=options.pop("align", 1),
        sculpt=SculptSettings(**options),
    )
    return sculpt_rows(lengths, mix64(np.arange(len(lengths)), 3), vectors, chosen)


def check(pieces: Pieces, lengths: Any, seq_len: int) -> None:
    """Every token once, no row over its length, only long documents cut, and into whole rows."""
    lengths = np.asarray(lengths, np.int64)
    assert np.array_equal(np.unique(pieces.row), np.arange(pieces.rows))
    assert (np.diff(pieces.row) >= 0).all()
    assert (pieces.row_tokens() <= seq_len).all()
    order = np.lexsort((pieces.start, pieces.document))
    document, start = pieces.document[order], pieces.start[order].astype(np.int64)
    length = pieces.length[order].astype(np.int64)
    assert np.array_equal(np.bincount(document, length, len(lengths)), lengths)
    first = np.diff(document, prepend=-1) > 0
    assert (start[first] == 0).all()
    assert (start[1:][~first[1:]] == (start + length)[:-1][~first[1:]]).all()
    assert np.array_equal(np.bincount(document, minlength=len(lengths)), -(-lengths // seq_len))


@budget(max_examples=40, deadline=None)
@given(
    st.integers(2, 64),
    st.lists(st.one_of(st.integers(1, 12), st.integers(1, 300)), max_size=120),
    st.integers(0, 5),
    st.sampled_from([None, 1, 3]),
)
def test_any_lengths_place_every_token_once(
    seq_len: int, lengths: list[int], seed: int, max_docs: int | None
) -> None:
    """Whatever the lengths, every token lies in one piece and only long documents are cut."""
    _, vectors = topics(len(lengths), 3, seed, width=16)
    pieces = sculpt(lengths, vectors, seq_len, max_docs=max_docs)
    check(pieces, lengths, seq_len)
    if max_docs and len(lengths):
        assert np.bincount(pieces.row).max() <= max_docs


def test_aligned_pieces_fit_with_their_padding() -> None:
    """With ``align`` pieces take whole units of their row, and every token is still there once."""
    lengths = np.random.default_rng(0).integers(1, 900, 300)
    _, vectors = topics(300, 3, 0, width=16)
    pieces = sculpt(lengths, vectors, 256, align=8)
    assert np.array_equal(np.bincount(pieces.document, pieces.length), lengths)
    assert np.bincount(pieces.row, -(-pieces.length // 8) * 8).max() <= 256
    assert (pieces.start % 256 == 0).all()


def test_long_documents_are_kept_whole_where_ranks_share_rows() -> None:
    """With ``keep`` a document of up to ``widest`` rows is one piece; the rest is packed."""
    lengths = np.random.default_rng(0).integers(1, 900, 200).astype(np.int32)
    _, vectors = topics(200, 3, 0, width=16)
    chosen = PackSettings(seq_len=256, strategy="sculpt", long="keep")
    pieces = sculpt_rows(lengths, mix64(np.arange(200), 1), vectors, chosen, 4)
    assert np.array_equal(pieces.document[np.argsort(pieces.document)], np.arange(200))
    assert np.array_equal(np.bincount(pieces.document, pieces.length), lengths)
    assert pieces.row_tokens()[np.bincount(pieces.row) > 1].max() <= 256


@compiled
@pytest.mark.parametrize("kind", ["equal", "giant", "over", "multiples", "empty", "ones", "halves"])
@pytest.mark.parametrize("alike", ["topics", "same", "zero"])
def test_adversarial_lengths(kind: str, alike: str) -> None:
    """Lengths and vectors of the worst kinds give whole plans near the fewest rows."""
    n, seq_len = 3000, 1024
    rng = np.random.default_rng(1)
    lengths = {
        "equal": np.full(n, 300),
        "giant": np.r_[5_000_000, rng.integers(1, 50, n)],
        "over": rng.integers(1025, 9000, n),
        "multiples": rng.integers(1, 5, n) * 1024,
        "empty": np.empty(0, np.int64),
        "ones": np.ones(200_000, np.int64),
        "halves": rng.integers(500, 530, n),
    }[kind]
    _, vectors = topics(len(lengths), 5, 0, width=16)
    if alike != "topics":
        vectors[:] = vectors[:1] if alike == "same" and len(vectors) else 0
    pieces = sculpt(lengths, vectors, seq_len)
    check(pieces, lengths, seq_len)
    keys = mix64(np.arange(len(lengths)), 0)
    bound = fit_rows(lengths.astype(np.int32), keys, PackSettings(seq_len=seq_len)).rows
    assert pieces.rows <= bound + max(2, bound // (25 if kind == "halves" else 50))


@compiled
@pytest.mark.slow
def test_a_million_of_one_token() -> None:
    """10^6 documents of one token and one vector make full rows."""
    vectors = np.zeros((1_000_000, 8), np.float16)
    vectors[:, 0] = 1
    pieces = sculpt(np.ones(1_000_000), vectors, 4096)
    check(pieces, np.ones(1_000_000), 4096)
    assert pieces.rows == -(-1_000_000 // 4096)


@compiled
def test_planted_topics_share_rows_and_rows_are_full() -> None:
    """Rows hold one topic at 0.9 of what the best could, padding stays under 0.1 %."""
    n, seq_len = 30_000, 4096
    topic, vectors = topics(n, 40, 2, noise=1.5)
    drawn = 480 * np.exp(1.0 * np.random.default_rng(3).standard_normal(2 * n))
    lengths = drawn[(drawn > 16) & (drawn < 4000)][:n].astype(np.int32)
    pieces = sculpt(lengths, vectors, seq_len)
    check(pieces, lengths, seq_len)
    assert pieces.rows * seq_len <= 1.001 * lengths.sum() + seq_len

    def purity(found: Pieces) -> float:
        shared = np.bincount(found.row)[found.row] > 1
        held = np.bincount(
            found.row[shared] * 64 + topic[found.document[shared]],
            found.length[shared],
            64 * found.rows,
        ).reshape(-1, 64)
        return float(held.max(axis=1).sum() / held.sum())

    # The best: every topic packed by itself, as tight as best-fit makes it.
    oracle = 1.0
    assert purity(pieces) >= 0.9 * oracle
    assert purity(fit_rows(lengths, mix64(np.arange(n), 0), PackSettings(seq_len=seq_len))) < 0.5
    counts = np.bincount(pieces.row)
    best = np.bincount(fit_rows(lengths, mix64(np.arange(n), 0), PackSettings(seq_len=seq_len)).row)
    assert counts.std() / counts.mean() <= 0.5 * best.std() / best.mean()


@compiled
def test_plan_depends_on_keys_and_not_on_places() -> None:
    """Documents given in another order make the same rows."""
    _, vectors = topics(4000, 12, 5)
    lengths = np.random.default_rng(6).integers(20, 1500, 4000).astype(np.int32)
    keys = mix64(np.arange(4000), 9)
    chosen = PackSettings(seq_len=2048, strategy="sculpt")
    shuffled = np.random.default_rng(7).permutation(4000)
    one = sculpt_rows(lengths, keys, vectors, chosen)
    two = sculpt_rows(lengths[shuffled], keys[shuffled], vectors[shuffled], chosen)
    assert np.array_equal(one.row, two.row)
    assert np.array_equal(one.document, shuffled[two.document])


@compiled
def test_threads_of_the_blas_change_nothing() -> None:
    """The plan is the same for one BLAS thread and for several."""
    program = (
        "import numpy as np, hashlib\n"
        "from packing.fit import PackSettings\n"
        "from packing.sculpt import sculpt_rows\n"
        "from transforms.record import mix64\n"
        "r = np.random.default_rng(0)\n"
        "v = r.standard_normal((5000, 300)); v /= np.linalg.norm(v, axis=1, keepdims=True)\n"
        "n = r.integers(10, 900, 5000).astype(np.int32)\n"
        "p = sculpt_rows(n, mix64(np.arange(5000), 1), v, "
        "PackSettings(seq_len=1024, strategy='sculpt'))\n"
        "print(hashlib.sha256(p.document.tobytes() + p.row.tobytes()).hexdigest())\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(found) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [(np.nan, "document 2: value nan at place 1"), (np.inf, "value inf"), (0.9, "of length")],
)
def test_bad_vectors_are_refused(change: float, message: str) -> None:
    """A vector with no number or another length is refused with document, value and remedy."""
    _, vectors = topics(5, 2, 0, width=4)
    vectors[2] = 0.5
    vectors[2, 1] = change
    with pytest.raises(ShardError, match=message):
        sculpt([5, 5, 5, 5, 5], vectors, 8)


def test_vectors_of_another_width_are_refused() -> None:
    """The error names the document and both widths."""
    with pytest.raises(ShardError, match="document 7: vector of width 3 where 4 is expected"):
        to_grid(np.zeros((1, 3), np.float16), np.array([7]), 4)


def test_near_duplicates_do_not_share_a_row_where_it_can_be_avoided() -> None:
    """Each document is there four times; no row holds two of the four."""
    _, vectors = topics(60, 60, 4, width=32)
    vectors = np.tile(vectors, (4, 1))
    pieces = sculpt(np.full(240, 10), vectors, 100)
    pairs = np.unique(pieces.row * 60 + pieces.document % 60)
    assert len(pairs) == 240


@compiled
def test_rows_are_in_seeded_order() -> None:
    """The place of a row says nothing of the places of its documents (Spearman < 0.05)."""
    n = 20_000
    topic, vectors = topics(n, 30, 8)
    order = np.argsort(topic, kind="stable")
    pieces = sculpt(np.random.default_rng(1).integers(20, 900, n), vectors[order], 4096)
    ranks = np.argsort(np.argsort(pieces.row, kind="stable"))
    found = np.corrcoef(ranks, pieces.document)[0, 1]
    assert abs(found) < 0.05


# The kernels against plain Python.


def small(seed: int, n: int = 40, d: int = 6) -> tuple[Any, Any]:
    """Some projected vectors, and lengths in descending order."""
    rng = np.random.default_rng(seed)
    points = rng.integers(-400, 400, (n, d)).astype(np.int16)
    return points, -np.sort(-rng.integers(1, 30, n)).astype(np.int32)


def relevance(points: Any, row: Any) -> float:
    """Sum over documents of the mean dot product with the others of their row."""
    total = 0.0
    for r in set(row.tolist()) - {OPEN}:
        inside = points[row == r].astype(float)
        if len(inside) > 1:
            gram = inside @ inside.T
            total += (gram.sum() - np.trace(gram)) / (len(inside) - 1)
    return total


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("product", [False, True])
def test_place_takes_the_row_of_the_best_score(seed: int, product: bool) -> None:
    """Each document goes where the formula says, computed here from the members' vectors."""
    points, length = small(seed)
    weights = np.array([0.5, 0.3, 0.2])
    rows, seq_len, n = 12, 60, len(points)
    row = np.full(n, OPEN, np.int32)
    place(points, length, rows, seq_len, 6, np.full(n, -1, np.int32), 1, weights, product, row)
    for i in range(n):
        scores = []
        for b in range(rows):
            members = points[:i][row[:i] == b].astype(float)
            room = seq_len - int(length[:i][row[:i] == b].sum())
            if room < length[i] or len(members) >= 6:
                scores.append(-np.inf)
                continue
            cosine = 1.0 if product else 0.5
            if len(members):
                mean = np.rint(members.mean(axis=0))
                scale = np.linalg.norm(mean) * np.linalg.norm(points[i].astype(float))
                cosine = float(mean @ points[i]) / scale if scale else 0.0
            count = len(members) / (n / rows)
            scores.append(
                cosine * room if product else 0.5 * cosine + 0.3 * room / seq_len - 0.2 * count
            )
        if max(scores) == -np.inf:
            assert row[i] == OPEN
        else:
            assert scores[row[i]] == pytest.approx(max(scores), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_refining_raises_relevance_and_keeps_the_rows_whole(seed: int) -> None:
    """Relevance never falls, no row runs over, and no document is lost."""
    points, length = small(seed, 60)
    rows, seq_len, n = 20, 60, len(points)
    row = np.full(n, OPEN, np.int32)
    free = np.full(n, -1, np.int32)
    place(points, length, rows, seq_len, 99, free, 1, np.array([0.0, 1.0, 0.0]), False, row)
    before, open_before = relevance(points, row), int((row == OPEN).sum())
    changes = refine(points, length, rows, seq_len, 99, free, 1, 0.0, 5, row)
    assert changes > 0
    assert relevance(points, row) > before
    assert int((row == OPEN).sum()) == open_before
    assert np.bincount(row[row >= 0], length[row >= 0]).max() <= seq_len


@pytest.mark.parametrize("seed", range(4))
def test_tightened_rows_are_full(seed: int) -> None:
    """What is left in rows fills each to within the slack, and most documents are in one."""
    points, length = small(seed, 150)
    rows, seq_len, n = 45, 60, len(points)
    row = np.full(n, OPEN, np.int32)
    free = np.full(n, -1, np.int32)
    place(points, length, rows, seq_len, 99, free, 1, np.array([0.5, 0.1, 0.0]), False, row)
    tighten(points, length, rows, seq_len, 99, free, 1, 1, -1.0, row)
    used = np.unique(row[row >= 0])
    tokens = np.bincount(row[row >= 0], length[row >= 0])
    assert set(tokens[used].tolist()) <= {59, 60}
    assert length[row >= 0].sum() > 0.7 * length.sum()


def test_arranged_rows_follow_the_most_similar() -> None:
    """From the first document on, each is followed by the most similar of the rest."""
    points, _ = small(3, 20)
    begin = np.array([0, 1, 9, 9, 20])
    member = np.random.default_rng(0).permutation(20)
    given_order = member.copy()
    arrange(points, begin, member, 100)
    for low, high in itertools.pairwise(begin):
        assert sorted(member[low:high]) == sorted(given_order[low:high])
        assert low == high or member[low] == given_order[low]
        for at in range(low + 1, high):
            rest = points[member[at:high]].astype(int) @ points[member[at - 1]].astype(int)
            assert rest[0] == rest.max()


def test_row_relevance_is_the_mean_cosine_of_pairs() -> None:
    """The kernel agrees with the pairs one by one."""
    _, vectors = topics(12, 3, 1, width=8)
    grid = to_grid(vectors, np.arange(12), 8)
    begin, member = np.array([0, 5, 6, 12]), np.arange(12)
    found = np.zeros(3)
    row_relevance(grid, begin, member, found)
    for r, (low, high) in enumerate([(0, 5), (5, 6), (6, 12)]):
        part = grid[low:high].astype(float) / UNIT
        pairs = [part[i] @ part[j] for i in range(len(part)) for j in range(i)]
        assert found[r] == pytest.approx(np.mean(pairs) if pairs else 0.0, abs=1e-9)


def test_near_labels_join_what_is_nearly_the_same() -> None:
    """Exactly the documents with an earlier near one, and those, have a label, the same one."""
    _, vectors = topics(6, 6, 2, width=32)
    grid = to_grid(vectors[[0, 1, 0, 2, 1, 3, 0]], np.arange(7), 32)
    label = np.empty(7, np.int32)
    assert near_labels(grid, grid, 0.95, label) == 2
    assert label.tolist() == [0, 1, 0, -1, 1, -1, 0]
    assert labels(grid, grid, np.ones(7, np.int32), 0.95).tolist() == label.tolist()


def test_split_parts_are_within_limits_and_cover_the_group() -> None:
    """Every document is in one part; parts keep to both limits."""
    _, vectors = topics(300, 4, 3, width=16)
    grid = to_grid(vectors, np.arange(300), 16)
    tokens = np.random.default_rng(2).integers(1, 50, 300).astype(np.int32)
    parts = list(split(grid, tokens, np.arange(300), 1500, 90))
    assert sorted(np.concatenate(parts).tolist()) == list(range(300))
    assert all(len(p) <= 90 and tokens[p].sum() <= 1500 for p in parts)


def test_assigning_finds_the_most_similar_centre() -> None:
    """With one level the tree gives the very best; vectors keep their cosines when projected."""
    topic, vectors = topics(800, 6, 4)
    grid = to_grid(vectors, np.arange(800), 160)
    basis = directions(grid, np.arange(800))
    points = project(grid, basis)
    exact = vectors.astype(np.float64) @ vectors.astype(np.float64)[0]
    assert np.corrcoef(exact, points.astype(float) @ points[0])[0, 1] > 0.9
    centres = find_centres(points, np.ones(800, np.int64), 6, basis)
    found = centres.assign(points)
    scores = points.astype(np.int64) @ centres.leaf.astype(np.int64).T
    assert np.array_equal(found, scores.argmax(axis=1))
    assert np.array_equal(found, nearest(points, centres.leaf))
    held = np.bincount(found * 6 + topic, minlength=6 * centres.clusters).reshape(-1, 6)
    assert held.max(axis=1).sum() > 0.95 * 800


def test_a_cluster_is_filled_alone() -> None:
    """What a cluster's rows are depends on its documents only: part by part they are the same."""
    _, vectors = topics(200, 2, 6, width=16)
    grid = to_grid(vectors, np.arange(200), 16)
    tokens = np.random.default_rng(4).integers(1, 60, 200).astype(np.int32)
    limits = Limits(128, 1 << 30, SculptSettings())
    found = fill_cluster(grid, grid, tokens, limits)
    again = fill_cluster(grid.copy(), grid.copy(), tokens.copy(), limits)
    assert np.array_equal(found, again)
    used = np.bincount(found[found >= 0], tokens[found >= 0])
    assert (used == 128).all()


# How far apart the numbers of documents of rows may lie.


def test_the_shortest_leave_until_the_mean_row_has_few_enough() -> None:
    """What stays are the longest, the most of them whose mean row keeps to the limit."""
    lengths = np.random.default_rng(5).integers(1, 60, 400).astype(np.int32)
    limits = Limits(1000, 1 << 30, SculptSettings(), 25.0)
    short = too_short(lengths, limits)
    assert 0 < short.sum() < 400
    stay = np.sort(lengths[~short])[::-1]
    assert lengths[short].max() <= stay.min()
    assert len(stay) * 1000 <= 25 * stay.sum()
    longer = np.append(stay, lengths[short].max())
    assert len(longer) * 1000 > 25 * longer.sum()
    assert not too_short(lengths, Limits(1000, 1 << 30, SculptSettings())).any()


def test_the_limit_keeps_equal_rows_to_the_squares() -> None:
    """Clusters of one length each: the limit lies where the squares of their rows say so."""
    cluster = np.repeat([0, 1], [4000, 40]).astype(np.int32)
    lengths = np.repeat([10, 1000], [4000, 40]).astype(np.int32)
    # 40 rows of 100 and 40 of one.
    whole = 40 * 100.0**2 + 40
    assert densest(cluster, lengths, 4040, 1000, whole * 1.01) > 1e6
    assert densest(cluster, lengths, 4040, 1000, whole * 0.5) < 100
    assert densest(cluster[:0], lengths[:0], 0, 1000, 1.0) > 1e6


def test_spare_documents_are_dealt_by_what_blocks_lack() -> None:
    """Every document is in one block, in its order; a block that lacks more gets more."""
    lengths = np.r_[np.full(10, 60), np.full(10, 100), np.full(40, 5)].astype(np.int32)
    limits = Limits(100, 1 << 30, SculptSettings())
    order, ends = dealt(np.arange(20), np.arange(20, 60), lengths, limits, 6)
    assert sorted(order.tolist()) == list(range(60))
    assert ends[-1] == 60
    for kind in (order[order < 20], order[order >= 20]):
        assert (np.diff(kind) > 0).all()
    first = order[: ends[0]]
    assert (lengths[first[first < 20]] == 60).all()
    last = order[ends[-2] :]
    assert (first >= 20).sum() > 1 >= (last >= 20).sum()


@compiled
def test_topics_of_short_documents_are_shared_out() -> None:
    """Half of best-fit's spread is kept to, where some topics have most of the short documents."""
    n = 12_000
    topic, vectors = topics(n, 12, 9, noise=1.0)
    typical = np.where(topic < 6, 60, 800)
    drawn = typical * np.exp(0.9 * np.random.default_rng(7).standard_normal(n))
    lengths = np.clip(drawn, 8, 4000).astype(np.int32)
    pieces = sculpt(lengths, vectors, 4096)
    check(pieces, lengths, 4096)
    best = np.bincount(fit_rows(lengths, mix64(np.arange(n), 0), PackSettings(seq_len=4096)).row)
    count = np.bincount(pieces.row)
    assert count.std() / count.mean() <= 0.5 * best.std() / best.mean()
    assert pieces.rows <= 1.001 * len(best) + 1


def test_halves_are_rounded_as_other_floats() -> None:
    """float16 goes through a table; the result is that of float32."""
    _, vectors = topics(50, 3, 1, width=24)
    one = to_grid(vectors, np.arange(50), 24)
    assert np.array_equal(one, to_grid(vectors.astype(np.float32), np.arange(50), 24))
    assert np.array_equal(one, np.rint(vectors.astype(np.float64) * UNIT))

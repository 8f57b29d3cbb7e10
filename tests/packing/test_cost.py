"""The cost model against counts of multiplications."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.cost import SHAPE_SIZES, ModelShape, attention_squares, row_cost
from packing.slots import BalanceSettings

SHAPE = ModelShape(layers=3, hidden=8, heads=4, kv_heads=2, head_dim=6, ffn=20)


def matrices(shape: ModelShape) -> list[tuple[int, int]]:
    """The weight matrices of a decoder, written out."""
    layer = [
        (shape.hidden, shape.heads * shape.head_dim),
        (shape.hidden, shape.kv_heads * shape.head_dim),
        (shape.hidden, shape.kv_heads * shape.head_dim),
        (shape.heads * shape.head_dim, shape.hidden),
        (shape.hidden, shape.ffn),
        (shape.hidden, shape.ffn),
        (shape.ffn, shape.hidden),
    ]
    return layer * shape.layers + [(shape.hidden, shape.vocab)]


@pytest.mark.parametrize("vocab", [0, 100])
def test_parameters_are_those_of_the_matrices(vocab: int) -> None:
    """Every projection once; the head only when its size is given."""
    shape = ModelShape(layers=3, hidden=8, heads=4, kv_heads=2, head_dim=6, ffn=20, vocab=vocab)
    assert shape.parameters == sum(a * b for a, b in matrices(shape))


@given(st.lists(st.integers(1, 200), min_size=1, max_size=8))
def test_cost_counts_multiplications(pieces: list[int]) -> None:
    """Three times the forward pass: 2 FLOP a weight and token, causal attention inside pieces."""
    tokens = sum(pieces)
    forward = 2 * tokens * sum(a * b for a, b in matrices(SHAPE))
    for n in pieces:
        # Scores and weighted values: 2 FLOP each per head dimension, over half of n x n.
        forward += SHAPE.layers * SHAPE.heads * SHAPE.head_dim * 2 * 2 * n * n / 2
    cost = row_cost([tokens], [sum(n * n for n in pieces)], SHAPE)
    np.testing.assert_allclose(cost, [3 * forward / 1e12], rtol=1e-12)


def test_one_long_piece_costs_more_than_many_short() -> None:
    """Equal tokens are not equal work, and a 128K document costs several times its tokens."""
    shape = ModelShape(layers=32, hidden=4096, heads=32, kv_heads=32, head_dim=128, ffn=11008)
    n = 131_072
    one, many = row_cost([n, n], [n * n, n * 512], shape)
    assert 3 < one / many < 4.5
    assert row_cost(np.zeros(0), np.zeros(0), shape).shape == (0,)


def test_experts_count_where_they_are_active() -> None:
    """A token meets the router, its active and shared experts, and dense layers in full."""
    shape = ModelShape(
        layers=5,
        hidden=8,
        heads=4,
        kv_heads=2,
        head_dim=6,
        ffn=20,
        experts=16,
        active_experts=2,
        shared_experts=1,
        expert_ffn=7,
        dense_layers=2,
    )
    attention = matrices(SHAPE)[:4]
    dense = [(8, 20), (8, 20), (20, 8)]
    expert = [(8, 7), (8, 7), (7, 8)]
    weights = (attention + dense) * 2 + (attention + [(8, 16)] + expert * 3) * 3
    assert shape.parameters == sum(a * b for a, b in weights)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.integers(1, 70), st.integers(0, 3))
def test_sliding_window_counts_pairs(pieces: list[int], window: int, full: int) -> None:
    """Every pair that a layer attends to, written out; a window over the piece changes nothing."""
    shape = ModelShape(
        layers=3,
        hidden=8,
        heads=4,
        kv_heads=2,
        head_dim=6,
        ffn=20,
        sliding_window=window,
        full_layers=full,
    )
    for n in pieces:
        total = 0
        for layer in range(3):
            reach = n if layer < full else window
            pairs = [(i, j) for i in range(n) for j in range(i + 1) if i - j < reach]
            total += sum(1 if i == j else 2 for i, j in pairs)
        found = attention_squares(np.array([n], np.int32), shape)
        np.testing.assert_allclose(found * 3, [total], rtol=1e-12)
        if window >= n:
            assert found.tolist() == [n * n]


def test_plain_cost_is_what_it_was() -> None:
    """Without experts and window the numbers are bit for bit those of the plain formula."""
    rng = np.random.default_rng(3)
    tokens, squares = rng.integers(1, 1 << 17, 100), rng.integers(1, 1 << 34, 100)
    plain = (
        tokens.astype(np.float64) * float(6 * SHAPE.parameters)
        + squares.astype(np.float64) * float(6 * 3 * 4 * 6)
    ) / 1e12
    assert row_cost(tokens, squares, SHAPE).tobytes() == plain.tobytes()
    length = tokens.astype(np.int32)
    found = attention_squares(length, SHAPE)
    assert found.tobytes() == (length.astype(np.float64) ** 2).tobytes()


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"active_experts": 2}, "active_experts = 2 belongs to a model with experts"),
        ({"experts": 8}, "active_experts = 0 of experts = 8; set active_experts between 1 and 8"),
        ({"experts": 8, "active_experts": 9, "expert_ffn": 4}, "active_experts = 9"),
        ({"experts": 8, "active_experts": 2}, "set expert_ffn"),
        ({"full_layers": 2}, "full_layers = 2 without sliding_window"),
        ({"sliding_window": 64, "full_layers": 17}, "full_layers = 17 of layers = 16"),
    ],
)
def test_contradicting_sizes_are_refused(sizes: dict[str, int], said: str) -> None:
    """Sizes of a model that cannot be are named with their value and what to do."""
    with pytest.raises(ValueError, match=said):
        BalanceSettings(**sizes)


def test_settings_reach_the_shape() -> None:
    """Every size of the settings is one of the shape's."""
    sizes = {"experts": 8, "active_experts": 2, "expert_ffn": 64, "sliding_window": 4096}
    shape = BalanceSettings(layers=4, full_layers=1, dense_layers=1, **sizes).shape
    assert {name: getattr(shape, name) for name in sizes} == sizes
    assert (shape.layers, shape.full_layers, shape.dense_layers) == (4, 1, 1)
    assert set(SHAPE_SIZES) <= set(BalanceSettings.__dataclass_fields__)


def test_cost_needs_numpy_alone() -> None:
    """Importing the cost model loads neither numba nor pyarrow: a trainer can vendor it."""
    code = "import sys, packing.cost; print({'numba', 'pyarrow', 'duckdb'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"

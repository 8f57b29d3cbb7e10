"""The cost model against counts of multiplications."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packing.cost import ModelShape, row_cost

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


def test_cost_needs_numpy_alone() -> None:
    """Importing the cost model loads neither numba nor pyarrow: a trainer can vendor it."""
    code = "import sys, packing.cost; print({'numba', 'pyarrow', 'duckdb'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"

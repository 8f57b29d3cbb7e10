"""What a packed row costs to train, in TFLOP: the one cost model of planning and training.

Only numpy and the standard library are imported here, so that the trainer can use it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The sizes of a decoder that decide what a token costs."""

    layers: int
    """Decoder layers."""
    hidden: int
    """Width of the residual stream."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads."""
    head_dim: int
    """Width of one head."""
    ffn: int
    """Inner width of the gated MLP (three projections)."""
    vocab: int = 0
    """Rows of the output head; 0 leaves the head out of the cost."""

    @property
    def parameters(self) -> int:
        """Weights that multiply every token: the projections of all layers, and the head if any."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        mlp = 3 * self.hidden * self.ffn
        return self.layers * (attention + mlp) + self.hidden * self.vocab


def row_cost(
    n_tokens: npt.ArrayLike, sum_of_squares: npt.ArrayLike, shape: ModelShape
) -> npt.NDArray[np.float64]:
    """Return the cost of packed rows, forward and backward, in TFLOP.

    ``6 parameters tokens + 6 layers heads head_dim sum(len^2)``: a weight costs 2 FLOP a token
    forward and 4 backward; causal attention inside a piece of ``len`` tokens costs
    ``2 * 2 * len^2 / 2`` per layer and head dimension forward, and twice that backward.

    Args:
        n_tokens: tokens of each row, any shape.
        sum_of_squares: sum over the row's pieces of their squared lengths, same shape.
        shape: the model.

    Returns:
        The same shape, float64.
    """
    linear = np.asarray(n_tokens, dtype=np.float64) * float(6 * shape.parameters)
    attention = np.asarray(sum_of_squares, dtype=np.float64) * float(
        6 * shape.layers * shape.heads * shape.head_dim
    )
    return (linear + attention) / 1e12

"""What a packed row costs to train, in TFLOP: the one cost model of planning and training.

Only numpy and the standard library are imported here, so that the trainer can use it.
"""

from dataclasses import dataclass, fields

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
    experts: int = 0
    """Routed experts of a layer; 0 for a model without experts."""
    active_experts: int = 0
    """Routed experts that compute each token."""
    shared_experts: int = 0
    """Experts that compute every token."""
    expert_ffn: int = 0
    """Inner width of one expert's gated MLP."""
    dense_layers: int = 0
    """Layers of a model with experts that have one MLP of ``ffn`` instead."""
    sliding_window: int = 0
    """Tokens that a token attends to, itself included; 0 for all tokens before it."""
    full_layers: int = 0
    """Layers of a model with a sliding window that attend to all tokens before."""

    @property
    def parameters(self) -> int:
        """Weights that multiply a token: the projections of all layers, and the head if any.

        Of experts those that are active, and the router.
        """
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        mlp = 3 * self.hidden * self.ffn
        head = self.hidden * self.vocab
        if not self.experts:
            return self.layers * (attention + mlp) + head
        active = 3 * self.hidden * self.expert_ffn * (self.active_experts + self.shared_experts)
        sparse = self.layers - self.dense_layers
        routed = sparse * (active + self.hidden * self.experts)
        return self.layers * attention + self.dense_layers * mlp + routed + head

    def problem(self) -> str | None:
        """Return what is wrong with the sizes and what to do, or None."""
        parts = ("active_experts", "shared_experts", "expert_ffn", "dense_layers")
        lone = [name for name in parts if getattr(self, name)]
        if not self.experts and lone:
            return (
                f"{lone[0]} = {getattr(self, lone[0])} belongs to a model with experts, and "
                f"experts = 0; set experts, or remove {lone[0]}"
            )
        if self.experts and not 1 <= self.active_experts <= self.experts:
            return (
                f"active_experts = {self.active_experts} of experts = {self.experts}; set "
                f"active_experts between 1 and {self.experts}"
            )
        if self.experts and not self.expert_ffn:
            return "experts without expert_ffn; set expert_ffn to the inner width of one expert"
        if self.full_layers and not self.sliding_window:
            return (
                f"full_layers = {self.full_layers} without sliding_window, so every layer attends "
                "to all tokens; set sliding_window, or remove full_layers"
            )
        for name in ("dense_layers", "full_layers"):
            if getattr(self, name) > self.layers:
                return (
                    f"{name} = {getattr(self, name)} of layers = {self.layers}; set {name} to at "
                    f"most {self.layers}"
                )
        return None


SHAPE_SIZES = tuple(f.name for f in fields(ModelShape) if f.name != "vocab")
"""The sizes that settings give; the vocabulary comes from the dataset."""


def attention_squares(
    length: npt.NDArray[np.integer], shape: ModelShape
) -> npt.NDArray[np.float64]:
    """Return what the attention inside pieces costs, in pairs of tokens: ``len^2`` or less.

    A token and one before it are two of the ``len^2`` pairs, a token and itself is one. A sliding
    window of ``w`` tokens leaves out those that are ``w`` or more apart: with ``m = len - w`` of
    them for the first token, ``m (m + 1)`` pairs. Layers that attend to everything count in full;
    the result is the mean over layers.

    Args:
        length: tokens of each piece, any shape.
        shape: the model.

    Returns:
        The same shape, float64; sums of it over a row's pieces are what `row_cost` takes.
    """
    squares = length.astype(np.float64) ** 2
    if not shape.sliding_window:
        return squares
    beyond = np.maximum(length.astype(np.float64) - shape.sliding_window, 0)
    beyond *= beyond + 1
    return squares - beyond * ((shape.layers - shape.full_layers) / shape.layers)


def row_cost(
    n_tokens: npt.ArrayLike, sum_of_squares: npt.ArrayLike, shape: ModelShape
) -> npt.NDArray[np.float64]:
    """Return the cost of packed rows, forward and backward, in TFLOP.

    ``6 parameters tokens + 6 layers heads head_dim sum(len^2)``: a weight costs 2 FLOP a token
    forward and 4 backward; causal attention inside a piece of ``len`` tokens costs
    ``2 * 2 * len^2 / 2`` per layer and head dimension forward, and twice that backward. With
    experts the parameters are those that are active, with a sliding window the squares are those
    of `attention_squares`.

    Args:
        n_tokens: tokens of each row, any shape.
        sum_of_squares: sum over the row's pieces of their `attention_squares`, same shape.
        shape: the model.

    Returns:
        The same shape, float64.
    """
    linear = np.asarray(n_tokens, dtype=np.float64) * float(6 * shape.parameters)
    attention = np.asarray(sum_of_squares, dtype=np.float64) * float(
        6 * shape.layers * shape.heads * shape.head_dim
    )
    return (linear + attention) / 1e12

"""The weights of a layer as a planned layer takes them."""

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from trainer.experts import ExpertWeights


class DenseWeights(NamedTuple):
    """Weights of a layer with one MLP."""

    input_norm: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    attention_norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


class SparseWeights(NamedTuple):
    """Weights of a layer with experts; the last seven are :class:`ExpertWeights`."""

    input_norm: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    attention_norm: Tensor
    router: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor
    shared_gate: Tensor
    shared_up: Tensor
    shared_down: Tensor

    def experts(self) -> ExpertWeights:
        """Return the weights of the experts."""
        return ExpertWeights(*self[6:])


LayerWeights: TypeAlias = DenseWeights | SparseWeights


def cast(weights: LayerWeights, dtype: torch.dtype) -> LayerWeights:
    """Return the matrices in the dtype that is computed in; norms and router stay as they are."""
    return type(weights)(
        *(
            w if w.dim() == 1 or name == "router" else w.to(dtype)
            for name, w in zip(weights._fields, weights, strict=True)
        )
    )

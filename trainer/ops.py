"""The token-wise operations of a decoder layer: projection, RMSNorm, rotary positions, SwiGLU."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from trainer.architecture import Architecture

NORM_EPS = 1e-5
"""What RMSNorm adds to the mean square where nothing else is said."""


class Projection(nn.Module):
    """A linear map, without bias by default, whose weight is cast to the dtype of its input.

    The weight itself stays in the dtype the optimizer updates it in (float32 under bfloat16).
    """

    def __init__(self, inputs: int, outputs: int, *, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x`` [tokens, inputs] to [tokens, outputs]."""
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return functional.linear(x, self.weight.to(x.dtype), bias)


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last dimension, computed in at least float32."""

    def __init__(self, width: int, eps: float = NORM_EPS) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Return the normed ``x``, same shape and dtype."""
        return rms_norm(x, self.weight, self.eps)


def rms_norm(x: Tensor, weight: Tensor, eps: float = NORM_EPS) -> Tensor:
    """Return ``x`` over the root of the mean of its squares, times ``weight``."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * scale * weight).to(x.dtype)


def rms_norm_backward(
    x: Tensor, weight: Tensor, d_out: Tensor, eps: float = NORM_EPS
) -> tuple[Tensor, Tensor]:
    """Return the gradients of :func:`rms_norm` for ``x`` and ``weight``, in at least float32."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    normed = wide * scale
    d_wide = d_out.to(wide.dtype)
    d_normed = d_wide * weight
    inward = (d_normed * normed).mean(-1, keepdim=True)
    return (d_normed - normed * inward) * scale, (d_wide * normed).sum(0)


def rotary_table(
    positions: Tensor,
    head_dim: int,
    dtype: torch.dtype,
    architecture: Architecture | None = None,
) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of the rotary angles, each [tokens, 1, head_dim // 2].

    The angles are made in float64: at position 1M a float32 angle is off by 0.03 radians.

    Args:
        positions: position of each token within its document, [tokens], integers.
        head_dim: width of a head, even.
        dtype: dtype of the result.
        architecture: whose frequencies; by default those of Llama 3.
    """
    found = (architecture or Architecture()).frequencies(head_dim)
    frequencies = torch.tensor(found, dtype=torch.float64, device=positions.device)
    angles = positions.to(torch.float64)[:, None, None] * frequencies
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Turn queries or keys [tokens, heads, head_dim] by their positions' angles.

    Halves are paired (dimension i with i + head_dim / 2), as in Hugging Face's Llama.
    """
    cos, sin = table
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
    return turned.to(x.dtype)


def rotate_backward(d_out: Tensor, table: tuple[Tensor, Tensor]) -> Tensor:
    """Return the gradient of :func:`rotate`: turned back by the same angles."""
    cos, sin = table
    first, second = d_out.chunk(2, dim=-1)
    turned = torch.cat((first * cos + second * sin, second * cos - first * sin), dim=-1)
    return turned.to(d_out.dtype)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """Return ``silu(gate) * up``, the inside of the gated MLP."""
    return functional.silu(gate) * up


def swiglu_backward(gate: Tensor, up: Tensor, d_out: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of :func:`swiglu` for ``gate`` and ``up``."""
    wide = torch.promote_types(gate.dtype, torch.float32)
    d_wide, x = d_out.to(wide), gate.to(wide)
    sigmoid = torch.sigmoid(x)
    silu = x * sigmoid
    d_gate = d_wide * up.to(wide) * (sigmoid + silu * (1 - sigmoid))
    return d_gate.to(gate.dtype), (d_wide * silu).to(up.dtype)

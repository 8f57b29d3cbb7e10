"""Weights of 16 bits whose float32 masters lie in 16 bits more, and AdamW over them.

A weight is the master rounded to bfloat16; what rounding took off is a signed number of 16 bits, so
that both together are the master to the last bit. What is computed with needs no cast then, and no
copy. Moments and gradients are float32.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn


def split(master: Tensor) -> tuple[Tensor, Tensor]:
    """Return a float32 tensor as bfloat16, rounded to nearest, and the int16 that rounding took off.

    Ties go away from zero; :func:`torch.Tensor.to` rounds them to even. Any bits come back by
    :func:`join`, those of infinities and NaN too.
    """
    bits = master.contiguous().view(torch.int32)
    high = (bits + 0x8000) >> 16
    low = bits - (high << 16)
    return high.to(torch.int16).view(torch.bfloat16), low.to(torch.int16)


def join(weight: Tensor, low: Tensor) -> Tensor:
    """Return the float32 master of a bfloat16 weight and its 16 bits more."""
    high = weight.contiguous().view(torch.int16).to(torch.int32) << 16
    return (high + low.to(torch.int32)).view(torch.float32)


class SplitAdamW(torch.optim.Optimizer):
    """AdamW (Loshchilov & Hutter, algorithm 2) by the steps of torch's own for one tensor.

    Args:
        groups: parameter groups, each with its weight decay.
        lr: learning rate.
        betas: decay of the moments.
        eps: added to the root of the second moment.
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        lr: float,
        betas: tuple[float, float],
        eps: float = 1e-8,
    ) -> None:
        super().__init__(groups, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})

    def split_weight(self, weight: nn.Parameter) -> None:
        """Turn a float32 weight into one of 16 bits; its gradient stays float32."""
        high, low = split(weight.data)
        weight.data = high
        weight.grad_dtype = torch.float32  # type: ignore[attr-defined]
        self.state[weight]["low"] = low

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update the weights that have a gradient."""
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._update(weight, weight.grad, group)

    def _update(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if "step" not in state:
            state["step"] = torch.zeros(())
            state["exp_avg"] = torch.zeros_like(gradient)
            state["exp_avg_sq"] = torch.zeros_like(gradient)
        is_split = "low" in state
        master = join(weight, state["low"]) if is_split else weight
        state["step"] += 1
        count, (beta1, beta2) = state["step"].item(), group["betas"]
        first, second = state["exp_avg"], state["exp_avg_sq"]
        master.mul_(1 - group["lr"] * group["weight_decay"])
        first.lerp_(gradient, 1 - beta1)
        second.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        root = (second.sqrt() / (1 - beta2**count) ** 0.5).add_(group["eps"])
        master.addcdiv_(first, root, value=-group["lr"] / (1 - beta1**count))
        if is_split:
            high, low = split(master)
            weight.copy_(high)
            state["low"].copy_(low)

"""Weighted cross-entropy of a linear head, in chunks, so that all logits never exist at once.

A 32K-token row with a vocabulary of 128K would have 16 GiB of float32 logits, and their gradient
as much again. Here the logits of ``CHUNK_TOKENS`` tokens exist at a time: their gradient with
respect to the hidden states and to the head's weight is made in the forward pass, where the logits
are at hand, and scaled in the backward pass.
"""

from typing import Any

import torch
from torch import Tensor

CHUNK_TOKENS = 1024


class _HeadLoss(torch.autograd.Function):
    """``sum_i weights[i] * -log softmax(hidden[i] @ head.T)[labels[i]]``."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
        wide = torch.promote_types(hidden.dtype, torch.float32)
        cast = head.to(hidden.dtype)
        total = torch.zeros((), dtype=wide, device=hidden.device)
        d_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        d_head = torch.zeros_like(head, dtype=wide) if ctx.needs_input_grad[1] else None
        for chunk in range(0, hidden.shape[0], CHUNK_TOKENS):
            rows = slice(chunk, chunk + CHUNK_TOKENS)
            logits = (hidden[rows] @ cast.T).to(wide)
            targets, scale = labels[rows, None], weights[rows, None].to(wide)
            log_partition = torch.logsumexp(logits, dim=1, keepdim=True)
            total += (scale * (log_partition - logits.gather(1, targets))).sum()
            if d_hidden is None and d_head is None:
                continue
            d_logits = (logits - log_partition).exp_().mul_(scale)
            d_logits.scatter_add_(1, targets, -scale)
            d_logits = d_logits.to(hidden.dtype)
            if d_hidden is not None:
                d_hidden[rows] = d_logits @ cast
            if d_head is not None:
                d_head += (d_logits.T @ hidden[rows]).to(wide)
        ctx.save_for_backward(d_hidden, d_head)
        ctx.head_dtype = head.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        d_hidden, d_head = ctx.saved_tensors
        (scale,) = upstream
        if d_hidden is not None:
            d_hidden = d_hidden * scale.to(d_hidden.dtype)
        if d_head is not None:
            d_head = (d_head * scale).to(ctx.head_dtype)
        return d_hidden, d_head, None, None


def head_loss(hidden: Tensor, head: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted sum of the cross-entropies of the trained tokens.

    Divided by the sum of the weights of the whole step, over every micro-batch of every rank, it is
    the token mean that the step descends on.

    Args:
        hidden: last hidden states, [tokens, hidden].
        head: weight of the output head, [vocabulary, hidden].
        labels: the token that each position shall predict, [tokens]; a negative label (-100) is not
            trained.
        weights: weight of each position's loss, [tokens]; 0 is not trained.

    Returns:
        A scalar, float32 (float64 for float64 hidden states); 0 where nothing is trained.
    """
    trained = ((labels >= 0) & (weights != 0)).nonzero().squeeze(1)
    loss: Tensor = _HeadLoss.apply(  # type: ignore[no-untyped-call]
        hidden[trained], head, labels[trained], weights[trained]
    )
    return loss

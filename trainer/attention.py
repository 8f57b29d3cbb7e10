"""Causal attention inside each document of a packed row.

One call of scaled dot-product attention per document, and no mask: a token cannot see another
document because the call does not hold it, and memory grows with the longest document alone,
never with the square of the row.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional


def document_attention(q: Tensor, k: Tensor, v: Tensor, boundaries: Sequence[int]) -> Tensor:
    """Attend causally within each document.

    Args:
        q: queries, [tokens, heads, head_dim].
        k: keys, [tokens, kv_heads, head_dim]; ``kv_heads`` divides ``heads`` and serves groups of
            neighbouring query heads.
        v: values, as ``k``.
        boundaries: where documents begin, and the end: from 0 to ``tokens``, never falling.

    Returns:
        [tokens, heads, head_dim].
    """
    if not _groups_natively(q):
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
    lengths = [end - start for start, end in pairwise(boundaries) if end > start]
    parts = zip(*(torch.split(x, lengths) for x in (q, k, v)), strict=True)
    return torch.cat([_attend(*part) for part in parts])


def _groups_natively(q: Tensor) -> bool:
    """Whether a fused kernel shares keys among query heads (on CUDA only the 16-bit ones do)."""
    return q.device.type == "cpu" or q.dtype in (torch.bfloat16, torch.float16)


def _attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend causally over one document, all arguments [tokens, heads, head_dim]."""
    grouped = q.shape[1] != k.shape[1]
    q, k, v = (x.transpose(0, 1).unsqueeze(0) for x in (q, k, v))
    out = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
    return out.squeeze(0).transpose(0, 1)


def attention_forward(
    q: Tensor, k: Tensor, v: Tensor, spans: Sequence[tuple[int, int]], out: Tensor, lse: Tensor
) -> None:
    """Attend causally within each document, and keep what the backward pass needs.

    Args:
        q: queries, [tokens, heads, head_dim].
        k: keys, [tokens, kv_heads, head_dim].
        v: values, as ``k``.
        spans: first token and end of each document; or of a document's prefix, which sees nothing
            behind it.
        out: the output, as ``q``; the spans of it are written.
        lse: the log of each softmax's denominator, [tokens, heads], float32 (float64 for float64);
            the spans of it are written.
    """
    forward = _cpu_forward if _has_cpu_kernel(q) else _reference_forward
    for begin, end in spans:
        if end > begin:
            rows = slice(begin, end)
            found = forward(_batched(q[rows]), _batched(k[rows]), _batched(v[rows]))
            out[begin:end] = found[0].squeeze(0).transpose(0, 1)
            lse[begin:end] = found[1].squeeze(0).transpose(0, 1)


def attention_backward(
    d_out: Tensor,
    saved: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    boundaries: Sequence[int],
    groups: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients for queries, keys and values.

    Args:
        d_out: gradient of the output, [tokens, heads, head_dim].
        saved: queries, keys, values, output and log denominators as in the forward pass.
        boundaries: where documents begin, and the end.
        groups: parts of the heads that are worked on one after another, which bounds what the
            kernel needs at a time; the result is the same to the bit.
    """
    q, k, v, out, lse = saved
    backward = _cpu_backward if _has_cpu_kernel(q) else _reference_backward
    grads = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    spans = [(begin, end) for begin, end in pairwise(boundaries) if end > begin]
    heads, kv_heads = q.shape[1] // groups, k.shape[1] // groups
    for group in range(groups):
        own = slice(group * heads, (group + 1) * heads)
        shared = slice(group * kv_heads, (group + 1) * kv_heads)
        for begin, end in spans:
            rows = slice(begin, end)
            found = backward(
                _batched(d_out[rows, own]),
                _batched(q[rows, own]),
                _batched(k[rows, shared]),
                _batched(v[rows, shared]),
                _batched(out[rows, own]),
                _batched(lse[rows, own]).contiguous(),
            )
            for grad, part, heads_of in zip(grads, found, (own, shared, shared), strict=True):
                grad[rows, heads_of] = part.squeeze(0).transpose(0, 1)
    return grads


def _batched(x: Tensor) -> Tensor:
    """Return [tokens, heads, ...] as [1, heads, tokens, ...]."""
    return x.transpose(0, 1).unsqueeze(0)


def _has_cpu_kernel(q: Tensor) -> bool:
    return q.device.type == "cpu"


def _cpu_forward(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attend over one document; the kernel behind ``scaled_dot_product_attention`` on a CPU."""
    out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)
    return out, lse


def _cpu_backward(
    d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    found: tuple[Tensor, Tensor, Tensor] = (
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            d_out, q, k, v, out, lse, 0.0, True
        )
    )
    return found


REFERENCE_BLOCK = 1024
"""Queries that the reference attends with at a time."""


def _reference_forward(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attend over one document by the formula, in blocks of queries."""
    outs, sums = [], []
    for begin in range(0, q.shape[2], REFERENCE_BLOCK):
        scores, end = _scores(q, k, begin)
        lse = torch.logsumexp(scores, dim=-1)
        shares = (scores - lse[..., None]).exp_().to(v.dtype)
        outs.append(shares @ _shared(v[:, :, :end], q))
        sums.append(lse)
    return torch.cat(outs, dim=2), torch.cat(sums, dim=2)


def _reference_backward(
    d_out: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of :func:`_reference_forward`, in blocks of queries."""
    wide = lse.dtype
    d_q = torch.empty_like(q)
    d_k, d_v = (torch.zeros_like(x, dtype=wide) for x in (k, v))
    for begin in range(0, q.shape[2], REFERENCE_BLOCK):
        scores, end = _scores(q, k, begin)
        rows = slice(begin, begin + REFERENCE_BLOCK)
        shares = (scores - lse[:, :, rows, None]).exp_()
        upstream = d_out[:, :, rows].to(wide)
        d_shares = upstream @ _shared(v[:, :, :end], q).to(wide).transpose(-1, -2)
        own = (upstream * out[:, :, rows].to(wide)).sum(-1, keepdim=True)
        d_scores = shares * (d_shares - own) * q.shape[-1] ** -0.5
        d_q[:, :, rows] = (d_scores @ _shared(k[:, :, :end], q).to(wide)).to(q.dtype)
        d_k[:, :, :end] += _by_kv_head(
            d_scores.transpose(-1, -2) @ q[:, :, rows].to(wide), k.shape[1]
        )
        d_v[:, :, :end] += _by_kv_head(shares.transpose(-1, -2) @ upstream, v.shape[1])
    return d_q, d_k.to(k.dtype), d_v.to(v.dtype)


def _scores(q: Tensor, k: Tensor, begin: int) -> tuple[Tensor, int]:
    """Return a block's masked scores, at least in float32, and the end of the keys it sees."""
    wide = torch.promote_types(q.dtype, torch.float32)
    end = min(begin + REFERENCE_BLOCK, q.shape[2])
    keys = _shared(k[:, :, :end], q).to(wide)
    scores = (q[:, :, begin:end].to(wide) @ keys.transpose(-1, -2)) * q.shape[-1] ** -0.5
    later = torch.ones(end - begin, end, dtype=torch.bool, device=q.device).triu(begin + 1)
    return scores.masked_fill_(later, -torch.inf), end


def _shared(x: Tensor, q: Tensor) -> Tensor:
    """Return keys or values once for each query head that shares them."""
    return x.repeat_interleave(q.shape[1] // x.shape[1], dim=1)


def _by_kv_head(x: Tensor, kv_heads: int) -> Tensor:
    """Sum over the query heads that share a key head."""
    batch, heads, *rest = x.shape
    return x.reshape(batch, kv_heads, heads // kv_heads, *rest).sum(2)

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

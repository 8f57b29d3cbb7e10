"""One decoder layer: attention over documents, then a gated MLP or experts, each behind a norm."""

from collections.abc import Sequence

from torch import Tensor, nn

from packing.cost import ModelShape
from trainer.architecture import Architecture
from trainer.attention import document_attention
from trainer.experts import ExpertMLP
from trainer.layout import has_experts
from trainer.ops import Projection, RMSNorm, rotate, swiglu
from trainer.planned import Row, Turn, planned_layer
from trainer.weights import DenseWeights, LayerWeights, SparseWeights


class SelfAttention(nn.Module):
    """Grouped-query attention with rotary positions, causal inside each document."""

    def __init__(self, shape: ModelShape, architecture: Architecture) -> None:
        super().__init__()
        self.head_dim = shape.head_dim
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        bias = architecture.qkv_bias
        self.q_proj = Projection(shape.hidden, queries, bias=bias)
        self.k_proj = Projection(shape.hidden, keys, bias=bias)
        self.v_proj = Projection(shape.hidden, keys, bias=bias)
        self.o_proj = Projection(queries, shape.hidden)
        self.q_norm: nn.Module = nn.Identity()
        self.k_norm: nn.Module = nn.Identity()
        if architecture.qk_norm:
            self.q_norm = RMSNorm(shape.head_dim, architecture.norm_eps)
            self.k_norm = RMSNorm(shape.head_dim, architecture.norm_eps)

    def forward(
        self, x: Tensor, rotary: tuple[Tensor, Tensor], boundaries: Sequence[int]
    ) -> Tensor:
        """Return the attention output, [tokens, hidden] as ``x``."""
        q, k, v = (
            projection(x).unflatten(-1, (-1, self.head_dim))
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotate(self.q_norm(q), rotary), rotate(self.k_norm(k), rotary)
        mixed = document_attention(q, k, v, boundaries)
        return self.o_proj(mixed.flatten(1))  # type: ignore[no-any-return]


class GatedMLP(nn.Module):
    """The SwiGLU feed-forward part."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.gate_proj = Projection(shape.hidden, shape.ffn)
        self.up_proj = Projection(shape.hidden, shape.ffn)
        self.down_proj = Projection(shape.ffn, shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Return [tokens, hidden] as ``x``."""
        return self.down_proj(swiglu(self.gate_proj(x), self.up_proj(x)))  # type: ignore[no-any-return]


class DecoderLayer(nn.Module):
    """Attention and MLP, each normed before and added to the residual stream."""

    def __init__(
        self, shape: ModelShape, number: int, architecture: Architecture | None = None
    ) -> None:
        super().__init__()
        architecture = architecture or Architecture()
        self.eps = architecture.norm_eps
        self.input_layernorm = RMSNorm(shape.hidden, self.eps)
        self.self_attn = SelfAttention(shape, architecture)
        self.post_attention_layernorm = RMSNorm(shape.hidden, self.eps)
        sparse = has_experts(shape, number)
        self.mlp: nn.Module = ExpertMLP(shape) if sparse else GatedMLP(shape)
        self.shape = shape

    def weights(self) -> LayerWeights:
        """Return the weights as a planned layer takes them."""
        attention = self.self_attn
        common = (
            self.input_layernorm.weight,
            attention.q_proj.weight,
            attention.k_proj.weight,
            attention.v_proj.weight,
            attention.o_proj.weight,
            self.post_attention_layernorm.weight,
        )
        if isinstance(self.mlp, ExpertMLP):
            return SparseWeights(*common, *self.mlp.weights())
        return DenseWeights(*common, *(w for _, w in self.mlp.named_parameters()))

    def forward(
        self,
        x: Tensor,
        rotary: tuple[Tensor, Tensor],
        boundaries: Sequence[int],
        turn: Turn | None = None,
    ) -> Tensor:
        """Return the residual stream behind the layer.

        Args:
            x: residual stream, [tokens, hidden].
            rotary: cosine and sine by token, see :func:`trainer.ops.rotary_table`.
            boundaries: where documents begin, and the end.
            turn: the layer's place in a planned pass; None leaves to autograd what is stored.
        """
        if turn is not None:
            return planned_layer(
                x, Row(rotary, boundaries, self.shape, turn, self.eps), self.weights()
            )
        x = x + self.self_attn(self.input_layernorm(x), rotary, boundaries)
        return x + self.mlp(self.post_attention_layernorm(x))  # type: ignore[no-any-return]

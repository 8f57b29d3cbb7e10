"""A Llama-style decoder over packed tokens: one flat sequence, many documents."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from packing.cost import ModelShape
from trainer.architecture import Architecture
from trainer.layer import DecoderLayer
from trainer.loss import head_loss
from trainer.ops import Projection, RMSNorm, rotary_table
from trainer.plan import LayerPlan
from trainer.planned import Turn
from trainer.stash import Stash, Workspace

INIT_STD = 0.02

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}
"""What a run can compute in. Weights and optimizer states are float32 under bfloat16."""


class Decoder(nn.Module):
    """Embedding, decoder layers, final norm and output head.

    Weights bear the names of Hugging Face's Llama without its ``model.`` prefix.

    Args:
        shape: sizes, with the vocabulary.
        tied: whether the embedding is the output head.
        recompute: whether a layer's activations are made again in the backward pass instead of
            being kept.
        plan: what layers store by a plan; None leaves that to autograd.
        dtype: dtype of the computation.
        architecture: what is not a size; by default as Llama 3.
    """

    def __init__(
        self,
        shape: ModelShape,
        *,
        tied: bool = True,
        recompute: bool = False,
        plan: LayerPlan | None = None,
        dtype: torch.dtype = torch.float32,
        architecture: Architecture | None = None,
    ) -> None:
        super().__init__()
        self.architecture = architecture or Architecture()
        if plan is not None and (self.architecture.qkv_bias or self.architecture.qk_norm):
            raise ValueError("planned layers have no biases and no norms of heads; give no plan")
        self.shape = shape
        self.recompute = recompute
        self.plan = plan
        self.workspace: Workspace | None = None
        """Where planned layers store; made in the first pass unless it was set before."""
        self.dtype = dtype
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(
            DecoderLayer(shape, n, self.architecture) for n in range(shape.layers)
        )
        self.norm = RMSNorm(shape.hidden, self.architecture.norm_eps)
        self.lm_head = None if tied else Projection(shape.hidden, shape.vocab)
        self.to(torch.promote_types(dtype, torch.float32))

    @property
    def head(self) -> Tensor:
        """Weight of the output head, [vocabulary, hidden]."""
        return self.embed_tokens.weight if self.lm_head is None else self.lm_head.weight

    def initialize(self, seed: int) -> None:
        """Draw the weights: normal, narrower where a layer writes to the residual stream.

        They are drawn on the CPU in the order of their names, so that every device and rank has the
        same ones.
        """
        generator = torch.Generator().manual_seed(seed)
        narrow = INIT_STD / math.sqrt(2 * self.shape.layers)
        for name, weight in sorted(self.named_parameters()):
            if weight.dim() == 1:
                nn.init.constant_(weight, 0.0 if name.endswith(".bias") else 1.0)
                continue
            std = (
                narrow
                if name.removesuffix(".weight").endswith(("o_proj", "down_proj"))
                else INIT_STD
            )
            drawn = torch.empty(weight.shape).normal_(0.0, std, generator=generator)
            with torch.no_grad():
                weight.copy_(drawn)

    def forward(self, input_ids: Tensor, positions: Tensor, boundaries: Sequence[int]) -> Tensor:
        """Return the last hidden states, [tokens, hidden].

        Args:
            input_ids: packed tokens, [tokens].
            positions: position of each token within its document, [tokens].
            boundaries: where documents begin, and the end: from 0 to ``tokens``.
        """
        # F.embedding keeps the weight's own dtype for its gradient; only what is read is cast.
        x = functional.embedding(input_ids, self.embed_tokens.weight).to(self.dtype)
        wide = torch.promote_types(self.dtype, torch.float32)
        rotary = rotary_table(positions, self.shape.head_dim, wide, self.architecture)
        if self.plan is not None:
            return self.norm(self._planned(x, rotary, boundaries, self.plan))  # type: ignore[no-any-return]
        for layer in self.layers:
            if self.recompute and torch.is_grad_enabled():
                x = checkpoint(layer, x, rotary, boundaries, use_reentrant=False)
            else:
                x = layer(x, rotary, boundaries)
        return self.norm(x)  # type: ignore[no-any-return]

    def _planned(
        self,
        x: Tensor,
        rotary: tuple[Tensor, Tensor],
        boundaries: Sequence[int],
        plan: LayerPlan,
    ) -> Tensor:
        """Return the residual stream behind all layers, storing by the plan."""
        stash = None
        if torch.is_grad_enabled():
            if self.workspace is None:
                self.workspace = Workspace(x.device)
            stash = Stash(self.workspace, self.shape, plan, boundaries, x.dtype)
        for number, layer in enumerate(self.layers):
            x = layer(x, rotary, boundaries, Turn(plan, number, stash))
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """Return the next-token logits, [tokens, vocabulary]."""
        return functional.linear(hidden, self.head.to(hidden.dtype))

    def loss_sum(
        self,
        input_ids: Tensor,
        positions: Tensor,
        boundaries: Sequence[int],
        labels: Tensor,
        weights: Tensor,
    ) -> Tensor:
        """Return the weighted sum of the losses of a micro-batch, see :func:`head_loss`."""
        # Not by calling the module: where weights are sharded, this method is what gathers them.
        hidden = self.forward(input_ids, positions, boundaries)
        return head_loss(hidden, self.head, labels, weights)

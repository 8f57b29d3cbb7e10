"""A decoder layer whose backward pass is written out, so that a plan says what it stores.

The layer works on fixed tiles of tokens before and after attention. What was not stored is made
again over the same tiles by the same products, so that a gradient does not depend by a single bit
on what was (MEMO, arXiv 2407.12117, section 4.1, stores the first share of the tokens; here
attention outputs, layer inputs and the rest are decided on one by one).

The weights are inputs of the function and their gradients are returned: what hangs on parameters
(data parallel sums, sharded weights) sees an ordinary layer. With sharded weights and an
``input_stride`` above 1, the layers of a stride must be gathered together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from packing.cost import ModelShape
from trainer.attention import attention_backward, attention_forward
from trainer.experts import ExpertWeights, mixture, route
from trainer.layout import prefix_cuts, stored_tokens
from trainer.ops import (
    NORM_EPS,
    rms_norm,
    rms_norm_backward,
    rotate,
    rotate_backward,
    swiglu,
    swiglu_backward,
)
from trainer.plan import LayerPlan
from trainer.stash import Stash
from trainer.weights import LayerWeights, SparseWeights, cast


@dataclass(frozen=True, slots=True)
class Turn:
    """A layer's place in a planned pass."""

    plan: LayerPlan
    layer: int
    """The layer's number."""
    stash: Stash | None
    """Takes what is stored; None where no backward pass will follow."""


@dataclass(frozen=True, slots=True)
class Row:
    """The packed row that a layer works on."""

    rotary: tuple[Tensor, Tensor]
    """Cosine and sine by token."""
    boundaries: Sequence[int]
    """Where documents begin, and the end."""
    shape: ModelShape
    turn: Turn
    eps: float = NORM_EPS
    """Of the norms."""

    @property
    def plan(self) -> LayerPlan:
        """What is stored."""
        return self.turn.plan

    def tiles(self) -> Iterator[slice]:
        """Return the tiles, the same in every pass."""
        tokens = self.boundaries[-1]
        for begin in range(0, tokens, self.plan.tile):
            yield slice(begin, min(begin + self.plan.tile, tokens))

    def table(self, tile: slice) -> tuple[Tensor, Tensor]:
        """Return cosine and sine of a tile."""
        cos, sin = self.rotary
        return cos[tile], sin[tile]

    def stored(self) -> int:
        """Return the tokens whose other tensors are stored."""
        return stored_tokens(self.boundaries[-1], self.plan)

    def prefixes(self) -> list[tuple[int, int]]:
        """Return the parts of documents whose attention is made again."""
        cuts = prefix_cuts(self.boundaries, self.plan.recompute_prefix)
        return [(b, b + cut) for b, cut in zip(self.boundaries, cuts, strict=False) if cut]

    def suffixes(self) -> list[tuple[int, int]]:
        """Return the parts of documents whose attention output is stored."""
        cuts = prefix_cuts(self.boundaries, self.plan.recompute_prefix)
        spans = zip(pairwise(self.boundaries), cuts, strict=True)
        return [(b + cut, e) for (b, e), cut in spans if b + cut < e]


class _PlannedLayer(torch.autograd.Function):
    """One layer; its first input is the residual stream, its last ones are the weights."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, row: Row, stash: Stash, kind: type[LayerWeights], *raw: Tensor
    ) -> Tensor:
        ctx.save_for_backward(*raw)
        ctx.row, ctx.stash, ctx.kind, layer = row, stash, kind, row.turn.layer
        stash.weights[layer] = kind(*raw)
        out = _forward(x, cast(kind(*raw), x.dtype), row, stash.begin(layer))
        stash.end(layer)
        return out

    @staticmethod
    @once_differentiable  # type: ignore[misc]
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, ...]:
        stash, layer = ctx.stash, ctx.row.turn.layer
        raw = ctx.kind(*ctx.saved_tensors)
        stored = stash.open(layer)
        x = _input(ctx.row, stash, layer)
        found = _Backward(ctx.row, raw, cast(raw, stash.dtype), ctx.needs_input_grad[4:])
        d_x = found.run(x, stored, d_out)
        stash.close(layer)
        return (d_x, None, None, None, *found.grads())


def planned_layer(x: Tensor, row: Row, weights: LayerWeights) -> Tensor:
    """Return the residual stream behind a layer.

    Args:
        x: residual stream, [tokens, hidden].
        row: the packed row.
        weights: the layer's weights.
    """
    stash = row.turn.stash
    if stash is None:
        return _forward(x, cast(weights, x.dtype), row, {})
    out: Tensor = _PlannedLayer.apply(  # type: ignore[no-untyped-call]
        x, row, stash, type(weights), *weights
    )
    return out


def _forward(x: Tensor, weights: LayerWeights, row: Row, places: dict[str, Tensor]) -> Tensor:
    """Return the layer's output, and write what is stored to its places."""
    q, k, v = _heads(x, weights, row, {})
    o, lse = _empty_attention(q)
    attention_forward(q, k, v, list(pairwise(row.boundaries)), o, lse)
    out = torch.empty_like(x)
    stored = row.stored() if places else 0
    for tile in row.tiles():
        y, normed, inside = _inner(x, o, weights, row, tile, {})
        out[tile] = _behind(y, normed, inside, weights)
        if places and "chosen" in inside:
            places["chosen"][tile] = inside["chosen"]
        if tile.start < stored:
            places["y"][tile] = y
            for name in inside.keys() & {"gate", "up"}:
                places[name][tile] = inside[name]
    if "x" in places:
        places["x"].copy_(x)
    if places:
        for name, tensor in (("q", q), ("k", k), ("v", v)):
            places[name].copy_(tensor[:stored])
        at = 0
        for begin, end in row.suffixes():
            places["o"][at : at + end - begin] = o[begin:end]
            places["lse"][at : at + end - begin] = lse[begin:end]
            at += end - begin
    return out


def _heads(
    x: Tensor, weights: LayerWeights, row: Row, stored: dict[str, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values of all tokens; those of stored ones are read."""
    matrices = (weights.q, weights.k, weights.v)
    outs = [x.new_empty(len(x), len(w) // row.shape.head_dim, row.shape.head_dim) for w in matrices]
    known = len(stored["q"]) if stored else 0
    if stored:
        for out, name in zip(outs, "qkv", strict=True):
            out[:known] = stored[name]
    for tile in row.tiles():
        if tile.start < known:
            continue
        normed = rms_norm(x[tile], weights.input_norm, row.eps)
        q, k, v = (
            functional.linear(normed, w).view(len(normed), -1, row.shape.head_dim) for w in matrices
        )
        table = row.table(tile)
        outs[0][tile], outs[1][tile], outs[2][tile] = rotate(q, table), rotate(k, table), v
    return outs[0], outs[1], outs[2]


def _empty_attention(q: Tensor) -> tuple[Tensor, Tensor]:
    wide = torch.promote_types(q.dtype, torch.float32)
    return torch.empty_like(q), q.new_empty(q.shape[:2], dtype=wide)


def _attended(
    heads: tuple[Tensor, Tensor, Tensor], row: Row, stored: dict[str, Tensor]
) -> tuple[Tensor, Tensor]:
    """Return attention output and log denominators: suffixes as stored, prefixes made again."""
    o, lse = _empty_attention(heads[0])
    attention_forward(*heads, row.prefixes(), o, lse)
    at = 0
    for begin, end in row.suffixes():
        o[begin:end] = stored["o"][at : at + end - begin]
        lse[begin:end] = stored["lse"][at : at + end - begin]
        at += end - begin
    return o, lse


def _inner(
    x: Tensor,
    o: Tensor,
    weights: LayerWeights,
    row: Row,
    tile: slice,
    stored: dict[str, Tensor],
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """Return a tile's stream behind attention, the same normed, and what the MLP begins with.

    That is gate and up, or the experts that are chosen.
    """
    known = bool(stored) and tile.start < len(stored["y"])
    y = stored["y"][tile] if known else torch.addmm(x[tile], o[tile].flatten(1), weights.o.T)
    normed = rms_norm(y, weights.attention_norm, row.eps)
    if isinstance(weights, SparseWeights):
        if stored:
            return y, normed, {"chosen": stored["chosen"][tile].long()}
        return y, normed, {"chosen": route(normed, weights.router, row.shape.active_experts)}
    if known:
        return y, normed, {name: stored[name][tile] for name in ("gate", "up")}
    gate, up = (functional.linear(normed, w) for w in (weights.gate, weights.up))
    return y, normed, {"gate": gate, "up": up}


def _behind(y: Tensor, normed: Tensor, inside: dict[str, Tensor], weights: LayerWeights) -> Tensor:
    """Return a tile's stream behind the MLP."""
    if isinstance(weights, SparseWeights):
        return y + mixture(normed, weights.experts(), inside["chosen"])
    return torch.addmm(y, swiglu(inside["gate"], inside["up"]), weights.down.T)


def _input(row: Row, stash: Stash, layer: int) -> Tensor:
    """Return a layer's input: as stored, or made again from the one below that was."""
    first = layer - layer % row.plan.input_stride
    if layer == first:
        return stash.views(layer)["x"]
    if layer not in stash.rebuilt:
        x = stash.views(first)["x"]
        for below in range(first, layer):
            x = _output(row, stash, below, x)
            stash.rebuilt[below + 1] = x
    return stash.rebuilt.pop(layer)


def _output(row: Row, stash: Stash, layer: int, x: Tensor) -> Tensor:
    """Return a layer's output again, from its input and what it stored."""
    weights, stored = cast(stash.weights[layer], x.dtype), stash.views(layer)
    if row.prefixes():
        o, _ = _attended(_heads(x, weights, row, stored), row, stored)
    else:
        o = stored["o"]
    out = torch.empty_like(x)
    for tile in row.tiles():
        out[tile] = _behind(*_inner(x, o, weights, row, tile, stored), weights)
    return out


class _Backward:
    """The backward pass of one layer; sums the gradients of its weights over the tiles, wide.

    Args:
        row: the packed row.
        raw: the weights.
        weights: the weights in the dtype that is computed in.
        needed: which weights want a gradient.
    """

    def __init__(
        self, row: Row, raw: LayerWeights, weights: LayerWeights, needed: Sequence[bool]
    ) -> None:
        self.row, self.weights = row, weights
        self.sums = {
            name: torch.zeros_like(w, dtype=torch.promote_types(w.dtype, torch.float32))
            for name, w, want in zip(raw._fields, raw, needed, strict=True)
            if want
        }

    def grads(self) -> list[Tensor | None]:
        """Return the gradients of the weights, None where none is wanted.

        They are wide; autograd makes of them what the weight asks for.
        """
        return [self.sums.get(name) for name in self.weights._fields]

    def run(self, x: Tensor, stored: dict[str, Tensor], d_out: Tensor) -> Tensor:
        """Return the gradient for the layer's input ``x``, [tokens, hidden]."""
        q, k, v = _heads(x, self.weights, self.row, stored)
        o, lse = _attended((q, k, v), self.row, stored)
        d_o, d_y = torch.empty_like(o), torch.empty_like(x)
        for tile in self.row.tiles():
            d_y[tile], d_o[tile] = self._behind_attention(x, o, stored, d_out, tile)
        groups = self.row.plan.head_groups
        d_heads = attention_backward(d_o, (q, k, v, o, lse), self.row.boundaries, groups)
        del q, k, v, o, lse, d_o
        d_x = torch.empty_like(x)
        for tile in self.row.tiles():
            d_x[tile] = self._before_attention(x, d_heads, d_y, tile)
        return d_x

    def _behind_attention(
        self, x: Tensor, o: Tensor, stored: dict[str, Tensor], d_out: Tensor, tile: slice
    ) -> tuple[Tensor, Tensor]:
        """Return a tile's gradients for the stream behind attention and for attention's output."""
        weights, d = self.weights, d_out[tile]
        y, normed, inside = _inner(x, o, weights, self.row, tile, stored)
        if isinstance(weights, SparseWeights):
            d_normed = self._through_experts(weights.experts(), normed, inside["chosen"], d)
        else:
            gate, up = inside["gate"], inside["up"]
            self._add("down", d, swiglu(gate, up))
            d_gate, d_up = swiglu_backward(gate, up, d @ weights.down)
            self._add("gate", d_gate, normed)
            self._add("up", d_up, normed)
            d_normed = torch.addmm(d_gate @ weights.gate, d_up, weights.up)
        d_y = self._through_norm("attention_norm", y, d_normed, d)
        self._add("o", d_y, o[tile].flatten(1))
        return d_y, (d_y @ weights.o).view_as(o[tile])

    def _through_experts(
        self, weights: ExpertWeights, normed: Tensor, chosen: Tensor, d: Tensor
    ) -> Tensor:
        """Return a tile's gradient for what the experts get; autograd goes through one tile."""
        leaves = [x.detach().requires_grad_() for x in (normed, *weights)]
        with torch.enable_grad():
            out = mixture(leaves[0], ExpertWeights(*leaves[1:]), chosen)
        d_normed, *d_weights = torch.autograd.grad(out, leaves, d)
        for name, d_weight in zip(weights._fields, d_weights, strict=True):
            if name in self.sums:
                self.sums[name] += d_weight
        return d_normed

    def _before_attention(
        self, x: Tensor, d_heads: tuple[Tensor, Tensor, Tensor], d_y: Tensor, tile: slice
    ) -> Tensor:
        """Return a tile's gradient for the layer's input."""
        weights, table = self.weights, self.row.table(tile)
        normed = rms_norm(x[tile], weights.input_norm, self.row.eps)
        d_q, d_k, d_v = (d[tile] for d in d_heads)
        parts = [
            d.flatten(1) for d in (rotate_backward(d_q, table), rotate_backward(d_k, table), d_v)
        ]
        for name, d in zip("qkv", parts, strict=True):
            self._add(name, d, normed)
        d_normed = torch.addmm(parts[0] @ weights.q, parts[1], weights.k)
        d_normed = torch.addmm(d_normed, parts[2], weights.v)
        return self._through_norm("input_norm", x[tile], d_normed, d_y[tile])

    def _through_norm(self, name: str, x: Tensor, d_normed: Tensor, residual: Tensor) -> Tensor:
        """Return the gradient of a stream that goes through a norm and past it."""
        weight = getattr(self.weights, name)
        d_x, d_weight = rms_norm_backward(x, weight, d_normed, self.row.eps)
        if name in self.sums:
            self.sums[name] += d_weight
        return (d_x + residual).to(x.dtype)

    def _add(self, name: str, d_out: Tensor, inputs: Tensor) -> None:
        """Add a tile's part to the gradient of a matrix, summed in the weight's own dtype."""
        total = self.sums.get(name)
        if total is None:
            return
        if d_out.dtype == total.dtype:
            total.addmm_(d_out.T, inputs)
        elif d_out.is_cuda:
            total += torch.mm(d_out.T, inputs, out_dtype=total.dtype)
        else:
            total.addmm_(d_out.T.to(total.dtype), inputs.to(total.dtype))

"""Runs a zone plan as a trainer would: one process a rank, rings of keys and values, two layouts.

A block of one attention layer: projections in the linear layout, tokens to the attention layout, ring
attention over the chunk map with online softmax, tokens back, projection. Everything in float64 on
the CPU; the same code without any plan is what it is compared with. Started as a program:
``python zone_executor.py RANK WORLD STORE RESULT``.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from packing.cost import ModelShape
from packing.topology import Topology
from packing.zones import ZonePlan, plan_zones

HEADS, KV_HEADS, HEAD_DIM, HIDDEN = 4, 2, 8, 16
SHAPE = ModelShape(
    layers=1, hidden=HIDDEN, heads=HEADS, kv_heads=KV_HEADS, head_dim=HEAD_DIM, ffn=1
)
Tensor = torch.Tensor

CASES: dict[str, tuple[list[int], dict[str, Any], dict[str, Any]]] = {
    # lengths, topology, settings
    "all zones": ([900, 7, 410, 230, 1, 64, 300], {"ranks_per_node": 2}, {"traffic_price": 0.0}),
    "a node a rank": ([700, 500, 3, 40], {"ranks_per_node": 1}, {"traffic_price": 0.0}),
    "uneven": ([333, 301, 290, 250, 2], {"ranks_per_node": 2}, {"slack": 1.0}),
    "whole": ([50, 60, 55, 45, 30, 20], {"ranks_per_node": 4}, {"zone_mode": "capacity"}),
}


def plan_of(case: str, ranks: int) -> ZonePlan:
    """Return the plan of a case."""
    lengths, nodes, settings = CASES[case]
    topology = Topology.of(
        ranks=ranks,
        rank_tokens=-(-sum(lengths) // ranks),
        shape=SHAPE,
        **nodes,
        **settings,
    )
    return plan_zones(lengths, topology)


class Layouts:
    """Which tokens stand where: indices into all pieces' tokens, one after the other."""

    def __init__(self, plan: ZonePlan) -> None:
        self.plan = plan
        self.start = np.cumsum(plan.length) - plan.length
        ranks = plan.topology.ranks
        self.attention = [
            np.concatenate([np.empty(0, np.int64), *(of for _, of in self.parts(r))])
            for r in range(ranks)
        ]
        moved = plan.transfers
        self.moves = list(
            zip(moved.source.tolist(), moved.target.tolist(), moved.tokens.tolist(), strict=True)
        )
        self.linear = self._linear()

    def parts(self, rank: int) -> list[tuple[int, np.ndarray]]:
        """Return the pieces a rank has a part of, with its tokens: the head chunk, the tail chunk."""
        bounds, offsets = self.plan.chunks
        found = []
        for i in range(len(self.plan.length)):
            ranks = self.ranks(i)
            if rank in ranks:
                at, last = ranks.index(rank), 2 * len(ranks) - 1
                own = offsets[bounds[i] : bounds[i + 1]]
                chunks = [np.arange(own[c], own[c + 1]) for c in (at, last - at)]
                found.append((i, self.start[i] + np.concatenate(chunks)))
        return found

    def ranks(self, piece: int) -> list[int]:
        """Return the ranks of a piece."""
        first = self.plan.first
        ranks: list[int] = self.plan.rank[first[piece] : first[piece + 1]].tolist()
        return ranks

    def _linear(self) -> list[np.ndarray]:
        """Carry out the transfers on the indices, as the page on the shard format says."""
        kept = [own.copy() for own in self.attention]
        sent = {}
        for source in range(len(kept)):
            mine = [(target, n) for s, target, n in self.moves if s == source]
            total = sum(n for _, n in mine)
            kept[source], leaving = np.split(kept[source], [len(kept[source]) - total])
            for target, n in mine:
                sent[source, target], leaving = np.split(leaving, [n])
        for (source, target), tokens in sorted(sent.items()):
            assert source != target
            kept[target] = np.concatenate([kept[target], tokens])
        return kept


class Remap(torch.autograd.Function):
    """Tokens from one layout to another; backward they go the other way."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layouts: Layouts, to_linear: bool) -> Tensor:
        ctx.way = (layouts, to_linear)
        return exchange(x, layouts, to_linear)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        layouts, to_linear = ctx.way
        return exchange(grad.contiguous(), layouts, not to_linear), None, None


def exchange(x: Tensor, layouts: Layouts, to_linear: bool) -> Tensor:
    """Send and receive the rows of ``x`` that stand elsewhere in the other layout."""
    rank = dist.get_rank()
    out = [(t, n) for s, t, n in layouts.moves if s == rank]
    into = [(s, n) for s, t, n in layouts.moves if t == rank]
    if not to_linear:
        out, into = into, out
    # A rank sends its last rows: those it gives away, or those it was given.
    kept = len(x) - sum(n for _, n in out)
    requests, parts, at = [], [x[:kept]], kept
    for peer, n in out:
        requests.append(dist.isend(x[at : at + n].contiguous(), peer))
        at += n
    for peer, n in into:
        parts.append(x.new_empty(n, *x.shape[1:]))
        requests.append(dist.irecv(parts[-1], peer))
    for request in requests:
        request.wait()
    return torch.cat(parts)


class Ring:
    """The ring of one piece: blocks of keys and values go round its ranks in ascending order."""

    def __init__(self, layouts: Layouts, piece: int, moved: list[int]) -> None:
        self.ranks = layouts.ranks(piece)
        self.place = self.ranks.index(dist.get_rank())
        self.moved = moved
        self.per_node = layouts.plan.topology.ranks_per_node
        indices = [dict(layouts.parts(rank))[piece] for rank in self.ranks]
        self.positions = [torch.from_numpy(of - layouts.start[piece]) for of in indices]

    def held(self, turn: int) -> int:
        """Return whose block is here after some turns."""
        return (self.place - turn) % len(self.ranks)

    def pass_on(self, blocks: list[Tensor], turn: int) -> list[Tensor]:
        """Send blocks to the next rank and return those of the rank before."""
        size = len(self.ranks)
        if size == 1:
            return blocks
        to, source = self.ranks[(self.place + 1) % size], self.ranks[self.place - 1]
        n = len(self.positions[self.held(turn + 1)])
        received = [b.new_empty(n, *b.shape[1:]) for b in blocks]
        requests = [dist.isend(b.contiguous(), to) for b in blocks]
        requests += [dist.irecv(b, source) for b in received]
        for request in requests:
            request.wait()
        self.moved[to // self.per_node != dist.get_rank() // self.per_node] += len(blocks[0])
        return received

    def scores(self, q: Tensor, k: Tensor, turn: int) -> Tensor:
        """Return masked scores of the own queries and the block that is here, [heads, q, k]."""
        shared = k.repeat_interleave(HEADS // KV_HEADS, 1)
        s = torch.einsum("qhd,khd->hqk", q, shared) / HEAD_DIM**0.5
        later = self.positions[self.held(turn)] > self.positions[self.place][:, None]
        return s.masked_fill(later, -torch.inf)


class RingAttention(torch.autograd.Function):
    """Causal attention of the pieces a rank has a part of, each over its ring."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, rings: Any) -> Tensor:
        out, lse = torch.zeros_like(q), q.new_zeros(len(q), HEADS)
        for ring, own in rings:
            kb, vb = k[own], v[own]
            top = q.new_full((HEADS, len(q[own])), -torch.inf)
            total, acc = torch.zeros_like(top), q.new_zeros(HEADS, len(q[own]), HEAD_DIM)
            for turn in range(len(ring.ranks)):
                s = ring.scores(q[own], kb, turn)
                new = torch.maximum(top, s.amax(-1))
                # A block whose keys all come later leaves the maximum at minus infinity.
                safe = torch.where(new == -torch.inf, 0.0, new)
                p, scale = torch.exp(s - safe[..., None]), torch.exp(top - safe)
                shared = vb.repeat_interleave(HEADS // KV_HEADS, 1)
                acc = acc * scale[..., None] + torch.einsum("hqk,khd->hqd", p, shared)
                total, top = total * scale + p.sum(-1), new
                if turn + 1 < len(ring.ranks):
                    kb, vb = ring.pass_on([kb, vb], turn)
            out[own] = (acc / total[..., None]).transpose(0, 1)
            lse[own] = (top + total.log()).T
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.rings = rings
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        q, k, v, out, lse = ctx.saved_tensors
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        group = HEADS // KV_HEADS
        for ring, own in ctx.rings:
            blocks = [k[own], v[own], dk[own], dv[own]]
            g, delta = grad[own], (grad[own] * out[own]).sum(-1).T
            for turn in range(len(ring.ranks)):
                kb, vb, dkb, dvb = blocks
                p = torch.exp(ring.scores(q[own], kb, turn) - lse[own].T[..., None])
                dp = torch.einsum("qhd,khd->hqk", g, vb.repeat_interleave(group, 1))
                ds = p * (dp - delta[..., None]) / HEAD_DIM**0.5
                dq[own] += torch.einsum("hqk,khd->qhd", ds, kb.repeat_interleave(group, 1))
                dvb = dvb + torch.einsum("hqk,qhd->khd", p, g).unflatten(1, (-1, group)).sum(2)
                dkb = dkb + torch.einsum("hqk,qhd->khd", ds, q[own]).unflatten(1, (-1, group)).sum(
                    2
                )
                # The gradients go round with their block, and once more to where it is at home.
                blocks = ring.pass_on([kb, vb, dkb, dvb], turn)
            dk[own], dv[own] = blocks[2:]
        return dq, dk, dv, None


def weights() -> list[Tensor]:
    """Return the projections: queries, keys, values, output."""
    generator = torch.Generator().manual_seed(1)
    shapes = [(HIDDEN, HEADS), (HIDDEN, KV_HEADS), (HIDDEN, KV_HEADS)]
    made = [
        torch.randn(a, b * HEAD_DIM, generator=generator, dtype=torch.float64) / 4
        for a, b in shapes
    ]
    out = torch.randn(HEADS * HEAD_DIM, HIDDEN, generator=generator, dtype=torch.float64) / 4
    return [w.requires_grad_() for w in (*made, out)]


def inputs(tokens: int) -> tuple[Tensor, Tensor]:
    """Return the tokens' vectors, and the gradient of the result."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(tokens, HIDDEN, generator=generator, dtype=torch.float64)
    return x, torch.randn(tokens, HIDDEN, generator=generator, dtype=torch.float64)


def single(lengths: list[int]) -> list[Tensor]:
    """Return result and gradients of one process, by plain softmax a document."""
    x, grad = inputs(sum(lengths))
    x.requires_grad_()
    w = weights()
    q, k, v = ((x @ m).unflatten(1, (-1, HEAD_DIM)) for m in w[:3])
    parts = []
    for q_, k_, v_ in zip(q.split(lengths), k.split(lengths), v.split(lengths), strict=True):
        k_, v_ = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (k_, v_))
        s = torch.einsum("qhd,khd->hqk", q_, k_) / HEAD_DIM**0.5
        s = s.masked_fill(torch.ones(s.shape[1:]).triu(1).bool(), -torch.inf)
        parts.append(torch.einsum("hqk,khd->qhd", s.softmax(-1), v_))
    out = torch.cat(parts).flatten(1) @ w[3]
    out.backward(grad)
    return [t for t in (out.detach(), x.grad, *(m.grad for m in w)) if t is not None]


def planned(plan: ZonePlan) -> dict[str, Any]:
    """Run this rank's part of a plan; return errors against one process, and what was carried."""
    layouts, rank = Layouts(plan), dist.get_rank()
    expected = single(plan.length.tolist())
    x, grad = (t[layouts.linear[rank]] for t in inputs(int(plan.length.sum())))
    x.requires_grad_()
    w = weights()
    moved = [0, 0]
    own, at = {}, 0
    for piece, tokens in layouts.parts(rank):
        own[piece] = slice(at, at + len(tokens))
        at += len(tokens)
    # All ranks take their rings in one order, so that none waits for another in a circle.
    order = sorted(own, key=lambda piece: (-int(plan.zone[piece]), piece))
    rings = [(Ring(layouts, piece, moved), own[piece]) for piece in order]
    qkv = torch.cat([x @ m for m in w[:3]], 1)
    q, k, v = (
        t.unflatten(1, (-1, HEAD_DIM))
        for t in Remap.apply(qkv, layouts, False).split([m.shape[1] for m in w[:3]], 1)
    )
    attended = RingAttention.apply(q, k, v, rings)
    carried = list(moved)
    out = Remap.apply(attended.flatten(1), layouts, True) @ w[3]
    out.backward(grad)
    for m in w:
        dist.all_reduce(m.grad)
    here = torch.from_numpy(layouts.linear[rank])
    pairs = [(out.detach(), expected[0][here]), (x.grad, expected[1][here])]
    pairs += [(m.grad, e) for m, e in zip(w, expected[2:], strict=True)]
    errors = [float((a - b).abs().max()) if a.numel() else 0.0 for a, b in pairs]
    return {"errors": errors, "carried": carried, "tokens": [at, len(x)]}


def main() -> None:
    """Run all cases as one rank."""
    rank, world, store, result = sys.argv[1:]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=int(rank), world_size=int(world)
    )
    found = {case: planned(plan_of(case, int(world))) for case in CASES}
    Path(result).write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

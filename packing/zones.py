"""Which ranks compute the attention of each piece of a slot: whole, over a node, or over several.

Zeppelin-style (arXiv:2509.21841; its listings were not at hand, see ``docs/zones.md``): pieces fall
in three zones by where the ranks that share them stand, pieces of several ranks are computed by
rings with balanced chunks, and tokens move to an equal layout for everything but attention.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from packing.cost import attention_squares
from packing.format import ShardError
from packing.ring import Ints, Transfers, chunk_offsets, linear_tokens, remap
from packing.topology import Topology
from packing.zone_fill import fill, loads, ring_tokens

ZONES = ("local", "intra", "inter")
"""Names of the zones: one rank, ranks of one node, ranks of several nodes."""

# What is tried: attention work of a rank over the mean that is aimed at, and how much of the traffic
# of one ring over all ranks may cross nodes for it.
_TARGETS = (1.05, 1.15, 1.3)
_BUDGETS = (0.0, 0.34, 0.52)


@dataclass(frozen=True, slots=True)
class ZonePlan:
    """Where the pieces of a slot are computed."""

    topology: Topology
    length: Ints
    """Tokens of each piece, int64[n]."""
    first: Ints
    """Bounds of each piece's ranks, int64[n + 1]."""
    rank: npt.NDArray[np.int32]
    """Ranks of the pieces, ascending within each, int32[m]."""
    share: Ints
    """Tokens that each rank holds of the piece, int64[m], at least 1."""

    @property
    def zone(self) -> npt.NDArray[np.int8]:
        """Zone of each piece, index into `ZONES`, int8[n]."""
        node = self.rank // self.topology.ranks_per_node
        across = node[self.first[:-1]] != node[self.first[1:] - 1]
        zone: npt.NDArray[np.int8] = (np.diff(self.first) > 1).astype(np.int8) + across
        return zone

    @property
    def loads(self) -> tuple[npt.NDArray[np.float64], Ints]:
        """Attention work (pairs of tokens) and tokens of each rank, float64[R] and int64[R]."""
        density = _density(self.length, self.topology)
        work, tokens = loads(density, self.first, self.rank, self.share, self.topology.ranks)
        return work, tokens

    @property
    def chunks(self) -> tuple[Ints, Ints]:
        """Bounds and lists of chunk offsets; see `packing.ring.chunk_offsets`."""
        return chunk_offsets(self.length, self.first, self.share)

    @property
    def transfers(self) -> Transfers:
        """The way from this layout to equal tokens a rank."""
        tokens = self.loads[1]
        return remap(tokens, linear_tokens(tokens), self.topology.ranks_per_node)

    @property
    def ring_tokens(self) -> tuple[int, int]:
        """Tokens whose keys and values pass a hop within nodes, and one across them."""
        within, across = ring_tokens(
            self.length, self.first, self.rank, self.share, self.topology.ranks_per_node
        )
        return int(within), int(across)

    @property
    def imbalance(self) -> tuple[float, float]:
        """Most attention work, and most tokens, of a rank over the mean; 1 is perfect."""
        work, tokens = self.loads
        if not len(self.length):
            return 1.0, 1.0
        return float(work.max() / work.mean()), float(tokens.max() / tokens.mean())


def plan_zones(length: npt.ArrayLike, topology: Topology) -> ZonePlan:
    """Divide the pieces of one slot among the ranks of a topology.

    Several plans are made, longest piece first (`packing.zone_fill.fill`): for different targets of
    balance and budgets of traffic, with and without the crossing lengths below which a ring's
    traffic does not hide behind its attention. The one with the least sum of imbalance and price of
    its traffic is taken. On one rank every piece is local.

    Args:
        length: tokens of each piece, int[n], at least 1.
        topology: ranks, capacity and prices.

    Raises:
        ShardError: a piece without tokens, or more tokens than all ranks hold.
    """
    pieces = np.asarray(length, np.int64)
    _check(pieces, topology)
    order = np.argsort(-pieces, kind="stable")
    longest = np.ascontiguousarray(pieces[order])
    _, first, rank, share = min(_tried(longest, topology), key=lambda tried: tried[0])
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    width = np.diff(first)[back]
    bounds = np.concatenate([[0], np.cumsum(width)])
    taken = np.arange(bounds[-1]) + np.repeat(first[:-1][back] - bounds[:-1], width)
    return ZonePlan(topology, pieces, bounds, rank[taken], share[taken])


_Tried = tuple[float, Ints, npt.NDArray[np.int32], Ints]


def _tried(longest: Ints, topology: Topology) -> Iterator[_Tried]:
    """Give plans with what each costs: its imbalance, and the price of its traffic."""
    nodes, per_node, capacity = topology.nodes, topology.ranks_per_node, topology.capacity
    density = _density(longest, topology)
    mean = float((density * longest).sum()) / topology.ranks
    ring = nodes * max(1, int(longest.sum()))
    crossing = np.ceil([topology.crossing_within, topology.crossing_across]).astype(np.int64)
    for target, floor, budget in _aims(topology, crossing):
        first, rank, share = fill(
            longest, density, nodes, per_node, capacity, target * mean, floor, int(budget * ring)
        )
        work, _ = loads(density, first, rank, share, topology.ranks)
        within, across = ring_tokens(longest, first, rank, share, per_node)
        traffic = topology.price_within * within + topology.price_across * across
        yield work.max() / mean + traffic / ring if mean else 0.0, first, rank, share


def _density(length: Ints, topology: Topology) -> npt.NDArray[np.float64]:
    """Return the attention work of a token of each piece, by the cost model."""
    return attention_squares(length, topology.shape) / length


def _aims(topology: Topology, crossing: Ints) -> Iterator[tuple[float, Ints, float]]:
    """Give what is tried: target, shortest pieces divided for it, and budget."""
    yield np.inf, crossing, 0.0
    if topology.zone_mode == "capacity" or topology.ranks == 1:
        return
    for floor in (crossing, np.zeros(2, np.int64)):
        for target in _TARGETS:
            for budget in _BUDGETS if topology.nodes > 1 else _BUDGETS[:1]:
                yield target, floor, budget


def _check(length: Ints, topology: Topology) -> None:
    """Refuse pieces that no plan can hold."""
    empty = np.flatnonzero(length < 1)
    if len(empty):
        raise ShardError(
            f"piece {empty[0]} has {length[empty[0]]} tokens ({len(empty)} such pieces); leave out "
            "pieces without tokens"
        )
    total, room = int(length.sum()), topology.ranks * topology.capacity
    if total > room:
        raise ShardError(
            f"{total} tokens do not fit {topology.ranks} ranks of {topology.capacity} tokens "
            f"({room}); give each rank at least {-(-total // topology.ranks)}, or plan fewer rows"
        )

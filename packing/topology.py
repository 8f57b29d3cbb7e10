"""The machine a zone plan is made for: nodes, ranks, and what passes between them at which rate.

Imports the standard library and the cost model alone, for training loops that plan their own zones.
"""

from dataclasses import dataclass
from typing import Literal, Self

from packing.cost import ModelShape
from packing.format import ShardError


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Ranks in nodes; rank r stands in node ``r // ranks_per_node``."""

    nodes: int
    """Number of nodes."""
    ranks_per_node: int
    """Ranks of each node."""
    shape: ModelShape
    """The model whose attention is divided."""
    capacity: int
    """The most tokens of a rank in the attention layout."""
    crossing_within: float
    """Shortest piece whose keys and values pass between two ranks of a node in the time in which
    its attention is computed, in tokens."""
    crossing_across: float
    """The same between ranks of two nodes."""
    zone_mode: Literal["cost", "capacity"] = "cost"
    """See `packing.topology_settings.TopologySettings.zone_mode`."""
    price_across: float = 0.0
    """See `packing.topology_settings.TopologySettings.traffic_price`."""
    price_within: float = 0.0
    """The same for traffic within nodes."""

    @property
    def ranks(self) -> int:
        """All ranks."""
        return self.nodes * self.ranks_per_node

    @classmethod
    def of(
        cls,
        *,
        ranks: int,
        ranks_per_node: int,
        rank_tokens: int,
        shape: ModelShape,
        slack: float = 1.25,
        zone_mode: Literal["cost", "capacity"] = "cost",
        traffic_price: float = 0.6,
        tflops: float = 400.0,
        within_gb_s: float = 200.0,
        across_gb_s: float = 25.0,
        element_bytes: int = 2,
    ) -> Self:
        """Return the topology of some ranks; fewer than a node holds are one node.

        Args:
            ranks: number of ranks.
            ranks_per_node: ranks of a node.
            rank_tokens: mean tokens of a rank where nothing is padding.
            shape: the model; its heads decide how attention compares with traffic.
            slack: see `packing.topology_settings.TopologySettings`, as for the others.
            zone_mode: see there.
            traffic_price: see there.
            tflops: see there.
            within_gb_s: see there.
            across_gb_s: see there.
            element_bytes: see there.

        Raises:
            ShardError: the ranks do not fill their nodes, or a rank has no token.
        """
        per_node = min(ranks, ranks_per_node)
        if per_node < 1 or ranks % per_node:
            raise ShardError(
                f"{ranks} ranks do not fill nodes of {ranks_per_node}; give a multiple of "
                f"{ranks_per_node} ranks, at most {ranks_per_node}, or other ranks_per_node"
            )
        if rank_tokens < 1:
            raise ShardError(f"ranks of {rank_tokens} tokens have no room; give at least 1")
        within, across = (
            crossing_length(2, shape, element_bytes, tflops, rate)
            for rate in (within_gb_s, across_gb_s)
        )
        return cls(
            nodes=ranks // per_node,
            shape=shape,
            ranks_per_node=per_node,
            capacity=int(-(-rank_tokens * slack // 1)),
            crossing_within=within,
            crossing_across=across,
            zone_mode=zone_mode,
            price_across=traffic_price,
            price_within=traffic_price * across_gb_s / within_gb_s,
        )


def crossing_length(
    width: int, shape: ModelShape, element_bytes: int, tflops: float, gb_s: float
) -> float:
    """Return the tokens from which on a ring's traffic hides behind its attention.

    Of ``s`` tokens on ``width`` ranks, each computes ``2 h s^2 / width`` FLOP forward (h: width of
    all query heads) while ``(width - 1) (s / width)`` tokens of keys and values of ``2 h_kv``
    elements pass it: both take the same time at
    ``s = (width - 1) (h_kv / h) element_bytes tflops / rate``.
    """
    return (width - 1) * shape.kv_heads / shape.heads * element_bytes * tflops * 1e3 / gb_s

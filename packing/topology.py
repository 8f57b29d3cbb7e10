"""The machine a zone plan is made for: nodes, ranks, and what passes between them at which rate."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le

from packing.cost import ModelShape
from packing.format import ShardError


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySettings:
    """Rates of the machine, and what a zone plan may spend on balance."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    slack: Annotated[float, Ge(1), Le(64)] = 1.25
    """Tokens a rank may hold in the attention layout, over those of its rows when they are full
    (``micro_batch`` x ``seq_len``)."""
    zone_mode: Literal["cost", "capacity"] = "cost"
    """``cost``: pieces are divided so that ranks do equal attention work at little traffic;
    ``capacity``: only where they do not fit one rank, or one node."""
    traffic_price: Annotated[float, Ge(0), Le(1e6)] = 0.55
    """What traffic between nodes is worth: dividing pieces as long as one ring over all ranks may
    cost this much of the mean rank's attention work. Traffic within nodes is cheaper by the ratio
    of the rates. 0 balances at any price."""
    tflops: Annotated[float, Gt(0), Le(1e6)] = 400.0
    """Rate of attention on one rank, in TFLOP/s."""
    within_gb_s: Annotated[float, Gt(0), Le(1e6)] = 200.0
    """Rate of one rank to another of its node, in GB/s."""
    across_gb_s: Annotated[float, Gt(0), Le(1e6)] = 25.0
    """Rate of one rank to a rank of another node, in GB/s."""
    element_bytes: Annotated[int, Gt(0), Le(64)] = 2
    """Bytes of one element of keys and values."""


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
    """See `TopologySettings.zone_mode`."""
    price_across: float = 0.0
    """See `TopologySettings.traffic_price`."""
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
        settings: TopologySettings | None = None,
    ) -> Self:
        """Return the topology of some ranks; fewer than a node holds are one node.

        Args:
            ranks: number of ranks.
            ranks_per_node: ranks of a node.
            rank_tokens: mean tokens of a rank where nothing is padding.
            shape: the model; its heads decide how attention compares with traffic.
            settings: rates and prices.

        Raises:
            ShardError: the ranks do not fill their nodes, or a rank has no token.
        """
        chosen = settings or TopologySettings()
        per_node = min(ranks, ranks_per_node)
        if per_node < 1 or ranks % per_node:
            raise ShardError(
                f"{ranks} ranks do not fill nodes of {ranks_per_node}; give a multiple of "
                f"{ranks_per_node} ranks, at most {ranks_per_node}, or other ranks_per_node"
            )
        if rank_tokens < 1:
            raise ShardError(f"ranks of {rank_tokens} tokens have no room; give at least 1")
        within, across = (
            crossing_length(2, shape, chosen.element_bytes, chosen.tflops, rate)
            for rate in (chosen.within_gb_s, chosen.across_gb_s)
        )
        return cls(
            nodes=ranks // per_node,
            shape=shape,
            ranks_per_node=per_node,
            capacity=int(-(-rank_tokens * chosen.slack // 1)),
            crossing_within=within,
            crossing_across=across,
            zone_mode=chosen.zone_mode,
            price_across=chosen.traffic_price,
            price_within=chosen.traffic_price * chosen.across_gb_s / chosen.within_gb_s,
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

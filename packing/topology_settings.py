"""Settings of zone plans: ``[balance.topology]``."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le


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
    traffic_price: Annotated[float, Ge(0), Le(1e6)] = 0.6
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

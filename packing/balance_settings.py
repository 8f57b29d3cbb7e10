"""Settings of the balance stage: ranks, batch, and the model whose work is balanced."""

from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Gt

from packing.cost import SHAPE_SIZES, ModelShape
from packing.topology import Topology
from packing.topology_settings import TopologySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceSettings:
    """How rows are dealt to steps and ranks, and the model shape that prices them."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    dp: Annotated[int, Gt(0)] = 1
    """Data-parallel ranks that read different rows."""
    global_batch: Annotated[int, Gt(0)] = 1
    """Rows of one optimizer step over all ranks."""
    micro_batch: Annotated[int, Gt(0)] = 1
    """Rows a rank computes at a time; a slot is ``dp`` x ``micro_batch`` rows."""
    horizon: Annotated[int, Gt(0)] = 64
    """Steps whose rows are dealt together: more are better balanced, fewer keep a second plan's
    reading closer to sequential. The first plan also gathers the heaviest rows of 16 such blocks
    of steps, a 64th of all rows, so that they meet rows of their like. With one slot a step, the rows of a step resemble each other in
    cost: balance needs a ``global_batch`` of several slots to leave the mixture as it is."""
    layers: Annotated[int, Gt(0)] = 16
    """Decoder layers of the model."""
    hidden: Annotated[int, Gt(0)] = 2048
    """Width of its residual stream."""
    heads: Annotated[int, Gt(0)] = 16
    """Its query heads."""
    kv_heads: Annotated[int, Gt(0)] = 8
    """Its key and value heads."""
    head_dim: Annotated[int, Gt(0)] = 128
    """Width of one head."""
    ffn: Annotated[int, Gt(0)] = 8192
    """Inner width of its MLP."""
    experts: Annotated[int, Ge(0)] = 0
    """Routed experts of a layer, where the model has experts."""
    active_experts: Annotated[int, Ge(0)] = 0
    """Routed experts that compute each token."""
    shared_experts: Annotated[int, Ge(0)] = 0
    """Experts that compute every token."""
    expert_ffn: Annotated[int, Ge(0)] = 0
    """Inner width of one expert."""
    dense_layers: Annotated[int, Ge(0)] = 0
    """Layers of a model with experts that have one MLP of ``ffn`` instead."""
    sliding_window: Annotated[int, Ge(0)] = 0
    """Tokens that a token attends to, itself included; 0: all tokens before it."""
    full_layers: Annotated[int, Ge(0)] = 0
    """Layers of a model with a sliding window that attend to all tokens before."""
    ranks_per_node: Annotated[int, Gt(0)] | None = None
    """Ranks of a node: the dataset then holds zone plans, which say by what ranks the attention of
    each piece is computed. ``dp`` is a multiple of it, or smaller."""
    topology: TopologySettings | None = None
    """Rates of the machine and prices of its traffic, for zone plans."""

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        slot = self.dp * self.micro_batch
        if self.global_batch % slot:
            lower = self.global_batch - self.global_batch % slot
            nearest = [str(n) for n in (lower, lower + slot) if n]
            raise ValueError(
                f"global_batch = {self.global_batch} is not a multiple of dp x micro_batch = "
                f"{self.dp} x {self.micro_batch} = {slot}; set global_batch to "
                f"{' or '.join(nearest)}, or change dp or micro_batch"
            )
        if self.heads % self.kv_heads:
            raise ValueError(
                f"heads = {self.heads} is not a multiple of kv_heads = {self.kv_heads}; "
                "every key head serves the same number of query heads"
            )
        self._check_nodes()
        problem = self.shape.problem()
        if problem is not None:
            raise ValueError(problem)

    def _check_nodes(self) -> None:
        """Refuse nodes that the ranks do not fill."""
        per_node = self.ranks_per_node
        if per_node is None:
            if self.topology is not None:
                raise ValueError(
                    "topology says how fast nodes are, but not how large; set ranks_per_node, or "
                    "remove topology"
                )
        elif self.dp > per_node and self.dp % per_node:
            lower = self.dp - self.dp % per_node
            raise ValueError(
                f"dp = {self.dp} ranks do not fill nodes of ranks_per_node = {per_node}; set dp to "
                f"{lower} or {lower + per_node}, or change ranks_per_node"
            )

    def zone_topology(self, seq_len: int) -> Topology | None:
        """Return the topology that zone plans are made for, None where none are asked for.

        Args:
            seq_len: tokens of a row.
        """
        if self.ranks_per_node is None:
            return None
        return Topology.of(
            ranks=self.dp,
            ranks_per_node=self.ranks_per_node,
            rank_tokens=self.micro_batch * seq_len,
            shape=self.shape,
            **({} if self.topology is None else asdict(self.topology)),
        )

    @property
    def slot_rows(self) -> int:
        """Rows of one slot."""
        return self.dp * self.micro_batch

    @property
    def slots_per_step(self) -> int:
        """Slots of one full step."""
        return self.global_batch // self.slot_rows

    @property
    def shape(self) -> ModelShape:
        """The model that prices the rows."""
        return ModelShape(**{name: getattr(self, name) for name in SHAPE_SIZES})

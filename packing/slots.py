"""Which step, slot and rank trains a row: steps whose ranks all do the same work."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Gt

from packing.cost import ModelShape


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
    """Steps whose rows are dealt together; more is better balanced, fewer reads more locally."""
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
        return ModelShape(
            layers=self.layers,
            hidden=self.hidden,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            ffn=self.ffn,
        )

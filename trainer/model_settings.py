"""The settings of the model's shape. Nothing here imports torch."""

from dataclasses import dataclass
from typing import Annotated

from packing.cost import ModelShape
from trainer.architecture import Architecture, ArchitectureError, read_config
from trainer.geometry import PRESETS, TIED_PRESETS
from trainer.settings import Minimum, Problem

SIZES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn")
"""Sizes that every model needs."""

EXPERT_SIZES = ("experts", "active_experts", "shared_experts", "expert_ffn", "dense_layers")
"""Sizes of a model with experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """Shape of the model; vocabulary and sequence length come from the dataset."""

    preset: str | None = None
    """A shape by name: tiny, 20m, 125m, 1b, 3b or 8b. Sizes given beside it replace its own."""
    weights: str | None = None
    """Folder of a Hugging Face model (Llama, Qwen 2 or 3) to begin with, in place of sizes."""
    layers: Annotated[int, Minimum(1)] | None = None
    """Decoder layers."""
    hidden: Annotated[int, Minimum(1)] | None = None
    """Width of the residual stream."""
    heads: Annotated[int, Minimum(1)] | None = None
    """Query heads."""
    kv_heads: Annotated[int, Minimum(1)] | None = None
    """Key and value heads; divides ``heads``."""
    head_dim: Annotated[int, Minimum(2)] | None = None
    """Width of one head, even."""
    ffn: Annotated[int, Minimum(1)] | None = None
    """Inner width of the gated MLP."""
    experts: Annotated[int, Minimum(0)] | None = None
    """Routed experts of a layer; none where it is 0 or not given."""
    active_experts: Annotated[int, Minimum(1)] | None = None
    """Routed experts that compute each token."""
    shared_experts: Annotated[int, Minimum(0)] | None = None
    """Experts that compute every token."""
    expert_ffn: Annotated[int, Minimum(1)] | None = None
    """Inner width of one expert."""
    dense_layers: Annotated[int, Minimum(0)] | None = None
    """First layers that have one MLP of ``ffn`` instead of experts."""
    tied: bool | None = None
    """Whether the embedding is the output head; by default true, and the preset's with one."""

    @property
    def is_tied(self) -> bool:
        """Whether the embedding is the output head."""
        if self.tied is not None:
            return self.tied
        if self.weights is not None:
            return read_config(self.weights).tied
        return self.preset is None or self.preset in TIED_PRESETS

    def shape(self, vocab: int = 0) -> ModelShape:
        """Return the sizes of the model; complete once the configuration was checked.

        Args:
            vocab: of the dataset; weights to begin with bring their own.
        """
        if self.weights is not None:
            return read_config(self.weights).shape
        return ModelShape(**self._sizes(), vocab=vocab)

    @property
    def architecture(self) -> Architecture:
        """What is not a size."""
        if self.weights is not None:
            return read_config(self.weights).architecture
        return Architecture()

    def _sizes(self) -> dict[str, int]:
        base = PRESETS.get(self.preset or "")
        sizes = {}
        for name in (*SIZES, *EXPERT_SIZES):
            own = getattr(self, name)
            value = own if own is not None else getattr(base, name, None)
            if value is not None:
                sizes[name] = value
        return sizes

    def problems(self) -> list[Problem]:
        """Return mistakes across the fields."""
        if self.weights is not None:
            return self._weights_problems(self.weights)
        if self.preset is not None and self.preset not in PRESETS:
            return [Problem.choice("model.preset", self.preset, PRESETS)]
        sizes = self._sizes()
        missing = [n for n in SIZES if n not in sizes]
        found = [
            Problem(f"model.{name}", "missing; give a size, or model.preset for all of them")
            for name in missing
        ]
        if "heads" in sizes and "kv_heads" in sizes and sizes["heads"] % sizes["kv_heads"]:
            found.append(
                Problem(
                    "model.kv_heads",
                    f"{sizes['kv_heads']} does not divide the {sizes['heads']} query heads; "
                    "use a divisor of model.heads",
                )
            )
        if sizes.get("head_dim", 0) % 2:
            found.append(
                Problem(
                    "model.head_dim",
                    f"{sizes['head_dim']} is odd, and rotary positions turn pairs; "
                    "use an even number",
                )
            )
        wrong = None if found else self.shape().problem()
        return [Problem("model", wrong)] if wrong else found

    def _weights_problems(self, folder: str) -> list[Problem]:
        given = [
            n for n in ("preset", *SIZES, *EXPERT_SIZES, "tied") if getattr(self, n) is not None
        ]
        if given:
            text = f"given beside {', '.join(given)}; the weights bring them, remove those"
            return [Problem("model.weights", text)]
        try:
            wrong = read_config(folder).shape.problem()
        except ArchitectureError as error:
            return [Problem("model.weights", str(error))]
        return [Problem("model.weights", wrong)] if wrong else []

"""What two decoders of one shape can differ in, and how Hugging Face's config.json says it.

Nothing here imports torch.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from packing.cost import ModelShape

CONFIG_FILE = "config.json"


class ArchitectureError(ValueError):
    """A model that this trainer cannot compute; says which setting and what is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Rotary frequencies stretched as in Llama 3.1 (``rope_type`` llama3)."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What is not a size."""

    rope_theta: float = 500_000.0
    """Base of the rotary frequencies, by default that of Llama 3; fit for documents of up to about
    100K tokens."""
    norm_eps: float = 1e-5
    """Added to the mean square by RMSNorm."""
    qkv_bias: bool = False
    """Whether queries, keys and values have biases, as in Qwen 2."""
    qk_norm: bool = False
    """Whether the heads of queries and keys are normed, as in Qwen 3."""
    stretch: Stretch | None = None

    def frequencies(self, head_dim: int) -> list[float]:
        """Return the rotary angle of one position for each pair of dimensions, in radians."""
        plain = [self.rope_theta ** (-i / head_dim) for i in range(0, head_dim, 2)]
        return plain if self.stretch is None else [_stretched(f, self.stretch) for f in plain]


def _stretched(frequency: float, by: Stretch) -> float:
    turns = by.original_max_position_embeddings * frequency / (2 * math.pi)
    if turns < by.low_freq_factor:
        return frequency / by.factor
    if turns > by.high_freq_factor:
        return frequency
    share = (turns - by.low_freq_factor) / (by.high_freq_factor - by.low_freq_factor)
    return (1 - share) * frequency / by.factor + share * frequency


@dataclass(frozen=True, slots=True)
class HuggingFaceConfig:
    """What a model's ``config.json`` says."""

    shape: ModelShape
    tied: bool
    architecture: Architecture


@lru_cache(maxsize=8)
def read_config(folder: str) -> HuggingFaceConfig:
    """Read ``config.json`` of a folder with a model of Hugging Face.

    Raises:
        ArchitectureError: there is none, or the model is none of Llama, Qwen 2 and Qwen 3.
    """
    path = Path(folder) / CONFIG_FILE
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise ArchitectureError(
            f"{path}: {error.strerror}; give the folder of a Hugging Face model"
        ) from error
    except ValueError as error:
        raise ArchitectureError(f"{path}: is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise ArchitectureError(f"{path}: is no object")
    try:
        return _understood(found)
    except KeyError as error:
        raise ArchitectureError(f"{path}: has no {error}") from error
    except ArchitectureError as error:
        raise ArchitectureError(f"{path}: {error}") from error


def _understood(found: Mapping[str, Any]) -> HuggingFaceConfig:
    kind = found.get("model_type")
    if kind not in ("llama", "qwen2", "qwen3"):
        raise ArchitectureError(f"model_type {kind!r}; known are llama, qwen2 and qwen3")
    plain = {"hidden_act": "silu", "mlp_bias": False, "attention_bias": False}
    plain |= {"use_sliding_window": False, "partial_rotary_factor": 1.0}
    for key, value in plain.items():
        if found.get(key, value) != value:
            raise ArchitectureError(f"{key} = {found[key]!r}; known is {value!r}")
    # Its name was rope_scaling before, with the base beside it.
    rope: dict[str, Any] = {"rope_theta": 10_000.0, "rope_type": "default"}
    rope |= {k: v for k, v in found.items() if k == "rope_theta"}
    older = dict(found.get("rope_scaling") or {})
    rope |= {"rope_type": older.pop("type")} if "type" in older else {}
    rope |= older
    rope |= found.get("rope_parameters") or {}
    stretch = None
    if rope["rope_type"] == "llama3":
        stretch = Stretch(**{name: rope[name] for name in Stretch.__slots__})
    elif rope["rope_type"] != "default":
        raise ArchitectureError(f"rope_type {rope['rope_type']!r}; known are default and llama3")
    heads, hidden = found["num_attention_heads"], found["hidden_size"]
    shape = ModelShape(
        layers=found["num_hidden_layers"],
        hidden=hidden,
        heads=heads,
        kv_heads=found.get("num_key_value_heads") or heads,
        head_dim=found.get("head_dim") or hidden // heads,
        ffn=found["intermediate_size"],
        vocab=found["vocab_size"],
    )
    architecture = Architecture(
        rope_theta=float(rope["rope_theta"]),
        norm_eps=float(found.get("rms_norm_eps", 1e-6)),
        qkv_bias=kind == "qwen2",
        qk_norm=kind == "qwen3",
        stretch=stretch,
    )
    return HuggingFaceConfig(shape, bool(found.get("tie_word_embeddings", False)), architecture)


def to_config(
    shape: ModelShape, architecture: Architecture, *, tied: bool, seq_len: int, dtype: str
) -> dict[str, Any]:
    """Return the ``config.json`` of a model.

    Args:
        shape: sizes, with the vocabulary.
        architecture: what is not a size.
        tied: whether the embedding is the output head.
        seq_len: longest row it was trained on.
        dtype: of the weights in the file.

    Raises:
        ArchitectureError: it has experts.
    """
    if shape.experts:
        raise ArchitectureError("model.experts: a model with experts has no form there")
    kind = "qwen3" if architecture.qk_norm else "qwen2" if architecture.qkv_bias else "llama"
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": architecture.rope_theta}
    if architecture.stretch is not None:
        rope["rope_type"] = "llama3"
        rope |= {name: getattr(architecture.stretch, name) for name in Stretch.__slots__}
    names = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
    return {
        "architectures": [names[kind]],
        "model_type": kind,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocab,
        "max_position_embeddings": seq_len,
        "rms_norm_eps": architecture.norm_eps,
        "rope_parameters": rope,
        # As versions before 5 read it.
        "rope_theta": architecture.rope_theta,
        "hidden_act": "silu",
        "tie_word_embeddings": tied,
        "attention_bias": False,
        "dtype": dtype,
    }

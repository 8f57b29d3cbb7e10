"""The shape of a model by a usual name, or as its ``config.json`` gives it."""

from pathlib import Path

import orjson

from packing.cost import ModelShape
from packing.slots import BalanceSettings
from pipelines.locate import UsageError

PRESETS = {
    "1b": BalanceSettings().shape,
    "7b": ModelShape(layers=32, hidden=4096, heads=32, kv_heads=32, head_dim=128, ffn=11_008),
    "8b": ModelShape(layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=14_336),
    "70b": ModelShape(layers=80, hidden=8192, heads=64, kv_heads=8, head_dim=128, ffn=28_672),
}
"""Shapes of dense decoders; ``1b`` is the default of ``[balance]``."""
_KEYS = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "ffn": "intermediate_size",
}


def model_shape(name: str) -> ModelShape:
    """Return a preset, or the shape in a ``config.json`` of transformers.

    Raises:
        UsageError: neither a preset nor a file with the sizes.
    """
    if name in PRESETS:
        return PRESETS[name]
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"--model {name}: give one of {', '.join(PRESETS)}, or a config.json")
    try:
        config = orjson.loads(path.read_bytes())
        sizes = {size: int(config[key]) for size, key in _KEYS.items()}
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"--model {name}: no {error} in it; a config.json has {', '.join(_KEYS.values())}"
        ) from None
    heads = sizes["heads"]
    shape = ModelShape(
        **sizes,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or sizes["hidden"] // max(1, heads)),
    )
    wrong = [
        n
        for n in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn")
        if getattr(shape, n) < 1
    ]
    if wrong:
        raise UsageError(
            f"--model {name}: {wrong[0]} is {getattr(shape, wrong[0])}; sizes are above 0"
        )
    return shape

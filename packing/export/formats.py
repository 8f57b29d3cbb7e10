"""The formats packed rows can be exported to."""

from collections.abc import Callable, Mapping
from pathlib import Path

from packing.export.dataset import Exported
from packing.export.hf import export_hf
from packing.export.jsonl import export_jsonl
from packing.export.mds import export_mds
from packing.export.megatron import export_megatron
from packing.export.megatron_bridge import export_megatron_bridge
from packing.format import ShardError

FORMATS: Mapping[str, Callable[[Path, Path], Exported]] = {
    "jsonl": export_jsonl,
    "hf": export_hf,
    "megatron": export_megatron,
    "megatron-bridge": export_megatron_bridge,
    "mds": export_mds,
}
"""Export functions by the name of their format; each takes the dataset's folder and the target."""


def export_dataset(dataset: str | Path, to: str, out: str | Path) -> Exported:
    """Write a dataset's rows in another format.

    Args:
        dataset: the dataset's folder.
        to: name of the format.
        out: the file, folder or prefix to be made, as the format has it.

    Raises:
        ShardError: there is no such format, or the dataset is unfinished or damaged.
    """
    if to not in FORMATS:
        raise ShardError(f"{to}: no such format; use one of {', '.join(FORMATS)}")
    return FORMATS[to](Path(dataset), Path(out))

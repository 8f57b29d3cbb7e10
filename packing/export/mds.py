"""Packed rows as MosaicML's streaming shards (MDS): ``index.json`` and ``shard.*.mds``.

The format is small and fixed, so it is written here without its library. A shard is the number of
samples, their offsets and the columns' description, then the samples; a sample is the sizes of its
columns of varying size, then the columns in the order of their names. An array of one axis is a byte
(axes << 2 | width of the length), its length, its values.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from packing.export.dataset import Exported, Packed, lost_alignment, open_dataset
from packing.rows import MicroBatch, RowGroup
from packing.writer import published

_COLUMNS = {
    "doc_uid": "ndarray:int64",
    "labels": "ndarray:int32",
    "lengths": "ndarray:int32",
    "rank": "int",
    "row_id": "int",
    "slot": "int",
    "step": "int",
    "tokens": "ndarray:int32",
}
_SHARD_BYTES = 1 << 26
_CONFIG: dict[str, Any] = {
    "version": 2,
    "format": "mds",
    "compression": None,
    "hashes": [],
    "size_limit": _SHARD_BYTES,
    "column_names": list(_COLUMNS),
    "column_encodings": list(_COLUMNS.values()),
    "column_sizes": [8 if kind == "int" else None for kind in _COLUMNS.values()],
}
_LOST = (
    "The plan is kept as the columns step, slot and rank, and samples stand in its order; "
    "StreamingDataset deals samples to ranks and shuffles them by rules of its own.",
    "Loss weights other than 0 and 1 are not kept: a target is trained or it is not.",
    "doc_copy, doc_offset and domain are not kept.",
    "The fingerprints and settings in the footers and the manifest are not in the shards.",
)


def export_mds(dataset: Path, out: Path) -> Exported:
    """Write a folder to be given to ``streaming.StreamingDataset(local=...)``.

    A sample has ``tokens``; ``labels``, the target of each token (shifted already; -100 where nothing
    is trained; the document's next token after a piece whose document goes on); ``lengths``, the
    tokens of each piece; ``doc_uid`` of each piece; ``row_id``, ``step``, ``slot`` and ``rank``.

    Args:
        dataset: the dataset's folder.
        out: the folder to be made.

    Raises:
        ShardError: the dataset is unfinished or damaged.
    """
    packed = open_dataset(dataset)
    out.mkdir(parents=True, exist_ok=True)
    shards: list[dict[str, Any]] = []
    files: list[Path] = []
    waiting: list[bytes] = []
    held = rows = tokens = 0
    for group, first in _groups(packed):
        for sample in _samples(group, packed, first):
            if waiting and held + len(sample) + 4 > _SHARD_BYTES:
                files.append(_write(out, waiting, shards))
                waiting, held = [], 0
            waiting.append(sample)
            held += len(sample) + 4
        rows += group.n_rows
        tokens += len(group.input_ids)
    if waiting:
        files.append(_write(out, waiting, shards))
    index = out / "index.json"
    with published(index) as temporary:
        text = json.dumps({"shards": shards, "version": 2}, sort_keys=True)
        temporary.write_text(text, encoding="utf-8")
    return Exported("mds", (*files, index), rows, tokens, (*_LOST, *lost_alignment(packed.info)))


def _groups(packed: Packed) -> Iterator[tuple[RowGroup, int]]:
    """Give row groups, each with the number of rows before it."""
    first = 0
    for group in packed.read():
        yield group, first
        first += group.n_rows


def _samples(group: RowGroup, packed: Packed, first: int) -> Iterator[bytes]:
    """Give each row as the bytes of a sample."""
    labels = MicroBatch.of(group).labels
    places = packed.plan.slice(first, group.n_rows).select(["step", "slot", "rank"]).to_pylist()
    for at, place in enumerate(places):
        token = slice(int(group.row_offsets[at]), int(group.row_offsets[at + 1]))
        piece = slice(int(group.piece_offsets[at]), int(group.piece_offsets[at + 1]))
        values = {
            "doc_uid": _array(group.doc_uid[piece]),
            "labels": _array(labels[token]),
            "lengths": _array(group.length[piece]),
            "tokens": _array(group.input_ids[token]),
            "row_id": struct.pack("<q", int(group.row_id[at])),
            **{name: struct.pack("<q", value) for name, value in place.items()},
        }
        columns = [values[name] for name in _COLUMNS]
        sizes = [len(values[name]) for name, kind in _COLUMNS.items() if kind != "int"]
        yield struct.pack(f"<{len(sizes)}I", *sizes) + b"".join(columns)


def _array(values: npt.NDArray[Any]) -> bytes:
    """Return an array of one axis, at least one value, with its length before it."""
    width = next(w for w in range(4) if len(values) < 1 << (8 << w))
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return bytes([1 << 2 | width]) + len(values).to_bytes(1 << width, "little") + little.tobytes()


def _write(out: Path, samples: list[bytes], shards: list[dict[str, Any]]) -> Path:
    """Write one shard and enter it into the index."""
    path = out / f"shard.{len(shards):05d}.mds"
    config = json.dumps(_CONFIG, sort_keys=True).encode()
    offsets = np.cumsum([0, *map(len, samples)]) + 4 + 4 * (len(samples) + 1) + len(config)
    with published(path) as temporary, temporary.open("wb") as sink:
        sink.write(struct.pack("<I", len(samples)) + offsets.astype("<u4").tobytes() + config)
        sink.writelines(samples)
    raw = {"basename": path.name, "bytes": int(offsets[-1]), "hashes": {}}
    shards.append({**_CONFIG, "raw_data": raw, "samples": len(samples), "zip_data": None})
    return path

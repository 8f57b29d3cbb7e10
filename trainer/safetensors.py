"""The safetensors format: a header of JSON behind its length in 8 bytes, then the raw tensors."""

import json
import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""Names of the format and torch's types."""

_NAMES = {dtype: name for name, dtype in DTYPES.items()}

_MOST_HEADER = 100_000_000
"""Bytes of the longest header that readers of the format take."""


class SafetensorsError(ValueError):
    """A file that is not what the format says; names file, place and remedy."""


def save(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors, in the order of their names, each behind the last.

    Args:
        path: the file; it is written under another name and renamed.
        tensors: of the types of :data:`DTYPES`.
        metadata: texts beside them; other tools look for ``format``: ``pt``.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    offset = 0
    for name, tensor in sorted(tensors.items()):
        end = offset + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)))
        stream.write(text)
        for _, tensor in sorted(tensors.items()):
            whole = tensor.detach().cpu().contiguous()
            stream.write(whole.reshape(-1).view(torch.uint8).numpy().data)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.rename(path)


def load(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file by name; they are read from the disk when they are used.

    Raises:
        SafetensorsError: the file is cut off, or its header is not one.
    """
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            entries, begin = _header(stream.read(min(size, 8 + _MOST_HEADER)), size)
            # Copied on writing, so that a tensor may be changed without changing the file.
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        return {name: _tensor(data, begin, size, entry) for name, entry in entries.items()}
    except OSError as error:
        raise SafetensorsError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (KeyError, TypeError, ValueError) as error:
        raise SafetensorsError(
            f"{path}: is no complete safetensors file ({error}); fetch it again"
        ) from error


def _header(head: bytes, size: int) -> tuple[dict[str, Any], int]:
    """Return the entries and where the tensors begin."""
    if size < 8:
        raise ValueError(f"{size} bytes")
    (length,) = struct.unpack("<Q", head[:8])
    if length > min(_MOST_HEADER, size - 8):
        raise ValueError(f"a header of {length} bytes in a file of {size}")
    entries = json.loads(head[8 : 8 + length])
    if not isinstance(entries, dict):
        raise TypeError("the header is no object")
    entries.pop("__metadata__", None)
    end = max((entry["data_offsets"][1] for entry in entries.values()), default=0)
    if 8 + length + end != size:
        raise ValueError(f"its tensors end at byte {8 + length + end} of {size}")
    return entries, 8 + length


def _tensor(data: mmap.mmap, begin: int, size: int, entry: Mapping[str, Any]) -> Tensor:
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"type {entry['dtype']}, known are {', '.join(DTYPES)}")
    dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
    first, end = entry["data_offsets"]
    count = 1
    for extent in shape:
        count *= extent
    if not 0 <= first <= end or begin + end > size or end - first != count * dtype.itemsize:
        raise ValueError(f"{shape} of {entry['dtype']} at bytes {first} to {end}")
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype, count=count, offset=begin + first).reshape(shape)

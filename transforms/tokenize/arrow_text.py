"""The bytes of a text column, without copying them."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def text_buffers(text: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return the UTF-8 bytes of a column and where each document begins.

    Args:
        text: string or large_string [documents]; null counts as empty.

    Returns:
        uint8 [bytes], read-only, and int64 [documents + 1], offsets into them.
    """
    if text.null_count:
        text = text.fill_null("")
    dtype = np.int64 if pa.types.is_large_string(text.type) else np.int32
    _, offsets, data = text.buffers()
    if offsets is None or data is None or not len(text) or not data.size:
        return _frozen(np.empty(0, dtype=np.uint8)), np.zeros(len(text) + 1, dtype=np.int64)
    starts = np.frombuffer(offsets, dtype=dtype)[text.offset : text.offset + len(text) + 1]
    return _frozen(np.frombuffer(data, dtype=np.uint8)), starts.astype(np.int64)


def _frozen(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Return the array read-only, so that kernels are compiled for one kind of array."""
    data.flags.writeable = False
    return data


def with_leading_space(
    data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Put a space before each document that is not empty; as :func:`text_buffers`."""
    full = offsets[1:] > offsets[:-1]
    shifted = np.zeros_like(offsets)
    shifted[1:] = np.cumsum(np.diff(offsets) + full)
    longer = np.empty(int(shifted[-1]), dtype=np.uint8)
    is_text = np.ones(len(longer), dtype=np.bool_)
    is_text[shifted[:-1][full]] = False
    longer[is_text] = data[offsets[0] : offsets[-1]]
    longer[~is_text] = 0x20
    return _frozen(longer), shifted

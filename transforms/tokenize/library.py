"""Encoding by a tokenizer's own library, in batches of bounded size."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.tokenize.encoder import Encoded

BATCH_BYTES = 4 << 20
"""Text handed to a library in one call; its ids are copied to int32 before the next batch."""

EncodeBatch = Callable[[list[str]], Sequence[Sequence[int] | npt.NDArray[np.int32]]]


def batches(text: pa.Array, size: int = BATCH_BYTES) -> Iterator[list[str]]:
    """Yield the documents in order, in lists of at most ``size`` bytes or one document."""
    if not len(text):
        return
    lengths = pc.fill_null(pc.binary_length(text), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths, dtype=np.int64)
    start, done = 0, 0
    while start < len(text):
        stop = max(start + 1, int(np.searchsorted(ends, done + size, side="right")))
        yield [document or "" for document in text[start:stop].to_pylist()]
        start, done = stop, int(ends[stop - 1])


def encode_in_batches(text: pa.Array, encode: EncodeBatch) -> Encoded:
    """Encode documents through a function over lists of strings.

    Args:
        text: string or large_string [documents]; null counts as empty.
        encode: returns one sequence of ids for each string.

    Returns:
        The ids of all documents.
    """
    lengths = [np.zeros(1, dtype=np.int64)]
    parts: list[npt.NDArray[np.int32]] = []
    for batch in batches(text):
        encoded = encode(batch)
        lengths.append(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))
        parts.append(
            np.concatenate([np.asarray(ids, dtype=np.int32) for ids in encoded], dtype=np.int32)
        )
    ids = np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)
    return Encoded(np.cumsum(np.concatenate(lengths)), ids)

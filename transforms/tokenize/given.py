"""Documents that come as token ids: their text is the ids, spelled in decimal."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.tokenize.encoder import Encoded


def spell(ids: pa.ListArray) -> pa.StringArray:
    """Return lists of ids as texts: decimal numbers with one space between them.

    Args:
        ids: lists of integers without nulls.
    """
    values = ids.flatten().cast(pa.string())
    offsets = ids.offsets.to_numpy().astype(np.int64)
    lists = pa.ListArray.from_arrays(pa.array((offsets - offsets[0]).astype(np.int32)), values)
    return pc.binary_join(lists, " ")


def read_ids(texts: pa.StringArray) -> Encoded:
    """Return the ids that :func:`spell` wrote; none for an empty text."""
    lists = pc.split_pattern(texts, " ")
    counts = pc.list_value_length(lists).to_numpy().astype(np.int64)
    words = lists.flatten()
    empty = pc.equal(words, "")
    if pc.any(empty).as_py():
        counts[pc.equal(texts, "").to_numpy(zero_copy_only=False)] = 0
        words = words.filter(pc.invert(empty))
    ids = words.cast(pa.int64()).to_numpy()
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    # Ids that no vocabulary has stay recognizable in 32 bits.
    return Encoded(offsets, np.clip(ids, -1, (1 << 31) - 1).astype(np.int32))


def outside(encoded: Encoded, vocab_size: int) -> tuple[int, int] | None:
    """Return (document, token) of the first id outside ``[0, vocab_size)``, or None."""
    wrong: npt.NDArray[np.int64] = np.flatnonzero(encoded.ids.view(np.uint32) >= vocab_size)
    if not len(wrong):
        return None
    at = int(wrong[0])
    document = int(np.searchsorted(encoded.offsets, at, "right")) - 1
    return document, at - int(encoded.offsets[document])

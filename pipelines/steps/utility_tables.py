"""Tables of the stage ``utility``: tokens as lists, strata as numbers, scores as columns."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.shingles import text_blocks, token_hashes


def known(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return scores with the least possible one where there is none."""
    return np.nan_to_num(scores.astype(np.float64), nan=-np.inf)


def float32(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return values with fewer digits."""
    return values.astype(np.float32)


def codes(strata: list[pa.ChunkedArray]) -> npt.NDArray[np.int32]:
    """Return numbers for strings, in the order of the strings."""
    whole = pa.chunked_array([chunk for column in strata for chunk in column.chunks], pa.string())
    rank = pc.rank(whole, tiebreaker="dense").to_numpy(zero_copy_only=False)
    codes: npt.NDArray[np.int32] = rank.astype(np.int32) - 1
    return codes


def token_blocks(table: pa.Table) -> Iterator[tuple[Any, Any, Any]]:
    """Yield addresses, where each document's tokens begin, and the tokens; block by block."""
    place = 0
    uid = table["doc_uid"].to_numpy()
    for block in text_blocks(table["text"]):
        yield uid[place : place + len(block)], *token_hashes(block)
        place += len(block)


def lists(sizes: npt.NDArray[np.int64], values: npt.NDArray[np.uint64]) -> pa.Array:
    """Return the tokens of documents, of which each has so many, as a column of lists."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return pa.LargeListArray.from_arrays(offsets, pa.array(values))


def flat(table: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """Return where each document's tokens begin, and the tokens."""
    column = table["tokens"].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    sizes = pc.list_value_length(column).to_numpy(zero_copy_only=False).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return offsets, column.flatten().to_numpy(zero_copy_only=False).astype(np.uint64)

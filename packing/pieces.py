"""Parts of documents in rows, and rows counted in units of several tokens."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from packing.rows import aligned


@dataclass(frozen=True, slots=True)
class Pieces:
    """Parts of documents in rows, sorted by (row, place in the row); one entry per piece."""

    row: npt.NDArray[np.int64]
    """Row of each piece, int64[m]; rows count from 0 without holes."""
    document: npt.NDArray[np.int64]
    """Index of its document in the lengths that were fitted, int64[m]."""
    start: npt.NDArray[np.int32]
    """First token of the piece within its document, int32[m]."""
    length: npt.NDArray[np.int32]
    """Tokens of the piece, int32[m], at least 1."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.row[-1]) + 1 if len(self.row) else 0

    def row_tokens(self) -> npt.NDArray[np.int32]:
        """Return the tokens of each row, int32[rows]."""
        return np.bincount(self.row, self.length, self.rows).astype(np.int32)

    def row_squares(self) -> npt.NDArray[np.float64]:
        """Return the sum of squared piece lengths of each row, float64[rows], for `row_cost`."""
        squares = self.length.astype(np.float64) ** 2
        return np.bincount(self.row, squares, self.rows).astype(np.float64, copy=False)

    def alignment(self, align: int) -> int:
        """Return the tokens of padding that fill every piece to a multiple of ``align``."""
        return int((aligned(self.length, align) - self.length).sum(dtype=np.int64))


def in_units(n_tokens: npt.NDArray[np.int32], align: int) -> npt.NDArray[np.int32]:
    """Return lengths in units of ``align`` tokens, begun ones counted whole."""
    return n_tokens if align == 1 else aligned(n_tokens, align) // np.int32(align)


def in_tokens(pieces: Pieces, n_tokens: npt.NDArray[np.int32], align: int) -> Pieces:
    """Return pieces that were fitted in units of ``align`` tokens as pieces of tokens.

    Args:
        pieces: start and length in units.
        n_tokens: tokens of each document.
        align: tokens of a unit.
    """
    if align == 1:
        return pieces
    start = pieces.start * np.int32(align)
    left = n_tokens[pieces.document] - start
    length = np.minimum(pieces.length.astype(np.int64) * align, left).astype(np.int32)
    return Pieces(pieces.row, pieces.document, start, length)

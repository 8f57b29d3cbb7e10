"""What a row of `sculpt` can hold, and what its rows are measured against: lengths alone."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from packing.fit import PackSettings, fit_rows
from packing.sculpt_settings import SculptSettings

Int64s = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]

NO_LIMIT = (1 << 31) - 1
"""Documents of a row where there is no limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a row can hold, and how it is filled."""

    seq_len: int
    max_docs: int
    settings: SculptSettings

    @property
    def slack(self) -> int:
        """Tokens that a full row may lack."""
        return int((1.0 - self.settings.fill) * self.seq_len + 1e-9)


def limits_of(settings: PackSettings) -> Limits:
    """Return what a row can hold."""
    return Limits(settings.seq_len, settings.max_docs_per_row or NO_LIMIT, settings.sculpt)


def in_unit_rows(settings: PackSettings) -> PackSettings:
    """Return the settings of rows that are counted in units of ``align`` tokens."""
    return replace(settings, seq_len=settings.seq_len // settings.align, align=1)


def clusters_for(tokens: int, seq_len: int, settings: SculptSettings) -> int:
    """Return how many clusters documents of so many tokens in all are split into."""
    return max(1, tokens // (seq_len * settings.rows_per_cluster))


def by_length(n_tokens: Int32s, limits: Limits) -> Int64s:
    """Return the rows of documents that are packed by length alone, int64[n]."""
    settings = PackSettings(
        seq_len=limits.seq_len,
        max_docs_per_row=limits.max_docs if limits.max_docs < NO_LIMIT else None,
    )
    pieces = fit_rows(n_tokens, np.arange(len(n_tokens), dtype=np.uint64), settings)
    row = np.empty(len(n_tokens), np.int64)
    row[pieces.document] = pieces.row
    return row


def squares_allowed(n_tokens: Int32s, settings: PackSettings) -> float:
    """Return what the squared numbers of documents of rows without full ones may add up to.

    Args:
        n_tokens: length of each document, int32[n].
        settings: ``count_spread`` says how much of best-fit's spread is allowed.
    """
    best = fit_rows(
        n_tokens[n_tokens > 0],
        np.arange(np.count_nonzero(n_tokens), dtype=np.uint64),
        PackSettings(seq_len=settings.seq_len, max_docs_per_row=settings.max_docs_per_row),
    )
    count = np.bincount(best.row).astype(np.float64)
    variance = float(count.var()) * settings.sculpt.count_spread**2
    full = int((n_tokens // np.int32(settings.seq_len)).sum(dtype=np.int64))
    return len(count) * (variance + float(count.mean()) ** 2) - full

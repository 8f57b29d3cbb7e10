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
    dense: float = NO_LIMIT
    """Documents of the mean row of a cluster; where there were more, the shortest go elsewhere."""

    @property
    def slack(self) -> int:
        """Tokens that a full row may lack."""
        return int((1.0 - self.settings.fill) * self.seq_len + 1e-9)


def limits_of(settings: PackSettings, dense: float = NO_LIMIT) -> Limits:
    """Return what a row can hold."""
    most = settings.max_docs_per_row or NO_LIMIT
    return Limits(settings.seq_len, most, settings.sculpt, dense)


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

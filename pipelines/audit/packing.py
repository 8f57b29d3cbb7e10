"""What a packing is worth: documents cut, padding, waiting of ranks, beside a plan of ours."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from packing.cost import ModelShape, attention_squares, row_cost
from packing.fit import PackSettings, fit_rows
from packing.slots import BalanceSettings, imbalance, plan_steps
from pipelines.audit.packed import Ints, Packed
from transforms.record import mix64


@dataclass(frozen=True, slots=True)
class Figures:
    """One packing, counted."""

    rows: int
    tokens: int
    """In rows."""
    padding: float
    """Share of row slots not filled; a row over the window counts as full."""
    rows_over: int
    """Rows of more tokens than the window."""
    longest_row: int
    documents_cut: int | None
    """Documents in several pieces; None where the input does not tell."""
    cut_needlessly: int | None
    """Those of them that fit a row."""
    documents_lost: int
    """In no row."""
    tokens_lost: int
    documents_per_row: float
    imbalance_step: float | None
    """Slowest over mean rank, one synchronization a step; None: not one full step."""
    imbalance_micro_batch: float | None
    """The same with one a micro-batch."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class Limits:
    """What a packing may have without failing."""

    padding: float = 0.01
    imbalance: float = 1.05


@dataclass(frozen=True, slots=True)
class Judged:
    """Somebody's packing beside ours of the same documents."""

    theirs: Figures
    ours: Figures
    documents: int
    failed: list[str]
    """What of theirs is over a limit, for people."""


def judge(packed: Packed, seq_len: int, settings: BalanceSettings, limits: Limits) -> Judged:
    """Count a packing, plan the same documents as a run would, and name what is over a limit."""
    theirs = _theirs(packed, seq_len, settings)
    ours = _ours(packed.document_tokens(), seq_len, settings)
    failed = []
    if theirs.rows_over:
        failed.append(
            f"{theirs.rows_over:,} rows over {seq_len:,} tokens, up to {theirs.longest_row:,}"
        )
    if theirs.cut_needlessly:
        failed.append(f"{theirs.cut_needlessly:,} documents cut that fit a row")
    if theirs.tokens_lost:
        failed.append(
            f"{theirs.tokens_lost:,} tokens of {theirs.documents_lost:,} documents in no row"
        )
    if theirs.padding > limits.padding:
        failed.append(f"padding {theirs.padding:.3%} is over {limits.padding:.3%}")
    waiting = theirs.imbalance_micro_batch
    if waiting is not None and waiting > limits.imbalance:
        failed.append(f"ranks take {waiting:.4f} of the mean, over {limits.imbalance:g}")
    return Judged(theirs, ours, int(packed.document.max()) + 1, failed)


def _theirs(packed: Packed, seq_len: int, settings: BalanceSettings) -> Figures:
    placed = packed.row >= 0
    row, length, document = packed.row[placed], packed.length[placed], packed.document[placed]
    rows = packed.rows
    cost, tokens = _cost(row, length, rows, settings.shape)
    cut: int | None = None
    needlessly: int | None = None
    if packed.unfinished is not None:
        cut = packed.unfinished
    elif packed.cuts_known:
        several = np.bincount(packed.document) > 1
        cut = int(several.sum())
        needlessly = int((several & (packed.document_tokens() <= seq_len)).sum())
    lost = np.setdiff1d(packed.document[~placed], document)
    return Figures(
        documents_cut=cut,
        cut_needlessly=needlessly,
        documents_lost=len(lost),
        tokens_lost=int(packed.length[~placed].sum()),
        **_filled(tokens, len(length), seq_len),
        **_waiting(cost, settings),
    )


def _ours(tokens: Ints, seq_len: int, settings: BalanceSettings) -> Figures:
    """Fit the same documents, and deal the rows to steps."""
    order = mix64(np.arange(len(tokens)), 0)
    pieces = fit_rows(tokens.astype(np.int32), order, PackSettings(seq_len=seq_len))
    cost, filled = _cost(pieces.row, pieces.length.astype(np.int64), pieces.rows, settings.shape)
    plan = plan_steps(cost, filled.astype(np.int32), settings, 0)
    return Figures(
        documents_cut=int((tokens > seq_len).sum()),
        cut_needlessly=0,
        documents_lost=0,
        tokens_lost=0,
        **_filled(filled, len(pieces.row), seq_len),
        **_waiting(cost[plan.order], settings),
    )


def _cost(
    row: Ints, length: Ints, rows: int, shape: ModelShape
) -> tuple[npt.NDArray[np.float64], Ints]:
    """Return cost and tokens of each row."""
    tokens = np.bincount(row, length, rows)
    squares = np.bincount(row, attention_squares(length, shape), rows)
    return row_cost(tokens, squares, shape), tokens.astype(np.int64)


def _filled(tokens: Ints, pieces: int, seq_len: int) -> dict[str, Any]:
    """Return the figures of how full rows are."""
    rows = max(1, len(tokens))
    return {
        "rows": len(tokens),
        "tokens": int(tokens.sum()),
        "padding": 1 - float(np.minimum(tokens, seq_len).sum()) / (rows * seq_len),
        "rows_over": int((tokens > seq_len).sum()),
        "longest_row": int(tokens.max(initial=0)),
        "documents_per_row": pieces / rows,
    }


def _waiting(cost: npt.NDArray[np.float64], settings: BalanceSettings) -> dict[str, Any]:
    """Return the figures of how long ranks wait."""
    a_step, a_slot = imbalance(cost, settings)
    return {
        "imbalance_step": None if math.isnan(a_step) else a_step,
        "imbalance_micro_batch": None if math.isnan(a_slot) else a_slot,
    }

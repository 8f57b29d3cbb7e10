"""Rows in memory: flat numpy columns of some packed rows, and what a training step makes of them.

Imports numpy and the standard library alone, so that it can be vendored with the reader.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from packing.format import IGNORED_LABEL, ShardError

Int16 = npt.NDArray[np.int16]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float32 = npt.NDArray[np.float32]


def offsets_of(counts: npt.NDArray[Any]) -> Int64:
    """Return the running sum of counts from 0, shape [len(counts) + 1], int64."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def aligned(length: npt.NDArray[Any], align: int) -> npt.NDArray[Any]:
    """Return lengths filled up to multiples of ``align``, same shape and type."""
    return length if align == 1 else -(-length // align) * align


@lru_cache(maxsize=4)
def _counting(n: int) -> Int32:
    """Return 0 to n - 1, made once: numpy counts slower than it subtracts."""
    numbers = np.arange(n, dtype=np.int32)
    numbers.flags.writeable = False
    return numbers


@dataclass(frozen=True)
class LossSpans:
    """Which targets of some rows are trained, and with which weight.

    Positions are those of targets in their row: position ``i + 1`` is the target of the token at
    ``i``. Where ``i`` is the last token of a piece, position ``i + 1`` stands for the piece's
    ``next_token`` (the first token of a piece is a target of nothing else).
    """

    is_null: npt.NDArray[np.bool_]
    """[r] True where every target of the row is trained with weight 1."""
    offsets: Int64
    """[r + 1] first span of each row; a null row has none."""
    start: Int32
    """[s] first target of the span."""
    end: Int32
    """[s] target after the last."""
    weight: Float32
    """[s] weight of the span's targets in the loss."""

    def slice(self, first: int, stop: int) -> "LossSpans":
        """Return the spans of rows ``first`` to ``stop``."""
        a, b = int(self.offsets[first]), int(self.offsets[stop])
        return LossSpans(
            self.is_null[first:stop],
            self.offsets[first : stop + 1] - a,
            self.start[a:b],
            self.end[a:b],
            self.weight[a:b],
        )

    @classmethod
    def none(cls, rows: int) -> "LossSpans":
        """Return the spans of rows that are trained throughout."""
        no = np.empty(0, np.int32)
        offsets = np.zeros(rows + 1, np.int64)
        return cls(np.ones(rows, np.bool_), offsets, no, no, np.empty(0, np.float32))

    @classmethod
    def concat(cls, parts: "Sequence[LossSpans]") -> "LossSpans":
        """Join the spans of several runs of rows."""
        counts = [np.diff(part.offsets) for part in parts]
        return cls(
            np.concatenate([part.is_null for part in parts]),
            offsets_of(np.concatenate(counts)),
            np.concatenate([part.start for part in parts]),
            np.concatenate([part.end for part in parts]),
            np.concatenate([part.weight for part in parts]),
        )


@dataclass(frozen=True)
class RowGroup:
    """Some packed rows as flat columns: r rows, p pieces, t tokens."""

    row_id: Int64
    """[r] number of the row in the dataset."""
    pieces_per_row: Int32
    """[r] pieces of each row, at least 1."""
    doc_uid: Int64
    """[p] address of the piece's document."""
    doc_copy: Int16
    """[p] which copy of the document, from 0."""
    doc_offset: Int32
    """[p] first token of the piece within its document."""
    length: Int32
    """[p] tokens of the piece, at least 1."""
    next_token: Int32
    """[p] the document's token after the piece; -1 where the document ends."""
    domain: Int16
    """[p] index into the dataset's domain names."""
    input_ids: Int32
    """[t] token ids."""
    loss_spans: LossSpans | None = None
    """Trained targets; None where every row is trained throughout."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.row_id)

    @cached_property
    def cu_seqlens(self) -> Int32:
        """[p + 1] where each piece starts in ``input_ids``, int32, from 0 to t."""
        return offsets_of(self.length).astype(np.int32)

    @cached_property
    def piece_offsets(self) -> Int64:
        """[r + 1] first piece of each row."""
        return offsets_of(self.pieces_per_row)

    @cached_property
    def row_offsets(self) -> Int64:
        """[r + 1] where each row starts in ``input_ids``."""
        return offsets_of(self.length)[self.piece_offsets]

    def slice(self, first: int, stop: int) -> "RowGroup":
        """Return rows ``first`` to ``stop`` without copying their columns."""
        a, b = int(self.piece_offsets[first]), int(self.piece_offsets[stop])
        i, j = int(self.row_offsets[first]), int(self.row_offsets[stop])
        return RowGroup(
            self.row_id[first:stop],
            self.pieces_per_row[first:stop],
            self.doc_uid[a:b],
            self.doc_copy[a:b],
            self.doc_offset[a:b],
            self.length[a:b],
            self.next_token[a:b],
            self.domain[a:b],
            self.input_ids[i:j],
            None if self.loss_spans is None else self.loss_spans.slice(first, stop),
        )

    @classmethod
    def empty(cls) -> "RowGroup":
        """Return a group without rows."""
        i16, i32, i64 = np.empty(0, np.int16), np.empty(0, np.int32), np.empty(0, np.int64)
        return RowGroup(i64, i32, i64, i16, i32, i32, i32, i16, i32)

    @classmethod
    def concat(cls, parts: "Sequence[RowGroup]") -> "RowGroup":
        """Join runs of rows, in the order given."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty()
        columns = {
            name: np.concatenate([getattr(p, name) for p in parts])
            for name in _COLUMNS
            if name != "loss_spans"
        }
        spans = None
        if any(part.loss_spans is not None for part in parts):
            spans = LossSpans.concat([p.loss_spans or LossSpans.none(p.n_rows) for p in parts])
        return RowGroup(**columns, loss_spans=spans)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        return sum(getattr(self, f.name).nbytes for f in fields(RowGroup) if f.name != "loss_spans")


_COLUMNS = tuple(f.name for f in fields(RowGroup))


@dataclass(frozen=True)
class PaddedBatch:
    """A micro-batch in arrays of a fixed shape, b rows of n tokens each."""

    input_ids: Int32
    """[b, n] token ids, the padding id after each row's tokens."""
    labels: Int32
    """[b, n] targets, -100 where nothing is trained."""
    position_ids: Int32
    """[b, n] positions; they restart at every segment, the padding too."""
    loss_weights: Float32
    """[b, n] weights of the targets, 0 where nothing is trained."""
    cu_seqlens: Int32
    """[segments + 1] running sum of the segments' tokens; a row's padding is its last segment."""
    cu_seqlens_padded: Int32
    """[segments + 1] segment starts in the flattened arrays: ``cu_seqlens`` but where pieces are
    filled to multiples of ``align``."""


@dataclass(frozen=True)
class AlignedBatch:
    """A micro-batch in one flat sequence, every piece filled to a multiple of ``align``."""

    input_ids: Int32
    """[n] token ids, the padding id after each piece's tokens."""
    labels: Int32
    """[n] targets, -100 where nothing is trained."""
    position_ids: Int32
    """[n] positions; those of a piece count on through its filling."""
    loss_weights: Float32
    """[n] weights of the targets, 0 where nothing is trained."""
    cu_seqlens: Int32
    """[pieces + 1] running sum of the pieces' tokens."""
    cu_seqlens_padded: Int32
    """[pieces + 1] where pieces start in the arrays, multiples of ``align``."""


@dataclass(frozen=True)
class MicroBatch(RowGroup):
    """The rows of one rank in one slot of a step; without rows where a short step has none."""

    step: int = 0
    slot: int = 0
    seq_len: int = 0
    pad_id: int = 0
    continue_positions: bool = False
    """Count positions from the document's start instead of the piece's."""
    align: int = 1
    """What the tokens that a piece takes are a multiple of, where rows are laid out padded."""
    cp: Int16 | None = None
    """[r] ranks that share each row, or None where none is shared."""

    @classmethod
    def of(cls, rows: RowGroup, **place: Any) -> Self:
        """Return rows as a micro-batch at a place of the plan."""
        return cls(**{name: getattr(rows, name) for name in _COLUMNS}, **place)

    @cached_property
    def loss_weights(self) -> Float32:
        """[t] weight of the target of each token, 0 where it is not trained."""
        weights = self._span_weights()
        last = self.cu_seqlens[1:] - 1
        weights[last[self.next_token < 0]] = 0
        return weights

    @cached_property
    def labels(self) -> Int32:
        """[t] target of each token, -100 where it is not trained.

        Inside a piece the target is the token that follows; after a piece's last token it is
        ``next_token``, the document's going on, and nothing where the document ends.
        """
        labels = np.empty_like(self.input_ids)
        labels[:-1] = self.input_ids[1:]
        labels[self.cu_seqlens[1:] - 1] = np.where(
            self.next_token < 0, IGNORED_LABEL, self.next_token
        )
        if self.loss_spans is not None:
            labels[self.loss_weights == 0] = IGNORED_LABEL
        return labels

    @cached_property
    def position_ids(self) -> Int32:
        """[t] position of each token in its piece, or in its document (continue_positions)."""
        start = self.cu_seqlens[:-1]
        if self.continue_positions:
            start = start - self.doc_offset
        n = len(self.input_ids)
        return _counting(1 << n.bit_length())[:n] - np.repeat(start, self.length)

    @cached_property
    def buckets(self) -> Int32:
        """[r] floor(log2) of each row's longest piece, as Dataset Decomposition's buckets of lengths."""
        longest = np.zeros(self.n_rows, np.int32)
        np.maximum.at(longest, np.repeat(np.arange(self.n_rows), self.pieces_per_row), self.length)
        return np.frexp(longest)[1].astype(np.int32) - 1

    @cached_property
    def cu_seqlens_padded(self) -> Int32:
        """[p + 1] where each piece starts when all are filled to multiples of ``align``."""
        return offsets_of(aligned(self.length, self.align)).astype(np.int32)

    def aligned(self) -> AlignedBatch:
        """Return the batch in one flat sequence, every piece filled to a multiple of ``align``."""
        bounds = self.cu_seqlens_padded
        n = int(bounds[-1])
        shift = bounds[:-1] - self.cu_seqlens[:-1]
        place = np.arange(len(self.input_ids)) + np.repeat(shift, self.length)
        start = bounds[:-1] - (self.doc_offset if self.continue_positions else 0)

        def spread(values: npt.NDArray[Any], fill: Any) -> npt.NDArray[Any]:
            out = np.full(n, fill, values.dtype)
            out[place] = values
            return out

        return AlignedBatch(
            spread(self.input_ids, self.pad_id),
            spread(self.labels, IGNORED_LABEL),
            np.arange(n, dtype=np.int32) - np.repeat(start, np.diff(bounds)).astype(np.int32),
            spread(self.loss_weights, 0),
            self.cu_seqlens,
            bounds,
        )

    def padded(self, rows: int | None = None, length: int | None = None) -> PaddedBatch:
        """Return the batch in arrays of a fixed shape, pieces filled to multiples of ``align``.

        Args:
            rows: rows of the result, filled up with rows of padding; those of the batch by default.
            length: tokens per row; by default ``seq_len``, times the ranks that share a row.

        Raises:
            ShardError: a row is longer than ``length``, or there are more rows than ``rows``.
        """
        rows = self.n_rows if rows is None else rows
        if length is None:
            length = self.seq_len * (1 if self.cp is None else int(self.cp.max(initial=1)))
        flat = self.aligned() if self.align > 1 else self
        taken = aligned(self.length, self.align)
        offsets = offsets_of(taken)[self.piece_offsets]
        filled = np.diff(offsets)
        if self.n_rows > rows or (filled > length).any():
            raise ShardError(
                f"step {self.step}, slot {self.slot}: {self.n_rows} rows of up to "
                f"{filled.max(initial=0)} tokens do not fit into {rows} rows of {length}; pad to "
                "a larger shape"
            )
        place = np.repeat(np.arange(self.n_rows) * length - offsets[:-1], filled)
        place += np.arange(len(flat.input_ids))
        shape = (rows, length)
        used = np.zeros(rows, np.int64)
        used[: self.n_rows] = filled
        padding = np.arange(length, dtype=np.int32) - used.astype(np.int32)[:, None]

        def spread(values: npt.NDArray[Any], fill: Any) -> npt.NDArray[Any]:
            out = np.full(rows * length, fill, values.dtype)
            out[place] = values
            return out.reshape(shape)

        positions = spread(flat.position_ids, 0)
        bounds, logical = self._padded_segments(used, length, offsets, taken)
        return PaddedBatch(
            spread(flat.input_ids, self.pad_id),
            spread(flat.labels, IGNORED_LABEL),
            np.where(padding >= 0, padding, positions),
            spread(flat.loss_weights, 0),
            logical,
            bounds,
        )

    def _padded_segments(
        self, used: Int64, length: int, offsets: Int64, taken: Int32
    ) -> tuple[Int32, Int32]:
        """Return the bounds of the flattened padded rows' segments, and of their tokens."""
        row = np.repeat(np.arange(self.n_rows), self.pieces_per_row)
        starts = offsets_of(taken)[:-1] - offsets[row] + row * length
        padding = (np.arange(len(used)) * length + used)[used < length]
        starts = np.concatenate([starts, padding])
        tokens = np.concatenate([self.length, (length - used)[used < length]])
        order = np.argsort(starts)
        bounds = np.append(starts[order], len(used) * length).astype(np.int32)
        return bounds, offsets_of(tokens[order]).astype(np.int32)

    def _span_weights(self) -> Float32:
        """Return the weight that the loss spans give to each token's target."""
        n = len(self.input_ids)
        spans = self.loss_spans
        if spans is None or spans.is_null.all():
            return np.ones(n, np.float32)
        row = np.repeat(np.arange(self.n_rows), np.diff(spans.offsets))
        base, top = self.row_offsets[:-1], self.row_offsets[1:]
        # The target at position i + 1 belongs to the token at i; position 0 is nobody's target.
        start = np.concatenate([np.maximum(spans.start - 1, 0) + base[row], base[spans.is_null]])
        end = np.concatenate([np.maximum(spans.end - 1, 0) + base[row], top[spans.is_null]])
        weight = np.concatenate([spans.weight, np.ones(int(spans.is_null.sum()), np.float32)])
        order = np.argsort(start, kind="stable")
        bounds = np.zeros(2 * len(order) + 2, np.int64)
        bounds[1:-1:2], bounds[2:-1:2], bounds[-1] = start[order], end[order], n
        values = np.zeros(2 * len(order) + 1, np.float32)
        values[1::2] = weight[order]
        counts = np.diff(bounds)
        if (counts < 0).any():
            raise ShardError(
                f"rows {self.row_id[0]} to {self.row_id[-1]}: loss spans overlap or leave their "
                "row; drystone verify names the row, build the dataset again"
            )
        return np.repeat(values, counts)

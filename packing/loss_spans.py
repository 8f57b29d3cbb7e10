"""Loss spans of documents on their way into rows: cut and moved with the pieces.

A document's spans count its tokens: a token inside a span is trained, as the target of the token
before it, with the span's weight; null spans stand for a document that is trained throughout. In a
row they count the row's positions of targets (:class:`packing.rows.LossSpans`).
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from packing.rows import LossSpans, offsets_of
from packing.shard import spans_of

Ints = npt.NDArray[np.int64]


def from_arrow(column: pa.ListArray) -> LossSpans:
    """Return a column of spans (lists of start, end, weight; null allowed) as flat arrays."""
    return spans_of(column) or LossSpans.none(len(column))


def to_arrow(spans: LossSpans, kind: pa.DataType) -> pa.ListArray:
    """Return flat arrays as a column of spans of the given list type."""
    fields = [pa.array(values) for values in (spans.start, spans.end, spans.weight)]
    values = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
    offsets = pa.array(spans.offsets.astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, type=kind, mask=pa.array(spans.is_null))


def taken(spans: LossSpans, order: Ints) -> LossSpans:
    """Return the spans of some of the documents, in the order given."""
    if spans.is_null.all():
        return LossSpans.none(len(order))
    counts = np.diff(spans.offsets)[order]
    at = np.arange(int(counts.sum())) - np.repeat(offsets_of(counts)[:-1], counts)
    at += np.repeat(spans.offsets[:-1][order], counts)
    return LossSpans(
        spans.is_null[order],
        offsets_of(counts),
        spans.start[at],
        spans.end[at],
        spans.weight[at],
    )


def weighted(
    spans: LossSpans, weight: npt.NDArray[np.float32], n_tokens: npt.NDArray[np.integer]
) -> LossSpans:
    """Multiply the weights of documents into their spans.

    A document of weight 1 stays as it is; one of another weight that has no spans gets one over
    all its tokens.

    Args:
        spans: spans of d documents.
        weight: [d] weights, at least 0.
        n_tokens: [d] tokens of each document.
    """
    filled = spans.is_null & (weight != 1)
    own = np.repeat(np.arange(len(weight)), np.diff(spans.offsets))
    document = np.concatenate([own, np.flatnonzero(filled)])
    order = np.argsort(document, kind="stable")
    ends = n_tokens[filled].astype(np.int32)
    return LossSpans(
        spans.is_null & ~filled,
        offsets_of(np.bincount(document, minlength=len(weight))),
        np.concatenate([spans.start, np.zeros_like(ends)])[order],
        np.concatenate([spans.end, ends])[order],
        np.concatenate([spans.weight * weight[own], weight[filled]])[order],
    )


def cut_spans(
    spans: LossSpans,
    document: Ints,
    token_start: Ints,
    token_end: Ints,
    n_tokens: Ints,
    row_offset: Ints,
) -> LossSpans:
    """Cut the spans of documents into those of their pieces, in positions of the pieces' rows.

    A piece's first token is nobody's target in its row, and its last token's target is the
    document's token after the piece, where the document goes on.

    Args:
        spans: spans of d documents.
        document: [p] which document each piece is of.
        token_start: [p] the piece's first token in its document.
        token_end: [p] the token after its last.
        n_tokens: [p] tokens of the document.
        row_offset: [p] where the piece begins in its row.

    Returns:
        The spans of the p pieces; null for a piece of a document that is trained throughout.
    """
    own = taken(spans, document)
    piece = np.repeat(np.arange(len(document)), np.diff(own.offsets))
    last = np.minimum(token_end + 1, n_tokens)
    start = np.maximum(own.start, token_start[piece] + 1)
    end = np.minimum(own.end, last[piece])
    some = start < end
    piece, start, end = piece[some], start[some], end[some]
    shift = (row_offset - token_start)[piece]
    return LossSpans(
        own.is_null,
        offsets_of(np.bincount(piece, minlength=len(document))),
        (start + shift).astype(np.int32),
        (end + shift).astype(np.int32),
        own.weight[some],
    )


def row_spans(
    pieces: LossSpans,
    pieces_per_row: npt.NDArray[np.int32],
    row_offset: npt.NDArray[np.int32],
    length: npt.NDArray[np.int32],
    next_token: npt.NDArray[np.int32],
) -> LossSpans | None:
    """Join the spans of pieces to those of their rows; null where all of a row is trained.

    In a row that holds a document with spans, a document without gets one over all its targets.

    Args:
        pieces: spans of p pieces in the order of their rows, in row positions.
        pieces_per_row: [r].
        row_offset: [p] where the piece begins in its row.
        length: [p] tokens of the piece.
        next_token: [p] -1 where the document ends.

    Returns:
        The spans of the r rows, or None where all are null.
    """
    if pieces.is_null.all():
        return None
    row = np.repeat(np.arange(len(pieces_per_row)), pieces_per_row)
    whole_row = np.ones(len(pieces_per_row), np.bool_)
    whole_row[row[~pieces.is_null]] = False
    end_of_targets = length + (next_token >= 0)
    filled = pieces.is_null & ~whole_row[row] & (end_of_targets > 1)
    own = np.repeat(np.arange(len(row)), np.diff(pieces.offsets))
    piece = np.concatenate([own, np.flatnonzero(filled)])
    order = np.argsort(piece, kind="stable")
    start = np.concatenate([pieces.start, row_offset[filled] + 1])[order]
    end = np.concatenate([pieces.end, (row_offset + end_of_targets)[filled]])[order]
    weight = np.concatenate([pieces.weight, np.ones(int(filled.sum()), np.float32)])[order]
    counts = np.bincount(row[piece], minlength=len(pieces_per_row))
    return LossSpans(
        whole_row, offsets_of(counts), start.astype(np.int32), end.astype(np.int32), weight
    )

"""Documents made of runs: text, or one special token, each trained with a weight or not.

Every run of text is encoded by itself, so a token never reaches over the border of a loss span, and
the ids before a border are those that the model is given when it has to go on from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.tokenize.encoder import Encoded, Encoder, SpecialTokenError

LOSS_SPANS_TYPE = pa.list_(
    pa.field(
        "item",
        pa.struct(
            [
                pa.field("start", pa.int32(), nullable=False),
                pa.field("end", pa.int32(), nullable=False),
                pa.field("weight", pa.float32(), nullable=False),
            ]
        ),
        nullable=False,
    )
)
"""Trained tokens of a document, half-open, ascending, apart; null for a document without spans,
whose tokens all have weight 1."""


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a document."""

    text: str
    """Encoded as ordinary text; empty where the run is a special token."""
    special: int = -1
    """Id of the special token, -1 for text."""
    weight: float = 0.0
    """Weight of the run's tokens in the loss; 0 leaves them untrained."""


def encode_runs(
    encoder: Encoder, documents: Sequence[Sequence[Run]]
) -> tuple[Encoded, pa.ListArray]:
    """Encode documents run by run.

    Args:
        encoder: the tokenizer.
        documents: the runs of each document, in order.

    Returns:
        The ids, without bos and eos beside those that are runs, and the loss spans of each
        document (LOSS_SPANS_TYPE, never null) in token positions.

    Raises:
        SpecialTokenError: text holds a special token's text and the settings refuse it.
    """
    runs = [run for document in documents for run in document]
    n_runs = np.array([len(document) for document in documents], np.int64)
    document_of = np.repeat(np.arange(len(documents)), n_runs)
    special = np.array([run.special for run in runs], np.int64)
    weight = np.array([run.weight for run in runs], np.float32)
    is_text = special < 0
    texts = pa.array([run.text for run in runs if run.special < 0], pa.large_string())
    try:
        encoded = encoder.encode(texts)
    except SpecialTokenError as error:
        row = int(document_of[is_text][error.row])
        raise SpecialTokenError(row, error.token) from error
    length = np.ones(len(runs), np.int64)
    length[is_text] = encoded.lengths
    bounds = _offsets(length)
    ids = np.empty(int(bounds[-1]), np.int32)
    from_text = np.repeat(is_text, length)
    ids[from_text] = encoded.ids
    ids[~from_text] = special[~is_text]
    firsts = _offsets(n_runs)
    return Encoded(bounds[firsts], ids), _spans(document_of, bounds, bounds[firsts], weight)


def _spans(
    document: npt.NDArray[np.int64],
    bounds: npt.NDArray[np.int64],
    first: npt.NDArray[np.int64],
    weight: npt.NDArray[np.float32],
) -> pa.ListArray:
    """Join trained runs of one weight that follow each other to spans, document by document."""
    trained = (bounds[1:] > bounds[:-1]) & (weight != 0)
    document, weight = document[trained], weight[trained]
    start, end = bounds[:-1][trained], bounds[1:][trained]
    begins = np.ones(len(start), np.bool_)
    begins[1:] = (
        (document[1:] != document[:-1]) | (start[1:] != end[:-1]) | (weight[1:] != weight[:-1])
    )
    at = np.flatnonzero(begins)
    ends = np.append(at[1:] - 1, len(start) - 1) if len(at) else at
    document, weight = document[at], weight[at]
    base = first[:-1][document]
    start, end = start[at] - base, end[ends] - base
    counts = np.bincount(document, minlength=len(first) - 1)
    columns = [start.astype(np.int32), end.astype(np.int32), weight]
    values = pa.StructArray.from_arrays(
        list(map(pa.array, columns)), fields=list(LOSS_SPANS_TYPE.value_type)
    )
    offsets = pa.array(_offsets(counts).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, type=LOSS_SPANS_TYPE)


def _offsets(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets

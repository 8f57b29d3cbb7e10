"""Refuses rows that a dataset cannot hold, before they are written."""

import numpy as np
import numpy.typing as npt

from packing.format import DatasetInfo, ShardError
from packing.rows import RowGroup, aligned, offsets_of

_DTYPES = {
    "row_id": np.int64,
    "pieces_per_row": np.int32,
    "doc_uid": np.int64,
    "doc_copy": np.int16,
    "doc_offset": np.int32,
    "length": np.int32,
    "next_token": np.int32,
    "domain": np.int16,
    "input_ids": np.int32,
}
_PER_PIECE = ("doc_uid", "doc_copy", "doc_offset", "next_token", "domain")


def check_rows(group: RowGroup, info: DatasetInfo, longest: int) -> None:
    """Refuse rows that contradict themselves or the dataset's description.

    Args:
        group: the rows.
        info: the dataset: vocabulary and domains.
        longest: tokens a row may have.

    Raises:
        ShardError: it names the document (or row), the value and the remedy.
    """
    _check_shapes(group)
    _check_lengths(group, longest, info.align)
    _check_ids(group, info)
    _check_pieces(group, info)
    _check_spans(group)


def _check_shapes(group: RowGroup) -> None:
    for name, dtype in _DTYPES.items():
        values = getattr(group, name)
        if values.dtype != dtype or values.ndim != 1:
            raise ShardError(
                f"{name} is {values.dtype} of {values.ndim} dimensions; give it as a flat array "
                f"of {np.dtype(dtype).name}"
            )
    if len(group.pieces_per_row) != group.n_rows:
        raise ShardError(
            f"{group.n_rows} row ids, but pieces_per_row has {len(group.pieces_per_row)} values; "
            "give one each"
        )
    for name in _PER_PIECE:
        if len(getattr(group, name)) != len(group.length):
            raise ShardError(
                f"{len(group.length)} pieces, but {name} has {len(getattr(group, name))} values; "
                "give one each"
            )


def _check_lengths(group: RowGroup, longest: int, align: int) -> None:
    bad = np.flatnonzero(group.pieces_per_row < 1)
    if len(bad):
        raise ShardError(
            f"row {group.row_id[bad[0]]} has {group.pieces_per_row[bad[0]]} pieces; leave empty "
            "rows out"
        )
    if int(group.pieces_per_row.sum()) != len(group.length):
        raise ShardError(
            f"pieces_per_row adds up to {group.pieces_per_row.sum()}, but there are "
            f"{len(group.length)} pieces; correct the counts"
        )
    bad = np.flatnonzero(group.length < 1)
    if len(bad):
        raise ShardError(
            f"document {group.doc_uid[bad[0]]} has a piece of {group.length[bad[0]]} tokens; "
            "leave empty pieces out"
        )
    total = int(group.length.sum(dtype=np.int64))
    if total != len(group.input_ids):
        raise ShardError(
            f"pieces add up to {total} tokens, but there are {len(group.input_ids)}; correct the "
            "lengths"
        )
    tokens = row_room(group, align)
    bad = np.flatnonzero(tokens > longest)
    if len(bad):
        filled = f" with its pieces filled to multiples of {align}" if align > 1 else ""
        raise ShardError(
            f"row {group.row_id[bad[0]]} has {tokens[bad[0]]} tokens{filled}, at most {longest} "
            "fit; pack again with this seq_len"
        )


def row_room(group: RowGroup, align: int) -> npt.NDArray[np.int64]:
    """Return the tokens that each row takes, its pieces filled to multiples of ``align``."""
    if align == 1:
        return np.diff(group.row_offsets)
    return np.diff(offsets_of(aligned(group.length, align))[group.piece_offsets])


def _check_ids(group: RowGroup, info: DatasetInfo) -> None:
    # As uint32 a negative id is a large one, so that one comparison finds both.
    if not len(group.input_ids) or group.input_ids.view(np.uint32).max() < info.vocab_size:
        return
    at = int(np.argmax(group.input_ids.view(np.uint32) >= info.vocab_size))
    piece = int(np.searchsorted(group.cu_seqlens, at, "right")) - 1
    place = at - int(group.cu_seqlens[piece]) + int(group.doc_offset[piece])
    raise ShardError(
        f"document {group.doc_uid[piece]}, token {place}: id {group.input_ids[at]} is outside the "
        f"vocabulary of {info.vocab_size}; encode with the tokenizer of the dataset"
    )


def _check_pieces(group: RowGroup, info: DatasetInfo) -> None:
    rules: list[tuple[str, npt.NDArray[np.bool_], str]] = [
        (
            "next_token",
            (group.next_token < -1) | (group.next_token >= info.vocab_size),
            f"give -1 where the document ends, else an id below {info.vocab_size}",
        ),
        (
            "domain",
            (group.domain < 0) | (group.domain >= len(info.domains)),
            f"give an index into the {len(info.domains)} domain names of the dataset",
        ),
        ("doc_uid", group.doc_uid < 0, "document addresses are positive"),
        ("doc_copy", group.doc_copy < 0, "copies count from 0"),
        ("doc_offset", group.doc_offset < 0, "offsets count from 0"),
    ]
    for name, wrong, remedy in rules:
        if wrong.any():
            at = int(np.argmax(wrong))
            raise ShardError(
                f"document {group.doc_uid[at]}: {name} is {getattr(group, name)[at]}; {remedy}"
            )


def span_fault(group: RowGroup) -> tuple[int, str] | None:
    """Return (row of the group, what is wrong with its loss spans), or None."""
    spans = group.loss_spans
    if spans is None:
        return None
    counts = np.diff(spans.offsets)
    if not (
        len(spans.is_null) == len(counts) == group.n_rows
        and spans.offsets[0] == 0
        and (counts >= 0).all()
        and spans.offsets[-1] == len(spans.start) == len(spans.end) == len(spans.weight)
    ):
        return 0, f"loss spans do not have one entry for each of the {group.n_rows} rows"
    row = np.repeat(np.arange(group.n_rows), counts)
    tokens = np.diff(group.row_offsets)[row]
    same = np.zeros(len(row), np.bool_)
    same[1:] = row[1:] == row[:-1]
    before = np.concatenate([[0], spans.end])[:-1]
    wrong = {
        "is given for a row whose spans are null": spans.is_null[row],
        "is empty": spans.start >= spans.end,
        "leaves the row": (spans.start < 0) | (spans.end > tokens + 1),
        "overlaps the one before or stands out of order": same & (spans.start < before),
        "has a weight that is negative or no number": ~(
            np.isfinite(spans.weight) & (spans.weight >= 0)
        ),
    }
    for what, bad in wrong.items():
        if bad.any():
            at = int(np.argmax(bad))
            return int(row[at]), (
                f"row {group.row_id[row[at]]} of {tokens[at]} tokens: loss span "
                f"[{spans.start[at]}, {spans.end[at]}) of weight {spans.weight[at]} {what}"
            )
    return None


def _check_spans(group: RowGroup) -> None:
    fault = span_fault(group)
    if fault is not None:
        row, text = fault
        raise ShardError(
            f"{text} (its first document: {group.doc_uid[group.piece_offsets[row]]}); give spans "
            "of target positions in order, without overlap, inside the row"
        )

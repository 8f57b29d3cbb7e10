"""Rows laid out with aligned pieces, against a layout written out piece by piece."""

import dataclasses

import numpy as np
import pytest

from packing.check import check_rows
from packing.format import DatasetInfo, ShardError
from packing.rows import LossSpans, MicroBatch, RowGroup
from packing.verify import verify

PAD = 9


def batch_of(rows, align, **more):
    """Return rows, given as lists of (tokens, next token), as a micro-batch."""
    pieces = [piece for row in rows for piece in row]
    n = len(pieces)
    group = RowGroup(
        np.arange(len(rows), dtype=np.int64),
        np.array([len(row) for row in rows], np.int32),
        np.arange(n, dtype=np.int64),
        np.zeros(n, np.int16),
        np.full(n, 5, np.int32),
        np.array([len(tokens) for tokens, _ in pieces], np.int32),
        np.array([following for _, following in pieces], np.int32),
        np.zeros(n, np.int16),
        np.array([t for tokens, _ in pieces for t in tokens], np.int32),
        more.pop("loss_spans", None),
    )
    return MicroBatch.of(group, seq_len=24, pad_id=PAD, align=align, **more)


ROWS = [
    [([1, 2, 3, 4, 5], -1), ([6, 7], 8), ([1], -1)],
    [([2] * 8, -1)],
]


def laid_out(row, align, length=None):
    """Return (ids, labels, positions, segments as (start, tokens)) of one row, piece by piece."""
    ids, labels, positions, segments = [], [], [], []
    for tokens, following in row:
        fill = -len(tokens) % align
        segments.append((len(ids), len(tokens)))
        ids += tokens + [PAD] * fill
        labels += [*tokens[1:], following if following >= 0 else -100] + [-100] * fill
        positions += list(range(len(tokens) + fill))
    if length is not None and len(ids) < length:
        rest = length - len(ids)
        segments.append((len(ids), rest))
        ids, labels = ids + [PAD] * rest, labels + [-100] * rest
        positions += list(range(rest))
    return ids, labels, positions, segments


@pytest.mark.parametrize("align", [1, 2, 4, 8])
def test_flat_batches_are_aligned(align):
    """All pieces behind each other, each at a multiple of ``align``, with its own tokens counted."""
    batch = batch_of(ROWS, align)
    found = batch.aligned()
    joined = [piece for row in ROWS for piece in row]
    ids, labels, positions, segments = laid_out(joined, align)
    assert found.input_ids.tolist() == ids
    assert found.labels.tolist() == labels
    assert found.position_ids.tolist() == positions
    assert found.loss_weights.tolist() == [float(label != -100) for label in labels]
    assert found.cu_seqlens_padded.tolist() == [start for start, _ in segments] + [len(ids)]
    assert np.diff(found.cu_seqlens).tolist() == [n for _, n in segments]
    assert batch.cu_seqlens_padded.tolist() == found.cu_seqlens_padded.tolist()
    assert {a.dtype.name for a in dataclasses.astuple(found)} == {"int32", "float32"}


@pytest.mark.parametrize("align", [1, 2, 4, 8])
def test_padded_batches_are_aligned(align):
    """Rows of a fixed length, pieces aligned in them, what is left as a segment of its own."""
    found = batch_of(ROWS, align).padded(rows=3)
    start, tokens = [], []
    for at, row in enumerate([*ROWS, []]):
        ids, labels, positions, segments = laid_out(row, align, 24)
        assert found.input_ids[at].tolist() == ids
        assert found.labels[at].tolist() == labels
        assert found.position_ids[at].tolist() == positions
        start += [at * 24 + begin for begin, _ in segments]
        tokens += [n for _, n in segments]
    assert found.cu_seqlens_padded.tolist() == [*start, 72]
    assert np.diff(found.cu_seqlens).tolist() == tokens
    if align == 1:
        assert np.array_equal(found.cu_seqlens, found.cu_seqlens_padded)


def test_positions_and_weights_go_with_their_tokens():
    """Positions counted from the document's start, and weights of spans, move with the tokens."""
    spans = LossSpans(
        np.array([False, True]),
        np.array([0, 1, 1]),
        np.array([2], np.int32),
        np.array([4], np.int32),
        np.array([0.5], np.float32),
    )
    found = batch_of(ROWS, 4, loss_spans=spans, continue_positions=True).aligned()
    assert found.position_ids[:12].tolist() == [*range(5, 13), *range(5, 9)]
    assert found.loss_weights[:8].tolist() == [0, 0.5, 0.5, 0, 0, 0, 0, 0]
    assert found.labels[:8].tolist() == [-100, 3, 4, -100, -100, -100, -100, -100]


def test_rows_that_overflow_when_aligned_are_refused():
    """The writer counts filled pieces, and says so; an empty batch is laid out as well."""
    info = DatasetInfo(
        fingerprint="f", seq_len=12, strategy="s", vocab_size=10, domains=("d",), align=4
    )
    batch = batch_of(ROWS[:1], 1)
    with pytest.raises(ShardError, match="16 tokens with its pieces filled to multiples of 4"):
        check_rows(batch, info, info.seq_len)
    check_rows(batch, dataclasses.replace(info, align=2), info.seq_len)
    empty = MicroBatch.of(RowGroup.empty(), seq_len=8, align=4)
    assert empty.aligned().cu_seqlens_padded.tolist() == [0]
    assert empty.padded(rows=1).cu_seqlens.tolist() == [0, 8]


def test_footers_without_align_are_read():
    """Datasets written before there was such a value have pieces of any length."""
    info = DatasetInfo(fingerprint="f", seq_len=12, strategy="s", vocab_size=10)
    old = {key: value for key, value in info.to_metadata().items() if key != b"drystone.align"}
    assert DatasetInfo.from_metadata(old, "old.parquet") == info
    with pytest.raises(ShardError, match="seed"):
        DatasetInfo.from_metadata({k: v for k, v in old.items() if b"seed" not in k}, "old.parquet")


def test_verification_counts_filled_pieces(make_world, monkeypatch):
    """A dataset that says its pieces are aligned, and whose rows then overflow, is no good."""
    world = make_world()
    assert verify(world.folder).ok
    monkeypatch.setattr("packing.writer.check_rows", lambda *_: None)
    world.info = dataclasses.replace(world.info, align=world.info.seq_len)
    [failed] = verify(world.write()).failed.items()
    assert failed[0] == "rows are no longer than the sequence length"
    assert f"in pieces filled to multiples of {world.info.seq_len}" in failed[1][0]

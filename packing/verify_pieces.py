"""Pieces of documents as verification keeps them, and what they promise by themselves."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from packing.findings import Findings
from packing.format import DatasetInfo
from packing.rows import MicroBatch, RowGroup, offsets_of
from transforms.record import mix64

PIECE = np.dtype(
    [
        ("uid", np.int64),
        ("digest", np.uint64),
        ("weights", np.uint64),
        ("row", np.int64),
        ("offset", np.int32),
        ("length", np.int32),
        ("next", np.int32),
        ("first", np.int32),
        ("copy", np.int16),
        ("domain", np.int16),
    ]
)
"""What is kept of a piece: 52 bytes, its tokens and the weights of its targets as digests."""

_SEGMENT = 4 << 20

Pieces = npt.NDArray[np.void]


class Digest:
    """Digests runs of tokens: the sum of token times a fixed random odd number per position.

    Multilinear hashing modulo 2**64 (Lemire and Kaser, "Strongly universal string hashing is fast",
    section 3): other tokens give another digest but for one chance in about 2**32.
    """

    def __init__(self) -> None:
        self._factors = np.empty(0, np.uint64)

    def __call__(
        self, tokens: npt.NDArray[np.int32], length: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.uint64]:
        """Return the digest of each run; runs follow each other and none is empty.

        Args:
            tokens: the tokens of all runs, [t].
            length: tokens of each run, [p], at least 1.

        Returns:
            [p] uint64.
        """
        if not len(length):
            return np.empty(0, np.uint64)
        start = offsets_of(length)[:-1]
        longest = int(length.max())
        if longest > len(self._factors):
            self._factors = mix64(np.arange(longest, dtype=np.int64), 7) | np.uint64(1)
        place = np.arange(len(tokens)) - np.repeat(start, length)
        terms = self._factors[place]
        terms *= (tokens.astype(np.int64) + 1).view(np.uint64)
        digests: npt.NDArray[np.uint64] = np.add.reduceat(terms, start)
        return digests


def weight_digests(
    weights: npt.NDArray[np.float32],
    length: npt.NDArray[np.int64],
    goes_on: npt.NDArray[np.bool_],
    digest: Digest,
) -> npt.NDArray[np.uint64]:
    """Return a digest of the weights of each piece's targets; 0 where all weigh 1.

    Args:
        weights: weight of the target of each token, 0 where it has none, [t].
        length: tokens of each piece, [p].
        goes_on: whether the piece's last token has a target, [p].
        digest: digests the bits of the weights.
    """
    plain = np.ones(len(weights), np.float32)
    ends = np.cumsum(length) - 1
    plain[ends[~goes_on]] = 0
    found = digest(weights.view(np.int32), length)
    if len(length):
        found[~np.logical_or.reduceat(weights != plain, ends - length + 1)] = 0
    return found


class PieceStore:
    """All pieces of a dataset in segments sorted by document; full ones lie on disk.

    Args:
        folder: where segments go when there is more than one.
    """

    def __init__(self, folder: Path) -> None:
        self.pieces = 0
        self._folder = folder
        self._digest = Digest()
        self._waiting: list[Pieces] = []
        self._segments: list[Pieces] = []

    def add(self, group: RowGroup) -> None:
        """Take in the pieces of one row group."""
        found = np.empty(len(group.length), PIECE)
        found["uid"] = group.doc_uid
        found["digest"] = self._digest(group.input_ids, group.length.astype(np.int64))
        found["weights"] = 0
        if group.loss_spans is not None:
            found["weights"] = weight_digests(
                MicroBatch.of(group).loss_weights,
                group.length.astype(np.int64),
                group.next_token >= 0,
                self._digest,
            )
        found["row"] = np.repeat(group.row_id, group.pieces_per_row)
        found["offset"] = group.doc_offset
        found["length"] = group.length
        found["next"] = group.next_token
        found["first"] = group.input_ids[group.cu_seqlens[:-1]]
        found["copy"] = group.doc_copy
        found["domain"] = group.domain
        self.pieces += len(found)
        self._waiting.append(found)
        if sum(map(len, self._waiting)) >= _SEGMENT:
            path = self._folder / f"pieces-{len(self._segments):05d}.npy"
            np.save(path, self._sorted())
            self._segments.append(np.load(path, mmap_mode="r"))

    def seal(self) -> None:
        """Sort what is left; from here on pieces are only read."""
        self._segments.append(self._sorted())

    def of(self, first: int, stop: int) -> Pieces:
        """Return the pieces of documents in [first, stop), by document, copy and offset."""
        parts = []
        for segment in self._segments:
            a, b = np.searchsorted(segment["uid"], [first, stop])
            parts.append(np.asarray(segment[a:b]))
        found: Pieces = np.concatenate(parts)
        return found[np.lexsort((found["offset"], found["copy"], found["uid"]))]

    def ranges(self) -> Iterator[tuple[int, int]]:
        """Give ranges of documents that cover all, each of a bounded number of pieces."""
        marks = [s["uid"][:: _SEGMENT // max(len(self._segments), 1) or 1] for s in self._segments]
        bounds = np.unique(np.concatenate([np.zeros(1, np.int64), *marks])).tolist()
        yield from itertools.pairwise([*bounds, np.iinfo(np.int64).max])

    def _sorted(self) -> Pieces:
        found: Pieces = np.concatenate([np.empty(0, PIECE), *self._waiting])
        self._waiting = []
        return found[np.argsort(found["uid"], kind="stable")]


def prove_joins(findings: Findings, pieces: Pieces, info: DatasetInfo) -> int:
    """Check that the pieces of each document follow each other; return the documents."""
    if not len(pieces):
        return 0
    uid, copy = pieces["uid"], pieces["copy"]
    offset, length = pieces["offset"].astype(np.int64), pieces["length"].astype(np.int64)
    first = np.ones(len(pieces), np.bool_)
    new_document = first.copy()
    new_document[1:] = uid[1:] != uid[:-1]
    first[1:] = new_document[1:] | (copy[1:] != copy[:-1])
    last = np.append(first[1:], True)
    expected = np.zeros(len(pieces), np.int64)
    expected[1:] = np.where(first[1:], 0, offset[:-1] + length[:-1])
    fail(
        findings,
        "pieces of a document join",
        offset != expected,
        pieces,
        lambda at: f"a piece begins at token {offset[at]}, expected {expected[at]}",
    )
    previous = np.append(-1, copy[:-1])
    wrong = first & (copy != np.where(new_document, 0, previous + 1))
    fail(
        findings,
        "pieces of a document join",
        wrong,
        pieces,
        lambda at: f"copy {copy[at]} is there, the one before is not",
    )
    following = np.append(pieces["first"][1:], -1)
    following[last] = -1
    fail(
        findings,
        "next_token is the document's next token",
        pieces["next"] != following,
        pieces,
        lambda at: f"next_token is {pieces['next'][at]}, expected {following[at]}",
    )
    if info.strategy != "concat":
        _prove_cuts(findings, pieces, first, last, info.seq_len * info.widest)
    return int(new_document.sum())


def _prove_cuts(
    findings: Findings,
    pieces: Pieces,
    first: npt.NDArray[np.bool_],
    last: npt.NDArray[np.bool_],
    seq_len: int,
) -> None:
    """Check that only documents longer than a row are cut, and only at row ends."""
    starts = np.flatnonzero(first)
    total = np.add.reduceat(pieces["length"].astype(np.int64), starts)
    total = np.repeat(total, np.diff(np.append(starts, len(pieces))))
    cut = ~(first & last)
    fail(
        findings,
        "no document that fits is cut",
        cut & first & (total <= seq_len),
        pieces,
        lambda at: f"{total[at]} tokens in several pieces, {seq_len} fit a row",
    )
    fail(
        findings,
        "long documents are cut into full rows and one remainder",
        cut & ~last & (total > seq_len) & (pieces["length"] != seq_len),
        pieces,
        lambda at: (
            f"a piece of {pieces['length'][at]} tokens before its last, a row holds {seq_len}"
        ),
    )


def fail(
    findings: Findings,
    check: str,
    wrong: npt.NDArray[np.bool_],
    pieces: Pieces,
    say: Callable[[int], str],
) -> None:
    """Record the pieces that violate a check, the first in words."""
    count = int(wrong.sum())
    if count:
        at = int(np.argmax(wrong))
        findings.fail(
            check, f"document {pieces['uid'][at]}, row {pieces['row'][at]}: {say(at)}", count
        )

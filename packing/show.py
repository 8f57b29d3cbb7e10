"""A packed row for people: its documents, pieces, trained and untrained tokens, and text."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from packing.format import IGNORED_LABEL
from packing.reader import PackedReader
from packing.rows import MicroBatch

Decode = Callable[[list[int]], str]


@dataclass(frozen=True, slots=True)
class ShownPiece:
    """One piece of a row."""

    doc_uid: int
    doc_copy: int
    domain: str
    row_offset: int
    """Position in the row."""
    doc_offset: int
    """First token of the piece within its document."""
    tokens: int
    trained: int
    """Tokens whose target is trained."""
    next_token: int
    """The document's token after the piece; -1 where it ends."""
    text: str | None
    """The piece decoded; None without a tokenizer."""


@dataclass(frozen=True, slots=True)
class ShownRow:
    """One packed row."""

    row_id: int
    step: int | None
    """Step that trains the row by the reader's plan; None where it was asked for by number."""
    slot: int | None
    rank: int | None
    tokens: int
    padding: int
    """Places of the row that no token fills."""
    trained: int
    """Tokens whose target is trained; the others are the documents' ends and what spans leave
    out."""
    pieces: tuple[ShownPiece, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON values."""
        return asdict(self)

    def to_text(self, max_chars: int = 200) -> str:
        """Return the row as lines of text; each piece's own text is cut to ``max_chars``."""
        head = f"row {self.row_id}: {self.tokens} tokens ({self.trained} trained, "
        head += f"{self.tokens - self.trained} not), {self.padding} of padding"
        if self.step is not None:
            head += f"; step {self.step}, slot {self.slot}, rank {self.rank}"
        lines = [head]
        for piece in self.pieces:
            ends = "document ends" if piece.next_token < 0 else f"goes on with {piece.next_token}"
            lines.append(
                f"  {piece.row_offset:>8}  document {piece.doc_uid} copy {piece.doc_copy} "
                f"({piece.domain}), tokens {piece.doc_offset} to {piece.doc_offset + piece.tokens}, "
                f"{piece.trained} trained, {ends}"
            )
            if piece.text is not None:
                cut = len(piece.text) > max_chars
                lines.append(" " * 12 + repr(piece.text[:max_chars]) + (" …" if cut else ""))
        return "\n".join(lines)


def show_row(reader: PackedReader, row_id: int, decode: Decode | None = None) -> ShownRow:
    """Return one row by its number.

    Args:
        reader: the open dataset.
        row_id: number of the row.
        decode: token ids to text; without it pieces have no text.

    Raises:
        ShardError: there is no such row, or its shard is damaged.
    """
    return _shown(reader, reader.rows([row_id]), 0, None, decode)


def show_step(
    reader: PackedReader,
    step: int,
    rank: int,
    world: int | None = None,
    decode: Decode | None = None,
) -> list[ShownRow]:
    """Return the rows that a rank trains in a step.

    Args:
        reader: the open dataset.
        step: the step.
        rank: the rank.
        world: number of ranks; those the plan was made for by default.
        decode: token ids to text; without it pieces have no text.

    Raises:
        ShardError: the plan has no such step or rank, or a shard is damaged.
    """
    world = reader.plan.dp if world is None else world
    return [
        _shown(reader, batch, at, rank, decode)
        for batch in reader.micro_batches(step, rank, world)
        for at in range(batch.n_rows)
    ]


def _shown(
    reader: PackedReader, batch: MicroBatch, at: int, rank: int | None, decode: Decode | None
) -> ShownRow:
    row = MicroBatch.of(batch.slice(at, at + 1))
    is_trained = (row.labels != IGNORED_LABEL).astype(np.int64)
    trained = np.add.reduceat(is_trained, row.cu_seqlens[:-1]).tolist()
    bounds = row.cu_seqlens.tolist()
    cp = 1 if batch.cp is None else int(batch.cp[at])
    pieces = tuple(
        ShownPiece(
            doc_uid=int(row.doc_uid[k]),
            doc_copy=int(row.doc_copy[k]),
            domain=reader.domain_names[int(row.domain[k])],
            row_offset=bounds[k],
            doc_offset=int(row.doc_offset[k]),
            tokens=bounds[k + 1] - bounds[k],
            trained=trained[k],
            next_token=int(row.next_token[k]),
            text=decode(row.input_ids[bounds[k] : bounds[k + 1]].tolist()) if decode else None,
        )
        for k in range(len(row.length))
    )
    placed = rank is not None
    return ShownRow(
        row_id=int(row.row_id[0]),
        step=batch.step if placed else None,
        slot=batch.slot if placed else None,
        rank=rank,
        tokens=len(row.input_ids),
        padding=max(cp * reader.seq_len - len(row.input_ids), 0),
        trained=sum(trained),
        pieces=pieces,
    )

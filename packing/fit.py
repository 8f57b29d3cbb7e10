"""Which documents share a row: the fit of documents into rows of ``seq_len`` tokens."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numba
import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le

from packing.best_fit import best_fit_decreasing
from packing.format import ShardError
from packing.in_order import join_and_cut, open_row_fit
from packing.lengths import sort_by, taking_order
from packing.pieces import Pieces, in_tokens, in_units
from packing.sculpt_settings import SculptSettings
from packing.shared_rows import keep_long

__all__ = ["PackSettings", "Pieces", "fit_rows"]

_NO_LIMIT = (1 << 31) - 1
# A remainder travels as index | length << 39: lengths below 2**24, indices below 2**39.
_INDEX_BITS = 39


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSettings:
    """How documents are fitted into rows."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    enabled: bool = True
    """Whether documents are packed at all; without packing there are no rows and no dataset."""
    seq_len: Annotated[int, Ge(2), Le(1 << 24)] = 32768
    """Tokens of a packed row."""
    strategy: Literal["best_fit", "sculpt", "online", "concat"] = "best_fit"
    """``best_fit``: exact best-fit decreasing over all documents, the fewest rows; ``sculpt``:
    rows of documents that are about the same, by the vectors of ``[embed]``, as full; ``online``:
    best-fit over ``open_rows`` open rows in seeded order, which mixes lengths in every row;
    ``concat``: documents joined in seeded order and cut every ``seq_len`` tokens."""
    long: Literal["cut", "keep", "drop"] = "cut"
    """Documents of more than ``seq_len`` tokens: ``cut`` into full rows and one remainder; ``keep``
    whole, as a row of its own that 2, 4, 8... of the ``balance.dp`` ranks share (context
    parallelism), cut only beyond what the most ranks hold that may share a row: the largest power of
    two that divides ``dp``; or ``drop`` with the reason ``too long``."""
    max_docs_per_row: Annotated[int, Gt(0)] | None = None
    """The most pieces one row may hold; no limit when absent."""
    align: Annotated[int, Gt(0)] = 1
    """Every piece takes a multiple of this many tokens of its row, as context parallelism wants it
    (2 x its ranks for Transformer Engine); ``seq_len`` must be a multiple of it. The shards hold
    the tokens alone: the reader lays them out so."""
    open_rows: Annotated[int, Gt(0), Le(65536)] = 64
    """Rows that ``online`` keeps open at a time."""
    sculpt: SculptSettings = field(default_factory=SculptSettings)
    """How ``sculpt`` weighs what belongs into one row."""

    def __post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        if self.seq_len % self.align:
            lower = self.seq_len - self.seq_len % self.align
            nearest = [str(n) for n in (lower, lower + self.align) if n]
            raise ValueError(
                f"seq_len = {self.seq_len} is not a multiple of align = {self.align}; set seq_len "
                f"to {' or '.join(nearest)}, or change align"
            )
        if self.long == "keep" and self.strategy == "concat":
            raise ValueError(
                'long = "keep" keeps documents whole and strategy = "concat" cuts them all; choose '
                "another strategy, or set long to cut or drop"
            )


def fit_rows(
    n_tokens: npt.NDArray[np.int32],
    order: npt.NDArray[np.uint64],
    settings: PackSettings,
    widest: int = 1,
) -> Pieces:
    """Fit documents into rows of at most ``seq_len`` tokens.

    Documents are taken in ascending (order, index): the result is a function of the set of
    (n_tokens, order) pairs, and only documents with equal ``order`` are told apart by their place
    in the arguments. ``best_fit`` takes them longest first, and by (order, index) among equals.

    * ``best_fit``: best-fit decreasing, exactly as if each document went by itself into the row
      with the least room that still holds it, but moved in runs over the histogram of lengths
      ("Fewer Truncations Improve Language Modeling", arXiv:2404.10830, section 3.1, over runs of
      equal length and rows of equal room). Where ``max_docs_per_row`` closes a row, ``online`` is
      tried too and the one with fewer rows is taken.
    * ``online``: best-fit over ``open_rows`` rows; when none holds the document, the fullest is
      closed. Rows with equal room: the one in the lower place.
    * ``concat``: documents one behind the other, cut at row ends.

    Except in ``concat``, documents of more than ``seq_len`` tokens are cut into rows of their own
    (numbered before all others) and one remainder, which is fitted like a document. With
    ``long = "drop"`` they have no pieces, with ``long = "keep"`` rows of their own that up to
    ``widest`` ranks share (`packing.shared_rows.keep_long`). A row closes at ``max_docs_per_row`` pieces. With
    ``align`` all this is counted in units of so many tokens, begun ones whole.

    Args:
        n_tokens: length of each document, int32[n], at least 1.
        order: seeded key of each document, uint64[n].
        settings: how to fit.
        widest: the most ranks that may share a row, a power of two; looked at for ``keep`` alone.

    Returns:
        The pieces; every token of every document that is not dropped lies in exactly one.

    Raises:
        ShardError: a document without tokens, arguments that do not match, or a strategy that needs
            more than lengths.
    """
    _check(n_tokens, order)
    if settings.strategy == "sculpt":
        raise ShardError(
            "strategy 'sculpt' packs by vectors, which lengths alone do not give; call "
            "packing.sculpt.sculpt_rows, or choose another strategy"
        )
    align = settings.align
    units = in_units(n_tokens, align)
    inner = replace(settings, seq_len=settings.seq_len // align, align=1)
    if settings.long == "drop":
        kept = np.flatnonzero(units <= inner.seq_len)
        pieces = _fit(units[kept], order[kept], inner)
        pieces = Pieces(pieces.row, kept[pieces.document], pieces.start, pieces.length)
    elif settings.long == "keep":
        pieces = _keep(units, order, inner, widest)
    else:
        pieces = _fit(units, order, inner)
    return in_tokens(pieces, n_tokens, align)


def _keep(
    n_tokens: npt.NDArray[np.int32],
    order: npt.NDArray[np.uint64],
    settings: PackSettings,
    widest: int,
) -> Pieces:
    """Fit what is left when long documents have rows of their own, which come first."""
    own = keep_long(n_tokens, order, settings.seq_len, widest)
    some = np.flatnonzero(own.n_tokens)
    rest = _fit(own.n_tokens[some], order[some], settings)
    document = some[rest.document]
    start = rest.start + (n_tokens - own.n_tokens)[document]
    return Pieces(
        np.concatenate([own.rows.row, rest.row + own.rows.rows]),
        np.concatenate([own.rows.document, document]),
        np.concatenate([own.rows.start, start]),
        np.concatenate([own.rows.length, rest.length]),
    )


def _check(n_tokens: npt.NDArray[np.int32], order: npt.NDArray[np.uint64]) -> None:
    """Refuse lengths and keys that cannot be fitted."""
    if n_tokens.dtype != np.int32 or order.dtype != np.uint64 or n_tokens.shape != order.shape:
        raise ShardError(
            f"lengths are {n_tokens.dtype}{list(n_tokens.shape)} and keys "
            f"{order.dtype}{list(order.shape)}; pass int32[n] and uint64[n] of one length"
        )
    if len(n_tokens) and n_tokens.min() < 1:
        empty = np.flatnonzero(n_tokens < 1)
        raise ShardError(
            f"document {empty[0]} has {n_tokens[empty[0]]} tokens ({len(empty)} such documents); "
            "leave out documents without tokens before packing"
        )


def _fit(
    n_tokens: npt.NDArray[np.int32], order: npt.NDArray[np.uint64], settings: PackSettings
) -> Pieces:
    """Fit documents that are all kept; see `fit_rows`."""
    max_docs = settings.max_docs_per_row or _NO_LIMIT
    if settings.strategy == "concat":
        return _concat(n_tokens, order, settings.seq_len, max_docs)
    if settings.strategy == "online":
        fitted = _online(n_tokens, order, settings, max_docs)
    else:
        fitted = _best_fit(n_tokens, order, settings.seq_len, max_docs)
        if max_docs in fitted.pieces:
            # Longest first leaves the shortest for last, in rows that their count closes far from
            # full (14 % of padding at twice the mean count); mixed rows seldom meet the limit.
            mixed = _online(n_tokens, order, settings, max_docs)
            fitted = min(fitted, mixed, key=lambda f: len(f.pieces))
    return _assemble(n_tokens, order, settings.seq_len, fitted)


def _concat(
    n_tokens: npt.NDArray[np.int32], order: npt.NDArray[np.uint64], seq_len: int, max_docs: int
) -> Pieces:
    """Join documents in the order they are taken and cut."""
    index = taking_order(order)
    most = len(index) + int(n_tokens.sum(dtype=np.int64)) // seq_len + 1
    row, document = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    start, length = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32)
    m = join_and_cut(n_tokens[index], seq_len, max_docs, row, document, start, length)
    return Pieces(row[:m], index[document[:m]], start[:m], length[:m])


@dataclass(frozen=True, slots=True)
class _Fitted:
    """Remainders in the order they were taken, each with its row, and the pieces of each row."""

    index: npt.NDArray[np.int64]
    rest: npt.NDArray[np.int32]
    row_of: npt.NDArray[np.int64]
    pieces: npt.NDArray[np.int64]


def _best_fit(
    n_tokens: npt.NDArray[np.int32], order: npt.NDArray[np.uint64], seq_len: int, max_docs: int
) -> _Fitted:
    """Fit the remainders longest first."""
    rank = np.empty(len(n_tokens), dtype=np.int32)
    by_rank = np.zeros(seq_len + 1, dtype=np.int64)
    _rank(n_tokens, seq_len, rank, by_rank)
    index = sort_by(rank, order, by_rank)[: len(n_tokens) - by_rank[-1]]
    del rank
    histogram = np.ascontiguousarray(by_rank[:0:-1])
    # Of the rows that their count did not close, at most one is half empty.
    tokens = int(histogram @ np.arange(seq_len))
    most = min(len(index), 2 * tokens // seq_len + len(index) // max_docs + 2)
    row_of, pieces = np.empty(len(index), dtype=np.int64), np.zeros(most, dtype=np.int64)
    rows = best_fit_decreasing(histogram, seq_len, max_docs, row_of, pieces)
    rest = np.repeat(np.arange(seq_len - 1, 0, -1, dtype=np.int32), by_rank[1:-1])
    return _Fitted(index, rest, row_of, pieces[:rows])


def _online(
    n_tokens: npt.NDArray[np.int32],
    order: npt.NDArray[np.uint64],
    settings: PackSettings,
    max_docs: int,
) -> _Fitted:
    """Fit the remainders in seeded order."""
    index = taking_order(order)
    rest = n_tokens[index] % np.int32(settings.seq_len)
    index, rest = index[rest > 0], rest[rest > 0]
    row_of = np.empty(len(index), dtype=np.int64)
    rows = open_row_fit(rest, settings.seq_len, max_docs, settings.open_rows, row_of)
    return _Fitted(index, rest, row_of, np.bincount(row_of, minlength=rows))


def _assemble(
    n_tokens: npt.NDArray[np.int32],
    order: npt.NDArray[np.uint64],
    seq_len: int,
    fitted: _Fitted,
) -> Pieces:
    """Return the full rows of long documents, then the fitted remainders, in row order."""
    long = np.flatnonzero(n_tokens >= seq_len)
    long = long[taking_order(order[long])]
    windows = n_tokens[long] // np.int32(seq_len)
    full = int(windows.sum(dtype=np.int64))
    total = full + len(fitted.index)
    row, document = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    start, length = np.empty(total, dtype=np.int32), np.empty(total, dtype=np.int32)
    row[:full], length[:full] = np.arange(full), seq_len
    _lay_full(long, windows, seq_len, document, start)
    cursor = full + np.cumsum(fitted.pieces) - fitted.pieces
    _scatter(fitted.index, fitted.rest, fitted.row_of, cursor, document)
    cut = np.packbits(n_tokens > seq_len, bitorder="little")
    _unpack(full, fitted.pieces, n_tokens, cut, row, document, start, length)
    return Pieces(row, document, start, length)


@numba.njit(cache=True, nogil=True)
def _rank(n_tokens, seq_len, rank, by_rank):  # type: ignore[no-untyped-def]
    """Rank remainders from the longest (1) to none (``seq_len``), and count each rank."""
    for i in range(len(n_tokens)):
        r = seq_len - n_tokens[i] % seq_len
        rank[i] = r
        by_rank[r] += 1


@numba.njit(cache=True, nogil=True)
def _lay_full(long, windows, seq_len, document, start):  # type: ignore[no-untyped-def]
    """Cut the full windows of long documents, each a row of its own."""
    at = 0
    for i in range(len(long)):
        d = long[i]
        for window in range(windows[i]):
            document[at] = d
            start[at] = window * seq_len
            at += 1


@numba.njit(cache=True, nogil=True)
def _scatter(index, rest, row_of, cursor, packed):  # type: ignore[no-untyped-def]
    """Bring remainders into row order, index and length in one word: one random write each."""
    for i in range(len(index)):
        at = cursor[row_of[i]]
        cursor[row_of[i]] = at + 1
        packed[at] = index[i] | np.int64(rest[i]) << _INDEX_BITS


@numba.njit(cache=True, nogil=True)
def _unpack(full, pieces, n_tokens, cut, row, document, start, length):  # type: ignore[no-untyped-def]
    """Take the words of `_scatter` apart; ``cut`` has a bit for each document with full windows."""
    at = full
    for r in range(len(pieces)):
        for _ in range(pieces[r]):
            n = document[at] >> _INDEX_BITS
            d = document[at] & ((1 << _INDEX_BITS) - 1)
            row[at] = full + r
            document[at] = d
            start[at] = n_tokens[d] - n if (cut[d >> 3] >> (d & 7)) & 1 else 0
            length[at] = n
            at += 1

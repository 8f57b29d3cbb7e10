"""Byte-level BPE (GPT-2, cl100k, o200k, Llama 3, Qwen): pre-tokens and their safe parts, cached.

Merges stay inside a pre-token of the split pattern. Inside one they stay between safe cuts, as for
sentencepiece (:mod:`transforms.tokenize.safe_cuts`); as tokens here may end inside a character, a
boundary counts as joined when some merge joins any end of the first character with any beginning of
the second one.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from transforms.kernel import kernel
from transforms.tokenize.merges import pair_table
from transforms.tokenize.span_cache import CacheArrays
from transforms.tokenize.span_loop import (
    DOCUMENT,
    FIRST,
    PLACE,
    SPANS_AT_ONCE,
    WRITTEN,
    encode_spans,
)
from transforms.tokenize.splits import Splitter, find_splits
from transforms.tokenize.vocabulary import (
    NO_SYMBOL,
    Merges,
    Vocabulary,
    hash_map,
    possible_merges,
)

Bytes = npt.NDArray[np.uint8]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

CUT_POINTS = 0x30000
"""Code points beyond always join."""
MAX_PARTS = 1 << 26
"""Bytes of CharacterJoins.parts; a vocabulary that needs more is encoded without cuts in words."""


@kernel
def encode_by_splits(
    splitter: Splitter,
    vocabulary: Vocabulary,
    data: Bytes,
    offsets: Int64s,
    cache: CacheArrays,
    out: Int32s,
    out_offsets: Int64s,
    progress: Int64s,
) -> bool:
    """Encode documents from where ``progress`` stands; as safe_cuts.encode_by_cuts."""
    ends = np.empty(SPANS_AT_ONCE, dtype=np.int64)
    while progress[DOCUMENT] < len(offsets) - 1:
        stop = offsets[progress[DOCUMENT] + 1]
        while progress[PLACE] < stop:
            count = find_splits(splitter, data, progress[PLACE], stop, ends)
            if not encode_spans(data, ends, count, vocabulary, cache, out, progress):
                return False
        progress[DOCUMENT] += 1
        progress[FIRST] = progress[WRITTEN]
        out_offsets[progress[DOCUMENT]] = progress[WRITTEN]
    return True


def byte_vocabulary(
    tokens: Mapping[bytes, int], merges: Merges
) -> tuple[Vocabulary, Merges, dict[bytes, int]]:
    """Build the vocabulary of a byte-level BPE.

    Args:
        tokens: id of each token by its bytes, the 256 single bytes among them.
        merges: every pair of ids that merges.

    Returns:
        The vocabulary, the merges that can happen, and the tokens that their own bytes do not give.
    """
    byte_ids = np.array([tokens[bytes([byte])] for byte in range(256)], dtype=np.int32)
    longer = {token: number for token, number in tokens.items() if len(token) > 1}
    spelled = byte_ids[np.frombuffer(b"".join(longer), dtype=np.uint8)]
    lengths = np.array([len(token) for token in longer], dtype=np.int64)
    numbers = np.array(list(longer.values()), dtype=np.int32)
    possible = possible_merges(merges, spelled, lengths, numbers)
    reached = set(possible.merged.tolist())
    vocabulary = Vocabulary(
        facts=np.array([True, 1 + max(tokens.values()), NO_SYMBOL, 0], dtype=np.int64),
        characters=np.empty(0, dtype=np.int32),
        byte_ids=byte_ids,
        pairs=pair_table(*possible),
        user_steps=hash_map({}),
        user_ids=np.empty(0, dtype=np.int32),
    )
    return vocabulary, possible, {t: n for t, n in longer.items() if n not in reached}


class CharacterJoins(NamedTuple):
    """Which pairs of characters some merge brings together; see Splitter's fields.

    Attributes:
        joins: int64 [slots].
        lefts: int32 [points].
        rights: int32 [points].
        parts: uint8 [rows, columns].
    """

    joins: Int64s
    lefts: Int32s
    rights: Int32s
    parts: Bytes


def joined_characters(boundaries: Iterable[tuple[bytes, bytes]]) -> CharacterJoins:
    """Find the pairs of characters between which tokens join.

    Args:
        boundaries: the bytes of a token (or part of one) left and right of a place.

    Returns:
        The pairs; every pair where the table would take more than MAX_PARTS bytes.
    """
    whole: dict[int, int] = {}
    partial: list[tuple[bytes, bytes]] = []
    for left, right in sorted({(_last(left), _first(right)) for left, right in boundaries}):
        if right[0] & 0xC0 == 0x80:
            continue  # inside a character
        first, second = _point(left), _point(right)
        if first is None or second is None:
            partial.append((left, right))
        else:
            whole[first << 21 | second] = 0
    lefts, rows = _kinds({left for left, _ in partial}, _points_ending)
    rights, columns = _kinds({right for _, right in partial}, _points_beginning)
    shape = (int(lefts.max()) + 1, int(rights.max()) + 1)
    if shape[0] * shape[1] > MAX_PARTS:
        none = np.empty(0, dtype=np.int32)
        return CharacterJoins(np.full(16, -1), none, none, np.ones((1, 1), dtype=np.uint8))
    parts = np.zeros(shape, dtype=np.uint8)
    for left, right in partial:
        parts[np.ix_(rows[left], columns[right])] = 1
    joins = np.ascontiguousarray(hash_map(whole)[:, 0])
    return CharacterJoins(joins, lefts, rights, parts)


def _kinds(
    texts: set[bytes], points_of: Callable[[bytes], Int64s]
) -> tuple[Int32s, dict[bytes, list[int]]]:
    """Sort the code points by which of some texts their UTF-8 ends (or begins) with.

    Args:
        texts: ends or beginnings of characters.
        points_of: the code points that have such an end or beginning.

    Returns:
        The kind of each code point, int32 [CUT_POINTS]; and the kinds that each text belongs to.
    """
    ordered = sorted(texts)
    keys = np.zeros(CUT_POINTS, dtype=np.int64)
    for size in range(1, 5):  # of each size a code point has one end and one beginning
        keys *= len(ordered) + 1
        for i, text in enumerate(ordered):
            if len(text) == size:
                keys[points_of(text)] += i + 1
    found, inverse = np.unique(keys, return_inverse=True)
    kinds: dict[bytes, list[int]] = {text: [] for text in ordered}
    for kind, key in enumerate(found.tolist()):
        while key:
            key, i = divmod(key, len(ordered) + 1)
            if i:
                kinds[ordered[i - 1]].append(kind)
    return inverse.astype(np.int32), kinds


def _last(text: bytes) -> bytes:
    """Return the last character of a text, or what there is of it."""
    size = 1
    while size < min(len(text), 4) and text[-size] & 0xC0 == 0x80:
        size += 1
    return text[-size:]


def _size(lead: int) -> int:
    """Return the bytes of the character that a byte begins."""
    return 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4


def _first(text: bytes) -> bytes:
    """Return the first character of a text, or what there is of it."""
    return text[: _size(text[0])]


def _point(character: bytes) -> int | None:
    """Return the code point of a whole character."""
    try:
        return ord(character.decode())
    except (UnicodeDecodeError, TypeError):
        return None


def _points_ending(end: bytes) -> npt.NDArray[np.int64]:
    """Return the code points whose UTF-8 ends with the bytes, which may be a whole character."""
    point = _point(end)
    if point is not None:
        return np.array([point] if point < CUT_POINTS else [], dtype=np.int64)
    bits = 6 * len(end)
    low = 0
    for byte in end:
        low = low << 6 | byte & 0x3F
    points = np.arange(low, CUT_POINTS, 1 << bits)
    return points[points >= (0x80, 0x800, 0x10000)[len(end) - 1]]


def _points_beginning(begin: bytes) -> npt.NDArray[np.int64]:
    """Return the code points whose UTF-8 begins with the bytes, which may be a whole character."""
    point = _point(begin)
    if point is not None:
        return np.array([point] if point < CUT_POINTS else [], dtype=np.int64)
    size = _size(begin[0])
    high = begin[0] & (0x7F >> size)
    for byte in begin[1:]:
        high = high << 6 | byte & 0x3F
    bits = 6 * (size - len(begin))
    stop = min((high + 1) << bits, CUT_POINTS)
    return np.arange(min(high << bits, stop), stop)

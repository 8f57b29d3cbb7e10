"""The fast way for byte-level BPE: documents by split kernels, the odd ones by the library."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.tokenize.arrow_text import text_buffers
from transforms.tokenize.byte_level import byte_vocabulary, encode_by_splits, joined_characters
from transforms.tokenize.code_points import Agreement, CodePoints, code_point_classes
from transforms.tokenize.encoder import Encoded
from transforms.tokenize.patterns import RULES, SplitRules
from transforms.tokenize.proof import disproof
from transforms.tokenize.span_cache import MAX_SPAN_BYTES
from transforms.tokenize.span_encoder import SpanEncoder
from transforms.tokenize.split_proof import rule_texts
from transforms.tokenize.splits import Splitter, span_hash
from transforms.tokenize.vocabulary import Merges, hash_map

EncodeColumn = Callable[[pa.Array], Encoded]


@dataclass(frozen=True, slots=True)
class ByteLevelModel:
    """A byte-level BPE as its file says it.

    Attributes:
        tokens: id by the token's bytes; the 256 single bytes are among them.
        merges: every pair of ids that merges.
        pattern: split pattern.
        whole_tokens: whether a pre-token that is a token is never split.
        composes: whether text is brought to NFC first.
        literals: texts that the library cuts out before it splits.
    """

    tokens: Mapping[bytes, int]
    merges: Merges
    pattern: str
    whole_tokens: bool
    composes: bool = False
    literals: tuple[str, ...] = ()


class SplitEncoder:
    """Encodes columns with the kernels of :mod:`transforms.tokenize.byte_level`."""

    def __init__(
        self,
        model: ByteLevelModel,
        rules: SplitRules,
        code_points: CodePoints,
        library: EncodeColumn,
        cache_bytes: int,
    ) -> None:
        vocabulary, possible, unreachable = byte_vocabulary(model.tokens, model.merges)
        whole = unreachable if model.whole_tokens else {}
        joins = joined_characters(_boundaries(model, possible, whole))
        splitter = Splitter(rules.as_array(), code_point_classes(), *joins, _hashes(whole))
        self.longest_whole = max(map(len, whole), default=0)
        self.spans = SpanEncoder(
            partial(encode_by_splits, splitter, vocabulary), cache_bytes, 1, whole
        )
        self.code_points = code_points
        self._library = library
        self._composes = model.composes
        self._literals = "|".join(map(re.escape, model.literals))

    def encode(self, text: pa.Array) -> Encoded:
        """Encode documents; those with text that the kernels do not handle by the library."""
        data, offsets = text_buffers(text)
        refused, composing = self.code_points.unsafe(data, offsets)
        if self._composes:
            for i in np.flatnonzero(composing & ~refused):
                refused[i] = not unicodedata.is_normalized("NFC", text[int(i)].as_py())
        if self._literals:
            found = pc.fill_null(pc.match_substring_regex(text, self._literals), False)
            refused |= found.to_numpy(zero_copy_only=False)
        if not refused.any():
            return self.spans.encode(data, offsets)
        fast = self.spans.encode(*text_buffers(text.filter(pa.array(~refused))))
        return _interleaved(refused, fast, self._library(text.filter(pa.array(refused))))


def _hashes(spans: Iterable[bytes]) -> npt.NDArray[np.int64]:
    """Return Splitter's ``whole``; empty without spans."""
    hashes = {
        span_hash(np.frombuffer(span, dtype=np.uint8), 0, len(span)): 0
        for span in spans
        if len(span) <= MAX_SPAN_BYTES
    }
    return np.ascontiguousarray(hash_map(hashes)[:, 0]) if hashes else np.empty(0, dtype=np.int64)


def _boundaries(
    model: ByteLevelModel, merges: Merges, whole: Iterable[bytes]
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the bytes left and right of each place where tokens join."""
    text_of = {number: token for token, number in model.tokens.items()}
    for left, right in zip(merges.left.tolist(), merges.right.tolist(), strict=True):
        yield text_of[left], text_of[right]
    for token in whole:
        for k in range(1, len(token)):
            yield token[:k], token[k:]


def _interleaved(chosen: npt.NDArray[np.bool_], others: Encoded, these: Encoded) -> Encoded:
    """Join two encodings to one; ``chosen`` says which documents are in ``these``."""
    lengths = np.empty(len(chosen), dtype=np.int64)
    lengths[chosen] = these.lengths
    lengths[~chosen] = others.lengths
    offsets = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    from_these = np.repeat(chosen, lengths)
    ids = np.empty(int(offsets[-1]), dtype=np.int32)
    ids[from_these] = these.ids
    ids[~from_these] = others.ids
    return Encoded(offsets, ids)


def proved_rules(
    pattern: str, agreement_of: Callable[[SplitRules], Agreement]
) -> tuple[SplitRules, Agreement] | str:
    """Find the rules of a pattern that the library agrees with.

    Args:
        pattern: the split pattern.
        agreement_of: compares the kernels under some rules with the library.

    Returns:
        The rules, and the comparison for more texts; or the reason why there are none.
    """
    rules = RULES.get(pattern)
    if rules is None:
        return "its split pattern is not a known one"
    agreement = agreement_of(rules)
    if not agreement(["'ſ", "a'ſ"]).all():
        rules = replace(rules, long_s=True)
        agreement = agreement_of(rules)
    texts = rule_texts()
    agreed = agreement(texts)
    if agreed.all():
        return rules, agreement
    return f"its split of {texts[int(np.argmin(agreed))][:40]!r} differs"


def split_encoder(
    model: ByteLevelModel,
    agreement_of: Callable[[SplitRules], Agreement],
    library: EncodeColumn,
    cache_bytes: int,
) -> SplitEncoder | str:
    """Build the fast way for a byte-level BPE, and prove it.

    Args:
        model: the vocabulary and its rules.
        agreement_of: compares the kernels under some rules with the library.
        library: the library's encoding.
        cache_bytes: bound of each thread's cache.

    Returns:
        The encoder; or the reason why the library has to be used.
    """
    reason = _unfit(model)
    if reason is not None:
        return reason
    rules = proved_rules(model.pattern, agreement_of)
    if isinstance(rules, str):
        return rules
    code_points = CodePoints(rules[1], model.composes)
    encoder = SplitEncoder(model, rules[0], code_points, library, cache_bytes)
    if encoder.longest_whole > MAX_SPAN_BYTES:
        return f"a token of {encoder.longest_whole} bytes is not what its merges give"
    texts = [token.decode(errors="ignore") for token in model.tokens]
    reason = disproof(texts, encoder.encode, library)
    encoder.spans.forget()
    return reason or encoder


def _unfit(model: ByteLevelModel) -> str | None:
    """Return why a vocabulary cannot be encoded by the kernels, None where it can."""
    if any(bytes([byte]) not in model.tokens for byte in range(256)):
        return "a byte has no token"
    if len(np.unique(model.merges.left << 32 | model.merges.right)) < len(model.merges.left):
        return "a pair merges twice"
    return None


def spelled_pairs(tokens: Mapping[bytes, int]) -> Merges:
    """Return the merges of a vocabulary whose ids are ranks: any two tokens that give a token."""
    found = [
        (left, right, rank)
        for token, rank in tokens.items()
        for k in range(1, len(token))
        if (left := tokens.get(token[:k])) is not None
        and (right := tokens.get(token[k:])) is not None
    ]
    columns = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return Merges(columns[0].copy(), columns[1].copy(), columns[2].copy(), columns[2].copy())


def named_merges(tokens: Mapping[bytes, int], pairs: Iterable[tuple[bytes, bytes]]) -> Merges:
    """Return the merges of a list of pairs, the first of which merges first.

    Raises:
        KeyError: a pair, or what it gives, is no token.
    """
    rows = [
        (tokens[left], tokens[right], rank, tokens[left + right])
        for rank, (left, right) in enumerate(pairs)
    ]
    columns = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return Merges(*(column.copy() for column in columns))

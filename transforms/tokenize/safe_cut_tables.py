"""From a sentencepiece model to the arrays of the safe-cut encoder, or the reason why not."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from transforms.tokenize.characters import SPACE_SYMBOL
from transforms.tokenize.merges import pair_table
from transforms.tokenize.safe_cuts import Joins
from transforms.tokenize.sentencepiece_proto import (
    BPE,
    BYTE,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    ModelFacts,
)
from transforms.tokenize.vocabulary import (
    CODE_POINTS,
    NO_SYMBOL,
    Merges,
    Vocabulary,
    hash_map,
    possible_merges,
    user_trie,
)


def unsuitable(facts: ModelFacts) -> str | None:
    """Return why a model cannot be encoded by safe cuts, None where it can."""
    if facts.model_type != BPE:
        return "the model is not BPE"
    if (facts.types == UNUSED).any():
        return "the model has unused pieces"
    if not facts.escapes_spaces:
        return "the model writes spaces as spaces"
    reserved = ~np.isin(facts.types, (NORMAL, USER_DEFINED))
    if any(len(facts.pieces[i]) == 1 for i in np.flatnonzero(reserved)):
        return "a reserved piece is a single character"
    return None


def safe_cut_tables(facts: ModelFacts) -> tuple[Vocabulary, Joins] | str:
    """Build the arrays of the safe-cut encoder.

    Args:
        facts: a model that :func:`unsuitable` finds nothing against.

    Returns:
        The vocabulary and the pairs of characters that merges bring together; or the reason why
        the model cannot be encoded this way.
    """
    texts = [piece.replace(chr(SPACE_SYMBOL), " ") for piece in facts.pieces]
    user = {texts[i]: int(i) for i in np.flatnonzero(facts.types == USER_DEFINED)}
    symbols = _symbols(facts, texts, user)
    characters = np.full(CODE_POINTS, NO_SYMBOL, dtype=np.int32)
    for text, symbol in (symbols | user).items():
        if len(text) == 1:
            characters[ord(text)] = symbol
    merges = _merges(facts, texts, user, symbols, characters)
    if len(np.unique(merges.rank)) < len(merges.rank):
        return "two pieces have the same score"
    byte_ids = np.full(256, NO_SYMBOL, dtype=np.int32)
    for i in np.flatnonzero(facts.types == BYTE):
        byte_ids[int(facts.pieces[i][3:5], 16)] = i
    unknown = NO_SYMBOL
    if not facts.byte_fallback:
        unknown = int(np.flatnonzero(facts.types == UNKNOWN)[0])
    several = {text: number for text, number in user.items() if len(text) > 1}
    longest = max((len(text.encode()) for text in several), default=0)
    steps, ids = user_trie(several)
    vocabulary = Vocabulary(
        facts=np.array([False, len(texts), unknown, longest], dtype=np.int64),
        characters=characters,
        byte_ids=byte_ids,
        pairs=pair_table(*merges),
        user_steps=steps,
        user_ids=ids,
    )
    return vocabulary, _joins(merges, symbols, several)


def _symbols(facts: ModelFacts, texts: list[str], user: dict[str, int]) -> dict[str, int]:
    """Return the symbols that merge, by text: pieces, and characters that only occur in pieces."""
    symbols = {texts[i]: int(i) for i in np.flatnonzero(facts.types == NORMAL)}
    inside = set("".join(symbols)) - set(symbols) - set(user)
    return symbols | {text: len(texts) + k for k, text in enumerate(sorted(inside))}


def _merges(
    facts: ModelFacts,
    texts: list[str],
    user: dict[str, int],
    symbols: dict[str, int],
    characters: npt.NDArray[np.int32],
) -> Merges:
    """Return the merges that can happen.

    sentencepiece joins any two symbols whose joined text is a piece, the highest score first.
    Single characters that are user-defined never merge.
    """
    frozen = {text for text in user if len(text) == 1}
    pieces = [
        (int(i), texts[i])
        for i in np.flatnonzero(facts.types == NORMAL)
        if len(texts[i]) > 1 and frozen.isdisjoint(texts[i])
    ]
    found = [
        (left, right, number)
        for number, text in pieces
        for k in range(1, len(text))
        if (left := symbols.get(text[:k])) is not None
        and (right := symbols.get(text[k:])) is not None
    ]
    columns = np.array(found, dtype=np.int64).reshape(-1, 3).T
    _, ranks = np.unique(-facts.scores, return_inverse=True)
    merges = Merges(columns[0], columns[1], ranks.astype(np.int64)[columns[2]], columns[2])
    joined = "".join(text for _, text in pieces)
    spelled = characters[np.frombuffer(joined.encode("utf-32-le"), dtype=np.uint32)]
    lengths = np.array([len(text) for _, text in pieces], dtype=np.int64)
    return possible_merges(merges, spelled, lengths, np.array([n for n, _ in pieces], np.int32))


def _joins(merges: Merges, symbols: dict[str, int], user: dict[str, int]) -> Joins:
    """Return the pairs of characters that merges, or a user-defined symbol, bring together."""
    text_of = {symbol: text for text, symbol in symbols.items()}
    pairs = {
        (ord(text_of[left][-1]), ord(text_of[right][0]))
        for left, right in zip(merges.left.tolist(), merges.right.tolist(), strict=True)
    }
    for text in user:
        pairs |= {(ord(first), ord(second)) for first, second in pairwise(text)}
    ascii_cuts = np.ones(128 * 128, dtype=np.uint8)
    others = {}
    for first, second in sorted(pairs):
        if first < 128 and second < 128:
            ascii_cuts[first << 7 | second] = 0
        else:
            others[first << 21 | second] = 0
    return Joins(ascii_cuts, np.ascontiguousarray(hash_map(others)[:, 0]))

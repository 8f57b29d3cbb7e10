"""Fill in the middle: documents rearranged so that a model learns to complete what is missing.

Bavarian et al., "Efficient Training of Language Models to Fill in the Middle" (arXiv 2207.14255),
section 3: a document is cut into prefix, middle and suffix at two random places and written as
prefix, suffix, middle (PSM) or suffix, prefix, middle (SPM, "variant 2" of its appendix D), with
special tokens between. Places are drawn in tokens and all choices by hash of the document's
address, so they are the same everywhere, and nothing is encoded twice.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transforms.record import RecordError, mix64
from transforms.tokenize.encoder import Encoded
from transforms.tokenize.settings import FimSettings

Int64 = npt.NDArray[np.int64]

_CHOICE, _FIRST_CUT, _SECOND_CUT, _ORDER = 0xF1A0, 0xF1A1, 0xF1A2, 0xF1A3
"""Added to the seed, so that the choices are independent."""


@dataclass(frozen=True, slots=True)
class FimTokens:
    """Ids of the three special tokens."""

    prefix: int
    middle: int
    suffix: int

    @property
    def all(self) -> tuple[int, int, int]:
        """The three ids."""
        return self.prefix, self.middle, self.suffix


@dataclass(frozen=True, slots=True)
class Rearranged:
    """Documents after fill in the middle."""

    encoded: Encoded
    changed: npt.NDArray[np.bool_]
    """[d] which were rearranged."""
    lookalikes: int
    """Chosen documents that hold one of the special tokens as text, and were left as they are."""


def rearrange(
    encoded: Encoded,
    uids: Int64,
    eligible: npt.NDArray[np.bool_],
    tokens: FimTokens,
    settings: FimSettings,
    seed: int,
) -> Rearranged:
    """Rearrange the documents that the hash of their address chooses.

    PSM: ``<prefix> p <suffix> s <middle> m``; SPM: ``<prefix> <suffix> s <middle> p m``. A document
    gains three tokens. Documents of fewer than two tokens stay.

    Args:
        encoded: ids of d documents, without bos and eos.
        uids: [d] their addresses.
        eligible: [d] which may be rearranged.
        tokens: ids of the special tokens.
        settings: rates.
        seed: the run's seed.
    """
    n = encoded.lengths
    chosen = eligible & (n >= 2) & _below(mix64(uids, seed + _CHOICE), settings.rate)
    foreign = np.isin(encoded.ids, tokens.all)
    held = np.zeros(len(encoded.ids) + 1, np.int64)
    np.cumsum(foreign, out=held[1:])
    own = chosen & (held[encoded.offsets[1:]] > held[encoded.offsets[:-1]])
    chosen &= ~own
    if not chosen.any():
        return Rearranged(encoded, chosen, int(own.sum()))
    first = (mix64(uids, seed + _FIRST_CUT) % (n + 1).astype(np.uint64)).astype(np.int64)
    second = (mix64(uids, seed + _SECOND_CUT) % (n + 1).astype(np.uint64)).astype(np.int64)
    low, high = np.minimum(first, second), np.maximum(first, second)
    spm = _below(mix64(uids, seed + _ORDER), settings.spm_rate)
    parts = _parts(n, low, high, chosen, spm)
    return Rearranged(_gathered(encoded, parts, tokens), chosen, int(own.sum()))


def restore(encoded: Encoded, tokens: FimTokens) -> tuple[Encoded, npt.NDArray[np.bool_]]:
    """Undo :func:`rearrange`: what stands behind the middle goes between the other two parts.

    Both orders are undone alike: SPM has nothing before the suffix, and prefix and middle together
    in the end.

    Args:
        encoded: ids of d documents, without bos and eos.
        tokens: ids of the special tokens.

    Returns:
        The documents, and [d] which were undone: those that begin with the prefix token and hold
        each special token once, in their order. The others stay as they are.
    """
    places = {}
    shaped = encoded.lengths >= 3
    starts = encoded.offsets[:-1]
    document = np.repeat(np.arange(len(starts)), encoded.lengths)
    for name in ("prefix", "suffix", "middle"):
        at = np.flatnonzero(encoded.ids == getattr(tokens, name))
        counts = np.bincount(document[at], minlength=len(starts))
        place = np.zeros(len(starts), np.int64)
        place[document[at]] = at - starts[document[at]]
        shaped &= counts == 1
        places[name] = place
    shaped &= (places["prefix"] == 0) & (places["suffix"] < places["middle"])
    n = encoded.lengths
    zero = np.zeros_like(n)
    suffix, middle = places["suffix"], places["middle"]
    ranges = [
        (np.where(shaped, 1, 0), np.where(shaped, suffix, n)),
        (np.where(shaped, middle + 1, 0), np.where(shaped, n, 0)),
        (np.where(shaped, suffix + 1, 0), np.where(shaped, middle, zero)),
    ]
    low = np.stack([a for a, _ in ranges], axis=1)
    high = np.stack([b for _, b in ranges], axis=1)
    return _taken(encoded, low, high), shaped


def fim_tokens(settings: FimSettings, specials: dict[str, int], where: str) -> FimTokens:
    """Return the ids of the special tokens.

    Args:
        settings: their texts.
        specials: ids of the tokenizer's special and added tokens by text.
        where: the tokenizer's file, for messages.

    Raises:
        RecordError: a token is missing, or two are the same.
    """
    for name in ("prefix", "middle", "suffix"):
        text = getattr(settings, name)
        if text not in specials:
            known = [token for token in specials if "fim" in token.lower()]
            remedy = f"it has {', '.join(sorted(known))}" if known else "it has none for this"
            raise RecordError(
                f"{where}: tokenizer.fim.{name} = {text!r} is not a special token of this file "
                f"({remedy}); name another one or take another tokenizer"
            )
    found = FimTokens(*(specials[getattr(settings, n)] for n in ("prefix", "middle", "suffix")))
    if len(set(found.all)) < 3:
        raise RecordError("tokenizer.fim: prefix, middle and suffix must be three tokens")
    return found


def _below(hashes: npt.NDArray[np.uint64], rate: float) -> npt.NDArray[np.bool_]:
    """Return which hashes fall into a share of all."""
    share: npt.NDArray[np.bool_] = (hashes >> np.uint64(11)).astype(np.float64) < rate * 2.0**53
    return share


_PREFIX, _MIDDLE, _SUFFIX = -1, -2, -3


def _parts(
    n: Int64,
    low: Int64,
    high: Int64,
    chosen: npt.NDArray[np.bool_],
    spm: npt.NDArray[np.bool_],
) -> list[tuple[int, Int64, Int64]]:
    """Return what each document is made of: special tokens, and ranges of its own tokens."""
    psm, spm = chosen & ~spm, chosen & spm
    zero = np.zeros_like(n)
    return [
        (_PREFIX, zero, chosen.astype(np.int64)),
        (0, zero, np.where(psm, low, 0)),
        (_SUFFIX, zero, chosen.astype(np.int64)),
        (0, high, np.where(chosen, n, high)),
        (_MIDDLE, zero, chosen.astype(np.int64)),
        (0, zero, np.where(spm, low, 0)),
        (0, np.where(chosen, low, 0), np.where(chosen, high, n)),
    ]


def _gathered(
    encoded: Encoded, parts: list[tuple[int, Int64, Int64]], tokens: FimTokens
) -> Encoded:
    """Put documents together from their parts."""
    # The special tokens stand behind the ids, so that all parts are ranges of one array.
    extended = Encoded(
        encoded.offsets,
        np.concatenate([encoded.ids, np.array(tokens.all, np.int32)]),
    )
    at_special = {_PREFIX: 0, _MIDDLE: 1, _SUFFIX: 2}
    starts = encoded.offsets[:-1]
    low, high = [], []
    for kind, start, end in parts:
        base = starts if kind == 0 else np.full_like(starts, len(encoded.ids) + at_special[kind])
        low.append(base + start - starts)
        high.append(base + end - starts)
    return _taken(extended, np.stack(low, axis=1), np.stack(high, axis=1))


def _taken(encoded: Encoded, low: Int64, high: Int64) -> Encoded:
    """Join ranges of tokens, [d, parts] from each document's start, document by document."""
    d = len(low)
    length = (high - low).ravel()
    first = (encoded.offsets[:-1][:, None] + low).ravel()
    before = np.zeros(len(length) + 1, np.int64)
    np.cumsum(length, out=before[1:])
    place = np.arange(int(before[-1])) - np.repeat(before[:-1] - first, length)
    offsets = before[:: low.shape[1]] if d else np.zeros(1, np.int64)
    return Encoded(offsets, encoded.ids[place])

"""Utility: which documents help on a target text, and how often they are then drawn.

A few thousand documents are measured (:mod:`transforms.proxy`), a student learns to rank all others
(:mod:`transforms.student`), and a document's weight follows the better of its two ranks, by utility
and by similarity, so that neither can erase what the other finds (MetRag, arXiv:2405.19893, joins
the two by thresholds for this reason).
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le, Lt, MinLen

from transforms.record import mix64
from transforms.shingles import Hashes, Offsets

WINDOW = 1024
"""Tokens of a document that are measured, from a place drawn by hash."""
TARGET_TOKENS = 1 << 16
"""Tokens of the target on which the loss is measured."""

_CANDIDATE, _REFERENCE, _START, _HELD_OUT = 0x75_74_31, 0x75_74_32, 0x75_74_33, 0x75_74_34

Uids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilitySettings:
    """Documents that help on a target text are drawn more often (`[mixture.utility]`)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    target: Annotated[tuple[Annotated[str, MinLen(1)], ...], MinLen(1)]
    """Files of the text that the model should become good at (globs, formats as of sources);
    relative paths start at the current folder."""
    text: Annotated[str, MinLen(1)] = "text"
    """Column or key of the text in them."""
    candidates: Annotated[int, Ge(64), Le(1 << 20)] = 4096
    """Documents to measure, the same number of each source and domain as far as it has them."""
    reference: Annotated[int, Ge(64), Le(1 << 20)] = 8192
    """Documents that the measuring model has seen before."""
    tau: Annotated[float, Gt(0), Le(100)] = 1.0
    """Temperature of the student's goal, in standard deviations of what was measured; the lower,
    the more the best documents alone count."""
    top: Annotated[float, Gt(0), Lt(1)] = 0.1
    """The best documents by utility, and those by similarity, have `max_weight`: each time as many
    as hold this share of all tokens."""
    sharpness: Annotated[float, Gt(0), Le(100)] = 4.0
    """How fast the weight falls below them."""
    min_weight: Annotated[float, Ge(0), Le(1)] = 0.25
    """Weight of the document that is last by both."""
    max_weight: Annotated[float, Ge(1), Le(1000)] = 4.0
    """Weight of the best documents."""
    strict: bool = False
    """End the run where the student ranks no better than chance; otherwise all weights are then 1,
    and the run says so."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The documents that are read to measure."""

    candidates: Uids
    """Documents to measure, ascending."""
    reference: Uids
    """Documents that the model has seen, ascending; none of them is a candidate."""


def draw_sample(
    uid: Uids, stratum: npt.NDArray[np.int32], settings: UtilitySettings, seed: int
) -> Sample:
    """Draw candidates and reference by hash; a function of the set of documents.

    Candidates take at most half of a stratum; the reference is drawn from all others alike.

    Args:
        uid: [n] addresses.
        stratum: [n] index of their source and domain.
        settings: how many of each.
        seed: seed of the draw.
    """
    sizes = np.bincount(stratum) if len(stratum) else np.empty(0, np.int64)
    by_hash = np.lexsort((uid, mix64(mix64(uid, seed).view(np.int64), _CANDIDATE), stratum))
    starts = np.cumsum(sizes) - sizes
    taken = np.zeros(len(uid), bool)
    for start, count in zip(starts, _level(sizes // 2, settings.candidates), strict=True):
        taken[by_hash[start : start + count]] = True
    rest = uid[~taken]
    order = np.lexsort((rest, mix64(mix64(rest, seed).view(np.int64), _REFERENCE)))
    return Sample(np.sort(uid[taken]), np.sort(rest[order[: settings.reference]]))


def _level(most: npt.NDArray[np.int64], total: int) -> list[int]:
    """Share a number out evenly, nobody getting more than its most."""
    given = [0] * len(most)
    left = total
    order = sorted(range(len(most)), key=lambda place: (int(most[place]), place))
    for rank, place in enumerate(order):
        given[place] = min(int(most[place]), left // (len(order) - rank))
        left -= given[place]
    return given


def windows(uid: Uids, offsets: Offsets, tokens: Hashes, seed: int) -> tuple[Offsets, Hashes]:
    """Cut every document to :data:`WINDOW` tokens at most, from a place drawn by hash.

    Args:
        uid: [n] addresses.
        offsets: [n + 1] where each document's tokens begin.
        tokens: hashes of the tokens.
        seed: seed of the places.
    """
    sizes = np.diff(offsets)
    spare = np.maximum(sizes - WINDOW, 0)
    draws = mix64(mix64(uid, seed).view(np.int64), _START)
    begins = offsets[:-1] + (draws % (spare + 1).astype(np.uint64)).astype(np.int64)
    return gather(begins, np.minimum(sizes, WINDOW), tokens)


def gather(begins: Offsets, sizes: Offsets, values: Any) -> tuple[Offsets, Any]:
    """Return stretches of an array, one after the other, and where each begins."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places = np.arange(offsets[-1]) + np.repeat(begins - offsets[:-1], sizes)
    return offsets, values[places]


def held_out(uid: Uids, seed: int) -> npt.NDArray[np.bool_]:
    """Return which candidates the student does not learn from: a fifth, by hash."""
    return np.asarray(mix64(mix64(uid, seed).view(np.int64), _HELD_OUT) % np.uint64(5) == 0)


def quantiles(scores: Floats, size: Uids) -> npt.NDArray[np.float64]:
    """Return the share of the other documents' tokens that is in documents with lower scores.

    Args:
        scores: [n] scores; NaN for documents without tokens.
        size: [n] tokens.

    Returns:
        [n] quantiles, from 0 for the lowest to 1 for the highest; NaN where the score is.
    """
    known = np.isfinite(scores)
    order = np.argsort(scores[known], kind="stable")
    ranked = scores[known][order]
    below = np.concatenate([[0], np.cumsum(size[known][order])])
    lower = below[np.searchsorted(ranked, scores[known])]
    others = below[-1] - size[known]
    found = np.full(len(scores), np.nan)
    found[known] = np.where(others > 0, lower / np.maximum(others, 1), 1.0)
    return found


def weights(utility: Floats, similarity: Floats, size: Uids, settings: UtilitySettings) -> Floats:
    """Return the weight of each document.

    ``min_weight + (max_weight - min_weight) * min(1, q / (1 - top)) ** sharpness``, where q is the
    larger of its quantiles by utility and by similarity.

    Args:
        utility: [n] scores by the student; NaN for documents without tokens.
        similarity: [n] scores by similarity, likewise.
        size: [n] tokens.
        settings: the constants.

    Returns:
        [n] weights; 1 for documents without tokens.
    """
    q = np.fmax(quantiles(utility, size), quantiles(similarity, size))
    reach = np.minimum(1.0, q / (1 - settings.top)) ** settings.sharpness
    weight = settings.min_weight + (settings.max_weight - settings.min_weight) * reach
    return np.where(np.isfinite(weight), weight, 1.0).astype(np.float32)

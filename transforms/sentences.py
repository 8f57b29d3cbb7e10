"""Sentences that many documents repeat: the settings, the rule, and what is cut from a text.

After BaichuanSEED (arXiv 2408.15079, section 3.1.2 and appendix B): a sentence goes when many
documents have it and it does not read like prose, or when very many have it.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from annotated_types import Ge, Gt, Le

from transforms.kernel import kernel
from transforms.sentence_characters import Bytes, Int64s
from transforms.sentence_split import Units

FREQUENT, EXTREME = "frequent", "extreme"
"""Why a sentence is removed: by count and quality, or by count alone."""

LEAST_SIMILARITY = 0.7
"""Of sentences that are counted together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceSettings:
    """Removal of sentences that many documents repeat (`[dedupe.sentence]`)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    unit: Literal["sentence", "paragraph"] = "sentence"
    """What is counted and removed: sentences, or whole lines."""
    min_chars: Annotated[int, Gt(0)] = 2
    """Sentences with fewer characters, punctuation and spaces aside, are left alone."""
    near: Annotated[float, Ge(0), Le(1)] | Literal[False] = 0.85
    """Jaccard similarity of their sets of 4-character sequences, 0.7 to 1, from which on sentences of
    15 to 200 characters and low quality are counted together; 0 or false counts equal ones alone."""
    frequent_share: Annotated[float, Ge(0), Le(1)] = 1e-5
    """Share of the documents above which a sentence is frequent; frequent ones of low quality are
    removed."""
    frequent_min: Annotated[int, Ge(1)] = 10
    """No sentence is frequent that no more documents than this have."""
    max_quality: Annotated[float, Ge(0), Le(1)] = 0.5
    """Frequent sentences below this quality are removed; 0 keeps them all."""
    extreme_share: Annotated[float, Ge(0), Le(1)] = 1e-3
    """Share of the documents above which a sentence is removed whatever its quality."""
    extreme_min: Annotated[int, Ge(1)] = 100_000
    """No sentence is removed whatever its quality that no more documents than this have."""
    extreme_chars: Annotated[int, Ge(0)] = 20
    """Nor is one with fewer characters (an ideograph counts as two): short ones are frequent by
    nature."""
    quality_column: str | None = None
    """Numeric column of the sources, from 0 to 1, whose mean over the documents that have a sentence
    is its quality; by default it is that of the sentence itself, by the built-in model."""
    weights: str | None = None
    """JSON file with the weights of the model's features; by default the built-in ones."""
    max_removed: Annotated[float, Gt(0), Le(1)] = 0.5
    """A document that would lose more than this share of its characters is dropped."""
    keep_first: bool = False
    """Whether the first document in keep order keeps its copy of a removed sentence."""
    domains: tuple[str, ...] | None = None
    """Domains whose documents are searched; all by default."""

    def __post_init__(self) -> None:
        """Check the similarity.

        Raises:
            ValueError: `near` is between 0 and 0.7.
        """
        if 0 < self.near < LEAST_SIMILARITY:
            raise ValueError(
                f"near = {self.near} would count together sentences that say different things; "
                f"give {LEAST_SIMILARITY} to 1, or 0 for none"
            )

    @property
    def near_quality(self) -> float:
        """Quality below which a sentence may be counted with similar ones; 0 for none.

        What a mean over documents decides is known only when they are counted.
        """
        if not self.near:
            return 0.0
        return 2.0 if self.quality_column is not None else max(self.max_quality, 0.5)

    def frequent_above(self, documents: int) -> int:
        """Return the number of documents above which a sentence is frequent."""
        return max(self.frequent_min, int(self.frequent_share * documents))

    def extreme_above(self, documents: int) -> int:
        """Return the number of documents above which a sentence goes whatever its quality."""
        return max(self.extreme_min, int(self.extreme_share * documents), self.frequent_min)


def removed_forms(
    count: Int64s,
    quality: npt.NDArray[np.float64],
    weight: Int64s,
    documents: int,
    settings: SentenceSettings,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Decide which forms are removed.

    Args:
        count: distinct documents that have the form, or one like it; shape [forms].
        quality: its quality, likewise.
        weight: its characters, ideographs counted twice, likewise.
        documents: documents that were searched.
        settings: the thresholds.

    Returns:
        Whether each is removed for its count and quality, and whether for its count alone.
    """
    frequent = (count > settings.frequent_above(documents)) & (quality < settings.max_quality)
    extreme = (count > settings.extreme_above(documents)) & (weight >= settings.extreme_chars)
    return frequent, extreme & ~frequent


def removal_spans(
    units: Units, ends: Int64s, removed: npt.NDArray[np.bool_], empty: npt.NDArray[np.bool_]
) -> tuple[Int64s, Int64s, Int64s]:
    """Return what is cut from texts so that the rest reads on.

    * A line all of whose sentences are removed goes with its line feed; where the line before what
      is left is blank, or none is, the blank lines after it go as well.
    * Sentences at the start of or inside a line go with the white space after them; at its end, with
      the white space before them.
    * What is cut at the end of a text takes the white space before it along.

    Args:
        units: units of texts.
        ends: first byte of each text, and the end of the last one; shape [texts + 1].
        removed: whether each unit is removed, shape [units].
        empty: whether it has no word, likewise; such a unit goes when all others of its line do.

    Returns:
        Number of the text, first character and end of each span, in order and apart.
    """
    found: tuple[Int64s, Int64s, Int64s] = _spans(
        units.data, ends, units.offsets, units.places, removed, empty
    )
    return found


@kernel
def _is_space(byte: int) -> bool:
    return byte == 32 or 9 <= byte <= 13


@kernel
def _skip_blank_lines(data: Bytes, place: int, stop: int) -> int:
    """Return where the first line at or after ``place`` begins that is not blank."""
    while place < stop:
        end = place
        while end < stop and data[end] != 10 and _is_space(data[end]):
            end += 1
        if end < stop and data[end] != 10:
            break
        place = min(end + 1, stop)
    return place


@kernel
def _back_over_spaces(data: Bytes, place: int, start: int) -> int:
    while place > start:
        if _is_space(data[place - 1]):
            place -= 1
        elif (
            place - start >= 3
            and data[place - 1] == 0x80
            and data[place - 2] == 0x80
            and (data[place - 3] == 0xE3)
        ):
            place -= 3
        else:
            break
    return place


@kernel
def _spans(  # noqa: C901
    data: Bytes,
    ends: Int64s,
    offsets: Int64s,
    places: Int64s,
    removed: npt.NDArray[np.bool_],
    empty: npt.NDArray[np.bool_],
) -> tuple[Int64s, Int64s, Int64s]:
    out = np.empty((len(places), 3), np.int64)
    used = 0
    for text in range(len(ends) - 1):
        begin, stop = ends[text], ends[text + 1]
        first = used
        blank = False
        unit = offsets[text]
        while unit < offsets[text + 1]:
            line, line_end = places[unit, 3], places[unit, 4]
            last, some, every = unit, False, True
            while last < offsets[text + 1] and places[last, 3] == line:
                some = some or removed[last]
                every = every and (removed[last] or empty[last])
                last += 1
            if some and every:
                if used == first or out[used - 1, 2] != line:
                    blank = line == begin or (line - begin >= 2 and data[line - 2] == 10)
                    if line - begin == 1:
                        blank = True
                start, end = line, min(line_end + 1, stop)
                if blank:
                    end = _skip_blank_lines(data, end, stop)
                if used > first and out[used - 1, 2] == start:
                    out[used - 1, 2] = end
                else:
                    out[used] = (text, start, end)
                    used += 1
            elif some:
                at = unit
                while at < last:
                    if not removed[at]:
                        at += 1
                        continue
                    until = at
                    while until < last and removed[until]:
                        until += 1
                    start = places[at, 1]
                    if until < last:
                        end = places[until, 1]
                    else:
                        end = places[until - 1, 2]
                        start = places[at - 1, 2]
                    out[used] = (text, start, end)
                    used += 1
                    at = until
            unit = last
        if used > first and out[used - 1, 2] == stop:
            least = begin if used - 1 == first else out[used - 2, 2]
            out[used - 1, 1] = _back_over_spaces(data, out[used - 1, 1], least)
        _to_characters(data, begin, out[first:used])
    return out[:used, 0].copy(), out[:used, 1].copy(), out[:used, 2].copy()


@kernel
def _to_characters(data: Bytes, begin: int, spans: Int64s) -> None:
    """Turn places of bytes into numbers of characters of the text that begins at ``begin``."""
    place, count = begin, 0
    for row in range(len(spans)):
        for column in range(1, 3):
            while place < spans[row, column]:
                count += (data[place] & 0xC0) != 0x80
                place += 1
            spans[row, column] = count

"""Contamination: evaluation items in documents, exact, re-cased, re-spaced, cut off or edited.

The definition of a match stands in docs/contamination.md. In short: an item and a document share
n-grams of tokens; equal runs around them are chained in order, small gaps apart; and the chain counts
where it holds enough of the item's letters. The sources of the measures: GPT-3 (Brown et al. 2020,
appendix C) for the least that tells anything, 8 and 13 words; PaLM (Chowdhery et al. 2022, section 8)
for a share of the item rather than a single n-gram; Llama 2 (Touvron et al. 2023, appendix A.6) for
matches that go on over unequal tokens.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from annotated_types import Ge, Gt, Le, MinLen

from transforms.contamination_index import ContaminationIndex, build_index
from transforms.contamination_scan import scan
from transforms.shingles import text_blocks, token_table
from transforms.text import IngestSettings, normalize_text, string_buffers
from transforms.token_places import PlacedTokens, placed_tokens

ANSWER_GAP = 8
"""Tokens that may stand between an item and its answer."""
SHORT_ANSWER = 5
"""Answers of fewer tokens stand close behind their item, or are not told from chance."""
SHORT_ANSWER_GAP = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class DecontaminateSettings:
    """Removal of evaluation items from the corpus (`[decontaminate]`)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    path: Annotated[tuple[Annotated[str, MinLen(1)], ...], MinLen(1)]
    """Globs of the evaluation files: JSON lines (`.jsonl`, with `.gz` or `.zst` behind it)."""
    text: Annotated[str, MinLen(1)] = "text"
    """Key of the item's text in each line."""
    id: Annotated[str, MinLen(1)] = "id"
    """Key of the item's id; a line without it is named by its number."""
    answer: Annotated[str, MinLen(1)] = "answer"
    """Key of the answer, which need not be there; where it stands behind its item, the match goes on
    over it."""
    policy: Literal["drop", "cut"] = "drop"
    """`drop` drops documents that hold an item, `cut` takes the item out of them."""
    ngram: Annotated[int, Ge(3), Le(16)] = 5
    """Tokens in a row that a document and an item must share to be compared. Shorter items match
    only whole."""
    threshold: Annotated[float, Gt(0), Le(1)] = 0.7
    """Share of an item's letters from which on it is found in a document, if these are those of at
    least 8 words."""
    part_threshold: Annotated[float, Gt(0), Le(1)] = 0.4
    """The same where what is found of it is longer: at least 13 words."""


@dataclass(frozen=True, slots=True)
class EvaluationItems:
    """Evaluation items and the index over them."""

    texts: tuple[str, ...]
    """As documents are normalized."""
    answers: tuple[str, ...]
    """Likewise; empty where there is none."""
    index: ContaminationIndex
    places: PlacedTokens
    """Tokens of the answers."""


@dataclass(frozen=True, slots=True)
class Match:
    """An evaluation item found in a document."""

    row: int
    """Number of the document."""
    item: int
    """Number of the item."""
    start: int
    """First character of the match in the document."""
    end: int
    """Character after it."""
    score: float
    """Share of the item's letters that the match holds."""
    tokens: int
    """Tokens of the item that it holds."""
    item_tokens: int
    """Tokens of the item."""
    item_start: int
    """First character of the matched part of the item."""
    item_end: int
    """Character after it."""
    answer: bool
    """Whether the item's answer stands behind it, and belongs to the match."""


def evaluation_items(
    texts: list[str], answers: list[str], settings: DecontaminateSettings
) -> EvaluationItems:
    """Normalize and index evaluation items.

    Args:
        texts: the items.
        answers: their answers, empty where there is none.
        settings: n-gram and thresholds.
    """
    form = IngestSettings()
    texts = [normalize_text(text, form) for text in texts]
    answers = [normalize_text(answer, form) for answer in answers]
    index = build_index(
        pa.array(texts, pa.string()), settings.ngram, settings.threshold, settings.part_threshold
    )
    places = placed_tokens(pa.array(answers, pa.string()))
    return EvaluationItems(tuple(texts), tuple(answers), index, places)


def find_contamination(texts: pa.ChunkedArray, items: EvaluationItems) -> list[Match]:
    """Return all matches of documents with evaluation items, by document, start and item.

    Args:
        texts: the documents as ingested.
        items: what to search for.
    """
    table, expansions = token_table()
    index = items.index
    found: list[Match] = []
    done = 0
    for block in text_blocks(texts):
        offsets, data = string_buffers(block)
        rows = scan(
            offsets, data, table, expansions, index.tables, index.threshold, index.part_threshold
        )
        for row in np.unique(rows[:, 0]).tolist():
            found += _of_document(block[row].as_py(), done + row, rows[rows[:, 0] == row], items)
        done += len(block)
    return found


def _of_document(
    text: str, row: int, matches: npt.NDArray[np.int64], items: EvaluationItems
) -> list[Match]:
    """Return the matches of one document with characters for places."""
    starts = _characters(text, matches[:, 2])
    ends = _characters(text, matches[:, 3])
    bounds, letters = items.index.tokens.offsets, items.index.tables.letters
    found = []
    for start, end, match in zip(starts, ends, matches.tolist(), strict=True):
        item, first, last = match[1], match[4], match[5]
        low, high = int(bounds[item]), int(bounds[item + 1])
        start, item_start = _grown_back(text, start, items, item, first)
        end, item_end, whole = _grown_on(text, end, items, item, last)
        after = _answer_end(text, end, items, item) if whole else 0
        found.append(
            Match(
                row=row,
                item=item,
                start=start,
                end=max(end, after),
                score=match[7] / int(letters[high] - letters[low]),
                tokens=match[6],
                item_tokens=high - low,
                item_start=item_start,
                item_end=item_end,
                answer=after > 0,
            )
        )
    return sorted(found, key=lambda match: (match.start, match.item))


def _characters(text: str, places: npt.NDArray[np.int64]) -> list[int]:
    """Return how many characters stand before each byte of a text."""
    if text.isascii():
        return [int(place) for place in places]
    data = np.frombuffer(text.encode(), np.uint8)
    begins = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])
    characters: list[int] = begins[places].tolist()
    return characters


def _item_place(items: EvaluationItems, item: int, token: int, *, end: bool) -> int:
    """Return the first character of an item's token, or the one after it."""
    tokens = items.index.tokens
    places = tokens.ends if end else tokens.begins
    byte = int(places[int(tokens.offsets[item]) + token])
    return len(items.texts[item].encode()[:byte].decode())


def _grown_back(
    text: str, start: int, items: EvaluationItems, item: int, first: int
) -> tuple[int, int]:
    """Take in the signs before the item's first word, where the document has them too."""
    place = _item_place(items, item, first, end=False)
    return _along(text, start, items.texts[item], place, -1) if first == 0 else (start, place)


def _grown_on(
    text: str, end: int, items: EvaluationItems, item: int, last: int
) -> tuple[int, int, bool]:
    """Take in the signs behind the item's last word; return also whether the item ends there."""
    tokens = items.index.tokens
    length = int(tokens.offsets[item + 1] - tokens.offsets[item])
    place = _item_place(items, item, last - 1, end=True)
    if last == length:
        end, place = _along(text, end, items.texts[item], place, 1)
    # An edit at the end of an item hides nothing of what follows.
    return end, place, last >= length - 2


def _along(text: str, place: int, item: str, within: int, step: int) -> tuple[int, int]:
    """Go on as long as both have the same characters, white space aside."""
    best, best_within = place, within
    shift = 0 if step > 0 else -1
    while True:
        while 0 <= within + shift < len(item) and item[within + shift].isspace():
            within += step
        while 0 <= place + shift < len(text) and text[place + shift].isspace():
            place += step
        if not (0 <= within + shift < len(item) and 0 <= place + shift < len(text)):
            return best, best_within
        if item[within + shift] != text[place + shift]:
            return best, best_within
        place, within = place + step, within + step
        best, best_within = place, within


def _answer_end(text: str, end: int, items: EvaluationItems, item: int) -> int:
    """Return the character after the answer where it stands behind an item, else 0."""
    low, high = items.places.offsets[item : item + 2].tolist()
    wanted = items.places.hashes[low:high]
    if not len(wanted):
        return 0
    window = text[end : end + 200 + 2 * len(items.answers[item])]
    tokens = placed_tokens(pa.array([window], pa.string()))
    gap = SHORT_ANSWER_GAP if len(wanted) < SHORT_ANSWER else ANSWER_GAP
    for skipped in range(min(gap + 1, len(tokens.hashes))):
        here = tokens.hashes[skipped : skipped + len(wanted)]
        equal = here == wanted[: len(here)]
        if len(wanted) < SHORT_ANSWER:
            if len(here) == len(wanted) and equal.all():
                break
        elif equal[:2].all() and equal.sum() >= max(SHORT_ANSWER, 0.7 * len(here)):
            break
    else:
        return 0
    last = int(np.flatnonzero(equal)[-1])
    place = end + _characters(window, tokens.ends[[skipped + last]].astype(np.int64))[0]
    if last == len(wanted) - 1:
        answer = items.answers[item]
        within = _characters(answer, items.places.ends[[high - 1]].astype(np.int64))[0]
        place = _along(text, place, answer, within, 1)[0]
    return place

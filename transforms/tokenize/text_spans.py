"""Character spans of documents, applied to their text: removed, masked, trained with a weight.

Stages that find something inside a document (a repeated sentence, personal data, contamination)
write spans of the ingested text. Tokenizing and the export of documents apply them by the one
function here, so that both have the same text.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms.record import RecordError
from transforms.tokenize.runs import Run

Action: TypeAlias = Literal["remove", "mask", "loss"]

TEXT_SPAN_SCHEMA = pa.schema(
    [
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        # ``remove``, ``mask`` (put ``replacement`` in its place) or ``loss`` (train with ``weight``).
        pa.field("action", pa.string(), nullable=False),
        pa.field("replacement", pa.string()),
        pa.field("weight", pa.float32()),
    ]
)
"""Spans: half-open character offsets (code points) in the ingested text of a document."""


@dataclass(frozen=True, slots=True)
class LossSpan:
    """Characters of a text that are trained with a weight."""

    start: int
    end: int
    weight: float


@dataclass(frozen=True, slots=True)
class SpannedText:
    """A text column with its spans applied."""

    text: pa.StringArray
    """The texts without what was removed, with replacements in the place of what was masked."""
    loss: dict[int, list[LossSpan]]
    """Row -> what is trained of it, in characters of the new text, ascending and apart. Rows that
    are not there are trained throughout."""


def apply_spans(
    text: pa.StringArray, uids: npt.NDArray[np.int64], spans: pa.Table | None
) -> SpannedText:
    """Apply the spans of some documents to their texts.

    Removed characters win over masked ones. Masked spans that overlap or touch become one, with the
    replacement of the one that begins first. Loss spans of a document say all of what is trained of
    it: they move with the text, what is removed or replaced falls out of them, and where two
    overlap, the later one in (start, end, weight) order counts.

    Args:
        text: texts of n documents, as ingested.
        uids: their addresses, [n], each once.
        spans: columns of TEXT_SPAN_SCHEMA in any order; those of other documents are ignored. None
            for none.

    Returns:
        The texts; the argument itself where no span applies.

    Raises:
        RecordError: a span is empty, leaves its text, has an unknown action, or a loss span has no
            weight of 0 or more.
    """
    if spans is None or not len(spans):
        return SpannedText(text, {})
    mine = spans.filter(pc.is_in(spans["doc_uid"], value_set=pa.array(uids)))
    if not len(mine):
        return SpannedText(text, {})
    rows = sorted(mine.select(TEXT_SPAN_SCHEMA.names).to_pylist(), key=_order)
    places = {int(uid): place for place, uid in enumerate(uids)}
    changed: dict[int, str] = {}
    loss: dict[int, list[LossSpan]] = {}
    for uid, group in groupby(rows, key=itemgetter("doc_uid")):
        place = places[uid]
        old = text[place].as_py()
        found = list(group)
        for span in found:
            _check(span, len(old))
        edits = _edits(found)
        changed[place] = _edited(old, edits)
        trained = [span for span in found if span["action"] == "loss"]
        if trained:
            loss[place] = _moved(trained, edits)
    mask = np.zeros(len(text), np.bool_)
    mask[list(changed)] = True
    values = pa.array([changed[place] for place in sorted(changed)], text.type)
    return SpannedText(pc.replace_with_mask(text, pa.array(mask), values), loss)


def span_runs(text: str, loss: list[LossSpan]) -> list[Run]:
    """Return a text as runs that begin and end where its loss spans do.

    A token never reaches over the border of a span, so the spans are exact in tokens.
    """
    runs = []
    done = 0
    for span in loss:
        for start, end, weight in ((done, span.start, 0.0), (span.start, span.end, span.weight)):
            if start < end:
                runs.append(Run(text[start:end], weight=weight))
        done = span.end
    if done < len(text):
        runs.append(Run(text[done:]))
    return runs


def _order(span: dict[str, Any]) -> tuple[Any, ...]:
    """Return what spans are sorted by, so that the order of the table does not matter."""
    replacement, weight = span["replacement"] or "", span["weight"] or 0.0
    return span["doc_uid"], span["start"], span["end"], span["action"], replacement, weight


@dataclass(frozen=True, slots=True)
class _Edit:
    """Characters that give way to others."""

    start: int
    end: int
    replacement: str


def _check(span: dict[str, Any], length: int) -> None:
    where = f"document {span['doc_uid']}: span [{span['start']}, {span['end']})"
    if not 0 <= span["start"] < span["end"] <= length:
        raise RecordError(
            f"{where} is empty or leaves its text of {length} characters; "
            "run the stage that wrote it again"
        )
    if span["action"] not in ("remove", "mask", "loss"):
        raise RecordError(f"{where} has the action {span['action']!r}, not remove, mask or loss")
    weight = span["weight"]
    if span["action"] == "loss" and not (weight is not None and 0 <= weight < float("inf")):
        raise RecordError(f"{where} has the loss weight {weight}; give a number of 0 or more")


def _edits(spans: list[dict[str, Any]]) -> list[_Edit]:
    """Return what gives way to what, in order and apart."""
    removed = _joined((s["start"], s["end"], "") for s in spans if s["action"] == "remove")
    masked = _joined(
        (s["start"], s["end"], s["replacement"] or "") for s in spans if s["action"] == "mask"
    )
    edits = list(removed)
    for mask in masked:
        # What removals leave of a mask: its replacement stands for the first part.
        start, replacement = mask.start, mask.replacement
        for gap in removed:
            if gap.end <= start or gap.start >= mask.end:
                continue
            if start < gap.start:
                edits.append(_Edit(start, gap.start, replacement))
                replacement = ""
            start = gap.end
        if start < mask.end:
            edits.append(_Edit(start, mask.end, replacement))
    return sorted(edits, key=lambda edit: edit.start)


def _joined(spans: Iterator[tuple[int, int, str]]) -> list[_Edit]:
    """Join spans, sorted by start, that overlap or touch."""
    joined: list[_Edit] = []
    for start, end, replacement in spans:
        if joined and start <= joined[-1].end:
            last = joined[-1]
            joined[-1] = _Edit(last.start, max(last.end, end), last.replacement)
        else:
            joined.append(_Edit(start, end, replacement))
    return joined


def _edited(text: str, edits: list[_Edit]) -> str:
    parts = []
    done = 0
    for edit in edits:
        parts += [text[done : edit.start], edit.replacement]
        done = edit.end
    return "".join([*parts, text[done:]])


def _moved(spans: list[dict[str, Any]], edits: list[_Edit]) -> list[LossSpan]:
    """Return loss spans in characters of the edited text, without overlaps."""
    borders = sorted({x for s in spans for x in (s["start"], s["end"])})
    moved: list[LossSpan] = []
    for low, high in pairwise(borders):
        inside = [s for s in spans if s["start"] <= low and high <= s["end"]]
        weight = float(inside[-1]["weight"]) if inside else 0.0
        if not weight:
            continue
        for start, end in _kept(low, high, edits):
            if moved and moved[-1].end == start and moved[-1].weight == weight:
                moved[-1] = LossSpan(moved[-1].start, end, weight)
            else:
                moved.append(LossSpan(start, end, weight))
    return moved


def _kept(low: int, high: int, edits: list[_Edit]) -> Iterator[tuple[int, int]]:
    """Give the parts of [low, high) that edits leave, in characters of the edited text."""
    shift = 0
    for edit in edits:
        if edit.start >= high:
            break
        if edit.start > low:
            yield low + shift, edit.start + shift
        low = max(low, edit.end)
        shift += len(edit.replacement) - (edit.end - edit.start)
        if low >= high:
            return
    yield low + shift, high + shift

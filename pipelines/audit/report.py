"""What an audit of a removal of duplicates prints: counts, and the worst pairs with their texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.audit.dedup import Example, Verdict
from pipelines.audit.documents import AuditedFiles
from pipelines.audit.raw import RawInput

EXCERPT = 300
"""Characters that are shown of a text."""
_BEFORE = 60

_NAMED = 5
"""Documents of the output that are named when the input does not have them."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document of an example."""

    id: str | None
    path: str
    line: int
    text: str

    @property
    def name(self) -> str:
        """Its id, or where it is."""
        return self.id or f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class Pair:
    """An example with its documents."""

    similarity: float
    first: Document
    second: Document | None

    def excerpts(self) -> tuple[str, str]:
        """Return a passage of both texts, from a little before the place where they part."""
        one, two = self.first.text, self.second.text if self.second else ""
        parting = 0
        if self.second is not None:
            parting = next(
                (k for k, (a, b) in enumerate(zip(one, two, strict=False)) if a != b),
                min(len(one), len(two)),
            )
        start = max(0, parting - _BEFORE)
        return tuple(_passage(text, start) for text in (one, two))  # type: ignore[return-value]

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        sides = {}
        for name, document, excerpt in zip(
            ("a", "b"), (self.first, self.second), self.excerpts(), strict=True
        ):
            sides[name] = document and {
                "id": document.id,
                "path": document.path,
                "line": document.line,
                "excerpt": excerpt,
            }
        return {"similarity": self.similarity, **sides}


@dataclass(frozen=True, slots=True)
class AuditReport:
    """A verdict, with what it speaks of."""

    raw: RawInput
    output: AuditedFiles
    verdict: Verdict
    leaks: list[Pair]
    losses: list[Pair]
    unmatched: list[str]
    """Names of the first documents of the output that the input does not have."""

    @classmethod
    def of(cls, raw: RawInput, output: AuditedFiles, verdict: Verdict) -> "AuditReport":
        """Read the texts that the report shows."""
        examples = [*verdict.worst_leaks, *verdict.worst_losses]
        numbers = {n for e in examples for n in (e.first, e.second) if n is not None}
        where = {n: (int(raw.file[n]), int(raw.row[n])) for n in numbers}
        texts = read_documents(raw.files, list(where.values()))
        shown = {n: texts[place] for n, place in where.items()}

        def pairs(chosen: Sequence[Example]) -> list[Pair]:
            return [
                Pair(e.similarity, shown[e.first], None if e.second is None else shown[e.second])
                for e in chosen
            ]

        unknown = verdict.matching.unknown[: min(_NAMED, raw.settings.show)]
        names = _names(output, unknown.tolist())
        return cls(
            raw, output, verdict, pairs(verdict.worst_leaks), pairs(verdict.worst_losses), names
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        v, m, raw = self.verdict, self.verdict.matching, self.raw
        settings = raw.settings
        return {
            "clean": v.clean,
            "threshold": settings.threshold,
            "ngram": settings.ngram,
            "method": "exact",
            "input": {
                "files": len(raw.files.files),
                "documents": len(raw.documents),
                "without_text": int(raw.empty.sum()),
                "unreadable": raw.files.unreadable.count,
            },
            "kept": {
                "files": len(self.output.files),
                "documents": v.kept,
                "by_id": m.by_id,
                "by_text": m.by_text,
                "altered": len(m.altered),
                "unknown": len(m.unknown),
                "unknown_first": self.unmatched,
                "unreadable": self.output.unreadable.count,
            },
            "removed": v.removed,
            "leaked": {"documents": v.leaked, "pairs": v.leaked_pairs},
            "lost": {
                "documents": v.lost,
                "best_below": {f"{level:g}": n for level, n in v.lost_below.items()},
                "nothing_in_common": v.lost_alone,
            },
            "worst_leaks": [pair.to_json() for pair in self.leaks],
            "worst_losses": [pair.to_json() for pair in self.losses],
        }


def read_documents(
    files: AuditedFiles, places: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], Document]:
    """Return some documents by file and row; only their files are read."""
    wanted: dict[int, list[int]] = {}
    for file, row in places:
        wanted.setdefault(file, []).append(row)
    found = {}
    for block in files.blocks(only=np.array(list(wanted), np.int64)):
        for row in wanted[block.file]:
            k = row - block.row
            if 0 <= k < len(block.texts):
                found[block.file, row] = Document(
                    block.ids[k].as_py() or None,
                    files.files[block.file].relative,
                    int(block.lines[k]),
                    block.texts[k].as_py(),
                )
    return found


def _names(output: AuditedFiles, numbers: Sequence[int]) -> list[str]:
    """Return the names of documents of an output by their numbers, ascending."""
    names: list[str] = []
    seen = 0
    for block in output.blocks() if numbers else ():
        for number in numbers[len(names) :]:
            k = number - seen
            if k >= len(block.texts):
                break
            path = output.files[block.file].relative
            names.append(block.ids[k].as_py() or f"{path}:{block.lines[k]}")
        seen += len(block.texts)
        if len(names) == len(numbers):
            break
    return names


def _passage(text: str, start: int) -> str:
    end = start + EXCERPT
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")

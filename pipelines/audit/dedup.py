"""The verdict on a removal of duplicates: what the kept output leaked and lost of the raw input."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipelines.audit.documents import (
    AuditedFiles,
    Hashes128,
    Identities,
    IdentityList,
    refuse_unreadable,
)
from pipelines.audit.raw import HELD_VALUES, Mask, RawInput
from pipelines.audit.sets import Int64s
from transforms.candidates import chunks, distinct
from transforms.clusters import jaccards
from transforms.dedup_audit import candidates, make_index, most_similar, shared_by_many
from transforms.record import RecordError
from transforms.row_matching import match_rows
from transforms.shingles import ShingleSets

Floats = npt.NDArray[np.float64]

LEVELS = (0.9, 0.8, 0.7, 0.6, 0.5)
"""Lost documents are counted by whether anything kept is as similar as this."""

_INDEX_VALUES = 1 << 23
"""Values of an index that is held at a time."""
_RARE, _ANY = 64, 1 << 62
"""By n-grams of how many lost documents at most their like is looked for: first, and at last."""
_PROBE_VALUES = 1 << 16
"""Values that are looked up in it at a time; a few, since each may be in many sets."""


@dataclass(frozen=True, slots=True)
class Example:
    """Two documents of the input that speak against the output."""

    similarity: float
    first: int
    """A kept one of a leak; the removed one of a loss."""
    second: int | None
    """The other kept one; the kept one most like the removed one, None where none is alike."""


@dataclass(frozen=True, slots=True)
class Matching:
    """Which documents of the input are in the output."""

    kept: Mask
    """By document of the input."""
    by_id: int
    """Kept documents with text that were found by their ids."""
    by_text: int
    """Those that were found by their texts alone."""
    altered: Int64s
    """Documents of the output with the id of an input document but another text."""
    unknown: Int64s
    """Documents of the output that the input does not have, or has less often."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the output leaked and lost. Documents without text are not judged."""

    matching: Matching
    documents: int
    """Of the input, with text."""
    kept: int
    removed: int
    leaked: int
    """Kept documents that have a kept duplicate."""
    leaked_pairs: int
    lost: int
    """Removed documents of which no duplicate is kept."""
    lost_below: dict[float, int]
    """Those of which nothing kept is as similar as a level."""
    lost_alone: int
    """Those that share no n-gram with anything kept."""
    worst_leaks: list[Example]
    worst_losses: list[Example]

    @property
    def clean(self) -> bool:
        """Whether nothing leaked and nothing was lost."""
        return not self.leaked and not self.lost


def judge(
    raw: RawInput, output: AuditedFiles, progress: Callable[[str], None] = lambda _: None
) -> Verdict:
    """Compare an output with its input.

    Nothing is sampled: every pair at or above the threshold is found, and of every lost document
    the most similar kept one.

    Raises:
        RecordError: the output cannot be read, or is none of this input.
    """
    progress(f"reading {output.option}: {len(output.files)} files")
    matching = match(raw, output)
    progress(f"comparing {int(matching.kept.sum()):,} kept documents")
    return _Judge(raw, matching).verdict(progress)


def match(raw: RawInput, output: AuditedFiles) -> Matching:
    """Find the documents of an output in its input: by id and text, by id, by text.

    Raises:
        RecordError: records of the output are unreadable, or none of them is in the input.
    """
    found = IdentityList()
    for block in output.blocks():
        found.add(block)
    theirs, ours = found.finish(), raw.documents
    refuse_unreadable(output, len(theirs))
    if output.unreadable.count > raw.files.unreadable.count:
        raise RecordError(
            f"{output.option}: {output.unreadable.count} records cannot be read "
            f"({output.unreadable.first}); their documents would count as removed. Repair the files"
        )
    place = np.full(len(theirs), -1, np.int64)
    counts = []
    for keys in (_both, _ids, _texts):
        free = np.ones(len(ours), bool)
        free[place[place >= 0]] = False
        wanted = place < 0
        if keys is not _texts:
            free, wanted = free & ours.has_id, wanted & theirs.has_id
        new = match_rows(keys(ours), keys(theirs), free, wanted)
        place = np.where(new >= 0, new, place)
        # Documents without text are not judged, so they do not count as kept either.
        counts.append(int((~raw.empty[new[new >= 0]]).sum()))
        if keys is _ids:
            altered = np.flatnonzero(new >= 0)
    if (place < 0).all():
        raise RecordError(
            f"{output.option}: none of its {len(theirs):,} documents is in {raw.files.option}, by "
            "id or by text; give the input that it was made from"
        )
    kept = np.zeros(len(ours), bool)
    kept[place[place >= 0]] = True
    return Matching(kept, counts[0] + counts[1], counts[2], altered, np.flatnonzero(place < 0))


def _both(documents: Identities) -> Hashes128:
    return np.concatenate([documents.ids, documents.texts], axis=1)


def _ids(documents: Identities) -> Hashes128:
    return documents.ids


def _texts(documents: Identities) -> Hashes128:
    return documents.texts


class _Judge:
    """The comparison of one output with its input, group by group."""

    def __init__(self, raw: RawInput, matching: Matching) -> None:
        self._raw = raw
        self._matching = matching
        n = len(raw.sizes)
        self._is_kept = matching.kept & ~raw.empty
        self._is_removed = ~matching.kept & ~raw.empty
        self._kept = np.bincount(raw.group[self._is_kept], minlength=n)
        self._removed = np.bincount(raw.group[self._is_removed], minlength=n)
        self._justified: Mask = self._kept > 0
        """Groups of which a document is kept, or one as similar as the threshold."""
        self._leaky: Mask = self._kept > 1
        self._pairs = int((self._kept * (self._kept - 1) // 2).sum())
        self._leaks: list[tuple[float, int, int]] = []

    def verdict(self, progress: Callable[[str], None]) -> Verdict:
        self._equal_leaks()
        for first, second, similarity in self._similar_pairs():
            self._take(first, second, similarity)
        lost = np.flatnonzero((self._removed > 0) & ~self._justified)
        progress(f"looking for what is most like {len(lost):,} lost documents")
        best, like = self._most_similar(lost)
        weights = self._removed[lost]
        threshold = self._raw.settings.threshold
        return Verdict(
            matching=self._matching,
            documents=int((~self._raw.empty).sum()),
            kept=int(self._is_kept.sum()),
            removed=int(self._is_removed.sum()),
            leaked=int(self._kept[self._leaky].sum()),
            leaked_pairs=self._pairs,
            lost=int(weights.sum()),
            lost_below={
                level: int(weights[best < level].sum()) for level in LEVELS if level < threshold
            },
            lost_alone=int(weights[like < 0].sum()),
            worst_leaks=self._worst_leaks(),
            worst_losses=self._worst_losses(lost, best, like),
        )

    # Pairs at or above the threshold.

    def _similar_pairs(self) -> Iterator[tuple[Int64s, Int64s, Floats]]:
        """Yield pairs of groups, one of them kept at least, and their similarities."""
        kept = self._kept > 0
        seen = np.full(len(kept), -1, np.int64)
        for members, keys in self._raw.prefixes.blocks(np.flatnonzero(kept), _INDEX_VALUES):
            index = make_index(keys, members)
            others = (kept & (np.arange(len(kept)) > members[0])) | self._unjustified()
            for numbers, probes in self._raw.prefixes.blocks(np.flatnonzero(others), _PROBE_VALUES):
                yield from self._verified(
                    *candidates(
                        index,
                        probes,
                        numbers,
                        self._raw.sizes,
                        kept,
                        self._raw.settings.threshold,
                        seen,
                    )
                )

    def _unjustified(self) -> Mask:
        return (self._removed > 0) & ~self._justified

    def _verified(self, first: Int64s, second: Int64s) -> Iterator[tuple[Int64s, Int64s, Floats]]:
        local = np.empty(len(self._raw.sizes), np.int64)
        for low, high in chunks(first, second, self._raw.sizes, HELD_VALUES):
            one, two = first[low:high], second[low:high]
            groups = distinct(np.concatenate([one, two]))
            local[groups] = np.arange(len(groups))
            sets, threshold = self._raw.sets(groups), self._raw.settings.threshold
            similarity = jaccards(sets, local[one], local[two], threshold)
            near = similarity > 0
            yield one[near], two[near], similarity[near]

    def _take(self, first: Int64s, second: Int64s, similarity: Floats) -> None:
        """Count pairs whose first group is kept."""
        kept = self._kept[second] > 0
        self._justified[second[~kept]] = True
        first, second, similarity = first[kept], second[kept], similarity[kept]
        self._leaky[first] = self._leaky[second] = True
        self._pairs += int((self._kept[first] * self._kept[second]).sum())
        order = np.lexsort((second, first, -similarity))[: self._raw.settings.show]
        some = zip(similarity[order], first[order], second[order], strict=True)
        self._leaks += [(-float(s), int(a), int(b)) for s, a, b in some]
        self._leaks.sort()
        del self._leaks[self._raw.settings.show :]

    def _equal_leaks(self) -> None:
        """Begin the worst leaks with groups of which several documents are kept."""
        groups = np.flatnonzero(self._leaky)[: self._raw.settings.show].tolist()
        self._leaks = [(-1.0, group, group) for group in groups]

    # What is most like a lost document.

    def _most_similar(self, lost: Int64s) -> tuple[Floats, Int64s]:
        """Return the similarity of lost groups to the kept one most like each, and that one."""
        best, like = np.zeros(len(lost)), np.full(len(lost), -1, np.int64)
        low = 0
        for members, sets in self._blocks(lost, _INDEX_VALUES):
            part = slice(low, low + len(members))
            low += len(members)
            frequent = self._compare(sets, _RARE, best[part], like[part])
            # Something that shares frequent n-grams alone may be as similar to these.
            open_ = np.flatnonzero(
                (frequent > 0) & (best[part] <= frequent / np.maximum(sets.sizes, 1))
            )
            if len(open_):
                again, number = np.zeros(len(open_)), np.full(len(open_), -1, np.int64)
                self._compare(self._raw.sets(members[open_]), _ANY, again, number)
                best[part][open_], like[part][open_] = again, number
        return best, like

    def _compare(self, sets: ShingleSets, limit: int, best: Floats, like: Int64s) -> Int64s:
        """Compare lost sets with all kept ones; return how many frequent n-grams each has."""
        index = make_index(sets, np.arange(len(sets)))
        frequent = shared_by_many(index, len(sets), limit)
        for numbers, probes in self._blocks(np.flatnonzero(self._kept > 0), HELD_VALUES):
            most_similar(index, sets, frequent, limit, probes, numbers, best, like)
        return frequent

    def _blocks(self, groups: Int64s, limit: int) -> Iterator[tuple[Int64s, ShingleSets]]:
        ends = np.cumsum(self._raw.sizes[groups])
        low = 0
        while low < len(groups):
            before = int(ends[low - 1]) if low else 0
            high = max(low + 1, int(np.searchsorted(ends, before + limit, side="right")))
            yield groups[low:high], self._raw.sets(groups[low:high])
            low = high

    # Examples.

    def _worst_leaks(self) -> list[Example]:
        members = _members(self._raw.group, self._is_kept, [g for _, *p in self._leaks for g in p])
        return [
            Example(-s, members[a][0], members[b][1 if a == b else 0]) for s, a, b in self._leaks
        ]

    def _worst_losses(self, lost: Int64s, best: Floats, like: Int64s) -> list[Example]:
        order = np.lexsort((lost, -self._raw.sizes[lost], best))[: self._raw.settings.show]
        removed = _members(self._raw.group, self._is_removed, lost[order].tolist())
        kept = _members(self._raw.group, self._is_kept, like[order].tolist())
        return [
            Example(
                float(best[k]),
                removed[int(lost[k])][0],
                kept[int(like[k])][0] if like[k] >= 0 else None,
            )
            for k in order
        ]


def _members(group: Int64s, wanted: Mask, groups: list[int]) -> dict[int, list[int]]:
    """Return the first two wanted documents of some groups."""
    return {
        number: np.flatnonzero((group == number) & wanted)[:2].tolist()
        for number in dict.fromkeys(groups)
        if number >= 0
    }

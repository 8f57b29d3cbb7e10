"""Types for entities that have none, from the relations they stand in."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transforms.synthesis.graph import NO_TYPE
from transforms.synthesis.graph_tables import (
    NamedEntity,
    NamedRelation,
    named_well,
    numbered_types,
)
from transforms.synthesis.names import generic_word, singular, words_of

Facts = Mapping[str, npt.NDArray[np.int64]]

_LEAST_SHARE = 0.8
_LEAST_TYPED = 0.5
_LEAST_OVERLAP = 0.5
_LEAST_ALIKE = 0.5
_NO_NOUN_END = frozenset(["by", "in", "of", "at", "to", "for", "from", "with", "on", "as", "is"])
_VERBS = """is are was were has have had lives works born located married owns contains includes uses
causes affects produces treats performs measures precedes follows knows likes becomes"""


@dataclass(frozen=True, slots=True)
class _Role:
    relation: str
    side: int
    entities: npt.NDArray[np.int64]


def assign_types(
    entities: Mapping[str, NamedEntity], relations: Mapping[str, NamedRelation], facts: Facts
) -> dict[str, str]:
    """Give types to entities without any; the entities and the ranges of relations are changed.

    A relation's declared domain and range are types of its heads and tails. Where most of one side
    has a main type, the rest of it gets that type. What is left is named by the role it plays: the
    tails of ``genre`` are genres. In a graph without any types, roles that largely share their
    entities are one type.

    Args:
        entities: by id.
        relations: by id.
        facts: [facts, 2] places in ``entities``, by relation.

    Returns:
        Labels of the types that were made.
    """
    ours = list(entities.values())
    labels: dict[str, str] = {}
    if not any(one.types for one in ours) and not any(
        one.domain or one.range for one in relations.values()
    ):
        _cluster(ours, relations, facts, labels)
        return labels
    _declare(ours, relations, facts)
    _infer(ours, facts)
    _name_roles(ours, relations, facts, labels)
    return labels


def _untyped(ours: list[NamedEntity]) -> npt.NDArray[np.bool_]:
    return np.array([not one.types for one in ours], bool)


def _declare(ours: list[NamedEntity], relations: Mapping[str, NamedRelation], facts: Facts) -> None:
    """Give the declared domains and ranges to entities without types."""
    untyped = _untyped(ours)
    for name in sorted(facts):
        declared = (relations[name].domain, relations[name].range)
        for side, kind in enumerate(declared):
            if kind is None:
                continue
            places = np.unique(facts[name][:, side])
            for place in places[untyped[places]].tolist():
                if kind not in ours[place].types:
                    ours[place].types = (*ours[place].types, kind)


def _infer(ours: list[NamedEntity], facts: Facts) -> None:
    """Give entities that nothing names the type of most that stand where they stand."""
    names, starts, types = numbered_types(ours)
    main = named_well(starts, types, len(names))
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for relation in sorted(facts):
        for side in (0, 1):
            places = np.unique(facts[relation][:, side])
            known = main[places][main[places] != NO_TYPE]
            if not len(known) or len(known) < _LEAST_TYPED * len(places):
                continue
            counts = np.bincount(known)
            best = int(counts.argmax())
            if counts[best] >= _LEAST_SHARE * len(known):
                for place in places[main[places] == NO_TYPE].tolist():
                    votes[place][best] += 1
    for place, ballot in votes.items():
        best = min(ballot, key=lambda one: (-ballot[one], one))
        ours[place].types = (*ours[place].types, names[best])


def _name_roles(
    ours: list[NamedEntity],
    relations: Mapping[str, NamedRelation],
    facts: Facts,
    labels: dict[str, str],
) -> None:
    """Name the tails that are left by their relation, the heads by one type for all."""
    untyped = _untyped(ours)
    for name in sorted(facts):
        places = np.unique(facts[name][:, 1])
        left = places[untyped[places]]
        if not len(left):
            continue
        label = role_words(relations[name].label)
        if not label:
            continue
        role = _existing(ours, places[~untyped[places]], label) or f"role:{label}"
        if role.startswith("role:"):
            labels[role] = label
        for place in left.tolist():
            if role not in ours[place].types:
                ours[place].types = (*ours[place].types, role)
        if relations[name].range is None and len(left) >= _LEAST_SHARE * len(places):
            relations[name].range = role
    _rest(ours, relations, labels)


def _existing(ours: list[NamedEntity], typed: npt.NDArray[np.int64], label: str) -> str | None:
    """Return the type with some words that many tails of a relation have already."""
    counts = Counter(
        kind for place in typed.tolist() for kind in ours[place].types if words_of(kind) == label
    )
    best = min(counts, key=lambda one: (-counts[one], one), default=None)
    return best if best is not None and counts[best] >= _LEAST_ALIKE * len(typed) else None


def _rest(
    ours: list[NamedEntity], relations: Mapping[str, NamedRelation], labels: dict[str, str]
) -> None:
    word = generic_word(one.label for one in relations.values())
    for one in ours:
        if not one.types:
            one.types = ("entity",)
            labels["entity"] = word


def role_words(label: str) -> str:
    """Return the words of a relation that name one of its tails: of ``cast / actors`` an actor.

    A relation whose words are no noun, as far as their form tells, gives "".
    """
    words = label.rpartition(" / ")[2] or label
    if not _is_noun(words):
        return ""
    before, space, last = words.rpartition(" ")
    return f"{before}{space}{singular(last)}" if words.isascii() else words


def _is_noun(label: str) -> bool:
    """Return whether the words of a relation can name its tails, as far as their form tells."""
    words = label.lower().split()
    if not words or any(one.isdigit() for one in label):
        return False
    if not label.isascii():
        return True
    first, last = words[0], words[-1]
    verb = first in _VERBS.split() or (first.endswith("ed") and len(words) > 1)
    return not (verb or last in _NO_NOUN_END or last.endswith("ing"))


def _cluster(
    ours: list[NamedEntity],
    relations: Mapping[str, NamedRelation],
    facts: Facts,
    labels: dict[str, str],
) -> None:
    """Make types of roles: each role joins the largest one before it that holds half of it."""
    roles = [
        _Role(name, side, np.unique(facts[name][:, side]))
        for name in sorted(facts)
        for side in (0, 1)
    ]
    roles.sort(key=lambda one: (-len(one.entities), one.relation, one.side))
    leader_of = np.full(len(ours), -1, np.int64)
    clusters: list[list[_Role]] = []
    for role in roles:
        known = leader_of[role.entities]
        counts = np.bincount(known[known >= 0], minlength=1)
        best = int(counts.argmax())
        if counts[best] < _LEAST_OVERLAP * len(role.entities):
            best = len(clusters)
            clusters.append([])
        clusters[best].append(role)
        leader_of[role.entities[known < 0]] = best
    for cluster in clusters:
        places = np.unique(np.concatenate([role.entities for role in cluster]))
        # A role of some of them (director) is no name for all of them (people); nor is one that
        # they have for each other (neighbour).
        own = {role.relation for role in cluster if role.side == 0}
        tails = [
            role
            for role in cluster
            if role.side == 1
            and role.relation not in own
            and len(role.entities) >= _LEAST_SHARE * len(places)
        ]
        nouns = [role_words(relations[role.relation].label) for role in tails]
        nouns = [words for words in nouns if words]
        if not nouns:
            continue
        kind = f"role:{nouns[0]}"
        labels[kind] = nouns[0]
        for place in places.tolist():
            if kind not in ours[place].types:
                ours[place].types = (*ours[place].types, kind)
    _rest(ours, relations, labels)

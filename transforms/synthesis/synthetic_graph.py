"""A small typed graph made from a seed, with every kind of relation and value; for trials and tests.

Nothing in it is true of the world; all of it is complete, so that differences and counts are sound.
"""

import numpy as np

from transforms.record import mix64
from transforms.synthesis.graph import Graph
from transforms.synthesis.graph_tables import (
    NamedAttribute,
    NamedEntity,
    NamedRelation,
    places,
    tables_of,
)

_SYLLABLES = [
    "ba",
    "be",
    "bo",
    "da",
    "de",
    "do",
    "fa",
    "fi",
    "ga",
    "gu",
    "ka",
    "ki",
    "ko",
    "la",
    "le",
    "lo",
    "ma",
    "mi",
    "mo",
    "na",
    "ne",
    "no",
    "ra",
    "ri",
    "ro",
    "sa",
    "si",
    "ta",
    "te",
    "to",
    "va",
    "vi",
    "za",
]

# type, its label, entities per unit of size
_TYPES = (
    ("person", "person", 40),
    ("company", "company", 12),
    ("city", "city", 8),
    ("country", "country", 3),
    ("film", "film", 25),
    ("genre", "genre", 2),
    ("award", "award", 2),
)

# relation, label, head type, tail type, least and most tails of a head
_RELATIONS = (
    ("born_in", "place of birth", "person", "city", 1, 1),
    ("works_for", "employer", "person", "company", 0, 2),
    ("friend_of", "friend", "person", "person", 0, 4),
    ("won", "awards won", "person", "award", 0, 2),
    ("headquarters", "headquarters", "company", "city", 1, 1),
    ("owns", "owns", "company", "company", 0, 2),
    ("located_in", "country", "city", "country", 1, 1),
    ("twin_town", "twin towns", "city", "city", 0, 3),
    ("directed_by", "directed by", "film", "person", 1, 2),
    ("stars", "starring", "film", "person", 1, 5),
    ("has_genre", "genre", "film", "genre", 1, 2),
    ("produced_by", "production company", "film", "company", 0, 2),
    ("shown_in", "countries of release", "film", "country", 1, 4),
)

# attribute, label, type, kind, unit, lowest, highest
_ATTRIBUTES = (
    ("birth_date", "date of birth", "person", "date", "", 0, 25_000),
    ("height", "height", "person", "number", "cm", 150, 205),
    ("employees", "number of employees", "company", "number", "", 5, 90_000),
    ("population", "population", "city", "number", "", 2_000, 9_000_000),
    ("runtime", "running time", "film", "number", "minutes", 61, 240),
    ("released", "release date", "film", "date", "", 0, 25_000),
    ("motto", "motto", "company", "text", "", 0, 0),
)


def synthetic_graph(seed: int = 0, size: int = 10, name: str = "synthetic") -> Graph:
    """Make a graph of about ``92 * size`` entities.

    Args:
        seed: any integer; the same seed and size give the same graph.
        size: a multiple of every type's number of entities.
        name: the graph's name.
    """
    draw = _Numbers(seed)
    entities: dict[str, NamedEntity] = {}
    of_type: dict[str, list[str]] = {}
    for type_name, _, count in _TYPES:
        for place in range(count * size):
            entity = f"{type_name}/{place:06d}"
            types = ("agent", type_name) if type_name in ("person", "company") else (type_name,)
            entities[entity] = NamedEntity(_label(draw, place), types=types)
            of_type.setdefault(type_name, []).append(entity)
    _shorten(draw, entities)
    facts: dict[str, list[tuple[str, str]]] = {}
    for relation, _, head_type, tail_type, least, most in _RELATIONS:
        tails = of_type[tail_type]
        for head in of_type[head_type]:
            for _ in range(least + draw.below(most - least + 1)):
                # The square favours the first tails, as the degrees of real graphs are skewed.
                tail = tails[draw.below(len(tails)) * draw.below(len(tails)) // len(tails)]
                if tail != head:
                    facts.setdefault(relation, []).append((head, tail))
    twins = facts["twin_town"]
    facts["twin_town"] = twins + [(tail, head) for head, tail in twins]
    return Graph(
        name,
        tables_of(
            entities,
            {"agent": "agent", **{one: label for one, label, _ in _TYPES}},
            {
                one: NamedRelation(label, head, tail, complete=True)
                for one, label, head, tail, _, _ in _RELATIONS
            },
            {relation: places(entities, pairs) for relation, pairs in facts.items()},
            _attributes(draw, of_type),
        ),
    )


class _Numbers:
    """Numbers from a seed, one after the other."""

    def __init__(self, seed: int) -> None:
        self._seed, self._next, self._block = seed, 0, np.empty(0, np.uint64).tolist()

    def below(self, bound: int) -> int:
        if not self._block:
            places = np.arange(self._next, self._next + 4096, dtype=np.int64)
            self._next += 4096
            self._block = mix64(places, self._seed).tolist()
        return int(self._block.pop()) % bound


def _label(draw: _Numbers, place: int) -> str:
    """Make a label that no other place of the same type has: its last word spells the place."""
    first = "".join(_SYLLABLES[draw.below(len(_SYLLABLES))] for _ in range(2))
    second = _SYLLABLES[draw.below(len(_SYLLABLES))]
    while place:
        place, digit = divmod(place, len(_SYLLABLES))
        second += _SYLLABLES[digit]
    return f"{first.title()} {second.title()}"


def _shorten(draw: _Numbers, entities: dict[str, NamedEntity]) -> None:
    """Make labels of different types differ, and give some entities an alias that others share."""
    seen: set[str] = set()
    for entity, one in entities.items():
        while one.label.lower() in seen:
            one.label += _SYLLABLES[draw.below(len(_SYLLABLES))]
        seen.add(one.label.lower())
        if draw.below(4) == 0:
            one.aliases = (one.label.split()[0],)
        one.description = f"an invented {entity.partition('/')[0]}"


def _attributes(draw: _Numbers, of_type: dict[str, list[str]]) -> dict[str, NamedAttribute]:
    found: dict[str, NamedAttribute] = {}
    for attribute, label, type_name, kind, unit, low, high in _ATTRIBUTES:
        one = found[attribute] = NamedAttribute(label, kind, unit)  # type: ignore[arg-type]
        for entity in of_type[type_name]:
            if draw.below(8) == 0:
                continue
            number = low + draw.below(high - low + 1)
            if kind == "number":
                one.values[entity] = str(number), float(number)
            elif kind == "date":
                day = np.datetime64("1950-01-01") + number
                one.values[entity] = str(day), float("nan")
            else:
                words = " ".join(_label(draw, 0).lower() for _ in range(3))
                one.values[entity] = words, float("nan")
    return found

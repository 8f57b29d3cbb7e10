"""From named entities and facts to a graph: labels that differ, types, numbers."""

import re
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from transforms.ingest import Reject
from transforms.record import RecordError
from transforms.synthesis.graph import Graph
from transforms.synthesis.graph_raw import Place, RawGraph
from transforms.synthesis.graph_tables import (
    NamedAttribute,
    NamedEntity,
    NamedRelation,
    main_types_by_name,
    tables_of,
)
from transforms.synthesis.graph_types import assign_types
from transforms.synthesis.graph_values import VALUE
from transforms.synthesis.names import (
    clean,
    clean_names,
    generic_word,
    local_name,
    settle_labels,
    words_of,
)

COLLIDING = "colliding label"

_OPAQUE = re.compile(r"[a-z]{0,2}\d+")


@dataclass(slots=True)
class LoadedGraph:
    """A graph and what was said about it on the way.

    Attributes:
        graph: the normalized graph.
        rejects: input that is not in it, by file and line; the path is that within the input.
        counters: triples read, facts, repeated facts, values, renamed labels, ...
    """

    graph: Graph
    rejects: list[Reject]
    counters: dict[str, int]


@dataclass(slots=True)
class NamedGraph:
    """A graph by names, before labels, types and numbers are settled.

    Attributes:
        entities: by id.
        relations: by id.
        facts: [facts, 2] places in ``entities``, by relation id.
        attributes: by id.
        type_labels: words by type name, as far as given; others are made from the name.
        described_at: where entities are described, as far as known.
        rejects: what is not in the graph.
        counters: what was counted on the way.
        raw: what was read, where it came from triples.
    """

    entities: dict[str, NamedEntity]
    relations: dict[str, NamedRelation]
    facts: dict[str, npt.NDArray[np.int64]]
    attributes: dict[str, NamedAttribute] = field(default_factory=dict)
    type_labels: dict[str, str] = field(default_factory=dict)
    described_at: dict[str, Place] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    raw: RawGraph | None = None


def settle(named: NamedGraph, name: str, where: str) -> LoadedGraph:
    """Settle types and labels, and number everything.

    Args:
        named: is changed.
        name: the graph's name.
        where: where it comes from, for messages.

    Raises:
        RecordError: nothing usable is left.
    """
    made = assign_types(named.entities, named.relations, named.facts)
    kinds = {kind for one in named.entities.values() for kind in one.types}
    words = {kind: _type_words(kind, named.entities) for kind in sorted(kinds)}
    generic = generic_word(one.label for one in named.relations.values())
    words = {kind: generic if _OPAQUE.fullmatch(text) else text for kind, text in words.items()}
    labels = {**words, **made, **named.type_labels}
    for key, one in named.entities.items():
        one.label = one.label or local_name(key)
        clean_names(one)
    weight = Counter[str]()
    ids = list(named.entities)
    for pairs in named.facts.values():
        for place, count in zip(*np.unique(pairs, return_counts=True), strict=True):
            weight[ids[place]] += int(count)
    main = main_types_by_name(named.entities)
    changed, lost = settle_labels(
        named.entities, lambda key: labels.get(main.get(key, ""), ""), weight
    )
    dropped = _drop(named, lost)
    if not any(map(len, named.facts.values())) and not named.attributes:
        raise RecordError(
            f"{where}: no fact is left of {named.counters.get('triples', 0)} triples; "
            f"{_first(named.rejects)}"
        )
    tables = tables_of(named.entities, labels, named.relations, named.facts, named.attributes)
    counters = {
        **named.counters,
        "entities": len(tables.entity_ids),
        "facts": len(tables.relation),
        "values": len(tables.attribute),
        "labels changed": changed,
        "entities without a name of their own": len(lost),
        "facts of entities without a name of their own": dropped,
        "rejects": len(named.rejects),
    }
    return LoadedGraph(Graph(name, tables), named.rejects, counters)


def _type_words(kind: str, entities: dict[str, NamedEntity]) -> str:
    """Return the words of a type; one that is an entity itself has that one's label."""
    one = entities.get(kind)
    return clean(one.label) if one is not None and clean(one.label) else words_of(kind)


def _drop(named: NamedGraph, lost: list[tuple[str, str]]) -> int:
    """Take entities out of a graph, with their facts and values; return how many these were."""
    if not lost:
        return 0
    gone = {key for key, _ in lost}
    found = dict(named.described_at)
    if named.raw is not None:
        # An entity that was a literal is named by its text.
        texts = {key.removeprefix(VALUE): key for key in gone}
        places = named.raw.first_places({*gone, *texts})
        found = {texts.get(name, name): place for name, place in places.items()} | places
    for key, why in lost:
        place = found.get(key)
        path, line = (place.file, place.line) if place else ("", None)
        named.rejects.append(Reject(line, COLLIDING, f"{key}: {why}", path))
    keep = np.array([key not in gone for key in named.entities], bool)
    renumbered = np.cumsum(keep) - 1
    dropped = 0
    for relation, pairs in named.facts.items():
        good = keep[pairs].all(axis=1)
        dropped += int((~good).sum())
        named.facts[relation] = renumbered[pairs[good]]
        if not good.all():
            # Not all that is true is left.
            named.relations[relation].complete = False
    for attribute in named.attributes.values():
        for key in gone & attribute.values.keys():
            del attribute.values[key]
            dropped += 1
    named.entities = {key: one for key, one in named.entities.items() if key not in gone}
    return dropped


def _first(rejects: list[Reject]) -> str:
    if not rejects:
        return "see that triples have a head, a relation and a tail"
    one = rejects[0]
    return f"the first of {len(rejects)} rejects: {one.path}, line {one.line}: {one.reason}, {one.detail}"

"""From the files of a graph to a graph: what is dropped and why, what is inferred, what is renamed."""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from transforms.ingest import Reject
from transforms.record import RecordError
from transforms.synthesis.graph import Graph
from transforms.synthesis.graph_raw import ENTITY, LITERAL, UNSAID, Place, RawGraph, read_raw
from transforms.synthesis.graph_tables import (
    NamedAttribute,
    NamedEntity,
    NamedRelation,
    main_types_by_name,
    tables_of,
)
from transforms.synthesis.graph_terms import take_terms, wider_types
from transforms.synthesis.graph_types import assign_types
from transforms.synthesis.graph_values import VALUE, Literals, Valued, take_literals
from transforms.synthesis.names import (
    clean,
    clean_names,
    generic_word,
    local_name,
    settle_labels,
    words_of,
)

DANGLING = "dangling entity"
UNKNOWN_RELATION = "unknown relation type"
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


def load_graph(
    path: Path, *, name: str | None = None, lang: str = "en", closed_world: bool = False
) -> LoadedGraph:
    """Read and normalize a graph.

    Args:
        path: a file of triples or a folder (``transforms.synthesis.graph_reading``).
        name: the graph's name; default: the file's or folder's.
        lang: which language's texts to take where the input marks languages.
        closed_world: whether what the graph does not say is false; then every relation is complete.

    Raises:
        RecordError: there is no graph, a Parquet file cannot be read, or nothing usable is left.
    """
    raw = read_raw(path, lang)
    named = judge(raw)
    if closed_world:
        for one in named.relations.values():
            one.complete = True
    return settle(named, name or path.name.partition(".")[0], str(path))


def judge(raw: RawGraph) -> NamedGraph:
    """Sort triples into facts, values and rejects."""
    entities = dict(raw.entities or {})
    used = take_terms(raw, entities)
    wider, cyclic = wider_types(raw, entities)
    for one in entities.values():
        above = {up for kind in one.types for up in wider.get(kind, ())}
        one.types = (*one.types, *sorted(above - set(one.types)))
    left = ~used
    left[[triple for triple in cyclic if triple >= 0]] = False
    left &= _known_relations(raw, left)
    is_entity = _entity_names(raw, entities, left)
    left &= _grounded(raw, left, is_entity)
    fact = left & is_entity[raw.tail] & (raw.said != LITERAL)
    for code in np.unique(np.concatenate([raw.head[left], raw.tail[fact]])).tolist():
        entities.setdefault(raw.names[code], NamedEntity(""))
    relations = _relations(raw)
    named = NamedGraph(entities, relations, {}, {}, raw.type_labels, raw.described_at, raw.rejects)
    valued = take_literals(
        _literal_groups(raw, left & ~fact, fact),
        {name: one.label for name, one in relations.items()},
        entities,
    )
    for key, one in valued.entities.items():
        entities.setdefault(key, one)
    named.attributes = valued.attributes
    named.facts = _facts(raw, fact, valued, entities)
    named.raw = raw
    named.counters = {
        "triples": len(raw.head),
        "literals not used": valued.unused.total(),
        "entities made of literals": len(valued.entities),
    }
    return named


def _relations(raw: RawGraph) -> dict[str, NamedRelation]:
    found: dict[str, NamedRelation] = {}
    for name in sorted(raw.relation_names):
        one = (raw.relations or {}).get(name) or NamedRelation("")
        told = raw.told.get(name, NamedRelation(""))
        found[name] = NamedRelation(
            one.label or told.label or words_of(name),
            one.domain or told.domain,
            one.range or told.range,
            told.functional if one.functional is None else one.functional,
            one.complete,
        )
    return found


def _known_relations(raw: RawGraph, left: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return which triples are of a relation that is described, where relations are described."""
    if raw.relations is None:
        return np.ones(len(left), bool)
    known = np.array([name in raw.relations for name in raw.relation_names] + [True], bool)
    good: npt.NDArray[np.bool_] = known[raw.relation]
    for triple in np.flatnonzero(left & ~good).tolist():
        relation = raw.relation_names[raw.relation[triple]]
        raw.reject(raw.place(triple), UNKNOWN_RELATION, f"{relation!r} is not in relations")
    return good


def _entity_names(
    raw: RawGraph, entities: dict[str, NamedEntity], left: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return, by place in ``raw.names``, which names are entities."""
    if raw.entities is not None:
        return np.array([*(name in entities for name in raw.names), False], bool)
    is_entity = np.zeros(len(raw.names) + 1, bool)
    is_entity[raw.head[left]] = True
    is_entity[raw.tail[left & (raw.said == ENTITY)]] = True
    return is_entity


def _grounded(
    raw: RawGraph, left: npt.NDArray[np.bool_], is_entity: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return which triples name no entity that is missing.

    Where it is not said whether a tail is an entity, it is one that is missing if most tails of its
    relation are entities that are described, and a literal otherwise.
    """
    if raw.entities is None:
        return np.ones(len(left), bool)
    known = is_entity[raw.tail]
    unsaid = left & (raw.said == UNSAID)
    count = len(raw.relation_names)
    named = np.bincount(raw.relation[unsaid & known], minlength=count)
    asked = np.bincount(raw.relation[unsaid], minlength=count)
    meant = (raw.said == ENTITY) | ((raw.said == UNSAID) & (2 * named > asked)[raw.relation])
    bad_head = left & ~is_entity[raw.head]
    bad_tail = left & meant & ~known
    for triple in np.flatnonzero(bad_head | bad_tail).tolist():
        side = "head" if bad_head[triple] else "tail"
        code = raw.head[triple] if bad_head[triple] else raw.tail[triple]
        raw.reject(raw.place(triple), DANGLING, f"{side} {raw.names[code]!r} is not in entities")
    grounded: npt.NDArray[np.bool_] = ~(bad_head | bad_tail)
    return grounded


def _literal_groups(
    raw: RawGraph, literal: npt.NDArray[np.bool_], fact: npt.NDArray[np.bool_]
) -> list[Literals]:
    entity_tails = np.bincount(raw.relation[fact], minlength=len(raw.relation_names))
    rows: dict[int, list[int]] = defaultdict(list)
    for triple in np.flatnonzero(literal).tolist():
        rows[int(raw.relation[triple])].append(triple)
    groups = [
        Literals(
            raw.relation_names[relation],
            [raw.names[one] for one in raw.head[triples].tolist()],
            [raw.names[one] for one in raw.tail[triples].tolist()],
            raw.entities is not None or bool((raw.said[triples] == LITERAL).any()),
            int(entity_tails[relation]),
        )
        for relation, triples in rows.items()
    ]
    return sorted(groups, key=lambda one: one.relation)


def _facts(
    raw: RawGraph,
    fact: npt.NDArray[np.bool_],
    valued: Valued,
    entities: dict[str, NamedEntity],
) -> dict[str, npt.NDArray[np.int64]]:
    number = {name: place for place, name in enumerate(entities)}
    place = np.array([number.get(name, -1) for name in raw.names] + [-1], np.int64)
    triples = np.flatnonzero(fact)
    order = triples[np.argsort(raw.relation[triples], kind="stable")]
    bounds = np.searchsorted(raw.relation[order], np.arange(len(raw.relation_names) + 1))
    found: dict[str, npt.NDArray[np.int64]] = {}
    for relation, name in enumerate(raw.relation_names):
        ours = order[bounds[relation] : bounds[relation + 1]]
        made = [(number[head], number[tail]) for head, tail in valued.facts.get(name, ())]
        given = np.stack([place[raw.head[ours]], place[raw.tail[ours]]], axis=1)
        found[name] = np.concatenate([given, np.array(made, np.int64).reshape(-1, 2)])
    return {name: pairs for name, pairs in sorted(found.items()) if len(pairs)}


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

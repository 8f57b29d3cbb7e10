"""From the files of a graph to a graph: which triples are facts, values and rejects."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import numpy.typing as npt

from transforms.synthesis.graph_raw import ENTITY, LITERAL, UNSAID, RawGraph, read_raw
from transforms.synthesis.graph_settle import LoadedGraph, NamedGraph, settle
from transforms.synthesis.graph_tables import NamedEntity, NamedRelation
from transforms.synthesis.graph_terms import take_terms, wider_types
from transforms.synthesis.graph_values import Literals, Valued, take_literals
from transforms.synthesis.names import words_of

DANGLING = "dangling entity"
UNKNOWN_RELATION = "unknown relation type"


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

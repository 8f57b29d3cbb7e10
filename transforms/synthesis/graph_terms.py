"""Relations that describe rather than relate: labels, types, wider types, as RDF writes them."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from transforms.synthesis.graph_raw import RawGraph, Wider
from transforms.synthesis.graph_tables import NamedEntity, NamedRelation

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_OWL = "http://www.w3.org/2002/07/owl#"
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_SCHEMA = ("http://schema.org/", "https://schema.org/")

_TERMS: dict[str, str] = {
    _RDF + "type": "type",
    "rdf:type": "type",
    _RDFS + "label": "label",
    "rdfs:label": "label",
    _SKOS + "prefLabel": "label",
    "http://xmlns.com/foaf/0.1/name": "label",
    _SKOS + "altLabel": "alias",
    _RDFS + "comment": "description",
    _SKOS + "definition": "description",
    "http://purl.org/dc/terms/description": "description",
    "http://purl.org/dc/elements/1.1/description": "description",
    _RDFS + "subClassOf": "wider",
    "rdfs:subClassOf": "wider",
    _RDFS + "domain": "domain",
    _RDFS + "range": "range",
    _RDFS + "subPropertyOf": "skip",
    _OWL + "inverseOf": "skip",
    **{one + "name": "label" for one in _SCHEMA},
    **{one + "alternateName": "alias" for one in _SCHEMA},
    **{one + "description": "description" for one in _SCHEMA},
}
_FUNCTIONAL = _OWL + "FunctionalProperty"
_META = (_RDF, _RDFS, _OWL)
_WIDER_WORDS = ("subclassof", "subtypeof")

CYCLIC = "cyclic type"


def _is_wider(relation: str) -> bool:
    """Return whether the tails of a relation are wider types of its heads, by its last word."""
    end = relation.replace("#", "/").replace(":", "/").rpartition("/")[2]
    return "".join(filter(str.isalpha, end.lower())) in _WIDER_WORDS


def take_terms(raw: RawGraph, entities: dict[str, NamedEntity]) -> npt.NDArray[np.bool_]:
    """Apply the triples that describe, to ``raw`` and to ``entities``.

    Args:
        raw: what was read; its relations, type labels and parents are added to.
        entities: what is described so far; entities that have a type are added where no file
            describes entities.

    Returns:
        [triples] whether a triple is used up and is no fact.
    """
    terms = [_TERMS.get(name) for name in raw.relation_names]
    wide = [
        term == "wider" or _is_wider(name)
        for term, name in zip(terms, raw.relation_names, strict=True)
    ]
    classes = _classes(raw, terms)
    relations = set(raw.relation_names)
    used = _marked(raw, [term is not None for term in terms])
    for triple in np.flatnonzero(used | _marked(raw, wide)).tolist():
        head, tail = raw.names[raw.head[triple]], raw.names[raw.tail[triple]]
        term = terms[raw.relation[triple]] or "wider"
        if term == "wider":
            raw.parents.append(Wider(head, tail, raw.place(triple), triple))
        elif head in relations or term in ("domain", "range") or tail == _FUNCTIONAL:
            _describe_relation(raw, head, term, tail)
        elif head in classes and term != "type":
            if term == "label":
                raw.type_labels.setdefault(head, tail)
        elif term != "skip" and not (term == "type" and tail.startswith(_META)):
            _describe(raw, entities, head, term, tail)
    return used


def _marked(raw: RawGraph, relations: list[bool]) -> npt.NDArray[np.bool_]:
    """Return which triples are of some relations."""
    return np.array([*relations, False], bool)[raw.relation]


def wider_types(
    raw: RawGraph, entities: dict[str, NamedEntity]
) -> tuple[dict[str, list[str]], list[int]]:
    """Work out the wider types of each type; what closes a cycle is rejected and left out.

    An entity may be a type itself; its types then must not lead back to it, but are not those of
    its own entities.

    Returns:
        All wider types by type, and the triples that were rejected.
    """
    wider: dict[str, set[str]] = defaultdict(set)
    lost: list[int] = []
    for one in raw.parents:
        if trail := _trail(wider, one.wider, one.type):
            raw.reject(one.place, CYCLIC, " is a ".join((one.type, *trail)))
            lost.append(one.triple)
        else:
            wider[one.type].add(one.wider)
    above = {name: set(ours) for name, ours in wider.items()}
    names = {name for one in entities.values() for name in one.types}
    for name in entities:
        if name not in names:
            continue
        kept = []
        for kind in entities[name].types:
            trail = _trail(above, kind, name)
            if trail and name in raw.described_at:
                raw.reject(raw.described_at[name], CYCLIC, " is a ".join((name, *trail)))
            elif not trail:
                above.setdefault(name, set()).add(kind)
                kept.append(kind)
        entities[name].types = tuple(kept)
    return {name: _all_above(wider, name) for name in sorted(wider)}, lost


def _trail(wider: Mapping[str, set[str]], start: str, end: str) -> list[str]:
    """Return a way from one type up to another, both included; [] where there is none."""
    before = {start: ""}
    waiting = [start]
    while waiting:
        one = waiting.pop()
        if one == end:
            trail = [end]
            while before[trail[-1]]:
                trail.append(before[trail[-1]])
            return trail[::-1]
        for above in sorted(wider.get(one, ())):
            if above not in before:
                before[above] = one
                waiting.append(above)
    return []


def _all_above(wider: Mapping[str, set[str]], name: str) -> list[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = wider.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(sorted(new))
    return sorted(found)


def _classes(raw: RawGraph, terms: list[str | None]) -> set[str]:
    found: set[str] = set()
    for place, term in enumerate(terms):
        if term in ("type", "wider", "domain", "range"):
            ours = raw.relation == place
            found.update(raw.names[one] for one in np.unique(raw.tail[ours]).tolist())
            if term == "wider":
                found.update(raw.names[one] for one in np.unique(raw.head[ours]).tolist())
    return found


def _describe_relation(raw: RawGraph, name: str, term: str, tail: str) -> None:
    one = raw.told.setdefault(name, NamedRelation(""))
    if term == "label":
        one.label = one.label or tail
    elif term == "domain":
        one.domain = one.domain or tail
    elif term == "range" and not tail.startswith("http://www.w3.org/2001/XMLSchema#"):
        one.range = one.range or tail
    elif tail == _FUNCTIONAL:
        one.functional = True


def _describe(
    raw: RawGraph, entities: dict[str, NamedEntity], name: str, term: str, tail: str
) -> None:
    one = entities.get(name)
    if one is None:
        if raw.entities is not None:
            return
        one = entities[name] = NamedEntity("")
    if term == "label":
        if one.label and one.label != tail:
            one.aliases = (*one.aliases, tail)
        one.label = one.label or tail
    elif term == "alias":
        one.aliases = (*one.aliases, tail)
    elif term == "description":
        one.description = one.description or tail
    elif term == "type" and tail not in one.types:
        one.types = (*one.types, tail)

"""From named facts to the tables of a graph: numbering, cardinalities, main types."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from transforms.synthesis.graph import (
    NO_TYPE,
    Attribute,
    Floats,
    GraphTables,
    Ints,
    Kind,
    Relation,
)

LEAST_FUNCTIONAL = 8
"""Heads from which a relation without a second tail counts as functional when nothing says so."""

_LEAST_COVER = 0.95
_LEAST_NEW = 0.9
_LEAST_MOST = 0.75
_LEAST_NAMED = 0.1


@dataclass(slots=True)
class NamedEntity:
    """An entity before it has a number: its words and the names of its types, the first the best."""

    label: str
    aliases: tuple[str, ...] = ()
    description: str = ""
    types: tuple[str, ...] = ()


@dataclass(slots=True)
class NamedRelation:
    """What is declared of a relation; None where it follows from the facts."""

    label: str
    domain: str | None = None
    range: str | None = None
    functional: bool | None = None
    complete: bool = False


@dataclass(slots=True)
class NamedAttribute:
    """An attribute and its values by entity id: text, and the number where it is one."""

    label: str
    kind: Kind
    unit: str = ""
    values: dict[str, tuple[str, float]] = field(default_factory=dict)


def tables_of(
    entities: Mapping[str, NamedEntity],
    type_labels: Mapping[str, str],
    relations: Mapping[str, NamedRelation],
    facts: Mapping[str, npt.NDArray[np.int64]],
    attributes: Mapping[str, NamedAttribute],
) -> GraphTables:
    """Number everything and work out what follows from the facts.

    Args:
        entities: by id; their labels differ.
        type_labels: words by type name; every type of an entity is in it.
        relations: by id.
        facts: [facts, 2] by relation id: head and tail as places in ``entities``; repeated facts
            count once.
        attributes: by id.

    Returns:
        The tables; relations and attributes without facts, types without entities are left out.
    """
    ids = sorted(entities)
    number = {name: place for place, name in enumerate(ids)}
    ours = [entities[name] for name in ids]
    used, starts, types = numbered_types(ours)
    type_number = {name: place for place, name in enumerate(used)}
    main = main_types(starts, types, len(used))

    names = sorted(name for name in relations if len(facts.get(name, ())))
    renumbered = np.array([number[name] for name in entities], np.int64)
    pairs = [_pairs(renumbered[facts[name]]) for name in names]
    members = _Members(starts, types, len(used), main)
    done = [
        _relation(name, relations[name], heads, tails, type_number, members)
        for name, (heads, tails) in zip(names, pairs, strict=True)
    ]
    kept = sorted(name for name in attributes if attributes[name].values)
    described, columns = _attributes(kept, attributes, number, members)
    return GraphTables(
        entity_ids=ids,
        labels=[one.label for one in ours],
        aliases=[one.aliases for one in ours],
        descriptions=[one.description for one in ours],
        main_types=main,
        type_starts=starts,
        type_numbers=types,
        type_names=used,
        type_labels=[type_labels[name] for name in used],
        relations=done,
        attributes=described,
        relation=np.repeat(
            np.arange(len(names), dtype=np.int32), [len(heads) for heads, _ in pairs]
        ),
        head=np.concatenate([_NO_INTS, *(heads for heads, _ in pairs)]),
        tail=np.concatenate([_NO_INTS, *(tails for _, tails in pairs)]),
        attribute=columns[0],
        holder=columns[1],
        number=columns[2],
        text=columns[3],
    )


_NO_INTS: Ints = np.empty(0, np.int32)


def _pairs(facts: npt.NDArray[np.int64]) -> tuple[Ints, Ints]:
    """Return the distinct facts, sorted by head and tail."""
    keys = np.unique((facts[:, 0] << 32) | facts[:, 1])
    return (keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32)


def places(
    entities: Mapping[str, NamedEntity], facts: Sequence[tuple[str, str]]
) -> npt.NDArray[np.int64]:
    """Return facts between ids as places in ``entities``, shape [facts, 2]."""
    number = {name: place for place, name in enumerate(entities)}
    return np.array([(number[head], number[tail]) for head, tail in facts], np.int64)


class _Members:
    """Which types a set of entities shares."""

    def __init__(self, starts: Ints, types: Ints, count: int, main: Ints) -> None:
        self._starts, self._types, self._main = starts, types, main
        self._sizes = np.bincount(types, minlength=count)

    def cover(self, entities: Ints) -> int:
        """Return the type that names some entities best; -1 where none does.

        That is the main type of nearly all of them; else the smallest type that nearly all have;
        else the main type of most of them.
        """
        found = np.unique(entities)
        if not len(found) or not len(self._sizes):
            return NO_TYPE
        main = np.bincount(self._main[found] + 1, minlength=len(self._sizes) + 1)[1:]
        best = int(main.argmax())
        if main[best] >= _LEAST_COVER * len(found):
            return best
        lengths = (self._starts[1:] - self._starts[:-1])[found]
        ends = np.cumsum(lengths)
        inside = np.arange(int(lengths.sum())) - np.repeat(ends - lengths, lengths)
        theirs = self._types[np.repeat(self._starts[found], lengths) + inside]
        counts = np.bincount(theirs, minlength=len(self._sizes))
        good = np.flatnonzero(counts >= _LEAST_COVER * len(found))
        if len(good):
            return int(good[np.lexsort((good, self._sizes[good]))[0]])
        return best if main[best] >= _LEAST_MOST * len(found) else NO_TYPE


def _relation(
    name: str,
    declared: NamedRelation,
    heads: Ints,
    tails: Ints,
    type_number: Mapping[str, int],
    members: _Members,
) -> Relation:
    functional = _single(heads) if declared.functional is None else declared.functional
    functional = functional and len(np.unique(heads)) == len(heads)
    keys = (heads.astype(np.int64) << 32) | tails
    turned = (tails.astype(np.int64) << 32) | heads
    return Relation(
        id=name,
        label=declared.label,
        domain=_declared(declared.domain, type_number, heads, members),
        range=_declared(declared.range, type_number, tails, members),
        functional=functional,
        inverse_functional=_single(tails),
        complete=declared.complete or functional,
        declared_complete=declared.complete,
        symmetric=bool(np.isin(turned, keys).all()),
        n_facts=len(heads),
    )


def _single(sources: Ints) -> bool:
    return len(sources) >= LEAST_FUNCTIONAL and len(np.unique(sources)) == len(sources)


def _declared(
    name: str | None, type_number: Mapping[str, int], entities: Ints, members: _Members
) -> int:
    if name is not None and name in type_number:
        return type_number[name]
    return members.cover(entities)


def _attributes(
    names: Sequence[str],
    attributes: Mapping[str, NamedAttribute],
    number: Mapping[str, int],
    members: _Members,
) -> tuple[list[Attribute], tuple[Ints, Ints, Floats, list[str]]]:
    described: list[Attribute] = []
    holders: list[Ints] = []
    numbers: list[float] = []
    texts: list[str] = []
    for name in names:
        one = attributes[name]
        rows = sorted((number[entity], value) for entity, value in one.values.items())
        ours = np.array([entity for entity, _ in rows], np.int32)
        holders.append(ours)
        texts.extend(text for _, (text, _) in rows)
        numbers.extend(value for _, (_, value) in rows)
        domain = members.cover(ours)
        described.append(Attribute(name, one.label, one.kind, domain, one.unit, len(rows)))
    attribute = np.repeat(np.arange(len(names), dtype=np.int32), [len(one) for one in holders])
    return described, (
        attribute,
        np.concatenate([_NO_INTS, *holders]),
        np.array(numbers, np.float64),
        texts,
    )


def numbered_types(entities: Sequence[NamedEntity]) -> tuple[list[str], Ints, Ints]:
    """Return the names of all types, sorted, and the CSR of each entity's type numbers."""
    names = sorted({name for one in entities for name in one.types})
    number = {name: place for place, name in enumerate(names)}
    rows = [sorted({number[name] for name in one.types}) for one in entities]
    starts = np.append(0, np.cumsum([len(row) for row in rows])).astype(np.int32)
    return names, starts, np.array([one for row in rows for one in row], np.int32)


def main_types_by_name(entities: Mapping[str, NamedEntity]) -> dict[str, str]:
    """Return the main type of each entity that has types, by id."""
    names, starts, types = numbered_types(list(entities.values()))
    main = main_types(starts, types, len(names)).tolist()
    return {key: names[one] for key, one in zip(entities, main, strict=True) if one != NO_TYPE}


def main_types(starts: Ints, types: Ints, count: int) -> Ints:
    """Choose the type that names each entity best, shape [entities], int32; -1 without types.

    Types cut across each other: a topic, a celebrity, an actor, a person. The largest types that
    hardly overlap those chosen before (person, film, location, organization) name most entities;
    the others are named by the type that has the largest share of its members among them.

    Args:
        starts: bounds of the types of each entity, one more than entities.
        types: numbers of the types, entity by entity.
        count: number of types.
    """
    entities = len(starts) - 1
    owner = np.repeat(np.arange(entities), np.diff(starts))
    order = np.argsort(types, kind="stable")
    bounds = np.searchsorted(types[order], np.arange(count + 1))
    members = [owner[order[bounds[one] : bounds[one + 1]]] for one in range(count)]
    main = _largest(members, entities)
    share = _shares(members, main)
    left = np.flatnonzero(main[owner] == NO_TYPE)
    best = left[np.lexsort((types[left], -share[types[left]], owner[left]))]
    first = np.unique(owner[best], return_index=True)
    main[first[0]] = types[best[first[1]]]
    return main


def named_well(starts: Ints, types: Ints, count: int) -> Ints:
    """Return :func:`main_types`, but -1 where the main type says next to nothing (a topic)."""
    main = main_types(starts, types, count)
    sizes = np.bincount(types, minlength=count)
    named = np.bincount(main[main != NO_TYPE], minlength=count)
    vague = named < _LEAST_NAMED * sizes
    main[(main != NO_TYPE) & vague[main]] = NO_TYPE
    return main


def _largest(members: Sequence[npt.NDArray[np.int64]], entities: int) -> Ints:
    """Give each entity the largest of its types that hardly overlap larger ones; -1 without."""
    main = np.full(entities, NO_TYPE, np.int32)
    for one in sorted(range(len(members)), key=lambda one: (-len(members[one]), one)):
        free = members[one][main[members[one]] == NO_TYPE]
        if len(free) >= _LEAST_NEW * len(members[one]):
            main[free] = one
    return main


def _shares(members: Sequence[npt.NDArray[np.int64]], main: Ints) -> Floats:
    """Return the share of each type's members that have no name yet."""
    return np.array([float(np.mean(main[one] == NO_TYPE)) if len(one) else 0.0 for one in members])

"""Plans: what a question asks for, as a tree of set operations over a knowledge graph.

The fourteen patterns are those of query answering over knowledge graphs (Ren, Leskovec, "Beta
embeddings for multi-hop logical reasoning in knowledge graphs", NeurIPS 2020, section 4), with
negation as a difference from a sibling set and never as a complement. A plan is written with the
numbers of a graph's entities, relations and attributes; :func:`canonical` writes it with their ids.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

FOURTEEN = ("1p", "2p", "3p", "2i", "3i", "ip", "pi", "2u", "up", "2in", "3in", "inp", "pin", "pni")
"""The patterns of sets alone."""
PATTERNS = (*FOURTEEN, "filter", "top", "count", "compare", "value")
"""All patterns: ``value`` reads an attribute of one entity, the others are described by Plan."""

Operator: TypeAlias = Literal["min", "max", "is"]
"""At least, at most (numbers and dates), equal (texts)."""
Entities: TypeAlias = npt.NDArray[np.int32]
"""Numbers of entities, sorted, each once."""
Result: TypeAlias = Entities | int | float | str | None
"""A set, a number counted, or the value of an attribute (None: it has none)."""


class _Named(Protocol):
    @property
    def id(self) -> str: ...


class PlanGraph(Protocol):
    """What of a graph evaluating and writing plans needs."""

    @property
    def entity_ids(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def relations(self) -> Sequence[_Named]: ...  # noqa: D102
    @property
    def attributes(self) -> Sequence[_Named]: ...  # noqa: D102
    def targets(self, entity: int, relation: int, inverse: bool = False) -> Entities: ...  # noqa: D102
    def value(self, entity: int, attribute: int) -> float | str | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True)
class Anchor:
    """One entity that the question names."""

    entity: int


@dataclass(frozen=True, slots=True)
class Project:
    """What the entities of a set have by a relation; with ``inverse``, what has them."""

    source: "SetPlan"
    relation: int
    inverse: bool = False


@dataclass(frozen=True, slots=True)
class Intersect:
    """The entities that are in every part (2 or 3)."""

    parts: tuple["SetPlan", ...]


@dataclass(frozen=True, slots=True)
class Unite:
    """The entities that are in any part (2 or 3)."""

    parts: tuple["SetPlan", ...]


@dataclass(frozen=True, slots=True)
class Subtract:
    """The entities of ``keep`` that are not in ``remove``."""

    keep: "SetPlan"
    remove: "SetPlan"


@dataclass(frozen=True, slots=True)
class Filter:
    """The entities whose attribute is at least, at most or equal to a value; others are left out."""

    source: "SetPlan"
    attribute: int
    op: Operator
    value: float | str


@dataclass(frozen=True, slots=True)
class Top:
    """The ``k`` entities with the largest (or smallest) attribute; those without one are left out."""

    source: "SetPlan"
    attribute: int
    k: int
    largest: bool


@dataclass(frozen=True, slots=True)
class Count:
    """How many entities a set has."""

    source: "SetPlan"


@dataclass(frozen=True, slots=True)
class Value:
    """The attribute of the one entity of a set."""

    source: "SetPlan"
    attribute: int


@dataclass(frozen=True, slots=True)
class Compare:
    """The one of two anchors whose number is larger (or smaller).

    Both sides are counts of one relation, or values of one attribute, that differ in their anchor
    alone; the result is the set of the winning anchor, empty where the numbers are equal.
    """

    left: "Count | Value"
    right: "Count | Value"
    largest: bool


SetPlan: TypeAlias = Anchor | Project | Intersect | Unite | Subtract | Filter | Top
Plan: TypeAlias = SetPlan | Count | Value | Compare

Neighbours: TypeAlias = Callable[[int, int, bool], "frozenset[int]"]


def evaluate(plan: Plan, graph: PlanGraph) -> Result:
    """Answer a plan.

    Returns:
        The entities of a set (sorted), the number of a count, the value of an attribute, or the
        winner of a comparison as a set of one.
    """
    if isinstance(plan, Count):
        return len(members(plan.source, graph))
    if isinstance(plan, Value):
        found = members(plan.source, graph)
        return graph.value(next(iter(found)), plan.attribute) if len(found) == 1 else None
    return np.array(sorted(members(plan, graph)), np.int32)


def members(plan: SetPlan | Compare, graph: PlanGraph) -> frozenset[int]:
    """Return the entities of a plan that answers with a set."""

    def step(entity: int, relation: int, inverse: bool) -> frozenset[int]:
        return frozenset(graph.targets(entity, relation, inverse).tolist())

    return members_by(plan, graph, step)


def members_by(plan: SetPlan | Compare, graph: PlanGraph, step: Neighbours) -> frozenset[int]:
    """Return the entities of a plan; ``step`` gives an entity's neighbours by a relation."""
    match plan:
        case Anchor(entity):
            return frozenset((entity,))
        case Project(source, relation, inverse):
            sets = [step(e, relation, inverse) for e in members_by(source, graph, step)]
            return sets[0] if len(sets) == 1 else frozenset().union(*sets)
        case Intersect(parts):
            first, *rest = (members_by(part, graph, step) for part in parts)
            return first.intersection(*rest)
        case Unite(parts):
            return frozenset().union(*(members_by(part, graph, step) for part in parts))
        case Subtract(keep, remove):
            return members_by(keep, graph, step) - members_by(remove, graph, step)
        case Filter():
            found = members_by(plan.source, graph, step)
            return frozenset(e for e in found if passes(graph.value(e, plan.attribute), plan))
        case Top():
            found = members_by(plan.source, graph, step)
            return frozenset(ranked(found, plan.attribute, graph, plan.largest)[: plan.k])
        case Compare():
            return _winner(plan, graph, step)


def passes(value: float | str | None, condition: Filter) -> bool:
    """Return whether an attribute's value meets the condition of a filter."""
    if value is None or isinstance(value, str) != isinstance(condition.value, str):
        return False
    if condition.op == "min":
        return value >= condition.value  # type: ignore[operator]
    if condition.op == "max":
        return value <= condition.value  # type: ignore[operator]
    return value == condition.value


def ranked(entities: frozenset[int], attribute: int, graph: PlanGraph, largest: bool) -> list[int]:
    """Return the entities that have an attribute, by its value; equal values by number."""
    pairs: list[Any] = [(graph.value(e, attribute), e) for e in sorted(entities)]
    pairs = [pair for pair in pairs if pair[0] is not None]
    pairs.sort(key=lambda pair: pair[0], reverse=largest)
    return [entity for _, entity in pairs]


def _winner(plan: Compare, graph: PlanGraph, step: Neighbours) -> frozenset[int]:
    numbers: list[Any] = []
    for side in (plan.left, plan.right):
        found = members_by(side.source, graph, step)
        if isinstance(side, Count):
            numbers.append(len(found))
        else:
            numbers.append(graph.value(next(iter(found)), side.attribute))
    if None in numbers or numbers[0] == numbers[1]:
        return frozenset()
    left_wins = (numbers[0] > numbers[1]) == plan.largest
    return frozenset(anchors(plan.left if left_wins else plan.right))


def children(plan: Plan) -> tuple[Plan, ...]:
    """Return the parts that a plan is made of, in order."""
    match plan:
        case Anchor():
            return ()
        case Intersect(parts) | Unite(parts):
            return parts
        case Subtract(keep, remove):
            return (keep, remove)
        case Compare(left, right):
            return (left, right)
        case _:
            return (plan.source,)


def anchors(plan: Plan) -> list[int]:
    """Return the entities that a plan names, in order of reading."""
    if isinstance(plan, Anchor):
        return [plan.entity]
    return [entity for part in children(plan) for entity in anchors(part)]


def relations(plan: Plan) -> list[tuple[int, bool]]:
    """Return the relations, with their directions, that a plan walks, in order of reading."""
    own = [(plan.relation, plan.inverse)] if isinstance(plan, Project) else []
    return [pair for part in children(plan) for pair in relations(part)] + own


def attributes(plan: Plan) -> list[int]:
    """Return the attributes that a plan reads, in order of reading."""
    own = [plan.attribute] if isinstance(plan, Filter | Top | Value) else []
    return [number for part in children(plan) for number in attributes(part)] + own


def hops(plan: Plan) -> int:
    """Return the relations on the longest way from an anchor to the answer."""
    inner = max((hops(part) for part in children(plan)), default=0)
    return inner + isinstance(plan, Project)


def depth(plan: Plan) -> int:
    """Return the operations on the longest way from an anchor to the answer."""
    if isinstance(plan, Anchor):
        return 0
    return 1 + max(depth(part) for part in children(plan))


def n_calls(plan: Plan, graph: PlanGraph, batch: bool = False) -> int:
    """Return the calls that a plan takes, one for each entity unless tools take lists.

    Comparing two numbers takes no call.
    """
    inner = sum(n_calls(part, graph, batch) for part in children(plan))
    if isinstance(plan, Anchor | Compare):
        return inner
    if isinstance(plan, Project) and not batch:
        return inner + len(members(plan.source, graph))
    return inner + 1


def canonical(plan: Plan, graph: PlanGraph) -> str:
    """Write a plan with ids as JSON; plans that differ in the order of equal parts are one text."""
    return orjson.dumps(_listed(plan, graph)).decode()


def _listed(plan: Plan, graph: PlanGraph) -> list[Any]:
    inner = [_listed(part, graph) for part in children(plan)]
    match plan:
        case Anchor(entity):
            return ["anchor", graph.entity_ids[entity]]
        case Project(_, relation, inverse):
            return ["inverse" if inverse else "project", graph.relations[relation].id, *inner]
        case Intersect():
            return ["intersect", *sorted(inner, key=orjson.dumps)]
        case Unite():
            return ["unite", *sorted(inner, key=orjson.dumps)]
        case Subtract():
            return ["subtract", *inner]
        case Filter(_, attribute, op, value):
            return ["filter", graph.attributes[attribute].id, op, value, *inner]
        case Top(_, attribute, k, largest):
            name = graph.attributes[attribute].id
            return ["top", name, k, "largest" if largest else "smallest", *inner]
        case Count():
            return ["count", *inner]
        case Value(_, attribute):
            return ["value", graph.attributes[attribute].id, *inner]
        case Compare():
            order = "largest" if plan.largest else "smallest"
            return ["compare", order, *sorted(inner, key=orjson.dumps)]

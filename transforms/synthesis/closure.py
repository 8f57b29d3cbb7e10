"""Closure search: whether an answer can be derived from some entities by the steps at hand.

It proves that a question cannot be answered when a tool is taken away, and that it can be when all
are there. Sets of entities are derived from the anchors level by level, each one once, with the
cheapest plan that gives it; set operations need no tool, since whoever asks can do them in the
head. A set that no way leads on to the answer is not pursued.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transforms.synthesis.graph import Graph
from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Count,
    Filter,
    Intersect,
    Plan,
    Project,
    SetPlan,
    Subtract,
    Top,
    Unite,
    Value,
    anchors,
    children,
    depth,
    members,
    passes,
    ranked,
)
from transforms.synthesis.voice import Op

MOST_SETS = 5_000
"""Sets after which a search is given up."""
PROVED_SETS = 500
"""Sets within which it has to be proved that an answer that is refused cannot be had."""

_MOST_SOURCES = 256

Edge = tuple[int, bool]
Members = frozenset[int]


@dataclass(frozen=True, slots=True)
class Steps:
    """What can be done in one step.

    Attributes:
        edges: (relation, inverse) that can be followed.
        attributes: attributes that can be read; filters and rankings by them can be done.
    """

    edges: frozenset[Edge]
    attributes: frozenset[int] = frozenset()

    @classmethod
    def of(cls, ops: Iterable[Op]) -> "Steps":
        """Return the steps that some tools can do; a deprecated tool does what it did."""
        edges: set[Edge] = set()
        read: set[int] = set()
        for op in ops:
            kind, *rest = op[1:] if op[0] == "deprecated" else op
            if kind == "project":
                edges.add((int(rest[0]), bool(rest[1])))
            elif kind in ("value", "filter", "top"):
                read.add(int(rest[0]))
        return cls(frozenset(edges), frozenset(read))

    @classmethod
    def named(cls, ops: Iterable[Sequence[Any]], graph: Graph) -> "Steps":
        """Return the steps that the tools of a record can do, which it tells by ids."""
        relations = {one.id: number for number, one in enumerate(graph.relations)}
        attributes = {one.id: number for number, one in enumerate(graph.attributes)}
        numbered: list[Op] = []
        for op in ops:
            kind, *rest = op[1:] if op[0] == "deprecated" else op
            if kind in ("project", "inverse"):
                numbered.append(("project", relations[rest[0]], kind == "inverse"))
            elif kind in ("value", "filter", "top"):
                numbered.append((kind, attributes[rest[0]]))
        return cls.of(numbered)


@dataclass(frozen=True, slots=True)
class Found:
    """The outcome of a search.

    Attributes:
        plan: a plan that gives the answer by the steps at hand; None where there is none.
        decided: whether the search was exhaustive, or found a plan.
        sets: how many sets it looked at.
    """

    plan: Plan | None
    decided: bool
    sets: int


def derive(plan: Plan, graph: Graph, steps: Steps, most_sets: int = MOST_SETS) -> Found:
    """Search for a way to the answer of a plan, from the entities and values that it names.

    Plans of up to one operation more than the plan's own depth are searched.

    Args:
        plan: what is asked.
        graph: where it is asked.
        steps: what can be done.
        most_sets: sets after which the search is given up, undecided.
    """
    if isinstance(plan, Compare):
        sides = [derive(side, graph, steps, most_sets) for side in (plan.left, plan.right)]
        plans = [side.plan for side in sides]
        whole = all(isinstance(side, Count | Value) for side in plans)
        decided = any(side.decided and side.plan is None for side in sides) or whole
        found = replace(plan, left=plans[0], right=plans[1]) if whole else None  # type: ignore[arg-type]
        return Found(found, decided, sum(side.sets for side in sides))
    if isinstance(plan, Count | Value):
        if isinstance(plan, Value) and plan.attribute not in steps.attributes:
            return Found(None, True, 0)
        inner = derive(plan.source, graph, steps, most_sets)
        source = inner.plan
        outer = replace(plan, source=source) if source is not None else None  # type: ignore[arg-type]
        return Found(outer, inner.decided, inner.sets)
    return _Search(plan, graph, steps, most_sets).run()


def out_of_reach(plan: Plan, graph: Graph, steps: Steps) -> bool:
    """Return whether it is proved, within PROVED_SETS, that there is no way to a plan's answer."""
    found = derive(plan, graph, steps, PROVED_SETS)
    return found.decided and found.plan is None


class _Search:
    """Level by level: a set at level n takes n operations on the longest way."""

    def __init__(self, plan: SetPlan, graph: Graph, steps: Steps, most_sets: int) -> None:
        self._graph = graph
        self._steps = steps
        self._edges = sorted(steps.edges)
        self._goal = members(plan, graph)
        self._depth = depth(plan) + 1
        self._most = most_sets
        self._conditions = [one for one in _parts(plan) if isinstance(one, Filter | Top)]
        self._starts = sorted(set(anchors(plan)))
        self._sets: dict[Members, SetPlan] = {}

    def run(self) -> Found:
        if not self._goal:
            return Found(None, False, 0)
        if not self._goal <= self._reachable():
            return Found(None, True, 0)
        fresh: dict[Members, SetPlan] = {frozenset((one,)): Anchor(one) for one in self._starts}
        self._sets.update(fresh)
        if self._goal in fresh:
            return Found(fresh[self._goal], True, len(fresh))
        leading = self._leading()
        for level in range(1, self._depth + 1):
            last = level == self._depth
            found = self._last(fresh) if last else self._next(fresh, leading[level])
            fresh = {}
            for derived, plan in found:
                if derived == self._goal:
                    return Found(plan, True, len(self._sets))
                if last or derived in self._sets:
                    continue
                self._sets[derived] = fresh[derived] = plan
                if len(self._sets) > self._most:
                    return Found(None, False, len(self._sets))
        return Found(None, True, len(self._sets))

    def _reachable(self) -> set[int]:
        """Return what following edges leads to at all; set operations add nothing to it."""
        seen = set(self._starts)
        fresh = set(seen)
        for _ in range(self._depth):
            fresh = {
                target
                for entity in fresh
                for relation, inverse in self._edges
                for target in self._graph.targets(entity, relation, inverse).tolist()
            } - seen
            seen |= fresh
        return seen

    def _leading(self) -> list[set[int]]:
        """Return for each level the entities from which the answer's can still be reached."""
        leading = [set(self._goal)]
        for _ in range(self._depth):
            before = {
                source
                for entity in leading[-1]
                for relation, inverse in self._edges
                for source in self._graph.targets(entity, relation, not inverse).tolist()
            }
            leading.append(leading[-1] | before)
        return leading[::-1]

    def _next(
        self, fresh: dict[Members, SetPlan], leading: set[int]
    ) -> Iterator[tuple[Members, SetPlan]]:
        """Yield what one more operation gives of the newest sets, where it may lead on."""
        for derived, plan in self._singles(fresh):
            # What leads nowhere may still be taken away from something.
            if derived:
                yield derived, plan
        known = list(self._sets.items())
        order = {derived: place for place, (derived, _) in enumerate(known)}
        for one, plan in list(fresh.items()):
            for other, beside in known:
                # A pair of new sets comes up twice.
                if other == one or (other in fresh and order[other] < order[one]):
                    continue
                for derived, made in _combined(one, plan, other, beside):
                    if not leading.isdisjoint(derived):
                        yield derived, made

    def _last(self, fresh: dict[Members, SetPlan]) -> Iterator[tuple[Members, SetPlan]]:
        """Yield the answer alone, where one more operation on all sets gives it."""
        goal = self._goal
        for derived, plan in self._singles(fresh, only=goal):
            if derived == goal:
                yield derived, plan
        over = [one for one in self._sets if one > goal]
        under = [one for one in self._sets if one < goal]
        apart = [one for one in self._sets if not one & goal]
        holding = _holding(under)
        for one in under:
            for other in holding.get(min(goal - one), ()):
                if one | other == goal:
                    yield goal, Unite((self._sets[one], self._sets[other]))
        lacking = _holding(apart)
        for place, one in enumerate(over):
            rest = one - goal
            for other in lacking.get(min(rest), ()):
                if rest <= other:
                    yield goal, Subtract(self._sets[one], self._sets[other])
            for other in over[:place]:
                if rest.isdisjoint(other):
                    yield goal, Intersect((self._sets[one], self._sets[other]))

    def _singles(
        self, sets: dict[Members, SetPlan], only: Members | None = None
    ) -> Iterator[tuple[Members, SetPlan]]:
        """Yield what operations on one set give; with ``only``, what may be within it."""
        for one, plan in sets.items():
            for relation, inverse in self._edges:
                derived = self._projected(one, relation, inverse, only)
                if derived:
                    yield derived, Project(plan, relation, inverse)
            yield from self._conditioned(one, plan)

    def _projected(
        self, sources: Members, relation: int, inverse: bool, only: Members | None
    ) -> Members:
        found: set[int] = set()
        if len(sources) > _MOST_SOURCES:
            return frozenset()
        for entity in sources:
            targets = self._graph.targets(entity, relation, inverse).tolist()
            if only is not None and not only.issuperset(targets):
                return frozenset()
            found.update(targets)
        return frozenset(found)

    def _conditioned(self, one: Members, plan: SetPlan) -> Iterator[tuple[Members, SetPlan]]:
        for condition in self._conditions:
            if condition.attribute not in self._steps.attributes:
                continue
            if isinstance(condition, Filter):
                kept = [
                    entity
                    for entity in one
                    if passes(self._graph.value(entity, condition.attribute), condition)
                ]
            else:
                order = ranked(one, condition.attribute, self._graph, condition.largest)
                kept = order[: condition.k]
            if kept:
                yield frozenset(kept), replace(condition, source=plan)


def _combined(
    one: Members, plan: SetPlan, other: Members, beside: SetPlan
) -> Iterable[tuple[Members, SetPlan]]:
    """Yield intersection, union and both differences, as far as they are new."""
    both = one & other
    if not both:
        yield one | other, Unite((plan, beside))
    elif both not in (one, other):
        yield both, Intersect((plan, beside))
        yield one | other, Unite((plan, beside))
    if both and both != one:
        yield one - both, Subtract(plan, beside)
    if both and both != other:
        yield other - both, Subtract(beside, plan)


def _holding(sets: Iterable[Members]) -> dict[int, list[Members]]:
    """Return the sets that each entity is in."""
    found: dict[int, list[Members]] = defaultdict(list)
    for one in sets:
        for entity in one:
            found[entity].append(one)
    return found


def _parts(plan: Plan) -> Sequence[Plan]:
    return [plan, *(inner for part in children(plan) for inner in _parts(part))]

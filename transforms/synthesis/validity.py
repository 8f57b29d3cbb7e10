"""Which plans make questions: every operation matters, and no single tool answers.

Rules after papers_synth's stage 2 and the sampler of Ren and Leskovec (2020, appendix): an answer
that is not empty and not large; siblings that differ; no relation followed by its inverse; an
intersection smaller than that of any of its parts, a union larger, a difference that takes something
and leaves something; no single relation that gives the same answer from an anchor; no anchor in its
own answer; no operation without which the whole answer would be the same. :func:`removable` looks for single calls that could be left out.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from transforms.synthesis.graph import Graph
from transforms.synthesis.limits import Limits
from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Count,
    Filter,
    Intersect,
    Neighbours,
    Plan,
    PlanGraph,
    Project,
    SetPlan,
    Subtract,
    Top,
    Unite,
    Value,
    anchors,
    children,
    members_by,
    passes,
    ranked,
)
from transforms.synthesis.variants import reduced

Members = frozenset[int]


class Invalid(Exception):  # noqa: N818
    """A plan breaks a rule; the argument is the rule's name."""


class Rules:
    """The rules for plans over one graph."""

    def __init__(self, graph: Graph, limits: Limits, step: Neighbours) -> None:
        self._graph, self._limits, self._step = graph, limits, step
        self._symmetric = [relation.symmetric for relation in graph.relations]

    def check(self, plan: Plan, large: SetPlan | None = None) -> str:
        """Return the name of the first rule that a plan breaks; an empty text where it is valid.

        Args:
            plan: the plan.
            large: a part (this object) that may have as many entities as a long result has.
        """
        try:
            self._whole(plan, large)
        except Invalid as broken:
            return str(broken)
        return ""

    def _whole(self, plan: Plan, large: SetPlan | None) -> None:
        named = anchors(plan)
        if len(set(named)) != len(named):
            raise Invalid("one anchor twice")
        match plan:
            case Count(source):
                self._answer(source, large, named, counted=True)
                if len(self._members(source, large)) < 2:
                    raise Invalid("counts one")
            case Value(source, attribute):
                self._value(source, attribute)
            case Compare():
                self._compare(plan)
            case _:
                self._answer(plan, large, named)

    def _answer(
        self, plan: SetPlan, large: SetPlan | None, named: list[int], counted: bool = False
    ) -> None:
        found = self._members(plan, large)
        if len(found) > self._limits.answers:
            raise Invalid("many answers")
        if not found.isdisjoint(named):
            raise Invalid("answers an anchor")
        self._every_part_matters(plan, found, counted)
        single = isinstance(plan, Project) and isinstance(plan.source, Anchor)
        if not single and self.shortcut(named, found):
            raise Invalid("shortcut")

    def _every_part_matters(self, plan: SetPlan, found: Members, counted: bool) -> None:
        """Check that the whole answer is another one without any operation of sets.

        A part that takes something away from the one beside it may still make no difference to
        what follows.

        Raises:
            Invalid: an operation can be left out.
        """
        for rest in reduced(plan):
            other = members_by(rest, self._graph, self._step)  # type: ignore[arg-type]
            if (len(other) == len(found)) if counted else (other == found):
                raise Invalid("idle part")

    def shortcut(self, named: list[int], found: Members) -> bool:
        """Return whether a single relation of one of the anchors gives the same answer."""
        graph = self._graph
        for entity in named:
            for relation, inverse in graph.edges_of(entity):
                targets = graph.targets(entity, relation, inverse)
                if len(targets) == len(found) and found.issuperset(targets.tolist()):
                    return True
        return False

    def _members(self, plan: SetPlan, large: SetPlan | None) -> Members:
        match plan:
            case Anchor(entity):
                return frozenset((entity,))
            case Project():
                found = self._project(plan, large)
            case Intersect(parts):
                found = self._intersect(parts, large)
            case Unite(parts):
                found = self._unite(parts, large)
            case Subtract(keep, remove):
                if keep == remove:
                    raise Invalid("same parts")
                kept, removed = self._members(keep, large), self._members(remove, large)
                found = kept - removed
                if len(found) == len(kept):
                    raise Invalid("idle difference")
            case Filter():
                found = self._filter(plan, large)
            case Top():
                found = self._top(plan, large)
        if not found:
            raise Invalid("empty")
        if len(found) > (self._limits.long_most if plan is large else self._limits.items):
            raise Invalid("large set")
        return found

    def _project(self, plan: Project, large: SetPlan | None) -> Members:
        for before in _last_projects(plan.source):
            if before.relation == plan.relation and (
                before.inverse != plan.inverse or self._symmetric[plan.relation]
            ):
                raise Invalid("inverse")
        source = self._members(plan.source, large)
        if len(source) > self._limits.fan_out:
            raise Invalid("wide")
        sets = [self._step(entity, plan.relation, plan.inverse) for entity in source]
        return sets[0] if len(sets) == 1 else frozenset().union(*sets)

    def _intersect(self, parts: tuple[SetPlan, ...], large: SetPlan | None) -> Members:
        if any(one == other for one, other in combinations(parts, 2)):
            raise Invalid("same parts")
        sets = [self._members(part, large) for part in parts]
        found = sets[0].intersection(*sets[1:])
        for others in combinations(sets, len(sets) - 1):
            if len(others[0].intersection(*others[1:])) == len(found):
                raise Invalid("idle intersection")
        return found

    def _unite(self, parts: tuple[SetPlan, ...], large: SetPlan | None) -> Members:
        if any(one == other for one, other in combinations(parts, 2)):
            raise Invalid("same parts")
        sets = [self._members(part, large) for part in parts]
        found: Members = frozenset().union(*sets)
        for others in combinations(sets, len(sets) - 1):
            if len(frozenset().union(*others)) == len(found):
                raise Invalid("idle union")
        return found

    def _filter(self, plan: Filter, large: SetPlan | None) -> Members:
        source = self._members(plan.source, large)
        values = {entity: self._graph.value(entity, plan.attribute) for entity in source}
        if None in values.values():
            raise Invalid("unknown value")
        found = frozenset(entity for entity, value in values.items() if passes(value, plan))
        if len(found) == len(source):
            raise Invalid("idle filter")
        return found

    def _top(self, plan: Top, large: SetPlan | None) -> Members:
        source = self._members(plan.source, large)
        if len(source) <= plan.k:
            raise Invalid("idle top")
        order = ranked(source, plan.attribute, self._graph, plan.largest)
        if len(order) < len(source):
            raise Invalid("unknown value")
        values = [self._graph.value(entity, plan.attribute) for entity in order]
        if values[plan.k - 1] == values[plan.k]:
            raise Invalid("tie")
        return frozenset(order[: plan.k])

    def _value(self, source: SetPlan, attribute: int) -> None:
        found = self._members(source, None)
        if len(found) != 1:
            raise Invalid("value of many")
        value = self._graph.value(next(iter(found)), attribute)
        if value is None:
            raise Invalid("unknown value")
        if isinstance(value, str) and not 0 < len(value.strip()) <= self._limits.text:
            raise Invalid("long text")

    def _compare(self, plan: Compare) -> None:
        numbers: list[Any] = []
        for side in (plan.left, plan.right):
            found = self._members(side.source, None)
            if isinstance(side, Count):
                numbers.append(len(found))
            else:
                numbers.append(self._graph.value(next(iter(found)), side.attribute))
        if None in numbers:
            raise Invalid("unknown value")
        if numbers[0] == numbers[1]:
            raise Invalid("tie")


def _last_projects(plan: SetPlan) -> Iterator[Project]:
    """Yield the projections that the entities of a set come from directly."""
    if isinstance(plan, Project):
        yield plan
    elif not isinstance(plan, Anchor):
        for part in children(plan):
            yield from _last_projects(part)  # type: ignore[arg-type]


def removable(plan: Plan, graph: PlanGraph, step: Neighbours) -> bool:
    """Return whether asking one relation of one entity could be left out of a plan.

    Where a tool takes one entity, a relation of a set is asked entity by entity; a call whose
    results change nothing in the answer is then not needed.
    """
    if isinstance(plan, Compare):
        return False
    top: SetPlan = plan.source if isinstance(plan, Count | Value) else plan
    calls: dict[tuple[int, int, bool], None] = {}

    def noting(entity: int, relation: int, inverse: bool) -> Members:
        calls[entity, relation, inverse] = None
        return step(entity, relation, inverse)

    whole = members_by(top, graph, noting)
    for left_out in calls:

        def without(
            entity: int, relation: int, inverse: bool, call: tuple[int, int, bool] = left_out
        ) -> Members:
            return (
                _NOBODY if call == (entity, relation, inverse) else step(entity, relation, inverse)
            )

        if members_by(top, graph, without) == whole:
            return True
    return False


_NOBODY: Members = frozenset()

"""Tools that a question does not need, and that do not answer any part of it."""

from collections.abc import Iterator, Sequence
from typing import Literal

from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.plan import (
    Anchor,
    Neighbours,
    Plan,
    Project,
    children,
    members_by,
)
from transforms.synthesis.tool_names import slug
from transforms.synthesis.voice import Op

Kind = Literal["random", "sibling", "near_name", "inverse", "deprecated"]
KINDS: tuple[Kind, ...] = ("random", "sibling", "near_name", "inverse", "deprecated")
_NEAR = 12


class Distractors:
    """Chooses tools of one graph beside those that a plan needs."""

    def __init__(self, graph: Graph, step: Neighbours) -> None:
        self._graph, self._step = graph, step
        self._by_domain: dict[int, list[Op]] = {}
        self._by_range: dict[int, list[Op]] = {}
        for number, relation in enumerate(graph.relations):
            for inverse in (False, True):
                op: Op = ("project", number, inverse)
                self._by_domain.setdefault(_domain(relation, inverse), []).append(op)
                self._by_range.setdefault(_domain(relation, not inverse), []).append(op)
        self._words = [_words(relation.label) for relation in graph.relations]
        self._near: dict[int, list[int]] = {}

    def choose(
        self, kind: Kind, count: int, needed: Sequence[Op], plans: Sequence[Plan], draw: Draw
    ) -> list[Op]:
        """Choose up to ``count`` tools of a kind that no call of the plans could be replaced by.

        Args:
            kind: how they are near to the tools that are needed.
            count: tools at most.
            needed: the tools that the plans take.
            plans: what the conversation asks for.
            draw: where choices come from.
        """
        found: list[Op] = []
        if count <= 0:
            return found
        used = set(needed)
        calls = list(_calls(plans, self._graph, self._step))
        for op in self._pool(kind, count, needed, draw):
            if op not in used and not (op[0] == "project" and self._replaces(op, calls)):
                used.add(op)
                found.append(op)
                if len(found) == count:
                    break
        return found

    def _pool(self, kind: Kind, count: int, needed: Sequence[Op], draw: Draw) -> list[Op]:
        walks = [op for op in needed if op[0] == "project"]
        if kind == "deprecated":
            return draw.shuffled([("deprecated", *op) for op in needed if op[0] != "search"])
        if kind == "inverse":
            return draw.shuffled([("project", op[1], not op[2]) for op in walks])
        if kind == "near_name":
            near = [n for op in walks for n in self._near_to(int(op[1]))]
            return draw.shuffled([("project", n, draw.chance(0.3)) for n in near])
        if kind == "sibling" and walks:
            pool: dict[Op, None] = {}
            for op in walks:
                relation, inverse = self._graph.relations[int(op[1])], bool(op[2])
                pool |= dict.fromkeys(self._by_domain[_domain(relation, inverse)])
                pool |= dict.fromkeys(self._by_range[_domain(relation, not inverse)])
            return draw.sample(list(pool), 3 * count + 4)
        return [self._any(draw) for _ in range(3 * count + 4)]

    def _any(self, draw: Draw) -> Op:
        """Draw a tool of any kind that the graph has a use for."""
        relations, attributes = len(self._graph.relations), len(self._graph.attributes)
        if draw.chance(0.15):
            return draw.choose((("intersect",), ("unite",), ("subtract",), ("count",)))
        if attributes and (not relations or draw.chance(attributes / (attributes + relations))):
            number = draw.below(attributes)
            if self._graph.attributes[number].kind == "text":
                return (draw.choose(("value", "filter")), number)
            return (draw.choose(("value", "filter", "top")), number)
        return ("project", draw.below(relations), draw.chance(0.5))

    def _near_to(self, relation: int) -> list[int]:
        """Return the relations whose labels share the largest part of their words with another's."""
        found = self._near.get(relation)
        if found is None:
            own = self._words[relation]
            scored = [
                (len(own & words) / len(own | words), -number)
                for number, words in enumerate(self._words)
                if number != relation and own & words
            ]
            found = [-number for _, number in sorted(scored, reverse=True)[:_NEAR]]
            self._near[relation] = found
        return found

    def _replaces(self, op: Op, calls: Sequence[tuple[frozenset[int], frozenset[int]]]) -> bool:
        """Return whether a tool gives for some sources just what a call needs."""
        relation, inverse = int(op[1]), bool(op[2])
        for sources, targets in calls:
            if len(sources) == 1:
                (entity,) = sources
                if len(self._graph.targets(entity, relation, inverse)) != len(targets):
                    continue
            found: frozenset[int] = frozenset().union(
                *(self._step(entity, relation, inverse) for entity in sources)
            )
            if found == targets:
                return True
        return False


def _words(label: str) -> frozenset[str]:
    """Return the words of a label; single characters where it is not written in ASCII."""
    return frozenset(slug(label).split("_")) - {""} if label.isascii() else frozenset(label)


def _domain(relation: object, inverse: bool) -> int:
    return relation.range if inverse else relation.domain  # type: ignore[attr-defined,no-any-return]


def _calls(
    plans: Sequence[Plan], graph: Graph, step: Neighbours
) -> Iterator[tuple[frozenset[int], frozenset[int]]]:
    """Yield the sources and targets of the projections of plans, also source by source."""
    waiting: list[Plan] = list(plans)
    while waiting:
        plan = waiting.pop()
        waiting += children(plan)
        if isinstance(plan, Project):
            sources = members_by(plan.source, graph, step)
            if not isinstance(plan.source, Anchor):
                yield sources, members_by(plan, graph, step)
            for entity in sources:
                yield frozenset((entity,)), step(entity, plan.relation, plan.inverse)

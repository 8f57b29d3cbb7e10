"""Two simple solvers, which show whether the labels of difficulty are honest.

A question that takes more steps, or has more tools beside it that are not needed, should be answered
less often by chance, and less often by someone who reads only names and makes one call. Both solvers
know more than a model would: which entities are named, and how many operations there are.
"""

import re
from collections.abc import Sequence
from typing import Any

from transforms.synthesis.draw import Draw
from transforms.synthesis.plan import (
    Filter,
    Neighbours,
    Plan,
    PlanGraph,
    Top,
    Value,
    anchors,
    children,
    passes,
    ranked,
)
from transforms.synthesis.voice import Op

Answer = frozenset[int] | float | str | None

_MOST_SOURCES = 64
_WORD = re.compile(r"[a-z]+|[^\x00-\x7f]")
_CALLED = ("project", "value", "filter", "top", "intersect", "unite", "subtract", "count")


def operations(plan: Plan) -> int:
    """Return how many different operations a plan has."""
    found: set[Plan] = set()

    def visit(part: Plan) -> None:
        if children(part):
            found.add(part)
        for inner in children(part):
            visit(inner)

    visit(plan)
    return len(found)


class RandomTools:
    """Calls as many tools as the question takes, each drawn by chance, with sets known so far."""

    def __init__(self, graph: PlanGraph, step: Neighbours) -> None:
        """Take the graph.

        Args:
            graph: where values are.
            step: follows a relation.
        """
        self._graph, self._step = graph, step

    def share(
        self, plan: Plan, ops: Sequence[Op], answer: Answer, draw: Draw, trials: int
    ) -> float:
        """Return how often it finds an answer, of some trials."""
        usable = [op for op in ops if op[0] in (*_CALLED, "deprecated")]
        if not usable:
            return 0.0
        return sum(self._found(plan, usable, draw) == answer for _ in range(trials)) / trials

    def _found(self, plan: Plan, ops: Sequence[Op], draw: Draw) -> Answer:
        known = [frozenset((entity,)) for entity in anchors(plan)]
        conditions = _conditions(plan)
        last: Answer = None
        for _ in range(operations(plan)):
            found = self._called(draw.choose(ops), known, conditions, draw)
            if isinstance(found, frozenset):
                known.append(found)
            last = found if found is not None else last
        return last

    def _called(
        self, op: Op, known: Sequence[frozenset[int]], conditions: Sequence[Plan], draw: Draw
    ) -> Answer:
        one, other = draw.choose(known), draw.choose(known)
        match op:
            case ("project", relation, inverse):
                if len(one) > _MOST_SOURCES:
                    return None
                sets = (self._step(entity, int(relation), bool(inverse)) for entity in one)
                return frozenset().union(*sets)
            case ("intersect",):
                return one & other
            case ("unite",):
                return one | other
            case ("subtract",):
                return one - other
            case ("count",):
                return len(one)
            case ("value", attribute):
                return self._graph.value(min(one), int(attribute)) if len(one) == 1 else None
            case ("filter" | "top", _):
                return self._conditioned(op, one, conditions, draw)
        return None  # a tool that has been withdrawn

    def _conditioned(
        self, op: Op, one: frozenset[int], conditions: Sequence[Plan], draw: Draw
    ) -> Answer:
        """Filter or rank by what the user said; nothing where no such condition was named."""
        attribute = int(op[1])
        fitting = [part for part in conditions if part.attribute == attribute]  # type: ignore[union-attr]
        if not fitting:
            return None
        part = draw.choose(fitting)
        if op[0] == "top" and isinstance(part, Top):
            return frozenset(ranked(one, attribute, self._graph, part.largest)[: part.k])
        if op[0] == "filter" and isinstance(part, Filter):
            return frozenset(e for e in one if passes(self._graph.value(e, attribute), part))
        return None


class OneHop:
    """Calls for each named entity the tool that shares most words with the question; no more."""

    def __init__(self, graph: PlanGraph, step: Neighbours) -> None:
        """Take the graph.

        Args:
            graph: where values are.
            step: follows a relation.
        """
        self._graph, self._step = graph, step

    def answer(
        self, plan: Plan, question: str, tools: Sequence[dict[str, Any]], ops: Sequence[Op]
    ) -> Answer:
        """Answer a question: with what all its entities have in common by that tool.

        Args:
            plan: tells which entities are named.
            question: of the user, or its skeleton.
            tools: their definitions.
            ops: what they do, in the same order.
        """
        kinds = ("value",) if isinstance(plan, Value) else ("project",)
        asked = _words(question)
        scored = [
            (len(asked & words) / max(1, len(words)) ** 0.5, -place)
            for place, (tool, op) in enumerate(zip(tools, ops, strict=True))
            if op[0] in kinds
            for words in (_words(f"{tool['function']['name']} {tool['function']['description']}"),)
        ]
        named = list(dict.fromkeys(anchors(plan)))
        if not scored or not named:
            return None
        op = ops[-max(scored)[1]]
        if op[0] == "value":
            return self._graph.value(named[0], int(op[1])) if len(named) == 1 else None
        sets = [self._step(entity, int(op[1]), bool(op[2])) for entity in named]
        return sets[0].intersection(*sets[1:])


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).lower()))


def _conditions(plan: Plan) -> list[Plan]:
    own: list[Plan] = [plan] if isinstance(plan, Filter | Top) else []
    return own + [found for part in children(plan) for found in _conditions(part)]

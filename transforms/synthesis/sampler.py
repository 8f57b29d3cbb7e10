"""The sampler: valid plans of every pattern, spread evenly over the graph.

What a place of a cell (pattern, scenario) starts from is fixed by its number alone: places go round
the edges of the graph, and at each edge round its answers, so that none comes much more often than
another. The rest of a plan is drawn; plans that break a rule are drawn again.
"""

from collections import Counter
from dataclasses import dataclass
from math import gcd

import numpy as np

from transforms.synthesis.draw import Draw, combine, mixed
from transforms.synthesis.graph import Graph
from transforms.synthesis.grounding import LONG_PATTERNS, Grounding, NoGround, TooOften, slots
from transforms.synthesis.grounding_values import ValueGrounding
from transforms.synthesis.limits import Limits
from transforms.synthesis.plan import (
    PATTERNS,
    Anchor,
    Compare,
    Count,
    Plan,
    Project,
    SetPlan,
    Subtract,
    Top,
    Value,
    children,
    members_by,
    relations,
)
from transforms.synthesis.validity import Rules

VALUED = ("filter", "top", "value")
"""Patterns over attributes alone; ``compare`` is over attributes or counts."""
_CACHED_SETS = 400_000


@dataclass(frozen=True, slots=True)
class Sample:
    """A valid plan."""

    plan: Plan
    tries: int
    """Plans drawn for it, this one included."""
    assumption: str
    """Why an absent fact may be taken for a false one: ``none`` (it need not be), ``declared``
    (the relations are complete), ``directory`` (the tools' world is closed: what the directory
    does not list is not there)."""
    long: SetPlan | None = None
    """The part with a long result."""


class Sampler:
    """Draws valid plans of one graph."""

    def __init__(self, graph: Graph, limits: Limits, seed: int) -> None:
        self.graph, self.limits = graph, limits
        self.seed = seed
        key = int(graph.fingerprint[:16], 16)
        self._keys = {pattern: combine(seed, key, pattern) for pattern in PATTERNS}
        self._sets: dict[tuple[int, int, bool], frozenset[int]] = {}
        self.rules = Rules(graph, limits, self.step)
        self._grounding = Grounding(graph, limits)
        self._values = ValueGrounding(graph, self._grounding)
        self._edges = self._grounding.starts
        self._attributes = slots([len(graph.holders(a)) for a in range(len(graph.attributes))])
        self._closed = any(relation.declared_complete for relation in graph.relations)
        self.broken: dict[str, Counter[str]] = {pattern: Counter() for pattern in PATTERNS}

    def step(self, entity: int, relation: int, inverse: bool) -> frozenset[int]:
        """Return the neighbours of an entity by a relation, kept for the next time."""
        key = (entity, relation, inverse)
        found = self._sets.get(key)
        if found is None:
            if len(self._sets) >= _CACHED_SETS:
                self._sets.clear()
            found = frozenset(self.graph.targets(entity, relation, inverse).tolist())
            self._sets[key] = found
        return found

    def draw(self, pattern: str, place: int, draw: Draw, long: bool = False) -> Sample | None:
        """Draw a valid plan; None where none was found.

        Args:
            pattern: one of PATTERNS.
            place: number of the place among those of the pattern; it fixes where a plan starts.
            draw: where all other choices come from.
            long: whether one part must have a long result.
        """
        counts = self.broken[pattern]
        for attempt in range(self.limits.tries):
            part = draw.branch(attempt)
            # A thin graph cannot be used evenly and fill its quotas: rather the quotas.
            luck = part.uniform() if 3 * attempt < self.limits.tries else 0.0
            self._grounding.luck = luck
            try:
                plan, large = self._ground(pattern, place, attempt, part, long)
            except TooOften:
                counts["too often"] += 1
                continue
            except NoGround:
                counts["no ground"] += 1
                continue
            broken = self.rules.check(plan, large)
            if not broken and not self.let_through(plan, luck):
                broken = "too often"
            assumption = self._assumption(plan)
            if not broken and not assumption:
                broken = "open world"
            if not broken:
                counts["valid"] += 1
                return Sample(plan, attempt + 1, assumption, large)
            counts[broken] += 1
        return None

    def single_into(self, entity: int, draw: Draw, evenly: bool = True) -> Project | None:
        """Draw a relation of an entity that leads to one; None where there is none."""
        self._grounding.luck = draw.uniform() if evenly else 0.0
        try:
            return self._grounding.single(entity, draw)
        except NoGround:
            return None

    def other_anchor(self, plan: Plan, entity: int, draw: Draw, evenly: bool) -> bool:
        """Return whether a plan with a new anchor is valid, and not too often if used evenly."""
        self._grounding.luck = draw.uniform() if evenly else 0.0
        return (
            self._grounding.again(entity)
            and not self.rules.check(plan)
            and self.let_through(plan, self._grounding.luck)
        )

    def can(self, pattern: str, long: bool = False) -> bool:
        """Return whether the graph has anything that a pattern could start from."""
        if pattern in VALUED:
            return bool(self._attributes)
        if pattern == "compare":
            return bool(self._attributes or self._edges)
        return bool(self._edges) and (not long or pattern in LONG_PATTERNS)

    def _ground(
        self, pattern: str, place: int, attempt: int, draw: Draw, long: bool
    ) -> tuple[Plan, SetPlan | None]:
        grounding = self._grounding
        by_value = pattern in VALUED or (
            pattern == "compare" and bool(self._attributes) and draw.chance(0.6)
        )
        if not (self._attributes if by_value else self._edges):
            raise NoGround
        if by_value:
            attribute, entity = self._start(pattern, place, attempt, True)
            return self._values.valued(pattern, entity, attribute, draw), None
        edge, entity = self._start(pattern, place, attempt, False)
        if not (grounding.walked((edge >> 1,)) and grounding.answered((entity,))):
            raise TooOften
        if pattern == "compare":
            source = draw.choose(grounding.wide.sources(entity, edge))
            return self._values.compared(source, edge, draw), None
        plan = grounding.plan(pattern, entity, edge, draw)
        if not long:
            return plan, None
        return grounding.long_branch(plan, draw)  # type: ignore[arg-type]

    def _start(self, pattern: str, place: int, attempt: int, by_value: bool) -> tuple[int, int]:
        """Return the edge (or attribute) and the answer that a place's attempt starts from.

        The first attempts keep the edge and go on in its answers; later ones change the edge.
        """
        slots = self._attributes if by_value else self._edges
        round_, slot = divmod(place, len(slots))
        key = mixed(self._keys[pattern], round_, attempt // 6)
        slot = permuted(slot, len(slots), key)
        number = slots[slot]
        answers = self._holders(number) if by_value else self._grounding.wide.answers(number)
        turn = round_ + mixed(key, slot, attempt) % len(answers) if attempt else round_
        offset = mixed(self._keys[pattern], number, slot)
        return number, int(answers[permuted(turn % len(answers), len(answers), offset)])

    def let_through(self, plan: Plan, luck: float) -> bool:
        """Return whether a plan's relations and its answer's entities may be drawn once more.

        Args:
            plan: a valid plan.
            luck: uniform in [0, 1); 0: they may.
        """
        self._grounding.luck = luck
        if not self._grounding.walked(number for number, _ in relations(plan)):
            return False
        if isinstance(plan, Count | Value | Compare):
            return True
        return self._grounding.answered(members_by(plan, self.graph, self.step))

    def _holders(self, attribute: int) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
        return self.graph.holders(attribute)

    def _assumption(self, plan: Plan) -> str:
        """Return why absent facts may be taken for false, or an empty text where they may not."""
        closed = list(_needing_all(plan))
        if not closed:
            return "none"
        graph = self.graph
        if all(graph.relations[r].is_complete(inverse) for r, inverse in closed):
            return "declared"
        return "" if self._closed else "directory"


def _needing_all(plan: Plan) -> list[tuple[int, bool]]:
    """Return the relations all of whose facts must be known for a plan's answer to be right."""
    match plan:
        case Subtract(keep, remove):
            return _needing_all(keep) + relations(remove)
        case Count() | Top() | Compare():
            return relations(plan)
        case Anchor():
            return []
    return [pair for part in children(plan) for pair in _needing_all(part)]


def permuted(place: int, n: int, key: int) -> int:
    """Return a place of an affine permutation of ``n`` places."""
    factor = 1 + (key >> 33) % n
    while gcd(factor, n) != 1:
        factor = factor % n + 1
    return (place * factor + key % n) % n

"""Plans of every pattern, grounded backwards from an answer.

An entity is chosen as an answer, and relations are walked backwards from it to the anchors (Ren and
Leskovec, 2020). What a difference takes away is chosen constructively: it leads to another member
of the set it is taken from, and must not lead to the answer.
"""

from collections.abc import Callable, Iterable
from itertools import combinations

from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.incoming import Incoming
from transforms.synthesis.limits import Limits
from transforms.synthesis.plan import (
    Anchor,
    Count,
    Intersect,
    Plan,
    Project,
    SetPlan,
    Subtract,
    Unite,
    members,
)
from transforms.synthesis.spread import Spread

LONG_PATTERNS = ("2i", "3i", "ip", "pi", "2in", "inp")
"""Patterns with a branch of one relation that can have a long result."""


class NoGround(Exception):  # noqa: N818
    """There is no relation to go on with."""


class TooOften(NoGround):
    """An entity would be drawn too often."""


_ANSWERS_A_SLOT = 24
_MOST_SLOTS = 8


def slots(answers: list[int]) -> list[int]:
    """Return what a plan can start from, oftener where there are more answers."""
    found: list[int] = []
    for number, count in enumerate(answers):
        found += [number] * min(-(-count // _ANSWERS_A_SLOT), _MOST_SLOTS)
    return found


class Grounding:
    """Draws plans of a graph; :class:`transforms.synthesis.validity.Rules` judges them."""

    def __init__(self, graph: Graph, limits: Limits) -> None:
        self._graph = graph
        self.wide = Incoming(graph, 1, limits.items)
        self.narrow = Incoming(graph, 1, limits.fan_out)
        self._long: Incoming | None = None
        self._long_spread: Spread | None = None
        self._limits = limits
        self.starts = slots(
            [len(self.wide.answers(edge)) for edge in range(2 * len(graph.relations))]
        )
        self._spread = Spread(self.wide, self.starts, graph.n_entities)
        self.luck = 0.0
        """What is let through with a lower probability is held back: uniform in [0, 1), drawn anew
        for each plan; 0: nothing is held back."""
        self._makers: dict[str, Callable[[int, int, Draw], Plan]] = {
            "1p": lambda e, edge, draw: self._last(e, edge, draw),
            "2p": lambda e, edge, draw: self.chain(e, edge, draw, 2),
            "3p": lambda e, edge, draw: self.chain(e, edge, draw, 3),
            "2i": lambda e, edge, draw: self._meet(e, edge, draw, 2),
            "3i": lambda e, edge, draw: self._meet(e, edge, draw, 3),
            "ip": self._meet_then,
            "pi": self._chain_meet,
            "2u": self._join,
            "up": self._join_then,
            "2in": lambda e, edge, draw: self._differ(self._last(e, edge, draw), e, draw),
            "3in": lambda e, edge, draw: self._differ(self._meet(e, edge, draw, 2, 2), e, draw),
            "inp": self._differ_then,
            "pin": lambda e, edge, draw: self._differ(self.chain(e, edge, draw, 2), e, draw),
            "pni": lambda e, edge, draw: self._differ(self._last(e, edge, draw), e, draw, 2),
            "count": self._count,
        }

    @property
    def long(self) -> Incoming:
        """The links whose source has as many targets as a long result."""
        if self._long is None:
            self._long = Incoming(self._graph, self._limits.long_least, self._limits.long_most)
            self._long_spread = Spread(self._long, [], self._graph.n_entities)
        return self._long

    def plan(self, pattern: str, entity: int, edge: int, draw: Draw) -> Plan:
        """Draw a plan whose last relation is ``edge`` and that has ``entity`` in its answer.

        Raises:
            NoGround: no relation leads where the pattern needs one.
        """
        return self._makers[pattern](entity, edge, draw)

    def long_branch(self, plan: SetPlan, draw: Draw) -> tuple[SetPlan, SetPlan]:
        """Exchange a branch of one relation for one with a long result; return plan and branch.

        Raises:
            NoGround: no long result has an entity that the branch needs.
        """
        match plan:
            case Project(source, relation, inverse):
                inner, branch = self.long_branch(source, draw)
                return Project(inner, relation, inverse), branch
            case Intersect(parts):
                place = next(p for p in range(len(parts)) if _is_single(parts[p]))
                shared = sorted(members(plan, self._graph))
                branch = self._long_into(draw.choose(shared) if shared else -1, draw)
                return Intersect((*parts[:place], branch, *parts[place + 1 :])), branch
            case Subtract(keep, remove):
                taken = sorted(members(keep, self._graph) & members(remove, self._graph))
                branch = self._long_into(draw.choose(taken) if taken else -1, draw)
                return Subtract(keep, branch), branch
        raise NoGround

    def _long_into(self, entity: int, draw: Draw) -> SetPlan:
        link = self.long.draw(entity, draw) if entity >= 0 else None
        if link is None:
            raise NoGround
        spread = self._long_spread
        if spread is not None and self.luck >= spread.anchor(link[1]):
            raise TooOften
        return project(Anchor(link[1]), link[0])

    def _source(self, entity: int, edge: int, draw: Draw) -> int:
        sources = self.wide.sources(entity, edge)
        if not sources:
            raise NoGround
        return draw.choose(sources)

    def anchor(self, entity: int) -> Anchor:
        """Take an entity as an anchor.

        Raises:
            TooOften: it is one too often.
        """
        if not self.again(entity):
            raise TooOften
        return Anchor(entity)

    def again(self, entity: int) -> bool:
        """Return whether an entity may be an anchor once more."""
        return self.luck < self._spread.anchor(entity)

    def answered(self, entities: Iterable[int]) -> bool:
        """Return whether some entities may be an answer once more."""
        return self.luck < self._spread.answers(entities)

    def walked(self, numbers: Iterable[int]) -> bool:
        """Return whether some relations may be walked once more."""
        return self.luck < self._spread.relations(numbers)

    def _last(self, entity: int, edge: int, draw: Draw) -> Project:
        return project(self.anchor(self._source(entity, edge, draw)), edge)

    def chain(self, entity: int, edge: int, draw: Draw, n: int) -> SetPlan:
        """Draw a chain of ``n`` relations into an entity; the last one is ``edge``.

        Raises:
            NoGround: no relation leads on.
        """
        edges, at = [edge], self._source(entity, edge, draw)
        for _ in range(n - 1):
            link = self.narrow.draw(at, draw, without=edges[-1] ^ 1)
            if link is None:
                raise NoGround
            edges.append(link[0])
            at = link[1]
        plan: SetPlan = self.anchor(at)
        for one in reversed(edges):
            plan = project(plan, one)
        return plan

    def single(self, entity: int, draw: Draw) -> Project:
        """Draw a relation of an entity that leads to one.

        Raises:
            NoGround: there is none.
        """
        link = self.wide.draw(entity, draw)
        if link is None:
            raise NoGround
        return project(self.anchor(link[1]), link[0])

    def _meet(self, entity: int, edge: int, draw: Draw, n: int, least: int = 1) -> SetPlan:
        """Draw ``n`` relations into an entity whose sets have ``least`` entities in common.

        Each part is drawn until it takes something away from the others and they from it.
        """
        if self.wide.n_links(entity) < n:
            raise NoGround
        parts = [self._last(entity, edge, draw)]
        sets = [self._set(parts[0])]
        if len(sets[0]) < least + (n > 1):
            raise NoGround
        for _ in range(4 * n):
            link = self.wide.draw(entity, draw)
            if link is None:
                break
            part = project(Anchor(link[1]), link[0])
            if any(part.source == other.source for other in parts):
                continue
            tried = [*sets, self._set(part)]
            if not _all_matter(tried) or len(tried[0].intersection(*tried[1:])) < least:
                continue
            if self.again(link[1]):
                parts.append(part)
                sets = tried
                if len(parts) == n:
                    return Intersect(tuple(draw.shuffled(parts)))
        raise NoGround

    def _set(self, plan: Project) -> frozenset[int]:
        return members(plan, self._graph)

    def _inner(self, entity: int, edge: int, draw: Draw) -> tuple[int, int]:
        """Return the source of the last relation, and an edge that leads into it."""
        at = self._source(entity, edge, draw)
        link = self.wide.draw(at, draw, without=edge ^ 1)
        if link is None:
            raise NoGround
        return at, link[0]

    def _meet_then(self, entity: int, edge: int, draw: Draw) -> SetPlan:
        at, before = self._inner(entity, edge, draw)
        return project(self._meet(at, before, draw, 2), edge)

    def _chain_meet(self, entity: int, edge: int, draw: Draw) -> SetPlan:
        parts = [self.chain(entity, edge, draw, 2), self.single(entity, draw)]
        return Intersect(tuple(draw.shuffled(parts)))

    def _join(self, entity: int, edge: int, draw: Draw) -> SetPlan:
        first = self._last(entity, edge, draw)
        relation, inverse = divmod(edge, 2)
        if draw.chance(0.5):
            sources = self._graph.heads(relation, bool(inverse))
            other: SetPlan = project(self.anchor(draw.choose(sources.tolist())), edge)
        else:
            kind = self._graph.type_of(entity)
            fellows = members(first, self._graph) if kind < 0 else ()
            pool = self._graph.members_of(kind).tolist() if kind >= 0 else sorted(fellows)
            other = self.single(draw.choose(pool), draw)
        return Unite(tuple(draw.shuffled([first, other])))

    def _join_then(self, entity: int, edge: int, draw: Draw) -> SetPlan:
        at, before = self._inner(entity, edge, draw)
        return project(self._join(at, before, draw), edge)

    def _differ(self, keep: SetPlan, entity: int, draw: Draw, n: int = 1) -> SetPlan:
        """Take from a set a chain of ``n`` relations that leads to another member of it."""
        others = sorted(members(keep, self._graph) - {entity})
        if not 0 < len(others) <= self._limits.items:
            raise NoGround
        for _ in range(3):
            other = draw.choose(others)
            link = (self.wide if n == 1 else self.narrow).draw(other, draw)
            if link is None:
                continue
            edge, source = link
            remove = (
                project(self.anchor(source), edge) if n == 1 else self.chain(other, edge, draw, n)
            )
            if entity not in members(remove, self._graph):
                return Subtract(keep, remove)
        raise NoGround

    def _differ_then(self, entity: int, edge: int, draw: Draw) -> SetPlan:
        at, before = self._inner(entity, edge, draw)
        return project(self._differ(self._last(at, before, draw), at, draw), edge)

    def _count(self, entity: int, edge: int, draw: Draw) -> Plan:
        form = draw.choose(("1p", "1p", "2p", "2i", "2in"))
        inner = self.plan(form, entity, edge, draw)
        return Count(inner)  # type: ignore[arg-type]


def project(source: SetPlan, edge: int) -> Project:
    """Return what a set has by an edge."""
    return Project(source, edge >> 1, bool(edge & 1))


def _all_matter(sets: list[frozenset[int]]) -> bool:
    """Return whether each set takes something away from what the others have in common."""
    common = sets[0].intersection(*sets[1:])
    return all(
        len(others[0].intersection(*others[1:])) > len(common)
        for others in combinations(sets, len(sets) - 1)
    )


def _is_single(plan: SetPlan) -> bool:
    return isinstance(plan, Project) and isinstance(plan.source, Anchor)

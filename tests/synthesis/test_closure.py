"""The closure search against an enumeration of all sets that can be made."""

import itertools

import numpy as np
import pytest

from transforms.synthesis.closure import Steps, derive
from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Count,
    Filter,
    Intersect,
    Plan,
    Project,
    Subtract,
    Top,
    Unite,
    Value,
    attributes,
    depth,
    evaluate,
    relations,
)
from transforms.synthesis.synthetic_graph import synthetic_graph


@pytest.fixture(scope="module")
def graph() -> Graph:
    return synthetic_graph(11, 1)


def enumerated(graph: Graph, starts: set[int], steps: Steps, levels: int) -> set[frozenset[int]]:
    """All sets of at most ``levels`` operations, with nothing left out."""
    sets = {frozenset((one,)) for one in starts}
    for _ in range(levels):
        more = set(sets)
        for one in sets:
            for relation, inverse in steps.edges:
                targets = [graph.targets(e, relation, inverse).tolist() for e in one]
                more.add(frozenset(itertools.chain.from_iterable(targets)))
        for one, other in itertools.combinations(sets, 2):
            more |= {one & other, one | other, one - other, other - one}
        sets = more - {frozenset()}
    return sets


def a_plan(graph: Graph, draw: Draw) -> Plan:
    """A plan of depth 1 or 2 with an answer."""

    def step(entity: int) -> Project:
        return Project(Anchor(entity), *draw.choose(graph.edges_of(entity)))

    walkable = [e for e in range(graph.n_entities) if graph.edges_of(e)]
    one, two = (step(draw.choose(walkable)) for _ in range(2))
    kind = draw.below(4)
    if kind == 0:
        return one
    if kind == 1:
        middle = int(evaluate(one, graph)[0])
        return Project(one, *draw.choose(graph.edges_of(middle)))
    return Unite((one, two)) if kind == 2 else Subtract(one, two)


@pytest.mark.parametrize("seed", range(3))
def test_finds_what_an_enumeration_finds(graph: Graph, seed: int) -> None:
    """With any steps: a plan is found exactly where the answer is among all sets, and gives it."""
    draw = Draw(seed, "closure")
    outcomes = []
    while len(outcomes) < 25:
        plan = a_plan(graph, draw)
        goal = frozenset(evaluate(plan, graph).tolist())
        if not goal:
            continue
        own = relations(plan)
        edges = {(draw.below(len(graph.relations)), draw.chance(0.5)) for _ in range(2)}
        edges |= {one for one in own if draw.chance(0.7)}
        steps = Steps(frozenset(edges))
        starts = {one.entity for one in _anchors(plan)}
        found = derive(plan, graph, steps)
        if len(enumerated(graph, starts, steps, depth(plan))) > 300:
            continue
        known = enumerated(graph, starts, steps, depth(plan) + 1)
        assert (found.plan is not None) == (goal in known)
        if found.plan is None:
            assert found.decided
        else:
            assert frozenset(evaluate(found.plan, graph).tolist()) == goal
            assert set(relations(found.plan)) <= edges
            assert depth(found.plan) <= depth(plan) + 1
        outcomes.append(found.plan is not None)
    assert 3 < sum(outcomes) < 25


def _anchors(plan: Plan) -> list[Anchor]:
    if isinstance(plan, Anchor):
        return [plan]
    parts = getattr(plan, "parts", None) or [
        getattr(plan, name) for name in ("source", "keep", "remove") if hasattr(plan, name)
    ]
    return [one for part in parts for one in _anchors(part)]


def test_numbers_and_conditions(graph: Graph) -> None:
    """Counts, values, filters and rankings are found with their attribute, and not without."""
    number = [one.id for one in graph.attributes].index("height")
    relation = [one.id for one in graph.relations].index("stars")
    film = next(
        one
        for one in graph.heads(relation).tolist()
        if sum(graph.value(e, number) is not None for e in graph.targets(one, relation)) > 2
    )
    cast = Project(Anchor(film), relation)
    heights = sorted(
        h for e in graph.targets(film, relation) if (h := graph.value(e, number)) is not None
    )
    tall = Filter(cast, number, "min", heights[1])
    whole = Steps(frozenset({(relation, False)}), frozenset({number}))
    born = [one.id for one in graph.relations].index("born_in")
    person = graph.holders(number).tolist()
    plans: list[Plan] = [
        tall,
        Top(cast, number, 1, True),
        Count(tall),
        Value(Anchor(person[0]), number),
        Compare(Value(Anchor(person[0]), number), Value(Anchor(person[1]), number), True),
    ]
    for plan in plans:
        found = derive(plan, graph, whole)
        assert found.plan is not None
        assert attributes(found.plan)
        wanted = evaluate(plan, graph)
        assert np.array_equal(evaluate(found.plan, graph), wanted)
        without = derive(plan, graph, Steps(frozenset({(relation, False), (born, False)})))
        assert (without.plan, without.decided) == (None, True)


def test_three_parts_take_one_more_operation(graph: Graph) -> None:
    """An intersection of three is found as two of two; too small a budget is told."""
    relation = [one.id for one in graph.relations].index("stars")
    person = next(e for e in range(graph.n_entities) if len(graph.targets(e, relation, True)) > 3)
    films = graph.targets(person, relation, True).tolist()[:3]
    plan = Intersect(tuple(Project(Anchor(film), relation) for film in films))
    steps = Steps(frozenset({(relation, False)}))
    found = derive(plan, graph, steps)
    assert found.plan is not None
    assert np.array_equal(evaluate(found.plan, graph), evaluate(plan, graph))
    unknown = derive(plan, graph, steps, most_sets=3)
    assert unknown.plan is None
    assert not unknown.decided


def test_tools_are_read_as_steps(graph: Graph) -> None:
    """Operations by number and by id are the same steps; set tools and others are none."""
    by_number = [
        ("project", 2, True),
        ("deprecated", "project", 1, False),
        ("filter", 0),
        ("value", 3),
        ("top", 3),
        ("intersect",),
        ("search",),
    ]
    relations, attributes = graph.relations, graph.attributes
    by_id = [
        ["inverse", relations[2].id],
        ["deprecated", "project", relations[1].id],
        ["filter", attributes[0].id],
        ["value", attributes[3].id],
        ["top", attributes[3].id],
        ["intersect"],
        ["search"],
    ]
    wanted = Steps(frozenset({(2, True), (1, False)}), frozenset({0, 3}))
    assert Steps.of(by_number) == wanted
    assert Steps.named(by_id, graph) == wanted

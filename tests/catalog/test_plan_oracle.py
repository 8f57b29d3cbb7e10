"""The SQL oracle against the evaluation of plans, on synthetic graphs."""

import numpy as np
import pytest

from catalog.tables import PlanOracle
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
    SetPlan,
    Subtract,
    Top,
    Unite,
    Value,
    evaluate,
)
from transforms.synthesis.synthetic_graph import synthetic_graph


def a_set(graph: Graph, draw: Draw, depth: int) -> SetPlan:
    """A random set, walked along edges that exist, so that it is seldom empty."""
    kind = draw.below(9) if depth else 0
    if kind <= 3:
        source = a_set(graph, draw, depth - 1) if depth > 1 and draw.chance(0.6) else None
        found = evaluate(source, graph) if source is not None else np.empty(0)
        if source is None or not len(found):
            entity = draw.below(graph.n_entities)
            if not depth or not graph.edges_of(entity):
                return Anchor(entity)
            return Project(Anchor(entity), *draw.choose(graph.edges_of(entity)))
        edges = graph.edges_of(int(draw.choose(found.tolist())))
        return Project(source, *draw.choose(edges)) if edges else source
    parts = tuple(a_set(graph, draw, depth - 1) for _ in range(2 + draw.below(2)))
    if kind == 4:
        return Intersect(parts)
    if kind == 5:
        return Unite(parts)
    if kind == 6:
        return Subtract(Unite(parts), parts[0])
    attribute = draw.below(len(graph.attributes))
    if kind == 7:
        return Top(Unite(parts), attribute, 1 + draw.below(3), draw.chance(0.5))
    value = draw.choose(graph.values_of(attribute))
    op = "is" if graph.attributes[attribute].kind == "text" else draw.choose(("min", "max"))
    return Filter(Unite(parts), attribute, op, value)


def a_plan(graph: Graph, draw: Draw) -> Plan:
    kind = draw.below(8)
    one = a_set(graph, draw, 1 + draw.below(3))
    attribute = draw.below(len(graph.attributes))
    if kind == 0:
        return Count(one)
    if kind == 1:
        return Value(one, attribute)
    if kind == 2:
        left, right = (Anchor(draw.below(graph.n_entities)) for _ in range(2))
        edge = (draw.below(len(graph.relations)), draw.chance(0.5))
        sides = Count(Project(left, *edge)), Count(Project(right, *edge))
        return Compare(*sides, draw.chance(0.5))
    if kind == 3:
        holders = graph.holders(attribute).tolist()
        sides = (
            Value(Anchor(draw.choose(holders)), attribute),
            Value(Anchor(draw.choose([*holders, 0])), attribute),
        )
        return Compare(*sides, draw.chance(0.5))
    return one


@pytest.mark.parametrize("seed", [1, 2])
def test_sql_answers_as_evaluation_does(seed: int) -> None:
    """Random plans with every operation: SQL and evaluation give the same, of the same type."""
    graph = synthetic_graph(seed, 2)
    draw = Draw(seed, "oracle")
    plans = [a_plan(graph, draw) for _ in range(150)]
    oracle = PlanOracle(graph)
    sizes = 0
    for plan, found in zip(plans, oracle.answers(plans), strict=True):
        wanted = evaluate(plan, graph)
        assert type(found) is type(wanted), plan
        if isinstance(wanted, np.ndarray):
            assert found.dtype == wanted.dtype
            assert found.tolist() == wanted.tolist(), plan
            sizes += len(wanted) > 0
        else:
            assert found == wanted, plan
    assert sizes > 40
    assert oracle.answers([]) == []
    oracle.close()


def test_a_missing_fact_changes_the_answer_of_sql() -> None:
    """The oracle's answers come from the facts: without one of them the answer lacks it."""
    graph = synthetic_graph(7, 1)
    head, relation = next(
        (e, r) for e in range(graph.n_entities) for r, i in graph.edges_of(e) if not i
    )
    plan = Project(Anchor(head), relation)
    oracle = PlanOracle(graph)
    (before,) = oracle.answers([plan])
    oracle._connection.execute(
        "DELETE FROM edges WHERE edge = ? AND source = ? AND target = ?",
        [2 * relation, head, int(before[0])],
    )
    (after,) = oracle.answers([plan])
    assert after.tolist() == before.tolist()[1:]

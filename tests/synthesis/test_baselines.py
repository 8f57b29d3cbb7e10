"""Baselines by hand, the labels of difficulty, and refusals that nobody can answer."""

import functools

import numpy as np
import pytest

from transforms.synthesis.baselines import OneHop, RandomTools, operations
from transforms.synthesis.build import generate
from transforms.synthesis.draw import Draw
from transforms.synthesis.limits import Limits
from transforms.synthesis.plan import Anchor, Count, Intersect, Project, evaluate
from transforms.synthesis.plan_text import Numbers, parse
from transforms.synthesis.replay import tools_of
from transforms.synthesis.scene import Kit
from transforms.synthesis.synthetic_graph import synthetic_graph

WALKS = ("1p", "2p", "3p", "2i", "2u", "count")


@functools.cache
def kit():
    """A small graph, with sentences that have no grammar."""
    from small_voice import SmallVoice

    graph = synthetic_graph(seed=5, size=6)
    return Kit(graph, SmallVoice(graph), "en", 3, Limits())


def records(scenario, patterns=WALKS, each=12):
    """Records of one scenario."""
    made = [
        generate(kit(), pattern, scenario, n).record for pattern in patterns for n in range(each)
    ]
    return [record for record in made if record is not None]


def answer_of(plan):
    found = evaluate(plan, kit().graph)
    return frozenset(found.tolist()) if isinstance(found, np.ndarray) else found


def solved(record, trials):
    """How often calls by chance answer a record."""
    numbers = Numbers.of(kit().graph)
    plan = parse(record.turns[0].get("asked", record.plan), numbers)
    ops = [tool.op for tool in tools_of(record, numbers)]
    solver = RandomTools(kit().graph, kit().sampler.step)
    return solver.share(plan, ops, answer_of(plan), Draw(1, record.record_id), trials)


def test_one_tool_and_one_step_leave_no_choice():
    """With the one needed tool chance is always right; with two it is half of the time."""
    graph, step = kit().graph, kit().sampler.step
    relation = next(n for n, one in enumerate(graph.relations) if len(graph.heads(n)))
    plan = Project(Anchor(int(graph.heads(relation)[0])), relation, False)
    solver = RandomTools(graph, step)
    op = ("project", relation, False)

    assert solver.share(plan, [op], answer_of(plan), Draw(1), 50) == 1
    beside = solver.share(plan, [op, ("deprecated", *op)], answer_of(plan), Draw(1), 2000)
    assert beside == pytest.approx(0.5, abs=0.05)
    assert solver.share(plan, [], answer_of(plan), Draw(1), 50) == 0


def test_operations_are_counted_once():
    """A part that stands twice in a plan is done once; naming an entity is no operation."""
    walk = Project(Anchor(1), 0, False)
    assert operations(Anchor(1)) == 0
    assert operations(Intersect((walk, Project(Anchor(2), 0, False)))) == 3
    assert operations(Count(Intersect((walk, walk)))) == 3


def test_the_one_hop_solver_goes_by_words():
    """It calls the tool whose description has the question's words, and meets the sets it gets."""
    graph, step = kit().graph, kit().sampler.step
    relation = next(n for n in range(len(graph.relations)) if len(graph.heads(n)) > 1)
    one, other = (int(entity) for entity in graph.heads(relation)[:2])
    tools = [
        {"function": {"name": "weather", "description": "rain and sun"}},
        {"function": {"name": "findColours", "description": "colours of a thing"}},
    ]
    ops = [("project", relation, True), ("project", relation, False)]
    solver = OneHop(graph, step)

    walk = Project(Anchor(one), relation, False)
    assert solver.answer(walk, "Which colours?", tools, ops) == step(one, relation, False)
    both = Intersect((walk, Project(Anchor(other), relation, False)))
    expected = step(one, relation, False) & step(other, relation, False)
    assert solver.answer(both, "Which colours?", tools, ops) == expected
    assert solver.answer(walk, "Which colours?", tools, [("count",), ("count",)]) is None


def test_chance_answers_less_the_more_is_asked():
    """Success falls with hops, and with tools that are not needed."""
    plain = records("plain", ("1p", "2p", "3p"), each=25)
    by_hops = [
        np.mean([solved(one, 30) for one in plain if one.labels["hops"] == hops])
        for hops in (1, 2, 3)
    ]
    beside = [solved(one, 30) for one in records("distractors_random", ("1p",), each=25)]

    assert by_hops[0] > by_hops[1] > by_hops[2]
    assert by_hops[0] > np.mean(beside)


@pytest.mark.parametrize("scenario", ["missing_tool", "partial_tool"])
def test_what_is_refused_is_never_found_by_chance(scenario):
    """Many tries with the tools at hand do not answer a question that the assistant refuses."""
    # Numbers are left out: another set may be as large.
    patterns = WALKS[:-1] if scenario == "missing_tool" else ("2p", "3p", "ip", "2u", "up", "inp")
    refused = records(scenario, patterns)

    assert len(refused) > 20
    assert [one.record_id for one in refused if solved(one, 200)] == []

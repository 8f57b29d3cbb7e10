"""The sampler: every accepted plan keeps the rules, judged by an evaluation of its own."""

from itertools import combinations

import pytest

from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.limits import Limits
from transforms.synthesis.plan import (
    FOURTEEN,
    PATTERNS,
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
    anchors,
    canonical,
    children,
    evaluate,
    hops,
)
from transforms.synthesis.sampler import Sampler
from transforms.synthesis.synthetic_graph import synthetic_graph
from transforms.synthesis.validity import removable

N = 40
LIMITS = Limits()


@pytest.fixture(scope="module")
def graph() -> Graph:
    return synthetic_graph(3, 12)


@pytest.fixture(scope="module")
def sampler(graph: Graph) -> Sampler:
    return Sampler(graph, LIMITS, 5)


def _plans(sampler: Sampler, pattern: str, n: int = N) -> list[Plan]:
    found = [sampler.draw(pattern, place, Draw(5, "test", pattern, place)) for place in range(n)]
    return [sample.plan for sample in found if sample is not None]


SHAPES = {
    "1p": "p(a)",
    "2p": "p(p(a))",
    "3p": "p(p(p(a)))",
    "2i": "i(p(a),p(a))",
    "3i": "i(p(a),p(a),p(a))",
    "ip": "p(i(p(a),p(a)))",
    "pi": "i(p(a),p(p(a)))",
    "2u": "u(p(a),p(a))",
    "up": "p(u(p(a),p(a)))",
    "2in": "s(p(a),p(a))",
    "3in": "s(i(p(a),p(a)),p(a))",
    "inp": "p(s(p(a),p(a)))",
    "pin": "s(p(p(a)),p(a))",
    "pni": "s(p(a),p(p(a)))",
}
_LETTERS = {Project: "p", Intersect: "i", Unite: "u", Subtract: "s"}


def _shape(plan: Plan) -> str:
    if isinstance(plan, Anchor):
        return "a"
    parts = [_shape(part) for part in children(plan)]
    if isinstance(plan, Intersect | Unite):
        parts.sort()
    return f"{_LETTERS[type(plan)]}({','.join(parts)})"


@pytest.mark.parametrize("pattern", FOURTEEN)
def test_patterns_have_their_shapes(sampler: Sampler, pattern: str) -> None:
    """A plan of a pattern is the tree that the pattern names."""
    plans = _plans(sampler, pattern)
    if pattern != "3i":  # three sets that hardly ever meet in a graph as thin as this one
        assert len(plans) > N // 2
    assert {_shape(plan) for plan in plans} <= {SHAPES[pattern]}


def _facts(graph: Graph) -> set[tuple[int, int, int]]:
    tables = graph.tables
    rows = zip(tables.head.tolist(), tables.relation.tolist(), tables.tail.tolist(), strict=True)
    return set(rows)


def _answer(plan: Plan, facts: dict[tuple[int, int, bool], set[int]], graph: Graph) -> set[int]:
    """Answer a plan over a dictionary of facts."""
    match plan:
        case Anchor(entity):
            return {entity}
        case Project(source, relation, inverse):
            found: set[int] = set()
            for entity in _answer(source, facts, graph):
                found |= facts.get((entity, relation, inverse), set())
            return found
        case Intersect(parts):
            return set.intersection(*(_answer(part, facts, graph) for part in parts))
        case Unite(parts):
            return set.union(*(_answer(part, facts, graph) for part in parts))
        case Subtract(keep, remove):
            return _answer(keep, facts, graph) - _answer(remove, facts, graph)
        case Filter(source, attribute, op, value):
            tests = {"min": lambda v: v >= value, "max": lambda v: v <= value}
            test = tests.get(op, lambda v: v == value)
            return {
                e
                for e in _answer(source, facts, graph)
                if (v := graph.value(e, attribute)) is not None and test(v)
            }
        case Top(source, attribute, k, largest):
            known = [e for e in _answer(source, facts, graph) if graph.value(e, attribute)]
            known.sort(key=lambda e: graph.value(e, attribute), reverse=largest)
            return set(known[:k])
    raise AssertionError(plan)


@pytest.fixture(scope="module")
def index(graph: Graph) -> dict[tuple[int, int, bool], set[int]]:
    found: dict[tuple[int, int, bool], set[int]] = {}
    for head, relation, tail in _facts(graph):
        found.setdefault((head, relation, False), set()).add(tail)
        found.setdefault((tail, relation, True), set()).add(head)
    return found


@pytest.mark.parametrize("pattern", [p for p in PATTERNS if p not in ("compare", "value")])
def test_answers_are_neither_empty_nor_large(
    sampler: Sampler, graph: Graph, index: dict[tuple[int, int, bool], set[int]], pattern: str
) -> None:
    """Answers have 1 to the most entities, and name no anchor; sets in between keep to the caps."""
    for plan in _plans(sampler, pattern):
        top = plan.source if isinstance(plan, Count) else plan
        found = _answer(top, index, graph)
        assert 0 < len(found) <= LIMITS.answers
        assert not found & set(anchors(plan))
        waiting = [top]
        while waiting:
            part = waiting.pop()
            assert len(_answer(part, index, graph)) <= LIMITS.items
            if isinstance(part, Project):
                assert len(_answer(part.source, index, graph)) <= LIMITS.fan_out
                below = part.source
                if isinstance(below, Project) and below.relation == part.relation:
                    assert below.inverse == part.inverse
            waiting += children(part)


def _reduced(plan: Plan) -> list[Plan]:
    """Return what is left of a plan when one of its operations of sets is left out."""
    found: list[Plan] = []
    match plan:
        case Anchor():
            return []
        case Intersect(parts) | Unite(parts):
            for rest in combinations(parts, len(parts) - 1):
                found.append(type(plan)(rest) if len(rest) > 1 else rest[0])
            for place, part in enumerate(parts):
                for inner in _reduced(part):
                    found.append(type(plan)((*parts[:place], inner, *parts[place + 1 :])))
        case Subtract(keep, remove):
            found.append(keep)
            found += [Subtract(inner, remove) for inner in _reduced(keep)]
            found += [Subtract(keep, inner) for inner in _reduced(remove)]
        case Project(source, relation, inverse):
            found += [Project(inner, relation, inverse) for inner in _reduced(source)]
        case Filter() | Top():
            found.append(plan.source)
    return found


@pytest.mark.parametrize("pattern", [p for p in PATTERNS if p not in ("compare", "value")])
def test_every_operation_matters(
    sampler: Sampler, graph: Graph, index: dict[tuple[int, int, bool], set[int]], pattern: str
) -> None:
    """The answer is another one where an operation of sets is left out, however deep it lies."""
    for plan in _plans(sampler, pattern):
        top = plan.source if isinstance(plan, Count) else plan
        found = _answer(top, index, graph)
        for rest in _reduced(top):
            other = _answer(rest, index, graph)
            assert len(other) != len(found) if isinstance(plan, Count) else other != found


@pytest.mark.parametrize("pattern", [p for p in FOURTEEN if p != "1p"])
def test_no_single_relation_answers(sampler: Sampler, graph: Graph, pattern: str) -> None:
    """No relation of an anchor gives the answer of a plan that needs more."""
    for plan in _plans(sampler, pattern):
        found = evaluate(plan, graph).tolist()
        for entity in anchors(plan):
            for relation in range(len(graph.relations)):
                for inverse in (False, True):
                    assert graph.targets(entity, relation, inverse).tolist() != found


def test_plans_depend_on_their_place_alone(graph: Graph) -> None:
    """Another sampler that draws the places backwards, and others between, draws the same plans."""
    one, other = Sampler(graph, LIMITS, 5), Sampler(graph, LIMITS, 5)
    cells = [(pattern, place) for pattern in PATTERNS for place in range(5)]
    first = {cell: one.draw(*cell, Draw(9, *cell)) for cell in cells}
    for cell in reversed(cells):
        other.draw("2p", 77, Draw(1, "between"))
        assert other.draw(*cell, Draw(9, *cell)) == first[cell]


def test_seeds_draw_different_plans(graph: Graph) -> None:
    """Two seeds have few plans in common."""
    texts = []
    for seed in (1, 2):
        sampler = Sampler(graph, LIMITS, seed)
        found = [sampler.draw("2i", place, Draw(seed, place)) for place in range(60)]
        texts.append({canonical(sample.plan, graph) for sample in found if sample})
    assert len(texts[0] & texts[1]) < 10


def test_places_of_a_pattern_start_apart(sampler: Sampler, graph: Graph) -> None:
    """The places of 1p hardly repeat a plan, and go round all relations in both directions."""
    plans = _plans(sampler, "1p", 300)
    assert len({canonical(plan, graph) for plan in plans}) > 250
    assert len({(plan.relation, plan.inverse) for plan in plans}) > 2 * len(graph.relations) - 6


def test_redundant_calls_are_found(sampler: Sampler, graph: Graph) -> None:
    """Of a two-step plan, a call is removable exactly where its results are found without it."""
    seen = set()
    for plan in _plans(sampler, "2p", 120):
        middle = evaluate(plan.source, graph).tolist()
        whole = set(evaluate(plan, graph).tolist())
        parts = {e: set(graph.targets(e, plan.relation, plan.inverse).tolist()) for e in middle}
        expected = any(set().union(*(parts[o] for o in middle if o != e)) == whole for e in middle)
        assert removable(plan, graph, sampler.step) == expected
        seen.add(expected)
    assert seen == {True, False}


def test_tops_and_filters_part_a_set(sampler: Sampler, graph: Graph) -> None:
    """Every entity of the set has the value, no tie is cut, the filter takes something away."""
    for plan in _plans(sampler, "top"):
        values = [graph.value(e, plan.attribute) for e in evaluate(plan.source, graph).tolist()]
        assert None not in values
        values.sort(reverse=plan.largest)
        assert len(values) > plan.k
        assert values[plan.k - 1] != values[plan.k]
    for plan in _plans(sampler, "filter"):
        assert 0 < len(evaluate(plan, graph)) < len(evaluate(plan.source, graph))


def test_long_plans_have_a_long_part() -> None:
    """The part that is to be long has as many entities as asked, the answer few."""
    graph = synthetic_graph(4, 30)
    limits = Limits(long_least=30)
    sampler = Sampler(graph, limits, 5)
    samples = [sampler.draw("2i", place, Draw(5, place), long=True) for place in range(30)]
    found = [sample for sample in samples if sample is not None]
    assert len(found) > 10
    for sample in found:
        assert sample.long in sample.plan.parts
        assert len(evaluate(sample.long, graph)) >= 30
        assert 0 < len(evaluate(sample.plan, graph)) <= limits.answers


def test_complete_graphs_are_believed_and_others_are_directories(graph: Graph) -> None:
    """Where relations are declared complete a difference rests on it; else on the directory."""
    sampler = Sampler(graph, LIMITS, 5)
    found = [sampler.draw("2in", place, Draw(5, place)) for place in range(20)]
    assert {sample.assumption for sample in found if sample} == {"declared"}
    ones = [sampler.draw("2p", place, Draw(5, place)) for place in range(5)]
    assert {sample.assumption for sample in ones if sample} == {"none"}


def test_numbers_and_values(sampler: Sampler, graph: Graph) -> None:
    """Counts are at least two, compared numbers differ, values are there."""
    for plan in _plans(sampler, "count"):
        assert evaluate(plan, graph) >= 2
    for plan in _plans(sampler, "compare"):
        assert isinstance(plan, Compare)
        assert len(evaluate(plan, graph)) == 1
        assert len(set(anchors(plan))) == 2
    for plan in _plans(sampler, "value"):
        assert isinstance(plan, Value)
        assert evaluate(plan, graph) is not None
        assert hops(plan) <= 1

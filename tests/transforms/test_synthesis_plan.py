"""Plans: evaluation against a plain reading of the definitions, and their canonical text."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from small_graph import Name, SmallGraph

from transforms.synthesis.draw import Draw
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
    anchors,
    canonical,
    depth,
    evaluate,
    hops,
    n_calls,
)
from transforms.synthesis.plan_text import Numbers, parse

N_ENTITIES, N_RELATIONS, N_ATTRIBUTES = 8, 3, 2


@st.composite
def graphs(draw: st.DrawFn) -> SmallGraph:
    fact = st.tuples(
        st.integers(0, N_ENTITIES - 1),
        st.integers(0, N_RELATIONS - 1),
        st.integers(0, N_ENTITIES - 1),
    )
    place = st.tuples(st.integers(0, N_ENTITIES - 1), st.integers(0, N_ATTRIBUTES - 1))
    return SmallGraph(
        [f"e{n}" for n in range(N_ENTITIES)],
        [Name(f"r{n}") for n in range(N_RELATIONS)],
        draw(st.sets(fact, max_size=40)),
        [Name(f"a{n}") for n in range(N_ATTRIBUTES)],
        draw(st.dictionaries(place, st.integers(0, 5).map(float), max_size=12)),
    )


ANCHORS = st.builds(Anchor, st.integers(0, N_ENTITIES - 1))
RELATIONS = st.integers(0, N_RELATIONS - 1)
ATTRIBUTES = st.integers(0, N_ATTRIBUTES - 1)


def _grow(inner: st.SearchStrategy[Plan]) -> st.SearchStrategy[Plan]:
    parts = st.lists(inner, min_size=2, max_size=3).map(tuple)
    value = st.integers(0, 5).map(float)
    return st.one_of(
        st.builds(Project, inner, RELATIONS, st.booleans()),
        st.builds(Intersect, parts),
        st.builds(Unite, parts),
        st.builds(Subtract, inner, inner),
        st.builds(Filter, inner, ATTRIBUTES, st.sampled_from(["min", "max", "is"]), value),
        st.builds(Top, inner, ATTRIBUTES, st.integers(1, 3), st.booleans()),
    )


SETS = st.recursive(ANCHORS, _grow, max_leaves=5)
COUNTS = st.builds(Count, SETS)
COMPARISONS = st.tuples(
    st.integers(0, N_ENTITIES - 1), st.integers(0, N_ENTITIES - 1), RELATIONS, st.booleans()
).map(
    lambda t: Compare(Count(Project(Anchor(t[0]), t[2])), Count(Project(Anchor(t[1]), t[2])), t[3])
)
PLANS = st.one_of(SETS, COUNTS, COMPARISONS, st.builds(Value, ANCHORS, ATTRIBUTES))


def _holds(plan: Plan, graph: SmallGraph, e: int) -> bool:
    """Say of one entity whether it answers a plan, straight from the logic of its operators."""
    match plan:
        case Anchor(entity):
            return e == entity
        case Project(source, relation, inverse):
            pairs = [(t, h) if inverse else (h, t) for h, r, t in graph.facts if r == relation]
            return any(there == e and _holds(source, graph, here) for here, there in pairs)
        case Intersect(parts):
            return all(_holds(part, graph, e) for part in parts)
        case Unite(parts):
            return any(_holds(part, graph, e) for part in parts)
        case Subtract(keep, remove):
            return _holds(keep, graph, e) and not _holds(remove, graph, e)
        case Filter(source, attribute, op, value):
            own = graph.values.get((e, attribute))
            if own is None or not _holds(source, graph, e):
                return False
            return {"min": own >= value, "max": own <= value, "is": own == value}[op]
        case Top(source, attribute, k, largest):
            own = graph.values.get((e, attribute))
            if own is None or not _holds(source, graph, e):
                return False
            rivals = [
                (graph.values[(x, attribute)], -x)
                for x in range(N_ENTITIES)
                if (x, attribute) in graph.values and _holds(source, graph, x)
            ]
            sign = 1 if largest else -1
            before = [r for r in rivals if (sign * r[0], r[1]) > (sign * own, -e)]
            return len(before) < k
    raise AssertionError(plan)


@settings(max_examples=300, deadline=None)
@given(graphs(), SETS)
def test_sets_hold_what_the_logic_says(graph: SmallGraph, plan: Plan) -> None:
    """Every entity is in the answer exactly where the plan's logic holds for it."""
    expected = [e for e in range(N_ENTITIES) if _holds(plan, graph, e)]
    found = evaluate(plan, graph)
    assert isinstance(found, np.ndarray)
    assert found.dtype == np.int32
    assert found.tolist() == expected


@settings(max_examples=100, deadline=None)
@given(graphs(), COMPARISONS)
def test_comparison_names_the_larger_side(graph: SmallGraph, plan: Compare) -> None:
    """The winner has the larger (smaller) number; equal numbers have no winner."""
    left, right = (evaluate(side, graph) for side in (plan.left, plan.right))
    found = evaluate(plan, graph)
    assert isinstance(left, int)
    assert isinstance(right, int)
    if left == right:
        assert len(found) == 0
    else:
        side = plan.left if (left > right) == plan.largest else plan.right
        assert found.tolist() == anchors(side)


@settings(max_examples=200, deadline=None)
@given(graphs(), PLANS)
def test_canonical_text_reads_back(graph: SmallGraph, plan: Plan) -> None:
    """A plan read from its text has the same text and the same answer."""
    text = canonical(plan, graph)
    again = parse(text, Numbers.of(graph))
    assert canonical(again, graph) == text
    one, other = evaluate(plan, graph), evaluate(again, graph)
    assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


@settings(max_examples=100, deadline=None)
@given(graphs(), st.lists(SETS, min_size=3, max_size=3))
def test_order_of_equal_parts_does_not_count(graph: SmallGraph, parts: list[Plan]) -> None:
    """Intersections and unions have one text for all orders; a difference has two."""
    for kind in (Intersect, Unite):
        texts = {canonical(kind(order), graph) for order in itertools.permutations(parts)}
        assert len(texts) == 1
    one, other = parts[0], parts[1]
    same = canonical(one, graph) == canonical(other, graph)
    swapped = canonical(Subtract(one, other), graph) == canonical(Subtract(other, one), graph)
    assert swapped == same


def test_measures_of_a_plan() -> None:
    """Hops count relations, depth counts operations, calls count the entities in between."""
    facts = {(0, 0, 1), (0, 0, 2), (1, 1, 3), (2, 1, 4), (5, 0, 3)}
    graph = SmallGraph([f"e{n}" for n in range(8)], [Name("r0"), Name("r1")], facts)
    two = Project(Project(Anchor(0), 0), 1)
    both = Intersect((two, Project(Anchor(5), 0)))
    assert (hops(two), depth(two), n_calls(two, graph), n_calls(two, graph, batch=True)) == (
        2,
        2,
        3,
        2,
    )
    assert (hops(both), depth(both), n_calls(both, graph)) == (2, 3, 5)
    assert n_calls(Count(both), graph) == 6


@given(st.integers(0, 2**64 - 1), st.lists(st.one_of(st.integers(0, 9), st.text(max_size=3))))
def test_draws_depend_on_seed_and_keys_alone(seed: int, keys: list[int | str]) -> None:
    """Equal seeds and keys give equal streams; a child does not see what its parent took."""
    one, other = Draw(seed, *keys), Draw(seed, *keys)
    one.bits()
    assert one.child("x").bits() == other.child("x").bits()
    assert one.bits() == [other.bits(), other.bits()][1]


def test_draws_are_uniform() -> None:
    """Numbers below n come equally often (chi-square), and samples are permutations."""
    draw = Draw(3, "uniform")
    n, trials = 10, 20_000
    counts = np.bincount([draw.below(n) for _ in range(trials)], minlength=n)
    assert ((counts - trials / n) ** 2 / (trials / n)).sum() < 40
    first = np.bincount([draw.shuffled(range(5))[0] for _ in range(trials)], minlength=5)
    assert ((first - trials / 5) ** 2 / (trials / 5)).sum() < 30
    assert sorted(draw.sample(range(9), 20)) == list(range(9))

"""The graph in memory and its files, against plain dictionaries."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from transforms.record import RecordError
from transforms.synthesis.graph import Graph, name_key
from transforms.synthesis.graph_tables import main_types
from transforms.synthesis.synthetic_graph import synthetic_graph


@pytest.fixture(scope="module")
def graph() -> Graph:
    return synthetic_graph(seed=3, size=4)


def test_targets_are_those_of_a_plain_dictionary(graph: Graph) -> None:
    """Targets, heads, degrees and edges agree with dictionaries of the facts, both ways."""
    table = graph.tables
    out: dict[tuple[int, int, bool], set[int]] = defaultdict(set)
    rows = zip(table.relation.tolist(), table.head.tolist(), table.tail.tolist(), strict=True)
    for relation, head, tail in rows:
        out[head, relation, False].add(tail)
        out[tail, relation, True].add(head)
    for relation in range(len(graph.relations)):
        for inverse in (False, True):
            wanted = {e: out[e, relation, inverse] for e in range(graph.n_entities)}
            for entity, targets in wanted.items():
                assert graph.targets(entity, relation, inverse).tolist() == sorted(targets)
            heads = [e for e, targets in sorted(wanted.items()) if targets]
            assert graph.heads(relation, inverse).tolist() == heads
            assert graph.degrees(relation, inverse).tolist() == [len(wanted[e]) for e in heads]
    for entity in range(graph.n_entities):
        wanted_edges = {(r, i) for (e, r, i), targets in out.items() if e == entity and targets}
        edges = graph.edges_of(entity)
        assert set(edges) == wanted_edges
        assert len(edges) == len(wanted_edges)


def test_cardinalities_follow_from_the_facts(graph: Graph) -> None:
    """Functional, symmetric and complete flags agree with the facts counted one by one."""
    by_id = {one.id: (number, one) for number, one in enumerate(graph.relations)}
    for number, one in by_id.values():
        degrees = [len(graph.targets(e, number)) for e in range(graph.n_entities)]
        assert one.n_facts == sum(degrees)
        assert one.functional == (max(degrees) == 1)
    assert by_id["born_in"][1].functional
    assert not by_id["stars"][1].functional
    assert by_id["twin_town"][1].symmetric
    assert not by_id["friend_of"][1].symmetric
    assert all(one.complete and one.is_complete(True) for one in graph.relations)


def test_types_and_values(graph: Graph) -> None:
    """Members, types and values agree with each other, and each is what the generator gave."""
    for number, name in enumerate(graph.type_names):
        members = set(graph.members_of(number).tolist())
        assert members == {e for e in range(graph.n_entities) if number in graph.types_of(e)}
        if name != "agent":
            assert members == {
                e for e, one in enumerate(graph.entity_ids) if one.startswith(f"{name}/")
            }
    for number, attribute in enumerate(graph.attributes):
        holders = graph.holders(number).tolist()
        assert len(holders) == attribute.n_values > 0
        values = {e: graph.value(e, number) for e in range(graph.n_entities)}
        assert [e for e, value in values.items() if value is not None] == holders
        assert [values[e] for e in holders] == graph.values_of(number)
        kind = float if attribute.kind == "number" else str
        assert all(isinstance(values[e], kind) for e in holders)


def test_names_are_found_and_labels_differ(graph: Graph) -> None:
    """Every label names its entity alone among labels; shared aliases name all that bear them."""
    assert len({name_key(label) for label in graph.labels}) == graph.n_entities
    for entity, label in enumerate(graph.labels):
        assert entity in graph.named(label.upper())
        assert graph.number_of(graph.entity_ids[entity]) == entity
    shared = [graph.named(names[0]) for names in graph.aliases if names]
    assert any(len(found) > 1 for found in shared)
    assert graph.named("no such name") == ()


def test_written_and_read_again(graph: Graph, tmp_path: Path) -> None:
    """A graph read again answers the same, has the same fingerprint, and writes the same bytes."""
    graph.write(tmp_path / "a")
    again = Graph.read(tmp_path / "a")
    again.write(tmp_path / "b")
    assert again.fingerprint == graph.fingerprint == again.tables.fingerprint()
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "b").iterdir())
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert again.labels == graph.labels
    assert again.aliases == graph.aliases
    assert again.relations == graph.relations
    for entity in range(0, graph.n_entities, 7):
        assert again.edges_of(entity) == graph.edges_of(entity)
        assert again.types_of(entity) == graph.types_of(entity)
    with pytest.raises(RecordError, match="no normalized graph"):
        Graph.read(tmp_path)


def test_a_seed_makes_one_graph() -> None:
    """The same seed gives the same graph, another seed another one."""
    assert synthetic_graph(5, 1).fingerprint == synthetic_graph(5, 1).fingerprint
    assert synthetic_graph(5, 1).fingerprint != synthetic_graph(6, 1).fingerprint


def test_main_types_prefer_large_types_that_do_not_overlap() -> None:
    """Topics cut across people and films, actors are people; only people and films name."""
    topic, person, actor, film = range(4)
    rows = [[topic, person], [person, actor], [person], [person], [topic, film], [film], [topic]]
    starts = np.append(0, np.cumsum([len(row) for row in rows])).astype(np.int32)
    types = np.array([one for row in rows for one in row], np.int32)
    assert main_types(starts, types, 4).tolist() == [person] * 4 + [film] * 2 + [topic]


@pytest.mark.parametrize("name", ["St. Mary's_Hall", "st marys hall", "ST-MARY'S/HALL"])
def test_name_key(name: str) -> None:
    """Names that differ by case and light punctuation have one key; other signs count."""
    assert (name_key(name) == name_key("St Mary's Hall")) == ("'" in name)

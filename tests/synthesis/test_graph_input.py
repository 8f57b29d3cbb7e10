"""Graphs from files: every form, what is rejected and where, what is inferred and renamed."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from transforms.record import RecordError
from transforms.synthesis.graph import Graph, name_key
from transforms.synthesis.graph_input import load_graph
from transforms.synthesis.graph_settle import LoadedGraph
from transforms.synthesis.graph_types import role_words

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "kg"

ENTITIES = [
    {"id": "e1", "label": "Ada", "types": ["person"], "aliases": ["A. L.", "ada"]},
    {"id": "e2", "label": "Bob", "types": ["person"]},
    {"id": "c1", "label": "Paris", "types": ["city"], "description": "capital of France"},
    {"id": "c2", "label": "paris", "types": ["person"]},
    {"id": "c3", "label": "Oslo", "types": ["city"]},
]


def write_lines(path: Path, rows: Sequence[Any]) -> None:
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))


def facts_of(graph: Graph) -> set[tuple[str, str, str]]:
    """The facts of a graph by ids, read entity by entity."""
    found = set()
    for head in range(graph.n_entities):
        for number, relation in enumerate(graph.relations):
            for tail in graph.targets(head, number).tolist():
                found.add((graph.entity_ids[head], relation.id, graph.entity_ids[tail]))
    return found


def where(loaded: LoadedGraph) -> list[tuple[str | None, int | None, str]]:
    return sorted((one.path, one.line, one.reason) for one in loaded.rejects)


def test_what_is_bad_is_rejected_with_file_and_line(tmp_path: Path) -> None:
    """Malformed triples, dangling entities, unknown relations: each by file and line, no more."""
    write_lines(tmp_path / "entities.jsonl", [*ENTITIES, "{broken", {"id": "e1"}, {"label": "x"}])
    write_lines(tmp_path / "relations.jsonl", [{"id": "born_in"}, {"id": "knows"}, {"id": 1.5}])
    rows = [
        "head\trelation\ttail",
        "e1\tborn_in\tc1",
        "e1\tborn_in",
        "",
        "e1\tknows\te2",
        "ghost\tknows\te2",
        "e2\tknows\tghost",
        "e1\tlikes\te2",
        "e1\t\te2",
        "e2\tborn_in\tc3",
    ]
    (tmp_path / "triples.tsv").write_bytes("\n".join(rows).encode() + b"\n\xff\tknows\te1\n")
    loaded = load_graph(tmp_path)
    assert facts_of(loaded.graph) == {
        ("e1", "born_in", "c1"),
        ("e2", "born_in", "c3"),
        ("e1", "knows", "e2"),
    }
    assert where(loaded) == [
        ("entities.jsonl", 6, "malformed entity"),
        ("entities.jsonl", 7, "repeated entity"),
        ("entities.jsonl", 8, "malformed entity"),
        ("relations.jsonl", 3, "malformed relation"),
        ("triples.tsv", 3, "malformed triple"),
        ("triples.tsv", 6, "dangling entity"),
        ("triples.tsv", 7, "dangling entity"),
        ("triples.tsv", 8, "unknown relation type"),
        ("triples.tsv", 9, "malformed triple"),
        ("triples.tsv", 11, "malformed triple"),
    ]
    details = {one.line: one.detail for one in loaded.rejects if one.path == "triples.tsv"}
    assert "'ghost' is not in entities" in str(details[6])
    assert "'likes'" in str(details[8])


@pytest.mark.parametrize("form", ["entities", "tsv", "nt", "types"])
def test_a_cyclic_type_is_rejected_where_it_closes(tmp_path: Path, form: str) -> None:
    """The statement that closes a cycle of types is rejected; those before it hold."""
    facts = ["a\tknows\tb", "b\tknows\ta"]
    if form == "entities":
        rows = [{"id": "a", "types": ["b"]}, {"id": "b", "types": ["a"]}, {"id": "c", "types": []}]
        write_lines(tmp_path / "entities.jsonl", rows)
        write_lines(tmp_path / "triples.tsv", facts)
        expected = ("entities.jsonl", 2, "cyclic type")
    elif form == "types":
        rows = [{"id": "t", "parents": ["u"]}, {"id": "u", "parents": ["v"]}]
        write_lines(tmp_path / "types.jsonl", [*rows, {"id": "v", "parents": ["t"]}])
        write_lines(tmp_path / "entities.jsonl", [{"id": "a", "types": ["t"]}, {"id": "b"}])
        write_lines(tmp_path / "triples.tsv", facts)
        expected = ("types.jsonl", 3, "cyclic type")
    elif form == "tsv":
        rows = [*facts, "x\tsubclass_of\ty", "y\tsubclass_of\tz", "z\tsubclass_of\tx"]
        write_lines(tmp_path / "triples.tsv", rows)
        expected = ("triples.tsv", 5, "cyclic type")
    else:
        wider = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
        rows = [
            "<http://x/a> <http://x/knows> <http://x/b> .",
            f"<http://x/T> {wider} <http://x/U> .",
            f"<http://x/U> {wider} <http://x/T> .",
            "<http://x/a> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://x/T> .",
        ]
        write_lines(tmp_path / "triples.nt", rows)
        expected = ("triples.nt", 3, "cyclic type")
    loaded = load_graph(tmp_path)
    assert where(loaded) == [expected]
    graph = loaded.graph
    if form in ("types", "nt"):
        types = {graph.type_names[t] for t in graph.types_of(graph.named("a")[0])}
        assert types == ({"t", "u", "v"} if form == "types" else {"http://x/T", "http://x/U"})


def test_all_forms_give_one_graph(tmp_path: Path) -> None:
    """TSV, JSON lines, Parquet, plain and compressed, in any order: one fingerprint."""
    facts = [("e1", "born_in", "c1"), ("e2", "born_in", "c3"), ("e1", "knows", "e2")]
    objects = [{"head": h, "relation": r, "tail": t} for h, r, t in facts]
    tsv = "".join(f"{h}\t{r}\t{t}\n" for h, r, t in facts).encode()
    jsonl = "".join(json.dumps(one) + "\n" for one in objects).encode()
    forms = {
        "triples.tsv": tsv,
        "triples.tsv.gz": gzip.compress(tsv),
        "train.tsv": b"".join(reversed(tsv.splitlines(True))),
        "triples.jsonl": jsonl,
        "triples.jsonl.zst": zstandard.compress(jsonl[:30]) + zstandard.compress(jsonl[30:]),
    }
    found = set()
    for place, (name, data) in enumerate(forms.items()):
        folder = tmp_path / str(place)
        folder.mkdir()
        write_lines(folder / "entities.jsonl", ENTITIES)
        (folder / "notes.txt").write_text("not a graph")
        (folder / name).write_bytes(data)
        loaded = load_graph(folder, name="g")
        assert not loaded.rejects
        found.add(loaded.graph.fingerprint)
        assert facts_of(loaded.graph) == set(facts)
    folder = tmp_path / "parquet"
    folder.mkdir()
    keys = ("id", "label", "types", "aliases", "description")
    columns = {key: [one.get(key) for one in ENTITIES] for key in keys}
    pq.write_table(pa.table(columns), folder / "entities.parquet")
    pq.write_table(pa.Table.from_pylist(objects), folder / "triples.parquet")
    found.add(load_graph(folder).graph.fingerprint)
    assert len(found) == 1


def test_labels_that_collide_are_told_apart(tmp_path: Path) -> None:
    """Equal keys get the type, else the description; what nothing tells apart is rejected."""
    rows = [
        *ENTITIES,
        {"id": "c4", "label": "Rome", "types": ["city"], "description": "town in Georgia, US"},
        {"id": "c5", "label": "Rome", "types": ["city"], "description": "capital of Italy"},
        {"id": "c6", "label": "Bonn", "types": ["city"]},
        {"id": "c7", "label": "B.O.N.N", "types": ["city"]},
        {"id": "c8", "label": " - ", "types": ["city"]},
    ]
    write_lines(tmp_path / "entities.jsonl", rows)
    facts = ["e1\tborn_in\tc1", "e1\tsaw\tc6", "e1\tsaw\tc7", "e2\tsaw\tc7", "e1\tsaw\tc8"]
    write_lines(tmp_path / "triples.tsv", facts)
    loaded = load_graph(tmp_path)
    graph = loaded.graph
    labels = dict(zip(graph.entity_ids, graph.labels, strict=True))
    assert labels == {
        "e1": "Ada",
        "e2": "Bob",
        "c1": "Paris (city)",
        "c2": "paris (person)",
        "c3": "Oslo",
        "c4": "Rome (town in Georgia)",
        "c5": "Rome (capital of Italy)",
        "c7": "B.O.N.N",
    }
    assert len(set(map(name_key, graph.labels))) == graph.n_entities
    assert {graph.entity_ids[e] for e in graph.named("PARIS")} == {"c1", "c2"}
    assert where(loaded) == [
        ("entities.jsonl", 8, "colliding label"),
        ("entities.jsonl", 10, "colliding label"),
    ]
    assert graph.aliases[graph.number_of("e1")] == ("A. L.",)


def test_literals_become_values_or_entities(tmp_path: Path) -> None:
    """Numbers with units, dates, long texts, and short shared texts, as their values say."""
    rows: list[Any] = []
    for place in range(10):
        film = f"film {place}"
        told = [
            ("length", f"{90 + place} min"),
            ("shown", f"2001-02-{place + 1:02d}"),
            ("plot", f"Story number {place}, which is told at length, from its start to its end."),
            ("genre", ("drama", "comedy")[place % 2]),
            ("code", f"x{place}"),
        ]
        rows += [{"head": film, "relation": r, "tail": t, "tail_is_entity": False} for r, t in told]
    rows.append({"head": "film 0", "relation": "budget", "tail": 12.5})
    rows.append({"head": "film 0", "relation": "length", "tail": "unknown"})
    rows.append({"head": "film 3", "relation": "sequel", "tail": "film 4", "tail_is_entity": True})
    write_lines(tmp_path / "triples.jsonl", rows)
    graph = load_graph(tmp_path).graph
    kinds = {one.id: (one.kind, one.unit, one.n_values) for one in graph.attributes}
    assert kinds == {
        "length": ("number", "min", 10),
        "shown": ("date", "", 10),
        "plot": ("text", "", 10),
        "code": ("text", "", 10),
        "budget": ("number", "", 1),
    }
    number = {one.id: place for place, one in enumerate(graph.attributes)}
    film = graph.number_of("film 3")
    assert graph.value(film, number["length"]) == 93.0
    assert graph.value(film, number["shown"]) == "2001-02-04"
    relations = {one.id: one for one in graph.relations}
    assert set(relations) == {"genre", "sequel"}
    (drama,) = graph.named("Drama")
    assert graph.type_labels[graph.type_of(drama)] == "genre"
    genre = [one.id for one in graph.relations].index("genre")
    heads = graph.targets(drama, genre, inverse=True).tolist()
    assert [graph.labels[one] for one in heads] == [f"film {place}" for place in range(0, 10, 2)]


def test_ntriples(tmp_path: Path) -> None:
    """Labels, types, domains, languages, escapes and literals of N-Triples; bad lines by number."""
    rdf, rdfs = (
        "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
        "http://www.w3.org/2000/01/rdf-schema#",
    )
    lines = [
        "# a comment",
        f"<http://x/p/1> <{rdf}type> <http://x/Person> .",
        f'<http://x/p/1> <{rdfs}label> "Ad\\u0061 \\"L\\""@en .',
        f'<http://x/p/1> <{rdfs}label> "Adda"@fr .',
        f'<http://x/Person> <{rdfs}label> "human being"@en .',
        f'<http://x/bornIn> <{rdfs}label> "place of birth"@en .',
        f"<http://x/bornIn> <{rdfs}range> <http://x/City> .",
        "<http://x/p/1> <http://x/bornIn> <http://x/New_York> .",
        '<http://x/p/1> <http://x/height> "170"^^<http://www.w3.org/2001/XMLSchema#integer> .',
        "<http://x/p/1> <http://x/knows> _:b0 . # trailing",
        "<http://x/p/1> <http://x/knows> missing .",
        '<http://x/p/1> <http://x/note> "bad \\q escape" .',
        "<http://x/p/1> <http://x/knows> <http://x/p/2>",
    ]
    write_lines(tmp_path / "g.nt", lines)
    loaded = load_graph(tmp_path / "g.nt")
    graph = loaded.graph
    assert where(loaded) == [("g.nt", n, "malformed triple") for n in (11, 12, 13)]
    ada = graph.number_of("http://x/p/1")
    assert graph.labels[ada] == 'Ada "L"'
    assert graph.type_labels[graph.type_of(ada)] == "human being"
    relations = {one.id: one for one in graph.relations}
    assert relations["http://x/bornIn"].label == "place of birth"
    assert graph.type_labels[relations["http://x/bornIn"].range] == "city"
    assert graph.labels[graph.number_of("http://x/New_York")] == "New York"
    assert graph.value(ada, 0) == 170.0
    assert facts_of(graph) == {
        ("http://x/p/1", "http://x/bornIn", "http://x/New_York"),
        ("http://x/p/1", "http://x/knows", "_:b0"),
    }


def test_a_stream_that_breaks_keeps_what_came_before(tmp_path: Path) -> None:
    """A truncated .gz or .zst gives its readable lines and one reject."""
    rows = "".join(f"a{n}\tknows\ta{n + 1}\n" for n in range(20_000)).encode()
    for name, packed in (
        ("t.tsv.gz", gzip.compress(rows)),
        ("t.tsv.zst", zstandard.compress(rows)),
    ):
        (tmp_path / name).write_bytes(packed[: len(packed) // 2])
        loaded = load_graph(tmp_path / name)
        assert [one.reason for one in loaded.rejects] == ["corrupt stream"]
        assert 0 < loaded.graph.n_facts < 20_000
        assert loaded.rejects[0].line == loaded.counters["triples"] + 1


def test_what_is_no_graph_is_refused(tmp_path: Path) -> None:
    """Absent paths, other files, empty graphs and broken Parquet are named, with what to do."""
    with pytest.raises(RecordError, match=r"no such file or folder"):
        load_graph(tmp_path / "absent")
    with pytest.raises(RecordError, match=r"holds no triples"):
        load_graph(tmp_path)
    (tmp_path / "a.csv").write_text("x")
    with pytest.raises(RecordError, match=r"not a file of triples"):
        load_graph(tmp_path / "a.csv")
    (tmp_path / "a.tsv").write_text("one\ttwo\n")
    with pytest.raises(RecordError, match=r"a.tsv, line 1: malformed triple, 2 columns"):
        load_graph(tmp_path)
    (tmp_path / "triples.parquet").write_bytes(b"no parquet")
    with pytest.raises(RecordError, match=r"cannot be read as Parquet"):
        load_graph(tmp_path)


def test_types_are_found_where_none_are_given(tmp_path: Path) -> None:
    """Roles that share their entities are one type, named by a noun; heads are plain entities."""
    rows = [f"person{n}\tborn_in\tcity{n % 3}" for n in range(12)]
    rows += [f"film{n}\tdirector\tperson{n}" for n in range(12)]
    rows += [f"film{n}\tgenre\tgenre{n % 2}" for n in range(12)]
    rows += [f"city{n}\tmayor\tperson{n}" for n in range(3)]
    write_lines(tmp_path / "triples.tsv", rows)
    graph = load_graph(tmp_path).graph
    words = {one: graph.type_labels[graph.type_of(n)] for n, one in enumerate(graph.entity_ids)}
    assert {words[f"person{n}"] for n in range(12)} == {"director"}
    assert {words[f"genre{n}"] for n in range(2)} == {"genre"}
    assert {words[f"film{n}"] for n in range(12)} == {"entity"}
    relations = {one.id: one for one in graph.relations}
    assert graph.type_labels[relations["genre"].range] == "genre"
    assert relations["director"].functional


@pytest.mark.skipif(not DATA.is_dir(), reason="shared data absent")
def test_the_real_graphs() -> None:
    """FB15k-237 and KdConv load whole: their triples, read apart, are the facts; labels differ."""
    for name, lang, entities, relations in (
        ("fb15k237", "en", 14_541, 237),
        ("kdconv-zh", "zh", 2_005, 60),
    ):
        loaded = load_graph(DATA / name, lang=lang)
        graph = loaded.graph
        assert len({name_key(label) for label in graph.labels}) == graph.n_entities >= entities
        assert len(graph.relations) >= relations
        assert len(loaded.rejects) <= 2
        assert all(graph.type_of(one) >= 0 for one in range(graph.n_entities))
        given = set()
        for path in sorted((DATA / name).glob("t*.gz")) + sorted((DATA / name).glob("valid*")):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for line in lines:
                    one = json.loads(line) if "jsonl" in path.name else {}
                    if one.get("tail_is_entity", True):
                        parts = line.rstrip("\n").split("\t")
                        given.add(
                            tuple(one.get(k) for k in ("head", "relation", "tail"))
                            if one
                            else tuple(parts)
                        )
        lost = {one.detail.partition(":")[0] for one in loaded.rejects}
        wanted = {fact for fact in given if not lost & {fact[0], fact[2]}}
        found = facts_of(graph)
        assert {fact for fact in found if not fact[2].startswith("value/")} == wanted
    assert {"上映时间": "date", "片长": "number", "地址": "text"}.items() <= {
        one.id: one.kind for one in graph.attributes
    }.items()


def test_names_as_files_give_them(tmp_path: Path) -> None:
    """A BOM and Windows line ends are no part of a name; ids give words; brackets an alias."""
    rows = ["\ufeffAndrei_Rublev\tbirthPlace\tMoscow,_Russia", "Solaris_(1972_film)\tmade_in\tUSSR"]
    (tmp_path / "a.tsv").write_bytes("\r\n".join([*rows, ""]).encode())
    graph = load_graph(tmp_path).graph
    assert sorted(graph.labels) == [
        "Andrei Rublev",
        "Moscow, Russia",
        "Solaris (1972 film)",
        "USSR",
    ]
    assert graph.labels[graph.named("Solaris")[0]] == "Solaris (1972 film)"
    assert [one.label for one in graph.relations] == ["birth place", "made in"]
    assert set(graph.entity_ids) >= {"Andrei_Rublev", "Moscow,_Russia"}


def test_a_type_that_is_an_entity_has_its_label(tmp_path: Path) -> None:
    """Types by id get the words of the entity or of types.jsonl; bare numbers give no noun."""
    rows = [{"id": "Q1", "label": "Ada", "types": ["Q5"]}, {"id": "Q2", "types": ["Q515"]}]
    rows += [{"id": "Q3", "label": "x", "types": ["Q9"]}, {"id": "Q5", "label": "human"}]
    write_lines(tmp_path / "entities.jsonl", rows)
    write_lines(tmp_path / "types.jsonl", [{"id": "Q515", "label": "city"}])
    write_lines(tmp_path / "triples.tsv", ["Q1\tborn_in\tQ2", "Q1\tknows\tQ3", "Q5\tsee\tQ3"])
    graph = load_graph(tmp_path).graph
    words = {one: graph.type_labels[graph.type_of(n)] for n, one in enumerate(graph.entity_ids)}
    assert words == {"Q1": "human", "Q2": "city", "Q3": "entity", "Q5": "entity"}


def test_a_relation_among_equals_names_no_type(tmp_path: Path) -> None:
    """Neighbours of each other are not called neighbours; nobody is called after a number."""
    rows = [f"c{a}\t{r}\tc{b}" for a in range(6) for b in range(6) for r in ("neighbor", "term7")]
    write_lines(tmp_path / "triples.tsv", [*rows, *(f"x{n}\tterm8\ty{n % 2}" for n in range(9))])
    graph = load_graph(tmp_path).graph
    assert set(graph.type_labels) == {"entity"}


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("roster / positions", "position"),
        ("time zones", "time zone"),
        ("parties", "party"),
        ("TV series", "TV series"),
        ("boxes", "box"),
        ("campus", "campus"),
        ("语言", "语言"),
        ("contains", ""),
        ("directed by", ""),
        ("is a", ""),
        ("term16", ""),
    ],
)
def test_roles_are_named_in_the_singular(label: str, words: str) -> None:
    """What a relation calls all its tails names one of them."""
    assert role_words(label) == words


def test_an_undescribed_entity_is_rejected_where_it_is_first_named(tmp_path: Path) -> None:
    """Without entities, a name that collides is told by the first triple that has it."""
    rows = ["a\tknows\tRang_Rasiya", "b\tknows\tRang_Rasiya", "c\tknows\trang rasiya"]
    write_lines(tmp_path / "t.tsv", rows)
    assert where(load_graph(tmp_path)) == [("t.tsv", 3, "colliding label")]

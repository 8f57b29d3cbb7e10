"""Relational tables as graphs: keys declared, told and found, and rows that are rejected."""

from pathlib import Path

import duckdb
import pytest

from catalog.tables import read_graph
from transforms.record import RecordError
from transforms.synthesis.graph import Graph

COUNTRIES = "id,name\nfr,France\nno,Norway\n"
CITIES = "city_id,name,country_id,population,founded\n1,Paris,fr,2100000,1900-01-02\n2,Oslo,no,700000,1048-05-06\n3,Bergen,no,290000,\n"
PEOPLE = "id,full_name,birth_city,job,boss_id\n7,Ada,1,baker,\n8,Bob,2,smith,7\n9,Cyd,2,baker,7\n10,Dan,3,smith,\n11,Eve,3,baker,\n12,Flo,1,smith,\n13,Gus,1,baker,\n14,Hal,2,smith,\n"
FRIENDS = "person_id,friend_person_id\n7,8\n8,9\n7,9\n"


def folder_of(path: Path, **files: str) -> Path:
    for name, text in files.items():
        (path / f"{name}.csv").write_text(text)
    return path


def facts_of(graph: Graph) -> set[tuple[str, str, str]]:
    return {
        (graph.entity_ids[head], relation.id, graph.entity_ids[tail])
        for head in range(graph.n_entities)
        for number, relation in enumerate(graph.relations)
        for tail in graph.targets(head, number).tolist()
    }


def test_csv_tables_with_keys_found(tmp_path: Path) -> None:
    """Rows, foreign keys, a table of two foreign keys, numbers, dates and shared texts."""
    folder_of(tmp_path, countries=COUNTRIES, cities=CITIES, people=PEOPLE, friends=FRIENDS)
    (tmp_path / "tables.toml").write_text('[people]\nforeign = { birth_city = "cities" }\n')
    (tmp_path / "tables.toml").open("a").write(
        '[friends]\nforeign = { person_id = "people", friend_person_id = "people" }\n'
    )
    loaded = read_graph(tmp_path)
    graph = loaded.graph
    assert not loaded.rejects
    found = facts_of(graph)
    assert {one for one in found if one[1] == "cities.country_id"} == {
        ("cities/1", "cities.country_id", "countries/fr"),
        ("cities/2", "cities.country_id", "countries/no"),
        ("cities/3", "cities.country_id", "countries/no"),
    }
    assert {(h, t) for h, r, t in found if r == "friends"} == {
        ("people/7", "people/8"),
        ("people/8", "people/9"),
        ("people/7", "people/9"),
    }
    assert len([one for one in found if one[1] == "people.birth_city"]) == 8
    assert {(h, t) for h, r, t in found if r == "people.boss_id"} == {
        ("people/8", "people/7"),
        ("people/9", "people/7"),
    }
    assert {t for _, r, t in found if r == "people.job"} == {"value/baker", "value/smith"}
    by_id = {one.id: one for one in graph.relations}
    assert by_id["cities.country_id"].label == "country"
    assert by_id["cities.country_id"].functional
    assert all(one.is_complete(inverse) for one in graph.relations for inverse in (False, True))
    assert graph.type_labels[by_id["people.birth_city"].range] == "city"
    attributes = {one.id: (one.kind, number) for number, one in enumerate(graph.attributes)}
    assert {one: kind for one, (kind, _) in attributes.items()} == {
        "cities.population": "number",
        "cities.founded": "date",
    }
    oslo = graph.number_of("cities/2")
    assert graph.labels[oslo] == "Oslo"
    assert graph.value(oslo, attributes["cities.population"][1]) == 700_000.0
    assert graph.value(oslo, attributes["cities.founded"][1]) == "1048-05-06"
    assert graph.value(graph.number_of("cities/3"), attributes["cities.founded"][1]) is None


def test_a_database_and_parquet_give_what_csv_gives(tmp_path: Path) -> None:
    """Declared keys of a DuckDB file, and Parquet files, give the facts of the CSV files."""
    csv = tmp_path / "csv"
    csv.mkdir()
    folder_of(csv, countries=COUNTRIES, cities=CITIES)
    parquet = tmp_path / "parquet"
    parquet.mkdir()
    with duckdb.connect(str(tmp_path / "g.duckdb")) as connection:
        connection.execute("CREATE TABLE countries(id VARCHAR PRIMARY KEY, name VARCHAR)")
        connection.execute(
            "CREATE TABLE cities(city_id BIGINT PRIMARY KEY, name VARCHAR, "
            "country_id VARCHAR REFERENCES countries(id), population BIGINT, founded DATE)"
        )
        for name in ("countries", "cities"):
            connection.execute(f"INSERT INTO {name} SELECT * FROM '{csv / name}.csv'")
            connection.execute(f"COPY {name} TO '{parquet / name}.parquet'")
    graphs = [read_graph(one, name="g").graph for one in (csv, parquet, tmp_path / "g.duckdb")]
    assert len({one.fingerprint for one in graphs}) == 1
    assert len(facts_of(graphs[0])) == 3


def test_bad_rows_are_rejected_with_file_and_line(tmp_path: Path) -> None:
    """Malformed lines, keys that repeat or are absent, and dangling foreign keys, by line."""
    rows = "".join(f"{n},City {n},fr\n" for n in range(20))
    cities = f"id,name,country_id\n{rows}3,Again,fr\n,None,fr\n77,Odd,xx\n78,Torn\n79,Last,no\n"
    folder_of(tmp_path, countries=COUNTRIES, cities=cities)
    loaded = read_graph(tmp_path)
    assert sorted((one.path, one.line, one.reason) for one in loaded.rejects) == [
        ("cities.csv", 22, "repeated entity"),
        ("cities.csv", 23, "malformed row"),
        ("cities.csv", 24, "dangling entity"),
        ("cities.csv", 25, "malformed row"),
    ]
    assert len(facts_of(loaded.graph)) == 21


def test_what_cannot_be_a_graph_is_refused(tmp_path: Path) -> None:
    """Tables without keys, wrong names in tables.toml and broken files say what to do."""
    (tmp_path / "a.csv").write_text("x,y\n1,1\n1,1\n")
    with pytest.raises(RecordError, match=r"a.csv: no column has distinct values.*\[a\] key"):
        read_graph(tmp_path)
    (tmp_path / "tables.toml").write_text('[b]\nkey = "x"\n')
    with pytest.raises(RecordError, match=r"tables.toml: no table 'b'; there are a"):
        read_graph(tmp_path)
    (tmp_path / "tables.toml").write_text('[a]\nkey = "z"\n')
    with pytest.raises(RecordError, match=r"\[a\] has no column 'z'; it has x, y"):
        read_graph(tmp_path)
    (tmp_path / "g.duckdb").write_bytes(b"not a database, by far" * 500)
    with pytest.raises(RecordError, match=r"g.duckdb: cannot be read as tables"):
        read_graph(tmp_path / "g.duckdb")

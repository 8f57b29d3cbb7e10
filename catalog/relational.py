"""Relational tables as a graph: a row is an entity, a foreign key a relation, a column a value.

Tables are a DuckDB file, or a folder of Parquet and CSV files, one table each. Keys are those that
the database declares, or that ``tables.toml`` beside the files names; otherwise they are found: the
key is ``id`` or another column of distinct values, and a foreign key is a column named after another
table whose values are that table's keys. A table of two foreign keys without a key of its own is a
relation. What a database does not say is false in it, so its relations are complete.
"""

import itertools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from catalog.table_keys import TABLES_FILE, Table, settle_keys
from transforms.ingest import Reject
from transforms.record import RecordError

_DATABASES = (".duckdb", ".db", ".ddb")
_FILES = (".parquet", ".csv", ".csv.gz")


def is_relational(path: Path) -> bool:
    """Return whether a path holds tables rather than triples, by the names of its files."""
    if path.is_file():
        return path.suffix.lower() in _DATABASES or path.name.lower().endswith((".csv", ".csv.gz"))
    if not path.is_dir():
        return False
    names = [one.name.lower() for one in path.iterdir() if one.is_file()]
    if TABLES_FILE in names:
        return True
    triples = any(
        name.startswith("triples.")
        or name.removesuffix(".gz").removesuffix(".zst").endswith((".tsv", ".nt"))
        for name in names
    )
    return not triples and any(name.endswith(_FILES) for name in names)


def read_tables(path: Path, rejects: list[Reject]) -> dict[str, Table]:
    """Read tables and settle their keys.

    Args:
        path: a DuckDB file, one CSV file, or a folder of Parquet and CSV files.
        rejects: takes lines that are no rows.

    Raises:
        RecordError: a file cannot be read, or ``tables.toml`` names what is not there.
    """
    try:
        with duckdb.connect() as connection:
            if path.is_file() and path.suffix.lower() in _DATABASES:
                tables = _database(connection, path)
            else:
                tables = _folder(connection, path, rejects)
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise RecordError(f"{path}: cannot be read as tables: {reason}") from error
    if not tables:
        raise RecordError(f"{path}: holds no table; a graph needs at least one with rows")
    if path.is_dir() and (path / TABLES_FILE).is_file():
        _told(tables, path / TABLES_FILE)
    settle_keys(tables)
    return tables


def _database(connection: duckdb.DuckDBPyConnection, path: Path) -> dict[str, Table]:
    name = str(path).replace("'", "''")
    connection.execute(f"ATTACH '{name}' AS given (READ_ONLY)")
    rows = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() "
        "WHERE database_name = 'given' AND NOT internal ORDER BY 1, 2"
    ).fetchall()
    found: dict[str, Table] = {}
    for schema, table in rows:
        quoted = ".".join(f'"{part}"' for part in ("given", schema, table))
        data = connection.sql(f"SELECT * FROM {quoted}").to_arrow_table()
        found[table] = Table(table, f"{path.name}:{table}", data, range(1, len(data) + 1))
    keys = connection.execute(
        "SELECT table_name, constraint_type, constraint_column_names, referenced_table "
        "FROM duckdb_constraints() WHERE database_name = 'given' "
        "AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY') AND len(constraint_column_names) = 1"
    ).fetchall()
    for table, kind, columns, other in keys:
        if kind == "PRIMARY KEY":
            found[table].key = columns[0]
        else:
            found[table].foreign[columns[0]] = other
    return found


def _folder(
    connection: duckdb.DuckDBPyConnection, path: Path, rejects: list[Reject]
) -> dict[str, Table]:
    files = [path] if path.is_file() else sorted(path.iterdir(), key=lambda one: one.name)
    found: dict[str, Table] = {}
    for file in files:
        if not file.name.lower().endswith(_FILES) or not file.is_file():
            continue
        name = file.name.partition(".")[0]
        if name in found:
            raise RecordError(f"{path}: two files are called {name!r}; keep one of them")
        if file.suffix.lower() == ".parquet":
            data = connection.read_parquet(str(file)).to_arrow_table()
            found[name] = Table(name, file.name, data, range(1, len(data) + 1))
        else:
            data, lines = _csv(connection, file, rejects)
            found[name] = Table(name, file.name, data, lines)
    return found


def _csv(
    connection: duckdb.DuckDBPyConnection, file: Path, rejects: list[Reject]
) -> tuple[pa.Table, list[int]]:
    """Read a CSV file with a line of names; return its rows and their lines."""
    connection.execute("DROP TABLE IF EXISTS reject_errors; DROP TABLE IF EXISTS reject_scans")
    # The whole file is looked at, so that no later value changes a column's type.
    data = connection.sql(
        "SELECT * FROM read_csv(?, header = true, store_rejects = true, sample_size = -1)",
        params=[str(file)],
    ).to_arrow_table()
    bad = connection.execute(
        "SELECT line, min(error_message) FROM reject_errors GROUP BY line ORDER BY line"
    ).fetchall()
    for line, message in bad:
        reason = message.partition("\n")[0][:200]
        rejects.append(Reject(int(line), "malformed row", reason, file.name))
    gone = {int(line) for line, _ in bad}
    lines = (line for line in itertools.count(2) if line not in gone)
    return data, list(itertools.islice(lines, len(data)))


def _told(tables: Mapping[str, Table], path: Path) -> None:
    """Apply ``tables.toml``."""
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: {error}; write it as TOML") from error
    for name, keys in told.items():
        table = tables.get(name)
        if table is None or not isinstance(keys, dict):
            raise RecordError(f"{path}: no table {name!r}; there are {', '.join(tables)}")
        for key, value in keys.items():
            if key in ("key", "label", "description"):
                setattr(table, key, _column(table, value, path))
            elif key == "foreign" and isinstance(value, dict):
                for column, other in value.items():
                    if other not in tables:
                        raise RecordError(
                            f"{path}: [{name}] foreign.{column} = {other!r} is no table; "
                            f"there are {', '.join(tables)}"
                        )
                    table.foreign[_column(table, column, path)] = other
            elif key == "ignore" and isinstance(value, list):
                table.ignored = tuple(_column(table, one, path) for one in value)
            else:
                raise RecordError(
                    f"{path}: [{name}] {key} = {value!r} is unknown; "
                    "key, label, description, foreign and ignore are"
                )


def _column(table: Table, name: Any, path: Path) -> str:
    if name not in table.data.column_names:
        raise RecordError(
            f"{path}: [{table.name}] has no column {name!r}; "
            f"it has {', '.join(table.data.column_names)}"
        )
    return str(name)

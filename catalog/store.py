"""Opening the catalog: read-only connections, queries, named queries, plain JSON rows."""

import re
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from catalog.json_rows import to_json_rows

__all__ = [
    "CATALOG_FILE",
    "CatalogError",
    "NamedQuery",
    "QueryError",
    "find_workdir",
    "named_queries",
    "named_query",
    "open_catalog",
    "query",
    "to_json_rows",
]

CATALOG_FILE = "catalog.duckdb"
"""Name of the catalog in its work directory."""

_QUERIES = Path(__file__).parent / "queries"
_DATABASE = "catalog"


class CatalogError(RuntimeError):
    """The catalog cannot answer; the message says what, where, what was found, what to do."""


class QueryError(CatalogError):
    """What was asked cannot be answered: no such run or named query, or a mistake in the SQL."""


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query that ships with the package."""

    name: str
    description: str
    """One line: what the rows are."""
    sql: str


def find_workdir(start: Path | None = None) -> Path:
    """Return the nearest folder, from ``start`` upwards, that holds a catalog.

    Args:
        start: where to begin; default: the current folder.

    Raises:
        CatalogError: there is none.
    """
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / CATALOG_FILE).is_file():
            return folder
    raise CatalogError(
        f"{here}: no {CATALOG_FILE} here or in a folder above; "
        "give --workdir, or make one with: drystone run RECIPE"
    )


@contextmanager
def open_catalog(workdir: Path, run: str | None = None) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the catalog of a work directory read-only.

    The file is attached to a database in memory and not opened itself: connections of one process
    to one path share what was opened first, and would go on seeing a catalog that has been
    replaced.

    Args:
        workdir: folder that holds ``catalog.duckdb``.
        run: id of the run that the views show; default: the newest one that ended well.

    Raises:
        CatalogError: there is no catalog, it cannot be read, or the run's artifacts are gone.
        QueryError: there is no such run, or it failed.
    """
    path = workdir / CATALOG_FILE
    if not path.is_file():
        raise CatalogError(
            f"{path}: no catalog; make one with: drystone run RECIPE, or: drystone catalog rebuild"
        )
    connection = duckdb.connect()
    try:
        try:
            connection.execute(f"ATTACH {quote(str(path))} AS {_DATABASE} (READ_ONLY)")
            connection.execute("SET TimeZone = 'UTC'")
            # What does not fit in memory would else go to a folder below the current one.
            spill = Path(tempfile.gettempdir()) / f"drystone-query-{uuid.uuid4().hex}"
            connection.execute(f"SET temp_directory = {quote(str(spill))}")
        except duckdb.Error as error:
            raise CatalogError(
                f"{path}: not a readable catalog ({_first_line(error)}); "
                "make it anew with: drystone catalog rebuild"
            ) from error
        schemas = [f"{_DATABASE}.main"]
        if run is not None:
            schemas.insert(0, f"{_DATABASE}.{quote_name(_schema_of(connection, path, run))}")
        connection.execute(f"SET search_path = {quote(','.join(schemas))}")
        yield connection
    finally:
        connection.close()


def query(
    workdir: Path, sql: str, run: str | None = None, parameters: Mapping[str, Any] | None = None
) -> pa.Table:
    """Answer one SELECT (or DESCRIBE, SUMMARIZE, SHOW) over the catalog.

    Args:
        workdir: folder that holds ``catalog.duckdb``.
        sql: one statement; anything that would write is refused.
        run: id of the run that the views show; default: the newest one that ended well.
        parameters: values of the statement's ``$name`` parameters.

    Returns:
        All rows. Sums of integers are decimals of scale 0, as DuckDB computes them.

    Raises:
        CatalogError: there is no catalog, or a file that it names cannot be read.
        QueryError: there is no such run, or the statement is wrong.
    """
    _refuse_writing(sql)
    with open_catalog(workdir, run) as connection:
        return fetch(connection, sql, parameters)


def fetch(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any] | None = None
) -> pa.Table:
    """Run one statement on an open catalog.

    Raises:
        CatalogError: a file that the catalog names cannot be read.
        QueryError: the statement is wrong.
    """
    try:
        relation = connection.sql(sql, params=dict(parameters) if parameters else None)
        return relation.to_arrow_table()
    except duckdb.IOException as error:
        raise CatalogError(
            f"a file that the catalog names cannot be read: {_first_line(error)}; "
            "after moving a work directory, or removing files from it: drystone catalog rebuild"
        ) from error
    except duckdb.Error as error:
        raise QueryError(str(error)) from error


def schema_name(run_id: str) -> str:
    """Return the name of the schema that holds a run's views."""
    return f"run_{run_id}"


def named_queries() -> dict[str, NamedQuery]:
    """Return the queries that ship with the package, by name; their first line describes them."""
    found = {}
    for path in sorted(_QUERIES.glob("*.sql")):
        first, _, sql = path.read_text(encoding="utf-8").partition("\n")
        found[path.stem] = NamedQuery(path.stem, first.removeprefix("--").strip(), sql.strip())
    return found


def named_query(name: str) -> NamedQuery:
    """Return one of the queries that ship with the package.

    Raises:
        QueryError: there is none of this name.
    """
    known = named_queries()
    if name in known:
        return known[name]
    close = get_close_matches(name, known, n=1)
    remedy = f"did you mean {close[0]}? " if close else ""
    raise QueryError(f"no query is named {name!r}; {remedy}there are: {', '.join(known)}")


def quote(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _schema_of(connection: duckdb.DuckDBPyConnection, path: Path, run: str) -> str:
    """Return the schema of a run, or say why it has none."""
    found = connection.execute(
        f"SELECT status, available FROM {_DATABASE}.main.runs WHERE run_id = $1", [run]
    ).fetchone()
    if found is None:
        rows = connection.execute(
            f"SELECT run_id FROM {_DATABASE}.main.runs ORDER BY finished DESC"
        )
        known = [row[0] for row in rows.fetchall()]
        close = get_close_matches(run, known, n=1)
        newest = f"the newest is {known[0]}" if known else "it holds none"
        remedy = f"did you mean {close[0]}?" if close else newest
        raise QueryError(f"{path}: no run {run!r}; {remedy}")
    status, available = found
    if status != "ok":
        raise QueryError(f"{path}: run {run} {status} and has no views; choose one that ended well")
    if not available:
        raise CatalogError(
            f"{path}: artifacts of run {run} were removed, so it has no views; run its recipe again"
        )
    return schema_name(run)


def _refuse_writing(sql: str) -> None:
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryError(str(error)) from error
    kinds = [re.sub(r".*\.", "", str(statement.type)) for statement in statements]
    if kinds == ["SELECT"]:
        return
    if not kinds:
        raise QueryError("the query is empty; give one SELECT statement")
    if len(kinds) > 1:
        raise QueryError(f"expected one statement, found {len(kinds)}; give one SELECT")
    hint = (
        "; write PIVOT as SELECT * FROM (PIVOT ... ON column IN (...))" if "MULTI" in kinds else ""
    )
    raise QueryError(
        f"the catalog is read-only: expected SELECT, DESCRIBE, SUMMARIZE or SHOW, found {kinds[0]}"
        + hint
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

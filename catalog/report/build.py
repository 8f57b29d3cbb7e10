"""Asking the catalog what a report shows."""

import json
import re
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import duckdb

from catalog.report.figure import Answer, Figure, Report, RunFacts
from catalog.report.sections import SECTIONS
from catalog.store import (
    CatalogError,
    QueryError,
    fetch,
    open_catalog,
    quote_name,
    schema_name,
    to_json_rows,
)

_NAMED = 10


def build_report(workdir: Path, run: str | None = None) -> Report:
    """Ask the catalog everything that the report of a run shows.

    Args:
        workdir: folder that holds ``catalog.duckdb``.
        run: id of the run; default: the newest one that ended well. Of a run that failed, or whose
            artifacts are gone, the report shows what the catalog's tables still know.

    Raises:
        CatalogError: there is no catalog, it is of another version, or a file that it names cannot
            be read.
        QueryError: there is no such run.
    """
    with open_catalog(workdir) as connection:
        row = _run_row(connection, workdir, run)
        facts = _facts(connection, row)
        sections = []
        for section in SECTIONS:
            if not section.concerns(facts):
                continue
            answers = tuple(_ask(connection, facts, f) for f in section.figures(facts))
            if not section.only_with_rows or any(answer.rows for answer in answers):
                sections.append((section, answers))
        return Report(facts.run_id, str(row["name"]), facts.status, tuple(sections))


def qualified(sql: str, run_id: str) -> str:
    """Return a figure's SQL with the views of the run named in full."""
    schema = quote_name(schema_name(run_id))
    return re.sub(r"@(\w+)", lambda name: f"{schema}.{name[1]}", textwrap.dedent(sql).strip())


def _ask(connection: duckdb.DuckDBPyConnection, facts: RunFacts, figure: Figure) -> Answer:
    sql = qualified(figure.sql, facts.run_id)
    try:
        table = fetch(connection, sql)
    except QueryError as error:
        # The statements fit the views of this version; what does not is of another one.
        raise CatalogError(
            f"the catalog has not what the report's figure {figure.id!r} asks for "
            f"({str(error).partition(chr(10))[0]}); if another version of drystone wrote it, "
            "make it anew with: drystone catalog rebuild"
        ) from error
    rows = to_json_rows(table)
    columns = tuple(table.column_names)
    return Answer(figure, sql, columns, tuple(tuple(row[c] for c in columns) for row in rows))


def _run_row(
    connection: duckdb.DuckDBPyConnection, workdir: Path, run: str | None
) -> dict[str, Any]:
    """Return what the catalog's table says of the run, or name those that there are."""
    rows = to_json_rows(fetch(connection, "SELECT * FROM runs ORDER BY finished DESC, run_id DESC"))
    for row in rows:
        if row["run_id"] == run or (run is None and row["status"] == "ok" and row["available"]):
            return row
    known = [str(row["run_id"]) for row in rows]
    listed = ", ".join(known[:_NAMED]) + (", ..." if len(known) > _NAMED else "")
    there_are = f"its runs, the newest first: {listed}" if known else "it holds no run"
    if run is None:
        raise QueryError(f"{workdir}: no run ended well and has its artifacts; {there_are}")
    close = get_close_matches(run, known, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    raise QueryError(f"{workdir}: no run {run!r}; {meant}{there_are}")


def _facts(connection: duckdb.DuckDBPyConnection, row: dict[str, Any]) -> RunFacts:
    run_id = str(row["run_id"])
    columns = to_json_rows(
        fetch(
            connection,
            "SELECT table_name AS view, column_name AS name FROM duckdb_columns() "
            "WHERE schema_name = $schema ORDER BY view, column_index",
            {"schema": schema_name(run_id)},
        )
    )
    views: dict[str, list[str]] = {}
    for column in columns:
        views.setdefault(column["view"], []).append(column["name"])
    stages = to_json_rows(
        fetch(
            connection,
            "SELECT stage FROM stages WHERE run_id = $run ORDER BY position",
            {"run": run_id},
        )
    )
    return RunFacts(
        run_id=run_id,
        status=str(row["status"]),
        views=views,
        stages=[stage["stage"] for stage in stages],
        recipe=json.loads(row["recipe"]) or {},
        files={"metrics": _metrics(connection, run_id) if "training" in views else ()},
    )


def _metrics(connection: duckdb.DuckDBPyConnection, run_id: str) -> Sequence[str]:
    """Return the metrics files of the training runs on this run's dataset, as far as they exist."""
    sql = qualified("SELECT DISTINCT out FROM @training WHERE out IS NOT NULL ORDER BY out", run_id)
    folders = [Path(row["out"]) for row in to_json_rows(fetch(connection, sql))]
    paths = [folder / "metrics.jsonl" for folder in folders]
    return [str(path) for path in paths if path.is_absolute() and path.is_file()]

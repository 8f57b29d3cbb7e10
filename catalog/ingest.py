"""Building the catalog from what the work directory says: run records and manifests."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from catalog.parquet import Artifacts
from catalog.store import CATALOG_FILE, CatalogError, quote, quote_name, schema_name
from catalog.views import VIEWS, text_macros, training_sql
from catalog.workdir import Artifact, Run, artifacts_of, read_artifacts, read_runs

STORAGE_VERSION = "v1.0.0"
"""Storage format of the file, the oldest that DuckDB 2 writes: clients from 0.10 on open it."""

_SCHEMA = Path(__file__).parent / "schema.sql"
_TEMPORARY = f".{CATALOG_FILE}.tmp"
_LOCK = f".{CATALOG_FILE}.lock"


def rebuild(workdir: Path) -> Path:
    """Make the catalog of a work directory anew and publish it by rename.

    Readers are never blocked: who has the old file open goes on reading it. Everything comes from
    ``runs/*/run.json`` and the manifests of committed artifacts; no document is read.

    Args:
        workdir: folder that holds ``runs/`` and ``artifacts/``.

    Returns:
        Path of the catalog.

    Raises:
        CatalogError: the folder is no work directory, a record or manifest in it is damaged, or
            the catalog cannot be written.
    """
    workdir = workdir.absolute()
    if not (workdir / "artifacts").is_dir() and not (workdir / "runs").is_dir():
        raise CatalogError(
            f"{workdir}: no work directory (neither artifacts/ nor runs/ is in it); "
            "give the workdir of a recipe"
        )
    path, temporary = workdir / CATALOG_FILE, workdir / _TEMPORARY
    with _one_at_a_time(workdir):
        artifacts, runs = read_artifacts(workdir), read_runs(workdir)
        _remove(temporary)
        try:
            _build(temporary, workdir, runs, artifacts)
            temporary.replace(path)
        except (duckdb.Error, OSError) as error:
            raise CatalogError(f"{path}: cannot be written: {error}") from error
        finally:
            _remove(temporary)
    return path


@contextlib.contextmanager
def _one_at_a_time(workdir: Path) -> Iterator[None]:
    """Wait for another rebuild of the same catalog, so that the later one reads the later state."""
    try:
        handle = os.open(workdir / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise CatalogError(f"{workdir}: cannot be written ({error.strerror})") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _remove(temporary: Path) -> None:
    for path in (temporary, temporary.with_name(temporary.name + ".wal")):
        path.unlink(missing_ok=True)


def _build(
    file: Path, workdir: Path, runs: Sequence[Run], artifacts: Mapping[str, Artifact]
) -> None:
    """Write a whole catalog to a new file."""
    available = {
        run.run_id: found for run in runs if (found := artifacts_of(run, artifacts)) is not None
    }
    logs = _event_logs(workdir, available)
    with duckdb.connect() as connection:
        attach = f"ATTACH {quote(str(file))} AS fresh (STORAGE_VERSION {quote(STORAGE_VERSION)})"
        connection.execute(attach)
        connection.execute("USE fresh")
        connection.execute("BEGIN")
        connection.execute(_SCHEMA.read_text(encoding="utf-8"))
        _insert(connection, "runs", [_run_row(run, run.run_id in available) for run in runs])
        _insert(connection, "stages", [row for run in runs for row in _stage_rows(run, workdir)])
        _insert(connection, "against", [row for run in runs for row in _against_rows(run)])
        _insert(connection, "artifacts", [_artifact_row(a) for a in artifacts.values()])
        newest: Artifacts = available[list(available)[-1]] if available else {}
        _create_views(connection, "main", newest, logs)
        for run_id, found in available.items():
            schema = quote_name(schema_name(run_id))
            own = {run_id: logs[run_id]} if run_id in logs else {}
            connection.execute(f"CREATE SCHEMA {schema}")
            _create_views(connection, schema, found, own)
        connection.execute("COMMIT")
        connection.execute("USE memory")
        # Detaching writes the log into the file, which then is complete by itself.
        connection.execute("DETACH fresh")


def _create_views(
    connection: duckdb.DuckDBPyConnection,
    schema: str,
    artifacts: Artifacts,
    logs: Mapping[str, Path],
) -> None:
    for view in VIEWS:
        connection.execute(f"CREATE VIEW {schema}.{view.name} AS {view.sql(artifacts)}")
    connection.execute(f"CREATE VIEW {schema}.training AS {training_sql(logs)}")
    for statement in text_macros(artifacts, schema):
        connection.execute(statement)


def _event_logs(workdir: Path, available: Mapping[str, Artifacts]) -> dict[str, Path]:
    """Return the runs' logs of training events; a run with a dataset gets an empty one.

    A trainer appends to it later; the view then shows the events without another rebuild.
    """
    logs = {}
    for run_id, artifacts in available.items():
        path = workdir / "runs" / run_id / "training.jsonl"
        if "balance" in artifacts:
            path.touch()
        if path.exists():
            logs[run_id] = path
    return logs


def _insert(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Insert rows; a value that a row does not name is null, a name without a column is ignored."""
    schema = connection.sql(f"FROM {table}").to_arrow_table().schema
    connection.register("new_rows", pa.Table.from_pylist(list(rows), schema=schema))
    connection.execute(f"INSERT INTO {table} SELECT * FROM new_rows")
    connection.unregister("new_rows")


def _run_row(run: Run, available: bool) -> dict[str, Any]:
    return {
        **run.record,
        "started": run.started,
        "finished": run.finished,
        "available": available,
        "dropped": _json(run.record.get("dropped") or {}),
        "recipe": _json(run.record.get("recipe")),
        "warnings": _json(run.record.get("warnings") or []),
    }


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def _stage_rows(run: Run, workdir: Path) -> Iterator[dict[str, Any]]:
    for position, stage in enumerate(run.stages):
        path = stage.facts.get("path")
        yield {
            **stage.facts,
            "run_id": run.run_id,
            "position": position,
            "path": None if path is None else str(workdir / path),
        }


def _against_rows(run: Run) -> Iterator[dict[str, Any]]:
    for row in run.record.get("against") or ():
        yield {**row, "run_id": run.run_id}


def _artifact_row(artifact: Artifact) -> dict[str, Any]:
    return {
        "fingerprint": artifact.fingerprint,
        "stage": artifact.stage,
        "bytes": artifact.bytes,
        "created": artifact.created,
        "parents": _json(dict(artifact.parents)),
        "files": len(artifact.files),
        "rows": sum(file.rows for file in artifact.files),
        "path": str(artifact.folder),
    }

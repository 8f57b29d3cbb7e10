"""The views of one run: SQL over the Parquet files that its artifacts list.

Every view has its columns whether or not its stage ran; without files it has no rows. Nothing here
reads a file: the SQL names absolute paths, and any DuckDB client resolves them.
"""

from collections.abc import Mapping
from pathlib import Path

from catalog.document_views import DOCUMENT_VIEWS
from catalog.parquet import Artifacts, literal_path
from catalog.row_views import ROW_VIEWS
from catalog.store import quote
from catalog.view import View, no_files

VIEWS = (*DOCUMENT_VIEWS, *ROW_VIEWS)
"""The views of design and documentation; ``training`` is made from the runs' event logs."""

TRAINING_COLUMNS = (
    ("run_id", "VARCHAR"),
    ("out", "VARCHAR"),
    ("step", "BIGINT"),
    ("event", "VARCHAR"),
    ("row_id", "BIGINT"),
    ("detail", "VARCHAR"),
)


def training_sql(logs: Mapping[str, Path]) -> str:
    """Return the SELECT of ``training``: the events of training runs, as far as they are written.

    Args:
        logs: run id -> its ``training.jsonl``, which may be empty and may grow.
    """
    columns = ", ".join(f"{quote(name)}: {quote(kind)}" for name, kind in TRAINING_COLUMNS[1:])
    parts = [
        f"SELECT {quote(run)} AS run_id, * FROM read_json({quote(literal_path(str(path)))}, "
        f"format = 'newline_delimited', columns = {{{columns}}}, ignore_errors = true, "
        # A line that is still being written reads as nulls.
        "hive_partitioning = false) WHERE event IS NOT NULL"
        for run, path in logs.items()
    ]
    return " UNION ALL ".join(parts) or View("training", TRAINING_COLUMNS, no_files).sql({})


def text_macros(artifacts: Artifacts, schema: str) -> list[str]:
    """Return the statements that make ``document_text``, as a table and as a scalar function."""
    [texts] = (view.sql(artifacts) for view in VIEWS if view.name == "texts")
    name = f"{schema}.document_text"
    return [
        f"CREATE MACRO {name}(uid) AS TABLE SELECT * FROM ({texts}) t WHERE t.doc_uid = uid",
        f"CREATE MACRO {name}(uid) AS (SELECT t.text FROM ({texts}) t WHERE t.doc_uid = uid)",
    ]

"""What changed between two runs of a work directory: settings, stages, counts, documents."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from catalog.store import (
    CATALOG_FILE,
    QueryError,
    fetch,
    open_catalog,
    quote_name,
    schema_name,
    to_json_rows,
)

Row = dict[str, Any]

_COUNTS = ("lines", "rejected", "ingested", "kept", "tokens", "packed_rows", "padding")


@dataclass(frozen=True, slots=True)
class Change:
    """Documents that differ in one way."""

    count: int
    examples: list[Row]
    """The first of them, by source and id."""


@dataclass(frozen=True, slots=True)
class DocumentChanges:
    """How the documents of two runs differ; a document is known by its source and id."""

    added: Change
    removed: Change
    text_changed: Change
    """In both, with another normalized text."""
    selection_changed: Change
    """In both with the same text, and dropped in one of them only, for another reason, or taken in
    other numbers."""


@dataclass(frozen=True, slots=True)
class RunDiff:
    """What changed from one run to another."""

    run_a: str
    run_b: str
    config: dict[str, tuple[Any, Any]]
    """Dotted key of the recipe -> (old, new), where they differ; null where the key is absent."""
    stages: dict[str, tuple[str | None, str | None]]
    """Stage -> (old, new) fingerprint, of all stages; null where the stage did not run."""
    counts: dict[str, tuple[float | None, float | None]]
    """Count -> (old, new), where they differ."""
    documents: DocumentChanges | None = field(default=None)
    """None where a run failed or its artifacts were removed."""

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain JSON values."""
        return asdict(self)


def diff(workdir: Path, run_a: str, run_b: str, examples: int = 10) -> RunDiff:
    """Compare two runs.

    Args:
        workdir: folder that holds the catalog.
        run_a: id of the older run.
        run_b: id of the newer run.
        examples: documents shown of each kind of change.

    Raises:
        CatalogError: there is no catalog.
        QueryError: it does not know one of the runs.
    """
    with open_catalog(workdir) as connection:
        a, b = (_run(connection, workdir, run) for run in (run_a, run_b))
        stages_a, stages_b = _stages(connection, run_a), _stages(connection, run_b)
        documents = None
        if a["available"] and b["available"]:
            same_ingest = stages_a.get("ingest") == stages_b.get("ingest")
            documents = _documents(connection, run_a, run_b, same_ingest, examples)
        return RunDiff(
            run_a,
            run_b,
            _changes(flatten(json.loads(a["recipe"])), flatten(json.loads(b["recipe"]))),
            {s: (stages_a.get(s), stages_b.get(s)) for s in {**stages_a, **stages_b}},
            _changes(_counts(a), _counts(b)),
            documents,
        )


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested settings by dotted key; tables in a list go by their ``name``, or number."""
    if isinstance(value, Mapping):
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        items = [(_name(item, number), item) for number, item in enumerate(value)]
    else:
        return {prefix: value} if prefix else {}
    flat: dict[str, Any] = {}
    for key, item in items:
        flat |= flatten(item, f"{prefix}.{key}" if prefix else key)
    return flat


def _name(item: Any, number: int) -> str:
    return str(item.get("name", number)) if isinstance(item, Mapping) else str(number)


def _changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    pairs = {key: (a.get(key), b.get(key)) for key in sorted({*a, *b})}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _run(connection: duckdb.DuckDBPyConnection, workdir: Path, run: str) -> Row:
    rows = to_json_rows(fetch(connection, "SELECT * FROM runs WHERE run_id = $run", {"run": run}))
    if not rows:
        raise QueryError(
            f"{workdir / CATALOG_FILE}: no run {run!r}; list them with: "
            'drystone query "SELECT run_id, name, finished FROM runs"'
        )
    return rows[0]


def _stages(connection: duckdb.DuckDBPyConnection, run: str) -> dict[str, str]:
    sql = "SELECT stage, fingerprint FROM stages WHERE run_id = $run ORDER BY position"
    return {
        r["stage"]: r["fingerprint"] for r in to_json_rows(fetch(connection, sql, {"run": run}))
    }


def _counts(run: Row) -> dict[str, Any]:
    dropped = {f"dropped.{reason}": count for reason, count in json.loads(run["dropped"]).items()}
    return {**{name: run[name] for name in _COUNTS}, **dropped}


def _documents(
    connection: duckdb.DuckDBPyConnection, run_a: str, run_b: str, same_ingest: bool, examples: int
) -> DocumentChanges:
    """Compare the documents; addresses tell them apart where both runs ingested the same."""
    key = "doc_uid" if same_ingest else "source, id"
    side = (
        "SELECT d.doc_uid, d.source, d.id, d.exact_hash, s.kept, s.reason, s.copies "
        "FROM {0}.documents d JOIN {0}.selection s USING (doc_uid)"
    )
    a, b = (side.format(quote_name(schema_name(run))) for run in (run_a, run_b))
    connection.execute(
        "CREATE TEMP TABLE compared AS SELECT coalesce(b.source, a.source) AS source, "
        "coalesce(b.id, a.id) AS id, a.doc_uid AS uid_a, b.doc_uid AS uid_b, "
        "CASE WHEN a.doc_uid IS NULL THEN 'added' WHEN b.doc_uid IS NULL THEN 'removed' "
        "WHEN a.exact_hash <> b.exact_hash THEN 'text' ELSE 'selection' END AS change, "
        "a.kept AS kept_a, b.kept AS kept_b, a.reason AS reason_a, b.reason AS reason_b, "
        f"a.copies AS copies_a, b.copies AS copies_b FROM ({a}) a FULL JOIN ({b}) b USING ({key}) "
        "WHERE a.doc_uid IS NULL OR b.doc_uid IS NULL OR a.exact_hash <> b.exact_hash "
        "OR a.reason IS DISTINCT FROM b.reason OR a.copies <> b.copies"
    )
    return DocumentChanges(
        *(
            _change(connection, change, examples)
            for change in ("added", "removed", "text", "selection")
        )
    )


def _change(connection: duckdb.DuckDBPyConnection, change: str, examples: int) -> Change:
    of_kind = "FROM compared WHERE change = $change"
    [total] = to_json_rows(fetch(connection, f"SELECT count(*) AS n {of_kind}", {"change": change}))
    rows = fetch(
        connection,
        f"SELECT * EXCLUDE (change) {of_kind} ORDER BY source, id, uid_a, uid_b LIMIT $examples",
        {"change": change, "examples": examples},
    )
    return Change(total["n"], to_json_rows(rows))

"""The views of one run: SQL over the Parquet files that its artifacts list.

Every view has its columns whether or not its stage ran; without files it has no rows. Nothing here
reads a file: the SQL names absolute paths, and any DuckDB client resolves them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from catalog.documents import documents_sql, ingested_sql
from catalog.parquet import SHARD_FILES, Artifacts, files_of, literal_path, scan
from catalog.selection import selection_sql
from catalog.store import quote

DUPLICATE_STAGES = ("dedupe.exact", "dedupe.near")
"""Stages whose ``duplicates-*.parquet`` make up the view ``duplicates``."""

SPAN_FILES: tuple[tuple[str, str, str, str], ...] = (
    (
        "decontaminate",
        r"matches-.*\.parquet",
        "contamination",
        "item_set || ' ' || item_id || ': ' || CAST(round(100 * score) AS INTEGER) || '% of it'",
    ),
    ("dedupe.sentence", r"spans-.*\.parquet", "sentence", "detail"),
)
"""Stage, names of its files, kind in the view ``spans``, and SQL of the detail."""


@dataclass(frozen=True, slots=True)
class View:
    """One view of the catalog."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Names and SQL types that the view has at least."""
    select: Callable[[Artifacts], str | None]
    """Return its SELECT, or None where the run has no such data."""

    def sql(self, artifacts: Artifacts) -> str:
        """Return the SELECT that defines the view; one without rows where there is no data."""
        found = self.select(artifacts)
        if found is not None:
            return found
        nulls = ", ".join(f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in self.columns)
        return f"SELECT {nulls} WHERE false"


def _from(stage: str, pattern: str, columns: str) -> Callable[[Artifacts], str | None]:
    """Return the select of a view that shows one stage's files."""

    def select(artifacts: Artifacts) -> str | None:
        paths = files_of(artifacts, stage, pattern)
        return f"SELECT {columns} FROM {scan(paths)}" if paths else None

    return select


def _nothing(artifacts: Artifacts) -> str | None:
    return None


def _duplicates(artifacts: Artifacts) -> str | None:
    paths = [p for s in DUPLICATE_STAGES for p in files_of(artifacts, s, r"duplicates-.*\.parquet")]
    return f"SELECT * FROM {scan(paths, union=True)}" if paths else None


def _spans(artifacts: Artifacts) -> str | None:
    parts = []
    for stage, pattern, kind, detail in SPAN_FILES:
        paths = files_of(artifacts, stage, pattern)
        if paths:
            parts.append(
                f'SELECT doc_uid, "start", "end", {quote(kind)} AS kind, {detail} AS detail '
                f"FROM {scan(paths)}"
            )
    return " UNION ALL ".join(parts) or None


def _placements(artifacts: Artifacts) -> str | None:
    flat = files_of(artifacts, "balance", r"placements\.parquet")
    if flat:
        names = "row_id, doc_uid, copy, token_start, token_end, row_offset"
        return f"SELECT {names} FROM {scan(flat)}"
    paths = files_of(artifacts, "balance", r"rows-.*\.parquet")
    if not paths:
        return None
    return (
        "SELECT row_id, doc_uid, copy, token_start, "
        "CAST(token_start + row_end - row_offset AS INTEGER) AS token_end, row_offset FROM ("
        "SELECT row_id, unnest(doc_uid) AS doc_uid, unnest(doc_copy) AS copy, "
        "unnest(doc_offset) AS token_start, "
        "unnest(cu_seqlens[1:len(cu_seqlens) - 1]) AS row_offset, "
        f"unnest(cu_seqlens[2:]) AS row_end FROM {scan(paths)})"
    )


VIEWS: tuple[View, ...] = (
    View(
        "documents",
        (
            ("doc_uid", "BIGINT"),
            ("id", "VARCHAR"),
            ("source", "VARCHAR"),
            ("domain", "VARCHAR"),
            ("lang", "VARCHAR"),
            ("n_chars", "BIGINT"),
            ("n_bytes", "BIGINT"),
            ("exact_hash", "BLOB"),
            ("source_path", "VARCHAR"),
            ("source_line", "BIGINT"),
        ),
        documents_sql,
    ),
    View(
        "texts",
        (("doc_uid", "BIGINT"), ("text", "VARCHAR")),
        lambda artifacts: ingested_sql(artifacts, "d.doc_uid, d.text"),
    ),
    View("signals", (("doc_uid", "BIGINT"),), _nothing),
    View(
        "duplicates",
        (
            ("doc_uid", "BIGINT"),
            ("cluster", "BIGINT"),
            ("keeper_uid", "BIGINT"),
            ("keeper_ingest", "VARCHAR"),
            ("kind", "VARCHAR"),
            ("jaccard", "DOUBLE"),
            ("cluster_size", "BIGINT"),
        ),
        _duplicates,
    ),
    View(
        "flagged_clusters",
        (
            ("cluster", "BIGINT"),
            ("source", "VARCHAR"),
            ("removed", "BIGINT"),
            ("documents", "BIGINT"),
            ("share", "DOUBLE"),
            ("keeper_uid", "BIGINT"),
            ("keeper_ingest", "VARCHAR"),
            ("keeper_source", "VARCHAR"),
            ("keeper_id", "VARCHAR"),
        ),
        _from("dedupe.near", r"flags\.parquet", "*"),
    ),
    View(
        "spans",
        (
            ("doc_uid", "BIGINT"),
            ("start", "BIGINT"),
            ("end", "BIGINT"),
            ("kind", "VARCHAR"),
            ("detail", "VARCHAR"),
        ),
        _spans,
    ),
    View(
        "contamination",
        (
            ("doc_uid", "BIGINT"),
            ("item_set", "VARCHAR"),
            ("item_id", "VARCHAR"),
            ("score", "DOUBLE"),
            ("start", "BIGINT"),
            ("end", "BIGINT"),
            ("tokens", "INTEGER"),
            ("item_tokens", "INTEGER"),
            ("item_start", "BIGINT"),
            ("item_end", "BIGINT"),
            ("answer", "BOOLEAN"),
            ("found", "VARCHAR"),
            ("item", "VARCHAR"),
        ),
        _from("decontaminate", r"matches-.*\.parquet", "*"),
    ),
    View(
        "selection",
        (
            ("doc_uid", "BIGINT"),
            ("kept", "BOOLEAN"),
            ("reason", "VARCHAR"),
            ("copies", "INTEGER"),
            ("weight", "DOUBLE"),
            ("dropped_by", "VARCHAR"),
        ),
        selection_sql,
    ),
    View(
        "rejects",
        (
            ("source", "VARCHAR"),
            ("path", "VARCHAR"),
            ("line", "BIGINT"),
            ("reason", "VARCHAR"),
            ("detail", "VARCHAR"),
        ),
        _from("ingest", r"rejects-.*\.parquet", "source, path, line, reason, detail"),
    ),
    View(
        "conversations",
        (
            ("record_id", "VARCHAR"),
            ("doc_uid", "BIGINT"),
            ("world", "VARCHAR"),
            ("pattern", "VARCHAR"),
            ("labels", "VARCHAR[]"),
            ("verdict", "VARCHAR"),
        ),
        _nothing,
    ),
    View(
        "tokens",
        (("doc_uid", "BIGINT"), ("n_tokens", "INTEGER")),
        _from("encode", SHARD_FILES, "doc_uid, n_tokens"),
    ),
    View(
        "packed_rows",
        (
            ("row_id", "BIGINT"),
            ("n_tokens", "INTEGER"),
            ("n_docs", "INTEGER"),
            ("bucket", "INTEGER"),
        ),
        _from(
            "balance",
            r"rows-.*\.parquet",
            # The smallest of the lists that have one entry per piece.
            "row_id, n_tokens, CAST(len(doc_copy) AS INTEGER) AS n_docs, "
            "CAST(floor(log2(list_max([cu_seqlens[i + 1] - cu_seqlens[i] "
            "for i in generate_series(1, len(cu_seqlens) - 1)]))) AS INTEGER) AS bucket",
        ),
    ),
    View(
        "row_quality",
        (
            ("fitted_row", "BIGINT"),
            ("cluster", "INTEGER"),
            ("similarity", "DOUBLE"),
            ("pieces", "INTEGER"),
            ("n_tokens", "INTEGER"),
        ),
        _from(
            "pack",
            r"quality-.*\.parquet",
            "row AS fitted_row, cluster, similarity, pieces, n_tokens",
        ),
    ),
    View(
        "plan",
        (
            ("row_id", "BIGINT"),
            ("step", "BIGINT"),
            ("slot", "INTEGER"),
            ("rank", "INTEGER"),
            ("cp", "SMALLINT"),
            ("cost", "DOUBLE"),
        ),
        _from("balance", r"plan\.parquet", "*"),
    ),
    View(
        "placements",
        (
            ("row_id", "BIGINT"),
            ("doc_uid", "BIGINT"),
            ("copy", "SMALLINT"),
            ("token_start", "INTEGER"),
            ("token_end", "INTEGER"),
            ("row_offset", "INTEGER"),
        ),
        _placements,
    ),
    View(
        "vectors",
        (("doc_uid", "BIGINT"), ("vector", "BLOB")),
        _from("embed", r"vectors-.*\.parquet", "doc_uid, vector"),
    ),
    View(
        "utility",
        (
            ("doc_uid", "BIGINT"),
            ("utility", "FLOAT"),
            ("similarity", "FLOAT"),
            ("weight", "FLOAT"),
            ("utility_quantile", "FLOAT"),
            ("similarity_quantile", "FLOAT"),
        ),
        _from(
            "utility",
            r"weights-.*\.parquet",
            "doc_uid, utility, similarity, weight, utility_quantile, similarity_quantile",
        ),
    ),
    View(
        "mixture",
        (
            ("domain", "VARCHAR"),
            ("documents", "BIGINT"),
            ("available", "BIGINT"),
            ("most", "BIGINT"),
            ("asked_share", "DOUBLE"),
            ("asked", "BIGINT"),
            ("quota", "BIGINT"),
            ("drawn_documents", "BIGINT"),
            ("tokens", "BIGINT"),
            ("share", "DOUBLE"),
            ("epochs", "DOUBLE"),
            ("runs_dry", "BOOLEAN"),
        ),
        _from("mixture", r"report\.parquet", "*"),
    ),
    View(
        "repeated_sentences",
        (
            ("hash", "BIGINT"),
            ("text", "VARCHAR"),
            ("doc_uid", "BIGINT"),
            ("documents", "BIGINT"),
            ("near_group", "BIGINT"),
            ("group_documents", "BIGINT"),
            ("occurrences", "BIGINT"),
            ("chars", "BIGINT"),
            ("quality", "DOUBLE"),
            ("removed", "BOOLEAN"),
            ("reason", "VARCHAR"),
            ("dropped_occurrences", "BIGINT"),
            ("dropped_documents", "BIGINT"),
            ("dropped_chars", "BIGINT"),
        ),
        _from("dedupe.sentence", r"sentences-.*\.parquet", "*"),
    ),
    View(
        "sentence_drops",
        (
            ("doc_uid", "BIGINT"),
            ("n_chars", "BIGINT"),
            ("removed_chars", "BIGINT"),
            ("removed_share", "DOUBLE"),
        ),
        _from("dedupe.sentence", r"drops-.*\.parquet", "*"),
    ),
    View(
        "zones",
        (
            ("step", "INTEGER"),
            ("slot", "INTEGER"),
            ("row_id", "BIGINT"),
            ("piece", "INTEGER"),
            ("length", "INTEGER"),
            ("zone", "VARCHAR"),
            ("ranks", "INTEGER[]"),
            ("chunk_offsets", "INTEGER[]"),
        ),
        _from("balance", r"zones\.parquet", "*"),
    ),
    View(
        "transfers",
        (
            ("step", "INTEGER"),
            ("slot", "INTEGER"),
            ("source", "INTEGER"),
            ("target", "INTEGER"),
            ("tokens", "INTEGER"),
        ),
        _from("balance", r"transfers\.parquet", "*"),
    ),
)
"""The views of design and documentation; ``training`` is made from the runs' event logs."""

TRAINING_COLUMNS = (
    ("run_id", "VARCHAR"),
    ("out", "VARCHAR"),
    ("step", "BIGINT"),
    ("event", "VARCHAR"),
    ("row_id", "BIGINT"),
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
    return " UNION ALL ".join(parts) or View("training", TRAINING_COLUMNS, _nothing).sql({})


def text_macros(artifacts: Artifacts, schema: str) -> list[str]:
    """Return the statements that make ``document_text``, as a table and as a scalar function."""
    [texts] = (view.sql(artifacts) for view in VIEWS if view.name == "texts")
    name = f"{schema}.document_text"
    return [
        f"CREATE MACRO {name}(uid) AS TABLE SELECT * FROM ({texts}) t WHERE t.doc_uid = uid",
        f"CREATE MACRO {name}(uid) AS (SELECT t.text FROM ({texts}) t WHERE t.doc_uid = uid)",
    ]

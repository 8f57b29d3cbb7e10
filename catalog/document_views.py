"""Views of documents: what was read, and what each stage found and decided about it."""

from catalog.documents import DOCUMENT_STAGES, documents_sql, ingested_sql
from catalog.parquet import Artifacts, files_of, scan
from catalog.selection import selection_sql
from catalog.store import quote
from catalog.view import View, no_files, stage_files

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


DOCUMENT_VIEWS: tuple[View, ...] = (
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
    View("signals", (("doc_uid", "BIGINT"),), no_files),
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
        stage_files("dedupe.near", r"flags\.parquet", "*"),
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
        stage_files("decontaminate", r"matches-.*\.parquet", "*"),
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
        stage_files(DOCUMENT_STAGES, r"rejects-.*\.parquet", "source, path, line, reason, detail"),
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
            ("scenario", "VARCHAR"),
            ("lang", "VARCHAR"),
            ("skeleton", "VARCHAR"),
            ("proof", "VARCHAR"),
        ),
        stage_files(
            "synthesize",
            r"conversations-.*\.parquet",
            "record_id, doc_uid, world, pattern, labels, verdict, scenario, lang, skeleton, proof",
        ),
    ),
    View(
        "quotas",
        (
            ("source", "VARCHAR"),
            ("pattern", "VARCHAR"),
            ("scenario", "VARCHAR"),
            ("quota", "BIGINT"),
            ("delivered", "BIGINT"),
            ("tried", "BIGINT"),
            ("why", "VARCHAR"),
        ),
        stage_files(
            "synthesize",
            r"quotas\.parquet",
            "source, pattern, scenario, quota, delivered, tried, why",
        ),
    ),
    View(
        "vectors",
        (("doc_uid", "BIGINT"), ("vector", "BLOB")),
        stage_files("embed", r"vectors-.*\.parquet", "doc_uid, vector"),
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
        stage_files(
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
        stage_files("mixture", r"report\.parquet", "*"),
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
        stage_files("dedupe.sentence", r"sentences-.*\.parquet", "*"),
    ),
    View(
        "sentence_drops",
        (
            ("doc_uid", "BIGINT"),
            ("n_chars", "BIGINT"),
            ("removed_chars", "BIGINT"),
            ("removed_share", "DOUBLE"),
        ),
        stage_files("dedupe.sentence", r"drops-.*\.parquet", "*"),
    ),
)

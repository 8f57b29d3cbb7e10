"""The ingested documents in SQL: shards, with the new ids and late rejects laid over them.

Shards keep ids as they were read. Where ids repeat, ``ids-*.parquet`` of the ingest artifact holds
the new id of a document, or null where the document was rejected for it.
"""

from catalog.parquet import SHARD_FILES, Artifacts, files_of, scan

_OVERLAY_FILES = r"ids-.*\.parquet"


def documents_sql(artifacts: Artifacts) -> str | None:
    """Return the SELECT of ``documents``: all columns but the text and the reason."""
    source = _source(artifacts, union=True)
    if source is None:
        return None
    renamed = "REPLACE (coalesce(o.new_id, d.id) AS id) " if _overlay(artifacts) else ""
    return f"SELECT d.* EXCLUDE (reason, text) {renamed}FROM {source}"


DOCUMENT_STAGES = ("ingest", "synthesize")
"""Stages whose shards hold documents: what was read, and what was made."""


def ingested_sql(artifacts: Artifacts, columns: str) -> str | None:
    """Return a SELECT of some columns (of ``d``) that every shard has; None without documents."""
    source = _source(artifacts, union=False)
    return None if source is None else f"SELECT {columns} FROM {source}"


def _source(artifacts: Artifacts, *, union: bool) -> str | None:
    """Return the FROM clause: shards as ``d``, less the rejected documents; overlay as ``o``."""
    shards = [p for s in DOCUMENT_STAGES for p in files_of(artifacts, s, SHARD_FILES)]
    if not shards:
        return None
    documents, overlay = f"{scan(shards, union=union)} d", _overlay(artifacts)
    if not overlay:
        return documents
    return (
        f"{documents} LEFT JOIN (SELECT doc_uid AS uid, id AS new_id FROM {scan(overlay)}) o "
        "ON o.uid = d.doc_uid WHERE o.uid IS NULL OR o.new_id IS NOT NULL"
    )


def _overlay(artifacts: Artifacts) -> list[str]:
    return files_of(artifacts, "ingest", _OVERLAY_FILES)

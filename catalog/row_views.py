"""Views of packed rows: their tokens, the pieces in them, and the plan that trains them."""

from catalog.parquet import SHARD_FILES, Artifacts, files_of, scan
from catalog.view import View, stage_files


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


ROW_VIEWS: tuple[View, ...] = (
    View(
        "tokens",
        (("doc_uid", "BIGINT"), ("n_tokens", "INTEGER")),
        stage_files("encode", SHARD_FILES, "doc_uid, n_tokens"),
    ),
    View(
        "packed_rows",
        (
            ("row_id", "BIGINT"),
            ("n_tokens", "INTEGER"),
            ("n_docs", "INTEGER"),
            ("bucket", "INTEGER"),
        ),
        stage_files(
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
        stage_files(
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
        stage_files("balance", r"plan\.parquet", "*"),
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
        stage_files("balance", r"zones\.parquet", "*"),
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
        stage_files("balance", r"transfers\.parquet", "*"),
    ),
)

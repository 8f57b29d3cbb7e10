"""Whether documents that belong together stand in one row: similarity inside rows and across them."""

from collections.abc import Sequence

from catalog.report.figure import Figure, RunFacts
from catalog.report.sql import histogram

_ROWS = 400
"""Rows that are looked at, chosen by hash."""

# A half-precision number from its bytes in hexadecimal, the lower one first.
_BITS = "CAST('0x' || x[3:4] || x[1:2] AS INTEGER)"
_HALF = (
    "(CASE WHEN h >= 32768 THEN -1 ELSE 1 END) * (CASE WHEN (h >> 10) & 31 = 0 "
    "THEN (h & 1023) * pow(2.0, -24) ELSE (1024 + (h & 1023)) * pow(2.0, ((h >> 10) & 31) - 25) END)"
)

_PAIRS = f"""
    two AS (
        SELECT row_id, min_by(doc_uid, md5(doc_uid || ' ' || row_id)) AS one,
            max_by(doc_uid, md5(doc_uid || ' ' || row_id)) AS other
        FROM (SELECT DISTINCT row_id, doc_uid FROM @placements)
        GROUP BY row_id HAVING count(*) > 1
    ),
    chosen AS (
        SELECT one, other, lead(other) OVER (ORDER BY md5(CAST(row_id AS VARCHAR)), row_id) AS next
        FROM two ORDER BY md5(CAST(row_id AS VARCHAR)), row_id LIMIT {_ROWS}
    ),
    pairs AS (
        SELECT 'inside' AS place, one AS a, other AS b FROM chosen
        UNION ALL SELECT 'across', one, next FROM chosen WHERE next IS NOT NULL AND next != one
    ),
    decoded AS (
        SELECT doc_uid, [{_HALF} for h in [{_BITS} for x in bytes]] AS vector
        FROM (SELECT doc_uid, regexp_extract_all(hex(vector), '....') AS bytes FROM @vectors
            WHERE doc_uid IN (SELECT a FROM pairs UNION SELECT b FROM pairs))
    ),
    measured AS (
        SELECT place, round(list_cosine_similarity(va.vector, vb.vector), 6) AS similarity
        FROM pairs JOIN decoded va ON va.doc_uid = a JOIN decoded vb ON vb.doc_uid = b
    )
"""
"""Two documents of a row, and one of them beside a document of another row."""


def similarity(run: RunFacts) -> Sequence[Figure]:
    """Cosines of documents' vectors, and what packing by similarity says of its rows."""
    figures = []
    if "embed" in run.stages:
        figures += _measured()
    if run.setting("pack.strategy") == "sculpt" and "row_quality" in run.views:
        figures += _of_sculpt()
    return figures


def _measured() -> list[Figure]:
    note = (
        f"Cosine of the vectors of two documents of a row, and of two from different rows, for {_ROWS} "
        "rows chosen by hash among those with two documents or more."
    )
    return [
        Figure(
            id="similarity",
            title="Similarity inside rows and across them",
            sql=f"""
                WITH {_PAIRS}
                SELECT place, count(*) AS pairs,
                    round(sum(CAST(similarity AS DECIMAL(18, 6))) / count(*), 4) AS mean,
                    round(quantile_disc(similarity, 0.1), 4) AS p10,
                    round(quantile_disc(similarity, 0.5), 4) AS p50,
                    round(quantile_disc(similarity, 0.9), 4) AS p90
                FROM measured WHERE NOT isnan(similarity) GROUP BY place ORDER BY place DESC
            """,
            note=note,
            none="No row has two documents.",
        ),
        Figure(
            id="similarity-histogram",
            title="The same pairs by similarity",
            chart="histogram",
            sql=histogram(
                f"""
                SELECT CAST(floor(similarity * 20) AS INTEGER) AS bin,
                    count(*) FILTER (WHERE place = 'inside') AS inside,
                    count(*) FILTER (WHERE place = 'across') AS across
                FROM (WITH {_PAIRS.strip()} SELECT * FROM measured)
                WHERE NOT isnan(similarity) GROUP BY bin
                """,
                ("bin / 20", "(bin + 1) / 20"),
                ("inside", "across"),
            ),
            none="No row has two documents.",
        ),
    ]


def _of_sculpt() -> list[Figure]:
    return [
        Figure(
            id="row-similarity",
            title="Similarity within each row",
            chart="histogram",
            sql=histogram(
                """
                SELECT CAST(floor(similarity * 20) AS INTEGER) AS bin, count(*) AS "rows"
                FROM @row_quality WHERE similarity IS NOT NULL GROUP BY bin
                """,
                ("bin / 20", "(bin + 1) / 20"),
                ("rows",),
            ),
            note="Mean cosine of the pairs of a row's documents, as packing measured it.",
        ),
        Figure(
            id="clusters-of-rows",
            title="Clusters with the most rows",
            sql="""
                SELECT cluster, count(*) AS "rows", sum(pieces) AS pieces, sum(n_tokens) AS tokens,
                    round(quantile_disc(similarity, 0.5), 4) AS similarity_p50
                FROM @row_quality GROUP BY cluster
                ORDER BY "rows" DESC, cluster NULLS LAST LIMIT 30
            """,
            note="Rows without a cluster hold documents of several, or one long document.",
        ),
    ]

"""Training runs on the run's dataset."""

from collections.abc import Sequence

from catalog.parquet import literal_path
from catalog.report.figure import Figure, RunFacts
from catalog.store import quote

_COLUMNS = (
    "{'step': 'BIGINT', 'loss': 'DOUBLE', 'grad_norm': 'DOUBLE', 'lr': 'DOUBLE', "
    "'tokens': 'BIGINT', 'seconds': 'DOUBLE', 'rows': 'BIGINT'}"
)


def training(run: RunFacts) -> Sequence[Figure]:
    """Events, and the curves of those whose metrics are at hand."""
    figures = [
        Figure(
            id="training-events",
            title="Events",
            sql="""
                SELECT out, event, count(DISTINCT step) AS steps, count(row_id) AS "rows",
                    min(step) AS first_step, max(step) AS last_step
                FROM @training GROUP BY out, event ORDER BY out, first_step, event LIMIT 200
            """,
        ),
        Figure(
            id="training-incidents",
            title="Steps that stood out, and the documents in their rows",
            sql="""
                WITH found AS (
                    SELECT out, step, event, row_id, detail FROM @training
                    WHERE event IN ('spike', 'damaged', 'drop') AND row_id IS NOT NULL
                    ORDER BY out, step, event, row_id LIMIT 50
                )
                SELECT f.out, f.step, f.event, f.row_id, any_value(f.detail) AS detail,
                    count(DISTINCT p.doc_uid) AS documents, min(d.id) AS first_id,
                    max(d.id) AS last_id
                FROM found f LEFT JOIN @placements p USING (row_id)
                LEFT JOIN @documents d USING (doc_uid)
                GROUP BY f.out, f.step, f.event, f.row_id
                ORDER BY f.out, f.step, f.event, f.row_id LIMIT 50
            """,
            note="The first fifty; drystone explain says of a document what befell its rows.",
            none="None.",
        ),
    ]
    for number, path in enumerate(run.files.get("metrics", ())):
        metrics = (
            f"read_json({quote(literal_path(path))}, format = 'newline_delimited', "
            f"ignore_errors = true, hive_partitioning = false, columns = {_COLUMNS})"
        )
        figures += [
            Figure(
                id=f"training-{number}-{column}",
                title=f"{title}, {path}",
                chart="lines",
                sql=f"""
                    WITH metrics AS (SELECT * FROM {metrics} WHERE step IS NOT NULL)
                    SELECT min(step) AS step, round(quantile_disc({column}, 0.5), 6) AS {column}
                    FROM metrics WHERE {column} IS NOT NULL
                    GROUP BY step * 200 // (SELECT max(step) + 1 FROM metrics) ORDER BY step
                """,
                note="With more than 200 steps, the median of each two-hundredth.",
            )
            for column, title in (("loss", "Loss"), ("grad_norm", "Gradient norm"))
        ]
    return figures

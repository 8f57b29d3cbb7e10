"""The mixture that was asked for and what became of it; documents weighed by a target."""

from collections.abc import Sequence

from catalog.report.figure import Figure, RunFacts
from catalog.report.sql import histogram


def mixture(run: RunFacts) -> Sequence[Figure]:
    """Shares of tokens by domain."""
    return [
        Figure(
            id="mixture-shares",
            title="Asked for, and drawn",
            chart="bars",
            sql="""
                SELECT domain, round(asked_share, 6) AS asked_share, round(share, 6) AS drawn_share
                FROM @mixture ORDER BY asked_share DESC, domain LIMIT 60
            """,
        ),
        Figure(
            id="mixture",
            title="Domains of the mixture",
            sql="""
                SELECT domain, documents, available, asked, tokens, drawn_documents,
                    round(epochs, 4) AS epochs, runs_dry
                FROM @mixture ORDER BY tokens DESC, domain LIMIT 60
            """,
            note="available: tokens that there are; tokens: those drawn; epochs: tokens / "
            "available; runs_dry: there was less than asked for at the most epochs allowed.",
        ),
        Figure(
            id="copies",
            title="How many times documents are drawn",
            chart="bars",
            sql="""
                SELECT CAST(copies AS VARCHAR) AS drawn, count(*) AS documents
                FROM @selection WHERE kept OR reason = 'mixture'
                GROUP BY copies ORDER BY copies LIMIT 40
            """,
        ),
    ]


def utility(run: RunFacts) -> Sequence[Figure]:
    """Weights by what documents do for a target text."""
    return [
        Figure(
            id="utility-histogram",
            title="Weights",
            chart="histogram",
            sql=histogram(
                """
                SELECT CAST(floor(weight * 4) AS INTEGER) AS bin, count(*) AS documents
                FROM @utility WHERE weight IS NOT NULL GROUP BY bin
                """,
                ("bin / 4", "(bin + 1) / 4"),
                ("documents",),
            ),
            note="How much more often than at random a document is drawn.",
        ),
        Figure(
            id="utility-by-source",
            title="By source",
            sql="""
                SELECT d.source, count(*) AS documents,
                    round(quantile_disc(CAST(u.weight AS DOUBLE), 0.1), 4) AS weight_p10,
                    round(quantile_disc(CAST(u.weight AS DOUBLE), 0.5), 4) AS weight_p50,
                    round(quantile_disc(CAST(u.weight AS DOUBLE), 0.9), 4) AS weight_p90,
                    round(quantile_disc(CAST(u.utility AS DOUBLE), 0.5), 4) AS utility_p50,
                    round(quantile_disc(CAST(u.similarity AS DOUBLE), 0.5), 4) AS similarity_p50
                FROM @utility u JOIN @documents d USING (doc_uid)
                GROUP BY d.source ORDER BY weight_p50 DESC, d.source LIMIT 60
            """,
        ),
        *[
            Figure(
                id=f"utility-{name}",
                title=title,
                sql=f"""
                    SELECT d.source, d.id, round(CAST(u.weight AS DOUBLE), 4) AS weight,
                        round(CAST(u.utility AS DOUBLE), 4) AS utility,
                        round(CAST(u.similarity AS DOUBLE), 4) AS similarity
                    FROM @utility u JOIN @documents d USING (doc_uid) WHERE u.utility IS NOT NULL
                    ORDER BY u.utility {order}, d.source, d.id LIMIT 12
                """,
            )
            for name, title, order in (
                ("most", "Of most use", "DESC"),
                ("least", "Of least use", "ASC"),
            )
        ],
    ]

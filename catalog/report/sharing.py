"""Documents that several ranks share, and what that sends between them."""

from collections.abc import Sequence

from catalog.report.figure import Figure, RunFacts


def zones(run: RunFacts) -> Sequence[Figure]:
    """Pieces by zone, and the tokens that are moved."""
    return [
        Figure(
            id="zones",
            title="Pieces by zone",
            sql="""
                SELECT zone, count(*) AS pieces, sum(length) AS tokens,
                    min(length) AS shortest, quantile_disc(length, 0.5) AS length_p50,
                    max(length) AS longest, max(len(ranks)) AS most_ranks
                FROM @zones GROUP BY zone ORDER BY zone
            """,
            note="local: one rank computes the attention of the piece; intra: ranks of one node; "
            "inter: ranks of several nodes.",
        ),
        Figure(
            id="transfers",
            title="Tokens moved to the linear layout, by step",
            chart="lines",
            sql="""
                SELECT min(step) AS step, max(tokens) AS most
                FROM (SELECT step, sum(tokens) AS tokens FROM @transfers GROUP BY step)
                GROUP BY step * 100 // (SELECT max(step) + 1 FROM @plan) ORDER BY step
            """,
            none="No token is moved.",
        ),
    ]

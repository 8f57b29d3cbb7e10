"""Rows and steps: how full, how dear, how even, and whether evenness bends the order of training."""

from collections.abc import Sequence

from catalog.report.figure import Figure, RunFacts
from catalog.report.sql import OCTAVE, histogram, octave

_ORDERED = """
    places AS (
        SELECT row_number() OVER (PARTITION BY cp ORDER BY step, slot, rank, row_id) AS n,
            cp, step, slot, rank
        FROM @plan
    ),
    shuffled AS (
        SELECT row_number() OVER (PARTITION BY cp
            ORDER BY md5(CAST(row_id AS VARCHAR)), row_id) AS n, cp, row_id, cost
        FROM @plan
    ),
    ordered AS (
        SELECT 'plan' AS "order", row_id, step, slot, rank, cp, cost FROM @plan
        UNION ALL
        SELECT 'random', s.row_id, p.step, p.slot, p.rank, p.cp, s.cost
        FROM places p JOIN shuffled s USING (cp, n)
    )
"""
"""The plan, and the same rows dealt to the same places by hash: a random shuffle."""

_COSTS = (
    _ORDERED.rstrip()
    + """,
    ranks AS (
        SELECT "order", step, r AS rank, sum(CAST(cost / cp AS DECIMAL(28, 9))) AS cost
        FROM (SELECT *, unnest(range(rank, rank + cp)) AS r FROM ordered)
        GROUP BY ALL
    ),
    width AS (SELECT max(rank) + 1 AS ranks FROM ranks),
    steps AS (
        SELECT "order", step, max(cost) AS most, sum(cost) AS total, any_value(ranks) AS ranks
        FROM ranks CROSS JOIN width GROUP BY "order", step
    )
"""
)
"""Cost of each rank in each step (a row that several ranks share is split), and of each step."""

_RANDOM = "The random order deals the same rows to the same places by hash."


def rows(run: RunFacts) -> Sequence[Figure]:
    """What the rows hold."""
    seq_len = int(run.setting("pack.seq_len", 1))
    return [
        Figure(
            id="packing",
            title="Rows",
            chart="facts",
            sql=f"""
                SELECT count(*) AS "rows", {seq_len} AS seq_len, sum(n_tokens) AS tokens,
                    round(sum(n_tokens) / nullif(sum(cp * {seq_len}), 0), 6) AS fill,
                    sum(n_docs) AS pieces, round(sum(n_docs) / nullif(count(*), 0), 2)
                        AS pieces_per_row,
                    (SELECT count(DISTINCT doc_uid) FROM @placements) AS documents,
                    (SELECT count(*) FROM (SELECT doc_uid, copy FROM @placements
                        GROUP BY ALL HAVING count(*) > 1)) AS documents_in_pieces,
                    count(DISTINCT step) AS steps, max(rank + cp) AS ranks
                FROM @packed_rows JOIN @plan USING (row_id)
            """,
            note="documents_in_pieces: copies of documents that are longer than a row, in full "
            "rows and one remainder.",
        ),
        Figure(
            id="fill",
            title="Places left empty in a row",
            chart="histogram",
            own_scales=True,
            sql=histogram(
                f"""
                SELECT CASE WHEN empty = 0 THEN -1 ELSE {octave("greatest(empty, 1)")} END AS bin,
                    count(*) AS "rows", sum(empty) AS places
                FROM (SELECT p.cp * {seq_len} - r.n_tokens AS empty
                    FROM @packed_rows r JOIN @plan p USING (row_id))
                GROUP BY bin
                """,
                (
                    f"CASE WHEN bin < 0 THEN 0 ELSE {OCTAVE[0]} END",
                    f"CASE WHEN bin < 0 THEN 0 ELSE {OCTAVE[1]} END",
                ),
                ("rows", "places"),
            ),
            note=f"Of {seq_len:,} places. Each series has its own scale.",
        ),
        Figure(
            id="pieces-per-row",
            title="Documents in a row",
            chart="histogram",
            sql=histogram(
                f"""
                SELECT {octave("n_docs")} AS bin, count(*) AS "rows"
                FROM @packed_rows WHERE n_docs > 0 GROUP BY bin
                """,
                OCTAVE,
                ("rows",),
            ),
            note="Pieces; a document that is longer than a row has several.",
        ),
        Figure(
            id="length-mix",
            title="Length mix",
            chart="histogram",
            own_scales=True,
            sql=histogram(
                f"""
                SELECT {octave("token_end - token_start")} AS bin, count(*) AS pieces,
                    sum(token_end - token_start) AS tokens, count(DISTINCT row_id) AS "rows"
                FROM @placements GROUP BY bin
                """,
                OCTAVE,
                ("pieces", "tokens", "rows"),
            ),
            note="Pieces by their length in tokens, the tokens in them, and the rows that have such "
            "a piece. Each series has its own scale.",
        ),
    ]


def _cost_at(bin_: str) -> str:
    """Return SQL of the cost at which one of forty bins begins."""
    least, most = (f"(SELECT {end}(cost / cp) FROM @plan)" for end in ("min", "max"))
    return f"round({least} + {bin_} * greatest({most} - {least}, 1e-9) / 40, 6)"


def costs(run: RunFacts) -> Sequence[Figure]:
    """What rows, ranks and steps cost."""
    return [
        Figure(
            id="row-cost",
            title="Cost of a row",
            chart="histogram",
            sql=histogram(
                """
                SELECT least(39, CAST(floor((cost / cp - low) / width * 40) AS INTEGER)) AS bin,
                    count(*) AS "rows"
                FROM @plan, (SELECT min(cost / cp) AS low,
                    greatest(max(cost / cp) - min(cost / cp), 1e-9) AS width FROM @plan)
                GROUP BY bin
                """,
                (_cost_at("bin"), _cost_at("(bin + 1)")),
                ("rows",),
            ),
            note="In 10^12 floating-point operations, forward and backward, on each rank that "
            "shares the row.",
        ),
        Figure(
            id="imbalance",
            title="Heaviest rank against the mean, by step",
            chart="lines",
            sql=f"""
                WITH {_COSTS},
                uneven AS (SELECT "order", step, most * ranks / total AS ratio,
                    step * 100 // (SELECT max(step) + 1 FROM steps) AS part FROM steps
                    WHERE total > 0)
                SELECT min(step) AS step,
                    round(max(ratio) FILTER (WHERE "order" = 'plan'), 6) AS plan,
                    round(max(ratio) FILTER (WHERE "order" = 'random'), 6) AS random
                FROM uneven GROUP BY part ORDER BY part
            """,
            note="1 is perfect: every rank has the same work in the step. With more than 100 steps, "
            f"the worst of each hundredth. A short last step has idle ranks. {_RANDOM}",
        ),
        Figure(
            id="imbalance-quantiles",
            title="Waste and spread",
            sql=f"""
                WITH {_COSTS}
                SELECT "order", round(1 - sum(total) / sum(most * ranks), 6) AS idle_share,
                    round(quantile_disc(most * ranks / total, 0.5), 6) AS imbalance_p50,
                    round(quantile_disc(most * ranks / total, 0.95), 6) AS imbalance_p95,
                    round(max(most * ranks / total), 6) AS imbalance_most,
                    round(min(total), 6) AS step_cost_least,
                    round(quantile_disc(total, 0.5), 6) AS step_cost_p50,
                    round(max(total), 6) AS step_cost_most
                FROM steps WHERE total > 0 GROUP BY "order" ORDER BY "order"
            """,
            note="idle_share: how much of the ranks' time is spent in waiting for the heaviest one "
            "at the end of each step.",
        ),
        Figure(
            id="rank-cost",
            title="Cost of each rank, over all steps",
            chart="bars",
            sql=f"""
                WITH {_COSTS}
                SELECT 'rank ' || rank AS rank_,
                    round(sum(cost) FILTER (WHERE "order" = 'plan'), 6) AS plan,
                    round(sum(cost) FILTER (WHERE "order" = 'random'), 6) AS random
                FROM ranks GROUP BY rank ORDER BY rank LIMIT 64
            """,
        ),
    ]


_SHARES = (
    _ORDERED.rstrip()
    + """,
    counted AS (
        SELECT p.row_id, d.domain, sum(p.token_end - p.token_start) AS tokens
        FROM @placements p JOIN @documents d USING (doc_uid) GROUP BY ALL
    ),
    of_steps AS (
        SELECT o."order", o.step, c.domain, sum(c.tokens) AS tokens
        FROM ordered o JOIN counted c USING (row_id) GROUP BY ALL
    ),
    largest AS (
        SELECT domain FROM counted GROUP BY domain ORDER BY sum(tokens) DESC, domain LIMIT 12
    ),
    totals AS (SELECT "order", step, sum(tokens) AS tokens FROM of_steps GROUP BY ALL)
"""
)
"""Tokens of each domain in each step, in the plan and in a random order."""


def order(run: RunFacts) -> Sequence[Figure]:
    """Whether evenness changes what a step sees, beside a random shuffle of the rows."""
    return [
        Figure(
            id="step-domains",
            title="Share of each domain in a step",
            chart="ranges",
            sql=f"""
                WITH {_SHARES},
                shares AS (
                    SELECT t."order", l.domain,
                        coalesce(o.tokens, 0) / nullif(t.tokens, 0) AS share
                    FROM totals t CROSS JOIN largest l
                    LEFT JOIN of_steps o USING ("order", step, domain)
                )
                SELECT domain, "order", round(quantile_disc(share, 0.05), 6) AS p5,
                    round(quantile_disc(share, 0.5), 6) AS p50,
                    round(quantile_disc(share, 0.95), 6) AS p95
                FROM shares GROUP BY domain, "order" ORDER BY domain, "order"
            """,
            note="Over all steps: the 5 %, 50 % and 95 % quantile of the share of the step's tokens. "
            f"A plan as wide as the random order bends nothing. {_RANDOM}",
        ),
        Figure(
            id="step-domains-course",
            title="Domains in the course of training",
            chart="areas",
            sql=f"""
                WITH {_SHARES}
                SELECT min(step) AS step, coalesce(l.domain, 'other') AS domain,
                    sum(o.tokens) AS tokens
                FROM of_steps o LEFT JOIN largest l USING (domain) WHERE "order" = 'plan'
                GROUP BY step * 100 // (SELECT max(step) + 1 FROM of_steps),
                    coalesce(l.domain, 'other')
                ORDER BY step, domain
            """,
            note="Tokens of each domain, by hundredths of the plan.",
        ),
        Figure(
            id="step-lengths",
            title="Lengths of the documents in a step",
            chart="ranges",
            sql=f"""
                WITH {_ORDERED},
                measured AS (
                    SELECT o."order", o.step,
                        quantile_disc(p.token_end - p.token_start, [0.1, 0.5, 0.9]) AS three
                    FROM ordered o JOIN @placements p USING (row_id) GROUP BY o."order", o.step
                ),
                of_steps AS (
                    SELECT "order", unnest(['10 %', '50 %', '90 %']) AS quantile,
                        unnest(three) AS tokens FROM measured
                )
                SELECT quantile, "order", quantile_disc(tokens, 0.05) AS p5,
                    quantile_disc(tokens, 0.5) AS p50, quantile_disc(tokens, 0.95) AS p95
                FROM of_steps GROUP BY quantile, "order" ORDER BY quantile, "order"
            """,
            note="Quantiles of the lengths of a step's pieces, in tokens; of each, the 5 %, 50 % and "
            f"95 % quantile over the steps. {_RANDOM}",
        ),
        Figure(
            id="step-documents",
            title="Documents in a step",
            chart="lines",
            sql=f"""
                WITH {_ORDERED},
                of_steps AS (
                    SELECT o."order", o.step, sum(r.n_docs) AS pieces
                    FROM ordered o JOIN @packed_rows r USING (row_id) GROUP BY ALL
                )
                SELECT min(step) AS step,
                    round(sum(pieces) FILTER (WHERE "order" = 'plan')
                        / count(*) FILTER (WHERE "order" = 'plan'), 2) AS plan,
                    round(sum(pieces) FILTER (WHERE "order" = 'random')
                        / count(*) FILTER (WHERE "order" = 'random'), 2) AS random
                FROM of_steps GROUP BY step * 100 // (SELECT max(step) + 1 FROM of_steps)
                ORDER BY step
            """,
            note=f"Pieces of a step; the mean of each hundredth of the plan. {_RANDOM}",
        ),
    ]

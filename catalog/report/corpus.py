"""What went in, what came out, and what was lost: figures of the documents."""

from collections.abc import Sequence

from catalog.report.figure import Figure, RunFacts
from catalog.report.sql import OCTAVE, beginning, histogram, octave
from catalog.store import quote


def summary(run: RunFacts) -> Sequence[Figure]:
    """What the run says of itself."""
    me = quote(run.run_id)
    figures = [
        Figure(
            id="run",
            title="The run",
            chart="facts",
            sql=f"""
                SELECT status, lines, rejected, ingested, kept, ingested - kept AS dropped, tokens,
                    packed_rows, round(padding, 6) AS padding, cpu_s, wall_s,
                    peak_rss_bytes, started, finished
                FROM runs WHERE run_id = {me}
            """,
            note="padding is the share of row slots that hold no token.",
        ),
        Figure(
            id="stages",
            title="Stages",
            sql=f"""
                SELECT stage, cached, rows_in, rows_out, bytes, cpu_s, wall_s,
                    left(fingerprint, 12) AS fingerprint
                FROM stages WHERE run_id = {me} ORDER BY position
            """,
            note="A cached stage was done by an earlier run and cost nothing in this one.",
            none="The run ended before its stages were accounted for.",
        ),
    ]
    if run.views:
        figures[1:1] = [_funnel(me), _account(me)]
    figures.insert(
        -1,
        Figure(
            id="warnings",
            title="Warnings",
            sql=f"""
                SELECT unnest(from_json(warnings, '["VARCHAR"]')) AS warning
                FROM runs WHERE run_id = {me}
            """,
            none="The run warned of nothing.",
        ),
    )
    config = f"SELECT recipe FROM runs WHERE run_id = {me}"
    return [
        *figures,
        Figure(id="recipe", title="Recipe, with every default", chart="json", sql=config),
    ]


def _funnel(me: str) -> Figure:
    return Figure(
        id="funnel",
        title="What was left after each stage",
        chart="bars",
        sql=f"""
            WITH dropped AS (
                SELECT dropped_by AS stage, count(*) AS n FROM @selection WHERE NOT kept GROUP BY ALL
            ),
            steps AS (
                SELECT s.position, s.stage, coalesce(d.n, 0) AS dropped
                FROM stages s LEFT JOIN dropped d USING (stage)
                WHERE s.run_id = {me} AND (d.n IS NOT NULL OR NOT regexp_matches(s.stage,
                    '^(ingest|tokenizer|embed|utility|balance)$'))
            ),
            counted AS (
                SELECT -1 AS position, 'ingested' AS after, ingested AS documents, rejected AS lost
                FROM runs WHERE run_id = {me}
                UNION ALL
                SELECT position, stage,
                    (SELECT count(*) FROM @selection) - sum(dropped) OVER (ORDER BY position),
                    dropped
                FROM steps
            )
            SELECT after, CAST(documents AS BIGINT) AS documents, lost
            FROM counted ORDER BY position
        """,
        note="Lost beside ingested are lines that could not be read.",
    )


def _account(me: str) -> Figure:
    return Figure(
        id="account",
        title="The account closes",
        sql=f"""
            WITH said AS (SELECT * FROM runs WHERE run_id = {me}),
            counted AS (SELECT count(*) AS documents, count(*) FILTER (WHERE kept) AS kept,
                count(*) FILTER (WHERE NOT kept) AS dropped FROM @selection)
            SELECT 'lines = ingested + rejected' AS claim, lines AS "left",
                ingested + rejected AS "right", lines = ingested + rejected AS holds FROM said
            UNION ALL SELECT 'ingested = documents in selection', ingested, documents,
                ingested = documents FROM said, counted
            UNION ALL SELECT 'ingested = kept + dropped', ingested, counted.kept + dropped.n,
                ingested = counted.kept + dropped.n
                FROM said, counted, (SELECT dropped AS n FROM counted) dropped
            UNION ALL SELECT 'rejected = rows of rejects', rejected, r.n, rejected = r.n
                FROM said, (SELECT count(*) AS n FROM @rejects) r
            ORDER BY claim
        """,
    )


def sources(run: RunFacts) -> Sequence[Figure]:
    """Where the text comes from, and what of it is trained on."""
    return [
        Figure(
            id="domain-shares",
            title="Domains, in and out",
            chart="bars",
            sql="""
                WITH counted AS (
                    SELECT d.domain, sum(d.n_chars) AS chars,
                        coalesce(sum(d.n_chars) FILTER (WHERE s.kept), 0) AS kept,
                        coalesce(sum(t.n_tokens * s.copies), 0) AS tokens
                    FROM @documents d JOIN @selection s USING (doc_uid)
                    LEFT JOIN @tokens t USING (doc_uid) GROUP BY d.domain
                )
                SELECT domain, round(chars / sum(chars) OVER (), 6) AS share_of_characters_in,
                    coalesce(round(kept / nullif(sum(kept) OVER (), 0), 6), 0)
                        AS share_of_characters_kept,
                    coalesce(round(tokens / nullif(sum(tokens) OVER (), 0), 6), 0)
                        AS share_of_tokens_out
                FROM counted ORDER BY chars DESC, domain LIMIT 40
            """,
            note="Tokens out count every copy that the mixture draws.",
        ),
        Figure(id="domains", title="Domains", sql=_by("domain")),
        Figure(id="sources", title="Sources", sql=_by("source")),
        Figure(id="languages", title="Languages", sql=_by("lang")),
    ]


def _by(column: str) -> str:
    return f"""
        SELECT d.{column}, count(*) AS documents, count(*) FILTER (WHERE s.kept) AS kept,
            round(count(*) FILTER (WHERE s.kept) / count(*), 4) AS kept_share,
            sum(d.n_chars) AS characters,
            coalesce(sum(d.n_chars) FILTER (WHERE s.kept), 0) AS characters_kept,
            coalesce(sum(t.n_tokens * s.copies), 0) AS tokens,
            round(sum(d.n_chars) FILTER (WHERE t.n_tokens > 0) / nullif(sum(t.n_tokens), 0), 3)
                AS characters_per_token
        FROM @documents d JOIN @selection s USING (doc_uid) LEFT JOIN @tokens t USING (doc_uid)
        GROUP BY d.{column} ORDER BY characters DESC, d.{column} NULLS LAST LIMIT 40
    """


def lengths(run: RunFacts) -> Sequence[Figure]:
    """How long documents are."""
    return [
        Figure(
            id="document-characters",
            title="Length of documents, before and after",
            chart="histogram",
            sql=histogram(
                f"""
                SELECT {octave("greatest(d.n_chars, 1)")} AS bin, count(*) AS ingested,
                    count(*) FILTER (WHERE s.kept) AS kept
                FROM @documents d JOIN @selection s USING (doc_uid) GROUP BY bin
                """,
                OCTAVE,
                ("ingested", "kept"),
            ),
            note="In characters; each bin is twice as wide as the one before it.",
        ),
        Figure(
            id="document-tokens",
            title="Where the tokens are",
            chart="histogram",
            own_scales=True,
            sql=histogram(
                f"""
                SELECT {octave("t.n_tokens")} AS bin, count(*) AS documents,
                    sum(t.n_tokens * s.copies) AS tokens
                FROM @tokens t JOIN @selection s USING (doc_uid)
                WHERE s.kept AND t.n_tokens > 0 GROUP BY bin
                """,
                OCTAVE,
                ("documents", "tokens"),
            ),
            note="Kept documents by length in tokens, and the tokens that documents of a length "
            "bring, copies counted. Each series has its own scale.",
            none="No document was encoded.",
        ),
        Figure(
            id="length-quantiles",
            title="Lengths by domain",
            sql="""
                SELECT d.domain, count(*) AS kept, quantile_disc(d.n_chars, 0.05) AS chars_p5,
                    quantile_disc(d.n_chars, 0.5) AS chars_p50,
                    quantile_disc(d.n_chars, 0.95) AS chars_p95, max(d.n_chars) AS chars_most,
                    quantile_disc(t.n_tokens, 0.05) AS tokens_p5,
                    quantile_disc(t.n_tokens, 0.5) AS tokens_p50,
                    quantile_disc(t.n_tokens, 0.95) AS tokens_p95, max(t.n_tokens) AS tokens_most
                FROM @documents d JOIN @selection s USING (doc_uid)
                LEFT JOIN @tokens t USING (doc_uid)
                WHERE s.kept GROUP BY d.domain ORDER BY kept DESC, d.domain LIMIT 40
            """,
            note="Quantiles over documents, each counted once.",
        ),
    ]


def losses(run: RunFacts) -> Sequence[Figure]:
    """Why documents were dropped, and lines rejected."""
    return [
        Figure(
            id="reasons",
            title="Reasons",
            chart="bars",
            own_scales=True,
            sql="""
                SELECT s.reason, count(*) AS documents, sum(d.n_chars) AS characters, s.dropped_by
                FROM @selection s JOIN @documents d USING (doc_uid) WHERE NOT s.kept
                GROUP BY s.reason, s.dropped_by ORDER BY documents DESC, s.reason, s.dropped_by
                LIMIT 40
            """,
            note="The first stage that drops a document gives the reason. Each series has its own "
            "scale.",
            none="No document was dropped.",
        ),
        *[
            Figure(
                id=f"reasons-by-{column}",
                title=f"What became of each {column}",
                chart="shares",
                sql=f"""
                    SELECT d.{column}, coalesce(s.reason, 'kept') AS fate, count(*) AS documents
                    FROM @selection s JOIN @documents d USING (doc_uid)
                    WHERE d.{column} IN (SELECT {column} FROM @documents GROUP BY {column}
                        ORDER BY count(*) DESC, {column} LIMIT 30)
                    GROUP BY ALL
                    ORDER BY d.{column}, count(s.reason) > 0, documents DESC, fate LIMIT 600
                """,
            )
            for column in ("source", "domain")
        ],
        Figure(
            id="rejects",
            title="Lines that could not be read",
            sql="""
                SELECT source, reason, count(*) AS lines, count(DISTINCT path) AS files,
                    min_by(path || ', line ' || line, (path, line)) AS first,
                    left(min_by(detail, (path, line)), 300) AS detail_of_first
                FROM @rejects GROUP BY source, reason ORDER BY lines DESC, source, reason LIMIT 60
            """,
            none="Every line was read.",
        ),
    ]


def samples(run: RunFacts) -> Sequence[Figure]:
    """Texts to be read."""
    return [
        Figure(
            id="samples-dropped",
            title="Dropped",
            chart="texts",
            sql=_sample("s.reason", "reason", "NOT s.kept", each=3, groups=12),
            note="Three of each reason, chosen by hash.",
            none="No document was dropped.",
        ),
        Figure(
            id="samples-kept",
            title="Kept",
            chart="texts",
            sql=_sample("d.domain", "domain", "s.kept", each=2, groups=12),
            note="Two of each domain, chosen by hash.",
            none="No document was kept.",
        ),
    ]


def _sample(key: str, name: str, where: str, *, each: int, groups: int) -> str:
    """Return SQL of a few documents of each group, the largest groups first."""
    return f"""
        WITH candidates AS (
            SELECT {key} AS {name}, d.doc_uid, d.source, d.id, d.n_chars,
                count(*) OVER (PARTITION BY {key}) AS size,
                row_number() OVER (PARTITION BY {key}
                    ORDER BY md5(CAST(d.doc_uid AS VARCHAR)), d.doc_uid) AS place
            FROM @documents d JOIN @selection s USING (doc_uid) WHERE {where}
        ),
        chosen AS (
            SELECT * FROM candidates WHERE place <= {each}
            ORDER BY size DESC, {name}, place LIMIT {each * groups}
        )
        SELECT c.{name}, c.source, c.id, c.n_chars, {beginning("t.text")}
        FROM chosen c JOIN @texts t USING (doc_uid) ORDER BY c.size DESC, c.{name}, c.place
    """

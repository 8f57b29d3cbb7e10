"""Conversations made from graphs: quotas, labels, what was refused, and how diverse they are."""

from collections.abc import Sequence

from catalog.report.figure import Figure, RunFacts
from catalog.report.sql import beginning

_LABELS = """
    SELECT c.record_id, split_part(l, '=', 1) AS label, substr(l, strpos(l, '=') + 1) AS value
    FROM @conversations c, unnest(c.labels) AS t(l)
"""
_FIRST_QUESTIONS = """
    SELECT skeleton, row_number() OVER (PARTITION BY lang ORDER BY md5(record_id), record_id)
        AS place, lang
    FROM @conversations WHERE skeleton IS NOT NULL
"""
_ANSWERS = """
    SELECT unnest(json_extract_string(proof, '$.gold.ids[*]')) AS id, lang FROM @conversations
"""
_RELATIONS = r"""
    SELECT unnest(regexp_extract_all(json_extract_string(proof, '$.plan'),
        '\["(?:project|inverse)","((?:[^"\\]|\\.)*)"', 1)) AS id, lang
    FROM @conversations
"""


def conversations(run: RunFacts) -> Sequence[Figure]:
    """What was made, and what of it is new."""
    return [
        Figure(
            id="conversations",
            title="Conversations",
            chart="facts",
            sql="""
                SELECT count(*) AS conversations, count(DISTINCT world) AS tool_worlds,
                    count(DISTINCT pattern) AS patterns, count(DISTINCT scenario) AS scenarios,
                    (SELECT count(*) FROM @rejects r
                        WHERE r.source IN (SELECT source FROM @quotas)) AS refused
                FROM @conversations
            """,
        ),
        Figure(
            id="conversation-quotas",
            title="Records by scenario",
            chart="bars",
            sql="""
                SELECT scenario, sum(quota) AS quota, sum(delivered) AS delivered
                FROM @quotas GROUP BY scenario ORDER BY quota DESC, scenario LIMIT 60
            """,
        ),
        Figure(
            id="conversation-shortfalls",
            title="Cells that fall short",
            sql="""
                SELECT source, pattern, scenario, quota, delivered, tried, left(why, 300) AS why
                FROM @quotas WHERE delivered < quota
                ORDER BY quota - delivered DESC, source, scenario, pattern LIMIT 60
            """,
            none="Every cell has its quota.",
        ),
        Figure(
            id="conversation-cells",
            title="Patterns and scenarios",
            chart="shares",
            sql="""
                SELECT pattern, scenario, count(*) AS conversations
                FROM @conversations GROUP BY ALL ORDER BY pattern, scenario LIMIT 600
            """,
        ),
        Figure(
            id="conversation-labels",
            title="Labels",
            sql=f"""
                WITH told AS ({_LABELS.strip()}),
                counted AS (
                    SELECT label, value, count(*) AS conversations,
                        row_number() OVER (PARTITION BY label
                            ORDER BY count(*) DESC, value) AS place
                    FROM told WHERE label <> 'scenario' GROUP BY label, value
                )
                SELECT label, value, conversations FROM counted WHERE place <= 12
                ORDER BY label, place LIMIT 300
            """,
            note="The twelve most frequent values of each.",
        ),
        Figure(
            id="conversation-rejects",
            title="Refused candidates",
            sql="""
                SELECT source, reason, count(*) AS candidates, min(detail) AS one
                FROM @rejects WHERE source IN (SELECT source FROM @quotas)
                GROUP BY source, reason ORDER BY candidates DESC, source, reason LIMIT 60
            """,
            none="Every candidate was right.",
        ),
        *_diversity(),
        Figure(
            id="conversation-samples",
            title="Questions without names",
            chart="texts",
            sql=f"""
                SELECT lang, pattern, scenario, {beginning("skeleton")}
                FROM @conversations WHERE skeleton IS NOT NULL
                ORDER BY md5(record_id), record_id LIMIT 12
            """,
            note="Chosen by hash; entities and numbers are masked.",
        ),
    ]


def _diversity() -> list[Figure]:
    return [
        Figure(
            id="conversation-diversity",
            title="Diversity",
            sql=f"""
                WITH questions AS ({_FIRST_QUESTIONS.strip()}),
                runs AS (
                    SELECT lang, count(DISTINCT skeleton) * 1000 / count(*) AS per_thousand
                    FROM questions GROUP BY lang, (place - 1) // 1000
                ),
                counted AS (
                    SELECT 'skeletons' AS of, lang, skeleton AS id FROM questions
                    UNION ALL SELECT 'relations', lang, id FROM ({_RELATIONS.strip()})
                    UNION ALL SELECT 'answer entities', lang, id FROM ({_ANSWERS.strip()})
                    UNION ALL SELECT 'patterns', lang, pattern FROM @conversations
                    UNION ALL SELECT 'scenarios', lang, scenario FROM @conversations
                ),
                shares AS (
                    SELECT of, lang, id, count(*) / sum(count(*)) OVER (PARTITION BY of, lang)
                        AS share
                    FROM counted GROUP BY of, lang, id
                )
                SELECT of, lang, count(*) AS different,
                    round(-sum(share * log2(share)) + 0.0, 3) AS entropy_bits,
                    round(log2(count(*)), 3) AS most_bits, round(max(share), 6) AS largest_share,
                    CASE WHEN of = 'skeletons' THEN (SELECT round(avg(per_thousand), 1)
                        FROM runs WHERE runs.lang = shares.lang) END AS different_per_thousand
                FROM shares GROUP BY of, lang ORDER BY of, lang
            """,
            note="most_bits: the entropy if all were alike. different_per_thousand: of a thousand "
            "questions in an order by hash, how many differ once entities and numbers are masked.",
        ),
        Figure(
            id="conversation-relations",
            title="The most frequent relations",
            sql=f"""
                SELECT id AS relation, lang, count(*) AS uses,
                    round(count(*) / sum(count(*)) OVER (PARTITION BY lang), 5) AS share
                FROM ({_RELATIONS.strip()}) GROUP BY id, lang
                ORDER BY uses DESC, relation, lang LIMIT 20
            """,
        ),
        Figure(
            id="conversation-entities",
            title="The most frequent entities of answers",
            sql=f"""
                SELECT id AS entity, lang, count(*) AS answers,
                    round(count(*) / sum(count(*)) OVER (PARTITION BY lang), 5) AS share
                FROM ({_ANSWERS.strip()}) GROUP BY id, lang
                ORDER BY answers DESC, entity, lang LIMIT 20
            """,
        ),
    ]

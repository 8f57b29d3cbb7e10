"""Duplicates, contamination, repeated sentences: what was found to be there more than once."""

from collections.abc import Sequence

from catalog.report.figure import Figure, RunFacts
from catalog.report.sql import OCTAVE, beginning, histogram, octave


def duplicates(run: RunFacts) -> Sequence[Figure]:
    """Clusters of equal and similar documents."""
    figures = [
        Figure(
            id="duplicate-kinds",
            title="Removed as duplicates",
            sql="""
                SELECT kind, count(*) AS removed, count(DISTINCT cluster) AS clusters,
                    count(*) FILTER (WHERE keeper_ingest IS NOT NULL) AS kept_in_earlier_runs,
                    min(jaccard) AS least_jaccard, median(jaccard) AS median_jaccard
                FROM @duplicates GROUP BY kind ORDER BY kind
            """,
            none="No document has a duplicate.",
        ),
        Figure(
            id="cluster-sizes",
            title="Sizes of clusters",
            chart="histogram",
            sql=histogram(
                f"""
                SELECT bin, count(*) FILTER (WHERE kind = 'exact') AS exact,
                    count(*) FILTER (WHERE kind = 'near') AS near
                FROM (SELECT cluster, kind, {octave("max(cluster_size)")} AS bin
                    FROM @duplicates GROUP BY cluster, kind)
                GROUP BY bin
                """,
                OCTAVE,
                ("exact", "near"),
            ),
            note="Clusters by number of documents, the kept one among them.",
            none="There are no clusters.",
        ),
        Figure(
            id="jaccard",
            title="Similarity of removed near-duplicates to what was kept",
            chart="histogram",
            sql=histogram(
                """
                SELECT least(49, CAST(floor(jaccard * 50) AS INTEGER)) AS bin,
                    count(*) AS documents
                FROM @duplicates WHERE kind = 'near' GROUP BY bin
                """,
                ("bin / 50", "(bin + 1) / 50"),
                ("documents",),
            ),
            note="Exact Jaccard similarity of the word n-grams.",
            none="No near-duplicate was removed.",
        ),
        Figure(
            id="duplicates-between-sources",
            title="Which source a source's duplicates were lost to",
            sql="""
                SELECT lost.source AS lost_in, coalesce(k.source, 'an earlier run') AS kept_in,
                    x.kind, count(*) AS documents
                FROM @duplicates x JOIN @documents lost ON lost.doc_uid = x.doc_uid
                LEFT JOIN @documents k ON k.doc_uid = x.keeper_uid AND x.keeper_ingest IS NULL
                GROUP BY ALL ORDER BY documents DESC, lost_in, kept_in, x.kind LIMIT 60
            """,
            none="There are none.",
        ),
        Figure(
            id="largest-clusters",
            title="The largest clusters",
            chart="texts",
            sql=f"""
                WITH members AS (
                    SELECT x.kind, x.cluster, x.cluster_size, x.keeper_uid, x.keeper_ingest,
                        x.doc_uid, x.jaccard, d.source, d.id,
                        row_number() OVER (PARTITION BY x.kind, x.cluster
                            ORDER BY x.jaccard, x.doc_uid) AS place
                    FROM @duplicates x JOIN @documents d ON d.doc_uid = x.doc_uid
                ),
                clusters AS (
                    SELECT kind, cluster, max(cluster_size) AS documents,
                        string_agg(id, ', ' ORDER BY place) FILTER (WHERE place <= 6) AS members
                    FROM members GROUP BY kind, cluster
                    ORDER BY documents DESC, kind DESC, cluster LIMIT 12
                ),
                lines AS (
                    SELECT c.documents, c.cluster, c.kind, m.jaccard, c.members,
                        coalesce(k.source || ' ' || k.id, 'a document of an earlier run') AS keeper,
                        m.source || ' ' || m.id AS member,
                        string_split(kt.text, chr(10)) AS kept,
                        string_split(mt.text, chr(10)) AS lost
                    FROM clusters c JOIN members m USING (kind, cluster)
                    LEFT JOIN @documents k ON k.doc_uid = m.keeper_uid AND m.keeper_ingest IS NULL
                    LEFT JOIN @texts kt ON kt.doc_uid = k.doc_uid
                    JOIN @texts mt ON mt.doc_uid = m.doc_uid
                    WHERE m.place = 1
                ),
                differing AS (
                    SELECT *, CASE WHEN kind = 'exact' OR kept IS NULL THEN 1 ELSE greatest(1, coalesce(
                        list_position([kept[i] = lost[i]
                            for i in range(1, least(len(kept), len(lost)) + 1)], false),
                        least(len(kept), len(lost)) + 1) - 1) END AS first
                    FROM lines
                )
                SELECT documents AS cluster_of, kind, jaccard, keeper, member,
                    members AS some_members, first - 1 AS equal_lines_before,
                    {beginning("array_to_string(kept[first:], chr(10))", "keeper_text")},
                    {beginning("array_to_string(lost[first:], chr(10))", "member_text")}
                FROM differing ORDER BY documents DESC, kind DESC, cluster
            """,
            note="The kept document beside the removed one that is least like it, near-duplicates from "
            "the line before the first that differs.",
            none="There are no clusters.",
        ),
    ]
    if "flagged_clusters" in run.views and "dedupe.near" in run.stages:
        figures.append(
            Figure(
                id="flagged-clusters",
                title="Clusters that took much of a source",
                sql="""
                    SELECT source, removed, documents, round(share, 4) AS share,
                        keeper_source, keeper_id, cluster
                    FROM @flagged_clusters ORDER BY share DESC, source, cluster LIMIT 60
                """,
                note="More than dedupe.near.flag_share of the source: a template, perhaps, or a "
                "copy of another source.",
            )
        )
    return figures


def contamination(run: RunFacts) -> Sequence[Figure]:
    """Evaluation items in documents."""
    return [
        Figure(
            id="contaminated-sets",
            title="Evaluation sets",
            sql="""
                SELECT item_set, count(DISTINCT item_id) AS items_found,
                    count(DISTINCT doc_uid) AS documents, count(*) AS places,
                    count(DISTINCT item_id) FILTER (WHERE score = 1) AS items_found_whole,
                    count(DISTINCT item_id) FILTER (WHERE answer) AS items_with_answer
                FROM @contamination GROUP BY item_set ORDER BY items_found DESC, item_set LIMIT 60
            """,
            none="No evaluation item was found in any document.",
        ),
        Figure(
            id="contaminated-sources",
            title="Where they stand",
            sql="""
                SELECT d.source, c.item_set, count(DISTINCT c.doc_uid) AS documents,
                    count(DISTINCT c.item_id) AS items
                FROM @contamination c JOIN @documents d USING (doc_uid)
                GROUP BY ALL ORDER BY documents DESC, d.source, c.item_set LIMIT 60
            """,
        ),
        Figure(
            id="contamination-scores",
            title="How much of an item was found",
            chart="histogram",
            sql=histogram(
                """
                SELECT least(19, CAST(floor(score * 20) AS INTEGER)) AS bin, count(*) AS places
                FROM @contamination GROUP BY bin
                """,
                ("bin / 20", "(bin + 1) / 20"),
                ("places",),
            ),
        ),
        Figure(
            id="contamination-pairs",
            title="Matched pairs",
            chart="texts",
            sql="""
                WITH best AS (
                    SELECT c.*, row_number() OVER (PARTITION BY item_set
                        ORDER BY md5(item_id || ' ' || doc_uid), item_id, doc_uid, "start") AS place
                    FROM @contamination c
                )
                SELECT b.item_set, b.item_id, round(b.score, 4) AS score, b.answer, d.source, d.id,
                    b."start", b."end", b.item AS item_text, b.found AS found_text
                FROM best b JOIN @documents d USING (doc_uid) WHERE b.place <= 6
                ORDER BY b.item_set, b.place LIMIT 36
            """,
            note="The evaluation item beside what the document holds; six of each set, chosen by "
            "hash. start and end are characters of the ingested text.",
        ),
    ]


def sentences(run: RunFacts) -> Sequence[Figure]:
    """Sentences that many documents repeat."""

    def most(fig_id: str, title: str, where: str) -> Figure:
        return Figure(
            id=fig_id,
            title=title,
            sql=f"""
                SELECT left(text, 300) AS sentence, documents, occurrences,
                    round(quality, 3) AS quality, reason
                FROM @repeated_sentences WHERE {where}
                ORDER BY documents DESC, occurrences DESC, hash LIMIT 40
            """,
        )

    return [
        Figure(
            id="sentence-totals",
            title="What was cut",
            chart="facts",
            sql="""
                SELECT count(*) FILTER (WHERE removed) AS sentences_removed,
                    (SELECT count(*) FROM @spans WHERE kind = 'sentence') AS spans,
                    (SELECT coalesce(sum("end" - "start"), 0) FROM @spans WHERE kind = 'sentence')
                        AS characters,
                    (SELECT count(DISTINCT doc_uid) FROM @spans WHERE kind = 'sentence')
                        AS documents_cut,
                    (SELECT count(*) FROM @sentence_drops) AS documents_dropped
                FROM @repeated_sentences
            """,
        ),
        most("sentences-removed", "Removed, in most documents first", "removed"),
        most("sentences-kept", "Frequent, and left in place", "NOT removed"),
    ]

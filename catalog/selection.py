"""``selection``: what became of every ingested document, from the decisions of the stages."""

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.documents import ingested_sql
from catalog.parquet import SHARD_FILES, Artifacts, files_of, scan
from catalog.store import quote


@dataclass(frozen=True, slots=True)
class Decision:
    """What one stage decided about documents: an entry of ``selection``.

    A stage that drops documents, or says how often they are taken, is one entry of
    :data:`DECISIONS`. Its files hold a document at most once.
    """

    stage: str
    files: str
    """Regular expression of the names of its files; each has a column ``doc_uid``."""
    reason: str
    """SQL over a row: why the document is dropped, null where it is not."""
    where: str = "true"
    """SQL over a row: whether the row says anything; fewer rows are faster to join."""
    copies: str | None = None
    """SQL over a row: how often the document is taken."""
    weight: str | None = None
    """SQL over a row: the weight of its tokens in the loss."""


DECISIONS: tuple[Decision, ...] = (
    Decision("decontaminate", r"dropped-.*\.parquet", "'decontaminate'"),
    Decision("dedupe.exact", r"duplicates-.*\.parquet", "'dedupe.exact'"),
    Decision("dedupe.near", r"duplicates-.*\.parquet", "'dedupe.near'"),
    Decision("dedupe.sentence", r"drops-.*\.parquet", "'dedupe.sentence'"),
    Decision("encode", r"drops-.*\.parquet", "reason"),
    Decision("encode", SHARD_FILES, "'empty'", where="n_tokens = 0"),
    Decision(
        "mixture",
        r"copies-.*\.parquet",
        "CASE WHEN copies = 0 THEN 'mixture' END",
        copies="copies",
        weight="weight",
    ),
    Decision("pack", r"drops-.*\.parquet", "reason"),
)
"""In the order of the stages: the first that drops a document gives the reason."""


def selection_sql(artifacts: Artifacts, decisions: Sequence[Decision] = DECISIONS) -> str | None:
    """Return the SELECT of ``selection``: one row per ingested document.

    Args:
        artifacts: the run's artifacts by stage.
        decisions: what stages may have decided, in their order.
    """
    ingested = ingested_sql(artifacts, "d.doc_uid, d.reason")
    if ingested is None:
        return None
    reasons, copies, weights, joins = ["d.reason"], ["1"], ["1.0"], []
    stages = ["WHEN d.reason IS NOT NULL THEN 'ingest'"]
    for number, decision in enumerate(decisions):
        paths = files_of(artifacts, decision.stage, decision.files)
        if not paths:
            continue
        columns = [f"({decision.reason}) AS reason"]
        reasons.append(f"s{number}.reason")
        stages.append(f"WHEN s{number}.reason IS NOT NULL THEN {quote(decision.stage)}")
        for name, sql, found in (
            ("copies", decision.copies, copies),
            ("weight", decision.weight, weights),
        ):
            if sql is not None:
                columns.append(f"({sql}) AS {name}")
                found.insert(0, f"s{number}.{name}")
        joins.append(
            f"LEFT JOIN (SELECT doc_uid, {', '.join(columns)} FROM {scan(paths)} "
            f"WHERE {decision.where}) s{number} ON s{number}.doc_uid = d.doc_uid"
        )
    decided = ", ".join(
        (
            "d.doc_uid",
            f"{_coalesce(reasons)} AS reason",
            f"{_coalesce(copies)} AS copies",
            f"{_coalesce(weights)} AS weight",
            f"CASE {' '.join(stages)} END AS dropped_by",
        )
    )
    return (
        "SELECT doc_uid, reason IS NULL AS kept, reason, "
        "CAST(CASE WHEN reason IS NULL THEN copies ELSE 0 END AS INTEGER) AS copies, "
        "CAST(CASE WHEN reason IS NULL THEN weight ELSE 0 END AS DOUBLE) AS weight, "
        f"dropped_by FROM (SELECT {decided} FROM ({ingested}) d {' '.join(joins)})"
    )


def _coalesce(terms: list[str]) -> str:
    return f"coalesce({', '.join(terms)})"

"""Why one document is in the training data, or is not: every decision, and where its tokens lie."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from catalog.documents import documents_sql
from catalog.lookup import SHOWN, Lookup, Row
from catalog.selection import DECISIONS
from catalog.store import CatalogError, open_catalog
from catalog.workdir import read_artifacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one stage measured and decided about the document."""

    stage: str
    kept: bool
    reason: str | None = None
    """Why it was dropped, as in ``selection``."""
    measure: str | None = None
    """What the score is of, e.g. ``n_chars``."""
    score: float | None = None
    threshold: float | None = None
    detail: str = ""


@dataclass(slots=True, kw_only=True)
class Explanation:
    """Everything the catalog knows about one document of one run.

    Exactly one of three: ``document`` is set; or ``candidates`` lists the documents of several
    sources that share the id; or nothing was found, and ``suggestions`` and ``rejects`` may say why.
    """

    asked: str
    run_id: str
    document: Row | None = None
    """Its row of ``documents``, the source's own columns included."""
    kept: bool | None = None
    reason: str | None = None
    copies: int = 0
    weight: float = 0.0
    n_tokens: int | None = None
    """Length with bos and eos; null where it was dropped before it was encoded."""
    decisions: list[Decision] = field(default_factory=list)
    """In the order of the stages, up to the one that dropped it."""
    keeper: Row | None = None
    """The duplicate it lost to (doc_uid, id, source), with kind, jaccard and cluster_size; one of
    an earlier run with ``keeper_ingest`` and ``workdir``."""
    lost_to_it: list[Row] = field(default_factory=list)
    """The first of the documents that were removed as duplicates of this one."""
    n_lost_to_it: int = 0
    lost_by_kind: dict[str, int] = field(default_factory=dict)
    """Their number by kind of duplicate."""
    spans: list[Row] = field(default_factory=list)
    placements: list[Row] = field(default_factory=list)
    """Its pieces: row_id, copy, token_start, token_end, row_offset, step, slot, rank."""
    training: list[Row] = field(default_factory=list)
    """The first events of training runs that name its rows: out, step, event, row_id, detail."""
    candidates: list[Row] = field(default_factory=list)
    suggestions: list[Row] = field(default_factory=list)
    rejects: list[Row] = field(default_factory=list)

    @property
    def found(self) -> bool:
        """Whether exactly one document was meant."""
        return self.document is not None

    def to_json(self) -> dict[str, Any]:
        """Return all fields as plain JSON values."""
        return asdict(self)


def explain(
    workdir: Path, document: str | int, run: str | None = None, source: str | None = None
) -> Explanation:
    """Explain what became of one document.

    Args:
        workdir: folder that holds the catalog.
        document: its id, or its ``doc_uid``; digits are tried as an id first.
        run: id of the run; default: the newest one that ended well.
        source: name of its source, where several have documents of this id.

    Returns:
        The explanation; its ``found`` is false where no document, or more than one, has the id.

    Raises:
        CatalogError: there is no catalog, or no run ended well.
        QueryError: there is no such run.
    """
    with open_catalog(workdir, run) as connection:
        lookup = Lookup(connection, run)
        told = Explanation(asked=str(document), run_id=lookup.run_id)
        found = lookup.documents(document, source)
        if len(found) == 1:
            _tell(lookup, told, found[0])
        elif found:
            told.candidates = [{k: row[k] for k in ("doc_uid", "id", "source")} for row in found]
        else:
            told.suggestions = lookup.near(told.asked, source)
            told.rejects = lookup.rejects(told.asked)
        return told


def _tell(lookup: Lookup, told: Explanation, document: Row) -> None:
    uid = document["doc_uid"]
    told.document = document
    [selection] = lookup.rows("SELECT * FROM selection WHERE doc_uid = $uid", uid=uid)
    told.kept, told.reason = selection["kept"], selection["reason"]
    told.copies, told.weight = selection["copies"], selection["weight"]
    tokens = lookup.rows("SELECT n_tokens FROM tokens WHERE doc_uid = $uid", uid=uid)
    told.n_tokens = tokens[0]["n_tokens"] if tokens else None
    told.keeper = _keeper(lookup, uid)
    _add_losers(lookup, told, uid)
    told.spans = lookup.rows(
        'SELECT * FROM spans WHERE doc_uid = $uid ORDER BY start, "end", kind', uid=uid
    )
    told.placements = lookup.rows(
        "SELECT p.row_id, p.copy, p.token_start, p.token_end, p.row_offset, "
        "l.step, l.slot, l.rank FROM placements p LEFT JOIN plan l USING (row_id) "
        "WHERE p.doc_uid = $uid ORDER BY p.copy, p.token_start",
        uid=uid,
    )
    told.training = _training(lookup, uid)
    told.decisions = _decisions(lookup, told, selection["dropped_by"])


def _training(lookup: Lookup, uid: int) -> list[Row]:
    """Return what happened in training to the rows that hold the document, of this run's dataset."""
    return lookup.rows(
        "SELECT DISTINCT t.out, t.step, t.event, t.row_id, t.detail FROM training t "
        "JOIN placements p USING (row_id) WHERE t.run_id = $run AND p.doc_uid = $uid "
        f"ORDER BY t.out, t.step, t.event, t.row_id LIMIT {SHOWN}",
        run=lookup.run_id,
        uid=uid,
    )


def _keeper(lookup: Lookup, uid: int) -> Row | None:
    rows = lookup.rows(
        "SELECT x.keeper_uid AS doc_uid, k.id, k.source, x.keeper_ingest, x.kind, x.jaccard, "
        "x.cluster, x.cluster_size FROM duplicates x "
        "LEFT JOIN documents k ON k.doc_uid = x.keeper_uid AND x.keeper_ingest IS NULL "
        "WHERE x.doc_uid = $uid",
        uid=uid,
    )
    if rows and rows[0]["keeper_ingest"] is not None:
        rows[0] |= _elsewhere(lookup, rows[0]["keeper_ingest"], rows[0]["doc_uid"])
    return rows[0] if rows else None


def _elsewhere(lookup: Lookup, ingest: str, uid: int) -> Row:
    """Return id, source and work directory of a document of an earlier run, as far as they are there.

    ``id`` stays out where the work directory is gone, was moved, or holds that artifact no more.
    """
    homes = lookup.rows(
        "SELECT workdir FROM against WHERE run_id = $run AND ingest = $ingest",
        run=lookup.run_id,
        ingest=ingest,
    )
    if not homes:
        return {}
    home: str = homes[0]["workdir"]
    try:
        artifact = read_artifacts(Path(home)).get(ingest)
        documents = None if artifact is None else documents_sql({"ingest": artifact})
        sql = f"SELECT id, source FROM ({documents}) WHERE doc_uid = $uid"
        found = lookup.rows(sql, uid=uid) if documents is not None else []
    except CatalogError:
        found = []
    return {**(found[0] if found else {}), "workdir": home}


def _add_losers(lookup: Lookup, told: Explanation, uid: int) -> None:
    """Enter the documents that were removed in favour of this one."""
    lost = "FROM duplicates WHERE keeper_uid = $uid AND keeper_ingest IS NULL"
    counts = lookup.rows(f"SELECT kind, count(*) AS n {lost} GROUP BY kind ORDER BY kind", uid=uid)
    told.lost_by_kind = {row["kind"]: row["n"] for row in counts}
    told.n_lost_to_it = sum(told.lost_by_kind.values())
    if told.n_lost_to_it:
        told.lost_to_it = lookup.rows(
            "SELECT d.doc_uid, d.id, d.source, x.kind, x.jaccard FROM "
            f"(SELECT doc_uid, kind, jaccard {lost} ORDER BY doc_uid LIMIT {SHOWN}) x "
            "JOIN documents d USING (doc_uid) ORDER BY d.doc_uid",
            uid=uid,
        )


def _decisions(lookup: Lookup, told: Explanation, dropped_by: str | None) -> list[Decision]:
    """Return the decisions in the order of the stages, up to the one that dropped the document."""
    deciding = {"ingest", *(decision.stage for decision in DECISIONS)}
    decisions = []
    for stage in lookup.stages:
        if stage not in deciding:
            continue
        dropped = stage == dropped_by
        measured = _MEASURES[stage](lookup, told) if stage in _MEASURES else {}
        reason = told.reason if dropped else None
        decisions.append(Decision(stage=stage, kept=not dropped, reason=reason, **measured))
        if dropped:
            break
    return decisions


def _ingest(lookup: Lookup, told: Explanation) -> Mapping[str, Any]:
    document = told.document or {}
    return {
        "measure": "n_chars",
        "score": document["n_chars"],
        "threshold": lookup.setting("ingest.min_chars"),
        "detail": "characters of the normalized text; the threshold is the least that is kept",
    }


def _decontaminate(lookup: Lookup, told: Explanation) -> Mapping[str, Any]:
    rows = lookup.rows(
        "SELECT item_set, item_id, score FROM contamination WHERE doc_uid = $uid "
        "ORDER BY score DESC, item_set, item_id",
        uid=(told.document or {})["doc_uid"],
    )
    if not rows:
        return {"detail": "holds no evaluation item"}
    best, policy = rows[0], lookup.setting("decontaminate.policy")
    others = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    return {
        "measure": "score",
        "score": best["score"],
        "threshold": lookup.setting("decontaminate.threshold"),
        "detail": f"holds {best['item_set']} {best['item_id']}{others}; policy = {policy!r}",
    }


def _exact(lookup: Lookup, told: Explanation) -> Mapping[str, Any]:
    return _duplicate(told, "exact", 1.0)


def _near(lookup: Lookup, told: Explanation) -> Mapping[str, Any]:
    return _duplicate(told, "near", lookup.setting("dedupe.near.threshold"))


def _duplicate(told: Explanation, kind: str, threshold: float) -> Mapping[str, Any]:
    keeper = told.keeper
    if keeper is None or keeper["kind"] != kind:
        lost = told.lost_by_kind.get(kind, 0)
        word = "equal" if kind == "exact" else "similar"
        return {"detail": f"{lost} {word} documents lost to it" if lost else "unique"}
    name = f"document {keeper['doc_uid']}"
    if keeper["id"] is not None:
        name = f"{keeper['source']} {keeper['id']}"
    if keeper["keeper_ingest"] is not None:
        name += f" of {keeper.get('workdir', 'another work directory')}"
    return {
        "measure": "jaccard",
        "score": keeper["jaccard"],
        "threshold": threshold,
        "detail": f"lost to {name} in a cluster of {keeper['cluster_size']}",
    }


def _sentence(lookup: Lookup, told: Explanation) -> Mapping[str, Any]:
    limit = lookup.setting("dedupe.sentence.max_removed")
    if told.reason == "dedupe.sentence":
        rows = lookup.rows(
            "SELECT removed_share FROM sentence_drops WHERE doc_uid = $uid",
            uid=(told.document or {})["doc_uid"],
        )
        share = rows[0]["removed_share"] if rows else None
        detail = "share of its characters in sentences that many documents repeat"
    else:
        spans = [span for span in told.spans if span["kind"] == "sentence"]
        lost = sum(span["end"] - span["start"] for span in spans)
        share = lost / max((told.document or {})["n_chars"], 1)
        detail = f"share of its characters that is cut, in {len(spans)} spans"
    return {"measure": "removed_share", "score": share, "threshold": limit, "detail": detail}


def _encode(lookup: Lookup, told: Explanation) -> Mapping[str, Any]:
    return {
        "measure": "n_tokens",
        "score": told.n_tokens,
        "threshold": 1,
        "detail": "tokens; the threshold is the least that is kept",
    }


def _mixture(lookup: Lookup, told: Explanation) -> Mapping[str, Any]:
    domain = (told.document or {})["domain"]
    rows = lookup.rows("SELECT epochs FROM mixture WHERE domain = $domain", domain=domain)
    drawn = f", which is drawn {rows[0]['epochs']:.2f} times" if rows else ""
    return {
        "measure": "copies",
        "score": told.copies,
        "threshold": 1,
        "detail": f"how often it is drawn from the domain {domain}{drawn}",
    }


def _pack(lookup: Lookup, told: Explanation) -> Mapping[str, Any]:
    long, pieces = lookup.setting("pack.long"), len(told.placements)
    return {
        "measure": "n_tokens",
        "score": told.n_tokens,
        "threshold": lookup.setting("pack.seq_len"),
        "detail": f"tokens and seq_len; long = {long!r}; in {pieces} pieces",
    }


_MEASURES: Mapping[str, Callable[[Lookup, Explanation], Mapping[str, Any]]] = {
    "ingest": _ingest,
    "decontaminate": _decontaminate,
    "dedupe.exact": _exact,
    "dedupe.near": _near,
    "dedupe.sentence": _sentence,
    "encode": _encode,
    "mixture": _mixture,
    "pack": _pack,
}
"""Stage -> what it measured, as fields of :class:`Decision`; a stage not named only decides."""

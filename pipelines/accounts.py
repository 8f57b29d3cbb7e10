"""The accounts of a run: what came in, what stayed, what each stage did and cost."""

import json
from dataclasses import dataclass, field
from typing import Any

from pipelines.artifacts import Manifest, Workdir
from pipelines.failures import EngineError
from pipelines.stages import Planned
from pipelines.steps.earlier import REMOVED_AGAINST
from transforms.tokenize.chat import NOT_PREFIX_STABLE, TEMPLATE_FAILED
from transforms.tokenize.conversation import NO_TRAINED_TOKEN

_DROPS = {
    "ingest": {"dropped_min_chars": "under min_chars"},
    "decontaminate": {"dropped": "decontaminate"},
    "dedupe.exact": {"dropped": "dedupe.exact"},
    "dedupe.near": {"dropped": "dedupe.near"},
    "dedupe.sentence": {"dropped": "dedupe.sentence"},
    "encode": {
        "empty": "empty",
        NO_TRAINED_TOKEN: NO_TRAINED_TOKEN,
        NOT_PREFIX_STABLE: NOT_PREFIX_STABLE,
        TEMPLATE_FAILED: TEMPLATE_FAILED,
    },
    "mixture": {"mixture": "mixture"},
    "pack": {"too long": "too long"},
}
"""Stage -> counter of its manifest -> reason in ``selection``."""


@dataclass(slots=True)
class RunSummary:
    """What a run did; :meth:`to_json` is what ``drystone run --json`` prints."""

    run_id: str
    name: str
    status: str
    fingerprint: str
    workdir: str
    lines: int = 0
    rejected: int = 0
    ingested: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    tokens: int = 0
    packed_rows: int = 0
    padding: float = 0.0
    padding_alignment: float = 0.0
    """The part of `padding` that fills pieces to multiples of `pack.align`."""
    padding_fill: float = 0.0
    """The rest: what is left at the end of rows."""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_rss_bytes: int = 0
    dataset: str | None = None
    catalog: str | None = None
    against: list[dict[str, Any]] = field(default_factory=list)
    """Earlier runs that were compared with: workdir, earlier_run, ingest, documents."""
    removed_against: int = 0
    """Documents that were removed as duplicates of theirs."""
    warnings: list[str] = field(default_factory=list)
    stages: list[dict[str, Any]] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class StageCost:
    """What one stage cost in this run."""

    cpu_s: float = 0.0
    wall_s: float = 0.0


def costs_by_stage(store: Workdir) -> dict[str, StageCost]:
    """Sum what this run's tasks left behind, by stage."""
    found = {}
    for folder in (store.scratch / "costs").glob("*"):
        costs = [json.loads(path.read_bytes()) for path in folder.glob("*.json")]
        wall = max(c["ended"] for c in costs) - min(c["started"] for c in costs)
        found[folder.name] = StageCost(sum(c["cpu_s"] for c in costs), wall)
    return found


def close_accounts(
    summary: RunSummary,
    store: Workdir,
    planned: list[Planned],
    done: list[Planned],
    costs: dict[str, StageCost],
) -> None:
    """Close the accounts: lines = ingested + rejected, ingested = kept + dropped by reason."""
    rows_in = 0
    for before, after in zip(planned, done, strict=True):
        manifest = after.manifest
        if manifest is None:
            raise EngineError(f"{after.stage.name} did not commit")
        name = after.stage.name
        rows_in, rows_out = _flow(summary, name, manifest, rows_in)
        folder = store.folder(name, after.fingerprint)
        cost = costs.get(name, StageCost())
        summary.stages.append(
            {
                "stage": name,
                "fingerprint": after.fingerprint,
                "cached": before.manifest is not None,
                "path": str(folder.relative_to(store.path)),
                "rows_in": rows_in,
                "rows_out": rows_out,
                "bytes": manifest.bytes,
                "cpu_s": round(cost.cpu_s, 3),
                "wall_s": round(cost.wall_s, 3),
            }
        )
        rows_in = rows_out
        if name == "balance":
            summary.dataset = str(folder)
    summary.kept = summary.ingested - sum(summary.dropped.values())


def _flow(summary: RunSummary, stage: str, manifest: Manifest, rows_in: int) -> tuple[int, int]:
    """Enter one stage's counters; return its rows in and out (documents, at the end rows)."""
    counters = manifest.counters
    dropped = {reason: counters.get(key, 0) for key, reason in _DROPS.get(stage, {}).items()}
    summary.dropped.update({reason: count for reason, count in dropped.items() if count})
    rows_out = rows_in - sum(dropped.values())
    if stage == "ingest":
        summary.lines, summary.rejected = counters["lines"], counters["rejected"]
        summary.ingested = counters["ingested"]
        if counters.get("repeated ids"):
            summary.warnings.append(f"{counters['repeated ids']} documents had a repeated id")
        return summary.lines, summary.ingested - sum(dropped.values())
    if stage == "synthesize":
        summary.lines += counters["lines"]
        summary.rejected += counters["rejected"]
        summary.ingested += counters["ingested"]
        summary.warnings += manifest.config["notes"]
        return rows_in, rows_in + counters["ingested"]
    summary.removed_against += counters.get(REMOVED_AGAINST, 0)
    if stage == "decontaminate" and counters.get("items too short"):
        summary.warnings.append(
            f"{counters['items too short']:,} evaluation items are too short to be told from chance "
            "and were not searched"
        )
    if stage == "dedupe.near" and counters.get("pairs left out"):
        summary.warnings.append(
            f"{counters['pairs left out']:,} pairs within very large groups of similar documents "
            "were not compared; some near-duplicates among them may be kept"
        )
    if stage in ("dedupe.near", "tokenizer", "utility", "mixture"):
        summary.warnings += manifest.config["notes"]
    if stage in ("encode", "mixture"):
        summary.tokens = counters.get("tokens", 0)
    if stage == "pack":
        summary.tokens, summary.packed_rows = counters["tokens"], counters["rows"]
        slots = counters.get("places", summary.packed_rows) * manifest.config["seq_len"]
        if slots:
            summary.padding = 1 - summary.tokens / slots
            summary.padding_alignment = counters.get("alignment", 0) / slots
            summary.padding_fill = summary.padding - summary.padding_alignment
    if stage == "balance":
        rows_out = summary.packed_rows
    return rows_in, rows_out

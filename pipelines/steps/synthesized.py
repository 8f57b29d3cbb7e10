"""Files of the stage ``synthesize``: candidates, and records as shards of documents."""

import atexit
import contextlib
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from catalog.tables import PlanOracle
from pipelines.artifacts import FileEntry
from pipelines.formats.writer import RejectWriter, ShardWriter
from pipelines.graph_input import overrides_of
from pipelines.steps.columns import write_table
from pipelines.tasks import Work
from transforms.ingest import Reject, Rows, make_documents
from transforms.record import ROW_BITS, doc_uids, shard_number
from transforms.synthesis.build import generate
from transforms.synthesis.graph import Graph
from transforms.synthesis.language.realizer import Realizer
from transforms.synthesis.limits import Limits
from transforms.synthesis.preferences import Preferences
from transforms.synthesis.quotas import Span
from transforms.synthesis.record import Candidate, Record
from transforms.synthesis.rewriter import EndpointRewriter, rewriter_of
from transforms.synthesis.scene import Kit
from transforms.synthesis.settings import SynthesisSettings
from transforms.synthesis.verify import Gate
from transforms.text import IngestSettings
from transforms.tokenize.conversation import Training, conversation_text

CANDIDATE_SCHEMA = pa.schema(
    [
        pa.field("cell", pa.int64(), nullable=False),
        pa.field("index", pa.int64(), nullable=False),
        # 64 bits of what is asked and of the canonical plan.
        pa.field("key", pa.uint64(), nullable=False),
        # Null where the gate let it pass.
        pa.field("reason", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("name", pa.string(), nullable=False),
        pa.field("record", pa.binary()),
    ]
)
"""Columns of ``candidates-*.parquet``."""

CONVERSATION_SCHEMA = pa.schema(
    [
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("world", pa.string(), nullable=False),
        pa.field("pattern", pa.string(), nullable=False),
        pa.field("scenario", pa.string(), nullable=False),
        pa.field("lang", pa.string(), nullable=False),
        # "name=value", in the order of the names.
        pa.field("labels", pa.list_(pa.string()), nullable=False),
        pa.field("verdict", pa.string(), nullable=False),
        pa.field("skeleton", pa.string()),
        # JSON: everything of the record but tools and messages, which are the document.
        pa.field("proof", pa.string(), nullable=False),
    ]
)
"""Columns of ``conversations-*.parquet``."""

PREFERENCE_SCHEMA = pa.schema(
    [
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("record_id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        # JSON: tools, prompt, chosen, rejected, and what proves the rejected one wrong.
        pa.field("pair", pa.string(), nullable=False),
    ]
)
"""Columns of ``preferences-*.parquet``."""

_AS_IS = IngestSettings(min_chars=0, unicode="none", line_ends="keep", control="keep")
_OK = "ok"


def make_candidates(
    folder: Path,
    table: SynthesisSettings,
    seed: int,
    spans: Sequence[tuple[str, str, Span]],
) -> tuple[pa.Table, dict[str, int]]:
    """Make and judge the candidates of a block.

    Args:
        folder: the graph's.
        table: settings.
        seed: of the recipe.
        spans: pattern and scenario of some cells, and the candidates of each to make.

    Returns:
        Columns of CANDIDATE_SCHEMA, a row per candidate; and how often questions were reworded, or
        were not, by reason, where they were to be.
    """
    cells = [span.cell for _, _, span in spans for _ in range(span.start, span.stop)]
    with WORKSHOP.borrow(folder, table, seed) as (kit, gate):
        before = _reworded(kit)
        found = [
            generate(kit, pattern, scenario, index)
            for pattern, scenario, span in spans
            for index in range(span.start, span.stop)
        ]
        reworded = _reworded(kit) - before
        return _judged(cells, found, gate), {f"rewriter: {k}": n for k, n in reworded.items()}


def _reworded(kit: Kit) -> Counter[str]:
    voice = kit.voice
    rewriter = voice.rewriter if isinstance(voice, Realizer) else None
    return Counter(rewriter.reasons) if isinstance(rewriter, EndpointRewriter) else Counter()


def _judged(cells: Sequence[int], found: Sequence[Candidate], gate: Gate) -> pa.Table:
    made = [candidate.record for candidate in found if candidate.record is not None]
    texts = [record.to_json() for record in made]
    verdicts = iter(zip(texts, gate.judge(texts), strict=True))
    rows = []
    for cell, candidate in zip(cells, found, strict=True):
        record = candidate.record
        text, reason, detail = None, candidate.reason, ""
        if record is not None:
            text, verdict = next(verdicts)
            reason, detail = verdict.reason, verdict.detail
        name = f"{candidate.pattern} {candidate.scenario} {candidate.index}"
        key = _key(record.query_key) if record is not None else 0
        rows.append((cell, candidate.index, key, reason or None, detail or None, name, text))
    columns = [list(column) for column in zip(*rows, strict=True)]
    arrays = [
        pa.array(values, column.type)
        for values, column in zip(columns, CANDIDATE_SCHEMA, strict=True)
    ]
    return pa.table(arrays, schema=CANDIDATE_SCHEMA)


def _key(query_key: str) -> int:
    return int.from_bytes(hashlib.blake2b(query_key.encode(), digest_size=8).digest(), "big")


class _Workshop:
    """What makes and judges candidates in this process, one thread at a time.

    Opening a graph takes a second, and all of it is plain Python, of which a process does one thing
    at a time anyway: a second copy for a second thread would cost memory and save nothing.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key = ""
        self._held: tuple[Kit, Gate, PlanOracle] | None = None

    @contextlib.contextmanager
    def borrow(
        self, folder: Path, table: SynthesisSettings, seed: int
    ) -> Iterator[tuple[Kit, Gate]]:
        """Lend what works on a graph; opens it where another one was open."""
        key = f"{folder} {table} {seed}"
        with self._lock:
            if self._held is None or self._key != key:
                self._close()
                graph = Graph.read(folder)
                rewriter = rewriter_of(table.rewriter)
                voice = Realizer(graph, table.lang, overrides_of(table, graph), rewriter)
                oracle = PlanOracle(graph)
                kit = Kit(graph, voice, table.lang, seed, Limits())
                self._key, self._held = key, (kit, Gate(graph, oracle.answers), oracle)
            kit, gate, _ = self._held
            yield kit, gate

    def close(self) -> None:
        """Let go of the graph."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._held is not None:
            self._held[2].close()
        self._held = None


WORKSHOP = _Workshop()
"""Of this process; closed when the stage is finished here, and when the process ends."""
atexit.register(WORKSHOP.close)


def write_shard(
    folder: Path,
    task: str,
    candidates: pa.Table,
    table: SynthesisSettings,
    part: int,
    chosen: npt.NDArray[np.bool_],
    repeated: npt.NDArray[np.bool_],
    surplus: npt.NDArray[np.bool_],
) -> Work:
    """Write the records of a block as documents, and what failed as rejects.

    Args:
        folder: the artifact's.
        task: fingerprint of the task.
        candidates: columns of CANDIDATE_SCHEMA.
        table: settings.
        part: number of the block among those of the table.
        chosen: which candidates are records (:class:`transforms.synthesis.quotas.Choice`).
        repeated: which ask what another one asks.
        surplus: which came when their cells were full.
    """
    path = f"synthesize/{table.graph_name}"
    records = [
        Record.from_json(r) for r in candidates.filter(pa.array(chosen))["record"].to_pylist()
    ]
    rejects = _rejects(candidates, repeated, surplus)
    shard = shard_number(table.source, path, part)
    uids = doc_uids(shard, len(records))
    name = f"{shard:010x}-{task[:12]}.parquet"
    training = Training(weights=table.weights)
    texts = [conversation_text(r.messages, r.tools, training) for r in records]
    rows = Rows(
        part=part,
        text=pa.array(texts, pa.string()),
        id=pa.array([record.record_id for record in records], pa.string()),
        lang=pa.array([record.lang for record in records], pa.string()),
        line=np.flatnonzero(chosen).astype(np.int64) + 1,
    )
    writer = ShardWriter()
    writer.add(
        make_documents(
            rows, uids, source=table.source, domain=table.domain, path=path, settings=_AS_IS
        )
    )
    written = writer.write(folder / name)
    files = [] if written is None else [written]
    if records:
        about = pa.Table.from_pylist(
            [_about(record, uid) for record, uid in zip(records, uids.tolist(), strict=True)],
            schema=CONVERSATION_SCHEMA,
        )
        files.append(write_table(folder / f"conversations-{name}", about, kind="conversations"))
    files += write_rejects(folder / f"rejects-{name}", table.source, rejects, path)
    counters = {
        "lines": len(records) + len(rejects),
        "ingested": len(records),
        "rejected": len(rejects),
        "bytes": sum(len(text.encode()) for text in texts),
    }
    return Work(files, counters)


def write_preferences(
    folder: Path,
    graph: str,
    files: Sequence[FileEntry],
    table: SynthesisSettings,
    seed: int,
    records: Sequence[bytes],
) -> list[FileEntry]:
    """Write the pairs for preference training of a block; without any there is no file.

    Args:
        folder: the artifact's.
        graph: name of the graph's folder in it.
        files: what :func:`write_shard` wrote of the block.
        table: settings.
        seed: of the recipe.
        records: the block's, in the order of the shard.
    """
    shard = next((entry.name for entry in files if entry.kind == "data"), "")
    first = int(shard[:10], 16) << ROW_BITS if shard else 0
    with WORKSHOP.borrow(folder / graph, table, seed) as (kit, _):
        makes = Preferences(kit)
        pairs = [
            (first + row, pair.record_id, pair.kind, pair.to_json().decode())
            for row, record in enumerate(records)
            for pair in makes.pairs(Record.from_json(record))
        ]
    if not pairs:
        return []
    columns = [list(column) for column in zip(*pairs, strict=True)]
    found = pa.table(columns, schema=PREFERENCE_SCHEMA)
    return [write_table(folder / f"preferences-{shard}", found, kind="preferences")]


def _about(record: Record, uid: int) -> dict[str, object]:
    whole = orjson.loads(record.to_json())
    proof = {k: v for k, v in whole.items() if k not in ("tools", "messages")}
    return {
        "record_id": record.record_id,
        "doc_uid": uid,
        "world": record.world,
        "pattern": record.pattern,
        "scenario": str(record.labels["scenario"]),
        "lang": record.lang,
        "labels": [
            f"{k}={json.dumps(v)}" if isinstance(v, bool) else f"{k}={v}"
            for k, v in sorted(record.labels.items())
        ],
        "verdict": _OK,
        "skeleton": record.skeleton or None,
        "proof": orjson.dumps(proof).decode(),
    }


def _rejects(
    candidates: pa.Table, repeated: npt.NDArray[np.bool_], surplus: npt.NDArray[np.bool_]
) -> list[Reject]:
    """Return the candidates that failed before their cells were full."""
    rejects = []
    for place, row in enumerate(candidates.select(["reason", "detail", "name"]).to_pylist()):
        if surplus[place]:
            continue
        if row["reason"] is not None:
            detail = f"{row['name']}: {row['detail']}" if row["detail"] else row["name"]
            rejects.append(Reject(place + 1, row["reason"], detail))
        elif repeated[place]:
            rejects.append(Reject(place + 1, "asked before", row["name"]))
    return rejects


def write_rejects(
    path: Path, source: str, rejects: Iterable[Reject], origin: str = ""
) -> list[FileEntry]:
    """Write rejects; without any there is no file."""
    with RejectWriter(path, source) as writer:
        writer.add(rejects, origin)
        written = writer.finish()
    return [] if written is None else [written]

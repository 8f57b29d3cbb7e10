"""Conversations of a dataset as rows that chat and reinforcement-learning frameworks read.

A line per conversation that is packed in the dataset, in the order of addresses. Which are packed
says the dataset itself; the conversations are in the artifacts that its manifest names.
"""

import json
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from packing.format import load_manifest
from pipelines.artifacts import Manifest
from pipelines.corpus import DOCUMENT_STAGES
from pipelines.locate import UsageError
from transforms.synthesis.formats import FORMATS, FormatError
from transforms.tokenize.conversation import read_conversation

REWARDS = "rewards"
PREFERENCES = "preferences"
CONVERSATION_FORMATS = (*FORMATS, REWARDS, PREFERENCES)
"""What ``drystone export --to`` makes of conversations."""

_PROVED = ("pattern", "labels", "plan", "gold", "turns", "world", "ops", "faults", "lang")
"""What of a record's proof a reward row holds."""


@dataclass(frozen=True, slots=True)
class ExportedConversations:
    """What an export of conversations wrote."""

    path: Path
    rows: int
    lost: tuple[str, ...]
    """What the format cannot hold, one sentence each."""


def export_conversations(dataset: Path, to: str, out: Path) -> ExportedConversations:
    """Write the conversations of a dataset as JSON lines.

    Args:
        dataset: the dataset's folder, in its work directory.
        to: one of CONVERSATION_FORMATS. ``rewards`` has prompt, tools and gold answer of each
            synthesized record, with all that is needed to execute and judge another answer;
            ``preferences`` the pairs of tables with ``preferences = true``.
        out: the file that is made.

    Raises:
        UsageError: the dataset holds no conversations, or is not in its work directory.
        ShardError: the dataset is unfinished or damaged.
    """
    packed = _packed(dataset)
    artifacts = [dataset.parent / f"{stage}-{mark[:12]}" for stage, mark in _parents(dataset)]
    lost: Counter[str] = Counter()
    if to == REWARDS:
        lines = _reward_rows(artifacts, packed)
    elif to == PREFERENCES:
        lines = _pairs(artifacts, packed)
    else:
        lines = _rendered(dataset, artifacts, packed, to, lost)
    rows = 0
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with temporary.open("wb") as file:
            for line in lines:
                file.write(line + b"\n")
                rows += 1
        if not rows:
            raise UsageError(f"{dataset}: holds nothing to export to {to}; {_REMEDY[to]}")
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    sentences = [f"{count:,} conversations: {reason}" for reason, count in sorted(lost.items())]
    if to in FORMATS and FORMATS[to].loses:
        sentences.insert(0, FORMATS[to].loses)
    return ExportedConversations(out, rows, tuple(sentences))


_REMEDY: Mapping[str, str] = {
    **dict.fromkeys(FORMATS, "conversations come from [[synthesize]] or a source with messages"),
    REWARDS: "gold answers come from [[synthesize]]",
    PREFERENCES: "set preferences = true in [[synthesize]] and run again",
}


def _packed(dataset: Path) -> npt.NDArray[np.int64]:
    """Return the addresses of the documents that a dataset holds, ascending."""
    path = dataset / "placements.parquet"
    if not path.exists():
        raise UsageError(f"{dataset}: has no placements.parquet; give the folder that a run made")
    uids = pq.read_table(path, columns=["doc_uid"], use_threads=False)["doc_uid"]
    return np.unique(uids.to_numpy())


def _parents(dataset: Path) -> Iterator[tuple[str, str]]:
    parents = load_manifest(str(dataset)).parents
    for stage in DOCUMENT_STAGES:
        if stage in parents:
            mark = parents[stage]
            if not (dataset.parent / f"{stage}-{mark[:12]}" / "manifest.json").exists():
                raise UsageError(
                    f"{dataset}: its conversations are in the artifact {stage}-{mark[:12]}, which "
                    "is not beside it; export from the work directory of the run"
                )
            yield stage, mark


def _among(table: pa.Table, packed: npt.NDArray[np.int64]) -> pa.Table:
    return table.filter(pc.is_in(table["doc_uid"], value_set=pa.array(packed)))


def _files(artifacts: list[Path], kind: str) -> list[Path]:
    found = [
        folder / entry.name
        for folder in artifacts
        for entry in Manifest.load(folder / "manifest.json").entries(kind)
    ]
    # In the order of the shards' numbers, which is that of the addresses.
    return sorted(found, key=lambda path: path.name)


def _rendered(
    dataset: Path,
    artifacts: list[Path],
    packed: npt.NDArray[np.int64],
    to: str,
    lost: Counter[str],
) -> Iterator[bytes]:
    encode = load_manifest(str(dataset)).parents["encode"]
    manifest = dataset.parent / f"encode-{encode[:12]}" / "manifest.json"
    chat = json.loads(manifest.read_bytes())["config"].get("chat", {})
    sources = pa.array(sorted(chat.get("sources", ())), pa.string())
    for path in _files(artifacts, "data") if len(sources) else ():
        with pq.ParquetFile(path, memory_map=True) as file:
            for number in range(file.num_row_groups):
                group = file.read_row_group(number, columns=["doc_uid", "source", "text"])
                group = group.filter(pc.is_in(group["source"], value_set=sources))
                for text in _among(group, packed).sort_by("doc_uid")["text"].to_pylist():
                    messages, tools = read_conversation(text)
                    try:
                        yield orjson.dumps(FORMATS[to].render(tools, messages))
                    except FormatError as error:
                        lost[str(error)] += 1


def _reward_rows(artifacts: list[Path], packed: npt.NDArray[np.int64]) -> Iterator[bytes]:
    texts = {path.name: path for path in _files(artifacts, "data")}
    for path in _files(artifacts, "conversations"):
        shard = texts[path.name.removeprefix("conversations-")]
        proofs = pq.read_table(path, columns=["doc_uid", "record_id", "proof"], use_threads=False)
        documents = pq.read_table(shard, columns=["doc_uid", "text"], use_threads=False)
        by_uid = dict(
            zip(documents["doc_uid"].to_pylist(), documents["text"].to_pylist(), strict=True)
        )
        for row in _among(proofs, packed).sort_by("doc_uid").to_pylist():
            messages, tools = read_conversation(by_uid[row["doc_uid"]])
            yield orjson.dumps(_reward(row, messages, tools))


def _reward(
    row: Mapping[str, Any], messages: list[dict[str, Any]], tools: list[dict[str, Any]]
) -> dict[str, Any]:
    proof = orjson.loads(row["proof"])
    asked = max(place for place, message in enumerate(messages) if message["role"] == "user")
    return {
        "record_id": row["record_id"],
        "prompt": messages[: asked + 1],
        "tools": tools,
        "gold": proof["gold"],
        "check": {name: proof[name] for name in _PROVED},
    }


def _pairs(artifacts: list[Path], packed: npt.NDArray[np.int64]) -> Iterator[bytes]:
    for path in _files(artifacts, "preferences"):
        table = pq.read_table(path, use_threads=False)
        for pair in _among(table, packed).sort_by("doc_uid")["pair"].to_pylist():
            yield pair.encode()

"""Stage ``encode``: text to token ids, shard by shard."""

import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.artifacts import FileEntry, fingerprint
from pipelines.corpus import Corpus
from pipelines.steps.columns import row_groups, write_table
from pipelines.steps.conversations import ChatPlan
from pipelines.steps.encode_shard import SPANNED_TOKEN_SCHEMA, TOKEN_SCHEMA, ShardEncoder
from pipelines.steps.removed import Uids, kept_rows, removed_by_file, shards_of
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.steps.tokenizer import TokenizerStage
from pipelines.tasks import Phase, Result, Task, Work
from pipelines.text_spans import read_spans, span_artifacts, spans_digest
from transforms.tokenize.settings import TokenizerSettings

__all__ = ["TOKEN_SCHEMA", "Encode", "EncodeStage", "Tokenize"]

DROP_SCHEMA = pa.schema(
    [
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("detail", pa.string()),
    ]
)
"""Columns of ``drops-*.parquet``: conversations that cannot be encoded."""

_loading = threading.Lock()
_loaded: dict[str, ShardEncoder] = {}

_EXAMPLES = 5


@dataclass(frozen=True)
class EncodeStage(Stage):
    """Encode each shard's kept documents; a shard whose kept set changed encodes only the change."""

    settings: TokenizerSettings = field(default_factory=TokenizerSettings)
    seed: int = 0
    """Seed of fill in the middle."""
    chat: ChatPlan | None = None
    given: tuple[str, ...] = ()
    """Sources whose documents come as token ids."""

    name: ClassVar[str] = "encode"
    parents: ClassVar[tuple[str, ...]] = (
        "ingest",
        "decontaminate",
        "dedupe.exact",
        "dedupe.near",
        "dedupe.sentence",
        "synthesize",
        "tokenizer",
    )

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        left_out = ("model", "encode_cache_mib", "sample_mib", "chat_template", "fim")
        config = settings_json(self.settings, without=left_out)
        if self.settings.fim is not None:
            config["fim"] = {**asdict(self.settings.fim), "seed": self.seed}
        if self.chat is not None:
            config["chat"] = self.chat.config()
        if self.given:
            config["given"] = list(self.given)
        return config

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        return corpora | "Encode" >> Phase("Encode", self._tasks, self._encode, self._finish)

    def _tasks(self, corpus: Corpus) -> list[Task]:
        removed = removed_by_file(corpus)
        tokenizer = corpus.manifest("tokenizer")
        [model] = tokenizer.entries("tokenizer")
        artifact = self.fingerprint(corpus)
        spans = span_artifacts(corpus)
        finished = corpus.store.finished_tasks(self.name)
        by_base = {
            receipt.base: str(folder / receipt.files[0].name)
            for folder, receipt in finished.values()
            if receipt.files
        }
        tasks = []
        for entry, path in corpus.documents():
            rows = removed.get(entry.name)
            of_shard = {"spans": spans_digest(spans, shards_of(path))} if spans else {}
            base = fingerprint(
                stage=self.name,
                version=self.version,
                settings=self.config(),
                file=entry.sha256,
                tokenizer=model.sha256,
                **of_shard,
            )
            mask = b"" if rows is None else rows.tobytes()
            task = Task(
                fingerprint=fingerprint(base=base, removed=mask.hex()),
                corpus=corpus,
                stage=self.name,
                artifact=artifact,
                payload=(str(path), rows, by_base.get(base)),
                shared=str(corpus.folder("tokenizer") / model.name),
                weight=entry.bytes,
                base=base,
            )
            tasks.append(task)
        return tasks

    def _encode(self, task: Task) -> Work:
        path, removed, known = task.payload
        encoder = self._encoder(task.shared)
        spans = read_spans(span_artifacts(task.corpus), shards_of(Path(path)))
        shard = encoder.open(path, known, spans)
        name = f"{Path(path).name[:10]}-{task.fingerprint[:12]}.parquet"
        target = task.folder / name
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        counters = Counter({"encoded": 0, "empty": 0, "tokens": 0})
        schema = SPANNED_TOKEN_SCHEMA if shard.has_spans else TOKEN_SCHEMA
        with pq.ParquetWriter(
            temporary,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=["domain"],
            column_encoding={
                "input_ids.list.element": "BYTE_STREAM_SPLIT",
                "doc_uid": "DELTA_BINARY_PACKED",
                "n_tokens": "PLAIN",
            },
            write_statistics=["doc_uid"],
        ) as writer:
            for group in _kept(path, removed):
                table = shard.encode(group)
                n_tokens = table["n_tokens"].to_numpy()
                counters["encoded"] += len(table)
                counters["empty"] += int((n_tokens == 0).sum())
                counters["tokens"] += int(n_tokens.sum(dtype=np.int64))
                if len(table):
                    writer.write_table(table, row_group_size=len(table))
        temporary.replace(target)
        files = [FileEntry.of(target, rows=counters["encoded"])]
        detail = {"path": encoder.path, **encoder.facts}
        if shard.dropped:
            columns = [list(column) for column in zip(*shard.dropped, strict=True)]
            table = pa.table(columns, schema=DROP_SCHEMA)
            files.append(write_table(task.folder / f"drops-{name}", table, kind="drops"))
            counters.update(table["reason"].to_pylist())
            counters["empty"] -= len(table)
            detail["dropped"] = [list(row) for row in shard.dropped[:_EXAMPLES]]
        return Work(files, dict(counters), detail)

    def _encoder(self, path: str) -> ShardEncoder:
        # One per process: the cache of encoded spans is shared by the worker threads.
        with _loading:
            key = f"{path} {self.settings} {self.seed} {self.chat} {self.given}"
            if key not in _loaded:
                _loaded.clear()
                _loaded[key] = ShardEncoder(
                    Path(path), self.settings, self.seed, self.chat, self.given
                )
            return _loaded[key]

    def _finish(self, corpus: Corpus, results: list[Result]) -> Corpus:
        details = [result.receipt.detail for result in results]
        config: dict[str, Any] = {"path": sorted({detail["path"] for detail in details})}
        if self.settings.fim is not None:
            found: dict[str, Any] = next((detail["fim"] for detail in details), {})
            config["fim"] = {**self.config()["fim"], **found}
        dropped = sorted(row for detail in details for row in detail.get("dropped", ()))
        if dropped:
            config["dropped"] = dropped[:_EXAMPLES]
        return self.commit(corpus, (r.receipt for r in results), config=config)


def _kept(path: str, removed: Uids | None) -> Iterator[pa.Table]:
    """Yield the documents of a shard that are not dropped yet, a row group at a time."""
    for group in row_groups(Path(path), ("doc_uid", "domain", "reason", "text")):
        # Small source files share a shard file in the order of their paths.
        yield group.filter(kept_rows(group, removed)).sort_by("doc_uid").combine_chunks()


class Encode(Apply):
    """Turn kept text into token ids: Corpus -> Corpus."""

    def __init__(
        self,
        settings: TokenizerSettings | None = None,
        *,
        seed: int = 0,
        chat: ChatPlan | None = None,
    ) -> None:
        super().__init__(EncodeStage(settings or TokenizerSettings(), seed, chat))


class Tokenize(beam.PTransform):
    """Take or train the tokenizer and encode the kept text: Corpus -> Corpus."""

    def __init__(
        self,
        settings: TokenizerSettings | None = None,
        *,
        seed: int = 0,
        chat: ChatPlan | None = None,
    ) -> None:
        super().__init__("tokenize")
        settings = settings or TokenizerSettings()
        self._stages = (TokenizerStage(settings, seed), EncodeStage(settings, seed, chat))

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply both stages."""
        tokenizer, encode = self._stages
        return corpora | Apply(tokenizer) | Apply(encode)

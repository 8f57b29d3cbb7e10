"""Stage ``encode``: text to token ids, shard by shard."""

import threading
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.artifacts import FileEntry, fingerprint
from pipelines.corpus import Corpus
from pipelines.steps.columns import row_groups
from pipelines.steps.removed import Uids, kept_rows, removed_by_file
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.steps.tokenizer import TokenizerStage
from pipelines.tasks import Phase, Result, Task, Work
from transforms.tokenize.encoder import Encoded, Encoder, load_encoder, with_special_tokens
from transforms.tokenize.settings import TokenizerSettings

TOKEN_SCHEMA = pa.schema(
    [
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("domain", pa.string(), nullable=False),
        pa.field("n_tokens", pa.int32(), nullable=False),
        pa.field(
            "input_ids", pa.list_(pa.field("item", pa.int32(), nullable=False)), nullable=False
        ),
    ]
)
"""One row per document that is not dropped before; ``n_tokens`` 0 means dropped as ``empty``."""

_loading = threading.Lock()
_loaded: dict[str, Encoder] = {}


@dataclass(frozen=True)
class EncodeStage(Stage):
    """Encode each shard's kept documents; a shard whose kept set changed encodes only the change."""

    settings: TokenizerSettings = field(default_factory=TokenizerSettings)

    name: ClassVar[str] = "encode"
    parents: ClassVar[tuple[str, ...]] = ("ingest", "dedupe.exact", "tokenizer")

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        return settings_json(self.settings, without=("model", "encode_cache_mib", "sample_mib"))

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        return corpora | "Encode" >> Phase("Encode", self._tasks, self._encode, self._finish)

    def _tasks(self, corpus: Corpus) -> list[Task]:
        removed = removed_by_file(corpus)
        tokenizer = corpus.manifest("tokenizer")
        [model] = tokenizer.entries("tokenizer")
        artifact = self.fingerprint(corpus)
        finished = corpus.store.finished_tasks(self.name)
        by_base = {
            receipt.base: str(folder / receipt.files[0].name)
            for folder, receipt in finished.values()
            if receipt.files
        }
        tasks = []
        for entry in corpus.manifest("ingest").entries():
            rows = removed.get(entry.name)
            base = fingerprint(
                stage=self.name,
                version=self.version,
                settings=self.config(),
                file=entry.sha256,
                tokenizer=model.sha256,
            )
            mask = b"" if rows is None else rows.tobytes()
            task = Task(
                fingerprint=fingerprint(base=base, removed=mask.hex()),
                corpus=corpus,
                stage=self.name,
                artifact=artifact,
                payload=(str(corpus.folder("ingest") / entry.name), rows, by_base.get(base)),
                shared=str(corpus.folder("tokenizer") / model.name),
                weight=entry.bytes,
                base=base,
            )
            tasks.append(task)
        return tasks

    def _encode(self, task: Task) -> Work:
        path, removed, known = task.payload
        encoder = self._encoder(task.shared)
        shard = Path(path).name[:10]
        target = task.folder / f"{shard}-{task.fingerprint[:12]}.parquet"
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        counters = {"encoded": 0, "empty": 0, "tokens": 0}
        with pq.ParquetWriter(
            temporary,
            TOKEN_SCHEMA,
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
            for table in self._documents(path, removed, known, encoder):
                n_tokens = table["n_tokens"].to_numpy()
                counters["encoded"] += len(table)
                counters["empty"] += int((n_tokens == 0).sum())
                counters["tokens"] += int(n_tokens.sum(dtype=np.int64))
                if len(table):
                    writer.write_table(table, row_group_size=len(table))
        temporary.replace(target)
        entry = FileEntry.of(target, rows=counters["encoded"])
        return Work([entry], counters, {"path": encoder.path})

    def _encoder(self, path: str) -> Encoder:
        # One per process: the cache of encoded spans is shared by the worker threads.
        with _loading:
            key = f"{path} {self.settings}"
            if key not in _loaded:
                _loaded.clear()
                _loaded[key] = load_encoder(Path(path), self.settings)
            return _loaded[key]

    def _documents(
        self, path: str, removed: Uids | None, known: str | None, encoder: Encoder
    ) -> Iterator[pa.Table]:
        """Yield the tokens of a shard, one table per row group of its text."""
        earlier = _Earlier(known)
        bos = encoder.bos_id if self.settings.bos else None
        eos = encoder.eos_id if self.settings.eos else None
        for group in row_groups(Path(path), ("doc_uid", "domain", "reason", "text")):
            # Small source files share a shard file in the order of their paths.
            kept = group.filter(kept_rows(group, removed)).sort_by("doc_uid").combine_chunks()
            uids = kept["doc_uid"].to_numpy()
            reused = earlier.find(uids)
            missing = reused < 0
            text = kept["text"].combine_chunks().filter(pa.array(missing))
            fresh = with_special_tokens(encoder.encode(text), bos, eos)
            ids = _merged(fresh, missing, earlier, reused)
            lists = pa.ListArray.from_arrays(
                pa.array(ids.offsets.astype(np.int32)),
                pa.array(ids.ids),
                TOKEN_SCHEMA.field("input_ids").type,
            )
            n_tokens = pa.array(np.diff(ids.offsets).astype(np.int32))
            yield pa.table([kept["doc_uid"], kept["domain"], n_tokens, lists], schema=TOKEN_SCHEMA)

    def _finish(self, corpus: Corpus, results: list[Result]) -> Corpus:
        paths = sorted({result.receipt.detail["path"] for result in results})
        return self.commit(corpus, (r.receipt for r in results), config={"path": paths})


class _Earlier:
    """Tokens of the same shard by the same tokenizer, from an earlier run's artifact."""

    def __init__(self, path: str | None) -> None:
        columns = ["doc_uid", "input_ids"]
        table = pq.read_table(path, columns=columns, use_threads=False) if path else None
        table = table.sort_by("doc_uid") if table is not None else None
        self.uids = table["doc_uid"].to_numpy() if table is not None else np.empty(0, np.int64)
        self._lists = table["input_ids"].combine_chunks() if table is not None else None

    def find(self, uids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the place of each document among the earlier ones, -1 where it is not."""
        if not len(self.uids):
            return np.full(len(uids), -1, np.int64)
        place = np.minimum(np.searchsorted(self.uids, uids), len(self.uids) - 1)
        return np.where(self.uids[place] == uids, place, -1)

    def take(self, places: npt.NDArray[np.int64]) -> Encoded:
        """Return the tokens of some of the earlier documents."""
        if self._lists is None or not len(places):
            return Encoded(np.zeros(1, np.int64), np.empty(0, np.int32))
        lists = self._lists.take(pa.array(places))
        offsets = lists.offsets.to_numpy().astype(np.int64)
        ids = lists.values.to_numpy()[offsets[0] : offsets[-1]]
        return Encoded(offsets - offsets[0], ids)


def _merged(
    fresh: Encoded,
    missing: npt.NDArray[np.bool_],
    earlier: _Earlier,
    reused: npt.NDArray[np.int64],
) -> Encoded:
    """Put freshly encoded documents and reused ones back into document order."""
    if missing.all():
        return fresh
    old = earlier.take(reused[~missing])
    if not missing.any():
        return old
    both = pa.ListArray.from_arrays(
        pa.array(
            np.concatenate([fresh.offsets, fresh.offsets[-1] + old.offsets[1:]]).astype(np.int32)
        ),
        pa.array(np.concatenate([fresh.ids, old.ids])),
    )
    order = np.empty(len(missing), np.int64)
    order[missing] = np.arange(missing.sum())
    order[~missing] = missing.sum() + np.arange((~missing).sum())
    lists = both.take(pa.array(order))
    return Encoded(lists.offsets.to_numpy().astype(np.int64), lists.values.to_numpy())


class Encode(Apply):
    """Turn kept text into token ids: Corpus -> Corpus."""

    def __init__(self, settings: TokenizerSettings | None = None) -> None:
        super().__init__(EncodeStage(settings or TokenizerSettings()))


class Tokenize(beam.PTransform):
    """Take or train the tokenizer and encode the kept text: Corpus -> Corpus."""

    def __init__(self, settings: TokenizerSettings | None = None, *, seed: int = 0) -> None:
        super().__init__("tokenize")
        settings = settings or TokenizerSettings()
        self._stages = (TokenizerStage(settings, seed), EncodeStage(settings))

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply both stages."""
        tokenizer, encode = self._stages
        return corpora | Apply(tokenizer) | Apply(encode)

"""Stage ``tokenizer``: a tokenizer taken from a file, or trained on a sample of what is kept."""

import shutil
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import apache_beam as beam
import pyarrow as pa

from pipelines.artifacts import FileEntry, Receipt, file_sha256, fingerprint, write_atomically
from pipelines.corpus import DOCUMENT_STAGES, Corpus
from pipelines.steps.columns import row_groups
from pipelines.steps.removed import kept_rows, removed_by_file, shards_of
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.tasks import Clock, Phase, Result, Task, Work, record_cost
from pipelines.text_spans import read_spans, span_artifacts
from transforms.record import RecordError
from transforms.tokenize.encoder import load_encoder
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.text_spans import apply_spans
from transforms.tokenize.train import sample_chunks, train_sentencepiece

_SUFFIXES = {"sentencepiece": ".model", "hf": ".json", "tiktoken": ".tiktoken"}


@dataclass(frozen=True)
class TokenizerStage(Stage):
    """One worker trains (or copies) the tokenizer; the sample is drawn shard by shard."""

    settings: TokenizerSettings = field(default_factory=TokenizerSettings)
    seed: int = 0

    name: ClassVar[str] = "tokenizer"
    parents: ClassVar[tuple[str, ...]] = (
        "ingest",
        "decontaminate",
        "dedupe.exact",
        "dedupe.near",
        "dedupe.sentence",
        "synthesize",
    )

    @property
    def model(self) -> Path | None:
        """The tokenizer file given by the recipe."""
        return Path(self.settings.model).absolute() if self.settings.model else None

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on."""
        left_out = ("model", "encode_cache_mib", "chat_template", "fim")
        config = settings_json(self.settings, without=left_out)
        if self.model is None:
            return {**config, "seed": self.seed}
        if not self.model.is_file():
            raise RecordError(f"tokenizer.model: {self.model} is not a file; give the path of one")
        return {**config, "file": file_sha256(self.model)}

    def fingerprint(self, corpus: Corpus) -> str:
        """Return the fingerprint; a given file depends on nothing that ran before."""
        if self.model is None:
            return super().fingerprint(corpus)
        return fingerprint(stage=self.name, version=self.version, settings=self.identity())

    def note(self, corpus: Corpus) -> str:
        """Warn that a tokenizer trained inside follows its sample."""
        if self.model is not None:
            return f"taken from {self.model}"
        return (
            "trained on a sample of the input: new input trains another one and encodes all again"
        )

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        return corpora | "Train" >> Phase("Train", self._tasks, self._sample, self._finish)

    def _tasks(self, corpus: Corpus) -> list[Task]:
        if self.model is not None:
            return []
        removed = removed_by_file(corpus)
        stages = filter(corpus.has, DOCUMENT_STAGES)
        total = max(1, sum(corpus.manifest(stage).counters.get("bytes", 0) for stage in stages))
        rate = min(1.0, self.settings.sample_mib * (1 << 20) / total)
        return [
            Task(
                fingerprint=fingerprint(stage=self.name, file=entry.sha256),
                corpus=corpus,
                stage=self.name,
                artifact=self.fingerprint(corpus),
                payload=(str(path), removed.get(entry.name), rate),
                weight=entry.bytes,
                cached=False,
            )
            for entry, path in corpus.documents()
        ]

    def _sample(self, task: Task) -> Work:
        path, removed, rate = task.payload
        found = span_artifacts(task.corpus)
        spans = read_spans(found, shards_of(Path(path))) if found else None
        chunks: list[str] = []
        for group in row_groups(path, ("doc_uid", "reason", "text")):
            kept = group.filter(kept_rows(group, removed))
            uids = kept["doc_uid"].to_numpy()
            text = apply_spans(kept["text"].combine_chunks(), uids, spans).text
            chunks += sample_chunks(text, uids, rate, self.seed)
        # The sample goes by file: tens of megabytes do not belong in a runner's elements.
        task.store.scratch.mkdir(parents=True, exist_ok=True)
        sample = task.store.scratch / f"{uuid.uuid4().hex}.arrow"
        with pa.OSFile(str(sample), "wb") as sink:
            table = pa.table({"chunk": pa.array(chunks, pa.string())})
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        return Work(value=str(sample))

    def _finish(self, corpus: Corpus, results: list[Result]) -> Corpus:
        folder = corpus.store.folder(self.name, self.fingerprint(corpus))
        folder.mkdir(parents=True, exist_ok=True)
        clock = Clock()
        facts: dict[str, Any] = {"notes": []}
        path = folder / f"tokenizer{_SUFFIXES[self.settings.kind]}"
        if self.model is not None:
            temporary = folder / f".{uuid.uuid4().hex}.tmp"
            shutil.copyfile(self.model, temporary)
            temporary.replace(path)
        else:
            trained = train_sentencepiece(_chunks(results), self.settings)
            write_atomically(path, trained.model)
            facts["notes"] = list(trained.notes)
            facts["character_coverage"] = trained.character_coverage
        encoder = load_encoder(path, self.settings)
        facts |= {
            "vocab_size": encoder.vocab_size,
            "bos_id": encoder.bos_id,
            "eos_id": encoder.eos_id,
            "pad_id": encoder.pad_id,
        }
        record_cost(folder, clock)
        entry = FileEntry.of(path, rows=0, kind="tokenizer")
        return self.commit(corpus, [Receipt(task="", files=(entry,))], config=facts)


def _chunks(results: list[Result]) -> list[str]:
    """Read the sample back in task order."""
    chunks: list[str] = []
    for result in results:
        with pa.memory_map(result.value) as source:
            chunks += pa.ipc.open_file(source).read_all()["chunk"].to_pylist()
    return chunks


class TrainTokenizer(Apply):
    """Take or train the tokenizer: Corpus -> Corpus."""

    def __init__(self, settings: TokenizerSettings | None = None, *, seed: int = 0) -> None:
        super().__init__(TokenizerStage(settings or TokenizerSettings(), seed))

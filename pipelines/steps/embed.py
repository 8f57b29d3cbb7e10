"""Stage ``embed``: a vector per document that no stage has dropped.

Vectors of text take two phases: the documents that have each term are counted by ingest file and
summed; then each file is embedded by the sums. Ingested documents are counted, whatever became of
them, so that what other stages remove changes no other document's vector. Given vectors are all checked before the
first file is written.
"""

import functools
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

from pipelines.artifacts import (
    FileEntry,
    Receipt,
    Workdir,
    file_sha256,
    fingerprint,
    link_or_copy,
)
from pipelines.corpus import DOCUMENT_STAGES, Corpus
from pipelines.parts import MANY
from pipelines.steps.columns import row_groups
from pipelines.steps.embed_counts import (
    Rarity,
    count_file,
    load_rarity,
    refuse_other_counts,
    sum_counts,
)
from pipelines.steps.removed import (
    REMOVING_STAGES,
    Uids,
    id_overlay,
    kept_rows,
    removed_by_file,
    shards_of,
)
from pipelines.steps.stage import Apply, Stage, settings_json
from pipelines.tasks import Phase, Result, Task, Work
from pipelines.text_spans import SPAN_STAGES, read_spans, span_artifacts, spans_digest
from transforms.embed import EmbedSettings, embed_texts, halvings, unicode_version
from transforms.embed_column import read_vectors, unit_vectors
from transforms.ids import apply_ids
from transforms.record import RecordError
from transforms.shingles import text_blocks
from transforms.tokenize.text_spans import apply_spans

_ROWS_PER_GROUP = 1 << 13
"""Documents of a row group: 12 MiB at 768 dimensions."""

Halves = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Counted:
    """A corpus whose terms are counted, or whose given vectors are checked."""

    corpus: Corpus
    receipts: tuple[Receipt, ...] = ()
    rarity: Rarity | None = None
    """Weights of terms; None for given vectors."""

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.corpus.store


@dataclass(frozen=True)
class EmbedStage(Stage):
    """Count terms and embed, or check given vectors and take them; see the module."""

    settings: EmbedSettings = field(default_factory=EmbedSettings)
    seed: int = 0
    frequencies: str = ""
    """sha256 of the file of ``settings.frequencies``."""

    name: ClassVar[str] = "embed"
    parents: ClassVar[tuple[str, ...]] = (*DOCUMENT_STAGES, *REMOVING_STAGES, *SPAN_STAGES)

    @classmethod
    def prepare(cls, settings: EmbedSettings, seed: int) -> "EmbedStage":
        """Check and hash the counts of an earlier run where the settings name them.

        Raises:
            RecordError: the file is missing, no table of counts, or has other buckets or letters.
        """
        if settings.frequencies is None:
            return cls(settings, seed)
        refuse_other_counts(Path(settings.frequencies), settings)
        return cls(settings, seed, file_sha256(Path(settings.frequencies)))

    def config(self) -> dict[str, Any]:
        """Return the settings that the result depends on; what a letter is depends on Unicode."""
        if self.settings.column is not None:
            return {"width": self.settings.width, "column": self.settings.column}
        settings = settings_json(self.settings, without=("column", "frequencies"))
        return {
            **settings,
            "frequencies": self.frequencies,
            "seed": self.seed,
            "unicode": unicode_version(),
        }

    def expand(self, corpora: beam.PCollection) -> beam.PCollection:
        """Apply the stage."""
        if self.settings.column is not None:
            counted = corpora | "Check" >> Phase(
                "Check", self._check_tasks, self._check, self._checked
            )
        elif self.settings.frequencies is not None:
            counted = corpora | "Given counts" >> beam.Map(self._given)
        else:
            counted = corpora | "Count" >> Phase(
                "Count", self._count_tasks, self._count, self._counted
            )
        return counted | "Embed" >> Phase("Embed", self._tasks, self._embed, self._finish)

    def _task(self, corpus: Corpus, entry: FileEntry, payload: Any, **inputs: Any) -> Task:
        """Return a task over one ingest file."""
        return Task(
            fingerprint=fingerprint(
                stage=self.name,
                version=self.version,
                # Files without documents have equal bytes.
                file=[entry.name[:10], entry.sha256],
                **inputs,
            ),
            corpus=corpus,
            stage=self.name,
            artifact=self.fingerprint(corpus),
            payload=payload,
            weight=entry.bytes,
        )

    def _paths(self, corpus: Corpus) -> Iterator[tuple[FileEntry, str]]:
        for entry, path in corpus.documents():
            yield entry, str(path)

    # Counts of terms.

    def _count_tasks(self, corpus: Corpus) -> list[Task]:
        stages = filter(corpus.has, DOCUMENT_STAGES)
        documents = sum(corpus.manifest(stage).counters["ingested"] for stage in stages)
        times = halvings(documents, self.settings.count)
        inputs = {"buckets": self.settings.buckets, "unicode": unicode_version()}
        # Where all are counted it does not matter how they are chosen.
        chosen = [times, self.seed] if times else []
        return [
            self._task(corpus, entry, (path, times), counts=inputs, chosen=chosen)
            for entry, path in self._paths(corpus)
        ]

    def _count(self, task: Task) -> Work:
        path, times = Path(task.payload[0]), task.payload[1]
        target = task.folder / f"counts-{path.name[:10]}-{task.fingerprint[:12]}.parquet"
        entry, documents = count_file(path, target, self.settings, times, self.seed)
        return Work([entry], {"counted": documents})

    def _counted(self, corpus: Corpus, results: list[Result]) -> Counted:
        folder = corpus.store.folder(self.name, self.fingerprint(corpus))
        receipts = tuple(result.receipt for result in results)
        files = [folder / entry.name for receipt in receipts for entry in receipt.files]
        documents = sum(receipt.counters["counted"] for receipt in receipts)
        entry = sum_counts(files, folder, documents, self.settings)
        return self._with_rarity(corpus, (*receipts, Receipt(task="", files=(entry,))))

    def _given(self, corpus: Corpus) -> Counted:
        source = Path(str(self.settings.frequencies))
        folder = corpus.store.folder(self.name, self.fingerprint(corpus))
        folder.mkdir(parents=True, exist_ok=True)
        refuse_other_counts(source, self.settings)
        target = folder / f"frequencies-{self.frequencies[:12]}.parquet"
        link_or_copy(source, target)
        entry = FileEntry.of(target, rows=pq.read_metadata(target).num_rows, kind="frequencies")
        if entry.sha256 != self.frequencies:
            target.unlink()
            raise RecordError(f"{source} changed while the run was starting; run it again")
        return self._with_rarity(corpus, (Receipt(task="", files=(entry,)),))

    def _with_rarity(self, corpus: Corpus, receipts: tuple[Receipt, ...]) -> Counted:
        folder = corpus.store.folder(self.name, self.fingerprint(corpus))
        path = folder / receipts[-1].files[0].name
        return Counted(corpus, receipts, load_rarity(path, self.settings))

    # Given vectors: all are looked at before any is written.

    def _check_tasks(self, corpus: Corpus) -> list[Task]:
        removed = removed_by_file(corpus)
        return [
            self._task(
                corpus,
                entry,
                (path, removed.get(entry.name)),
                checked=self.config(),
                removed=_hexadecimal(removed.get(entry.name)),
            )
            for entry, path in self._paths(corpus)
        ]

    def _check(self, task: Task) -> Work:
        path, removed = Path(task.payload[0]), task.payload[1]
        detail: dict[str, Any] = {}
        wrong = 0
        columns = ("doc_uid", "id", "source", "reason", "source_path", "source_line")
        for group in _kept(path, removed, (*columns, *self._column_of(path))):
            found = read_vectors(self._given_column(group), self.settings.width)
            if found.problems and not wrong:
                row = next(iter(found.problems))
                [document] = apply_ids(
                    group.select(columns).slice(row, 1), id_overlay(task.corpus, path)
                ).to_pylist()
                detail = {**document, "problem": found.problems[row]}
            wrong += len(found.problems)
        return Work([], {"wrong": wrong}, detail)

    def _checked(self, corpus: Corpus, results: list[Result]) -> Counted:
        receipts = [result.receipt for result in results]
        wrong = sum(receipt.counters["wrong"] for receipt in receipts)
        if wrong:
            first = next(receipt.detail for receipt in receipts if receipt.counters["wrong"])
            line = "" if first["source_line"] is None else f":{first['source_line']}"
            raise RecordError(
                f"embed.column {self.settings.column!r}: document {first['id']!r} of source "
                f"{first['source']!r} ({first['source_path']}{line}) has {first['problem']}; "
                f"{wrong} {'document has' if wrong == 1 else 'documents have'} no vector of "
                f"{self.settings.width} finite numbers; mend or remove them, or set embed.width"
            )
        return Counted(corpus)

    def _column_of(self, path: Path) -> tuple[str, ...]:
        column = self.settings.column
        if column is None or column not in pq.read_schema(path).names:
            return ()
        return (column,)

    def _given_column(self, group: pa.Table) -> pa.Array:
        if self.settings.column in group.column_names:
            return group[self.settings.column].combine_chunks()
        return pa.nulls(len(group))

    # Vectors.

    def _tasks(self, counted: Counted) -> list[Task]:
        corpus, rarity = counted.corpus, counted.rarity
        removed = removed_by_file(corpus)
        spans = span_artifacts(corpus) if rarity is not None else []
        tasks = []
        for entry, path in self._paths(corpus):
            of_file: dict[str, Any] = {"removed": _hexadecimal(removed.get(entry.name))}
            if rarity is not None:
                of_file["rarity"] = rarity.digest
            if spans:
                of_file["spans"] = spans_digest(spans, shards_of(Path(path)))
            # The digest of the weights stands for how they were counted.
            counting = ("frequencies", "count", "min_documents")
            settings = {k: v for k, v in self.config().items() if k not in counting}
            payload = (path, removed.get(entry.name), rarity)
            tasks.append(self._task(corpus, entry, payload, settings=settings, **of_file))
        return tasks

    def _embed(self, task: Task) -> Work:
        path, removed, rarity = Path(task.payload[0]), task.payload[1], task.payload[2]
        embed = self._vectors_of(task, path, rarity)
        name = f"vectors-{path.name[:10]}-{task.fingerprint[:12]}.parquet"
        columns = ("text",) if rarity is not None else self._column_of(path)
        groups = _kept(path, removed, ("doc_uid", "reason", *columns))
        return _write(task.folder / name, map(embed, groups), self.settings.width)

    def _vectors_of(self, task: Task, path: Path, rarity: Rarity | None) -> Any:
        """Return the function from documents to their addresses and vectors."""
        if rarity is None:
            return functools.partial(_take, self._given_column, self.settings.width)
        folder = task.folder
        weights = load_rarity(folder / rarity.file, self.settings).weights
        spans = read_spans(span_artifacts(task.corpus), shards_of(path))

        def embed(group: pa.Table) -> tuple[Uids, Halves]:
            uids = group["doc_uid"].to_numpy()
            text = apply_spans(group["text"].combine_chunks(), uids, spans).text
            blocks = [
                embed_texts(block, self.settings, weights, self.seed)
                for block in text_blocks(pa.chunked_array([text]))
            ]
            return uids, np.concatenate(blocks)

        return embed

    def _finish(self, counted: Counted, results: list[Result]) -> Corpus:
        receipts = [*counted.receipts, *(result.receipt for result in results)]
        return self.commit(counted.corpus, receipts)


def _take(column: Any, width: int, group: pa.Table) -> tuple[Uids, Halves]:
    found = read_vectors(column(group), width)
    if found.problems:
        raise RecordError("vectors changed since they were checked; run again")
    return group["doc_uid"].to_numpy(), unit_vectors(found.vectors)


def _hexadecimal(removed: Uids | None) -> str:
    return "" if removed is None else removed.tobytes().hex()


def _kept(path: Path, removed: Uids | None, columns: tuple[str, ...]) -> Iterator[pa.Table]:
    """Yield the documents of an ingest file that are not dropped yet, some at a time, ascending."""
    groups: Iterator[pa.Table] = (
        group.filter(kept_rows(group, removed)) for group in row_groups(path, sorted(set(columns)))
    )
    if path.name.endswith(MANY):
        # Small source files share a shard file, of some MiB, in the order of their paths.
        groups = iter([pa.concat_tables(groups).sort_by("doc_uid")])
    for group in groups:
        for start in range(0, len(group), _ROWS_PER_GROUP):
            yield group.slice(start, _ROWS_PER_GROUP)


def _write(path: Path, vectors: Iterator[tuple[Uids, Halves]], width: int) -> Work:
    """Write the vectors of a file, atomically."""
    schema = pa.schema(
        [
            pa.field("doc_uid", pa.int64(), nullable=False),
            # ``width`` little-endian float16, of length 1 or all zero.
            pa.field("vector", pa.binary(2 * width), nullable=False),
        ]
    )
    counters = {"embedded": 0, "zero vectors": 0}
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    with pq.ParquetWriter(
        temporary,
        schema,
        compression="none",
        use_dictionary=False,
        column_encoding={"doc_uid": "DELTA_BINARY_PACKED", "vector": "PLAIN"},
        write_statistics=["doc_uid"],
    ) as writer:
        for uids, halves in vectors:
            content = pa.py_buffer(np.ascontiguousarray(halves.astype("<f2")))
            kind = schema.field("vector").type
            column = pa.FixedSizeBinaryArray.from_buffers(kind, len(halves), [None, content])
            writer.write_table(pa.table([pa.array(uids), column], schema=schema))
            counters["embedded"] += len(uids)
            counters["zero vectors"] += int((~halves.any(axis=1)).sum())
    temporary.replace(path)
    return Work([FileEntry.of(path, rows=counters["embedded"])], counters)


class Embed(Apply):
    """Give each kept document a vector: Corpus -> Corpus."""

    def __init__(self, settings: EmbedSettings | None = None, *, seed: int = 0) -> None:
        super().__init__(EmbedStage.prepare(settings or EmbedSettings(), seed))

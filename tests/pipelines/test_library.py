"""The stages as PTransforms in somebody else's pipeline."""

import json
import random
import re
from pathlib import Path

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
from apache_beam.testing.util import assert_that, equal_to
from small_runs import digest

from packing.fit import PackSettings
from packing.verify import verify
from pipelines.runners import RunnerSettings, runner_options
from pipelines.steps.balance import Pack
from pipelines.steps.dedupe import ExactDedupe
from pipelines.steps.documents import IngestDocuments, ReadDocuments
from pipelines.steps.encode import Tokenize
from transforms.tokenize.settings import TokenizerSettings

DOCS = Path(__file__).parents[2] / "docs"

ROWS = [
    {"id": f"r{k}", "text": f"text number {k % 40} " * (k % 7 + 1), "score": k / 2}
    for k in range(60)
]


def pack_rows(rows, workdir, workers=1):
    with beam.Pipeline(options=runner_options(RunnerSettings(workers=workers))) as pipeline:
        packed = (
            pipeline
            | beam.Create(rows)
            | IngestDocuments(str(workdir), shards=5)
            | ExactDedupe()
            | Tokenize(TokenizerSettings(vocab_size=300))
            | Pack(PackSettings(seq_len=64))
        )
        _ = packed | beam.Map(
            lambda corpus: (workdir / "done").write_text(str(corpus.folder("balance")))
        )
    return Path((workdir / "done").read_text())


def test_order_and_workers_change_no_byte(tmp_path):
    """Rows in another order, by other workers, give the same packed bytes, and they verify."""
    shuffled = random.Random(1).sample(ROWS, len(ROWS))
    first = pack_rows(ROWS, tmp_path / "a")
    second = pack_rows(shuffled, tmp_path / "b", workers=2)

    assert digest(first) == digest(second)
    assert verify(first).failures == []


def test_rows_come_back_without_the_dropped_ones(tmp_path):
    """ReadDocuments gives each distinct text once, with the source's own columns."""
    texts = {row["text"] for row in ROWS}
    with beam.Pipeline("FnApiRunner") as pipeline:
        documents = (
            pipeline
            | beam.Create(ROWS)
            | IngestDocuments(str(tmp_path), shards=3)
            | ExactDedupe()
            | ReadDocuments()
        )
        assert_that(documents | beam.Map(lambda d: d["text"]), equal_to(sorted(texts)))
        scored = documents | "Scores" >> beam.Map(lambda d: isinstance(d["score"], float))
        assert_that(scored | beam.Distinct(), equal_to([True]), label="own columns")


def test_bad_and_repeated_rows_are_quarantined_or_renamed(tmp_path):
    """Rows without text or id are rejects with a reason; a repeated id gets a suffix."""
    rows = [{"id": "a", "text": "one"}, {"id": "a", "text": "two"}, {"text": "x"}, {"id": "b"}]
    with beam.Pipeline("FnApiRunner") as pipeline:
        documents = pipeline | beam.Create(rows) | IngestDocuments(str(tmp_path)) | ReadDocuments()
        ids = documents | beam.Map(lambda d: d["id"])
        assert_that(ids, equal_to(["a", "a#2"]))
    [manifest] = tmp_path.glob("artifacts/ingest-*/manifest.json")
    counters = json.loads(manifest.read_text())["counters"]
    rejects = pa.concat_tables(pq.read_table(f) for f in manifest.parent.glob("rejects-*.parquet"))

    assert (counters["lines"], counters["ingested"], counters["rejected"]) == (4, 2, 2)
    assert sorted(rejects["reason"].to_pylist()) == ["missing id", "missing text"]


def test_the_documented_pipeline_runs(tmp_path, monkeypatch):
    """The pipeline of docs/beam.md runs as it stands and writes what it says."""
    [code] = re.findall(r"```python\n(.*?)```", (DOCS / "beam.md").read_text(), re.DOTALL)
    (tmp_path / "notes").mkdir()
    for k in range(3):
        lines = "\n".join(f"line {n % 20} of the notes" for n in range(k, 40))
        (tmp_path / "notes" / f"{k}.txt").write_text(lines)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/beam.md", "exec"), {"__name__": "documented"})

    kept = "".join(path.read_text() for path in tmp_path.glob("kept-*")).splitlines()
    [where] = "".join(path.read_text() for path in tmp_path.glob("dataset-*")).splitlines()
    assert sorted(kept) == sorted({f"line {n} of the notes" for n in range(20)})
    assert (Path(where) / "plan.parquet").exists()

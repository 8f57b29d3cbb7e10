"""Phases, barriers and both shuffles, on Beam's own runners."""

import pickle
from pathlib import Path

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from pipelines.artifacts import Receipt, StorageError, fingerprint
from pipelines.barrier import Barrier
from pipelines.corpus import Corpus
from pipelines.failures import EngineError, raise_recorded
from pipelines.runners import RunnerSettings, runner_options
from pipelines.shuffle import Shuffle, _partition, _payloads
from pipelines.tasks import ListTasks, Phase, Result, Task, Work, dealt

ROWS, PARTITIONS = 20_000, 5


def list_tasks(corpus):
    return [
        Task(fingerprint(n=n), corpus, "test", "a" * 64, payload=n, shared="s", weight=n)
        for n in range(7)
    ]


def produce(task):
    rng = np.random.default_rng(task.payload)
    values = rng.integers(0, 1 << 40, ROWS)
    for p in range(PARTITIONS):
        mine = values[values % PARTITIONS == p]
        text = pa.array([f"row {v} " * 4 for v in mine.tolist()])
        yield p, pa.table({"value": mine, "text": text})


def reduce(partition):
    table = pa.concat_tables(partition.tables())
    folder = Path(partition.folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"out-{partition.order}.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks(), max_chunksize=1 << 30)
    return Result(partition.order, Receipt(""), (len(table), partition.shared))


def finish(corpus, results):
    return [result.value for result in results]


def run_shuffle(folder, kind, workers, *extra):
    found = []
    settings = RunnerSettings(workers=workers)
    with beam.Pipeline(options=runner_options(settings, extra)) as pipeline:
        corpora = pipeline | beam.Create([Corpus(str(folder))], reshuffle=False)
        listed = corpora | beam.ParDo(ListTasks(list_tasks)).with_outputs("adopted", main="missing")
        reduced = dealt(listed.missing, "t") | Shuffle(produce, kind) | beam.Map(reduce)
        result = (corpora, (reduced,)) | Barrier(finish)
        _ = result | beam.Map(lambda value: (folder / "done").write_text(repr(value)))
    found = (folder / "done").read_text()
    files = sorted((folder / "artifacts" / f"test-{'a' * 12}").glob("*.arrow"))
    return found, [file.read_bytes() for file in files]


def test_both_shuffles_give_the_same_bytes_for_any_workers(tmp_path):
    """Every row arrives once; partitions are byte-identical, also with every bundle repeated."""
    seen = [
        run_shuffle(tmp_path / "f1", "files", 1),
        run_shuffle(tmp_path / "f2", "files", 2),
        run_shuffle(tmp_path / "r2", "runner", 2),
        run_shuffle(tmp_path / "rep", "files", 1, "--direct_runner_bundle_repeat=1"),
    ]

    values = np.concatenate(
        [pa.ipc.open_file(pa.py_buffer(file)).read_all()["value"] for file in seen[0][1]]
    )
    expected = np.concatenate(
        [np.random.default_rng(n).integers(0, 1 << 40, ROWS) for n in range(7)]
    )

    assert np.array_equal(np.sort(values), np.sort(expected))
    assert all(other == seen[0] for other in seen[1:])


def test_no_record_of_the_runner_shuffle_is_large(tmp_path):
    """Tables of any size travel in records of at most 300 KB, also where one row is larger."""
    source = list_tasks(Corpus(str(tmp_path)))[3]
    tables = [
        (0, pa.table({"text": ["a", "b" * 5_000_000, "c"]})),
        (1, pa.table({"value": np.arange(200_000)})),
        (0, pa.table({"text": pa.array([], pa.string())})),
    ]

    sent = list(_payloads(source, tables))
    sent.reverse()
    grouped = [_partition((n, [s for p, s in sent if p == n])) for n in range(2)]

    assert max(len(pickle.dumps(segment)) for _, segment in sent) < 300_000
    assert grouped[0].tables() == [tables[0][1], tables[2][1]]
    assert grouped[1].tables() == [tables[1][1]]


def run_counted(task):
    path = Path(task.folder) / f"{task.payload}.count"
    path.write_text(str(int(path.read_text()) + 1 if path.exists() else 1))
    return Work(value=task.payload)


def fail_on_three(task):
    if task.payload == 3:
        raise StorageError("task three cannot be stored")
    return run_counted(task)


def run_phase(folder, run):
    with beam.Pipeline(options=runner_options(RunnerSettings(workers=1))) as pipeline:
        corpora = pipeline | beam.Create([Corpus(str(folder))], reshuffle=False)
        _ = (
            corpora
            | Phase("Phase", list_tasks, run, finish)
            | beam.Map(lambda value: (folder / "done").write_text(repr(value)))
        )


def test_finished_tasks_are_not_run_again(tmp_path):
    """After a failure the next run does only what is missing, and still sees every result."""
    with pytest.raises(Exception, match="task three"):
        run_phase(tmp_path, fail_on_three)
    folder = tmp_path / "artifacts" / f"test-{'a' * 12}"
    before = {path.name for path in folder.glob("*.count")}
    run_phase(tmp_path, run_counted)

    assert "3.count" not in before
    assert len(before) > 0
    assert all(path.read_text() == "1" for path in folder.glob("*.count"))
    assert len(list(folder.glob("*.count"))) == 7


def test_a_worker_error_reaches_the_driver_as_its_own_type(tmp_path):
    """The first error is kept with its type; anything foreign becomes an EngineError."""
    with pytest.raises(Exception, match="task three") as caught:
        run_phase(tmp_path, fail_on_three)
    with pytest.raises(StorageError, match="task three cannot be stored"):
        raise_recorded(Corpus(str(tmp_path)).store, caught.value)
    with pytest.raises(EngineError, match="the runner failed: gone"):
        raise_recorded(Corpus(str(tmp_path / "else")).store, RuntimeError("gone"))


def test_a_barrier_opens_without_results(tmp_path):
    """A phase that lists no task still finishes, with an empty list."""
    with beam.Pipeline(options=runner_options(RunnerSettings(workers=1))) as pipeline:
        corpora = pipeline | beam.Create([Corpus(str(tmp_path))], reshuffle=False)
        _ = (
            corpora
            | Phase("Phase", lambda corpus: [], run_counted, finish)
            | beam.Map(lambda value: (tmp_path / "done").write_text(repr(value)))
        )

    assert (tmp_path / "done").read_text() == "[]"

"""Elements arrive whole and all of them, with several threads of the local runner."""

import resource
import subprocess
import sys

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import worker_handlers

from pipelines.corpus import Corpus
from pipelines.runners import RunnerSettings, runner_options
from pipelines.steps.documents import IngestDocuments, ReadDocuments
from pipelines.steps.stage import Apply, Stage

PIPELINE = """
import time

import apache_beam as beam

from pipelines.runners import RunnerSettings, runner_options


class Slow:
    def __init__(self, number):
        self.number = number

    def __reduce__(self):
        # The local runner has a thread that flushes streams each second.
        time.sleep(1.05)
        return Slow, (self.number,)


def show(grouped):
    key, values = grouped
    print(key, [value.number for value in values], flush=True)


with beam.Pipeline(options=runner_options(RunnerSettings(workers=2))) as pipeline:
    made = beam.Map(lambda n: (n, Slow(n))).with_output_types(tuple[int, Slow])
    _ = pipeline | beam.Create([7], reshuffle=False) | made | beam.GroupByKey() | beam.Map(show)
"""


class Nothing(Stage):
    """A stage that does nothing."""

    name = "nothing"

    def expand(self, corpora):
        return corpora


def limit_memory():
    # What is made of halves of elements may ask for all there is.
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))


def test_an_element_that_takes_longer_to_encode_than_the_flush_period_arrives_whole():
    """It arrives as it was, where a flush by the clock would send its first half."""
    run = subprocess.run(
        [sys.executable, "-c", PIPELINE],
        capture_output=True,
        text=True,
        timeout=120,
        preexec_fn=limit_memory,
        check=False,
    )

    assert (run.returncode, run.stdout) == (0, "7 [7]\n"), run.stderr[-2000:]


def test_our_options_for_local_runs_leave_no_flush_by_the_clock(monkeypatch):
    """They turn it off where the options are made."""
    monkeypatch.setattr(worker_handlers, "DATA_BUFFER_TIME_LIMIT_MS", 1000)

    runner_options(RunnerSettings(workers=2))

    assert worker_handlers.DATA_BUFFER_TIME_LIMIT_MS == 0


@pytest.mark.parametrize("kind", ["stage", "documents in", "documents out"])
def test_our_transforms_leave_no_flush_by_the_clock(kind, monkeypatch, tmp_path):
    """Each of them turns it off in a pipeline whose options are others'."""
    monkeypatch.setattr(worker_handlers, "DATA_BUFFER_TIME_LIMIT_MS", 1000)
    corpus, row = Corpus(str(tmp_path)), {"id": "1", "text": "one"}
    element, transform = {
        "stage": (corpus, Apply(Nothing())),
        "documents in": (row, IngestDocuments(str(tmp_path))),
        "documents out": (corpus, ReadDocuments()),
    }[kind]

    _ = beam.Pipeline("FnApiRunner") | beam.Create([element]) | transform

    assert worker_handlers.DATA_BUFFER_TIME_LIMIT_MS == 0

"""Drystone's own local runner: Beam's results, dealt to free threads, errors as they were raised."""

import threading
import time

import apache_beam as beam
import pytest

from pipelines.local_runner import LocalRunner, _parallel
from pipelines.runners import RunnerSettings, own_runner, runner_options
from pipelines.shuffle import Shuffle


class Split(beam.DoFn):
    """Odd numbers to an output of their own."""

    def process(self, number):
        yield beam.pvalue.TaggedOutput("odd", number) if number % 2 else number


class Keep(beam.DoFn):
    """Keeps what it sees; a runner that copies its transforms gets a path, not a list."""

    def __init__(self, path):
        self._path = path

    def process(self, element):
        key, values = element
        with self._path.open("a") as file:
            file.write(f"{key} {sorted(values)}\n")


def collected(runner, path):
    """Run a pipeline with every kind of transform that stages are made of; return what it saw."""
    pipeline = beam.Pipeline(runner=runner, options=runner_options(RunnerSettings(workers=2)))
    numbers = pipeline | beam.Create(list(range(50)), reshuffle=False)
    split = numbers | beam.ParDo(Split()).with_outputs("odd", main="even")
    pairs = [
        part | name >> beam.Map(lambda n: (n % 7, n)).with_output_types(tuple[int, int])
        for name, part in (("odd", split.odd), ("even", split.even), ("all", numbers))
    ]
    grouped = pairs | beam.Flatten() | beam.GroupByKey()
    grouped | beam.FlatMap(lambda e: [e, (-e[0] - 1, [len(e[1])])]) | beam.ParDo(Keep(path))
    pipeline.run().wait_until_finish()
    return sorted(path.read_text().splitlines())


@pytest.mark.parametrize("workers", [1, 3])
def test_results_are_those_of_beams_runner(tmp_path, workers):
    """Outputs with tags, flattened and grouped, are the same elements."""
    assert collected(LocalRunner(workers), tmp_path / "own") == collected(
        "FnApiRunner", tmp_path / "beam"
    )


def test_the_first_error_ends_the_run_as_it_was_raised():
    """No element is begun after an error, and the error is not wrapped."""
    begun = []

    def fail(number):
        begun.append(number)
        if number == 3:
            raise ZeroDivisionError("three")
        time.sleep(0.01)
        return [number]

    with pytest.raises(ZeroDivisionError, match="three"):
        _parallel(fail, list(range(100)), 2)
    assert len(begun) < 10


def test_a_free_thread_takes_the_next_element():
    """One long element holds up nothing but itself, and results stay in order."""
    release, seen = threading.Event(), set()

    def work(number):
        if number == 0:
            assert release.wait(30)
        seen.add(number)
        if len(seen) == 19:
            release.set()
        return [number]

    assert _parallel(work, list(range(20)), 2) == [[n] for n in range(20)]


def test_what_it_cannot_run_is_refused_by_name():
    """Side inputs are none of what stages use."""
    pipeline = beam.Pipeline(runner=LocalRunner(2))
    numbers = pipeline | beam.Create([1], reshuffle=False)
    numbers | "with a side" >> beam.Map(lambda n, side: n, beam.pvalue.AsList(numbers))
    with pytest.raises(NotImplementedError, match="with a side"):
        pipeline.run()


def test_options_for_beam_choose_beams_runner():
    """The own runner is for local runs without options of Beam's."""
    assert isinstance(own_runner(RunnerSettings()), LocalRunner)
    assert own_runner(RunnerSettings(), ["--runner=FnApiRunner"]) is None
    assert own_runner(RunnerSettings(kind="flink")) is None


def test_the_shuffle_needs_nothing_else(tmp_path):
    """The transforms of a shuffle are of the kinds that the runner knows."""
    pipeline = beam.Pipeline(runner=LocalRunner(2))
    none = pipeline | beam.Create([], reshuffle=False)
    none | Shuffle(lambda task: [], "files")
    pipeline.run().wait_until_finish()

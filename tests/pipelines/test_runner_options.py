"""Options that Beam asks for again and again: kept views, the same values."""

import copy
import pickle

import pytest
from apache_beam.options.pipeline_options import (
    DebugOptions,
    DirectOptions,
    PipelineOptions,
    StandardOptions,
)

from pipelines.runners import RunnerSettings, runner_options
from pipelines.tasks import release_memory

FLAGS = ["--experiments=one", "--job_name=kept"]


@pytest.mark.parametrize("kind", ["local", "portable", "flink", "dataflow"])
def test_the_values_are_those_of_beam(kind):
    """All options are what Beam's own class makes of the same flags."""
    made = runner_options(RunnerSettings(kind=kind), FLAGS)
    plain = PipelineOptions(made._flags)

    assert made.get_all_options() == plain.get_all_options()
    assert made.view_as(StandardOptions).runner == plain.view_as(StandardOptions).runner


def test_views_share_values_and_copies_do_not():
    """What is set through one view shows in all, and in no other options."""
    made, other = (runner_options(RunnerSettings(workers=3), FLAGS) for _ in range(2))
    made.view_as(DebugOptions).experiments = ["two"]
    copied = copy.deepcopy(made)
    copied.view_as(DebugOptions).experiments = ["three"]

    assert made.view_as(DebugOptions).experiments == ["two"]
    assert made.get_all_options()["experiments"] == ["two"]
    assert other.view_as(DebugOptions).experiments == ["one"]
    assert made.view_as(DirectOptions).direct_num_workers == 3


def test_views_are_not_pickled():
    """What a job carries is flags and values."""
    made = runner_options(RunnerSettings(), FLAGS)
    made.view_as(DebugOptions)

    assert "_views" in vars(made)
    assert "_views" not in made.__getstate__()
    assert pickle.loads(pickle.dumps(made._all_options)) == made._all_options


def test_memory_is_given_back_where_a_process_has_grown_large(monkeypatch):
    """Above the bound the C library is asked to trim, below it is not."""
    calls = []
    monkeypatch.setattr("pipelines.tasks._malloc_trim", lambda: calls.append)
    monkeypatch.setattr("pipelines.tasks._resident_bytes", lambda: 1 << 40)
    release_memory()
    monkeypatch.setattr("pipelines.tasks._resident_bytes", lambda: 1 << 20)
    release_memory()

    assert calls == [0]

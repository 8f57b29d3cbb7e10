"""Near-duplicate removal and a mixture: the same bytes wherever and however they run."""

import json
from pathlib import Path

import pytest
from small_runs import digest, whole_recipe_of, write_near_corpus

from pipelines.run import run

STAGES = ("dedupe.exact", "dedupe.near", "mixture")


def result_of(recipe):
    """Run; return the digests of the dataset and of what the stages before it decided."""
    summary = run(recipe)
    folders = {stage["stage"]: Path(recipe.workdir) / stage["path"] for stage in summary.stages}
    return (
        digest(summary.dataset),
        [json.loads((folders[name] / "manifest.json").read_text())["files"] for name in STAGES],
        summary.dropped,
    )


@pytest.fixture(scope="module")
def near_corpus(tmp_path_factory):
    return write_near_corpus(tmp_path_factory.mktemp("everywhere") / "in")


@pytest.fixture(scope="module")
def expected(near_corpus, tmp_path_factory):
    """What two local threads make."""
    return result_of(whole_recipe_of(near_corpus, tmp_path_factory.mktemp("local") / "w"))


def test_there_is_something_to_decide(expected):
    """The corpus has near-duplicates, and the mixture leaves documents out."""
    assert expected[2]["dedupe.near"] > 10
    assert expected[2]["mixture"] > 10


@pytest.mark.parametrize(
    "runner",
    [{"workers": 1}, {"workers": 4, "shuffle": "runner"}],
    ids=["1 worker", "4 workers and the runner's shuffle"],
)
def test_workers_and_shuffle_change_no_byte(runner, near_corpus, expected, tmp_path):
    """1, 2 and 4 workers and both shuffles leave the same files in every stage."""
    recipe = whole_recipe_of(near_corpus, tmp_path / "w", runner={"kind": "local", **runner})

    assert result_of(recipe) == expected


def test_the_portable_runner_changes_no_byte(near_corpus, expected, portable, tmp_path):
    """Job server and worker processes leave the same files in every stage."""
    job, pool = portable
    runner = {"kind": "portable", "job_endpoint": job, "worker_pool": pool}

    assert result_of(whole_recipe_of(near_corpus, tmp_path / "w", runner=runner)) == expected

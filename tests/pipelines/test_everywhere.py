"""Removal of near-duplicates and repeated sentences, and a mixture: the same bytes wherever and however they run."""

import json
from pathlib import Path

import pytest
from small_runs import FRAME_LINES, digest, whole_recipe_of, write_whole_corpus

from pipelines.run import run

STAGES = ("dedupe.exact", "dedupe.near", "dedupe.sentence", "mixture")


def result_of(recipe):
    """Run; return the digests of the dataset and of what the stages before it decided."""
    summary = run(recipe)
    folders = {stage["stage"]: Path(recipe.workdir) / stage["path"] for stage in summary.stages}
    manifests = {name: json.loads((folders[name] / "manifest.json").read_text()) for name in STAGES}
    return (
        digest(summary.dataset),
        [manifests[name]["files"] for name in STAGES],
        summary.dropped,
        manifests["dedupe.sentence"]["counters"],
    )


@pytest.fixture(scope="module")
def near_corpus(tmp_path_factory):
    return write_whole_corpus(tmp_path_factory.mktemp("everywhere") / "in")


@pytest.fixture(scope="module")
def expected(near_corpus, tmp_path_factory):
    """What two local threads make."""
    return result_of(whole_recipe_of(near_corpus, tmp_path_factory.mktemp("local") / "w"))


def test_there_is_something_to_decide(expected):
    """The corpus has near-duplicates and repeated lines; the mixture leaves documents out."""
    assert expected[2]["dedupe.near"] > 10
    assert expected[2]["mixture"] > 10
    counters = expected[3]
    assert counters["removed sentences"] >= 3 * 120
    assert counters["removed forms"] > len(FRAME_LINES) + 50


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

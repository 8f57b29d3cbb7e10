"""Runs on a real Flink cluster of this machine: the same bytes, also when parts of it die."""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from small_runs import digest, whole_recipe_of, write_whole_corpus

from pipelines.run import run

pytestmark = pytest.mark.flink

SCRIPTS = Path(__file__).parents[2] / "scripts" / "flink"
MISSING = 69
"""Exit status of the scripts when Java, Maven or a jar is missing."""
FLINK = {"kind": "flink", "workers": 2}


def script(name, timeout=400):
    """Run a script of ``scripts/flink`` with this interpreter's environment first on PATH."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        [str(SCRIPTS / name)],
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture(scope="module")
def flink():
    """A cluster with two slots, started anew, and stopped at the end."""
    script("down")
    started = script("up")
    if started.returncode == MISSING:
        pytest.skip(started.stderr.strip())
    assert started.returncode == 0, started.stderr
    yield
    script("down")


@pytest.fixture(scope="module")
def big_corpus(tmp_path_factory):
    """Enough files that a job is not over before something can happen to it."""
    return write_whole_corpus(
        tmp_path_factory.mktemp("flink") / "in", n_docs=12_000, n_files=48, seed=4
    )


@pytest.fixture(scope="module")
def expected(big_corpus, tmp_path_factory):
    """The digest of the dataset that local threads make."""
    return digest(run(whole_recipe_of(big_corpus, tmp_path_factory.mktemp("local") / "w")).dataset)


def jobs():
    """Return Flink's own list of its jobs, newest last."""
    with urllib.request.urlopen("http://localhost:8081/v1/jobs/overview") as answer:
        return sorted(json.load(answer)["jobs"], key=lambda job: job["start-time"])


def failures_of(job):
    """Return the failures from which Flink has restarted a job."""
    with urllib.request.urlopen(f"http://localhost:8081/v1/jobs/{job['jid']}/exceptions") as answer:
        return json.load(answer)["exceptionHistory"]["entries"]


class Accident(threading.Thread):
    """Does something to the cluster as soon as a run has finished a task of ``encode``."""

    def __init__(self, workdir, *scripts):
        super().__init__(daemon=True)
        self.workdir, self.scripts = workdir, scripts
        self.in_mid_job = False
        self.results = []

    def run(self):
        deadline = time.monotonic() + 300
        while not any(self.workdir.glob("artifacts/encode-*/receipts/*.json")):
            if time.monotonic() > deadline:
                return
            time.sleep(0.01)
        self.in_mid_job = not any(self.workdir.glob("artifacts/balance-*/manifest.json"))
        self.results = [script(name) for name in self.scripts]


def run_with_accident(corpus, workdir, *scripts):
    """Run on Flink while something happens; return the dataset's digest and Flink's failures."""
    accident = Accident(workdir, *scripts)
    accident.start()
    summary = run(whole_recipe_of(corpus, workdir, runner=FLINK))
    accident.join(timeout=400)
    assert accident.in_mid_job
    assert [result.returncode for result in accident.results] == [0] * len(scripts)
    job = jobs()[-1]
    assert job["state"] == "FINISHED"
    return digest(summary.dataset), failures_of(job)


def test_flink_changes_no_byte(flink, big_corpus, expected, tmp_path):
    """A job that ran on Flink leaves the same dataset as local threads."""
    before = len(jobs())
    summary = run(whole_recipe_of(big_corpus, tmp_path / "w", runner=FLINK))

    assert [job["state"] for job in jobs()[before:]] == ["FINISHED"]
    assert digest(summary.dataset) == expected


def test_the_runner_shuffle_on_flink_changes_no_byte(flink, big_corpus, expected, tmp_path):
    """Columns that travel through Flink's own GroupByKey give the same dataset."""
    runner = {**FLINK, "shuffle": "runner"}
    summary = run(whole_recipe_of(big_corpus, tmp_path / "w", runner=runner))

    assert digest(summary.dataset) == expected


def test_a_killed_task_manager_changes_no_byte(flink, big_corpus, expected, tmp_path):
    """SIGKILL of the task manager in mid-job, and a new one: Flink restarts, the bytes stay."""
    got, failures = run_with_accident(big_corpus, tmp_path / "w", "kill-taskmanager", "up")

    assert failures
    assert got == expected


def test_a_killed_python_worker_changes_no_byte(flink, big_corpus, expected, tmp_path):
    """SIGKILL of a Python worker in mid-job: Flink restarts its tasks, the bytes stay."""
    got, failures = run_with_accident(big_corpus, tmp_path / "w", "kill-worker")

    assert failures
    assert got == expected


def test_up_is_harmless_when_the_cluster_runs(flink):
    """``up`` twice starts nothing, and ``status`` says that all of it is ready."""
    again = script("up")

    assert again.returncode == 0
    assert "started:" not in again.stderr
    assert script("status").returncode == 0

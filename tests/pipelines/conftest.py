"""A generated corpus, a finished run over it and Beam's portable runner, once per session."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_runs import recipe_of, write_corpus

from pipelines.run import run


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder with a few hundred generated documents."""
    return write_corpus(tmp_path_factory.mktemp("corpus") / "in")


@pytest.fixture(scope="session")
def finished(corpus, tmp_path_factory):
    """A finished run over the corpus: (recipe, summary)."""
    recipe = recipe_of(corpus, tmp_path_factory.mktemp("run") / "w")
    return recipe, run(recipe)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture(scope="session")
def portable():
    """Beam's own Python job server and a worker pool, as processes: (job endpoint, pool)."""
    job, pool = free_port(), free_port()
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    commands = [
        ["-m", "apache_beam.runners.portability.local_job_service_main", f"--port={job}"],
        ["-m", "apache_beam.runners.worker.worker_pool_main", f"--service_port={pool}"],
    ]
    processes = [
        subprocess.Popen(
            [sys.executable, *command],
            env=env,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    try:
        for port in (job, pool):
            _wait_for(port)
        yield f"localhost:{job}", f"localhost:{pool}"
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_for(port, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise TimeoutError(f"nothing listens on port {port}")

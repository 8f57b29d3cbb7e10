"""A zone plan carried out by processes is what one process computes, forward and backward."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("numba")
HERE = Path(__file__).parent
WORLD = 4


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Run every case on four processes; return what each rank found."""
    folder = tmp_path_factory.mktemp("executor")
    path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    program = str(HERE / "zone_executor.py")
    processes = [
        subprocess.Popen(
            [sys.executable, program, str(r), str(WORLD), folder / "store", folder / f"{r}.json"],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for r in range(WORLD)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors[-3000:]
    return [json.loads((folder / f"{r}.json").read_text()) for r in range(WORLD)]


@pytest.fixture(scope="module")
def executor():
    """The program as a module, for its plans."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("zone_executor", HERE / "zone_executor.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("case", ["all zones", "a node a rank", "uneven", "whole"])
def test_processes_compute_what_one_does(results, executor, case):
    """Result, gradients of tokens and of weights to 1e-10; the rings carry what the plan says."""
    plan = executor.plan_of(case, WORLD)
    for result in results:
        assert max(result[case]["errors"]) < 1e-10
    carried = [sum(r[case]["carried"][i] for r in results) for i in (0, 1)]
    assert tuple(carried) == plan.ring_tokens
    assert [r[case]["tokens"][0] for r in results] == plan.loads[1].tolist()
    equal = [r[case]["tokens"][1] for r in results]
    assert max(equal) - min(equal) <= 1


@pytest.mark.slow
def test_cases_have_every_zone_and_an_uneven_division(executor):
    """The cases are worth running."""
    assert set(executor.plan_of("all zones", WORLD).zone.tolist()) == {0, 1, 2}
    assert set(executor.plan_of("whole", WORLD).zone.tolist()) == {0}
    uneven = executor.plan_of("uneven", WORLD)
    spread = [
        uneven.share[a:b].max() - uneven.share[a:b].min()
        for a, b in zip(uneven.first, uneven.first[1:], strict=False)
    ]
    assert max(spread) > 8

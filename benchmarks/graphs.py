"""Knowledge graphs: reading, and plans answered by SQL in batches and one by one, by CPU seconds.

python benchmarks/graphs.py ../shared/data/kg/fb15k237 --plans 500
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from catalog.tables import PlanOracle, read_graph
from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.limits import Limits
from transforms.synthesis.plan import PATTERNS, Plan, evaluate
from transforms.synthesis.sampler import Sampler

T = TypeVar("T")
_SINGLE = 20


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return what some work gives, and its CPU seconds."""
    start = time.process_time()
    return work(), time.process_time() - start


def plans_of(graph: Graph, pattern: str, count: int, sampler: Sampler) -> list[Plan]:
    """Sample plans of one pattern."""
    if not sampler.can(pattern):
        return []
    found = (sampler.draw(pattern, place, Draw(1, pattern, place)) for place in range(count))
    return [one.plan for one in found if one is not None]


def main() -> None:
    """Print the figures of one graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", type=Path)
    parser.add_argument("--lang", default="en")
    parser.add_argument("--plans", type=int, default=500)
    told = parser.parse_args()
    loaded, seconds = timed(lambda: read_graph(told.graph, lang=told.lang))
    graph = loaded.graph
    print(f"read and normalized: {seconds:.2f} CPU s; {loaded.counters}")
    with tempfile.TemporaryDirectory() as folder:
        _, write = timed(lambda: graph.write(Path(folder)))
        again, read = timed(lambda: Graph.read(Path(folder)))
    if again.fingerprint != graph.fingerprint:
        raise SystemExit("the files hold another graph than was written")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"files: written in {write:.2f}, read in {read:.2f} CPU s; peak memory {peak} MiB")
    oracle, seconds = timed(lambda: PlanOracle(graph))
    print(f"oracle made in {seconds:.2f} CPU s; plans per CPU second:")
    print(f"{'pattern':8} {'plans':>6} {'walked':>8} {'SQL':>8} {'one by one':>10} differences")
    sampler = Sampler(graph, Limits(), 7)
    for pattern in PATTERNS:
        plans = plans_of(graph, pattern, told.plans, sampler)
        if not plans:
            continue
        walked, walking = timed(lambda plans=plans: [evaluate(one, graph) for one in plans])
        batched, batching = timed(lambda plans=plans: oracle.answers(plans))
        few = plans[:_SINGLE]
        _, single = timed(lambda few=few: [oracle.answers([one]) for one in few])
        wrong = sum(not np.array_equal(a, b) for a, b in zip(walked, batched, strict=True))
        rates = len(plans) / walking, len(plans) / batching, len(few) / single
        print(
            f"{pattern:8} {len(plans):6} {rates[0]:8.0f} {rates[1]:8.0f} {rates[2]:10.0f} {wrong}"
        )


if __name__ == "__main__":
    main()

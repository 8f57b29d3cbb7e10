"""Where the CPU seconds of a run go: functions and generators timed by thread, without what they call.

Used by the benchmarks of near-duplicate removal. Each named function is replaced, in the module
that calls it, by one that counts the CPU time of its thread; time spent in another named function
within is that one's. What no name covers is ``other``.
"""

import argparse
import functools
import importlib
import inspect
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pipelines.recipe import load_recipe

PARTS: dict[str, tuple[str, ...]] = {
    "ingest: read and parse": ("pipelines.formats.ingest:_read",),
    "ingest: normalize, measure, hash": ("pipelines.formats.ingest:make_documents",),
    "ingest: write shards": ("pipelines.formats.writer:ShardWriter.write",),
    "ingest: repeated ids": (
        "pipelines.steps.ingest:IngestStage._by_id",
        "pipelines.steps.ingest:IngestStage._resolve",
    ),
    "exact": (
        "pipelines.steps.dedupe:ExactDedupeStage._by_hash",
        "pipelines.steps.dedupe:ExactDedupeStage._by_shard",
    ),
    "near: read text": (
        "pipelines.steps.near_signatures:row_groups",
        "pipelines.steps.near_sets:_wanted_rows",
    ),
    "near: shingle": ("pipelines.steps.near_signatures:shingle_sets",),
    "near: sign": (
        "pipelines.steps.near_signatures:signatures",
        "pipelines.steps.near_signatures:band_keys",
        "pipelines.steps.near_signatures:set_hashes",
    ),
    "near: write signatures": ("pipelines.steps.near_signatures:sign_file",),
    "near: equal sets": (
        "pipelines.steps.near_pairs:by_set",
        "pipelines.steps.near_pairs:find_equal",
    ),
    "near: send band keys": ("pipelines.steps.near_pairs:by_band",),
    "near: pair": ("pipelines.steps.near_pairs:pair",),
    "near: unique pairs": (
        "pipelines.steps.near_pairs:by_first",
        "pipelines.steps.near_pairs:unique",
    ),
    "near: sets of candidates": ("pipelines.steps.near_sets:write_sets",),
    "near: verify": ("pipelines.steps.near_sets:verified_pairs",),
    "near: keep": ("pipelines.steps.near_keep:removed_rows",),
    "shuffle: write and open segments": (
        "pipelines.shuffle:_write_segments",
        "pipelines.shuffle:Partition.tables",
    ),
    "checksums of files": ("pipelines.artifacts:file_sha256",),
    "memory: release": ("pipelines.tasks:release_memory",),
    "receipts, costs": ("pipelines.tasks:record_cost", "pipelines.artifacts:write_receipt"),
    "kernels: load": ("numba.core.caching:Cache.load_overload",),
    "pipeline: build": ("apache_beam:Pipeline.apply", "apache_beam:Pipeline.to_runner_api"),
    "pipeline: catalog": ("pipelines.run:rebuild",),
}
"""What is timed under which name. A function named by the module that defines it is timed wherever it
is called from; by another module, only where that one calls it."""


GROUPS: dict[str, tuple[str, ...]] = {
    "read": ("ingest: read and parse", "near: read text"),
    "normalize, hash": ("ingest: normalize, measure, hash", "ingest: repeated ids", "exact"),
    "shingle": ("near: shingle",),
    "sign": ("near: sign", "near: equal sets"),
    "bands": ("near: send band keys", "shuffle: write and open segments"),
    "pairs": ("near: pair", "near: unique pairs"),
    "verify": ("near: sets of candidates", "near: verify"),
    "keep": ("near: keep",),
    "write": ("ingest: write shards", "near: write signatures", "checksums of files"),
}
"""What belongs together in a table; the rest is start-up, Beam, receipts and the catalog."""


def grouped(seconds: Mapping[str, float]) -> dict[str, float]:
    """Sum CPU seconds by group, ``engine`` for the rest."""
    found = {group: sum(seconds.get(n, 0.0) for n in names) for group, names in GROUPS.items()}
    found["engine"] = sum(seconds.values()) - sum(found.values())
    return found


class Stopwatch:
    """CPU seconds by name, over all threads."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._local = threading.local()
        self._lock = threading.Lock()

    @contextmanager
    def timing(self, name: str) -> Iterator[None]:
        """Count the time of this thread for a name; another timing within takes its time away."""
        stack = self._local.__dict__.setdefault("stack", [])
        now = time.thread_time()
        if stack:
            self._add(stack[-1][0], now - stack[-1][1])
        stack.append([name, now])
        try:
            yield
        finally:
            now = time.thread_time()
            _, started = stack.pop()
            self._add(name, now - started)
            if stack:
                stack[-1][1] = now

    def _add(self, name: str, seconds: float) -> None:
        with self._lock:
            self.seconds[name] += seconds

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that does the same and is timed; each step of a generator is."""

        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            with self.timing(name):
                found = function(*arguments, **named)
            return self._steps(name, found) if inspect.isgenerator(found) else found

        return timed

    def _steps(self, name: str, generator: Iterator[Any]) -> Iterator[Any]:
        while True:
            with self.timing(name):
                try:
                    value = next(generator)
                except StopIteration:
                    return
            yield value
            del value


@contextmanager
def measured(parts: dict[str, tuple[str, ...]] = PARTS) -> Iterator[Stopwatch]:
    """Time the named functions while the context lasts."""
    watch = Stopwatch()
    replaced: list[tuple[Any, str, Any]] = []
    for name, places in parts.items():
        for place in places:
            owner, attribute = _find(place)
            old = getattr(owner, attribute)
            new = watch.wrap(name, old)
            owners = [owner]
            if old.__module__ == place.partition(":")[0] and inspect.ismodule(owner):
                owners = [m for m in sys.modules.values() if vars(m).get(old.__name__) is old]
            for one in owners:
                replaced.append((one, attribute, old))
                setattr(one, attribute, new)
    try:
        yield watch
    finally:
        for owner, attribute, old in reversed(replaced):
            setattr(owner, attribute, old)


def _find(place: str) -> tuple[Any, str]:
    """Return the module or class that ``module:attribute`` lies in, and the attribute's name."""
    module, _, attribute = place.partition(":")
    owner: Any = importlib.import_module(module)
    *path, last = attribute.split(".")
    for step in path:
        owner = getattr(owner, step)
    return owner, last


def main() -> None:
    """Run a recipe up to a stage; print one object: CPU seconds by name, and the run's summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("--until", default="dedupe.near")
    options = parser.parse_args()
    recipe, run = load_recipe(options.recipe), importlib.import_module("pipelines.run").run
    imports = time.process_time()
    with measured() as watch:
        summary = run(recipe, until=options.until)
    cpu = time.process_time()
    seconds = {"start-up: imports": imports, **watch.seconds}
    seconds["other"] = cpu - sum(seconds.values())
    print(json.dumps({"seconds": seconds, "cpu_s": cpu, "summary": summary.to_json()}))


if __name__ == "__main__":
    main()

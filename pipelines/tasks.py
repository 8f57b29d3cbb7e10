"""Tasks: the unit of work, of caching and of progress.

A stage is made of phases. A phase lists its tasks, runs each of them somewhere, and finishes when
all are done. What a task leaves is a :class:`~pipelines.artifacts.Receipt`; a task whose receipt
exists already, in this artifact or in another one of the stage, is adopted and not run.
"""

import ctypes
import functools
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa

from pipelines.artifacts import FileEntry, Receipt, Workdir, write_atomically, write_receipt
from pipelines.barrier import Barrier
from pipelines.corpus import Corpus
from pipelines.failures import failures_recorded

_LARGE_BYTES = 512 << 20
"""Resident memory from which on freed memory is given back after each task; 200 MB are libraries."""


@dataclass(frozen=True, slots=True)
class Task:
    """One unit of work of a stage."""

    fingerprint: str
    """sha256 (hex) of everything the result depends on."""
    corpus: Corpus
    stage: str
    artifact: str
    """Fingerprint of the artifact that the task works for."""
    payload: Any = None
    """What this task alone needs."""
    shared: Any = None
    """What all tasks of the phase, and the reducers of its shuffle, need; small."""
    weight: int = 0
    """Expected work, in bytes; heavy tasks start first."""
    base: str = ""
    """See :attr:`pipelines.artifacts.Receipt.base`."""
    cached: bool = True
    """Whether a receipt is written, so that the task is never run twice."""
    order: int = 0
    """Place in the list of tasks."""

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.corpus.store

    @property
    def folder(self) -> Path:
        """Folder of the artifact."""
        return self.store.folder(self.stage, self.artifact)


@dataclass(slots=True)
class Work:
    """What a task function returns: files it wrote, counters, and anything the finish needs."""

    files: list[FileEntry] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)
    """JSON values kept in the receipt."""
    value: Any = None
    """Anything picklable for the finish of the phase; not kept in the receipt."""


@dataclass(frozen=True, slots=True)
class Result:
    """A finished task as the finish of its phase sees it; sorted by ``order``."""

    order: int
    receipt: Receipt
    value: Any = None


def dealt(listed: beam.PCollection, label: str) -> beam.PCollection:
    """Deal numbered tasks over the workers in their order; ends fusion with the listing."""
    return (
        listed
        | f"{label}: number" >> beam.Map(_same).with_output_types(tuple[int, Any])
        | f"{label}: deal" >> beam.GroupByKey()
        | f"{label}: take" >> beam.FlatMap(_values)
    )


def _same(numbered: tuple[int, Task]) -> tuple[int, Task]:
    return numbered


def _values(grouped: tuple[int, Iterable[Any]]) -> Iterable[Any]:
    return grouped[1]


class Phase(beam.PTransform):
    """Run tasks and finish: a collection of one element in, a collection of one element out.

    Args:
        label: names the phase in the pipeline's graph.
        list_tasks: element -> tasks; runs on one worker.
        run: task -> work; runs anywhere, several at a time, and must be repeatable.
        finish: (element, results in task order) -> the element that goes on.
    """

    def __init__(
        self,
        label: str,
        list_tasks: Callable[[Any], list[Task]],
        run: Callable[[Task], Work],
        finish: Callable[[Any, list[Result]], Any],
    ) -> None:
        super().__init__(label)
        self._list = list_tasks
        self._run = run
        self._finish = finish

    def expand(self, elements: beam.PCollection) -> beam.PCollection:
        """Apply the phase."""
        listed = elements | "List tasks" >> beam.ParDo(ListTasks(self._list)).with_outputs(
            "adopted", main="missing"
        )
        done = dealt(listed.missing, "Tasks") | "Run tasks" >> beam.ParDo(RunTask(self._run))
        return (elements, (done, listed.adopted)) | "Barrier" >> Barrier(self._finish)


class ListTasks(beam.DoFn):
    """List the tasks of a phase; adopt those that are finished already."""

    def __init__(self, list_tasks: Callable[[Any], list[Task]]) -> None:
        self._list = list_tasks

    def process(self, element: Any) -> Iterator[Any]:
        """Yield (number, task) for missing tasks, and a Result for every finished one.

        Args:
            element: anything with a ``store``, the work directory.
        """
        missing = []
        with failures_recorded(element.store):
            tasks = [replace(task, order=n) for n, task in enumerate(self._list(element))]
            if not tasks:
                return
            tasks[0].folder.mkdir(parents=True, exist_ok=True)
            lasting = sum(task.cached for task in tasks)
            finished = element.store.finished_tasks(tasks[0].stage) if lasting else {}
            for task in tasks:
                known = finished.get(task.fingerprint) if task.cached else None
                if known is None:
                    missing.append(task)
                    continue
                element.store.adopt(task.folder, *known)
                yield beam.pvalue.TaggedOutput("adopted", Result(task.order, known[1]))
            if lasting:
                # The progress display reads here how many receipts to expect.
                write_atomically(tasks[0].folder / ".tasks", str(lasting).encode())
        # Heavy tasks first: a runner without work stealing then ends with the light ones.
        missing.sort(key=lambda task: (-task.weight, task.order))
        yield from enumerate(missing)


class RunTask(beam.DoFn):
    """Run a task and leave its receipt."""

    def __init__(self, run: Callable[[Task], Work]) -> None:
        self._run = run

    def setup(self) -> None:
        """Leave parallelism to the runner: one task, one core."""
        pa.set_cpu_count(1)

    def process(self, task: Task) -> Iterator[Result]:
        """Yield the task's Result."""
        with failures_recorded(task.store):
            clock = Clock()
            work = self._run(task)
            receipt = Receipt(
                task=task.fingerprint,
                files=tuple(replace(entry, task=task.fingerprint) for entry in work.files),
                counters=work.counters,
                base=task.base,
                cpu_s=clock.cpu_s,
                wall_s=clock.wall_s,
                detail=work.detail,
            )
            if task.cached:
                write_receipt(task.folder, receipt)
            record_cost(task.folder, clock)
        yield Result(task.order, receipt, work.value)
        del work, receipt
        release_memory()


def release_memory() -> None:
    """Give freed memory back to the system where the process has grown large.

    Tasks come and go on several threads, and each thread's allocator keeps what was freed for its
    own use: the peaks of all of them would add up. Memory that is given back costs time when it is
    needed again, so a small process keeps it.
    """
    trim = _malloc_trim()
    if trim is not None and _resident_bytes() > _LARGE_BYTES:
        pa.default_memory_pool().release_unused()
        trim(0)


def _resident_bytes() -> int:
    """Return the resident memory of this process; Linux."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@functools.cache
def _malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's ``malloc_trim``; None elsewhere."""
    on_linux = Path("/proc/self/statm").exists()
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if on_linux else None


class Clock:
    """CPU seconds of this thread and wall seconds since it was made."""

    def __init__(self) -> None:
        self.started = time.time()
        self._wall, self._cpu = time.perf_counter(), time.thread_time()

    @property
    def cpu_s(self) -> float:
        """CPU seconds of this thread."""
        return time.thread_time() - self._cpu

    @property
    def wall_s(self) -> float:
        """Wall seconds."""
        return time.perf_counter() - self._wall


def record_cost(folder: Path, clock: Clock) -> None:
    """Leave what a piece of work cost, for the accounts of the run that did it.

    Args:
        folder: the artifact's folder, whose name tells the stage.
        clock: made when the work began.
    """
    stage = folder.name.rpartition("-")[0]
    costs = folder.parent.parent / "scratch" / "costs" / stage
    cost = {"cpu_s": clock.cpu_s, "started": clock.started, "ended": clock.started + clock.wall_s}
    content, path = json.dumps(cost).encode(), costs / f"{uuid.uuid4().hex}.json"
    try:
        write_atomically(path, content)
    except FileNotFoundError:
        costs.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)

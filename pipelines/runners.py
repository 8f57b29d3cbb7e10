"""Beam runners by name: local threads, Beam's portable runner, Flink and Dataflow."""

import functools
import importlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from annotated_types import Gt

if TYPE_CHECKING:
    from apache_beam.options.pipeline_options import PipelineOptions

    from pipelines.local_runner import LocalRunner

ShuffleKind = Literal["files", "runner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """Where the pipeline runs. Never part of a fingerprint: the bytes are the same everywhere."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    kind: Literal["local", "portable", "flink", "dataflow"] = "local"
    """The engine: threads of this process, a portable job server, Flink, or Dataflow."""
    workers: Annotated[int, Gt(0)] = 2
    """Parallel tasks: threads locally, SDK processes on a cluster."""
    shuffle: ShuffleKind = "files"
    """How columns are shuffled: by reference through files of the work directory, or as payload of
    the runner's own GroupByKey, for workers that share no fast file system."""
    job_endpoint: str = "localhost:8099"
    """Address of Beam's job server (portable, flink)."""
    worker_pool: str = "localhost:50000"
    """Address of the Python worker pool beside each task manager (portable, flink); ``loopback``
    runs the workers in this process."""
    flink_master: str | None = None
    """Address of a Flink cluster's REST port; Beam's FlinkRunner then submits the job itself."""


def own_runner(settings: RunnerSettings, extra: Sequence[str] = ()) -> "LocalRunner | None":
    """Return Drystone's own runner; None where Beam's options choose another one.

    Args:
        settings: the table ``[runner]``.
        extra: Beam options given by the user; whoever gives any gets Beam's own runner.
    """
    if settings.kind != "local" or extra:
        return None
    from pipelines.local_runner import LocalRunner

    return LocalRunner(settings.workers)


def runner_options(settings: RunnerSettings, extra: Sequence[str] = ()) -> "PipelineOptions":
    """Return the Beam options of a runner; ``extra`` are Beam options given by the user, last."""
    environment = (
        ["--environment_type=LOOPBACK"]
        if settings.worker_pool == "loopback"
        else ["--environment_type=EXTERNAL", f"--environment_config={settings.worker_pool}"]
    )
    parallel = [
        f"--parallelism={settings.workers}",
        f"--sdk_worker_parallelism={settings.workers}",
        "--environment_cache_millis=60000",
    ]
    if settings.kind == "local":
        keep_elements_whole()
        # Never DirectRunner: it looks for a downloadable runner first. Threads suffice, because
        # the kernels release the GIL.
        mode = "multi_threading" if settings.workers > 1 else "in_memory"
        flags = [
            "--runner=FnApiRunner",
            f"--direct_running_mode={mode}",
            f"--direct_num_workers={settings.workers}",
        ]
    elif settings.kind == "portable":
        flags = ["--runner=PortableRunner", f"--job_endpoint={settings.job_endpoint}"]
        flags += environment + parallel[1:]
    elif settings.kind == "flink":
        flags = environment + parallel
        if settings.flink_master:
            flags += ["--runner=FlinkRunner", f"--flink_master={settings.flink_master}"]
        else:
            flags += ["--runner=PortableRunner", f"--job_endpoint={settings.job_endpoint}"]
    else:
        flags = ["--runner=DataflowRunner", f"--num_workers={settings.workers}"]
    # Labels tell what is connected to what; the types of elements are not declared beyond keys.
    return _options_class()([*flags, "--no_pipeline_type_check", *extra])


@functools.cache
def _options_class() -> "type[PipelineOptions]":
    """Return a class of options that keep their views.

    Beam asks for a view of its options more than a thousand times while it builds a pipeline, and
    parses all flags anew each time, half a second in sum. Views share their values, so one of each
    class will do.
    """
    # Beam takes half a second to import; the recipe needs only the settings.
    from apache_beam.options.pipeline_options import PipelineOptions

    class Options(PipelineOptions):  # type: ignore[misc]
        def view_as(self, cls: Any) -> Any:
            views = self.__dict__.setdefault("_views", {})
            if cls not in views:
                views[cls] = super().view_as(cls)
            return views[cls]

        def __getstate__(self) -> Any:
            return {k: v for k, v in super().__getstate__().items() if k != "_views"}

    return Options


def keep_elements_whole() -> None:
    """Keep Beam's local runner from sending halves of elements, and from losing whole ones.

    With more than one worker, its streams of elements are flushed by a thread of their own every
    second, without a lock that the writing thread would know of. A flush in the middle of an element
    sends its first half; the second one is read as an element, whose number of windows is then any
    four bytes of it: the list of so many windows fills all memory. Elements written between the two
    steps of a flush (send, clear) are gone without an error. Flushed by size alone, as on clusters, a
    stream has one thread.
    """
    handlers = importlib.import_module(
        "apache_beam.runners.portability.fn_api_runner.worker_handlers"
    )
    vars(handlers)["DATA_BUFFER_TIME_LIMIT_MS"] = 0


def quiet_beam() -> None:
    """Keep Beam's own chatter below warnings; Drystone reports progress and errors itself."""
    if not logging.getLogger().isEnabledFor(logging.INFO):
        # It prints the traceback of a task's error, with which the command ends in a line.
        worker = importlib.import_module("apache_beam.runners.worker.sdk_worker")
        vars(worker)["print"] = _print_nothing
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    logging.getLogger("root").setLevel(logging.WARNING)


def _print_nothing(*_: object, **__: object) -> None:
    """Stand in for ``print`` in Beam's worker."""

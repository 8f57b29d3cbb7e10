"""Running a recipe: one Beam pipeline of the stages that are missing, then the run's record."""

import datetime
import json
import resource
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import apache_beam as beam

from catalog.ingest import rebuild
from pipelines.accounts import RunSummary, close_accounts, costs_by_stage
from pipelines.artifacts import Workdir, fingerprint, write_atomically
from pipelines.doctor import check_installation
from pipelines.failures import EngineError, raise_recorded
from pipelines.progress import StageProgress
from pipelines.recipe import Recipe, RecipeError, resolved
from pipelines.runners import own_runner, quiet_beam, runner_options
from pipelines.stages import Planned, bind, compared_with, stages_of, tasks_done
from pipelines.steps.stage import Apply
from transforms.record import RecordError

Progress = Callable[[StageProgress], None]

_POLL_S = 0.25

__all__ = ["EngineError", "RunSummary", "run"]


def run(
    recipe: Recipe,
    *,
    until: str | None = None,
    beam_options: Sequence[str] = (),
    progress: Progress | None = None,
) -> RunSummary:
    """Run what is missing of a recipe, record the run and publish the catalog.

    Args:
        recipe: what to do.
        until: last stage to run; all by default.
        beam_options: further Beam options, as on Beam's command line.
        progress: called from time to time with a stage's progress.

    Returns:
        The run's summary.

    Raises:
        RecipeError: ``until`` names no stage of the recipe.
        RecordError: the input cannot be used, or more of it was rejected than allowed.
        StorageError: the work directory is locked or damaged.
        EngineError: the runner failed.
    """
    check_installation()
    quiet_beam()
    store = Workdir(recipe.workdir)
    clock = _ProcessClock()
    with store.lock():
        stages = stages_of(recipe)
        stages = stages[: _last(recipe, [stage.name for stage in stages], until)]
        with _scratch(store):
            planned = bind(stages, recipe.workdir)
            summary = _new_summary(recipe, store, planned)
            summary.against = [run.to_json() for run in compared_with(stages)]
            try:
                _execute(recipe, planned, beam_options, progress)
                costs = costs_by_stage(store)
                done = bind(stages, recipe.workdir)
                close_accounts(summary, store, planned, done, costs)
                _refuse_rejected(recipe, summary)
            except Exception:
                summary.status = "failed"
                clock.stop(summary)
                _record(store, summary, recipe)
                rebuild(store.path)
                raise
        summary.catalog = str(store.path / "catalog.duckdb")
        clock.stop(summary)
        _record(store, summary, recipe)
        rebuild(store.path)
        clock.stop(summary)
    return summary


def _last(recipe: Recipe, names: list[str], until: str | None) -> int:
    if until is None:
        return len(names)
    if until not in names:
        raise RecipeError(
            [f"--until {until}: no stage of {recipe.name}; its stages are {', '.join(names)}"]
        )
    return names.index(until) + 1


@contextmanager
def _scratch(store: Workdir) -> Iterator[None]:
    """Begin and end with an empty scratch folder; what a killed run left goes too."""
    shutil.rmtree(store.scratch, ignore_errors=True)
    try:
        yield
    finally:
        shutil.rmtree(store.scratch, ignore_errors=True)


def _new_summary(recipe: Recipe, store: Workdir, planned: list[Planned]) -> RunSummary:
    now = datetime.datetime.now(datetime.UTC)
    mark = fingerprint(stages=[[p.stage.name, p.fingerprint] for p in planned])
    run_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    return RunSummary(run_id, recipe.name, "ok", mark, str(store.path))


def _execute(
    recipe: Recipe, planned: list[Planned], beam_options: Sequence[str], progress: Progress | None
) -> None:
    """Run the stages from the first missing one on, in one pipeline."""
    missing = [p for p in planned if p.manifest is None]
    if progress is not None:
        for p in planned:
            if p.manifest is not None:
                progress(StageProgress(p.stage.name, 0, 0, cached=True))
    if not missing:
        return
    first = planned.index(missing[0])
    store = Workdir(recipe.workdir)
    watcher = _Watcher(planned[first:], progress)
    try:
        with watcher:
            pipeline = beam.Pipeline(
                runner=own_runner(recipe.runner, beam_options),
                options=runner_options(recipe.runner, beam_options),
            )
            corpora = pipeline | "Corpus" >> beam.Create([planned[first].before], reshuffle=False)
            for p in planned[first:]:
                corpora = corpora | Apply(p.stage)
            pipeline.run().wait_until_finish()
    except Exception as error:  # noqa: BLE001  # runners raise whatever they like
        raise_recorded(store, error)
    unfinished = [p.stage.name for p in planned if not _committed(p)]
    if unfinished:
        raise_recorded(store, EngineError(f"{', '.join(unfinished)} did not commit"))


def _committed(p: Planned) -> bool:
    return p.before.store.committed(p.stage.name, p.fingerprint) is not None


class _Watcher:
    """Report progress from the receipts that tasks leave: every runner gives these, and no more."""

    def __init__(self, planned: list[Planned], progress: Progress | None) -> None:
        self._planned = planned
        self._progress = progress
        self._seen: dict[str, tuple[int, int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        if self._progress is not None:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._progress is not None:
            self._thread.join()
            self._report()

    def _watch(self) -> None:
        while not self._stop.wait(_POLL_S):
            self._report()

    def _report(self) -> None:
        for p in self._planned:
            folder = p.before.store.folder(p.stage.name, p.fingerprint)
            if not folder.is_dir():
                continue
            done, total = tasks_done(folder), _expected(folder)
            if (folder / "manifest.json").exists():
                done = total = max(done, total, 1)
            if self._seen.get(p.stage.name) != (done, total) and self._progress is not None:
                self._seen[p.stage.name] = (done, total)
                self._progress(StageProgress(p.stage.name, done, total))


def _expected(folder: Path) -> int:
    try:
        return int((folder / ".tasks").read_text())
    except (FileNotFoundError, ValueError):
        return 0


def _refuse_rejected(recipe: Recipe, summary: RunSummary) -> None:
    share = summary.rejected / summary.lines if summary.lines else 0.0
    if share > recipe.ingest.max_rejected:
        raise RecordError(
            f"{summary.rejected} of {summary.lines} lines ({share:.1%}) were rejected, more than "
            f"ingest.max_rejected = {recipe.ingest.max_rejected:g} allows; see the rejects "
            f"artifact in {summary.workdir}, mend the input or raise the limit"
        )


def _record(store: Workdir, summary: RunSummary, recipe: Recipe) -> None:
    """Write ``run.json``: the commit of the run."""
    folder = store.path / "runs" / summary.run_id
    folder.mkdir(parents=True, exist_ok=True)
    finished = datetime.datetime.now(datetime.UTC)
    started = finished - datetime.timedelta(seconds=summary.wall_s)
    record = {
        **summary.to_json(),
        "started": started.isoformat(),
        "finished": finished.isoformat(),
        "recipe": resolved(recipe),
    }
    write_atomically(folder / "run.json", json.dumps(record, indent=1, sort_keys=True).encode())


class _ProcessClock:
    """CPU and wall time since the run began, and peak memory of this process or a child."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), _cpu_s()

    def stop(self, summary: RunSummary) -> None:
        """Enter the figures."""
        summary.cpu_s = round(_cpu_s() - self._cpu, 3)
        summary.wall_s = round(time.perf_counter() - self._wall, 3)
        usage = (
            resource.getrusage(resource.RUSAGE_SELF),
            resource.getrusage(resource.RUSAGE_CHILDREN),
        )
        summary.peak_rss_bytes = max(u.ru_maxrss for u in usage) * 1024


def _cpu_s() -> float:
    usage = (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in usage)

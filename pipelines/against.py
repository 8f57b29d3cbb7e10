"""The work directories of ``dedupe.against``: found, and refused where they cannot be compared with."""

from collections.abc import Iterator
from pathlib import Path

from catalog.store import CatalogError
from catalog.workdir import Run, read_runs
from pipelines.artifacts import StorageError, Workdir
from pipelines.corpus import Corpus
from pipelines.recipe import Recipe, RecipeError
from pipelines.recipe_problems import Problem
from pipelines.steps.earlier import EarlierRun
from pipelines.steps.near_signatures import OtherSchemeError, refuse_other_scheme
from pipelines.steps.removed import REMOVING_STAGES

_NORMALIZATION = ("unicode", "line_ends", "control")
"""Keys of ``[ingest]`` that make another text, and so other hashes, of the same record."""


def earlier_runs(recipe: Recipe) -> tuple[EarlierRun, ...]:
    """Return the runs that a recipe's documents are compared with.

    Raises:
        RecipeError: a folder of ``dedupe.against`` cannot be compared with; all such are named.
        StorageError: artifacts of such a run are not there any more, or damaged.
    """
    problems: list[str] = []
    runs: dict[str, EarlierRun] = {}
    for place, folder in enumerate(recipe.dedupe.against):
        try:
            if Path(folder).resolve() == Path(recipe.workdir).resolve():
                raise NoEarlierRunError(
                    "this recipe's own workdir; name another one, or add the sources to one recipe"
                )
            run = newest_run(folder)
            text = "; ".join(_refusals(recipe, run, runs))
        except NoEarlierRunError as error:
            text = str(error)
        if text:
            keys = ("dedupe", "against", place)
            problems.append(Problem(keys, f"{folder}: {text}").line("recipe"))
        else:
            runs[folder] = run
    if problems:
        raise RecipeError(problems)
    return tuple(runs.values())


def _refusals(recipe: Recipe, run: EarlierRun, others: dict[str, EarlierRun]) -> Iterator[str]:
    """Yield why a run cannot be compared with."""
    for folder, other in others.items():
        if other.ingest == run.ingest:
            yield f"holds the same documents as {folder}; name one of them"
    ingested = run.corpus.manifest("ingest").config
    for key in _NORMALIZATION:
        here, there = getattr(recipe.ingest, key), ingested.get(key)
        if here != there:
            yield (
                f"its text was ingested with {key} = {there!r}, here ingest.{key} = {here!r}, so "
                f"that equal documents would differ; set ingest.{key} = {there!r}, or run its "
                f"recipe again with {here!r}"
            )
    if recipe.dedupe.near is not None:
        try:
            refuse_other_scheme(run.corpus, recipe.dedupe.near)
        except OtherSchemeError as error:
            yield str(error)


class NoEarlierRunError(StorageError):
    """A folder that holds no run to compare with."""


def newest_run(workdir: str | Path) -> EarlierRun:
    """Return what the newest good run of a work directory accepted; the folder is only read.

    Raises:
        NoEarlierRunError: there is no such folder, or it holds no run that ended well.
        StorageError: the run's artifacts are not there any more, or damaged.
    """
    store = Workdir(Path(workdir).resolve())
    if not store.path.is_dir():
        raise NoEarlierRunError("no such folder; give the workdir of a run that ended well")
    try:
        ended = [run for run in read_runs(store.path) if run.status == "ok"]
    except CatalogError as error:
        raise StorageError(str(error)) from error
    if not ended:
        raise NoEarlierRunError(
            "no run in it ended well (runs/*/run.json); run its recipe first, or give the workdir "
            "of another one"
        )
    return _of(store, ended[-1])


def _of(store: Workdir, run: Run) -> EarlierRun:
    deciding = [stage for stage in run.stages if stage.stage in ("ingest", *REMOVING_STAGES)]
    for stage in deciding:
        try:
            found = store.committed(stage.stage, stage.fingerprint)
        except StorageError as error:
            raise StorageError(f"{store.path} of dedupe.against: {error} its recipe") from error
        if found is None:
            raise StorageError(
                f"{store.folder(stage.stage, stage.fingerprint)}: not there any more, and run "
                f"{run.run_id} is to be compared with; run the recipe of {store.path} again"
            )
    if not deciding or deciding[0].stage != "ingest":
        raise NoEarlierRunError(f"its newest run {run.run_id} ingested nothing; run its recipe")
    corpus = Corpus(str(store.path), tuple((s.stage, s.fingerprint) for s in deciding))
    return EarlierRun(corpus, run.run_id, int(deciding[-1].facts["rows_out"]))

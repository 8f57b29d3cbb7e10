"""Finding what a command speaks of: the work directory, a run, a dataset."""

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from catalog.store import CATALOG_FILE, CatalogError
from catalog.store import find_workdir as nearest_workdir


class UsageError(ValueError):
    """What the command line names cannot be used; the message says what to give instead."""


def find_workdir(given: Path | None = None) -> Path:
    """Return the work directory: the one given, or the nearest from the current folder upwards.

    Raises:
        UsageError: there is none.
    """
    if given is not None:
        if not (given / "runs").is_dir() and not (given / CATALOG_FILE).exists():
            raise UsageError(
                f"{given}: no work directory; give the workdir of a recipe that was run"
            )
        return given
    try:
        return nearest_workdir()
    except CatalogError as error:
        raise UsageError(str(error)) from error


def workdir_option(workdir: Path) -> list[str]:
    """Return the option that names a work directory, empty where it would be found without."""
    try:
        if find_workdir().resolve() == workdir.resolve():
            return []
    except UsageError:
        pass
    try:
        return ["--workdir", str(workdir.resolve().relative_to(Path.cwd()))]
    except ValueError:
        return ["--workdir", str(workdir)]


def run_record(run_id: str, workdir: Path) -> dict[str, Any]:
    """Return the record (``run.json``) of a run.

    Raises:
        UsageError: the work directory has no such run.
    """
    path = workdir / "runs" / run_id / "run.json"
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        known = sorted(p.parent.name for p in workdir.glob("runs/*/run.json"))
        close = get_close_matches(run_id, known, n=1)
        newest = f"the newest is {known[-1]}" if known else "it has none"
        raise UsageError(
            f"{run_id}: no such run in {workdir}; "
            + (f"did you mean {close[0]}?" if close else newest)
        ) from error
    return record


def find_dataset(given: str, workdir: Path | None) -> Path:
    """Return the folder of a packed dataset, given as that folder or as a run id.

    Raises:
        UsageError: it is neither, or the run made no dataset.
    """
    folder = Path(given)
    if folder.is_dir():
        if (folder / "plan.parquet").exists():
            return folder
        raise UsageError(
            f"{given}: no packed dataset (it has no plan.parquet); give the folder that "
            "drystone run names as dataset, or a run id"
        )
    if folder.is_file() or "/" in given:
        raise UsageError(f"{given}: no such folder; give a packed dataset or a run id")
    home = find_workdir(workdir)
    record = run_record(given, home)
    for stage in record["stages"]:
        if stage["stage"] == "balance":
            return home / str(stage["path"])
    raise UsageError(f"run {given} made no dataset; run its recipe without --until")

"""Where a dataset comes from: the work directory around it and the pipeline run that made it."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packing.format import MANIFEST_FILE, ShardError


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """A finished run of the pipeline, as ``runs/<run_id>/run.json`` tells it."""

    folder: Path
    finished: str
    outputs: frozenset[Path]
    """Folders of its artifacts."""
    dataset: Path | None
    """Folder of its packed rows."""

    @property
    def workdir(self) -> Path:
        """The work directory."""
        return self.folder.parent.parent


def find_dataset(path: str) -> str:
    """Return the folder of a dataset: the path itself, or of a work directory its newest dataset.

    Raises:
        ShardError: the work directory has no finished run with a dataset.
    """
    folder = Path(path)
    if (folder / MANIFEST_FILE).exists() or not (folder / "runs").is_dir():
        return path
    found = [run for run in _runs(folder.absolute()) if run.dataset is not None]
    if not found:
        raise ShardError(
            f"{path}: a work directory without a finished run that packed rows; "
            "finish drystone run, or give the folder of a dataset"
        )
    return str(found[-1].dataset)


def run_of(dataset: str) -> PipelineRun | None:
    """Return the newest run that ended well and names this dataset, or None."""
    folder = Path(dataset).resolve()
    found = [run for run in _runs(folder.parent.parent) if folder in run.outputs]
    return found[-1] if found else None


def _runs(workdir: Path) -> list[PipelineRun]:
    """Return the runs that ended well, the newest last."""
    found = [
        _describe(workdir, path.parent, run)
        for path, run in _documents(workdir)
        if run.get("status") == "ok"
    ]
    return sorted(found, key=lambda run: (run.finished, run.folder.name))


def _documents(workdir: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(workdir.glob("runs/*/run.json")):
        with contextlib.suppress(OSError, ValueError):
            run = json.loads(path.read_bytes())
            if isinstance(run, dict):
                yield path, run


def _describe(workdir: Path, folder: Path, run: dict[str, Any]) -> PipelineRun:
    # Artifacts are named relative to the work directory, which may have been moved since.
    paths = {
        stage.get("stage"): (workdir / stage["path"]).resolve()
        for stage in run.get("stages", [])
        if stage.get("path")
    }
    if run.get("dataset"):
        paths.setdefault("balance", (workdir / run["dataset"]).resolve())
    dataset = paths.get("balance")
    return PipelineRun(folder, str(run.get("finished", "")), frozenset(paths.values()), dataset)

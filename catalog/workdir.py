"""What a work directory says of itself: committed artifacts and runs, read from their JSON."""

import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from catalog.store import CatalogError


@dataclass(frozen=True, slots=True)
class ArtifactFile:
    """One file of an artifact, as its manifest lists it."""

    name: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Artifact:
    """A committed artifact."""

    stage: str
    fingerprint: str
    folder: Path
    parents: Mapping[str, str]
    """Stage -> fingerprint of the artifacts this one was made from."""
    files: tuple[ArtifactFile, ...]
    created: datetime.datetime
    """When the manifest was written, UTC."""

    @property
    def bytes(self) -> int:
        """Size of the listed files."""
        return sum(file.bytes for file in self.files)

    @cached_property
    def complete(self) -> bool:
        """Whether every listed file is there."""
        present = {path.name for path in self.folder.iterdir()}
        return all(
            file.name in present or ("/" in file.name and (self.folder / file.name).exists())
            for file in self.files
        )

    def paths(self, pattern: str) -> list[str]:
        """Return the absolute paths of the Parquet files whose name matches a regular expression.

        Files without rows are left out, unless there are only such: then they give the columns.
        """
        matching = [file for file in self.files if re.fullmatch(pattern, file.name)]
        chosen = [file for file in matching if file.rows] or matching
        return sorted(str(self.folder / file.name) for file in chosen)


@dataclass(frozen=True, slots=True)
class RunStage:
    """What one run says of one of its stages."""

    stage: str
    fingerprint: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    """cached, path, rows_in, rows_out, bytes, cpu_s, wall_s."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run, ended well or failed."""

    run_id: str
    status: str
    started: datetime.datetime | None
    finished: datetime.datetime | None
    stages: tuple[RunStage, ...]
    record: Mapping[str, Any]
    """All of ``run.json``."""

    @property
    def order(self) -> tuple[str, str]:
        """Sort key: runs by the time they ended."""
        return (self.finished.isoformat() if self.finished else "", self.run_id)


def read_artifacts(workdir: Path) -> dict[str, Artifact]:
    """Return the committed artifacts of a work directory by fingerprint, in order of their folders.

    Raises:
        CatalogError: a manifest cannot be read.
    """
    paths = sorted((workdir / "artifacts").glob("*/manifest.json"))
    return {artifact.fingerprint: artifact for artifact in map(_read_artifact, paths)}


def read_runs(workdir: Path) -> list[Run]:
    """Return the runs of a work directory, failed ones too, the newest last.

    Raises:
        CatalogError: a ``run.json`` cannot be read.
    """
    paths = sorted((workdir / "runs").glob("*/run.json"))
    return sorted(map(_read_run, paths), key=lambda run: run.order)


def artifacts_of(run: Run, artifacts: Mapping[str, Artifact]) -> dict[str, Artifact] | None:
    """Return a run's artifacts by stage, in the order of its stages.

    Returns:
        None where the run failed, or an artifact or one of its files is there no more.
    """
    if run.status != "ok":
        return None
    found = {}
    for stage in run.stages:
        artifact = artifacts.get(stage.fingerprint)
        if artifact is None or not artifact.complete:
            return None
        found[stage.stage] = artifact
    return found


def _read_artifact(path: Path) -> Artifact:
    with _explained(path, "manifest", "remove its folder and run the recipe again"):
        value = json.loads(path.read_bytes())
        files = tuple(
            ArtifactFile(str(f["name"]), int(f["rows"]), int(f["bytes"])) for f in value["files"]
        )
        created = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
        return Artifact(
            stage=str(value["stage"]),
            fingerprint=str(value["fingerprint"]),
            folder=path.parent,
            parents={str(k): str(v) for k, v in value["parents"].items()},
            files=files,
            created=created.replace(tzinfo=None),
        )


def _read_run(path: Path) -> Run:
    with _explained(path, "run record", "remove its folder"):
        value = json.loads(path.read_bytes())
        stages = tuple(
            RunStage(str(s["stage"]), str(s["fingerprint"]), s) for s in value.get("stages", ())
        )
        return Run(
            run_id=str(value["run_id"]),
            status=str(value["status"]),
            started=_utc(value.get("started")),
            finished=_utc(value.get("finished")),
            stages=stages,
            record=value,
        )


class _explained:  # noqa: N801  # reads as a statement
    """Turn what goes wrong with a JSON file into a CatalogError that says what to do."""

    def __init__(self, path: Path, what: str, remedy: str) -> None:
        self._path, self._what, self._remedy = path, what, remedy

    def __enter__(self) -> None:
        """Enter the guarded block."""

    def __exit__(self, kind: type | None, error: BaseException | None, trace: Any) -> None:
        """Raise a CatalogError for errors of reading and parsing."""
        if isinstance(error, OSError | ValueError | KeyError | TypeError | AttributeError):
            raise CatalogError(
                f"{self._path}: not a {self._what} ({type(error).__name__}: {error}); {self._remedy}"
            ) from error


def _utc(text: str | None) -> datetime.datetime | None:
    """Return an ISO time as UTC without a zone."""
    if text is None:
        return None
    time = datetime.datetime.fromisoformat(text)
    return time.astimezone(datetime.UTC).replace(tzinfo=None) if time.tzinfo else time

"""Removing artifacts that no kept run needs."""

import contextlib
import datetime
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from catalog.ingest import rebuild
from catalog.store import CatalogError, QueryError
from catalog.workdir import Artifact, Run, read_artifacts, read_runs

_DOOMED = ".removed-"
"""Prefix of an artifact's folder while it is being removed."""


@dataclass(frozen=True, slots=True)
class Collectable:
    """One artifact, or what is left of one, that no kept run needs.

    Or a file that a killed run left half written in an artifact that stays.
    """

    path: Path
    bytes: int
    """Disk space that goes free; files that an artifact shares with one that stays count nothing."""


def collectable(workdir: Path, keep_runs: int = 1) -> list[Collectable]:
    """Say what :func:`collect` would remove; changes nothing.

    Kept are the artifacts of the newest ``keep_runs`` runs that ended well, with all artifacts
    these were made from, and whatever a run that came after them left behind, for its restart:
    artifacts of failed runs, and unfinished ones.

    Args:
        workdir: work directory.
        keep_runs: how many runs stay complete, at least 1.

    Returns:
        Folders in order of their names, then files.

    Raises:
        CatalogError: no run ended well, or a record is damaged.
        QueryError: ``keep_runs`` is below 1.
    """
    if keep_runs < 1:
        raise QueryError(f"keep_runs is {keep_runs}; at least 1 run stays")
    workdir = workdir.absolute()
    runs = read_runs(workdir)
    ended = [run for run in runs if run.status == "ok"]
    if not ended:
        raise CatalogError(
            f"{workdir}: no run ended well, so nothing is known to be superfluous; run a recipe first"
        )
    later = [run for run in runs if run.order > ended[-1].order]
    artifacts = read_artifacts(workdir)
    needed = _needed([*ended[-keep_runs:], *later], artifacts)
    stays = {artifacts[fingerprint].folder for fingerprint in needed if fingerprint in artifacts}
    folders = [
        folder
        for folder in sorted((workdir / "artifacts").iterdir())
        if folder.is_dir() and folder not in stays and not _resumable(folder, ended[-1])
    ]
    # Nothing is written into a committed artifact, and no run goes on while this one holds the lock.
    left = [
        Collectable(file, file.stat().st_size)
        for folder in sorted(stays)
        if (folder / "manifest.json").exists()
        for file in sorted(folder.glob(".*.tmp"))
    ]
    return [*_sized(folders), *left]


def collect(workdir: Path, keep_runs: int = 1) -> list[Collectable]:
    """Remove the artifacts that no kept run needs, and publish the catalog without them.

    First the manifests go, so that nothing half removed is taken for an artifact; then the catalog
    is rebuilt, so that no new reader is sent to files that vanish; then the files go.

    Returns:
        What was removed.

    Raises:
        CatalogError: a run holds the work directory, or see :func:`collectable`.
    """
    workdir = workdir.absolute()
    with _locked(workdir):
        doomed = collectable(workdir, keep_runs)
        for entry in doomed:
            if entry.path.is_file():
                entry.path.unlink()
        folders = [_uncommit(entry.path) for entry in doomed if entry.path.exists()]
        if folders:
            rebuild(workdir)
        for folder in folders:
            shutil.rmtree(folder)
    return doomed


def _needed(runs: Sequence[Run], artifacts: Mapping[str, Artifact]) -> set[str]:
    """Return the fingerprints of the runs' artifacts and of everything they were made from."""
    waiting = [stage.fingerprint for run in runs for stage in run.stages]
    needed: set[str] = set()
    while waiting:
        fingerprint = waiting.pop()
        if fingerprint not in needed:
            needed.add(fingerprint)
            if fingerprint in artifacts:
                waiting.extend(artifacts[fingerprint].parents.values())
    return needed


def _resumable(folder: Path, newest: Run) -> bool:
    """Whether a folder was written to after the newest good run: a restarted run goes on from it."""
    if folder.name.startswith(_DOOMED) or newest.finished is None:
        return False
    touched = max(p.stat().st_mtime for p in (folder, *folder.glob("receipts"), *folder.glob("*")))
    return touched > newest.finished.replace(tzinfo=datetime.UTC).timestamp()


def _sized(folders: Sequence[Path]) -> list[Collectable]:
    """Add up what each folder's removal frees; a file linked from elsewhere stays on the disk."""
    links: dict[tuple[int, int], int] = {}
    sized = []
    for folder in folders:
        freed = 0
        for path in folder.rglob("*"):
            info = path.lstat()
            inode = (info.st_dev, info.st_ino)
            links[inode] = links.get(inode, 0) + 1
            if path.is_file() and links[inode] == info.st_nlink:
                freed += info.st_size
        sized.append(Collectable(folder, freed))
    return sized


def _uncommit(folder: Path) -> Path:
    """Take away the manifest, then the name; return the folder under its new name."""
    (folder / "manifest.json").unlink(missing_ok=True)
    if folder.name.startswith(_DOOMED):
        return folder
    return folder.rename(folder.with_name(_DOOMED + folder.name))


@contextlib.contextmanager
def _locked(workdir: Path) -> Iterator[None]:
    """Hold the work directory as a run does."""
    try:
        handle = os.open(workdir / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise CatalogError(f"{workdir}: cannot be written ({error.strerror})") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CatalogError(
                f"{workdir}: a run holds this work directory; remove artifacts when it has ended"
            ) from error
        yield
    finally:
        os.close(handle)

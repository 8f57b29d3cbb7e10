"""Checks of the installation: what would otherwise fail in the middle of a run, or silently."""

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipelines.progress import size

PACKAGES = ("catalog", "packing", "pipelines", "trainer", "transforms")
DISTRIBUTION = "drystone"
MIN_FREE_BYTES = 5 * 1024**3

Status = Literal["ok", "note", "failed"]


class InstallationError(RuntimeError):
    """The installation cannot be trusted; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check."""

    name: str
    status: Status
    """``note`` is a fact that only some uses need; ``failed`` must be repaired."""
    detail: str


def check_installation() -> None:
    """Refuse an installation whose packages are mixed with another distribution's.

    Raises:
        InstallationError: another distribution owns one of the five package names, or they are
            imported from more than one folder.
    """
    failed = [check for check in (_owners(), _one_folder()) if check.status == "failed"]
    if failed:
        raise InstallationError("\n".join(check.detail for check in failed))


def examine(workdir: Path) -> list[Check]:
    """Run every check.

    Args:
        workdir: a folder of the file system that work directories live on.
    """
    checks: Sequence[Callable[[], Check]] = (
        _owners,
        _one_folder,
        _python,
        _dependencies,
        _kernel_cache,
        lambda: _disk(workdir),
        _machine,
        _torch,
        _flink_tools,
    )
    return [check() for check in checks]


def _owners(owners: Mapping[str, Sequence[str]] | None = None) -> Check:
    """Look for other distributions that installed a package of one of the five names."""
    if owners is None:
        owners = _installed_owners()
    others = {
        name: sorted({owner for owner in owners.get(name, ()) if owner != DISTRIBUTION})
        for name in PACKAGES
    }
    taken = [f"{name} (also of {', '.join(found)})" for name, found in others.items() if found]
    if taken:
        return Check(
            "package names",
            "failed",
            f"other installed distributions own packages of drystone: {'; '.join(taken)}; one has "
            "overwritten the other. Install drystone in a virtual environment of its own",
        )
    return Check("package names", "ok", "no other distribution owns one of the five packages")


def _installed_owners() -> dict[str, list[str]]:
    """Return which distributions installed something below each of the five package names.

    What :func:`importlib.metadata.packages_distributions` says of them, without parsing the metadata
    of everything that is installed, which takes half a second.
    """
    owners: dict[str, list[str]] = {name: [] for name in PACKAGES}
    for distribution in importlib.metadata.distributions():
        declared = distribution.read_text("top_level.txt")
        if declared:
            found = set(declared.split())
        else:
            # RECORD quotes a path that holds a comma; no path below these names begins with a quote.
            record = distribution.read_text("RECORD") or ""
            found = {name for name in PACKAGES if f"\n{name}/" in f"\n{record}"}
        for name in found.intersection(PACKAGES):
            owners[name].append(distribution.metadata["Name"])
    return owners


def _one_folder(locations: Mapping[str, Path] | None = None) -> Check:
    """Look whether the five packages are imported from one folder."""
    if locations is None:
        locations = package_folders()
    missing = [name for name in PACKAGES if name not in locations]
    if missing:
        return Check(
            "package folder",
            "failed",
            f"packages not found: {', '.join(missing)}; install drystone again",
        )
    parents = sorted({str(folder.parent) for folder in locations.values()})
    if len(parents) > 1:
        found = "; ".join(f"{name} in {locations[name].parent}" for name in PACKAGES)
        return Check(
            "package folder",
            "failed",
            f"the five packages come from different folders: {found}. Uninstall what owns the "
            "others, or use a virtual environment for drystone alone",
        )
    return Check("package folder", "ok", parents[0])


def package_folders() -> dict[str, Path]:
    """Return where Python has, or would find, each of the five packages; imports none of them."""
    folders = {}
    for name in PACKAGES:
        # A package that is there already may know better than what it was found by.
        found = getattr(sys.modules.get(name), "__path__", None)
        if found is None:
            spec = importlib.util.find_spec(name)
            found = None if spec is None else spec.submodule_search_locations
        if found:
            folders[name] = Path(next(iter(found))).resolve()
    return folders


def _python() -> Check:
    return Check("Python", "ok", f"{platform.python_version()}, {sys.executable}")


def _dependencies(requirements: Sequence[str] | None = None) -> Check:
    """Compare the installed versions with those that drystone asks for."""
    if requirements is None:
        try:
            requirements = importlib.metadata.requires(DISTRIBUTION) or []
        except importlib.metadata.PackageNotFoundError:
            return Check(
                "dependencies", "note", "drystone is not installed (run from its sources?)"
            )
    from packaging.requirements import Requirement

    wrong, shown = [], []
    for requirement in map(Requirement, requirements):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            wrong.append(f"{requirement} is missing")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement.name} {version} (needs {requirement.specifier})")
        if requirement.name in ("apache-beam", "duckdb", "numpy", "pyarrow"):
            shown.append(f"{requirement.name} {version}")
    if wrong:
        return Check(
            "dependencies",
            "failed",
            f"{'; '.join(wrong)}; install drystone again with its constraints.txt",
        )
    return Check("dependencies", "ok", ", ".join(shown))


def _kernel_cache() -> Check:
    """Look whether compiled kernels can be kept, as numba looks for a place."""
    own = os.environ.get("NUMBA_CACHE_DIR")
    beside = [folder / "__pycache__" for folder in package_folders().values()]
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    if own:
        candidates = {own: [Path(own)]}
    else:
        candidates = {"beside the packages": beside, str(home / "numba"): [home / "numba"]}
    for name, places in candidates.items():
        if all(_writable(place) for place in places):
            return Check("kernel cache", "ok", name)
    return Check(
        "kernel cache",
        "failed",
        "compiled kernels cannot be kept, and every process would compile them anew; set "
        "NUMBA_CACHE_DIR to a writable folder",
    )


def _writable(folder: Path) -> bool:
    """Say whether files can be made in a folder, which may not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _disk(workdir: Path) -> Check:
    folder = workdir.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    detail = f"{size(free)} free at {folder}"
    if free < MIN_FREE_BYTES:
        return Check("disk", "note", f"{detail}; `drystone plan RECIPE` says how much a run needs")
    return Check("disk", "ok", detail)


def _machine() -> Check:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Check("machine", "ok", f"{os.cpu_count()} CPUs, {size(memory)} memory")


def _torch() -> Check:
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return Check(
            "torch",
            "note",
            "absent; only `drystone train` needs it: pip install 'drystone[train]'",
        )
    return Check("torch", "ok", version)


def _flink_tools() -> Check:
    missing = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if missing:
        return Check(
            "Flink", "note", f"{' and '.join(missing)} not found; only scripts/flink needs them"
        )
    return Check("Flink", "ok", "java and mvn found")

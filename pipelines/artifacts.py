"""Artifacts: directories named by a fingerprint and committed by writing their manifest last.

``workdir/artifacts/<stage>-<first 12 of fingerprint>/`` holds Parquet files, ``receipts/`` with one
JSON file per finished task, and ``manifest.json``. Without a manifest an artifact is unfinished,
and its receipts are what a restarted run goes on from. A task's fingerprint names its inputs and
settings, so a finished task of any artifact of the same stage serves every other one: its files
are hard-linked (copied where links fail).
"""

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT_VERSION = 1


class StorageError(RuntimeError):
    """The work directory cannot be used: locked, damaged or not writable."""


def fingerprint(**fields: Any) -> str:
    """Return the sha256 (hex) of the fields in canonical JSON."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees either nothing or all of it."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    temporary.write_bytes(content)
    temporary.replace(path)


def file_sha256(path: Path) -> str:
    """Return the sha256 (hex) of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of an artifact: what a manifest says of it."""

    name: str
    rows: int
    bytes: int
    sha256: str
    task: str = ""
    """Fingerprint of the task that wrote the file."""
    kind: str = "data"
    """What the file holds, e.g. ``data``, ``rejects``, ``ids``."""

    @classmethod
    def of(
        cls, path: Path, *, rows: int, task: str = "", kind: str = "data", name: str = ""
    ) -> "FileEntry":
        """Describe a finished file by its bytes; ``name`` where it lies in a folder below."""
        size, digest = path.stat().st_size, file_sha256(path)
        return cls(name or path.name, rows, size, digest, task, kind)


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a task is finished: its files, counters and cost."""

    task: str
    files: tuple[FileEntry, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    base: str = ""
    """Fingerprint of what the task's work mostly depends on; another task of the same base can
    lend most of its output (documents already encoded, say)."""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    detail: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the receipt as plain JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Receipt":
        """Restore a receipt from :meth:`to_json`."""
        files = tuple(FileEntry(**entry) for entry in value["files"])
        return cls(**{**value, "files": files})


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a committed artifact is and holds; its last-written file."""

    stage: str
    fingerprint: str
    parents: Mapping[str, str]
    config: Mapping[str, Any]
    files: tuple[FileEntry, ...]
    counters: Mapping[str, int]
    versions: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT_VERSION

    def entries(self, kind: str = "data") -> list[FileEntry]:
        """Return the files of one kind, by name."""
        return [entry for entry in self.files if entry.kind == kind]

    @property
    def bytes(self) -> int:
        """Size of the artifact's files on disk, in bytes."""
        return sum(entry.bytes for entry in self.files)

    @classmethod
    def load(cls, path: Path) -> "Manifest":
        """Read ``manifest.json``.

        Raises:
            StorageError: the file is not a manifest of this format.
        """
        try:
            value = json.loads(path.read_bytes())
            files = tuple(FileEntry(**entry) for entry in value.pop("files"))
            return cls(files=files, **value)
        except (ValueError, TypeError, KeyError) as error:
            raise StorageError(
                f"{path}: not a manifest ({error}); remove its folder and run again"
            ) from error


class Workdir:
    """A work directory: its artifacts, runs, scratch space and lock."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).absolute()

    @property
    def artifacts(self) -> Path:
        """Folder of all artifacts."""
        return self.path / "artifacts"

    @property
    def scratch(self) -> Path:
        """Folder for files that live only while a run does."""
        return self.path / "scratch"

    def folder(self, stage: str, fingerprint: str) -> Path:
        """Return the folder of an artifact, committed or not."""
        return self.artifacts / f"{stage}-{fingerprint[:12]}"

    def committed(self, stage: str, fingerprint: str) -> Manifest | None:
        """Return the manifest of a committed artifact, or None.

        Raises:
            StorageError: the folder belongs to another fingerprint with the same first 12 digits,
                or a file it lists is missing or has another size.
        """
        folder = self.folder(stage, fingerprint)
        path = folder / "manifest.json"
        if not path.exists():
            return None
        manifest = Manifest.load(path)
        if manifest.fingerprint != fingerprint:
            raise StorageError(
                f"{folder}: belongs to fingerprint {manifest.fingerprint}; remove it"
            )
        for entry in manifest.files:
            file = folder / entry.name
            if _size(file) != entry.bytes:
                raise StorageError(
                    f"{file}: missing or of another size than the manifest says ({entry.bytes} "
                    f"bytes); remove {folder} and run again"
                )
        return manifest

    def manifest(self, stage: str, fingerprint: str) -> Manifest | None:
        """Return the manifest of an artifact that this run found committed, or committed itself.

        Tasks ask for it again and again: it is read once, and the files are not looked at.
        """
        path = self.folder(stage, fingerprint) / "manifest.json"
        try:
            state = path.stat()
        except FileNotFoundError:
            return None
        return _loaded(str(path), state.st_mtime_ns, state.st_ino)

    def finished_tasks(self, stage: str) -> dict[str, tuple[Path, Receipt]]:
        """Return every finished task of a stage by fingerprint, whatever artifact holds it."""
        found: dict[str, tuple[Path, Receipt]] = {}
        for folder in sorted(self.artifacts.glob(f"{stage}-????????????")):
            for path in sorted((folder / "receipts").glob("*.json")):
                receipt = Receipt.from_json(json.loads(path.read_bytes()))
                if all(_size(folder / entry.name) == entry.bytes for entry in receipt.files):
                    found.setdefault(receipt.task, (folder, receipt))
        return found

    def adopt(self, folder: Path, origin: Path, receipt: Receipt) -> None:
        """Take over a finished task's files from another artifact of the stage."""
        if origin == folder:
            return
        for entry in receipt.files:
            link_or_copy(origin / entry.name, folder / entry.name)
        write_receipt(folder, receipt)

    def commit(self, manifest: Manifest) -> None:
        """Write the manifest: from here on the artifact exists."""
        folder = self.folder(manifest.stage, manifest.fingerprint)
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(manifest), indent=1, sort_keys=True, ensure_ascii=False)
        write_atomically(folder / "manifest.json", text.encode() + b"\n")

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the work directory for one run; the kernel releases the lock with the process.

        Raises:
            StorageError: another process holds it, or the folder cannot be written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        except OSError as error:
            raise StorageError(f"{self.path}: cannot be written ({error.strerror})") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise StorageError(
                f"{self.path}: another run holds this work directory; wait for it or choose "
                "another workdir"
            ) from error
        try:
            yield
        finally:
            os.close(handle)


@functools.lru_cache(maxsize=32)
def _loaded(path: str, mtime_ns: int, inode: int) -> Manifest:
    return Manifest.load(Path(path))


def _size(path: Path) -> int | None:
    """Return the size of a file, None where there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def write_receipt(folder: Path, receipt: Receipt) -> None:
    """Record a finished task beside its files."""
    (folder / "receipts").mkdir(parents=True, exist_ok=True)
    content = json.dumps(receipt.to_json(), sort_keys=True).encode()
    write_atomically(folder / "receipts" / f"{receipt.task}.json", content)


def link_or_copy(origin: Path, target: Path) -> None:
    """Hard-link a file, or copy it where the file system has no links; atomic either way."""
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    temporary.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(origin, temporary)
    except OSError:
        shutil.copyfile(origin, temporary)
    temporary.replace(target)

"""Where shards lie: local folders, any pyarrow file system, and a bounded local copy of the latter.

Imports pyarrow and the standard library alone, so that it can be vendored with the reader.
"""

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyarrow import fs

from packing.format import DatasetFile, ShardError, stream_sha256


def resolve(dataset: str | os.PathLike[str], filesystem: fs.FileSystem | None) -> tuple[str, Any]:
    """Return (path, file system) of a dataset given as a path or as a URI such as ``s3://…``.

    Raises:
        ShardError: the URI's scheme is not one that pyarrow knows.
    """
    path = os.fspath(dataset)
    if filesystem is not None:
        return path.rstrip("/"), filesystem
    if "://" not in path:
        return str(Path(path).absolute()), fs.LocalFileSystem()
    try:
        found, location = fs.FileSystem.from_uri(path)
    except (OSError, ValueError) as error:
        raise ShardError(
            f"{path}: not a location pyarrow can open ({error}); give a local folder, or pass "
            "filesystem="
        ) from error
    return location.rstrip("/"), found


class ShardFolder:
    """The files of one dataset, opened where they are or from a local copy.

    A remote file is copied whole into ``cache_dir`` when it is first opened, and its sha256 is
    compared with the manifest's; :meth:`prefetch` copies one ahead in the background. Files used
    longest ago are removed when the folder holds more than ``cache_bytes``. Processes may share a
    cache folder. Without ``cache_dir`` a remote file is read by ranges.
    """

    def __init__(
        self, path: str, filesystem: fs.FileSystem, cache_dir: str | None, cache_bytes: int
    ) -> None:
        self.path = path
        self.filesystem = filesystem
        self.local = isinstance(filesystem, fs.LocalFileSystem)
        self._cache = None if cache_dir is None or self.local else Path(cache_dir)
        self._cache_bytes = cache_bytes
        self._copies: dict[str, Future[Path]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, "shard-copy") if self._cache else None

    def open(self, entry: DatasetFile, fingerprint: str) -> Any:
        """Open a file for random access (a pyarrow NativeFile).

        Raises:
            ShardError: the file is missing, or its copy does not have the manifest's sha256.
        """
        where = f"{self.path}/{entry.name}"
        try:
            if self._cache is None:
                return self.filesystem.open_input_file(where)
            while True:
                copy = self._copy_soon(entry, fingerprint).result()
                with contextlib.suppress(FileNotFoundError):
                    os.utime(copy)
                    return fs.LocalFileSystem().open_input_file(str(copy))
                # Another process made room in the shared cache between copy and open.
                self._forget(entry)
        except FileNotFoundError as error:
            raise ShardError(f"{where}: missing, but listed in the manifest; restore it") from error

    def prefetch(self, entry: DatasetFile, fingerprint: str) -> None:
        """Begin to copy a remote file in the background; nothing happens without a cache."""
        if self._cache is not None:
            self._copy_soon(entry, fingerprint)

    def close(self) -> None:
        """Stop copying; what was copied stays in the cache for the next reader."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def _copy_soon(self, entry: DatasetFile, fingerprint: str) -> "Future[Path]":
        with self._lock:
            copy = self._copies.get(entry.name)
            if copy is None or (copy.done() and copy.exception() is not None):
                if self._pool is None:
                    raise ShardError("the reader is closed; open it again")
                copy = self._pool.submit(self._copy, entry, fingerprint)
                self._copies[entry.name] = copy
            return copy

    def _forget(self, entry: DatasetFile) -> None:
        with self._lock:
            self._copies.pop(entry.name, None)

    def _copy(self, entry: DatasetFile, fingerprint: str) -> Path:
        """Copy one file into the cache unless it is there, and return its path."""
        if self._cache is None:
            raise ShardError("the reader has no cache folder")
        folder = self._cache / fingerprint[:16]
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / entry.name
        with _locked(folder / f".{entry.name}.lock"):
            found = target.exists() and target.stat().st_size == entry.bytes
            self._make_room(0 if found else entry.bytes, keep=target)
            if not found:
                temporary = folder / f".{entry.name}.{os.getpid()}.tmp"
                fs.copy_files(
                    f"{self.path}/{entry.name}",
                    str(temporary),
                    source_filesystem=self.filesystem,
                    destination_filesystem=fs.LocalFileSystem(),
                )
                digest = stream_sha256(str(temporary))
                if digest != entry.sha256:
                    temporary.unlink()
                    raise ShardError(
                        f"{self.path}/{entry.name}: sha256 of the copy is {digest[:12]}…, the "
                        f"manifest says {entry.sha256[:12]}…; restore the file"
                    )
                temporary.replace(target)
        return target

    def _make_room(self, needed: int, keep: Path) -> None:
        """Remove the files used longest ago until ``needed`` more bytes fit."""
        if self._cache is None:
            return
        held = []
        for path in self._cache.glob("*/rows-*.parquet"):
            with contextlib.suppress(FileNotFoundError):
                status = path.stat()
                held.append((status.st_mtime_ns, path, status.st_size))
        total = needed + sum(size for _, _, size in held)
        for _, path, size in sorted(held):
            if total <= self._cache_bytes:
                break
            if path != keep:
                path.unlink(missing_ok=True)
                total -= size
                with self._lock:
                    self._copies.pop(path.name, None)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file's lock, so that processes that share a cache copy a file once."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)

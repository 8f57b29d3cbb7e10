"""Errors on workers, kept for the driver: a runner hands on only a string."""

import contextlib
import importlib
import json
import traceback
from collections.abc import Iterator
from pathlib import Path

from pipelines.artifacts import Manifest, StorageError, Workdir, file_sha256, write_atomically
from transforms.record import RecordError


class CheckError(RuntimeError):
    """What was asked for cannot be had, and the recipe says that nothing less will do."""


class EngineError(RuntimeError):
    """The runner failed, or code that it ran did in a way nobody foresaw."""


def failure_path(store: Workdir) -> Path:
    """Return where the first failure of the current run is kept."""
    return store.path / "scratch" / "failure.json"


@contextlib.contextmanager
def failures_recorded(store: Workdir) -> Iterator[None]:
    """Keep the type and text of the first error inside the block; the error itself goes on."""
    try:
        yield
    except Exception as error:
        path = failure_path(store)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            text = {
                "module": type(error).__module__,
                "type": type(error).__name__,
                "message": str(error),
                "traceback": "".join(traceback.format_exception(error)),
            }
            write_atomically(path, json.dumps(text).encode())
        raise


def refuse_damaged(store: Workdir) -> None:
    """Look for the file that a task could not read: Arrow's errors do not name it.

    Raises:
        StorageError: a file of a committed artifact is not what its manifest says.
    """
    for path in sorted(store.artifacts.glob("*/manifest.json")):
        for entry in Manifest.load(path).files:
            file = path.parent / entry.name
            if not file.exists() or file_sha256(file) != entry.sha256:
                raise StorageError(
                    f"{file}: damaged, its sha256 is not that of the manifest; remove it and {path} "
                    "and run again: what made it is done again, the rest is kept"
                )


def raise_recorded(store: Workdir, cause: BaseException) -> None:
    """Raise the error that a worker left, as its own type where that is one of Drystone's.

    Raises:
        CheckError, RecordError, ShardError, StorageError: as on the worker.
        StorageError: an artifact is damaged.
        EngineError: for everything else.
    """
    path = failure_path(store)
    if not path.exists():
        raise EngineError(f"the runner failed: {cause}") from cause
    failure = json.loads(path.read_bytes())
    known: dict[tuple[str, str], type[Exception]] = {
        ("pipelines.artifacts", "StorageError"): StorageError,
        ("pipelines.failures", "CheckError"): CheckError,
    }
    if failure["module"] == "pyarrow.lib" or failure["type"] == "OSError":
        refuse_damaged(store)
    known["transforms.record", "RecordError"] = RecordError
    known["transforms.tokenize.encoder", "SpecialTokenError"] = RecordError
    if (failure["module"], failure["type"]) == ("packing.format", "ShardError"):
        known["packing.format", "ShardError"] = importlib.import_module("packing.format").ShardError
    kind = known.get((failure["module"], failure["type"]))
    if kind is not None:
        raise kind(failure["message"]) from cause
    raise EngineError(f"{failure['type']}: {failure['message']}\n{failure['traceback']}") from cause

"""Writing checkpoints: a copy is made between two steps, a thread writes it beside the next ones.

Every rank writes its files into ``.checkpoint-<step>.tmp`` and then says so in ``rank-<n>.json``
there; the first one waits for all of these, writes ``state.json`` and renames the folder. The ranks
share the file system, and nothing goes over their network.
"""

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trainer.pieces import Piece, share
from trainer.stopping import StorageError

FORMAT_VERSION = 2
STATE_FILE = "state.json"

PATIENCE_S = 1800.0
"""Seconds that the first rank waits for the files of the others."""


def part_name(kind: str, rank: int, world: int) -> str:
    """Return the name of a rank's file."""
    return f"{kind}.pt" if world == 1 else f"{kind}-{rank}-of-{world}.pt"


class Saver:
    """Writes the checkpoints of a run.

    Args:
        out: folder of the run, the same one on all ranks.
        rank: this rank.
        world: number of ranks.
        keep: checkpoints kept.
        background: write beside the training; otherwise a save ends when it is written.
    """

    def __init__(self, out: Path, rank: int, world: int, *, keep: int, background: bool) -> None:
        self.out, self.rank, self.world, self.keep = out, rank, world, keep
        self.background = background
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._done: list[int] = []

    def clear(self) -> None:
        """Remove what a killed run left half-written; only the first rank, before any saves."""
        for path in self.out.glob(".checkpoint-*.tmp"):
            shutil.rmtree(path, ignore_errors=True)

    def save(
        self, step: int, state: Mapping[str, Mapping[str, Piece]], facts: Mapping[str, Any]
    ) -> None:
        """Write ``out/checkpoint-<step>``, behind the one before it.

        Args:
            step: steps done.
            state: the tensors by file and name, which may change as soon as this returns.
            facts: what ``state.json`` holds beside them.

        Raises:
            StorageError: this or the one before could not be written.
        """
        self.wait()
        mine = {kind: share(pieces, self.rank, self.world) for kind, pieces in state.items()}
        copies = {
            kind: {name: self._host_copy(piece.tensor) for name, piece in pieces.items()}
            for kind, pieces in mine.items()
        }
        places = {
            name: {
                "shape": list(piece.shape),
                "file": part_name(kind, self.rank, self.world),
                "first": piece.first,
                "rows": len(piece.tensor) if piece.shape else 1,
            }
            for kind, pieces in mine.items()
            for name, piece in pieces.items()
        }
        random: dict[str, Any] = {"cpu": torch.get_rng_state()}
        if torch.cuda.is_available():
            random["cuda"] = torch.cuda.get_rng_state_all()
        contents = {**copies, "random": random}
        if not self.background:
            self._write(step, contents, places, facts)
            return
        self._thread = threading.Thread(
            target=self._guarded, args=(step, contents, places, facts), name="checkpoint"
        )
        self._thread.start()

    def finished(self) -> list[int]:
        """Return the checkpoints that were completed since this was asked last.

        Raises:
            StorageError: one could not be written.
        """
        if self._error is not None:
            error, self._error = self._error, None
            raise StorageError(
                f"{self.out}: a checkpoint could not be written ({error}); make room, or give "
                "another folder as out"
            ) from error
        done, self._done = self._done, []
        return done

    def wait(self) -> None:
        """Go on when nothing is being written.

        Raises:
            StorageError: one could not be written.
        """
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            self.finished()

    def _host_copy(self, tensor: Tensor) -> Tensor:
        if not self.background and tensor.device.type == "cpu":
            return tensor
        return torch.empty_like(tensor, device="cpu").copy_(tensor)

    def _guarded(self, *what: Any) -> None:
        try:
            self._write(*what)
        except BaseException as error:  # noqa: BLE001 - told by the next call of the main thread
            self._error = error

    def _write(
        self,
        step: int,
        contents: Mapping[str, Any],
        places: Mapping[str, Any],
        facts: Mapping[str, Any],
    ) -> None:
        folder = self.out / f".checkpoint-{step}.tmp"
        folder.mkdir(parents=True, exist_ok=True)
        files = {}
        for kind, content in contents.items():
            path = folder / part_name(kind, self.rank, self.world)
            torch.save(content, path)
            files[path.name] = {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
            flush(path)
        told = {"files": files, "tensors": places}
        if self.rank != 0:
            _write_json(folder / f"rank-{self.rank}.json", told)
            self._done.append(step)
            return
        self._commit(step, folder, [told, *self._others(folder)], facts)
        self._done.append(step)

    def _others(self, folder: Path) -> list[Any]:
        """Return what the other ranks wrote, when all have."""
        found, end = [], time.monotonic() + PATIENCE_S
        for rank in range(1, self.world):
            path = folder / f"rank-{rank}.json"
            while not path.exists():
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"rank {rank} wrote no {path} in {PATIENCE_S:.0f} s; is out the same "
                        "folder on all ranks?"
                    )
                time.sleep(0.01)
            found.append(json.loads(path.read_bytes()))
            path.unlink()
        return found

    def _commit(self, step: int, folder: Path, parts: list[Any], facts: Mapping[str, Any]) -> None:
        tensors: dict[str, Any] = {}
        for part in parts:
            for name, place in part["tensors"].items():
                entry = tensors.setdefault(name, {"shape": place["shape"], "pieces": []})
                entry["pieces"].append([place["file"], place["first"], place["rows"]])
        state = {
            "format": FORMAT_VERSION,
            "step": step,
            "world": self.world,
            **facts,
            "torch": torch.__version__,
            "files": {name: entry for part in parts for name, entry in part["files"].items()},
            "tensors": tensors,
        }
        _write_json(folder / STATE_FILE, state)
        flush(folder)
        target = self.out / f"checkpoint-{step}"
        _put_aside(target)
        folder.rename(target)
        flush(self.out)
        prune(self.out, step, self.keep)


def prune(out: Path, newest: int, keep: int) -> None:
    """Remove all but so many checkpoints, and those above the newest, which were passed over."""
    paths = {int(path.name.partition("-")[2]): path for path in folders(out)}
    kept = sorted(step for step in paths if step <= newest)[-keep:]
    for step, path in paths.items():
        if step not in kept:
            _put_aside(path)


def folders(out: Path) -> list[Path]:
    """Return the checkpoints of a run, complete or not, the newest last."""
    found = [p for p in out.glob("checkpoint-*") if p.name.partition("-")[2].isdecimal()]
    return sorted(found, key=lambda path: int(path.name.partition("-")[2]))


def _put_aside(path: Path) -> None:
    """Remove a checkpoint; under another name first, since half of one must not pass for one."""
    doomed = path.with_name(f".{path.name}.old.tmp")
    shutil.rmtree(doomed, ignore_errors=True)
    if path.exists():
        path.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    flush(hidden)
    hidden.rename(path)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def flush(path: Path) -> None:
    """Flush a file or folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

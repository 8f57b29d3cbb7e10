"""What a run must not lose, as named tensors of which every rank holds a part of the rows.

A weight that is sharded (FSDP2) lies in pieces on all ranks; one that every rank has whole is
saved by one of them, so that each writes about as much. What was saved by any number of ranks is
put together again for any other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a tensor."""

    tensor: Tensor
    """The rows that this rank has, or the whole tensor where it has no dimension."""
    shape: tuple[int, ...]
    """Of the whole tensor."""
    first: int
    """Number of the first row."""
    is_whole: bool
    """Whether every rank has all of it."""


def piece_of(tensor: Tensor) -> Piece:
    """Return what this rank has of a tensor."""
    if not isinstance(tensor, DTensor):
        return Piece(tensor.detach(), tuple(tensor.shape), 0, True)
    mesh = tensor.device_mesh
    # As torch.chunk deals rows: equal parts, the last ones short or empty.
    part = -(-tensor.shape[0] // mesh.size())
    first = min(mesh.get_local_rank() * part, tensor.shape[0])
    return Piece(tensor.to_local().detach(), tuple(tensor.shape), first, False)


def training_state(
    model: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, dict[str, Piece]]:
    """Return the tensors of a run by file (model, optimizer) and name."""
    weights = dict(model.named_parameters())
    moments = {
        f"{name}/{key}": value
        for name, weight in weights.items()
        for key, value in optimizer.state.get(weight, {}).items()
    }
    parts: dict[str, Mapping[str, Tensor]] = {"model": weights, "optimizer": moments}
    return {file: {n: piece_of(t) for n, t in found.items()} for file, found in parts.items()}


def share(pieces: Mapping[str, Piece], rank: int, world: int) -> dict[str, Piece]:
    """Return the pieces that a rank saves: its own, and some of those that every rank has."""
    load = [0] * world
    whole = [(p.tensor.nbytes, name) for name, p in pieces.items() if p.is_whole]
    mine = {name for name, p in pieces.items() if not p.is_whole and p.tensor.numel()}
    for nbytes, name in sorted(whole, key=lambda pair: (-pair[0], pair[1])):
        least = load.index(min(load))
        load[least] += nbytes
        if least == rank:
            mine.add(name)
    return {name: piece for name, piece in pieces.items() if name in mine}


@dataclass(frozen=True, slots=True)
class Saved:
    """Where the rows of one saved tensor lie."""

    shape: tuple[int, ...]
    places: tuple[tuple[str, int, int], ...]
    """File, first row and number of rows of each piece."""


def fill(target: Tensor, saved: Saved, files: Mapping[str, Mapping[str, Any]], name: str) -> None:
    """Copy a saved tensor, or the rows of it that this rank has, into a tensor.

    Raises:
        KeyError: rows are missing.
        ValueError: the shapes differ.
    """
    piece = piece_of(target)
    if piece.shape != saved.shape:
        raise ValueError(f"{name}: {list(saved.shape)} saved, {list(piece.shape)} here")
    if not piece.shape:
        ((file, _, _),) = saved.places
        piece.tensor.copy_(files[file][name])
        return
    stop, done = piece.first + len(piece.tensor), 0
    for file, first, rows in saved.places:
        begin, end = max(first, piece.first), min(first + rows, stop)
        if begin < end:
            source = files[file][name][begin - first : end - first]
            piece.tensor[begin - piece.first : end - piece.first].copy_(source)
            done += end - begin
    if done != len(piece.tensor):
        raise KeyError(f"{name}: rows are missing")


def restore_state(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    saved: Mapping[str, Saved],
    files: Mapping[str, Mapping[str, Any]],
) -> None:
    """Put saved tensors into a model and its optimizer.

    Args:
        model: of the run.
        optimizer: its optimizer, before any step.
        saved: where each tensor lies, by name.
        files: contents of the files.
    """
    keys: dict[str, list[str]] = {}
    for name in saved:
        owner, _, key = name.partition("/")
        if key:
            keys.setdefault(owner, []).append(key)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            fill(weight, saved[name], files, name)
            state = optimizer.state[weight]
            for key in keys.get(name, ()):
                state[key] = _like(weight, saved[f"{name}/{key}"], files, f"{name}/{key}")
                fill(state[key], saved[f"{name}/{key}"], files, f"{name}/{key}")
            if not state:
                del optimizer.state[weight]


def _like(
    weight: Tensor, saved: Saved, files: Mapping[str, Mapping[str, Any]], name: str
) -> Tensor:
    """Return an empty tensor for what belongs to a weight, dealt to ranks as that is."""
    dtype = next(iter(_contents(saved, files, name))).dtype
    if not saved.shape:
        return torch.empty((), dtype=dtype)
    return torch.empty_like(weight, dtype=dtype, requires_grad=False)


def _contents(saved: Saved, files: Mapping[str, Mapping[str, Any]], name: str) -> Iterator[Tensor]:
    for file, _, _ in saved.places:
        yield files[file][name]

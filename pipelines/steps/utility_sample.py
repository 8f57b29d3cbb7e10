"""The sample of the stage ``utility``: drawn, read, counted, and what its candidates do to the loss."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.corpus import Corpus
from pipelines.steps.columns import row_groups
from pipelines.steps.removed import kept_rows, removed_by_file
from pipelines.steps.utility_tables import codes, flat, lists, token_blocks
from transforms.proxy import Target, count, loss, target_of, utilities
from transforms.student import buckets_of, importance
from transforms.utility import Sample, UtilitySettings, draw_sample, windows

PER_TASK = 256
"""Candidates that one task measures."""


def draw(
    corpus: Corpus, settings: UtilitySettings, seed: int
) -> tuple[Sample, dict[str, npt.NDArray[np.int64]]] | None:
    """Draw the sample; return it, and which of its documents each ingest file has."""
    removed = removed_by_file(corpus)
    uids, strata, files = [], [], []
    for entry, path in corpus.documents():
        for group in row_groups(path, ("doc_uid", "reason", "source", "domain")):
            kept = group.filter(kept_rows(group, removed.get(entry.name)))
            uids.append(kept["doc_uid"].to_numpy())
            strata.append(pc.binary_join_element_wise(kept["source"], kept["domain"], "\0"))
            files.append((str(path), uids[-1]))
    if not uids:
        return None
    uid = np.concatenate(uids)
    drawn = draw_sample(uid, codes(strata), settings, seed)
    wanted = np.union1d(drawn.candidates, drawn.reference)
    by_path: dict[str, list[npt.NDArray[np.int64]]] = {}
    for path_, members in files:
        by_path.setdefault(path_, []).append(np.intersect1d(members, wanted))
    return drawn, {path: np.concatenate(parts) for path, parts in by_path.items()}


def sample_file(path: str, wanted: npt.NDArray[np.int64], drawn: Sample, seed: int) -> pa.Table:
    """Return the tokens of some documents of an ingest file: doc_uid, candidate, tokens."""
    uids, sizes, values = [], [], []
    for group in row_groups(Path(path), ("doc_uid", "text")):
        taken = group.filter(pc.is_in(group["doc_uid"], pa.array(wanted)))
        for uid, offsets, tokens in token_blocks(taken):
            bounds, cut = windows(uid, offsets, tokens, seed)
            uids.append(uid)
            sizes.append(np.diff(bounds))
            values.append(cut)
    uid = np.concatenate(uids)
    return pa.table(
        {
            "doc_uid": uid,
            "candidate": np.isin(uid, drawn.candidates),
            "tokens": lists(np.concatenate(sizes), np.concatenate(values)),
        }
    )


@dataclass(frozen=True, slots=True)
class CountedSample:
    """What :func:`count_sample` found."""

    candidates: int
    reference_tokens: int
    bits: float
    """Loss of the model on the target."""


def count_sample(folder: Path, parts: Sequence[pa.Table], text: Any) -> CountedSample:
    """Count the sample's reference; write the model and the candidates.

    Args:
        folder: gets ``model.npz`` and ``candidates.parquet``.
        parts: tables of :func:`sample_file`.
        text: tokens of the target, as ``read_target`` gives them.
    """
    empty = pa.table(
        {
            "doc_uid": pa.array([], pa.int64()),
            "candidate": pa.array([], pa.bool_()),
            "tokens": pa.array([], pa.large_list(pa.uint64())),
        }
    )
    table = pa.concat_tables([empty, *parts])
    table = table.sort_by("doc_uid")
    chosen = table.filter(table["candidate"])
    offsets, tokens = flat(table.filter(pc.invert(table["candidate"])))
    target = target_of(*text)
    counts, total = count(target, offsets, tokens)
    similar = importance(buckets_of(*text)[1], buckets_of(offsets, tokens)[1])
    np.savez(
        folder / "model.npz",
        keys=target.keys,
        table=target.table,
        events=target.events,
        times=target.times,
        counts=counts,
        total=np.int64(total),
        similar=similar,
    )
    pq.write_table(chosen, folder / "candidates.parquet", row_group_size=PER_TASK)
    return CountedSample(len(chosen), total, loss(target, counts, total))


def measure(folder: str, number: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return addresses and utilities of the candidates of one task."""
    with np.load(Path(folder) / "model.npz") as model:
        target = Target(model["keys"], model["table"], model["events"], model["times"])
        counts, total = model["counts"], int(model["total"])
    with pq.ParquetFile(Path(folder) / "candidates.parquet") as file:
        group = file.read_row_group(number, use_threads=False)
    # Rounded, so that the last bits of a machine's logarithm matter less.
    saved = np.round(utilities(target, counts, total, *flat(group)), 9)
    return group["doc_uid"].to_numpy(), saved

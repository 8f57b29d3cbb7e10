"""A corpus on its way through near-duplicate removal: its signed files, and what was found so far."""

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.artifacts import Receipt, Workdir
from pipelines.corpus import Corpus
from pipelines.steps.columns import partitions_for
from pipelines.steps.earlier import (
    FIRST_NUMBER,
    EarlierRun,
    accepted,
    named_keepers,
    reading,
    source_ranks,
)
from pipelines.steps.near_pairs import ROWS_PER_TABLE, Written
from pipelines.steps.near_sets import read_scratch, scratch_path
from pipelines.steps.near_signatures import STAGE, SignedFile, signature_entries, write_sought
from pipelines.steps.removed import Uids, by_file, removed_uids
from transforms.candidates import distinct
from transforms.minhash import NearSettings

_MOST_SOUGHT = 1 << 26
"""Band keys of new documents that one worker notes: 128 MiB."""


@dataclass(frozen=True, slots=True)
class Search:
    """A corpus on its way through the phases."""

    corpus: Corpus
    receipts: tuple[Receipt, ...]
    """Of the signatures, in the order of the ingest files."""
    artifact: str
    """Fingerprint of the artifact in the making."""
    equal: tuple[str, ...] = ()
    """Scratch tables: documents whose set an earlier one has, and that one."""
    pairs: tuple[str, ...] = ()
    """Scratch tables: candidate pairs."""
    sets: str = ""
    """Scratch table: where the sets of candidates are."""
    counters: tuple[tuple[str, int], ...] = ()

    @property
    def store(self) -> Workdir:
        """The work directory."""
        return self.corpus.store

    def counted(self, results: Iterable[Written | Receipt]) -> tuple[tuple[str, int], ...]:
        """Return the counters with those of finished work."""
        total = Counter(dict(self.counters))
        for result in results:
            total.update(dict(result.counters))
        return tuple(total.items())

    def own_files(self) -> list[SignedFile]:
        """Return the ingest files of this run with their signatures."""
        ingest = self.corpus.folder("ingest")
        folder = self.store.folder(STAGE, self.artifact)
        return [
            SignedFile(
                corpus=self.corpus,
                ingest=str(ingest / entry.name),
                signatures=str(folder / receipt.files[0].name),
                rows=receipt.files[0].rows,
                key=receipt.files[0].sha256,
            )
            for entry, receipt in zip(
                self.corpus.manifest("ingest").entries(), self.receipts, strict=True
            )
        ]


def earlier_files(against: Sequence[EarlierRun], settings: NearSettings) -> list[SignedFile]:
    """Return the ingest files of earlier runs with their signatures, in the order of numbers."""
    files, start = [], FIRST_NUMBER
    for origin, run in enumerate(against):
        for entry, signed in signature_entries(run.corpus, settings):
            files.append(
                SignedFile(
                    corpus=run.corpus,
                    ingest=str(run.corpus.folder("ingest") / entry.name),
                    signatures=str(run.corpus.folder(STAGE) / signed.name),
                    rows=signed.rows,
                    key=f"{origin} {signed.sha256}",
                    origin=origin,
                    start=start,
                )
            )
            start += signed.rows
    return files


def shared_facts(
    search: Search, against: Sequence[EarlierRun], settings: NearSettings
) -> dict[str, Any]:
    """Return what every task of a phase knows: source ranks, threshold, numbers of partitions."""
    rows = sum(receipt.counters["signed"] for receipt in search.receipts)
    rows += sum(run.documents for run in against)
    return {
        "ranks": source_ranks(against, search.corpus.manifest("ingest").config["sources"]),
        "partitions": partitions_for(rows),
        "threshold": settings.threshold,
        "bands": partitions_for(rows * settings.bands, rows_each=ROWS_PER_TABLE),
    }


def sought_keys(search: Search, against: Sequence[EarlierRun], bands: int) -> dict[str, str]:
    """Return where the band keys of new documents are noted, so that few others are sent.

    Empty where earlier documents are not more, or new ones so many that one worker should not read
    all their keys; then all keys are sent, with the same result.
    """
    files = search.own_files()
    rows = sum(file.rows for file in files)
    if rows * bands > _MOST_SOUGHT or rows > sum(run.documents for run in against):
        return {}
    path = scratch_path(search.store, "npy")
    write_sought(path, files, bands)
    return {"sought": str(path)}


def gone_by_file(
    corpus: Corpus, files: Sequence[SignedFile], more: Iterable[Uids] = ()
) -> list[Uids | None]:
    """Return the documents of each file that earlier stages, and ``more``, removed."""
    found = by_file(corpus, itertools.chain(removed_uids(corpus), more))
    return [found.get(Path(file.ingest).name) for file in files]


def numbers_by_file(search: Search, files: Sequence[SignedFile]) -> list[tuple[SignedFile, Uids]]:
    """Return the files that hold candidates, with what these are called there, ascending.

    Reads one table of pairs at a time; memory is 8 bytes per candidate and table of pairs it is in.
    """
    own: list[Uids] = []
    earlier: list[Uids] = []
    for path in search.pairs:
        table = read_scratch(path)
        found = distinct(np.concatenate([table["first"].to_numpy(), table["second"].to_numpy()]))
        bound = np.searchsorted(found, 0)
        own.append(found[bound:])
        earlier.append(found[:bound])
    numbers = distinct(np.concatenate([np.empty(0, np.int64), *earlier]))
    by_name = by_file(search.corpus, own)
    found_in = []
    for file in files:
        if file.earlier:
            bounds = np.searchsorted(numbers, [file.start, file.start + file.rows])
            part = numbers[slice(*bounds.tolist())]
        else:
            part = by_name.get(Path(file.ingest).name, numbers[:0])
        if len(part):
            found_in.append((file, part))
    return found_in


def with_named_keepers(
    table: pa.Table, against: Sequence[EarlierRun], files: Sequence[SignedFile]
) -> pa.Table:
    """Give removed documents the addresses of keepers in earlier runs.

    Args:
        table: rows of :data:`transforms.exact.DUPLICATE_SCHEMA`, earlier documents by number.
        against: the earlier runs.
        files: their files.
    """
    table = accepted(table)
    numbers = distinct(table["keeper_uid"].to_numpy())
    numbers = numbers[numbers < 0]
    found: dict[str, list[tuple[Uids, Uids]]] = {run.ingest: [] for run in against}
    for file in files:
        bounds = np.searchsorted(numbers, [file.start, file.start + file.rows])
        part = numbers[slice(*bounds.tolist())]
        if len(part):
            with reading(file.corpus):
                found[against[file.origin].ingest].append((part, file.addresses(part)))
    joined = {
        ingest: (np.concatenate([n for n, _ in parts]), np.concatenate([u for _, u in parts]))
        for ingest, parts in found.items()
        if parts
    }
    return named_keepers(table, joined) if joined else table

"""Earlier runs that new documents are compared with: what they accepted, and their addresses.

A work directory named by ``dedupe.against`` stands for its newest run that ended well: the documents
of its ingest artifact that no stage removed. They come first in the keep order and stay. Their
addresses may be those of new documents or of another such directory, so within a stage they go by
numbers of their own, all negative; what is written has the address and the ingest artifact.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.artifacts import StorageError
from pipelines.corpus import Corpus
from transforms.exact import DUPLICATE_SCHEMA
from transforms.record import mix64

FIRST_NUMBER = -(1 << 62)
"""Number of the first earlier document; all are below zero."""
REMOVED_AGAINST = "removed against earlier runs"
"""Counter of both stages: removed documents whose keeper an earlier run accepted."""

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """What the newest good run of another work directory accepted."""

    corpus: Corpus
    """Its artifacts as far as they say which documents it accepted."""
    run_id: str
    documents: int
    """How many it accepted."""

    @property
    def workdir(self) -> str:
        """The work directory, absolute."""
        return self.corpus.workdir

    @property
    def ingest(self) -> str:
        """Fingerprint of the ingest artifact."""
        return self.corpus.fingerprint("ingest")

    def sources(self) -> list[str]:
        """Return the names of its sources, in their order."""
        return list(self.corpus.manifest("ingest").config["sources"])

    def to_json(self) -> dict[str, Any]:
        """Return what a run's record says of it."""
        return {
            "workdir": self.workdir,
            "earlier_run": self.run_id,
            "ingest": self.ingest,
            "documents": self.documents,
        }


def identities(against: Sequence[EarlierRun]) -> dict[str, Any]:
    """Return what a stage's fingerprint holds of the earlier runs: fingerprints, no paths."""
    return {"against": [dict(run.corpus.artifacts) for run in against]} if against else {}


def note(against: Sequence[EarlierRun]) -> str:
    """Return what ``drystone plan`` says of them, empty where there are none."""
    told = [f"{run.documents:,} documents of {run.workdir} ({run.run_id})" for run in against]
    return "against " + ", ".join(told) if told else ""


def source_ranks(against: Sequence[EarlierRun], own: Sequence[str]) -> list[dict[str, int]]:
    """Return the place of every source in the keep order: of each earlier run, last of this one."""
    ranks, first = [], 0
    for names in (*(run.sources() for run in against), own):
        ranks.append({name: first + place for place, name in enumerate(names)})
        first += len(names)
    return ranks


@contextmanager
def reading(corpus: Corpus) -> Iterator[None]:
    """Name the work directory when one of its files is gone.

    Raises:
        StorageError: instead of FileNotFoundError.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise StorageError(
            f"{error.filename or error}: gone while documents of {corpus.workdir} were read; run "
            "the recipe of that folder again, and this one after it"
        ) from error


def accepted(table: pa.Table) -> pa.Table:
    """Return those rows of duplicates that are new documents, with cluster sizes of their own.

    A keeper stands for itself and the documents that this run removed for it.

    Args:
        table: rows of :data:`transforms.exact.DUPLICATE_SCHEMA`; earlier documents by number.
    """
    new = table["doc_uid"].to_numpy() >= 0
    if not len(table) or (new.all() and (table["keeper_uid"].to_numpy() >= 0).all()):
        return table
    table = table.filter(pa.array(new))
    keepers = table["keeper_uid"].to_numpy()
    _, place, counts = np.unique(keepers, return_inverse=True, return_counts=True)
    place_of = DUPLICATE_SCHEMA.get_field_index("cluster_size")
    return table.set_column(
        place_of, DUPLICATE_SCHEMA.field(place_of), pa.array(counts[place] + 1, pa.int64())
    )


def named_keepers(table: pa.Table, addresses: Mapping[str, tuple[Int64s, Int64s]]) -> pa.Table:
    """Replace the numbers of keepers in earlier runs by their addresses and ingest artifacts.

    Their clusters are named by a hash of both, negative, as an address alone may be another
    document's of this run.

    Args:
        table: rows of :data:`transforms.exact.DUPLICATE_SCHEMA`.
        addresses: ingest fingerprint -> numbers (ascending) and their addresses.
    """
    keeper = table["keeper_uid"].to_numpy().copy()
    cluster = keeper.copy()
    ingest = np.full(len(table), None, object)
    for fingerprint, (numbers, uids) in addresses.items():
        if not len(numbers):
            continue
        place = np.minimum(np.searchsorted(numbers, cluster), len(numbers) - 1)
        rows = np.flatnonzero((numbers[place] == cluster) & (cluster < 0) & (keeper < 0))
        keeper[rows] = uids[place[rows]]
        ingest[rows] = fingerprint
    for fingerprint in addresses:
        rows = np.flatnonzero(ingest == fingerprint)
        seed = int(fingerprint[:16], 16)
        cluster[rows] = ~(mix64(keeper[rows], seed) >> np.uint64(1)).astype(np.int64)
    columns = {
        "cluster": pa.array(cluster, pa.int64()),
        "keeper_uid": pa.array(keeper, pa.int64()),
        "keeper_ingest": pa.array(ingest, pa.string()),
    }
    return pa.table(
        [columns.get(name, table[name]) for name in DUPLICATE_SCHEMA.names], DUPLICATE_SCHEMA
    )

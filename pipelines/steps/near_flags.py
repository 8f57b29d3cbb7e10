"""Clusters of near-duplicates that swallow much of a source: often boilerplate, or a wrong setting."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.corpus import Corpus
from pipelines.steps.columns import row_groups
from pipelines.steps.earlier import EarlierRun, reading
from pipelines.steps.near_signatures import SignedFile
from pipelines.steps.removed import Uids, by_file, id_overlay
from transforms.candidates import distinct
from transforms.ids import apply_ids
from transforms.minhash import NearSettings

FLAG_SCHEMA = pa.schema(
    [
        pa.field("cluster", pa.int64(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("removed", pa.int64(), nullable=False),
        pa.field("documents", pa.int64(), nullable=False),
        pa.field("share", pa.float64(), nullable=False),
        pa.field("keeper_uid", pa.int64(), nullable=False),
        pa.field("keeper_ingest", pa.string()),
        pa.field("keeper_source", pa.string(), nullable=False),
        pa.field("keeper_id", pa.string(), nullable=False),
    ]
)
"""One row per cluster and source of which it took more than the set share; the largest first."""


def flagged_clusters(
    removed: pa.Table,
    corpus: Corpus,
    files: Sequence[SignedFile],
    against: Sequence[EarlierRun],
    settings: NearSettings,
) -> pa.Table:
    """Return the clusters that removed more than the set share of a source's documents.

    Args:
        removed: rows of :data:`transforms.exact.DUPLICATE_SCHEMA`, sorted by ``doc_uid``.
        corpus: the corpus they are of.
        files: its signed files; the share is that of their documents.
        against: runs that may hold keepers.
        settings: ``flag_share`` and ``flag_least``.

    Returns:
        Rows of :data:`FLAG_SCHEMA`.
    """
    source_of = {Path(f.ingest).name: _source(f.signatures) for f in files if f.rows}
    documents: Counter[str] = Counter()
    for file in files:
        if file.rows:
            documents[source_of[Path(file.ingest).name]] += file.rows
    names = sorted(documents)
    uids = removed["doc_uid"].to_numpy()
    source = np.zeros(len(uids), np.int64)
    for name, part in by_file(corpus, [uids]).items():
        source[np.searchsorted(uids, part)] = names.index(source_of[name])
    cluster = removed["cluster"].to_numpy()
    _, first, place = np.unique(cluster, return_index=True, return_inverse=True)
    codes, counts = np.unique(place * max(len(names), 1) + source, return_counts=True)
    of_source = codes % max(len(names), 1)
    total = np.array([documents[name] for name in names], np.int64)[of_source]
    shares = counts / total
    chosen = np.flatnonzero((shares > settings.flag_share) & (counts >= settings.flag_least))
    chosen = chosen[np.lexsort((codes[chosen], -counts[chosen]))]
    rows = first[codes[chosen] // max(len(names), 1)]
    keepers = removed.select(["keeper_uid", "keeper_ingest"]).take(pa.array(rows))
    known = _keepers(keepers, corpus, against)
    told = [known[key["keeper_ingest"], key["keeper_uid"]] for key in keepers.to_pylist()]
    return pa.table(
        [
            pa.array(cluster[rows], pa.int64()),
            pa.array([names[n] for n in of_source[chosen]], pa.string()),
            pa.array(counts[chosen], pa.int64()),
            pa.array(total[chosen], pa.int64()),
            pa.array(shares[chosen], pa.float64()),
            keepers["keeper_uid"],
            keepers["keeper_ingest"],
            pa.array([where for where, _ in told], pa.string()),
            pa.array([name for _, name in told], pa.string()),
        ],
        schema=FLAG_SCHEMA,
    )


def flag_notes(flags: pa.Table, share: float) -> list[str]:
    """Return what the run says of them: how many there are, and the largest."""
    if not len(flags):
        return []
    worst = flags.slice(0, 1).to_pylist()[0]
    count = "1 cluster" if len(flags) == 1 else f"{len(flags)} clusters"
    return [
        f"{count} of near-duplicates took more than {share:.3g} of a source; the largest took "
        f"{worst['removed']:,} of {worst['documents']:,} documents of {worst['source']} "
        f"({worst['share']:.1%}) for {worst['keeper_id']} of {worst['keeper_source']}; see the view "
        "flagged_clusters"
    ]


def _source(signatures: str) -> str:
    with pq.ParquetFile(signatures) as file:
        table = file.read_row_group(0, columns=["source"], use_threads=False)
    return str(table["source"][0].as_py())


def _keepers(
    keepers: pa.Table, corpus: Corpus, against: Sequence[EarlierRun]
) -> Mapping[tuple[str | None, int], tuple[str, str]]:
    """Return (ingest, address) -> (source, id) of a few documents, of this run and earlier ones."""
    homes: dict[str | None, Corpus] = {None: corpus, **{run.ingest: run.corpus for run in against}}
    found: dict[tuple[str | None, int], tuple[str, str]] = {}
    for ingest, home in homes.items():
        same = (
            pc.is_null(keepers["keeper_ingest"])
            if ingest is None
            else pc.fill_null(pc.equal(keepers["keeper_ingest"], ingest), False)
        )
        uids = distinct(keepers["keeper_uid"].filter(same).to_numpy())
        with reading(home):
            for name, part in by_file(home, [uids] if len(uids) else []).items():
                found |= {(ingest, uid): told for uid, told in _ids(home, name, part)}
    return found


def _ids(corpus: Corpus, name: str, uids: Uids) -> list[tuple[int, tuple[str, str]]]:
    """Return address, source and id of some documents of an ingest file."""
    path, wanted = corpus.folder("ingest") / name, pa.array(uids, pa.int64())
    overlay, found = id_overlay(corpus, path), []
    for group in row_groups(path, ("doc_uid", "source", "id")):
        group = group.filter(pc.is_in(group["doc_uid"], wanted)).combine_chunks()
        for row in apply_ids(group, overlay).to_pylist():
            found.append((row["doc_uid"], (row["source"], row["id"])))
    return found

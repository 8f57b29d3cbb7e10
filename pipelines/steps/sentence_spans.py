"""From removed forms back to documents: spans of their texts, and documents of which little is left."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.artifacts import FileEntry
from pipelines.steps.columns import write_table
from pipelines.steps.near_sets import read_scratch
from pipelines.steps.removed import Uids
from pipelines.steps.sentence_counts import Documents
from pipelines.steps.sentence_units import HALVES, WORDLESS
from transforms.record import RecordError
from transforms.sentence_counts import count_forms
from transforms.sentence_split import split_units
from transforms.sentences import SentenceSettings, removal_spans
from transforms.shingles import text_blocks
from transforms.text import string_buffers
from transforms.tokenize.text_spans import TEXT_SPAN_SCHEMA

Int64s = npt.NDArray[np.int64]

SPANS = pa.schema([*TEXT_SPAN_SCHEMA, pa.field("detail", pa.string())])
DROPS = pa.schema(
    [
        pa.field("doc_uid", pa.int64(), nullable=False),
        pa.field("n_chars", pa.int64(), nullable=False),
        pa.field("removed_chars", pa.int64(), nullable=False),
        pa.field("removed_share", pa.float64(), nullable=False),
    ]
)
"""Documents that are dropped, ascending."""
EXAMPLES = pa.schema([("hash", pa.int64()), ("text", pa.string())])
LOST = pa.schema([(name, pa.int64()) for name in ("hash", "documents", "occurrences", "chars")])


@dataclass(frozen=True, slots=True)
class Mapped:
    """What became of one ingest file."""

    examples: pa.Table
    """hash and text of the listed forms whose first document is here."""
    dropped: pa.Table
    """hash, documents, occurrences, chars of the listed forms in documents that are dropped."""
    files: tuple[FileEntry, ...]
    counters: dict[str, int]


def map_file(
    ingest: Path,
    documents: str,
    forms: str,
    removed: Uids | None,
    decided: tuple[str, str],
    folder: Path,
    settings: SentenceSettings,
) -> Mapped:
    """Write the spans and drops of an ingest file.

    Args:
        ingest: the ingest file.
        documents: its documents' sentences.
        forms: its forms.
        removed: documents that earlier stages dropped.
        decided: scratch tables of the removed forms and of the listed ones.
        folder: where spans and drops go.
        settings: of the stage.
    """
    found = Documents.read(documents)
    uids = found.table["doc_uid"].to_numpy()
    kept = found.kept(removed)
    hashes = pq.read_table(forms, columns=["hash"], use_threads=False)["hash"].to_numpy()
    gone, first_uid = _lookup(read_scratch(decided[0]), hashes)
    listed = read_scratch(decided[1])
    # What is cut: sentences of removed forms in documents that are still there.
    document = np.repeat(np.arange(len(uids)), np.diff(found.offsets))
    cut = np.zeros(len(found.forms), np.bool_)
    numbers = np.where(found.forms <= HALVES, HALVES - found.forms, found.forms)
    counted = numbers >= 0
    cut[counted] = gone[numbers[counted]]
    cut &= kept[document]
    if settings.keep_first:
        cut[cut] = first_uid[numbers[cut]] != uids[document[cut]]
    wanted = listed.filter(pa.array(np.isin(listed["first_uid"].to_numpy(), uids[kept])))
    affected = np.zeros(len(uids), np.bool_)
    affected[document[cut]] = True
    read = affected.copy()
    read[np.searchsorted(uids, wanted["first_uid"].to_numpy())] = True
    spans, examples = _read_texts(ingest, found, uids, read, cut, wanted, settings)
    drops = _drops(found, uids, spans, settings)
    dropped = np.isin(uids, drops["doc_uid"].to_numpy())
    spans = spans.filter(
        pa.array(~np.isin(spans["doc_uid"].to_numpy(), drops["doc_uid"].to_numpy()))
    )
    files = []
    for name, table, kind in (("spans", spans, "spans"), ("drops", drops, "data")):
        if len(table):
            path = folder / f"{name}-{ingest.name[:10]}.parquet"
            files.append(write_table(path, table.combine_chunks(), kind=kind))
    shortened = np.unique(spans["doc_uid"].to_numpy())
    lengths = spans["end"].to_numpy() - spans["start"].to_numpy()
    counters = {
        "removed sentences": int(cut[~dropped[document]].sum()),
        "removed characters": int(lengths.sum()),
        "shortened documents": len(shortened),
        "dropped": len(drops),
        "dropped characters": int(drops["n_chars"].to_numpy().sum()),
    }
    lost = _counts_of(found, dropped, hashes, listed)
    return Mapped(examples, lost, tuple(files), counters)


def _lookup(removed: pa.Table, hashes: Int64s) -> tuple[npt.NDArray[np.bool_], Int64s]:
    """Return whether each form is removed, and the first document that has it."""
    known = removed["hash"].to_numpy()
    if not len(known):
        return np.zeros(len(hashes), np.bool_), np.zeros(len(hashes), np.int64)
    place = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    return known[place] == hashes, removed["first_uid"].to_numpy()[place]


def _read_texts(
    ingest: Path,
    found: Documents,
    uids: Int64s,
    read: npt.NDArray[np.bool_],
    cut: npt.NDArray[np.bool_],
    wanted: pa.Table,
    settings: SentenceSettings,
) -> tuple[pa.Table, pa.Table]:
    """Return the spans of the cut sentences, and the texts of the wanted examples."""
    examples: dict[int, list[tuple[int, int]]] = {}
    for row in wanted.select(["hash", "first_uid", "unit"]).to_pylist():
        examples.setdefault(row["first_uid"], []).append((row["hash"], row["unit"]))
    parts: list[tuple[Int64s, Int64s, Int64s]] = []
    texts_of: list[tuple[int, str]] = []
    with pq.ParquetFile(ingest, memory_map=True) as file:
        for number in range(file.num_row_groups):
            group = file.read_row_group(number, columns=["doc_uid"], use_threads=False)
            rows = group["doc_uid"].to_numpy()
            mask = np.isin(rows, uids[read])
            if not mask.any():
                continue
            group = file.read_row_group(number, columns=["text"], use_threads=False)
            group = group.filter(pa.array(mask))
            places = np.searchsorted(uids, rows[mask])
            done = 0
            for texts in text_blocks(group["text"]):
                here = places[done : done + len(texts)]
                done += len(texts)
                units = split_units(texts, sentences=settings.unit == "sentence")
                numbers = np.concatenate(
                    [np.arange(found.offsets[d], found.offsets[d + 1]) for d in here]
                )
                if len(numbers) != len(units):
                    raise RecordError(
                        f"{ingest}: its sentences differ from those that were counted; "
                        "remove the unfinished artifact and run again"
                    )
                ends, _ = string_buffers(texts)
                text, start, end = removal_spans(
                    units, ends, cut[numbers], found.forms[numbers] == WORDLESS
                )
                parts.append((uids[here][text], start, end))
                for place, uid in enumerate(uids[here].tolist()):
                    for form, unit in examples.get(uid, ()):
                        at = units.places[units.offsets[place] + unit]
                        texts_of.append((form, bytes(units.data[at[1] : at[2]]).decode()))
            del group
    uid, start, end = (
        np.concatenate([np.empty(0, np.int64), *(part[k] for part in parts)]) for k in range(3)
    )
    columns = {
        "doc_uid": pa.array(uid),
        "start": pa.array(start),
        "end": pa.array(end),
        "action": pa.repeat("remove", len(uid)),
        "replacement": pa.nulls(len(uid), pa.string()),
        "weight": pa.nulls(len(uid), pa.float32()),
        "detail": pa.repeat("repeated", len(uid)),
    }
    spans = pa.table(columns, schema=SPANS)
    table = {"hash": [form for form, _ in texts_of], "text": [text for _, text in texts_of]}
    return spans, pa.table(table, schema=EXAMPLES)


def _drops(found: Documents, uids: Int64s, spans: pa.Table, settings: SentenceSettings) -> pa.Table:
    lengths = spans["end"].to_numpy() - spans["start"].to_numpy()
    place = np.searchsorted(uids, spans["doc_uid"].to_numpy())
    lost = np.bincount(place, weights=lengths, minlength=len(uids)).astype(np.int64)
    n_chars = found.table["n_chars"].to_numpy()
    share = lost / np.maximum(n_chars, 1)
    over = np.flatnonzero((lost > settings.max_removed * n_chars) & (lost > 0))
    columns = [uids[over], n_chars[over], lost[over], share[over]]
    return pa.table([pa.array(c) for c in columns], schema=DROPS)


def _counts_of(
    found: Documents, chosen: npt.NDArray[np.bool_], hashes: Int64s, listed: pa.Table
) -> pa.Table:
    """Return what some documents have of the listed forms."""
    zeros = np.zeros(len(chosen))
    counts = count_forms(
        len(hashes),
        found.offsets,
        found.forms,
        found.chars,
        chosen,
        np.zeros(len(chosen), np.int64),
        zeros,
        found.alone,
    )
    mine = (counts.documents > 0) & np.isin(hashes, listed["hash"].to_numpy())
    return pa.table(
        {
            "hash": hashes[mine],
            "documents": counts.documents[mine],
            "occurrences": counts.occurrences[mine],
            "chars": counts.chars[mine],
        }
    )

"""Proves that documents are whole: every token of what was selected, once per copy, as encoded."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from packing.findings import Findings
from packing.format import DatasetInfo, DatasetManifest, ShardError, load_manifest
from packing.loss_spans import weighted
from packing.rows import LossSpans, MicroBatch, RowGroup, offsets_of
from packing.shard import spans_of
from packing.verify_fim import FimProof
from packing.verify_pieces import Digest, Pieces, PieceStore, fail, prove_joins, weight_digests
from packing.verify_selection import Selected


@dataclass(frozen=True)
class _Documents:
    """Some encoded documents in the order of their address, the selected ones only."""

    uid: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    """[d + 1] first token of each document."""
    tokens: npt.NDArray[np.int32]
    domain: npt.NDArray[np.int16]
    """[d] index into the dataset's domain names, -1 for another name; empty where unknown."""
    weights: npt.NDArray[np.float32] | None
    """[t] weight of the target of each token (the next one); None where all weigh 1."""
    copies: npt.NDArray[np.int64] | None
    """[d] how often each is selected; None where that is unknown."""

    def between(self, first: int, stop: int) -> "_Documents":
        """Return the documents at places [first, stop); tokens and weights are shared."""
        return replace(
            self,
            uid=self.uid[first:stop],
            offsets=self.offsets[first : stop + 1],
            domain=self.domain[first:stop],
            copies=None if self.copies is None else self.copies[first:stop],
        )


def prove_documents(
    findings: Findings,
    folder: Path,
    manifest: DatasetManifest,
    info: DatasetInfo,
    store: PieceStore,
) -> None:
    """Judge every document by all its pieces, and by the tokens artifact where it is found.

    Args:
        findings: takes the results.
        folder: the dataset's folder.
        manifest: its manifest, whose parents are looked for beside the folder.
        info: its description.
        store: all pieces.
    """
    store.seal()
    documents = 0
    missing = _Parents(folder, manifest)
    encode = missing.find("encode")
    pack = missing.find("pack")
    if encode is None or pack is None:
        absent = "encode" if encode is None else "pack"
        reason = f"{missing.path(absent)} is not there"
        for check in (
            "every selected token is placed once per copy",
            "tokens are those of the tokens artifact",
            "fill in the middle can be undone",
            "domains are those of the tokens artifact",
            "loss spans are those of the tokens artifact",
        ):
            findings.cannot(check, reason)
        for first, stop in store.ranges():
            documents += prove_joins(findings, store.of(first, stop), info)
        findings.counts["documents"] = documents
        return
    mixture = missing.find("mixture") if "mixture" in manifest.parents else None
    if "mixture" in manifest.parents and mixture is None:
        findings.cannot(
            "every selected token is placed once per copy",
            f"the number of copies: {missing.path('mixture')} is not there",
        )
    try:
        selected = Selected(pack, mixture, known="mixture" not in manifest.parents)
        before = 0
        fim = FimProof(findings, load_manifest(str(encode)).config)
        for parts, last in _encoded(encode, selected, info, fim):
            pieces = store.of(before, last + 1)
            before = last + 1
            documents += prove_joins(findings, pieces, info)
            for part in parts:
                pieces = _prove_tokens(findings, pieces, part)
            _report_strangers(findings, pieces)
        fim.finish()
        rest = store.of(before, np.iinfo(np.int64).max)
        documents += prove_joins(findings, rest, info)
        _report_strangers(findings, rest)
    except (ShardError, OSError, pa.ArrowException) as error:
        findings.fail("tokens are those of the tokens artifact", f"{encode}: {error}")
    findings.counts["documents"] = documents


class _Parents:
    """The artifacts a dataset was made from, found beside it."""

    def __init__(self, folder: Path, manifest: DatasetManifest) -> None:
        self._folder = folder
        self._manifest = manifest

    def path(self, stage: str) -> Path:
        """Return where the artifact of a stage should lie."""
        mark = self._manifest.parents.get(stage, "unknown")
        return self._folder.parent / f"{stage}-{mark[:12]}"

    def find(self, stage: str) -> Path | None:
        """Return the artifact's folder, or None where it is not there or another."""
        path = self.path(stage)
        try:
            found = load_manifest(str(path))
        except ShardError:
            return None
        return path if found.fingerprint == self._manifest.parents.get(stage) else None


def _prove_tokens(findings: Findings, pieces: Pieces, documents: _Documents) -> Pieces:
    """Compare encoded documents with their pieces; return the pieces of other documents."""
    at = np.searchsorted(documents.uid, pieces["uid"])
    known = at < len(documents.uid)
    known[known] = documents.uid[at[known]] == pieces["uid"][known]
    others = pieces[~known]
    pieces, at = pieces[known], at[known]
    n_tokens = np.diff(documents.offsets)
    end = pieces["offset"].astype(np.int64) + pieces["length"]
    placed = np.bincount(at[end == n_tokens[at]], minlength=len(documents.uid))
    wrong = placed == 0 if documents.copies is None else placed != documents.copies
    for place in np.flatnonzero(wrong)[:1]:
        asked = "" if documents.copies is None else f" in {documents.copies[place]} copies"
        findings.fail(
            "every selected token is placed once per copy",
            f"document {documents.uid[place]} of {n_tokens[place]} tokens is selected{asked}, "
            f"{placed[place]} are placed to their end",
            int(wrong.sum()),
        )
    ends = np.append(pieces["uid"][1:] != pieces["uid"][:-1], True) if len(pieces) else end == 0
    if len(pieces):
        ends[:-1] |= pieces["copy"][1:] != pieces["copy"][:-1]
    fail(
        findings,
        "every selected token is placed once per copy",
        (end > n_tokens[at]) | (ends & (end != n_tokens[at])),
        pieces,
        lambda k: (
            f"the pieces of copy {pieces['copy'][k]} end at token {end[k]} of {n_tokens[at[k]]}"
        ),
    )
    inside = end <= n_tokens[at]
    pieces, at = pieces[inside], at[inside]
    place, length = _places(pieces, at, documents)
    _prove_contents(findings, pieces, documents, place, length)
    if len(documents.domain):
        fail(
            findings,
            "domains are those of the tokens artifact",
            documents.domain[at] != pieces["domain"],
            pieces,
            lambda k: f"domain {pieces['domain'][k]}, expected {documents.domain[at[k]]}",
        )
    return others


def _prove_contents(
    findings: Findings,
    pieces: Pieces,
    documents: _Documents,
    place: npt.NDArray[np.int64],
    length: npt.NDArray[np.int64],
) -> None:
    """Compare the tokens of pieces, and the weights of their targets, with the encoded ones."""
    digest = Digest()
    fail(
        findings,
        "tokens are those of the tokens artifact",
        digest(documents.tokens[place], length) != pieces["digest"],
        pieces,
        lambda k: f"the piece at token {pieces['offset'][k]} holds other tokens",
    )
    weights = np.zeros(len(pieces), np.uint64)
    if documents.weights is not None:
        goes_on = pieces["next"] >= 0
        weights = weight_digests(documents.weights[place], length, goes_on, digest)
    if "loss spans are those of the tokens artifact" in findings.unproved:
        return
    fail(
        findings,
        "loss spans are those of the tokens artifact",
        weights != pieces["weights"],
        pieces,
        lambda k: (
            f"the piece at token {pieces['offset'][k]} trains other targets, or with other weights"
        ),
    )


def _places(
    pieces: Pieces, at: npt.NDArray[np.int64], documents: _Documents
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where the pieces' tokens stand among the documents', and the pieces' lengths."""
    length = pieces["length"].astype(np.int64)
    start = documents.offsets[at] + pieces["offset"]
    place = np.repeat(start - offsets_of(length)[:-1], length)
    place += np.arange(len(place))
    return place, length


def _report_strangers(findings: Findings, pieces: Pieces) -> None:
    """Record pieces of documents that were not selected."""
    if len(pieces):
        findings.fail(
            "every selected token is placed once per copy",
            f"document {pieces['uid'][0]} in row {pieces['row'][0]} was not selected, or is not "
            "in the tokens artifact",
            len(np.unique(pieces["uid"])),
        )


def _encoded(
    encode: Path, selected: Selected, info: DatasetInfo, fim: FimProof
) -> Iterator[tuple[list[_Documents], int]]:
    """Give the selected documents of the tokens artifact, and the last address looked at.

    Files of many small source files hold addresses all over the range, so that other files' lie
    between theirs. Of each file that is open, one row group is held.
    """
    number = {name: place for place, name in enumerate(info.domains)}
    names = [f.name for f in load_manifest(str(encode)).files if not f.name.startswith("drops-")]
    paths = [f"{encode}{os.sep}{name}" for name in names]
    firsts = [(first, path) for path in paths for first in _first(path)]
    waiting = sorted(firsts, reverse=True)
    files: list[Iterator[tuple[_Documents, int]]] = []
    heads: list[tuple[_Documents, int]] = []
    while waiting or files:
        last = min((last for _, last in heads), default=-1)
        if waiting and (not files or waiting[-1][0] <= last):
            files.append(_file(waiting.pop()[1], selected, number, fim))
            heads.append(next(files[-1]))
            continue
        parts = []
        for place, (documents, end) in enumerate(heads):
            at = int(np.searchsorted(documents.uid, last, "right"))
            parts.append(documents.between(0, at))
            heads[place] = documents.between(at, len(documents.uid)), end
        yield parts, last
        for place in reversed(range(len(files))):
            if heads[place][1] == last:
                following = next(files[place], None)
                if following is None:
                    del files[place], heads[place]
                else:
                    heads[place] = following


def _first(path: str) -> Iterator[int]:
    """Give the first address of a file of tokens; nothing where it has no document."""
    file = pq.ParquetFile(path, page_checksum_verification=True)
    for group in range(file.num_row_groups):
        uid = file.read_row_group(group, columns=["doc_uid"], use_threads=False)["doc_uid"]
        if len(uid):
            yield uid[0].as_py()
            return


def _file(
    path: str, selected: Selected, number: dict[str, int], fim: FimProof
) -> Iterator[tuple[_Documents, int]]:
    """Give the selected documents of one file's row groups, and the last address of each."""
    file = pq.ParquetFile(path, page_checksum_verification=True)
    known = ("doc_uid", "input_ids", "domain", "loss_spans")
    names = [name for name in known if name in file.schema_arrow.names]
    last = -1
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=names, use_threads=False).combine_chunks()
        uid = table["doc_uid"].to_numpy()
        if not len(uid):
            continue
        if uid[0] <= last or (np.diff(uid) <= 0).any():
            raise ShardError(f"{path}: documents are not in the order of their address")
        last = int(uid[-1])
        fim.check(table)
        yield _documents(table, uid, selected, number), last


def _documents(
    table: pa.Table,
    uid: npt.NDArray[np.int64],
    selected: Selected,
    number: dict[str, int],
) -> _Documents:
    """Return the documents of a table that should be in the dataset."""
    lists = _column(table, "input_ids")
    offsets = lists.offsets.to_numpy().astype(np.int64)
    copies, weight = selected.of(uid)
    keep = (copies > 0) & (np.diff(offsets) > 0)
    n_tokens = np.diff(offsets)
    tokens = lists.values.to_numpy()[offsets[0] : offsets[-1]][np.repeat(keep, n_tokens)]
    domain = np.empty(0, np.int16)
    if "domain" in table.column_names:
        coded = _column(table, "domain").dictionary_encode()
        codes = [number.get(name, -1) for name in coded.dictionary.to_pylist()]
        domain = np.array(codes, np.int16)[coded.indices.to_numpy(zero_copy_only=False)][keep]
    spans = None
    if "loss_spans" in table.column_names:
        spans = spans_of(_column(table, "loss_spans").filter(pa.array(keep)))
    if (weight[keep] != 1).any():
        spans = weighted(spans or LossSpans.none(int(keep.sum())), weight[keep], n_tokens[keep])
    weights = _weights(n_tokens[keep], tokens, spans)
    known = copies[keep] if selected.counts_known else None
    return _Documents(uid[keep], offsets_of(n_tokens[keep]), tokens, domain, weights, known)


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table[name].combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _weights(
    n_tokens: npt.NDArray[np.int64], tokens: npt.NDArray[np.int32], spans: LossSpans | None
) -> npt.NDArray[np.float32] | None:
    """Return the weight of each token's target, each document being a row of its own."""
    if spans is None:
        return None
    one = np.ones(len(n_tokens), np.int32)
    none = one - 2
    group = RowGroup(
        one.astype(np.int64),
        one,
        one.astype(np.int64),
        one.astype(np.int16),
        one,
        n_tokens.astype(np.int32),
        none,
        one.astype(np.int16),
        tokens,
        spans,
    )
    return MicroBatch.of(group).loss_weights

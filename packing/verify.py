"""Proves what a packed dataset promises (``docs/shard-format.md``), from its bytes alone.

Memory stays bounded: rows are read group by group, and of every piece 52 bytes are kept, sorted by
document in segments that go to a temporary folder when there are many. Documents are then judged
shard by shard of the tokens artifact.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from packing.check import row_room, span_fault
from packing.findings import Findings
from packing.format import (
    PLAN_FILE,
    DatasetInfo,
    DatasetManifest,
    ShardError,
    check_file,
    load_manifest,
)
from packing.rows import RowGroup
from packing.schedule import Plan, load_plan
from packing.shard import ShardFile
from packing.shared_rows import ranks_of
from packing.verify_documents import prove_documents
from packing.verify_pieces import PieceStore
from packing.verify_plan import PLAN_CHECKS, RowSums, prove_plan
from packing.verify_zones import ZONE_CHECKS, prove_zones

CHECKS = (
    "files have the manifest's sha256",
    "footers agree",
    "columns agree and pages are intact",
    "rows are no longer than the sequence length",
    "ids lie within the vocabulary",
    "loss spans are ordered and lie in their rows",
    "placements are those of the rows",
    *PLAN_CHECKS,
    *ZONE_CHECKS,
    "pieces of a document join",
    "next_token is the document's next token",
    "no document that fits is cut",
    "long documents are cut into full rows and one remainder",
    "every selected token is placed once per copy",
    "tokens are those of the tokens artifact",
    "fill in the middle can be undone",
    "domains are those of the tokens artifact",
    "loss spans are those of the tokens artifact",
)
"""Names of all checks, in the order in which they are reported."""

_PLACEMENT_COLUMNS = ("row_id", "doc_uid", "copy", "token_start", "token_end", "row_offset")


def verify(dataset: str | Path) -> Findings:
    """Check a dataset against everything the shard format promises.

    The tokens artifact, the selection and the packer's drops are found beside the dataset through
    the parents its manifest names; what cannot be proved without them is listed.

    Args:
        dataset: the dataset's folder.

    Raises:
        ShardError: the folder has no manifest or no plan, so there is nothing to compare with.
    """
    folder = Path(dataset).absolute()
    findings = Findings(str(folder))
    manifest = load_manifest(str(folder))
    for entry in manifest.files:
        try:
            check_file(str(folder), entry)
        except ShardError as error:
            findings.fail("files have the manifest's sha256", str(error))
    plan = load_plan(str(folder / PLAN_FILE))
    _prove_footer(findings, folder, manifest, plan.dataset)
    with tempfile.TemporaryDirectory(prefix="drystone-verify-") as scratch:
        store = PieceStore(Path(scratch))
        sums = _read_rows(findings, folder, manifest, plan, store)
        prove_plan(findings, plan, sums)
        prove_zones(findings, folder, manifest, plan)
        if "columns agree and pages are intact" in findings.failed:
            for check in CHECKS[CHECKS.index("pieces of a document join") :]:
                findings.cannot(check, "some rows could not be read")
        else:
            if "loss spans are ordered and lie in their rows" in findings.failed:
                findings.cannot(
                    "loss spans are those of the tokens artifact", "some of them are senseless"
                )
            prove_documents(findings, folder, manifest, plan.dataset, store)
    findings.counts |= {
        "rows": len(sums.row_id),
        "tokens": int(sums.n_tokens.sum()),
        "pieces": store.pieces,
        "padding": _padding(plan, int(sums.n_tokens.sum())),
    }
    findings.close(CHECKS)
    return findings


def _padding(plan: Plan, tokens: int) -> float:
    """Return the share of row slots that no token fills."""
    room = int(plan.table["cp"].to_numpy().sum(dtype=np.int64)) * plan.dataset.seq_len
    return round(1 - tokens / room, 9) if room else 0.0


def _prove_footer(
    findings: Findings, folder: Path, manifest: DatasetManifest, info: DatasetInfo
) -> None:
    """Compare what the plan's footer says with the manifest and the tokenizer's file."""
    check = "footers agree"
    if info.fingerprint != manifest.fingerprint:
        findings.fail(
            check,
            f"{PLAN_FILE} belongs to {info.fingerprint[:12]}, the manifest to "
            f"{manifest.fingerprint[:12]}",
        )
    if not info.tokenizer:
        findings.cannot(check, "the footer names no tokenizer file")
        return
    listed = {entry.name: entry.sha256 for entry in manifest.files}
    if listed.get(info.tokenizer) != info.tokenizer_sha256:
        findings.fail(
            check,
            f"tokenizer {info.tokenizer} has sha256 {info.tokenizer_sha256[:12]}… in the footer, "
            f"{str(listed.get(info.tokenizer))[:12]}… in the manifest of {folder}",
        )


def _read_rows(
    findings: Findings,
    folder: Path,
    manifest: DatasetManifest,
    plan: Plan,
    store: PieceStore,
) -> RowSums:
    """Check all rows by themselves, and collect what is judged across rows."""
    longest = _longest(plan)
    sums = RowSums.empty(manifest)
    placements = _Placements(findings, folder)
    for entry in manifest.row_files:
        try:
            file = ShardFile(str(folder / entry.name), str(folder / entry.name))
        except ShardError as error:
            findings.fail("columns agree and pages are intact", str(error))
            continue
        if file.info != plan.dataset or file.group_bounds[-1] != entry.rows:
            findings.fail(
                "footers agree",
                f"{file.name}: dataset {file.info.fingerprint[:12]} with {file.group_bounds[-1]} "
                f"rows; the plan's is {plan.dataset.fingerprint[:12]}, the manifest says "
                f"{entry.rows} rows",
            )
        for number in range(file.n_groups):
            try:
                group = file.read(number)
            except ShardError as error:
                outside = "outside the vocabulary" in str(error)
                if outside:
                    findings.fail("ids lie within the vocabulary", str(error))
                findings.fail("columns agree and pages are intact", str(error))
                continue
            _prove_rows(findings, f"{file.name}, row group {number}", group, longest, plan)
            placements.compare(group)
            sums.add(group)
            if "loss spans are ordered and lie in their rows" in findings.failed:
                group = replace(group, loss_spans=None)
            store.add(group)
        file.close()
    placements.finish()
    return sums.joined()


def _longest(plan: Plan) -> dict[int, int]:
    """Return the rows that several ranks share, with the ranks of each."""
    cp = plan.table["cp"].to_numpy()
    shared = np.flatnonzero(cp != 1)
    return dict(zip(plan.row_id[shared].tolist(), cp[shared].tolist(), strict=True))


def _prove_rows(
    findings: Findings, where: str, group: RowGroup, shared: dict[int, int], plan: Plan
) -> None:
    """Check what each row promises by itself."""
    info = plan.dataset
    tokens = row_room(group, info.align)
    room = np.full(group.n_rows, info.seq_len)
    if shared:
        room *= np.array([shared.get(row, 1) for row in group.row_id.tolist()])
    for at in np.flatnonzero(tokens > room)[:1]:
        findings.fail(
            "rows are no longer than the sequence length",
            f"{where}: row {group.row_id[at]} has {tokens[at]} tokens"
            + (f" in pieces filled to multiples of {info.align}" if info.align > 1 else "")
            + f", {room[at]} fit",
            int((tokens > room).sum()),
        )
    if shared:
        wide = np.array([shared.get(row, 1) for row in group.row_id.tolist()])
        wrong = (ranks_of(tokens, info.seq_len) != wide) | ((wide > 1) & (group.pieces_per_row > 1))
        for at in np.flatnonzero(wrong)[:1]:
            findings.fail(
                "rows are no longer than the sequence length",
                f"{where}: row {group.row_id[at]} of {tokens[at]} tokens in "
                f"{group.pieces_per_row[at]} pieces is shared by {wide[at]} ranks; a shared row "
                "holds one document, on as few ranks as hold it",
                int(wrong.sum()),
            )
    for name, high in (("next_token", info.vocab_size), ("domain", len(info.domains))):
        values = getattr(group, name)
        wrong = (values >= high) | (values < (-1 if name == "next_token" else 0))
        if wrong.any():
            at = int(np.argmax(wrong))
            findings.fail(
                "ids lie within the vocabulary",
                f"{where}: document {group.doc_uid[at]} has {name} {values[at]}, below {high} is "
                "allowed",
                int(wrong.sum()),
            )
    fault = span_fault(group)
    if fault is not None:
        findings.fail("loss spans are ordered and lie in their rows", f"{where}: {fault[1]}")


class _Placements:
    """Compares ``placements.parquet``, where the dataset has one, with the rows as they pass."""

    _check = "placements are those of the rows"

    def __init__(self, findings: Findings, folder: Path) -> None:
        self._findings = findings
        self._batches: Iterator[pa.RecordBatch] | None = None
        self._left: dict[str, npt.NDArray[np.int64]] = {}
        path = folder / "placements.parquet"
        if path.exists():
            file = pq.ParquetFile(path, page_checksum_verification=True)
            self._batches = file.iter_batches(1 << 20, columns=list(_PLACEMENT_COLUMNS))
        else:
            findings.cannot(self._check, "the dataset has no placements.parquet")

    def compare(self, group: RowGroup) -> None:
        """Compare the next pieces."""
        if self._batches is None:
            return
        row = np.repeat(np.arange(group.n_rows), group.pieces_per_row)
        expected: dict[str, npt.NDArray[Any]] = {
            "row_id": group.row_id[row],
            "doc_uid": group.doc_uid,
            "copy": group.doc_copy,
            "token_start": group.doc_offset,
            "token_end": group.doc_offset + group.length,
            "row_offset": group.cu_seqlens[:-1] - group.row_offsets[row],
        }
        found = self._take(len(row))
        for name, values in expected.items():
            if not np.array_equal(found[name], values):
                self._findings.fail(
                    self._check,
                    f"{name} differs in the rows {group.row_id[0]} to {group.row_id[-1]}",
                )

    def finish(self) -> None:
        """Note placements beyond those of the rows."""
        if self._batches is not None:
            more = len(self._take(1)["row_id"])
            if more:
                self._findings.fail(self._check, "there are more placements than pieces")

    def _take(self, count: int) -> dict[str, npt.NDArray[np.int64]]:
        """Return the next ``count`` placements, or fewer at the end."""
        parts = [self._left] if self._left else []
        have = sum(len(part["row_id"]) for part in parts)
        while have < count and self._batches is not None:
            batch = next(self._batches, None)
            if batch is None:
                break
            parts.append({name: batch[name].to_numpy() for name in _PLACEMENT_COLUMNS})
            have += len(batch)
        empty = np.empty(0, np.int64)
        joined = {
            name: np.concatenate([empty, *(part[name] for part in parts)]).astype(np.int64)
            for name in _PLACEMENT_COLUMNS
        }
        self._left = {name: values[count:] for name, values in joined.items()}
        return {name: values[:count] for name, values in joined.items()}

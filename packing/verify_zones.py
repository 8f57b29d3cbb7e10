"""Proves that zone plans divide every piece once, and give no rank more than it holds."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from packing.findings import Findings
from packing.format import DatasetManifest, ShardError
from packing.ring import Ints
from packing.schedule import Plan
from packing.zone_file import (
    TRANSFERS_FILE,
    ZONES_FILE,
    ZoneInfo,
    load_transfers,
    load_zones,
    piece_lengths,
)
from packing.zones import ZONES

ZONE_CHECKS = (
    "zones divide every piece of the plan once",
    "no rank holds more tokens than its capacity",
    "transfers lead to equal tokens",
)


def prove_zones(findings: Findings, folder: Path, manifest: DatasetManifest, plan: Plan) -> None:
    """Check the dataset's zone plans, where its settings ask for them.

    Args:
        findings: takes the results.
        folder: the dataset.
        manifest: its manifest.
        plan: its first plan.
    """
    if not manifest.config.get("ranks_per_node"):
        for check in ZONE_CHECKS:
            findings.skip(check)
        return
    once, capacity, equal = ZONE_CHECKS
    try:
        info, table = load_zones(folder / ZONES_FILE)
        moved = load_transfers(folder / TRANSFERS_FILE)
        pieces = piece_lengths(folder, manifest)
    except ShardError as error:
        findings.fail(once, str(error))
        for check in (capacity, equal):
            findings.cannot(check, "zone plans cannot be read")
        return
    if info.plan_fingerprint != plan.info.plan_fingerprint or info.ranks != plan.info.dp:
        findings.fail(
            once,
            f"{ZONES_FILE} is for the plan {info.plan_fingerprint[:12]} on {info.ranks} ranks, "
            f"{plan.where} is {plan.info.plan_fingerprint[:12]} on {plan.info.dp}",
        )
    if not _prove_pieces(findings, table, plan, pieces) or not _prove_chunks(findings, table, info):
        for check in (capacity, equal):
            findings.cannot(check, "zone plans do not divide the pieces")
        return
    _prove_loads(findings, table, moved, info)


def _prove_pieces(
    findings: Findings, table: pa.Table, plan: Plan, pieces: tuple[Ints, Ints, Ints]
) -> bool:
    """Compare the listed pieces with those of the shards, in the order of the plan."""
    row_id, bounds, length = pieces
    count = np.diff(bounds)
    if not np.array_equal(row_id, plan.row_id):
        findings.cannot(ZONE_CHECKS[0], "the plan does not list the rows of the shards")
        return False
    expected = {
        "step": np.repeat(plan.table["step"].to_numpy(), count),
        "slot": np.repeat(plan.table["slot"].to_numpy(), count),
        "row_id": np.repeat(row_id, count),
        "piece": np.arange(len(length)) - np.repeat(bounds[:-1], count),
        "length": length,
    }
    for name, values in expected.items():
        found = table[name].to_numpy()
        if not np.array_equal(found, values):
            n = min(len(found), len(values))
            at = int(np.argmax(np.append(found[:n] != values[:n], True)))
            findings.fail(
                ZONE_CHECKS[0],
                f"{ZONES_FILE} lists {len(found)} pieces, the shards hold {len(values)}; "
                f"{name} differs from entry {at} on",
            )
            return False
    return True


def _lists(column: pa.ChunkedArray) -> tuple[Ints, npt.NDArray[np.int32]]:
    """Return a list column as lengths and values."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], column.type)
    return array.value_lengths().to_numpy().astype(np.int64), array.flatten().to_numpy()


def _prove_chunks(findings: Findings, table: pa.Table, info: ZoneInfo) -> bool:
    """Check ranks, zones and chunks of every piece by themselves."""
    width, rank = _lists(table["ranks"])
    size, offset = _lists(table["chunk_offsets"])
    piece = np.repeat(np.arange(len(width)), width)
    entry = np.repeat(np.arange(len(size)), size)
    outside = (rank < 0) | (rank >= info.ranks)
    descends = (np.diff(rank) <= 0) & (piece[1:] == piece[:-1])
    falls = (np.diff(offset) < 0) & (entry[1:] == entry[:-1])
    problems = {
        "names a rank outside the topology": piece[outside],
        "names ranks that do not ascend": piece[1:][descends],
        "has other than two chunks a rank": np.flatnonzero((width < 1) | (size != 2 * width + 1)),
        "has chunks that overlap": entry[1:][falls],
    }
    if not any(len(wrong) for wrong in problems.values()) and len(width):
        end = np.cumsum(size)
        wrong = (offset[end - size] != 0) | (offset[end - 1] != table["length"].to_numpy())
        last = np.cumsum(width) - 1
        first = last + 1 - width
        per_node = info.ranks_per_node
        zone = (width > 1).astype(np.int64) + (rank[first] // per_node != rank[last] // per_node)
        named = table["zone"].to_pylist()
        other = [i for i, (n, z) in enumerate(zip(named, zone, strict=True)) if n != ZONES[z]]
        problems = {
            "has chunks that do not cover it": np.flatnonzero(wrong),
            "is in another zone than its ranks": np.array(other, np.int64),
        }
    for what, places in problems.items():
        if len(places):
            at = int(places[0])
            findings.fail(
                ZONE_CHECKS[0],
                f"piece {table['piece'][at]} of row {table['row_id'][at]} {what}",
                len(places),
            )
    return not any(len(wrong) for wrong in problems.values())


def _prove_loads(findings: Findings, table: pa.Table, moved: pa.Table, info: ZoneInfo) -> None:
    """Count the tokens of each rank and slot, and follow the transfers."""
    width, rank = _lists(table["ranks"])
    _, offset = _lists(table["chunk_offsets"])
    slots, at = _slots(table, table)
    piece = np.repeat(np.arange(len(width)), width)
    first = np.cumsum(width) - width
    place = np.arange(len(rank)) - first[piece]
    # A list has two entries a rank and one more: the i-th chunk from either end.
    start = 2 * first + np.arange(len(width))
    low = start[piece] + place
    high = start[piece] + 2 * width[piece] - place
    share = offset[low + 1] - offset[low] + offset[high] - offset[high - 1]
    tokens = np.bincount(at[piece] * info.ranks + rank, share, minlength=slots * info.ranks)
    held = tokens.astype(np.int64).reshape(-1, info.ranks)
    for slot, of in np.argwhere(held > info.capacity)[:1]:
        findings.fail(
            ZONE_CHECKS[1],
            f"slot {slot} of the plan gives rank {of} {held[slot, of]} tokens, it holds "
            f"{info.capacity}",
            int((held > info.capacity).sum()),
        )
    _, to = _slots(table, moved)
    known = to >= 0
    for name in ("source", "target"):
        ends = moved[name].to_numpy()
        known &= (ends >= 0) & (ends < info.ranks)
    if not known.all():
        findings.fail(ZONE_CHECKS[2], f"{TRANSFERS_FILE} names slots or ranks that there are not")
        return
    count = moved["tokens"].to_numpy().astype(np.int64)
    np.subtract.at(held, (to, moved["source"].to_numpy()), count)
    np.add.at(held, (to, moved["target"].to_numpy()), count)
    wrong = np.flatnonzero((held.max(axis=1) - held.min(axis=1) > 1) | (held.min(axis=1) < 0))
    for slot in wrong[:1]:
        findings.fail(
            ZONE_CHECKS[2],
            f"after the transfers of slot {slot} of the plan, ranks hold {held[slot].min()} to "
            f"{held[slot].max()} tokens",
            len(wrong),
        )


def _slots(zones: pa.Table, table: pa.Table) -> tuple[int, Ints]:
    """Return how many slots ``zones`` has, and the number of each entry's slot; -1 for none."""
    base = 1 << 32
    all_keys = zones["step"].to_numpy().astype(np.int64) * base + zones["slot"].to_numpy()
    keys = table["step"].to_numpy().astype(np.int64) * base + table["slot"].to_numpy()
    known = np.unique(all_keys)
    at = np.minimum(np.searchsorted(known, keys), max(0, len(known) - 1))
    found: Ints = np.where(known[at] == keys, at, -1) if len(known) else np.full(len(keys), -1)
    return len(known), found

"""``zones.parquet`` and ``transfers.parquet``: the zone plan of every slot of a plan."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from packing.format import DatasetInfo, DatasetManifest, PlanInfo, ShardError, footer, from_footer
from packing.ring import Ints
from packing.rows import offsets_of
from packing.topology import Topology
from packing.writer import published
from packing.zones import ZONES, ZonePlan, plan_zones

ZONES_FILE = "zones.parquet"
TRANSFERS_FILE = "transfers.parquet"


def _list() -> pa.DataType:
    return pa.list_(pa.field("element", pa.int32(), nullable=False))


ZONES_SCHEMA = pa.schema(
    [
        pa.field("step", pa.int32(), nullable=False),
        pa.field("slot", pa.int32(), nullable=False),
        pa.field("row_id", pa.int64(), nullable=False),
        pa.field("piece", pa.int32(), nullable=False),
        pa.field("length", pa.int32(), nullable=False),
        pa.field("zone", pa.string(), nullable=False),
        pa.field("ranks", _list(), nullable=False),
        pa.field("chunk_offsets", _list(), nullable=False),
    ]
)
"""Columns of ``zones.parquet``: one row per piece, in the order of the plan."""

TRANSFERS_SCHEMA = pa.schema(
    [
        pa.field(name, pa.int32(), nullable=False)
        for name in ("step", "slot", "source", "target", "tokens")
    ]
)
"""Columns of ``transfers.parquet``: by step, slot, source and target."""

# Pieces of a row group, about; a group holds whole slots.
_GROUP_PIECES = 1 << 18


@dataclass(frozen=True, slots=True)
class ZoneInfo:
    """What the footer of ``zones.parquet`` says."""

    plan_fingerprint: str
    """The plan whose slots are divided."""
    nodes: int
    """See `packing.topology.Topology`."""
    ranks_per_node: int
    """The same."""
    capacity: int
    """The same."""
    crossing_within: float
    """The same."""
    crossing_across: float
    """The same."""
    zone_mode: str
    """The same."""
    price_across: float
    """The same."""
    price_within: float
    """The same."""

    @property
    def ranks(self) -> int:
        """All ranks."""
        return self.nodes * self.ranks_per_node

    @classmethod
    def of(cls, plan_fingerprint: str, topology: Topology) -> "ZoneInfo":
        """Return the facts of a topology."""
        names = [name for name in cls.__dataclass_fields__ if name != "plan_fingerprint"]
        return cls(plan_fingerprint, **{name: getattr(topology, name) for name in names})

    @classmethod
    def from_metadata(cls, metadata: dict[bytes, bytes] | None, where: str) -> "ZoneInfo":
        """Restore the record from the footer of ``zones.parquet``.

        Raises:
            ShardError: the footer is missing, damaged, or of another format version.
        """
        return cls(**from_footer(list(cls.__dataclass_fields__), metadata, where))


def piece_lengths(folder: Path, manifest: DatasetManifest) -> tuple[Ints, Ints, Ints]:
    """Return the rows of a dataset with their pieces, from the shards.

    Returns:
        row_id int64[r], bounds of each row's pieces int64[r + 1], tokens of the pieces int64[p].

    Raises:
        ShardError: a shard is missing or damaged.
    """
    ids, counts, lengths = [], [], []
    for entry in manifest.row_files:
        path = folder / entry.name
        try:
            table = pq.read_table(path, columns=["row_id", "cu_seqlens"], use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise ShardError(f"{path}: cannot be read ({error}); restore the file") from error
        for batch in table.to_batches():
            bounds = batch["cu_seqlens"].flatten().to_numpy().astype(np.int64)
            last = np.cumsum(batch["cu_seqlens"].value_lengths().to_numpy()) - 1
            ids.append(batch["row_id"].to_numpy())
            counts.append(np.diff(last, prepend=-1) - 1)
            lengths.append(np.delete(np.diff(bounds), last[:-1]))
    none = [np.empty(0, np.int64)]
    return (
        np.concatenate(none + ids),
        offsets_of(np.concatenate(none + counts)),
        np.concatenate(none + lengths),
    )


def write_zones(
    folder: Path,
    names: tuple[str, str],
    plan: pa.Table,
    pieces: tuple[Ints, Ints, Ints],
    topology: Topology,
    info: tuple[DatasetInfo, PlanInfo],
) -> tuple[int, int]:
    """Divide every slot of a plan among the ranks of a topology, and write how.

    Args:
        folder: where to.
        names: names of the files, as ZONES_FILE and TRANSFERS_FILE.
        plan: columns row_id, step and slot, in the order of the plan.
        pieces: as `piece_lengths` gives them; every row of the plan is there.
        topology: the ranks.
        info: what the footers of the dataset and of the plan say.

    Returns:
        Pieces, and transfers.

    Raises:
        ShardError: rows of a slot that the ranks do not hold.
    """
    dataset, of_plan = info
    zone_info = ZoneInfo.of(of_plan.plan_fingerprint, topology)
    metadata = {**dataset.to_metadata(), **of_plan.to_metadata(), **footer(zone_info)}
    written = [0, 0]
    with ExitStack() as stack:
        writers = [
            stack.enter_context(_writer(stack.enter_context(published(folder / name)), schema))
            for name, schema in zip(names, (ZONES_SCHEMA, TRANSFERS_SCHEMA), strict=True)
        ]
        for tables in _tables(plan, pieces, topology):
            for number, (writer, table) in enumerate(zip(writers, tables, strict=True)):
                if len(table):
                    writer.write_table(table, row_group_size=len(table))
                    written[number] += len(table)
        for writer in writers:
            writer.add_key_value_metadata(metadata)
    return written[0], written[1]


def _writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        path, schema, compression="zstd", compression_level=1, write_page_checksum=True,
        store_schema=False,
    )  # fmt: skip


def _tables(
    plan: pa.Table, pieces: tuple[Ints, Ints, Ints], topology: Topology
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Give tables of whole slots: zones and transfers."""
    row_id, bounds, length = pieces
    order = np.argsort(row_id, kind="stable")
    rows = plan["row_id"].to_numpy()
    at = order[np.searchsorted(row_id, rows, sorter=order)]
    step, slot = plan["step"].to_numpy(), plan["slot"].to_numpy()
    changed = np.flatnonzero((np.diff(step) != 0) | (np.diff(slot) != 0)) + 1
    found: list[tuple[pa.Table, pa.Table]] = []
    waiting = 0
    for a, b in pairwise([0, *changed.tolist(), len(rows)]):
        mine = at[a:b]
        count = bounds[mine + 1] - bounds[mine]
        number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        divided = plan_zones(length[np.repeat(bounds[mine], count) + number], topology)
        where = (step[a : a + 1], slot[a : a + 1])
        found.append(
            (
                _zones_table(where, np.repeat(rows[a:b], count), number, divided),
                _transfers_table(where, divided),
            )
        )
        waiting += len(number)
        if waiting >= _GROUP_PIECES:
            yield _joined(found)
            found, waiting = [], 0
    if found:
        yield _joined(found)


def _joined(found: list[tuple[pa.Table, pa.Table]]) -> tuple[pa.Table, pa.Table]:
    zones, transfers = (pa.concat_tables(tables) for tables in zip(*found, strict=True))
    return zones, transfers


_Where = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]


def _zones_table(where: _Where, row_id: Ints, number: Ints, plan: ZonePlan) -> pa.Table:
    """Return the rows of ``zones.parquet`` for one slot."""
    bounds, offsets = plan.chunks
    n = len(number)
    columns: list[Any] = [
        np.repeat(where[0], n),
        np.repeat(where[1], n),
        row_id,
        number.astype(np.int32),
        plan.length.astype(np.int32),
        pa.array(np.array(ZONES, dtype=object)[plan.zone], pa.string()),
        pa.ListArray.from_arrays(plan.first.astype(np.int32), plan.rank, type=_list()),
        pa.ListArray.from_arrays(bounds.astype(np.int32), offsets.astype(np.int32), type=_list()),
    ]
    return pa.Table.from_arrays(
        [c if isinstance(c, pa.Array) else pa.array(c) for c in columns], schema=ZONES_SCHEMA
    )


def _transfers_table(where: _Where, plan: ZonePlan) -> pa.Table:
    """Return the rows of ``transfers.parquet`` for one slot."""
    moved = plan.transfers
    n = len(moved.tokens)
    columns = [
        np.repeat(where[0], n),
        np.repeat(where[1], n),
        moved.source,
        moved.target,
        moved.tokens.astype(np.int32),
    ]
    return pa.Table.from_arrays([pa.array(c) for c in columns], schema=TRANSFERS_SCHEMA)


def load_zones(path: str | os.PathLike[str]) -> tuple[ZoneInfo, pa.Table]:
    """Read ``zones.parquet`` and its footer.

    Raises:
        ShardError: it is missing, damaged, or no zone plan.
    """
    where = os.fspath(path)
    info, table = _load(where, ZONES_SCHEMA)
    return ZoneInfo.from_metadata(info, where), table


def load_transfers(path: str | os.PathLike[str]) -> pa.Table:
    """Read ``transfers.parquet``.

    Raises:
        ShardError: it is missing, damaged, or holds no transfers.
    """
    return _load(os.fspath(path), TRANSFERS_SCHEMA)[1]


def _load(where: str, schema: pa.Schema) -> tuple[dict[bytes, bytes] | None, pa.Table]:
    try:
        with pq.ParquetFile(where, page_checksum_verification=True) as file:
            if file.schema_arrow.names != schema.names:
                raise ShardError(f"{where}: its columns are not those of a zone plan; restore it")
            return file.metadata.metadata, file.read(use_threads=False).cast(schema)
    except FileNotFoundError as error:
        raise ShardError(f"{where}: not found; make the plan again with drystone replan") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ShardError(f"{where}: cannot be read ({error}); restore the file") from error

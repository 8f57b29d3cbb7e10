"""Zone plans on disk: written for a plan, proved by verify, and each planted fault found."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packing.cost import ModelShape
from packing.format import ShardError, load_manifest
from packing.schedule import load_plan
from packing.topology import Topology
from packing.verify import verify
from packing.verify_zones import ZONE_CHECKS
from packing.zone_file import (
    TRANSFERS_FILE,
    ZONES_FILE,
    ZONES_SCHEMA,
    load_zones,
    piece_lengths,
    write_zones,
)

SHAPE = ModelShape(layers=2, hidden=8, heads=2, kv_heads=1, head_dim=4, ffn=16)


def add_zones(world: Any, **settings: Any) -> None:
    """Write zone plans for a dataset, and list them in its manifest."""
    plan = load_plan(str(world.folder / "plan.parquet"))
    topology = Topology.of(
        ranks=world.dp,
        ranks_per_node=2,
        rank_tokens=world.micro_batch * world.info.seq_len,
        shape=SHAPE,
        **settings,
    )
    pieces = piece_lengths(world.folder, load_manifest(str(world.folder)))
    names = (ZONES_FILE, TRANSFERS_FILE)
    write_zones(world.folder, names, plan.table, pieces, topology, (world.info, plan.info))
    listed(world)


def listed(world: Any) -> None:
    """Bring the manifest up to date with the files."""
    path = world.folder / "manifest.json"
    value = json.loads(path.read_text())
    names = {f["name"] for f in value["files"]}
    value["config"]["ranks_per_node"] = 2
    for name in (ZONES_FILE, TRANSFERS_FILE):
        if name not in names:
            value["files"].append({"name": name, "rows": 0, "bytes": 0, "sha256": ""})
    path.write_text(json.dumps(value))
    world.write_manifest()
    value["files"] = json.loads(path.read_text())["files"]
    path.write_text(json.dumps(value))


def change(world: Any, name: str, column: str, values: Any) -> None:
    """Change a column of a zone file behind the writer's back."""
    path = world.folder / name
    metadata = pq.read_metadata(path).metadata
    table = pq.read_table(path)
    at = table.schema.get_field_index(column)
    field = pq.read_schema(path).field(at)
    table = table.set_column(at, field, pa.array(values(table[column].to_pylist()), field.type))
    with pq.ParquetWriter(path, table.schema, write_page_checksum=True) as writer:
        writer.add_key_value_metadata(
            {k: v for k, v in metadata.items() if k.startswith(b"drystone.")}
        )
        writer.write_table(table)
    listed(world)


def test_lengths_are_those_of_the_rows(make_world: Any) -> None:
    """Row ids, bounds and lengths, over shards and row groups."""
    world = make_world()
    row_id, bounds, length = piece_lengths(world.folder, load_manifest(str(world.folder)))
    assert row_id.tolist() == [row.id for row in world.rows]
    for i, row in enumerate(world.rows):
        found = length[bounds[i] : bounds[i + 1]].tolist()
        assert found == [len(piece.tokens) for piece in row.pieces]


def test_written_plans_are_proved(make_world: Any) -> None:
    """Verify carries out the checks of zones and they hold; the files name plan and topology."""
    world = make_world()
    add_zones(world)
    findings = verify(world.folder)
    assert findings.failures == []
    assert set(ZONE_CHECKS) <= set(findings.held)
    info, table = load_zones(world.folder / ZONES_FILE)
    assert (info.nodes, info.ranks_per_node, info.ranks) == (2, 2, 4)
    assert info.capacity == 160
    assert table.schema.names == ZONES_SCHEMA.names
    assert set(table["zone"].to_pylist()) > {"local"}


def test_datasets_without_zones_prove_none(make_world: Any) -> None:
    """What a dataset does not have is neither held nor open."""
    findings = verify(make_world().folder)
    assert not set(ZONE_CHECKS) & (set(findings.held) | set(findings.unproved))


def test_the_same_bytes(make_world: Any, tmp_path: Any) -> None:
    """Written twice, the files are the same."""
    world = make_world()
    add_zones(world)
    first = [(world.folder / name).read_bytes() for name in (ZONES_FILE, TRANSFERS_FILE)]
    add_zones(world)
    assert first == [(world.folder / name).read_bytes() for name in (ZONES_FILE, TRANSFERS_FILE)]


def failing(world: Any) -> dict[str, list[str]]:
    return dict(verify(world.folder).failed)


def plus_one(values: list[Any]) -> list[Any]:
    return [values[0] + 1, *values[1:]]


@pytest.mark.parametrize("column", ["step", "slot", "row_id", "piece", "length"])
def test_other_pieces_are_found(make_world: Any, column: str) -> None:
    """An entry for another piece, step or length."""
    world = make_world()
    add_zones(world)
    change(world, ZONES_FILE, column, plus_one)
    assert list(failing(world)) == [ZONE_CHECKS[0]]


@pytest.mark.parametrize(
    ("column", "new", "message"),
    [
        ("ranks", [4], "outside the topology"),
        ("ranks", [1, 0], "do not ascend"),
        ("ranks", [0, 1, 2], "other than two chunks a rank"),
        ("chunk_offsets", [0, 9, 3], "overlap"),
        ("chunk_offsets", [1, 1, 1], "do not cover"),
        ("zone", "inter", "another zone"),
    ],
)
def test_senseless_divisions_are_found(
    make_world: Any, column: str, new: Any, message: str
) -> None:
    """Ranks, chunks and zones that contradict themselves."""
    world = make_world()
    add_zones(world, zone_mode="capacity")
    at = load_zones(world.folder / ZONES_FILE)[1]["zone"].to_pylist().index("local")
    change(world, ZONES_FILE, column, lambda old: [*old[:at], new, *old[at + 1 :]])
    [(check, examples)] = failing(world).items()
    assert check == ZONE_CHECKS[0]
    assert message in examples[0]


def test_full_ranks_and_wrong_transfers_are_found(make_world: Any) -> None:
    """A rank over its capacity, and transfers that leave ranks unequal."""
    world = make_world()
    add_zones(world, zone_mode="capacity")
    zones = load_zones(world.folder / ZONES_FILE)[1]
    width = [len(ranks) for ranks in zones["ranks"].to_pylist()]
    change(
        world,
        ZONES_FILE,
        "ranks",
        lambda old: [[0] if n == 1 else ranks for n, ranks in zip(width, old, strict=True)],
    )
    assert list(failing(world)) == list(ZONE_CHECKS[1:])
    add_zones(world)
    change(world, TRANSFERS_FILE, "tokens", lambda old: [old[0] + 3, *old[1:]])
    assert list(failing(world)) == [ZONE_CHECKS[2]]


def test_missing_and_foreign_zone_files_are_found(make_world: Any) -> None:
    """No file, and the file of another plan."""
    world = make_world()
    add_zones(world)
    (world.folder / ZONES_FILE).unlink()
    assert ZONE_CHECKS[0] in failing(world)
    with pytest.raises(ShardError, match="not found"):
        load_zones(world.folder / ZONES_FILE)
    with pytest.raises(ShardError, match="not those of a zone plan"):
        load_zones(world.folder / "plan.parquet")


def test_zones_of_a_plan_over_some_rows(make_world: Any) -> None:
    """A plan that leaves rows out and orders others anew gets the zones of its own slots."""
    world = make_world()
    plan = load_plan(str(world.folder / "plan.parquet"))
    some = plan.table.slice(8)
    some = some.take(np.arange(len(some))[::-1])
    topology = Topology.of(ranks=2, ranks_per_node=1, rank_tokens=512, shape=SHAPE)
    pieces = piece_lengths(world.folder, load_manifest(str(world.folder)))
    names = ("zones-x.parquet", "transfers-x.parquet")
    written, _ = write_zones(world.folder, names, some, pieces, topology, (world.info, plan.info))
    table = load_zones(world.folder / names[0])[1]
    of = {row.id: [len(p.tokens) for p in row.pieces] for row in world.rows}
    expected = [n for row in some["row_id"].to_pylist() for n in of[row]]
    assert table["length"].to_pylist() == expected
    assert written == len(expected)

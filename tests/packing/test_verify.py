"""Verification: a good dataset holds, and each planted violation is found under its name."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import packing.verify_pieces
from packing.findings import Findings
from packing.format import ShardError
from packing.reader import PackedReader
from packing.verify import CHECKS, verify
from packing.verify_pieces import Digest
from packing.verify_plan import _report_balance
from packing.verify_zones import ZONE_CHECKS
from packing.writer import RowFileWriter, write_plan


def long_row(world):
    """A row that one piece of a cut document fills."""
    return next(r for r in world.rows if len(r.pieces[0].tokens) == world.info.seq_len)


def whole(world, more_than=1):
    """A piece that is a document of its own."""
    return next(
        p
        for r in world.rows
        for p in r.pieces
        if p.offset == 0 and p.next < 0 and len(p.tokens) > more_than
    )


def rewrite_column(world, column, change):
    """Change a list column of the second shard behind the writer's back."""
    path = world.folder / "rows-00001.parquet"
    metadata = pq.read_metadata(path).metadata
    table = pq.read_table(path)
    at = table.schema.get_field_index(column)
    values = change(table[column].to_pylist())
    bad = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.types[at]))
    kept = {k: v for k, v in metadata.items() if k.startswith(b"drystone.")}
    with pq.ParquetWriter(path, bad.schema, write_page_checksum=True) as writer:
        writer.add_key_value_metadata(kept)
        writer.write_table(bad)
    world.write_manifest()


def test_good_dataset_holds(make_world):
    """Every check is carried out and holds on a dataset made by an independent packer."""
    world = make_world(spans=True)
    findings = verify(world.folder)
    assert findings.failures == []
    assert set(findings.held) | set(findings.unproved) == set(CHECKS) - set(ZONE_CHECKS)
    assert list(findings.unproved) == ["placements are those of the rows"]
    assert findings.counts["rows"] == len(world.rows)
    assert findings.counts["documents"] == len(world.documents)
    tokens = sum(map(len, world.documents.values()))
    assert findings.counts["tokens"] == tokens
    assert findings.counts["padding"] == pytest.approx(1 - tokens / (64 * len(world.rows)))
    assert findings.counts["slot_max_over_mean"] >= 1
    assert json.loads(json.dumps(findings.to_json()))["ok"] is True


def test_many_segments_prove_the_same(make_world, monkeypatch):
    """Pieces that do not fit in memory are judged the same from segments on disk."""
    world = make_world(spans=True)
    expected = verify(world.folder).to_json()
    monkeypatch.setattr(packing.verify_pieces, "_SEGMENT", 7)
    assert verify(world.folder).to_json() == expected
    world.parents = {}
    world.write_manifest()
    alone = verify(world.folder)
    assert alone.ok
    assert alone.counts["documents"] == len(world.documents)


def test_what_cannot_be_proved_is_named(make_world):
    """Without the tokens artifact the dataset is judged by itself, and the rest is listed."""
    world = make_world()
    world.parents = {"encode": "0" * 64}
    world.write_manifest()
    findings = verify(world.folder)
    assert findings.ok
    assert "tokens are those of the tokens artifact" in findings.unproved
    assert "every selected token is placed once per copy" in findings.unproved
    assert "no document that fits is cut" in findings.held
    assert "encode-000000000000" in findings.unproved["tokens are those of the tokens artifact"]


def test_folder_without_manifest_is_no_dataset(tmp_path):
    """There is nothing to verify without a manifest."""
    with pytest.raises(ShardError, match="no finished dataset"):
        verify(tmp_path)


def test_placements_are_compared(make_world):
    """placements.parquet, where there is one, agrees with the rows or is named."""
    world = make_world()
    columns = {
        "row_id": [r.id for r in world.rows for _ in r.pieces],
        "doc_uid": [p.uid for r in world.rows for p in r.pieces],
        "copy": [0 for r in world.rows for _ in r.pieces],
        "token_start": [p.offset for r in world.rows for p in r.pieces],
        "token_end": [p.offset + len(p.tokens) for r in world.rows for p in r.pieces],
        "row_offset": [
            sum(len(q.tokens) for q in r.pieces[:k])
            for r in world.rows
            for k in range(len(r.pieces))
        ],
    }
    path = world.folder / "placements.parquet"
    check = "placements are those of the rows"
    pq.write_table(pa.table(columns), path)
    assert check in verify(world.folder).held
    columns["token_end"][5] += 1
    pq.write_table(pa.table(columns), path)
    assert "token_end differs" in verify(world.folder).failed[check][0]
    columns["token_end"][5] -= 1
    pq.write_table(pa.table({k: [*v, 1] for k, v in columns.items()}), path)
    assert verify(world.folder).failed[check] == ["there are more placements than pieces"]
    pq.write_table(pa.table({k: v[:-1] for k, v in columns.items()}), path)
    assert check in verify(world.folder).failed


def changed_token(world):
    whole(world).tokens[0] = 499


def lost_document(world):
    row = next(r for r in world.rows if len(r.pieces) > 1 and r.pieces[0].next < 0)
    del row.pieces[0]


def doubled_document(world):
    piece = whole(world)
    twin = type(piece)(piece.uid, piece.tokens, 0, 0, -1, piece.domain)
    next(r for r in world.rows if piece in r.pieces).pieces.append(twin)


def second_copy_only(world):
    whole(world).copy = 1


def unknown_document(world):
    piece = whole(world)
    piece.uid = 3


def shortened_document(world):
    del whole(world).tokens[-1]


def needless_cut(world):
    row = next(r for r in world.rows for p in r.pieces if p is whole(world, more_than=4))
    piece = whole(world, more_than=4)
    at = row.pieces.index(piece)
    rest = type(piece)(piece.uid, piece.tokens[2:], 2, 0, -1, piece.domain)
    piece.next = piece.tokens[2]
    piece.tokens = piece.tokens[:2]
    row.pieces.insert(at + 1, rest)


def long_cut_elsewhere(world):
    row = long_row(world)
    piece = row.pieces[0]
    rest = type(piece)(piece.uid, piece.tokens[9:], piece.offset + 9, 0, piece.next, piece.domain)
    piece.next = piece.tokens[9]
    piece.tokens = piece.tokens[:9]
    row.pieces.append(rest)


def wrong_next(world):
    piece = long_row(world).pieces[0]
    piece.next = 499 if piece.next != 499 else 498


def next_after_the_end(world):
    whole(world).next = 5


def wrong_offset(world):
    whole(world).offset = 1


def wrong_domain(world):
    piece = whole(world)
    piece.domain = 1 - piece.domain


def other_weight(world):
    row = next(r for r in world.rows if r.spans)
    start, end, weight = row.spans[0]
    row.spans[0] = (start, end, weight + 1)


def untrained_row(world):
    row = next(r for r in world.rows if r.spans is None and len(r.pieces[0].tokens) > 1)
    row.spans = []


def swapped_rows(world):
    world.rows[0], world.rows[1] = world.rows[1], world.rows[0]
    world.write()
    world.rows[0], world.rows[1] = world.rows[1], world.rows[0]
    rewrite_plan(world, lambda columns: None)


def rewrite_plan(world, change, **numbers):
    """Write the plan again with some columns changed."""
    columns = {
        name: world.plan_table()[name].to_numpy().copy() for name in world.plan_table().column_names
    }
    change(columns)
    numbers = {"dp": 4, "micro_batch": 2, "slots_per_step": 2, **numbers}
    write_plan(world.folder / "plan.parquet", pa.table(columns), world.info, **numbers)
    world.write_manifest()


PLANTED = {
    changed_token: "tokens are those of the tokens artifact",
    lost_document: "every selected token is placed once per copy",
    doubled_document: "pieces of a document join",
    second_copy_only: "pieces of a document join",
    unknown_document: "every selected token is placed once per copy",
    shortened_document: "every selected token is placed once per copy",
    needless_cut: "no document that fits is cut",
    long_cut_elsewhere: "long documents are cut into full rows and one remainder",
    wrong_next: "next_token is the document's next token",
    next_after_the_end: "next_token is the document's next token",
    wrong_offset: "pieces of a document join",
    wrong_domain: "domains are those of the tokens artifact",
    other_weight: "loss spans are those of the tokens artifact",
    untrained_row: "loss spans are those of the tokens artifact",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda f: f.__name__)
def test_planted_violations_of_rows(make_world, plant):
    """A dataset with one document tampered with fails the check that promises otherwise."""
    world = make_world(spans="loss spans" in PLANTED[plant])
    plant(world)
    world.write()
    findings = verify(world.folder)
    assert PLANTED[plant] in findings.failed, findings.to_json()
    assert not findings.ok
    line = next(line for line in findings.failures if line.startswith(PLANTED[plant]))
    assert "document " in line


PLANS = {
    "cost": (lambda c: c["cost"].__setitem__(3, 1.0), {}, "costs are those of the rows"),
    "order": (
        lambda c: c["row_id"].__setitem__(slice(0, 2), c["row_id"][1::-1].copy()),
        {},
        "the plan deals every row once, in shard order",
    ),
    "twice": (
        lambda c: c["row_id"].__setitem__(1, c["row_id"][0]),
        {},
        "the plan deals every row once, in shard order",
    ),
    "short slot": (
        lambda c: c["slot"].__setitem__(7, 1),
        {},
        "slots and steps are full up to the last",
    ),
    "slot missing": (
        lambda c: c["slot"].__setitem__(slice(0, 8), 1),
        {},
        "slots and steps are full up to the last",
    ),
    "more slots": (
        lambda c: None,
        {"slots_per_step": 1},
        "slots and steps are full up to the last",
    ),
    "ranks": (
        lambda c: c["rank"].__setitem__(slice(0, 8), c["rank"][7::-1].copy()),
        {},
        "the plan deals every row once, in shard order",
    ),
    "steps from one": (
        lambda c: c["step"].__setitem__(slice(None), c["step"] + 1),
        {},
        "slots and steps are full up to the last",
    ),
    "slot numbers": (
        lambda c: c["slot"].__setitem__(slice(None), c["slot"] + 1),
        {},
        "slots and steps are full up to the last",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_planted_violations_of_the_plan(make_world, name):
    """A plan that is not what it should be is found."""
    world = make_world()
    change, numbers, check = PLANS[name]
    rewrite_plan(world, change, **numbers)
    findings = verify(world.folder)
    assert check in findings.failed, findings.to_json()


def test_rows_in_another_order_than_the_plan(make_world):
    """Two rows that changed places in the shards are found."""
    world = make_world()
    swapped_rows(world)
    assert "the same ones in another order" in verify(world.folder).failures[0]


def test_planted_violations_of_files(make_world):
    """A flipped byte, a foreign shard and another tokenizer are found."""
    world = make_world()
    path = world.folder / "rows-00001.parquet"
    good = path.read_bytes()
    bad = bytearray(good)
    bad[100] ^= 1
    path.write_bytes(bytes(bad))
    findings = verify(world.folder)
    assert "rows-00001.parquet: sha256" in findings.failed["files have the manifest's sha256"][0]
    assert "columns agree and pages are intact" in findings.failed
    assert "some rows could not be read" in findings.unproved["no document that fits is cut"]
    path.write_bytes(b"PAR1")
    assert "columns agree and pages are intact" in verify(world.folder).failed
    path.unlink()
    assert "missing" in verify(world.folder).failed["files have the manifest's sha256"][0]
    path.write_bytes(good)
    (world.folder / "tokenizer.model").write_bytes(b"another tokenizer")
    world.write_manifest()
    assert "tokenizer.model" in verify(world.folder).failed["footers agree"][0]


def test_values_that_only_another_writer_could_make(make_world):
    """Ids, next tokens, domains and spans out of range are found, whoever wrote them."""
    world = make_world()
    rewrite_column(world, "next_token", lambda v: [[700] * len(v[0]), *v[1:]])
    assert "ids lie within the vocabulary" in verify(world.folder).failed
    world.write()
    rewrite_column(world, "domain", lambda v: [[9] * len(v[0]), *v[1:]])
    assert "ids lie within the vocabulary" in verify(world.folder).failed
    world.write()
    rewrite_column(world, "input_ids", lambda v: [[700] * len(v[0]), *v[1:]])
    assert "ids lie within the vocabulary" in verify(world.folder).failed
    world.write()
    span = {"start": 3, "end": 2, "weight": 1.0}
    rewrite_column(world, "loss_spans", lambda v: [[span], *v[1:]])
    findings = verify(world.folder)
    assert "loss spans are ordered and lie in their rows" in findings.failed
    assert "loss spans are those of the tokens artifact" in findings.unproved
    with PackedReader(world.folder) as reader, pytest.raises(ShardError, match="spans overlap"):
        assert [b.labels for step in reader.steps() for b in step.micro_batches]


def test_row_too_long_and_foreign_footers(make_world, plain):
    """A row longer than the sequence length, and a shard of another dataset, are found."""
    world = make_world()
    with RowFileWriter(world.folder / "rows-00001.parquet", world.info, longest=999) as writer:
        half = len(world.rows) // 2
        world.rows[-1].pieces.append(type(world.rows[0].pieces[0])(5, [4] * 64))
        writer.write(plain.group_of(world.rows[half:]))
    world.write_manifest()
    assert "rows are no longer than the sequence length" in verify(world.folder).failed
    with RowFileWriter(
        world.folder / "rows-00001.parquet", replace(world.info, seed=9), longest=999
    ) as writer:
        writer.write(plain.group_of(world.rows[half:]))
    world.write_manifest()
    assert "footers agree" in verify(world.folder).failed
    manifest = (world.folder / "manifest.json").read_text()
    (world.folder / "manifest.json").write_text(manifest.replace("d" * 64, "7" * 64))
    assert "plan.parquet belongs to" in verify(world.folder).failed["footers agree"][0]


def test_tokens_artifact_that_cannot_be_read(make_world):
    """A damaged tokens artifact fails the checks that need it."""
    world = make_world()
    first, *_ = sorted(world.folder.parent.glob("encode-*/*.parquet"))
    first.write_bytes(b"PAR1 nothing PAR1")
    assert "tokens are those of the tokens artifact" in verify(world.folder).failed


def test_mixture_leaves_the_copies_open(make_world):
    """With a mixture among the parents the number of copies is named as not compared."""
    world = make_world()
    world.parents["mixture"] = "a" * 64
    world.write_manifest()
    findings = verify(world.folder)
    assert "mixture" in findings.unproved["every selected token is placed once per copy"]


def test_unknown_model_leaves_costs_open(make_world):
    """Without the model's shape costs cannot be recomputed, and that is said."""
    world = make_world()
    path = world.folder / "manifest.json"
    value = json.loads(path.read_text())
    value["config"] = {}
    path.write_text(json.dumps(value))
    assert "shape" in verify(world.folder).unproved["costs are those of the rows"]


def test_short_last_step_is_left_out_of_the_balance():
    """A last step in which one rank has a row more counts neither as a step nor as a slot."""
    columns = {
        "step": [0, 0, 0, 0, 1, 1, 1],
        "slot": [0, 0, 1, 1, 0, 0, 1],
        "rank": [0, 1, 0, 1, 0, 1, 0],
        "cp": [1] * 7,
        "cost": [3.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0],
    }
    plan = SimpleNamespace(info=SimpleNamespace(dp=2), row_id=range(7), table=pa.table(columns))
    findings = Findings("d")
    _report_balance(findings, plan, np.empty(0, np.int64))
    ratios = {"step_max_over_mean": 1.0, "slot_max_over_mean": round((1.5 + 1.5 + 1) / 3, 6)}
    assert findings.counts == ratios


def test_digest_is_of_tokens_and_places():
    """Equal runs have equal digests wherever they stand; another order, token or length differs."""
    digest = Digest()
    runs = [[1, 2, 3], [1, 2, 3], [3, 2, 1], [1, 2], [1, 2, 3, 0], [0], [0, 0]]
    tokens = np.array([t for r in runs for t in r], np.int32)
    found = digest(tokens, np.array([len(r) for r in runs], np.int64)).tolist()
    assert found[0] == found[1]
    assert len(set(found)) == len(runs) - 1
    assert len(digest(tokens[:0], np.empty(0, np.int64))) == 0

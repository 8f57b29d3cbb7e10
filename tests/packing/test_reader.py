"""The reader: right tokens, labels and positions, for any world, after any interruption."""

import random
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs

from packing.format import ShardError, load_manifest
from packing.reader import PackedReader, ReaderState
from packing.rows import MicroBatch
from packing.schedule import load_plan
from packing.shard import ShardFile
from packing.show import show_row, show_step
from packing.storage import ShardFolder
from packing.writer import write_plan


def slow_targets(row, continue_positions=False):
    """Labels, positions and weights of one plain row, token by token."""
    labels, positions, weights = [], [], []
    at = 0
    for piece in row.pieces:
        for i in range(len(piece.tokens)):
            last = i == len(piece.tokens) - 1
            target = piece.next if last else piece.tokens[i + 1]
            weight = 1.0
            if row.spans is not None:
                inside = [w for a, b, w in row.spans if a <= at + 1 < b]
                weight = inside[0] if inside else 0.0
            if target < 0:
                weight = 0.0
            labels.append(target if target >= 0 and weight > 0 else -100)
            weights.append(weight)
            positions.append(i + (piece.offset if continue_positions else 0))
            at += 1
    return labels, positions, weights


def rows_of(batches):
    """(row id, tokens) of all rows of some micro-batches."""
    found = []
    for batch in batches:
        for k in range(batch.n_rows):
            a, b = batch.row_offsets[k : k + 2]
            found.append((int(batch.row_id[k]), batch.input_ids[a:b].tolist()))
    return found


def everything(reader, rank, world, state=None, epochs=1):
    """[(step, slot, row id, tokens)] that one rank gets."""
    return [
        (one.step, batch.slot, *row)
        for one in reader.steps(rank, world, state, epochs)
        for batch in one.micro_batches
        for row in rows_of([batch])
    ]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 30), count=st.integers(1, 6), continued=st.booleans())
def test_targets_are_those_of_a_slow_reference(plain, seed, count, continued):
    """Labels, positions and weights of a batch are what a loop over tokens gives."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        pieces = []
        for _ in range(rng.randrange(1, 5)):
            tokens = [rng.randrange(100) for _ in range(rng.randrange(1, 9))]
            pieces.append(
                plain.Piece(
                    5, tokens, rng.randrange(50), 0, rng.choice([-1, -1, rng.randrange(100)])
                )
            )
        row = plain.Row(number, pieces)
        if rng.random() < 0.7:
            row.spans = plain.random_spans(rng, sum(len(p.tokens) for p in pieces))
        rows.append(row)
    batch = MicroBatch.of(plain.group_of(rows), seq_len=40, pad_id=7, continue_positions=continued)
    expected = [slow_targets(row, continued) for row in rows]
    for values, name in enumerate(("labels", "position_ids", "loss_weights")):
        flat = [x for one in expected for x in one[values]]
        assert getattr(batch, name).tolist() == flat, name
    assert batch.labels.dtype == batch.position_ids.dtype == batch.cu_seqlens.dtype == np.int32
    padded = batch.padded(rows=count + 1)
    ids = [t for r in rows for p in r.pieces for t in p.tokens]
    at = 0
    segments = []
    for k, (labels, positions, weights) in enumerate(expected):
        n = len(labels)
        gap = 40 - n
        assert padded.input_ids[k].tolist() == ids[at : at + n] + [7] * gap
        assert padded.labels[k].tolist() == labels + [-100] * gap
        assert padded.position_ids[k].tolist() == positions + list(range(gap))
        assert padded.loss_weights[k].tolist() == weights + [0.0] * gap
        segments += [len(p.tokens) for p in rows[k].pieces] + ([gap] if gap else [])
        at += n
    assert padded.input_ids[count].tolist() == [7] * 40
    assert np.diff(padded.cu_seqlens).tolist() == [*segments, 40]


def test_padding_refuses_what_does_not_fit(make_world):
    """A row longer than the shape asked for is an error, not a truncation."""
    world = make_world()
    with PackedReader(world.folder) as reader:
        batch = reader.micro_batches(0)[0]
        with pytest.raises(ShardError, match="do not fit into 8 rows of 10"):
            batch.padded(length=10)
        with pytest.raises(ShardError, match="do not fit into 1 rows"):
            batch.padded(rows=1)
        assert batch.padded().input_ids.shape == (8, world.info.seq_len)


def test_reader_says_what_the_dataset_is(make_world):
    """Attributes are those of the footers and the plan."""
    world = make_world()
    with PackedReader(world.folder) as reader:
        assert reader.seq_len == 64
        assert reader.vocab_size == 500
        assert (reader.bos_id, reader.eos_id, reader.pad_id) == (None, 2, 2)
        assert reader.domain_names == ("even", "odd")
        assert reader.fingerprint == world.info.fingerprint
        assert (reader.slot_rows, reader.slots_per_step) == (8, 2)
        assert reader.n_rows == len(world.rows)
        assert reader.n_steps == world.place[-1][0] + 1


@pytest.mark.parametrize("world_size", [1, 2, 4, 8])
def test_every_world_covers_each_row_once(make_world, world_size):
    """Ranks of any world that divides the slot get each row of each slot once, as it was packed."""
    world = make_world(spans=True)
    expected = sorted(
        (step, slot, row.id, [t for p in row.pieces for t in p.tokens])
        for row, (step, slot, _) in zip(world.rows, world.place, strict=True)
    )
    found = []
    for rank in range(world_size):
        with PackedReader(world.folder, prefetch=rank % 2) as reader:
            found += everything(reader, rank, world_size)
    assert sorted(found) == expected


def test_the_plans_own_world_gets_the_plans_ranks(make_world):
    """With as many ranks as the plan was made for, each gets the rows that name it."""
    world = make_world()
    for rank in range(world.dp):
        with PackedReader(world.folder) as reader:
            got = {row for _, _, row, _ in everything(reader, rank, world.dp)}
        planned = zip(world.rows, world.place, strict=True)
        assert got == {row.id for row, (_, _, r) in planned if r == rank}


def test_short_last_step_gives_empty_batches(make_world):
    """A rank without a row in the short last slot gets a batch of no rows and no tokens."""
    world = make_world(rows=17)
    with PackedReader(world.folder) as reader:
        assert reader.n_steps == 2
        sizes = [[b.n_rows for b in reader.micro_batches(1, rank, 4)] for rank in range(4)]
        assert sizes == [[1], [0], [0], [0]]
        empty = reader.micro_batches(1, 3, 4)[0]
        assert (len(empty.input_ids), len(empty.labels), empty.cu_seqlens.tolist()) == (0, 0, [0])
        assert empty.padded().input_ids.shape == (0, 64)
        assert (empty.padded(rows=2).labels == -100).all()


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_resume_equals_uninterrupted(shared_world, data):
    """Stopped anywhere and gone on with another world, a run sees what it would have seen."""
    path, skip = shared_world, data.draw(st.sampled_from([(), ((1, 2),), ((0, 2),)]))
    worlds = data.draw(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=4))
    with PackedReader(path) as reader:
        begin = replace(reader.initial_state(), skip=skip)
        whole = [sorted(rows_of(one.micro_batches)) for one in reader.steps(state=begin, epochs=2)]
        steps = [s for s in range(reader.n_steps) if not begin.skips(s)]
    assert len(whole) == 2 * len(steps)
    state, seen = begin.to_dict(), []
    for world in [*worlds, 1]:
        stop = data.draw(st.integers(0, 3)) if len(seen) < len(whole) else 0
        parts = []
        for rank in range(world):
            with PackedReader(path) as reader:
                stream = reader.steps(rank, world, ReaderState.from_dict(state), epochs=2)
                parts.append([one for one, _ in zip(stream, range(stop), strict=False)])
        for ranks in zip(*parts, strict=True):
            assert len({one.state for one in ranks}) == 1, "the state is equal on all ranks"
            seen.append(sorted(row for one in ranks for row in rows_of(one.micro_batches)))
            state = ranks[0].state.to_dict()
    assert seen == whole[: len(seen)]


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory, plain):
    """A dataset of several steps, for the tests that only read."""
    from packing.format import DatasetInfo
    from packing.writer import RowFileWriter

    folder = tmp_path_factory.mktemp("shared")
    info = DatasetInfo(
        fingerprint="c" * 64, seq_len=8, strategy="concat", vocab_size=999, domains=("a",)
    )
    rows = [plain.Row(i, [plain.Piece(i, [i % 999] * (1 + i % 8))]) for i in range(75)]
    with RowFileWriter(folder / "rows-00000.parquet", info) as writer:
        for at in range(0, 75, 8):
            writer.write(plain.group_of(rows[at : at + 8]))
    number = np.arange(75)
    rank = np.where(number < 72, number % 8 // 2, number % 8)
    table = pa.table(
        {
            "row_id": number,
            "step": number // 24,
            "slot": number % 24 // 8,
            "rank": rank,
            "cp": np.ones(75, int),
            "cost": np.ones(75),
        }
    )
    write_plan(folder / "plan.parquet", table, info, dp=4, micro_batch=2, slots_per_step=3)
    names = [("rows-00000.parquet", 75), ("plan.parquet", 75)]
    plain.manifest(folder, "balance", info.fingerprint, names, {}, {})
    return folder


def test_skipping_everything_ends(shared_world):
    """A state that leaves out all steps gives none, also without a bound on epochs."""
    with PackedReader(shared_world) as reader:
        state = reader.initial_state().skipping(0, 9).skipping(3, 4)
        assert list(reader.steps(state=state, epochs=None)) == []
        assert state.to_dict()["skip"] == [[0, 9], [3, 4]]


def test_state_of_another_plan_is_refused(make_world):
    """A reader names both plans when a state belongs to another one, and damaged states."""
    world = make_world()
    with PackedReader(world.folder) as reader:
        other = ReaderState("f" * 64, 0, 1)
        with pytest.raises(ShardError) as error:
            next(reader.steps(state=other))
        assert "ffffffffffff" in str(error.value)
        assert reader.plan.plan_fingerprint[:12] in str(error.value)
        damaged = replace(reader.initial_state(), step=99)
        with pytest.raises(ShardError, match="epoch 0, step 99"):
            reader.check_state(damaged)


def test_worlds_and_steps_that_do_not_fit_are_refused(make_world):
    """The message names the world sizes that would do."""
    world = make_world()
    with PackedReader(world.folder) as reader:
        with pytest.raises(ShardError, match="use one of 1, 2, 4, 8"):
            next(reader.steps(0, 3))
        with pytest.raises(ShardError, match="world size 0"):
            reader.micro_batches(0, 0, 0)
        with pytest.raises(ShardError, match=r"rank 4 is outside \[0, 4\)"):
            reader.micro_batches(0, 4, 4)
        with pytest.raises(ShardError, match="outside the plan's steps"):
            reader.micro_batches(reader.n_steps, 0, 1)


def replanned(world, path, order, dp=2, micro_batch=1, slots_per_step=4, first_step=0):
    """Write another plan: rows in this order, dealt to slots one by one."""
    slot = dp * micro_batch
    number = np.arange(len(order))
    table = pa.table(
        {
            "row_id": np.array([world.rows[i].id for i in order]),
            "step": first_step + number // (slot * slots_per_step),
            "slot": number // slot % slots_per_step,
            "rank": number % slot // micro_batch,
            "cp": np.ones(len(order), int),
            "cost": np.ones(len(order)),
        }
    )
    return write_plan(
        path,
        table,
        world.info,
        dp=dp,
        micro_batch=micro_batch,
        slots_per_step=slots_per_step,
        horizon=8,
    )


@pytest.mark.parametrize("memory_bytes", [1, 256 << 20])
def test_another_plan_over_the_same_shards(make_world, tmp_path, memory_bytes):
    """A plan in any order is obeyed, whatever may be held in memory."""
    world = make_world()
    order = list(range(len(world.rows)))
    random.Random(4).shuffle(order)
    plan = tmp_path / "plan-2.parquet"
    info = replanned(world, plan, order)
    for size in (1, 2):
        got = []
        for rank in range(size):
            with PackedReader(world.folder, plan, memory_bytes=memory_bytes) as reader:
                assert reader.plan == info
                got += everything(reader, rank, size)
        expected = [
            (
                i // 8,
                i // 2 % 4,
                world.rows[k].id,
                [t for p in world.rows[k].pieces for t in p.tokens],
            )
            for i, k in enumerate(order)
        ]
        assert sorted(got) == sorted(expected)
        if size == 1:
            assert got == expected, "rows of a slot stand in the order of the plan"
    with PackedReader(world.folder) as reader, pytest.raises(ShardError, match="belongs to plan"):
        reader.check_state(ReaderState(info.plan_fingerprint))


def test_a_plan_of_the_rest_of_a_run(make_world, tmp_path):
    """A plan over the rows from a step on keeps the step's number and reads those rows alone."""
    world = make_world()
    path = tmp_path / "plan.parquet"
    replanned(world, path, list(range(16, len(world.rows))), first_step=1)
    with PackedReader(world.folder, path) as reader:
        assert (reader.first_step, reader.initial_state().step) == (1, 1)
        twice = list(reader.steps(epochs=2))
        steps = list(range(1, 1 + reader.n_steps))
        assert [one.step for one in twice] == steps * 2
        seen = [row for one in twice for row, _ in rows_of(one.micro_batches)]
        assert seen == [r.id for r in world.rows[16:]] * 2
        left_out = world.rows[2]
        assert rows_of([reader.rows([left_out.id])]) == [
            (left_out.id, [t for p in left_out.pieces for t in p.tokens])
        ]
        with pytest.raises(ShardError, match=r"step 0 is outside the plan's steps 1 to"):
            reader.micro_batches(0)
        with pytest.raises(ShardError, match="epoch 0, step 0; the plan has steps 1 to"):
            reader.check_state(replace(reader.initial_state(), step=0))


def test_plans_that_are_not_of_the_dataset_are_refused(make_world, tmp_path):
    """A plan of other rows or of another dataset, or one that contradicts itself, is named."""
    world = make_world()
    path = tmp_path / "plan.parquet"
    order = list(range(len(world.rows)))
    replanned(world, path, [*order[:-1], 0])
    with pytest.raises(ShardError, match="a row stands twice"):
        PackedReader(world.folder, path)
    known, world.rows[3].id = world.rows[3].id, 999
    replanned(world, path, order)
    world.rows[3].id = known
    with pytest.raises(ShardError, match="row 999 is not in the dataset"):
        PackedReader(world.folder, path)
    other = replace(world.info, fingerprint="9" * 64)
    write_plan(path, world.plan_table(), other, dp=4, micro_batch=2, slots_per_step=2)
    with pytest.raises(ShardError, match="a plan of dataset 999999999999"):
        PackedReader(world.folder, path)
    write_plan(path, world.plan_table(), world.info, dp=4, micro_batch=1, slots_per_step=2)
    with pytest.raises(ShardError, match="gives a rank more than 1 rows"):
        PackedReader(world.folder, path)
    table = world.plan_table()
    later = table.set_column(1, "step", pa.array(np.asarray(table["step"]) * 2, pa.int32()))
    write_plan(path, later, world.info, dp=4, micro_batch=2, slots_per_step=2)
    with pytest.raises(ShardError, match="are not numbered one after"):
        PackedReader(world.folder, path)
    pq.write_table(table, path)
    with pytest.raises(ShardError, match="no packed shard or plan"):
        load_plan(str(path))
    metadata = pq.read_metadata(world.folder / "plan.parquet").metadata
    pq.write_table(table.drop_columns("cost").replace_schema_metadata(metadata), path)
    with pytest.raises(ShardError, match="not those of a plan"):
        load_plan(str(path))
    path.write_bytes(b"nothing")
    with pytest.raises(ShardError, match="cannot be read as a plan"):
        load_plan(str(path))
    with pytest.raises(ShardError, match="not found"):
        load_plan(str(tmp_path / "none.parquet"))


def test_rows_shared_by_ranks(make_world, tmp_path):
    """Every rank of a row's block gets the row; only the plan's own world can read such a plan."""
    world = make_world(rows=12)
    number = np.arange(12)
    cp = np.where(number % 3 == 0, 2, 1)
    table = pa.table(
        {
            "row_id": np.array([r.id for r in world.rows]),
            "step": number // 3,
            "slot": number * 0,
            "rank": np.array([0, 2, 3])[number % 3],
            "cp": cp,
            "cost": np.ones(12),
        }
    )
    path = tmp_path / "plan.parquet"
    write_plan(path, table, world.info, dp=4, micro_batch=1, slots_per_step=1)
    with PackedReader(world.folder, path) as reader:
        batches = [reader.micro_batches(1, rank, 4)[0] for rank in range(4)]
        assert [b.row_id.tolist() for b in batches] == [[3], [3], [4], [5]]
        assert [b.cp is None or b.cp.tolist() for b in batches] == [[2], [2], True, True]
        with pytest.raises(ShardError, match="only its own world size 4"):
            reader.micro_batches(1, 0, 2)


def test_any_damage_is_found_or_harmless(make_world):
    """Whatever byte of a shard is changed, the reader refuses it or gives the same rows."""
    world = make_world(spans=True, documents=30)
    path = world.folder / "rows-00000.parquet"
    good = path.read_bytes()
    before = [row for g in read_all(path) for row in g]
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(2)
    rng = random.Random(3)
    refused = []
    for trial in range(600):
        # Every second flip hits the pages of token ids of the second group.
        low, high = 0, len(good)
        if trial % 2:
            low = chunk.data_page_offset + chunk.total_compressed_size // 3
            high = chunk.data_page_offset + chunk.total_compressed_size
        at = rng.randrange(low, high)
        bad = bytearray(good)
        bad[at] ^= rng.randrange(1, 256)
        path.write_bytes(bytes(bad))
        try:
            found = [row for g in read_all(path) for row in g]
        except ShardError as error:
            refused.append((trial, str(error)))
        else:
            assert not trial % 2
            assert found == before
    assert len(refused) > 420
    assert all("rows-00000.parquet" in text for _, text in refused)
    pages = [text for trial, text in refused if trial % 2]
    assert len(pages) == 300
    assert all("row group 1, column input_ids" in text for text in pages)


def read_all(path):
    """All rows of a shard as plain values, group by group."""
    file = ShardFile(str(path), path.name)
    for number in range(file.n_groups):
        group = file.read(number)
        yield [
            [getattr(group.slice(k, k + 1), name).tolist() for name in NAMES]
            for k in range(group.n_rows)
        ]


NAMES = (
    "row_id",
    "doc_uid",
    "doc_copy",
    "doc_offset",
    "length",
    "next_token",
    "domain",
    "input_ids",
)


def test_columns_that_contradict_each_other_are_named(make_world, tmp_path):
    """Intact pages with senseless lists are refused by file, row group and column."""
    world = make_world()
    path = world.folder / "rows-00001.parquet"
    table = pq.read_table(path)
    metadata = pq.read_metadata(path).metadata
    for column, change in (
        ("cu_seqlens", lambda v: [1, *v[1:]]),
        ("cu_seqlens", lambda v: [*v[:-1], v[-1] + 1]),
        ("cu_seqlens", lambda v: [0, 0, *v[1:]]),
        ("doc_uid", lambda v: [*v, 5]),
        ("input_ids", lambda v: v[:-1]),
        ("input_ids", lambda v: [500, *v[1:]]),
        ("input_ids", lambda v: [-1, *v[1:]]),
    ):
        values = table[column].to_pylist()
        values[2] = change(values[2])
        at = table.schema.get_field_index(column)
        bad = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.types[at]))
        pq.write_table(bad.replace_schema_metadata(metadata), path)
        with pytest.raises(ShardError, match=f"row group 0, column {column}"):
            ShardFile(str(path), path.name).read(0)


def test_folders_that_do_not_agree_are_refused(make_world):
    """Missing shards, other shards and a plan of another dataset are named."""
    world = make_world()
    first = world.folder / "rows-00000.parquet"
    kept = first.read_bytes()
    shutil.copy(world.folder / "rows-00001.parquet", first)
    with PackedReader(world.folder) as reader, pytest.raises(ShardError, match="hold rows"):
        list(reader.steps())
    first.unlink()
    with PackedReader(world.folder) as reader, pytest.raises(ShardError, match="missing"):
        list(reader.steps())
    first.write_bytes(kept)
    rows = world.rows
    rows[0].id, rows[1].id = rows[1].id, rows[0].id
    write_plan(
        world.folder / "plan.parquet",
        world.plan_table(),
        world.info,
        dp=4,
        micro_batch=2,
        slots_per_step=2,
    )
    with PackedReader(world.folder) as reader, pytest.raises(ShardError, match="where the plan"):
        list(reader.steps())
    manifest = (world.folder / "manifest.json").read_text()
    (world.folder / "manifest.json").write_text(manifest.replace("d" * 64, "8" * 64))
    with pytest.raises(ShardError, match="beside a manifest of 888888888888"):
        PackedReader(world.folder)
    (world.folder / "manifest.json").write_text(
        manifest.replace('"rows-00001.parquet", "rows": ', '"rows-00001.parquet", "rows": 1')
    )
    with pytest.raises(ShardError, match="the shards"):
        PackedReader(world.folder)
    with pytest.raises(ShardError, match="no finished dataset"):
        PackedReader(world.folder / "nowhere")


class Remote:
    """A dataset behind a file system that pyarrow does not know to be local."""

    def __init__(self, world):
        self.filesystem = fs.SubTreeFileSystem(str(world.folder.parent), fs.LocalFileSystem())
        self.path = world.folder.name
        self.folder = world.folder


def test_remote_datasets_with_and_without_a_cache(make_world, tmp_path):
    """A remote dataset gives the same batches; its cache holds shards within its bound."""
    world = make_world(spans=True)
    remote = Remote(world)
    cache = tmp_path / "cache"
    with PackedReader(world.folder) as reader:
        expected = everything(reader, 1, 2)
    largest = max(p.stat().st_size for p in world.folder.glob("rows-*"))
    for options in ({}, {"cache_dir": cache}, {"cache_dir": cache, "cache_bytes": largest}):
        for _ in range(2):
            with PackedReader(remote.path, filesystem=remote.filesystem, **options) as reader:
                assert everything(reader, 1, 2) == expected
    held = [p for p in cache.glob("*/*") if not p.name.startswith(".")]
    assert [p.name for p in held] == ["rows-00001.parquet"]
    assert sum(p.stat().st_size for p in held) <= largest


def test_copies_are_checked_and_made_once(make_world, tmp_path):
    """A copy with other bytes than the manifest's is refused; an intact one is not made again."""
    world = make_world()
    remote = Remote(world)
    with PackedReader(
        remote.path, filesystem=remote.filesystem, cache_dir=tmp_path / "a"
    ) as reader:
        reader.micro_batches(0)
        copy = next((tmp_path / "a").glob("*/rows-00000.parquet"))
        made = copy.stat().st_ino
    with PackedReader(
        remote.path, filesystem=remote.filesystem, cache_dir=tmp_path / "a"
    ) as reader:
        reader.micro_batches(0)
        assert copy.stat().st_ino == made
    path = world.folder / "rows-00000.parquet"
    damaged = bytearray(path.read_bytes())
    damaged[50] ^= 1
    path.write_bytes(bytes(damaged))
    with (
        PackedReader(remote.path, filesystem=remote.filesystem, cache_dir=tmp_path / "b") as reader,
        pytest.raises(ShardError, match="sha256 of the copy"),
    ):
        reader.micro_batches(0)


def test_a_copy_removed_by_another_process_is_made_again(make_world, tmp_path):
    """Processes share a cache: what one removes to make room, another copies anew."""
    world = make_world()
    remote = Remote(world)
    with PackedReader(world.folder) as reader:
        entry, fingerprint = load_manifest(str(world.folder)).row_files[0], reader.fingerprint
    folder = ShardFolder(remote.path, remote.filesystem, str(tmp_path), 1 << 30)
    folder.open(entry, fingerprint).close()
    next(tmp_path.glob("*/rows-*")).unlink()
    folder.open(entry, fingerprint).close()
    assert next(tmp_path.glob("*/rows-*")).stat().st_size == entry.bytes
    folder.close()
    with pytest.raises(ShardError, match="closed"):
        folder.open(replace(entry, name="rows-9.parquet"), fingerprint)


def test_locations_are_resolved(make_world):
    """A file URI is read like a folder; an unknown scheme is refused."""
    world = make_world()
    with PackedReader(f"file://{world.folder}") as reader:
        assert reader.n_rows == len(world.rows)
    with pytest.raises(ShardError, match="not a location pyarrow can open"):
        PackedReader("nonsense://somewhere/else")


def test_rows_by_number_and_shown(make_world):
    """A row is found by its number, and shown with its documents and trained tokens."""
    world = make_world(spans=True)
    with PackedReader(world.folder) as reader:
        some = [world.rows[k].id for k in (7, 3, 3, 20)]
        batch = reader.rows(some)
        assert batch.row_id.tolist() == some
        with pytest.raises(ShardError, match="no row 1000"):
            reader.rows([1000])
        for row in world.rows[:10]:
            shown = show_row(reader, row.id, lambda ids: " ".join(map(str, ids)))
            labels = slow_targets(row)[0]
            assert shown.trained == sum(label != -100 for label in labels)
            assert shown.tokens == len(labels)
            assert shown.padding == 64 - len(labels)
            assert [p.text for p in shown.pieces] == [
                " ".join(map(str, p.tokens)) for p in row.pieces
            ]
            assert shown.to_json()["pieces"][0]["doc_uid"] == row.pieces[0].uid
            text = shown.to_text(max_chars=3)
            assert f"document {row.pieces[0].uid}" in text
            assert ("goes on with" in text) == any(p.next >= 0 for p in row.pieces)
        [first, *_] = show_step(reader, 1, 2)
        assert (first.step, first.slot, first.rank) == (1, 0, 2)
        assert "step 1, slot 0, rank 2" in first.to_text()
        assert first.pieces[0].text is None


def test_prefetch_can_be_left_in_the_middle(make_world):
    """A consumer that stops early leaves no thread waiting and can begin again."""
    world = make_world()
    with PackedReader(world.folder, prefetch=3) as reader:
        stream = reader.steps()
        one = next(stream)
        stream.close()
        again = next(reader.steps())
        assert rows_of(one.micro_batches) == rows_of(again.micro_batches)
        later = [s.step for s in reader.steps(state=one.state)]
        assert later == list(range(1, reader.n_steps))

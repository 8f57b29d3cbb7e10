"""A run that keeps documents longer than a row whole, on ranks that share the row."""

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_runs import recipe_of

from packing.export.formats import export_dataset
from packing.format import ShardError
from packing.reader import PackedReader
from packing.schedule import load_plan
from packing.verify import verify
from pipelines.dataset import replan_dataset
from pipelines.recipe import RecipeError, load_recipe
from pipelines.run import run


@pytest.fixture(scope="module")
def kept(corpus, tmp_path_factory):
    """A run over windows so short that some documents need 2, 4 and 8 of them."""
    workdir = tmp_path_factory.mktemp("kept")
    pack = {"seq_len": 512, "long": "keep"}
    balance = {"dp": 4, "global_batch": 8}
    return run(recipe_of(corpus, workdir, pack=pack, balance=balance))


def test_documents_stay_whole(kept):
    """Only what the widest block cannot hold is cut, and verification proves it."""
    findings = verify(kept.dataset)
    assert findings.ok, findings.failed
    rows = pq.read_table(f"{kept.dataset}/rows-00000.parquet").to_pylist()
    plan = {row["row_id"]: row for row in pq.read_table(f"{kept.dataset}/plan.parquet").to_pylist()}
    assert {p["cp"] for p in plan.values()} == {1, 2, 4}
    for row in rows:
        if row["n_tokens"] > 512:
            assert len(row["doc_uid"]) == 1
        if row["next_token"][-1] >= 0:
            assert row["n_tokens"] == 4 * 512
    places = sum(p["cp"] for p in plan.values())
    assert kept.padding == 1 - kept.tokens / (512 * places)
    assert findings.counts["padding"] == pytest.approx(kept.padding)


def test_ranks_of_a_block_read_their_row(kept):
    """Each of its ranks gets a shared row, no other rank does, and no row is left out."""
    read = {}
    with PackedReader(kept.dataset) as reader:
        for rank in range(4):
            for step in reader.steps(rank, 4):
                for batch in step.micro_batches:
                    cp = np.ones(batch.n_rows) if batch.cp is None else batch.cp
                    for row, ranks in zip(batch.row_id.tolist(), cp.tolist(), strict=True):
                        read.setdefault(row, []).append((rank, ranks))
                    if batch.cp is not None:
                        assert batch.padded().input_ids.shape[1] == 512 * batch.cp.max()
        assert len(read) == reader.n_rows
        with pytest.raises(ShardError, match="only its own world size 4"):
            reader.micro_batches(0, 0, 2)
    for found in read.values():
        ranks, [cp] = [rank for rank, _ in found], {cp for _, cp in found}
        assert ranks == list(range(ranks[0], ranks[0] + int(cp)))
        assert ranks[0] % cp == 0


def test_another_plan_keeps_the_blocks(kept):
    """Replanning takes ranks that the widest row divides, and refuses others."""
    done = replan_dataset(Path(kept.dataset), dp=8, global_batch=16)
    assert done.imbalance >= 1
    with PackedReader(kept.dataset, plan=done.path) as reader:
        rows = {
            int(row)
            for rank in range(8)
            for step in reader.steps(rank, 8)
            for batch in step.micro_batches
            for row in batch.row_id
        }
        assert len(rows) == reader.n_rows
    with pytest.raises(ShardError, match="up to 4 ranks, which dp = 6"):
        replan_dataset(Path(kept.dataset), dp=6, global_batch=6)


def test_formats_of_one_length_refuse(kept, tmp_path):
    """Megatron has rows of one length only."""
    with pytest.raises(ShardError, match='megatron has rows of one length; pack with long = "cut"'):
        export_dataset(kept.dataset, "megatron", tmp_path / "rows")


def test_verification_finds_crooked_blocks(kept, tmp_path, monkeypatch):
    """A block that begins at a rank of no multiple of its width is named."""
    plan = pq.read_table(f"{kept.dataset}/plan.parquet")
    at = plan["cp"].to_pylist().index(2)
    rank = plan["rank"].to_pylist()
    rank[at] = 1
    crooked = plan.set_column(3, "rank", pa.array(rank, pa.int32()))

    def load(path, *rest):
        return dataclasses.replace(real(path, *rest), table=crooked)

    real = load_plan
    monkeypatch.setattr("packing.verify.load_plan", load)
    failed = verify(kept.dataset).failed
    assert any(
        "is shared by 2 ranks from rank 1 on" in line for lines in failed.values() for line in lines
    )


def test_odd_ranks_are_refused(tmp_path):
    """Ranks that cannot be paired share no row; neither does a strategy that cuts everything."""
    path = tmp_path / "recipe.toml"
    start = 'name = "x"\n[[sources]]\nname = "s"\npath = "*.jsonl"\n[pack]\nlong = "keep"\n'
    path.write_text(start + "[balance]\ndp = 3\nglobal_batch = 3\n")
    with pytest.raises(RecipeError, match=r"pack.long: .*balance.dp = 3 is odd; set balance.dp"):
        load_recipe(path)
    path.write_text(start + 'strategy = "concat"\n[balance]\ndp = 2\nglobal_batch = 2\n')
    with pytest.raises(RecipeError, match=r"keeps documents whole and strategy = \"concat\""):
        load_recipe(path)

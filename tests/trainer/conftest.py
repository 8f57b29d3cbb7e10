"""Small packed datasets, written by the shard writer, for the tests of the trainer."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from packing.format import PLAN_SCHEMA, DatasetInfo, stream_sha256
from packing.rows import LossSpans, RowGroup, offsets_of
from packing.writer import RowFileWriter, write_plan

# One thread, in started processes too: the models are so small that more only wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"

SEQ_LEN = 32
VOCAB = 53


def random_rows(rows, seed, spans=False):
    """Return packed rows of 1 to 4 pieces of predictable text: each token is the last plus one."""
    rng = np.random.default_rng(seed)
    pieces = rng.integers(1, 5, rows).astype(np.int32)
    length = rng.integers(1, SEQ_LEN // 4 + 1, int(pieces.sum())).astype(np.int32)
    p = len(length)
    starts = rng.integers(0, VOCAB, p)
    ids = np.concatenate([(s + np.arange(n)) % VOCAB for s, n in zip(starts, length, strict=True)])
    goes_on = rng.random(p) < 0.3
    next_token = np.where(goes_on, (starts + length) % VOCAB, -1)
    return RowGroup(
        row_id=np.arange(rows, dtype=np.int64),
        pieces_per_row=pieces,
        doc_uid=np.arange(p, dtype=np.int64),
        doc_copy=np.zeros(p, np.int16),
        doc_offset=np.zeros(p, np.int32),
        length=length,
        next_token=next_token.astype(np.int32),
        domain=np.zeros(p, np.int16),
        input_ids=ids.astype(np.int32),
        loss_spans=random_spans(offsets_of(length)[offsets_of(pieces)], rng) if spans else None,
    )


def random_spans(row_offsets, rng):
    """Return one or two weighted spans for two rows of three, and null for the third."""
    is_null = np.arange(len(row_offsets) - 1) % 3 == 2
    start, end, counts = [], [], []
    for null, n in zip(is_null, np.diff(row_offsets), strict=True):
        cuts = sorted(rng.integers(0, n + 1, 4).tolist())
        found = [] if null else [(a, b) for a, b in (cuts[:2], cuts[2:]) if a < b]
        counts.append(len(found))
        start += [a for a, _ in found]
        end += [b for _, b in found]
    weight = rng.choice([0.25, 0.5, 1.0, 2.0], len(start))
    return LossSpans(
        is_null,
        offsets_of(np.array(counts)),
        np.array(start, np.int32),
        np.array(end, np.int32),
        weight.astype(np.float32),
    )


def write_dataset(folder, group, *, dp=1, micro_batch=1, slots_per_step=2):
    """Write rows, a plan in their order and a manifest; return the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True)
    info = DatasetInfo(
        fingerprint="ab" * 32,
        seq_len=SEQ_LEN,
        strategy="best_fit",
        vocab_size=VOCAB,
        eos_id=0,
        domains=("text",),
    )
    with RowFileWriter(folder / "rows-00000.parquet", info) as writer:
        for first in range(0, group.n_rows, 8):
            writer.write(group.slice(first, min(first + 8, group.n_rows)))
    number = np.arange(group.n_rows)
    slot = number // (dp * micro_batch)
    columns = {
        "row_id": number,
        "step": slot // slots_per_step,
        "slot": slot % slots_per_step,
        "rank": number // micro_batch % dp,
        "cp": np.ones(group.n_rows),
        "cost": np.ones(group.n_rows),
    }
    table = pa.table(
        {f.name: pa.array(columns[f.name]).cast(f.type) for f in PLAN_SCHEMA}, schema=PLAN_SCHEMA
    )
    write_plan(
        folder / "plan.parquet",
        table,
        info,
        dp=dp,
        micro_batch=micro_batch,
        slots_per_step=slots_per_step,
    )
    entries = [
        {
            "name": path.name,
            "rows": group.n_rows,
            "bytes": path.stat().st_size,
            "sha256": stream_sha256(str(path)),
            "task": "",
            "kind": "data",
        }
        for path in sorted(folder.glob("*.parquet"))
    ]
    manifest = {
        "format": 1,
        "stage": "balance",
        "fingerprint": info.fingerprint,
        "parents": {},
        "config": {},
        "files": entries,
        "counters": {},
        "versions": {},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    """A dataset of 30 rows in a work directory: 4 steps of 2 slots of 4 rows, the last one short."""
    workdir = tmp_path_factory.mktemp("work")
    return write_dataset(
        workdir / "artifacts" / "balance-000000000000",
        random_rows(30, seed=1, spans=True),
        dp=2,
        micro_batch=2,
    )


@pytest.fixture(scope="session")
def one_slot(tmp_path_factory):
    """A dataset whose steps are one micro-batch; the last step is short, so that a rank has none."""
    folder = tmp_path_factory.mktemp("one") / "dataset"
    return write_dataset(folder, random_rows(26, seed=2), dp=2, micro_batch=2, slots_per_step=1)


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """Compute in one thread, also where torch was loaded before this file."""
    try:
        import torch
    except ImportError:
        return
    torch.set_num_threads(1)


def config_text(dataset, out, *, steps=12, interval=3, training="", head='dtype = "float32"'):
    """Return the configuration of a tiny model."""
    return f"""
dataset = "{dataset}"
out = "{out}"
seed = 3
device = "cpu"
{head}
[model]
layers = 2
hidden = 32
heads = 4
kv_heads = 2
head_dim = 8
ffn = 48
[training]
steps = {steps}
{training}
[optimizer]
lr = 0.01
[lr_scheduler]
warmup_steps = 3
[checkpoint]
interval = {interval}
keep_latest_k = 2
"""


@pytest.fixture
def write_config(dataset, tmp_path):
    """Return a function that writes a configuration of a tiny model and gives its path."""

    def write(name="run", *, data=dataset, **settings):
        path = tmp_path / f"{name}.toml"
        path.write_text(config_text(data, tmp_path / name, **settings))
        return path

    return write


@pytest.fixture(scope="session")
def finished_run(dataset, tmp_path_factory):
    """The folder of a finished run of 12 steps; do not change it."""
    from trainer.cli import main

    folder = tmp_path_factory.mktemp("finished")
    (folder / "train.toml").write_text(config_text(dataset, folder / "out"))
    status = main([str(folder / "train.toml")])
    if status:
        pytest.fail(f"the run ended {status}")
    return folder / "out"

"""A step's loss and gradients against a naive model of the training semantics, row by row."""

import json
import math
from itertools import pairwise

import numpy as np
import pyarrow.parquet as pq
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from packing.reader import PackedReader  # noqa: E402
from trainer.cli import main  # noqa: E402
from trainer.config import load_config  # noqa: E402
from trainer.gradients import step_gradients  # noqa: E402
from trainer.model import Decoder  # noqa: E402
from trainer.ranks import Ranks  # noqa: E402


def targets_of(row):
    """Return (piece, position in it, label, weight) of a row's targets, by the format's words."""
    weights = np.ones(row["n_tokens"] + 1) if row["loss_spans"] is None else None
    if weights is None:
        weights = np.zeros(row["n_tokens"] + 1)
        for span in row["loss_spans"]:
            weights[span["start"] : span["end"]] = span["weight"]
    bounds = row["cu_seqlens"]
    for piece, (start, end) in enumerate(pairwise(bounds)):
        following = row["input_ids"][start + 1 : end]
        if row["next_token"][piece] >= 0:
            following = [*following, row["next_token"][piece]]
        for i, label in enumerate(following):
            yield piece, i, label, weights[start + i + 1]


def naive_loss(model, rows):
    """Return the weighted token mean over rows, each document run on its own."""
    total, weight = torch.zeros((), dtype=torch.float64), 0.0
    for row in rows:
        logits = []
        for start, end in zip(row["cu_seqlens"], row["cu_seqlens"][1:], strict=False):
            ids = torch.tensor(row["input_ids"][start:end])
            hidden = model(ids, torch.arange(len(ids)), [0, len(ids)])
            logits.append(functional.log_softmax(model.logits(hidden), -1))
        for piece, i, label, w in targets_of(row):
            total = total - w * logits[piece][i, label]
            weight += w
    return total / weight


@pytest.fixture
def model(write_config):
    config = load_config(write_config())
    found = Decoder(config.model.shape(53), tied=True, dtype=torch.float64)
    found.initialize(1)
    return found


@pytest.mark.parametrize("step", [0, 3])
def test_step_against_naive_model(dataset, model, step):
    """Loss and gradients of a step are those of its documents one by one, weighted by the spans.

    Step 3 is the short last one. Rows hold null spans, weighted spans and none at all.
    """
    table = pq.read_table(dataset / "rows-00000.parquet").to_pylist()
    with PackedReader(dataset) as reader:
        batches = reader.micro_batches(step)
        found = step_gradients(model, batches, Ranks("cpu"))
    gradients = {name: w.grad.clone() for name, w in model.named_parameters()}
    model.zero_grad()
    expected = naive_loss(model, [table[i] for m in batches for i in m.row_id.tolist()])
    expected.backward()

    assert found.loss == pytest.approx(expected.item(), rel=1e-12)
    assert found.rows == (8 if step == 0 else 6)
    norm = torch.cat([w.grad.flatten() for w in model.parameters()]).norm().item()
    assert found.norm == pytest.approx(norm, rel=1e-12)
    for name, weight in model.named_parameters():
        scale = weight.grad.abs().max()
        assert (weight.grad - gradients[name]).abs().max() <= 1e-12 * scale, name


def test_run_writes_that_loss(dataset, model, write_config, tmp_path):
    """The first line of a run is the naive loss of the plan's first step."""
    path = write_config("first", steps=1, head='dtype = "float64"')
    assert main([str(path)]) == 0
    line = json.loads((tmp_path / "first" / "metrics.jsonl").read_text())
    model.initialize(3)
    table = pq.read_table(dataset / "rows-00000.parquet").to_pylist()

    assert line["loss"] == pytest.approx(naive_loss(model, table[:8]).item(), rel=1e-12)
    assert line["tokens"] == sum(row["n_tokens"] for row in table[:8])


def test_nothing_trained(dataset, model):
    """A step without a trained target is not finite, and names its rows."""
    with PackedReader(dataset) as reader:
        batches = reader.micro_batches(0)
    for micro in batches:
        micro.__dict__["loss_weights"] = np.zeros_like(micro.loss_weights)
        micro.__dict__["labels"] = np.full_like(micro.input_ids, -100)
    found = step_gradients(model, batches, Ranks("cpu"))

    assert math.isnan(found.loss)
    assert found.suspects(None, Ranks("cpu")) == list(range(8))

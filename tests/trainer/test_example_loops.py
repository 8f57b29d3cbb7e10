"""The loops of other stacks that the examples feed: rows in plan order, our targets, their loss."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from packing.cost import ModelShape  # noqa: E402
from packing.reader import PackedReader  # noqa: E402
from trainer.model import Decoder  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    """Return an example's program as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pieces_of(folder, step, rank=0, world=1):
    """Every piece of a step alone, as (ids, labels)."""
    with PackedReader(folder) as reader:
        for micro in reader.micro_batches(step, rank, world):
            for a, b in itertools.pairwise(micro.cu_seqlens.tolist()):
                yield micro.input_ids[a:b], micro.labels[a:b]


def mean_loss(pieces, logits_of):
    """Cross entropy of all labels, the documents computed one by one."""
    total, count = 0.0, 0
    for ids, labels in pieces:
        known = torch.from_numpy(labels.astype(np.int64))
        logits = logits_of(torch.from_numpy(ids.astype(np.int64)))
        total += torch.nn.functional.cross_entropy(
            logits.float(), known, ignore_index=-100, reduction="sum"
        ).item()
        count += int((labels != -100).sum())
    return total / count


def test_titan_loop_has_the_loss_of_single_documents(dataset):
    """The first step of the example's loop: no document sees another, every label counts once."""
    titan = example("torchtitan_loop")
    shape = ModelShape(layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=128, vocab=53)
    model = Decoder(shape)
    model.initialize(seed=0)

    few = [
        (torch.from_numpy(ids.astype(np.int64)), torch.from_numpy(labels.astype(np.int64)))
        for ids, labels in pieces_of(dataset, 0)
    ]
    with torch.no_grad():
        alone = [
            model.loss_sum(
                ids, torch.arange(len(ids)), [0, len(ids)], labels, (labels != -100).float()
            ).item()
            for ids, labels in few
        ]
    count = sum(int((labels != -100).sum()) for _, labels in few)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    loader = titan.PackedLoader(str(dataset))
    found = titan.train_step(model, optimizer, iter(loader), loader.accumulation)
    assert found == pytest.approx(sum(alone) / count, rel=1e-5)


def test_titan_loader_gives_the_plan(dataset):
    """Micro-batches of a fixed size in plan order, for each rank; the short last step is left out."""
    titan = example("torchtitan_loop")
    for world in (1, 2, 4):
        for rank in range(world):
            loader = titan.PackedLoader(str(dataset), dp_rank=rank, dp_world_size=world)
            assert (loader.accumulation, loader.tokens) == (2, 4 // world * 32)
            given = list(itertools.islice(loader, 14))
            with PackedReader(dataset) as reader:
                steps = [0, 1, 2, 0, 1, 2, 0]
                wanted = [m for s in steps for m in reader.micro_batches(s, rank, world)]
            for (inputs, labels), micro in zip(given, wanted, strict=True):
                padded = micro.padded()
                assert labels.shape == (loader.tokens,)
                assert inputs["input"].tolist() == padded.input_ids.flatten().tolist()
                assert inputs["positions"].tolist() == padded.position_ids.flatten().tolist()
                assert labels.tolist() == padded.labels.flatten().tolist()


def test_titan_loader_goes_on_from_a_state(dataset):
    """What is saved after a step is where another loader, of another world, goes on."""
    titan = example("torchtitan_loop")
    first = titan.PackedLoader(str(dataset), dp_world_size=2)
    data = iter(first)
    for _ in range(2):
        next(data)
    saved = first.state_dict()
    second = titan.PackedLoader(str(dataset))
    second.load_state_dict(saved)
    inputs, _ = next(iter(second))
    with PackedReader(dataset) as reader:
        [micro, _] = reader.micro_batches(1, 0, 1)
    assert inputs["input"].tolist() == micro.padded().input_ids.flatten().tolist()


def test_titan_program_learns(dataset, capsys):
    """The program trains over an epoch's end, and the loss of the predictable text falls."""
    losses = example("torchtitan_loop").main(str(dataset), 12)
    assert len(capsys.readouterr().out.splitlines()) == 12
    assert losses[-1] < losses[0] - 0.3


def test_trl_has_the_loss_of_single_documents(dataset, tmp_path):
    """TRL's own loss of the first step is that of the documents one by one, and it learns."""
    pytest.importorskip("trl")
    trl = example("trl_loop")
    model = trl.small_model(53).eval()
    with torch.no_grad():
        expected = mean_loss(pieces_of(dataset, 0), lambda ids: model(ids[None]).logits[0])
    losses = trl.main(str(dataset), 4, str(tmp_path))
    assert len(losses) == 4
    assert losses[0] == pytest.approx(expected, rel=1e-3)
    assert losses[-1] < losses[0]

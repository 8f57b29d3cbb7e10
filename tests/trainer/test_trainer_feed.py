"""Packed rows in any PyTorch loop: order, state, workers, and the loop of the documentation."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader  # noqa: E402

from packing.format import ShardError  # noqa: E402
from packing.reader import PackedReader  # noqa: E402
from trainer.feed import PackedDataset, tensors  # noqa: E402

DOCUMENTATION = Path(__file__).parents[2] / "docs" / "training.md"
TENSORS = ("input_ids", "position_ids", "labels", "loss_weights", "cu_seqlens")


def key(batch):
    """Return all a micro-batch says, in values that compare."""
    return {k: v.tolist() if isinstance(v, torch.Tensor) else v for k, v in batch.items()}


def all_of(dataset, **options):
    return [key(batch) for batch in DataLoader(dataset, batch_size=None, **options)]


@pytest.mark.parametrize("world", [1, 2, 4])
def test_it_is_what_the_reader_gives(dataset, world):
    """Every rank gets the reader's micro-batches, in order, with the weight of its whole step."""
    for rank in range(world):
        found = list(PackedDataset(str(dataset), rank=rank, world=world))
        with PackedReader(dataset) as reader:
            expected = [(s, reader.micro_batches(s, rank, world)) for s in range(reader.n_steps)]
        flat = [(step, i, part) for step, parts in expected for i, part in enumerate(parts)]

        assert [(b["step"], b["slot"]) for b in found] == [(step, i) for step, i, _ in flat]
        for batch, (step, i, part) in zip(found, flat, strict=True):
            assert batch["rows"] == part.n_rows
            assert batch["last"] == (i + 1 == len(expected[step][1]))
            weight = sum(p.loss_weights.sum() for p in expected[step][1])
            assert batch["step_weight"] == pytest.approx(weight)
            for name in TENSORS:
                assert np.array_equal(batch[name].numpy(), getattr(part, name))


def test_labels_are_ready_for_cross_entropy(dataset):
    """Ids and labels are int64, as embedding and cross entropy want them."""
    batch = next(iter(PackedDataset(str(dataset))))

    assert batch["input_ids"].dtype == batch["labels"].dtype == torch.int64
    assert batch["loss_weights"].dtype == torch.float32


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_change_nothing(dataset, workers):
    """Any number of worker processes gives the same micro-batches in the same order."""
    alone = all_of(PackedDataset(str(dataset), epochs=2))

    assert all_of(PackedDataset(str(dataset), epochs=2), num_workers=workers) == alone
    assert len(alone) == 16


@pytest.mark.parametrize(("at", "workers"), [*((at, 0) for at in range(16)), (6, 2), (9, 2)])
def test_going_on_from_any_micro_batch(dataset, at, workers):
    """From the state of a micro-batch the rest follows, in mid-step too, with any workers."""
    whole = all_of(PackedDataset(str(dataset), epochs=2))
    rest = PackedDataset(str(dataset), epochs=2)
    rest.load_state_dict(whole[at]["state"])

    assert all_of(rest, num_workers=workers) == whole[at + 1 :]


def test_state_of_the_dataset(dataset):
    """In the caller's process the dataset's state is that of the micro-batch given last."""
    data = PackedDataset(str(dataset))
    before = data.state_dict()
    for batch, _ in zip(data, range(3), strict=False):
        assert data.state_dict() == batch["state"]

    data.load_state_dict(before)
    assert len(all_of(data)) == 8


def test_iterating_again_begins_where_the_state_was_loaded(dataset):
    """A second pass over the loader gives the same micro-batches as the first."""
    data = PackedDataset(str(dataset))

    assert all_of(data) == all_of(data)


def test_state_of_another_plan(dataset):
    """A state of another plan is refused."""
    data = PackedDataset(str(dataset))
    with pytest.raises(ShardError, match="belongs to plan"):
        data.load_state_dict({**data.state_dict(), "plan": "ff" * 32})


def test_world_that_does_not_divide(dataset):
    """A number of ranks that does not divide a slot is refused when the dataset is opened."""
    with pytest.raises(ShardError, match="does not divide"):
        PackedDataset(str(dataset), world=3)


def test_shared_rows_are_refused(dataset):
    """A row that ranks share is refused: it needs context parallel attention."""
    with PackedReader(dataset) as reader:
        micro = reader.micro_batches(0)[0]
    object.__setattr__(micro, "cp", np.full(micro.n_rows, 2, np.int16))

    with pytest.raises(ShardError, match="shared by 2 ranks"):
        tensors(micro)


def test_padded_rows(dataset):
    """Padded rows hold the same trained tokens as flat ones, and the padding is not trained."""
    flat = list(PackedDataset(str(dataset)))
    for batch, other in zip(flat, PackedDataset(str(dataset), padded=True), strict=True):
        trained, weighted = batch["labels"] >= 0, other["labels"] >= 0

        assert other["input_ids"].shape == (batch["rows"], 32)
        assert other["cu_seqlens"][-1] == other["input_ids"].numel()
        for name in ("input_ids", "labels", "position_ids", "loss_weights"):
            assert torch.equal(batch[name][trained], other[name][weighted])


def test_pinned_batches_keep_their_state(dataset):
    """The loader's conversion leaves states and places as they are."""
    batch = next(iter(DataLoader(PackedDataset(str(dataset)), batch_size=None)))

    assert batch["state"]["skip"] == []
    assert isinstance(batch["state"]["plan"], str)
    assert batch["last"] is False


def test_documented_loop(dataset, tmp_path, monkeypatch, capsys):
    """The program in the documentation runs, stops, goes on to the same losses, and they fall."""
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
    (tmp_path / "loop.py").write_text(program)

    def run(steps, name):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / name)
        monkeypatch.setattr("sys.argv", ["loop.py", str(dataset), str(steps)])
        runpy.run_path(str(tmp_path / "loop.py"), run_name="__main__")
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    whole = run(12, "whole")
    parts = run(5, "parts") + run(12, "parts")

    assert whole == parts
    assert [int(step) for step, _ in whole] == list(range(12))
    assert float(whole[-1][1]) < float(whole[0][1]) - 0.5


def test_documentation_names_every_key():
    """Every key of the configuration stands in the table of the documentation."""
    import dataclasses
    import typing

    from trainer.config import TrainerConfig

    text = DOCUMENTATION.read_text()
    for name, hint in typing.get_type_hints(TrainerConfig).items():
        parts = dataclasses.fields(hint) if dataclasses.is_dataclass(hint) else []
        for key_name in [f"{name}.{part.name}" for part in parts] or [name]:
            assert f"`{key_name}`" in text, key_name

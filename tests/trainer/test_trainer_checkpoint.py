"""Checkpoints: complete or not there, in parts by rank, gone on with to the same bits."""

import json
import os
import signal
import threading
from itertools import pairwise
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from forked_ranks import run_ranks  # noqa: E402

from trainer import checkpoint, loop, saver  # noqa: E402
from trainer.cli import main  # noqa: E402
from trainer.ops import Projection  # noqa: E402
from trainer.pieces import Saved, fill, share, training_state  # noqa: E402


def read(path):
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def contents(out, step):
    """All tensors of a checkpoint by name, put together from its parts."""
    found = checkpoint._read(Path(out) / f"checkpoint-{step}")
    assert not isinstance(found, str), found
    files = checkpoint._Files(found.path)
    tensors = {}
    for name, saved in found.tensors.items():
        dtype = files[saved.places[0][0]][name].dtype
        tensors[name] = torch.empty(saved.shape, dtype=dtype)
        fill(tensors[name], saved, files, name)
    return tensors


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


STATE = {
    "reader": {"plan": "p", "epoch": 0, "step": 0, "skip": []},
    "watch": {},
    "chain": "",
    "identity": {"model": 1},
    "config": {},
}


def trained(seed):
    """A weight and its optimizer after two updates."""
    torch.manual_seed(seed)
    model = Projection(5, 7)
    torch.nn.init.normal_(model.weight)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        model.weight.grad = torch.randn(7, 5)
        optimizer.step()
    return model, optimizer


def write(out, step, seed, keep=2):
    model, optimizer = trained(seed)
    made = saver.Saver(out, 0, 1, keep=keep, background=False)
    made.save(step, training_state(model, optimizer), STATE)


CALLS = ("rename", "replace", "fsync", "unlink", "mkdir", "rmdir", "open")


def test_killed_at_every_system_call(tmp_path):
    """SIGKILL before any call that touches the disk leaves the old checkpoint or the new one, whole.

    A child writes a second checkpoint, which removes the first, and kills itself at its n-th call.
    """
    seen = set()
    for number in range(1, 200):
        out = tmp_path / str(number)
        write(out, 3, seed=3, keep=1)
        status = _killed_at(number, out)
        found, _ = checkpoint.newest(out)
        assert found is not None
        assert found.step in (3, 6)
        model, _ = trained(found.step)
        assert torch.equal(contents(out, found.step)["weight"], model.weight)
        seen.add((found.step, status))
        if status == 0:
            break
        # Started again, what is half-written goes.
        saver.Saver(out, 0, 1, keep=1, background=False).clear()
        assert {p.name for p in out.iterdir()} <= {"checkpoint-3", "checkpoint-6"}
    assert seen == {(3, 9), (6, 9), (6, 0)}
    assert number > 15


def _killed_at(number, out):
    """Write checkpoint 6 in a child that dies at a call; return its signal, 0 where it ended."""
    pid = os.fork()
    if not pid:
        left = [number]

        def counted(call):
            def wrapped(*args, **kwargs):
                left[0] -= 1
                if not left[0]:
                    os.kill(os.getpid(), signal.SIGKILL)
                return call(*args, **kwargs)

            return wrapped

        for name in CALLS:
            setattr(os, name, counted(getattr(os, name)))
        write(out, 6, seed=6, keep=1)
        os._exit(0)
    return os.WTERMSIG(os.waitpid(pid, 0)[1])


def test_copy_is_of_the_moment(tmp_path, monkeypatch):
    """What the background writes is what the tensors were when it was asked, not what they became."""
    gate = threading.Event()
    write_now = saver.Saver._write
    monkeypatch.setattr(
        saver.Saver, "_write", lambda self, *what: (gate.wait(10), write_now(self, *what))[1]
    )
    model, optimizer = trained(1)
    before = model.weight.detach().clone()
    made = saver.Saver(tmp_path, 0, 1, keep=1, background=True)
    made.save(4, training_state(model, optimizer), STATE)
    assert made.finished() == []
    with torch.no_grad():
        model.weight.zero_()
        optimizer.state[model.weight]["exp_avg"].zero_()
    gate.set()
    made.wait()

    assert made.finished() == [4]
    assert torch.equal(contents(tmp_path, 4)["weight"], before)
    assert contents(tmp_path, 4)["weight/exp_avg"].any()


def test_disk_that_is_full(write_config, tmp_path, monkeypatch, capsys):
    """A checkpoint that cannot be written in the background ends the run 4, with the reason."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saver.torch, "save", full)
    assert main([str(write_config("full", steps=50, interval=2))]) == 4
    told = capsys.readouterr().err
    assert "No space left on device" in told
    assert "make room" in told


def test_damaged_ones_do_not_push_out_good_ones(tmp_path):
    """A checkpoint that was passed over goes before any that is complete."""
    for step in (3, 6, 9):
        write(tmp_path, step, seed=step, keep=3)
    (tmp_path / "checkpoint-9" / "model.pt").write_bytes(b"")
    found, passed = checkpoint.newest(tmp_path)
    assert (found.step, len(passed)) == (6, 1)
    write(tmp_path, 7, seed=7, keep=2)

    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint-6", "checkpoint-7"]


def test_work_is_shared_evenly():
    """What all ranks have whole is saved once, each rank about as much, also with one large weight."""
    model = torch.nn.ModuleList([Projection(8, n) for n in (64, 8, 8, 8, 16, 24, 1)])
    optimizer = torch.optim.AdamW(model.parameters())
    pieces = training_state(model, optimizer)["model"]
    shares = [share(pieces, rank, 3) for rank in range(3)]
    names = [name for part in shares for name in part]

    assert sorted(names) == sorted(pieces)
    sizes = [sum(p.tensor.nbytes for p in part.values()) for part in shares]
    assert max(sizes) == 64 * 8 * 4
    assert min(sizes) >= 32 * 8 * 4


def test_rows_from_any_parts():
    """A tensor cut at any rows comes out whole; a missing part and another shape are refused."""
    whole = torch.randn(11, 3)
    for cuts in ([0, 11], [0, 4, 11], [0, 1, 1, 10, 11]):
        spans = list(pairwise(cuts))
        files = {f"f{i}": {"w": whole[a:b]} for i, (a, b) in enumerate(spans)}
        places = tuple((f"f{i}", a, b - a) for i, (a, b) in enumerate(spans))
        target = torch.zeros(11, 3)
        fill(target, Saved((11, 3), places), files, "w")
        assert torch.equal(target, whole)
    with pytest.raises(KeyError, match="rows are missing"):
        fill(target, Saved((11, 3), places[1:]), files, "w")
    with pytest.raises(ValueError, match=r"w: \[11, 3\] saved, \[12, 3\] here"):
        fill(torch.zeros(12, 3), Saved((11, 3), places), files, "w")


@pytest.mark.parametrize("world", [1, 2])
def test_fifty_steps_with_and_without_stops(write_config, tmp_path, monkeypatch, world):
    """Stopped at some steps and gone on, 50 steps end in the same bits, moments and receipts too."""

    def run(name, steps=50):
        path = write_config(name, steps=steps, interval=7)
        codes = [main([str(path)])] if world == 1 else run_ranks(lambda rank: main([str(path)]))
        assert codes == [0] * world

    step = loop.Run._train_step

    def stopping(self, source):
        metrics = step(self, source)
        # Every rank is told at another step, or not at all; all of them stop behind the first.
        if metrics.step + 1 == stop and self.ranks.rank == self.ranks.world - 1:
            signal.raise_signal(signal.SIGTERM)
        return metrics

    run("whole")
    monkeypatch.setattr(loop.Run, "_train_step", stopping)
    for stop in (1, 30, 49):
        run("cut")
        assert len(read(tmp_path / "cut" / "metrics.jsonl")) == stop
    stop = None
    run("cut")

    assert read(tmp_path / "cut" / "receipts.jsonl") == read(tmp_path / "whole" / "receipts.jsonl")
    assert equal(contents(tmp_path / "cut", 50), contents(tmp_path / "whole", 50))
    if world == 2:
        names = {p.name for p in (tmp_path / "cut" / "checkpoint-50").iterdir()}
        assert {"model-0-of-2.pt", "model-1-of-2.pt", "optimizer-1-of-2.pt"} <= names


def test_killed_with_two_ranks(write_config, tmp_path):
    """SIGKILL of one of two ranks in mid-run: started again, the run ends in the same bits."""
    assert run_ranks(lambda rank: main([str(write_config("whole", steps=30))])) == [0, 0]
    path, out = write_config("killed", steps=30), tmp_path / "killed"

    def killed(rank):
        def watch_for_it():
            while not (out / "checkpoint-12").exists():
                pass
            os.kill(os.getpid(), signal.SIGKILL)

        if rank == 1:
            threading.Thread(target=watch_for_it, daemon=True).start()
        return main([str(path)])

    assert -signal.SIGKILL in run_ranks(killed)
    reached = max(int(p.name.partition("-")[2]) for p in out.glob("checkpoint-*"))
    assert reached < 30
    assert run_ranks(lambda rank: main([str(path)])) == [0, 0]
    assert equal(contents(out, 30), contents(tmp_path / "whole", 30))


def test_another_number_of_ranks_is_refused_by_choice(write_config, tmp_path, capsys):
    """With ``world = "same"`` a checkpoint of another number of ranks is refused, naming both."""
    path = write_config("ranks", steps=4)
    assert run_ranks(lambda rank: main([str(path)])) == [0, 0]
    path = write_config("ranks", steps=8)
    path.write_text(path.read_text() + 'world = "same"\n')

    assert main([str(path)]) == 2
    assert "number of ranks is 2 there and 1 here" in capsys.readouterr().err
    path.write_text(path.read_text().replace('"same"', '"any"'))
    assert main([str(path)]) == 0
    assert "ranks 2 -> 1 (the same rows" in capsys.readouterr().err

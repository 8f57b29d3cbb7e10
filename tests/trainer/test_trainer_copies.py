"""The schedule of copies: every wait in it is needed, and the host pool counts every byte."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from packing.cost import ModelShape  # noqa: E402
from trainer.copies import EagerCopies, LazyCopies  # noqa: E402
from trainer.hostpool import MIN_SLAB, HostMemoryError, HostPool  # noqa: E402
from trainer.model import Decoder  # noqa: E402
from trainer.plan import LayerPlan  # noqa: E402
from trainer.stash import Workspace  # noqa: E402

SHAPE = ModelShape(layers=5, hidden=16, heads=2, kv_heads=1, head_dim=8, ffn=24, vocab=31)
CPU = torch.device("cpu")


class Forgetful(LazyCopies):
    """A lazy engine that forgets one wait; without a number it only counts them."""

    def __init__(self, forgotten=None):
        self.waits, self.forgotten = 0, forgotten

    def wait(self, ticket):
        self.waits += 1
        if self.waits - 1 != self.forgotten:
            super().wait(ticket)


def train(plan, copies, passes=1):
    """Return the gradients of some passes, one after another, in the same memory."""
    model = Decoder(SHAPE, plan=plan)
    model.initialize(0)
    model.workspace = Workspace(CPU, copies)
    tokens = torch.arange(40) % SHAPE.vocab
    positions = torch.cat([torch.arange(25), torch.arange(15)])
    for _ in range(passes):
        loss = model.loss_sum(
            tokens, positions, [0, 25, 40], tokens.roll(-1), torch.ones(len(tokens))
        )
        loss.backward()
    return [w.grad for w in model.parameters()]


def same(found, expected):
    return all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize(("resident", "alpha"), [(0, 0.0), (1, 1.0), (4, 0.0)])
def test_every_wait_is_needed(stride, resident, alpha):
    """Without any single one of the schedule's waits, the gradients are not what they should be."""
    plan = LayerPlan(
        tile=16,
        recompute_prefix=0.0,
        alpha=alpha,
        input_stride=stride,
        resident_layers=resident,
        head_groups=1,
    )
    expected = train(plan, EagerCopies())
    engine = Forgetful()
    found = train(plan, engine)

    assert same(found, expected)
    # Each layer that travels is waited for on the way out and on the way back.
    assert engine.waits == 2 * (SHAPE.layers - resident)
    assert same(train(plan, LazyCopies(), passes=2), train(plan, EagerCopies(), passes=2))
    for forgotten in range(engine.waits):
        broken = train(plan, Forgetful(forgotten))
        assert not same(broken, expected), forgotten


def test_lazy_copies_are_made_when_waited_for():
    """A lazy copy takes what its source holds at the wait; a released buffer holds NaN."""
    copies = LazyCopies()
    source, target = torch.ones(2), torch.zeros(2)
    parts = [[x.view(torch.uint8)] for x in (source, target)]
    ticket = copies.offload(*parts)
    assert target.tolist() == [0, 0]
    source.fill_(3)
    copies.wait(ticket)
    assert target.tolist() == [3, 3]
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        buffer = torch.zeros(8, dtype=dtype)
        copies.release([buffer.view(torch.uint8)])
        assert buffer.isnan().all()


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_slots_never_overlap(data):
    """Whatever is taken and released: slots are apart, counted exactly, and all bytes usable."""
    pool = HostPool()
    taken, serial = [], 0
    for _ in range(data.draw(st.integers(1, 30))):
        if taken and data.draw(st.booleans()):
            slot, value = taken.pop(data.draw(st.integers(0, len(taken) - 1)))
            assert all((part == value).all() for part in slot.parts)
            pool.release(slot)
        else:
            slot = pool.take(512 * data.draw(st.integers(0, 3000)))
            serial += 1
            for part in slot.parts:
                part.fill_(serial)
            taken.append((slot, serial))
        assert pool.used == sum(sum(p.numel() for p in slot.parts) for slot, _ in taken)
    for slot, value in taken:
        assert all((part == value).all() for part in slot.parts)
        pool.release(slot)
    slabs = len(pool.slabs)
    whole = pool.take(pool.reserved)
    assert len(pool.slabs) == slabs == len(whole.parts)


def test_slabs_are_powers_of_two():
    """What is reserved is the next multiple of the smallest slab, as powers of two."""
    pool = HostPool()
    pool.reserve(11 * MIN_SLAB - 5)

    assert [slab.numel() // MIN_SLAB for slab in pool.slabs] == [8, 2, 1]
    assert pool.used == pool.peak == 0


def test_a_pool_that_is_too_small():
    """More than the budget is refused with both numbers and what to change."""
    pool = HostPool(budget=2 * MIN_SLAB)
    pool.take(MIN_SLAB)

    with pytest.raises(HostMemoryError, match=r"3,145,728 bytes .* 2,097,152 .*training\.plan"):
        pool.take(2 * MIN_SLAB)
    with pytest.raises(ValueError, match="multiple of 512"):
        pool.take(100)

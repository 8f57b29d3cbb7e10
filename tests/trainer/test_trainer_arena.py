"""Layouts of allocation traces: no overlaps, the bound met, traces as what is really allocated."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer import allocation
from trainer.allocation import Block, Layout, Trace, solve, solve_nested

torch = pytest.importorskip("torch")

from trainer.arena import Arena, trace_allocations, trace_layer  # noqa: E402
from trainer.geometry import PRESETS  # noqa: E402
from trainer.plan import LayerPlan  # noqa: E402

PLAN = LayerPlan(
    tile=8192, recompute_prefix=0.0, alpha=0.0, input_stride=1, resident_layers=2, head_groups=2
)


def traces(most: int, size: int = 9) -> st.SearchStrategy[Trace]:
    """Draw traces of up to ``most`` blocks."""
    block = st.tuples(st.integers(0, size), st.integers(0, 8), st.integers(1, 5))
    return st.lists(block, max_size=most).map(
        lambda drawn: Trace(
            tuple(Block(str(i), n, at, at + life) for i, (n, at, life) in enumerate(drawn))
        )
    )


def overlaps(trace: Trace, layout: Layout) -> list[tuple[str, str]]:
    """Return pairs of blocks that live at once and share bytes, event by event."""
    found = set()
    for event in range(max((b.end for b in trace.blocks), default=0)):
        owner: dict[int, str] = {}
        for block in trace.blocks:
            if not block.start <= event < block.end:
                continue
            for byte in range(
                layout.offsets[block.name], layout.offsets[block.name] + block.nbytes
            ):
                if byte in owner:
                    found.add((owner[byte], block.name))
                owner[byte] = block.name
    return sorted(found)


def best_peak(trace: Trace) -> int:
    """Return the lowest peak there is: that of first fit in the best of all orders."""
    best = None
    for order in itertools.permutations(trace.blocks):
        placed: list[tuple[Block, int]] = []
        for block in order:
            beside = [
                (at, at + b.nbytes)
                for b, at in placed
                if b.start < block.end and block.start < b.end
            ]
            fits = (
                at
                for at in sorted({0, *(end for _, end in beside)})
                if all(at + block.nbytes <= begin or end <= at for begin, end in beside)
            )
            placed.append((block, next(fits)))
        peak = max((at + b.nbytes for b, at in placed), default=0)
        best = peak if best is None else min(best, peak)
    return best or 0


@given(traces(14))
@settings(max_examples=150, deadline=None)
def test_live_blocks_never_overlap(trace):
    """Blocks that live at once share no byte, and all end at or below the peak."""
    layout = solve(trace, alignment=1, time_limit=0)
    assert overlaps(trace, layout) == []
    assert layout.peak == max((layout.offsets[b.name] + b.nbytes for b in trace.blocks), default=0)
    live = [sum(b.nbytes for b in trace.blocks if b.start <= event < b.end) for event in range(14)]
    assert layout.bound == max(live) == trace.max_live(1)
    assert (layout.proof == "tight") == (layout.peak == layout.bound)


@given(traces(6, size=5))
@settings(max_examples=80, deadline=None)
def test_small_traces_are_solved_to_the_best_of_all_orders(trace):
    """On tiny traces the peak is the lowest there is, and a proof is given."""
    layout = solve(trace, alignment=1, time_limit=20)
    assert layout.peak == best_peak(trace)
    assert layout.proof in ("tight", "optimal")


@given(traces(6, size=5).filter(lambda trace: trace.blocks))
@settings(max_examples=25, deadline=None)
def test_the_programme_alone_finds_and_proves_the_best(trace):
    """Without greedy orders, search or bound, the programme gets from a stack to the best peak."""
    arrays = allocation._Arrays.of(trace, 1)
    stacked = np.cumsum(arrays.size) - arrays.size
    offsets, proved = allocation._programme(arrays, 0, stacked, 20)
    assert proved
    assert int((offsets + arrays.size).max()) * arrays.unit == best_peak(trace)


def test_what_greedy_orders_and_search_miss_the_programme_finds():
    """A trace whose bound only the programme meets; without time for it no proof is claimed."""
    drawn = [(3, 4, 9), (3, 3, 8), (3, 4, 7), (1, 2, 4), (4, 2, 3)]
    drawn += [(1, 7, 9), (1, 6, 10), (3, 2, 6), (2, 3, 7), (4, 0, 4)]
    trace = Trace(tuple(Block(str(i), *block) for i, block in enumerate(drawn)))
    rough, best = (solve(trace, alignment=1, time_limit=limit) for limit in (0, 20))
    assert (rough.proof, rough.bound) == ("none", 14)
    assert rough.peak > 14
    assert (best.proof, best.peak) == ("tight", 14)
    assert overlaps(trace, rough) == overlaps(trace, best) == []


def test_sizes_are_aligned():
    """Every block begins at a multiple of the alignment; the bound counts rounded sizes."""
    trace = Trace((Block("a", 1, 0, 2), Block("b", 513, 1, 3), Block("c", 0, 0, 3)))
    layout = solve(trace)
    assert layout.peak == layout.bound == 512 + 1024
    assert all(offset % 512 == 0 for offset in layout.offsets.values())


@pytest.mark.parametrize(
    "blocks", [(Block("a", 1, 0, 1), Block("a", 1, 2, 3)), (Block("a", 1, 2, 2),)]
)
def test_wrong_traces_are_refused(blocks):
    """A name that is there twice and an empty life are named."""
    with pytest.raises(ValueError, match="'a'"):
        Trace(blocks)


def test_passes_are_laid_out_inside_a_longer_sequence():
    """Nested blocks lie inside their pass, and those that live at once in the whole share none."""
    layer = Trace((Block("q", 4, 0, 2), Block("k", 3, 1, 3), Block("o", 2, 2, 4)))
    outer = Trace((Block("weights", 5, 0, 3), Block("layer0", 0, 0, 1), Block("layer1", 0, 1, 2)))
    layout = solve_nested(outer, {"layer0": layer, "layer1": layer}, alignment=1)
    assert layout.peak == layout.bound == 5 + 7
    assert layout.proof == "tight"
    # The same, event by event of the layers.
    flat = Trace(
        (
            Block("weights", 5, 0, 8),
            *(
                Block(f"layer{n}/{b.name}", b.nbytes, 4 * n + b.start, 4 * n + b.end)
                for n in range(2)
                for b in layer.blocks
            ),
        )
    )
    assert overlaps(flat, layout) == []


@pytest.mark.parametrize("preset", ["1b", "3b", "8b"])
def test_traced_layers_meet_the_bound_within_a_second(preset):
    """Forward and backward of the shapes are laid out at the most that lives at once."""
    for trace in trace_layer(PRESETS[preset], [0, 9000, 32768], PLAN, torch.bfloat16):
        began = time.process_time()
        layout = solve(trace, time_limit=0)
        took = time.process_time() - began
        assert (layout.proof, layout.peak) == ("tight", trace.max_live())
        assert took < 1
        spans = sorted(((layout.offsets[b.name], b) for b in trace.blocks), key=lambda s: s[0])
        for n, (offset, block) in enumerate(spans):
            for later, other in spans[n + 1 :]:
                if later >= offset + block.nbytes:
                    break
                assert block.end <= other.start or other.end <= block.start


def test_a_trace_on_fake_tensors_is_that_of_the_real_run():
    """Meta tensors, real ones and hand-counted lives give the same trace, backward included."""

    def swiglu(x, w):
        gate = x @ w
        loss = (torch.nn.functional.silu(gate) * x).sum()
        (found,) = torch.autograd.grad(loss, w)
        return found

    seen = []
    for device in ("meta", "cpu"):
        x, w = torch.ones(8, 4, device=device), torch.ones(4, 4, device=device, requires_grad=True)
        seen.append(trace_allocations(swiglu, x, w))
    assert [(b.name, b.nbytes, b.start, b.end) for b in seen[0].blocks] == [
        (b.name, b.nbytes, b.start, b.end) for b in seen[1].blocks
    ]
    names = [b.name.partition(".")[0] for b in seen[0].blocks]
    assert names[:4] == ["mm", "silu", "mul", "sum"]
    gate, silu, product = seen[0].blocks[:3]
    assert gate.nbytes == silu.nbytes == 8 * 4 * 4
    # The product dies behind the sum; the gate is needed for silu's gradient.
    assert product.end == seen[0].blocks[3].start + 1
    assert gate.end > product.end


def test_views_and_arguments_are_not_in_a_trace():
    """Views share storage, in-place results are no new block, and arguments are there before."""
    x = torch.ones(4, 4)

    def run(x):
        half = x[:2].add_(1).T
        return half.clone()

    trace = trace_allocations(run, x)
    assert [(b.name, b.nbytes) for b in trace.blocks] == [("clone.0", 32)]


def test_an_arena_gives_views_that_do_not_disturb_each_other():
    """What is written to live blocks stays until they end, in one buffer of the layout's peak."""
    trace = Trace((Block("a", 32, 0, 2), Block("b", 16, 1, 3), Block("c", 32, 2, 3)))
    arena = Arena(trace)
    assert arena.buffer.numel() == arena.layout.peak == 1024
    a = arena.take("a", (2, 4), torch.float32).fill_(1)
    b = arena.take("b", (2,), torch.float64).fill_(2)
    assert a.eq(1).all()
    assert b.eq(2).all()
    c = arena.take("c", (8,), torch.float32).fill_(3)
    assert b.eq(2).all()
    assert c.eq(3).all()
    assert c.untyped_storage().data_ptr() == arena.buffer.untyped_storage().data_ptr()
    for name, shape in (("a", (2, 2)), ("d", (8,))):
        with pytest.raises(ValueError, match=name):
            arena.take(name, shape, torch.float32)

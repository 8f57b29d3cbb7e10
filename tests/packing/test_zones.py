"""Zone plans: every token once, capacity always, and balance at little traffic."""

import inspect
import itertools
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from packing.cost import ModelShape
from packing.format import ShardError
from packing.topology import Topology, crossing_length
from packing.topology_settings import TopologySettings
from packing.zone_fill import ALIGN, even_share
from packing.zones import ZonePlan, plan_zones

ROOT = Path(__file__).parents[2]
SHAPE = ModelShape(layers=2, hidden=512, heads=8, kv_heads=4, head_dim=64, ffn=1024)


def topology(nodes: int, per_node: int, tokens: int, **settings: object) -> Topology:
    """Ranks with room for that many tokens each, and the usual slack."""
    return Topology.of(
        ranks=nodes * per_node,
        ranks_per_node=per_node,
        rank_tokens=tokens,
        shape=SHAPE,
        **settings,  # type: ignore[arg-type]
    )


def check(plan: ZonePlan) -> None:
    """Prove what every plan promises, from its chunk lists alone."""
    bounds, offsets = plan.chunks
    tokens = np.zeros(plan.topology.ranks, np.int64)
    work = np.zeros(plan.topology.ranks)
    for i, length in enumerate(plan.length.tolist()):
        ranks = plan.rank[plan.first[i] : plan.first[i + 1]].tolist()
        chunks = offsets[bounds[i] : bounds[i + 1]].tolist()
        assert ranks == sorted(set(ranks))
        assert all(0 <= rank < plan.topology.ranks for rank in ranks)
        assert len(chunks) == 2 * len(ranks) + 1
        assert chunks[0] == 0
        assert chunks[-1] == length
        for rank, (low, high) in zip(ranks + ranks[::-1], itertools.pairwise(chunks), strict=True):
            assert low <= high
            tokens[rank] += high - low
            work[rank] += high**2 - low**2
        nodes = {rank // plan.topology.ranks_per_node for rank in ranks}
        assert plan.zone[i] == (0 if len(ranks) == 1 else 1 if len(nodes) == 1 else 2)
    assert tokens.max(initial=0) <= plan.topology.capacity
    said, held = plan.loads
    assert held.tolist() == tokens.tolist()
    # A head that is one token shorter than its tail is the only difference from s x.
    assert np.abs(said - work).max() <= 2 * plan.length.sum()


LENGTHS = st.lists(st.one_of(st.integers(1, 40), st.integers(1, 3000)), max_size=60)


@given(LENGTHS, st.sampled_from([(1, 1), (1, 4), (2, 3), (3, 2), (2, 8)]), st.booleans())
@example([], (2, 3), True)
@example([512] * 24, (2, 3), True)
@example([128 * 7] * 16, (2, 8), True)
@example([100_000], (2, 8), False)
@example([1] * 50, (2, 8), True)
@example([3000] + [1] * 30, (3, 2), True)
def test_every_token_is_placed_once_within_capacity(
    lengths: list[int], ranks: tuple[int, int], cost: bool
) -> None:
    """With no slack at all: a plan exists whenever the tokens fit, and holds every one once."""
    nodes, per_node = ranks
    room = max(1, -(-sum(lengths) // (nodes * per_node)))
    mode = "cost" if cost else "capacity"
    plan = plan_zones(lengths, topology(nodes, per_node, room, slack=1.0, zone_mode=mode))
    check(plan)


@given(LENGTHS.filter(bool), st.integers(0, 5))
def test_plans_do_not_depend_on_the_order_of_pieces(lengths: list[int], seed: int) -> None:
    """The same pieces in another order do the same work, and one piece goes where it went."""
    where = topology(2, 4, max(1, sum(lengths) // 8 + 1))
    shuffled = np.random.default_rng(seed).permutation(lengths)
    a, b = plan_zones(lengths, where), plan_zones(shuffled, where)
    assert a.loads[0].tolist() == b.loads[0].tolist()
    assert sorted(zip(a.length, a.zone, strict=True)) == sorted(zip(b.length, b.zone, strict=True))


def test_one_rank_is_all_local() -> None:
    """On one rank nothing is divided or sent."""
    plan = plan_zones([5, 70, 3], topology(1, 1, 78, slack=1.0))
    check(plan)
    assert plan.zone.tolist() == [0, 0, 0]
    assert plan.ring_tokens == (0, 0)
    assert not len(plan.transfers.tokens)


def test_more_tokens_than_ranks_hold_are_refused() -> None:
    """The message says how many tokens there are, how many fit, and what to do."""
    with pytest.raises(ShardError, match=r"801 tokens do not fit 8 ranks of 100.*at least 101"):
        plan_zones([801], topology(2, 4, 100, slack=1.0))


def test_pieces_without_tokens_are_refused() -> None:
    """A piece of no tokens has no place."""
    with pytest.raises(ShardError, match="piece 1 has 0 tokens"):
        plan_zones([4, 0], topology(1, 2, 100))


def test_ranks_that_do_not_fill_nodes_are_refused() -> None:
    """Half a node is no topology; fewer ranks than a node are one."""
    with pytest.raises(ShardError, match="12 ranks do not fill nodes of 8"):
        Topology.of(ranks=12, ranks_per_node=8, rank_tokens=9, shape=SHAPE)
    small = Topology.of(ranks=4, ranks_per_node=8, rank_tokens=9, shape=SHAPE)
    assert (small.nodes, small.ranks_per_node) == (1, 4)


def test_defaults_are_those_of_the_settings() -> None:
    """A topology made without settings is that of the recipe's defaults."""
    said = {f.name: f.default for f in fields(TopologySettings)}
    made = inspect.signature(Topology.of).parameters
    assert {name: made[name].default for name in said} == said


def test_crossing_lengths_are_where_both_times_are_equal() -> None:
    """Attention and traffic of a ring take the same time at the crossing length."""
    shape = ModelShape(layers=1, hidden=4096, heads=32, kv_heads=8, head_dim=128, ffn=1)
    for width, rate in ((2, 200.0), (8, 25.0)):
        s = crossing_length(width, shape, 2, 400.0, rate)
        compute = 2 * 32 * 128 * s**2 / width / 400e12
        traffic = (width - 1) * (s / width) * 2 * 8 * 128 * 2 / (rate * 1e9)
        assert compute == pytest.approx(traffic)
    # papers_data 3.4: multi-head attention, bf16, 400 TFLOP/s, 200 GB/s.
    full = ModelShape(layers=1, hidden=4096, heads=32, kv_heads=32, head_dim=128, ffn=1)
    assert crossing_length(2, full, 2, 400.0, 200.0) == pytest.approx(4000)


@given(st.integers(2, 70_000), st.integers(2, 64))
def test_even_shares_are_even(length: int, width: int) -> None:
    """Shares add up, differ by the alignment at most from even, and are multiples but for the last."""
    width = min(width, length // 2) or 1
    shares = [even_share(length, width, place) for place in range(width)]
    assert sum(shares) == length
    align = ALIGN
    while align > 1 and length < 8 * width * align:
        align //= 2
    for share in shares[:-1]:
        assert share % (2 * align) == 0
    if width > 1:
        assert max(shares) <= -(-length // width) + 2 * align
        assert min(shares) >= 1


def _brute_force(lengths: list[int], ranks: int, capacity: int) -> float:
    """Least possible maximum of attention work when no piece is divided."""
    best = np.inf
    for placed in itertools.product(range(ranks), repeat=len(lengths)):
        at = np.array(placed)
        tokens = np.bincount(at, lengths, ranks)
        if tokens.max() <= capacity:
            best = min(best, np.bincount(at, np.square(lengths), ranks).max())
    return best


@pytest.mark.parametrize("seed", range(12))
def test_no_worse_than_the_best_undivided_plan(seed: int) -> None:
    """On small slots, at most the 5 % aimed at above the best of all plans that divide nothing."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(64, 900, 7).tolist()
    where = topology(1, 3, -(-sum(lengths) // 3), traffic_price=0.0)
    plan = plan_zones(lengths, where)
    check(plan)
    assert plan.loads[0].max() <= _brute_force(lengths, 3, where.capacity) * 1.05


def profile(steps: int, total: int, seed: int) -> list[npt.NDArray[np.int64]]:
    """Steps of web-like lengths: 3 % above 4K."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(steps):
        drawn = np.minimum(np.exp(6.2 + 1.25 * rng.standard_normal(1000)), 65536).astype(np.int64)
        drawn = np.maximum(drawn, 16)
        kept = drawn[: int(np.searchsorted(np.cumsum(drawn), total))]
        found.append(np.append(kept, total - kept.sum()))
    return found


@pytest.mark.parametrize("nodes", [2, 4])
def test_balance_at_little_traffic(nodes: int) -> None:
    """Attention max/mean at most 1.25 at 8K tokens a rank, a third of a ring's traffic across."""
    found, across, ring = [], 0, 0.0
    where = topology(nodes, 8, 8192)
    for lengths in profile(8, nodes * 8 * 8192, nodes):
        plan = plan_zones(lengths, where)
        check(plan)
        found.append(plan.imbalance[0])
        across += plan.ring_tokens[1]
        ring += nodes * lengths.sum() * (1 - 1 / where.ranks)
    assert np.mean(found) <= 1.25
    assert across <= ring / 3


def test_traffic_has_a_price() -> None:
    """A higher price never buys more traffic across nodes; capacity mode buys the least."""
    across = []
    for settings in ({"traffic_price": 0.0}, {"traffic_price": 5.0}, {"zone_mode": "capacity"}):
        where = topology(2, 8, 4096, **settings)
        plans = [plan_zones(lengths, where) for lengths in profile(6, 65536, 1)]
        across.append(sum(plan.ring_tokens[1] for plan in plans))
    assert across[0] > across[1] >= across[2]


def test_programs_of_the_page_run() -> None:
    """Each Python block of the page on zones runs as it stands."""
    page = (ROOT / "docs" / "zones.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert blocks
    for block in blocks:
        exec(block, {})


def test_planning_needs_numpy_and_numba_alone() -> None:
    """A training loop plans its zones without what recipes need."""
    blocked = ("annotated_types", "pydantic", "apache_beam", "duckdb", "typer")
    program = f"import sys; sys.modules.update(dict.fromkeys({blocked})); import packing.zones"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)

"""Zone plans: balance, traffic and time beside one ring, ByteScale-like groups and no division.

    python benchmarks/zones.py [--steps 240] [--rivals FOLDER] [--out benchmarks/results]

Steps are filled from length profiles (shares of documents by length in figure "domain balance" of
DataSculpt, log-uniform inside each class, from 32 to 65,536 tokens). Attention is the work of the
busiest rank over the mean rank's, mean over steps; traffic is tokens whose keys and values pass a hop
between nodes, over those of one ring of all ranks (Transformer Engine's context parallelism).

* *ring*: every document over all ranks. Balanced by construction.
* *hdp*: as ByteScale (arXiv:2502.21231) divides: ``ceil(length / capacity)`` neighbouring ranks,
  those with the least attention, longest document first.
* *whole*: no division; each document to the rank with the least attention that has room.
* *capacity*, *cost*: Drystone's zone plans; ``cost`` is the default.

``bound`` is what no plan without traffic between nodes goes below: the longest document on one node.

The second table is for documents longer than a window: Drystone's aligned blocks, beside
``BalancedCPScheduler`` of NVIDIA/Megatron-LM from its own source (``--rivals``, see
`rival_source.py`), which plans a step in groups that wait for each other. Its efficiency is taken
with the cost model that Drystone plans with (Llama 7B); it plans with squares alone.
"""

import argparse
import itertools
import json
import time
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from math import ceil, log2
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Optional

import length_laws
import numpy as np
from rival_source import AbsentError, load

from packing.context_parallel import plan_groups
from packing.cost import ModelShape, row_cost
from packing.fit import PackSettings, fit_rows
from packing.ring import Ints
from packing.topology import Topology
from packing.zones import plan_zones

CLASSES = [(32, 4096), (4096, 8192), (8192, 16384), (16384, 32768), (32768, 65536), (65536, 65537)]
PROFILES = {
    "code": (92.4, 3.9, 1.9, 0.9, 0.5, 0.5),
    "paper": (4.9, 14.6, 33.7, 31.2, 12.5, 3.1),
    "web": (96.7, 2.3, 0.7, 0.2, 0.1, 0.0),
}
SHAPE = ModelShape(layers=16, hidden=2048, heads=16, kv_heads=8, head_dim=128, ffn=8192)
LLAMA_7B = ModelShape(
    layers=32, hidden=4096, heads=32, kv_heads=32, head_dim=128, ffn=11008, vocab=32000
)
TOPOLOGIES = [(2, 8, 4096), (2, 8, 8192), (4, 8, 4096), (4, 8, 8192)]
WINDOWS = [(8, 32768), (64, 32768), (64, 65536), (64, 131072)]


def draw_steps(profile: str, tokens: int, count: int, seed: int = 0) -> list[Ints]:
    """Return the document lengths of steps; the last document of each is cut to fill it."""
    rng = np.random.default_rng(seed)
    share = np.array(PROFILES[profile])
    low, high = np.log(np.array(CLASSES).T)
    found = []
    for _ in range(count):
        kind = rng.choice(len(share), 1 + tokens // 64, p=share / share.sum())
        drawn = np.exp(low[kind] + (high - low)[kind] * rng.random(len(kind))).astype(np.int64)
        ends = np.cumsum(np.minimum(drawn, 65536))
        last = int(np.searchsorted(ends, tokens))
        found.append(np.diff(np.append(ends[:last], tokens), prepend=0))
    return found


Loads = tuple[np.ndarray, np.ndarray, float]


def neighbours(length: Ints, topology: Topology, divide: bool) -> Loads:
    """Divide over neighbouring ranks by capacity alone, or not at all."""
    work, tokens = np.zeros(topology.ranks), np.zeros(topology.ranks)
    across = 0.0
    for s in np.sort(length)[::-1].tolist():
        g = min(topology.ranks, -(-s // topology.capacity)) if divide else 1
        firsts = np.arange(0, topology.ranks - g + 1)
        windows = firsts[:, None] + np.arange(g)
        load = work[windows].max(axis=1)
        room = (tokens[windows] + s / g <= topology.capacity).all(axis=1)
        # Without division, and at times with it, nothing has room: then capacity is exceeded.
        at = int(np.argmin(np.where(room, load, np.inf) if room.any() else load))
        work[at : at + g] += s * s / g
        tokens[at : at + g] += s / g
        node = windows[at] // topology.ranks_per_node
        if g > 1:
            across += s * (1 - 1 / g) * np.count_nonzero(node != np.roll(node, -1))
    return work, tokens, across


def zones(length: Ints, topology: Topology) -> Loads:
    """Drystone's plan."""
    plan = plan_zones(length, topology)
    work, tokens = plan.loads
    if tokens.max() > topology.capacity:
        raise SystemExit(f"{tokens.max()} tokens on a rank of {topology.capacity}")
    return work, tokens.astype(np.float64), float(plan.ring_tokens[1])


def zone_table(steps: int) -> list[dict[str, Any]]:
    """Return one line per topology and profile."""
    lines = []
    for nodes, per_node, tokens in TOPOLOGIES:
        ranks = nodes * per_node
        topology, by_capacity = (
            Topology.of(
                ranks=ranks,
                ranks_per_node=per_node,
                rank_tokens=tokens,
                shape=SHAPE,
                zone_mode=mode,
            )
            for mode in ("cost", "capacity")
        )
        for profile in PROFILES:
            drawn = draw_steps(profile, ranks * tokens, steps)
            ring = sum(nodes * s.sum() * (1 - 1 / ranks) for s in drawn)
            bound = [max(1.0, nodes * float(s.max()) ** 2 / (s**2.0).sum()) for s in drawn]
            line: dict[str, Any] = {
                "topology": f"{nodes}x{per_node}",
                "tokens_per_rank": tokens,
                "profile": profile,
                "documents_per_step": round(float(np.mean([len(s) for s in drawn])), 1),
                "bound_without_crossing": round(float(np.mean(bound)), 3),
            }
            plans: dict[str, Callable[[Ints], Loads]] = {
                "whole": lambda s, t=topology: neighbours(s, t, divide=False),
                "hdp": lambda s, t=topology: neighbours(s, t, divide=True),
                "capacity": lambda s, t=by_capacity: zones(s, t),
                "cost": lambda s, t=topology: zones(s, t),
            }
            for name, plan in plans.items():
                plan(drawn[0])
                begin = time.process_time()
                made = [plan(s) for s in drawn]
                seconds = time.process_time() - begin
                line[name] = {
                    "attention": round(float(np.mean([w.max() / w.mean() for w, _, _ in made])), 3),
                    "tokens": round(float(np.mean([t.max() / t.mean() for _, t, _ in made])), 3),
                    "capacity_used": round(
                        float(max(t.max() for _, t, _ in made) / topology.capacity), 3
                    ),
                    "across": round(sum(a for _, _, a in made) / ring, 3),
                    "ms_per_step": round(1e3 * seconds / steps, 3),
                }
            lines.append(line)
    return lines


def group_steps(ranks: int, window: int, count: int) -> list[np.ndarray]:
    """Return documents of whole steps of four windows a rank; none is longer than all windows."""
    pool = np.minimum(length_laws.draw("prolong", 400_000), ranks * window).astype(np.int64)
    ends = np.cumsum(pool)
    cuts = [0, *(int(np.searchsorted(ends, 4 * ranks * window * (i + 1))) for i in range(count))]
    found = [pool[a:b] for a, b in itertools.pairwise(cuts) if b < len(pool)]
    if len(found) < count:
        raise SystemExit(f"{len(found)} steps of {count} in the pool; ask for fewer")
    return found


def packed(documents: np.ndarray, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Return tokens and sums of squares: longer documents by themselves, rows of the others."""
    short = documents[documents <= window].astype(np.int32)
    pieces = fit_rows(short, np.arange(len(short)).astype(np.uint64), PackSettings(seq_len=window))
    long = documents[documents > window]
    return (
        np.concatenate([long, pieces.row_tokens()]),
        np.concatenate([long**2.0, pieces.row_squares()]),
    )


def megatron_ratio(scheduler: Any, tokens: np.ndarray, cost: np.ndarray, ranks: int) -> float:
    """Return the time of Megatron's groups, one after the other, over that of equal work."""
    _, groups = scheduler.get_groups_and_subsamples(list(enumerate(tokens.tolist())), None)
    slowest = 0.0
    for group in groups:
        width = np.zeros(len(tokens), np.int64)
        for ids in group:
            width[ids] += 1
        slowest += max(sum(cost[i] / width[i] for i in ids) for ids in group)
    return float(slowest / (cost.sum() / ranks))


def group_table(steps: int, rivals: Path | None) -> tuple[list[dict[str, Any]], str]:
    """Return one line per number of ranks and window, and why a rival sat out."""
    names = {
        "torch": SimpleNamespace(distributed=SimpleNamespace(ProcessGroup=object)),
        "deque": deque, "lru_cache": lru_cache, "ceil": ceil, "log2": log2,
        "Callable": Callable, "List": list, "Optional": Optional, "Tuple": tuple,
    }  # fmt: skip
    file = "Megatron-LM/megatron/core/pipeline_parallel/hybrid_cp_schedule.py"
    absent, rival = "", None
    try:
        rival = load(rivals, file, {"BalancedCPScheduler"}, names)["BalancedCPScheduler"]
    except AbsentError as error:
        absent = str(error)
    lines = []
    for ranks, window in WINDOWS:
        drawn = group_steps(ranks, window, steps)
        rows = [packed(documents, window) for documents in drawn]
        costs = [row_cost(tokens, squares, LLAMA_7B) for tokens, squares in rows]
        plan_groups(rows[0][0], costs[0], window, ranks)
        begin = time.process_time()
        ours = [
            plan_groups(tokens, cost, window, ranks).imbalance
            for (tokens, _), cost in zip(rows, costs, strict=True)
        ]
        seconds = time.process_time() - begin
        line: dict[str, Any] = {
            "ranks": ranks,
            "window": window,
            "documents_per_step": round(float(np.mean([len(d) for d in drawn]))),
            "drystone": round(float(np.mean(ours)), 4),
            "drystone_worst": round(max(ours), 4),
            "drystone_ms": round(1e3 * seconds / steps, 2),
        }
        if rival is not None:
            group = SimpleNamespace(size=lambda r=ranks: r)
            for kind in ("documents", "rows"):
                begin, ratios = time.process_time(), []
                for documents, (tokens, _), cost in zip(drawn, rows, costs, strict=True):
                    of = documents if kind == "documents" else tokens
                    work = row_cost(of, of**2.0, LLAMA_7B) if kind == "documents" else cost
                    ratios.append(megatron_ratio(rival(window, group), of, work, ranks))
                line[f"megatron_{kind}"] = round(float(np.mean(ratios)), 4)
                line[f"megatron_{kind}_ms"] = round(1e3 * (time.process_time() - begin) / steps, 1)
        lines.append(line)
    return lines, absent


def markdown(result: dict[str, Any]) -> str:
    """Return the tables as a page."""
    plans = ("whole", "hdp", "capacity", "cost")
    out = [
        "# Zone plans",
        "",
        "`benchmarks/zones.py`; what the columns mean stands in its text.",
        "",
    ]
    out += [
        "| ranks, tokens each | profile | attention max/mean: " + " / ".join(plans)
        + " | tokens over capacity: same | between nodes, of a ring's: hdp / capacity / cost"
        " | bound without crossing | ms a step |",
        "|---|---|---|---|---|---:|---:|",
    ]  # fmt: skip
    for line in result["zones"]:
        out.append(
            f"| {line['topology']}, {line['tokens_per_rank']} | {line['profile']} | "
            + " / ".join(f"{line[p]['attention']:.2f}" for p in plans)
            + " | "
            + " / ".join(f"{line[p]['capacity_used']:.2f}" for p in plans)
            + " | "
            + " / ".join(f"{line[p]['across']:.3f}" for p in plans[1:])
            + f" | {line['bound_without_crossing']:.2f} | {line['cost']['ms_per_step']:.2f} |"
        )
    out += ["", f"Mean of {result['steps']} steps; tokens over capacity is the highest of all.", ""]
    out += [
        "## Documents longer than a window",
        "",
        "Time of the slowest rank over that of equal work; ProLong's lengths, four windows a rank.",
        "",
        "| ranks, window | Drystone | worst step | ms | Megatron, documents | ms | Megatron, rows | ms |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for line in result["groups"]:
        theirs = [
            str(line.get(f"megatron_{kind}{what}", "-"))
            for kind in ("documents", "rows")
            for what in ("", "_ms")
        ]
        out.append(
            f"| {line['ranks']}, {line['window']} | {line['drystone']} | {line['drystone_worst']} | "
            f"{line['drystone_ms']} | {' | '.join(theirs)} |"
        )
    if result["absent"]:
        out += ["", f"Megatron sat out: {result['absent']}."]
    return "\n".join(out) + "\n"


def main() -> None:
    """Make both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--group-steps", type=int, default=8)
    parser.add_argument("--rivals", type=Path)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    lines = zone_table(options.steps)
    groups, absent = group_table(options.group_steps, options.rivals)
    result = {"steps": options.steps, "zones": lines, "groups": groups, "absent": absent}
    print(markdown(result))
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "zones.json").write_text(json.dumps(result, indent=1) + "\n")
        (options.out / "zones.md").write_text(markdown(result))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Removal of near-duplicates, JSON lines in and JSON lines out, beside other tools in the same run.

    python benchmarks/install_rivals.py DIR --duplodocus SOURCE
    python benchmarks/dedup_speed.py --rivals DIR --work SCRATCH

Each rival runs right after a run of Drystone, whose time its own is divided by, so that what else the
machine does hits both; of several rounds (``--repeat``) the median counts. Drystone's time is that of
``drystone run RECIPE --until dedupe.near`` (start-up, reading, exact and near removal with every pair
verified, catalog) plus that of ``drystone export RUN --documents --to jsonl.zst``; both ratios are
given. All read the same plain JSON lines, with a warm page cache and compiled kernels, and use two
workers; datasketch and rensa are one process by nature. text-dedup ends with an Arrow dataset. Results
go to ``benchmarks/results/dedup.{json,md}``.
"""

import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from dedup_quality import arguments, counts, files_of
from dedup_tools import Ran, Tools, corpus_of, machine, write_results

from pipelines.audit.raw import AuditSettings, RawInput

BARS = {"duplodocus": 3.5, "datatrove": 20.0, "text-dedup": 6.0, "rensa": 5.0}
"""How many times as long as Drystone, by wall time, end to end."""
MEMORY_MB = 700


def main() -> int:
    """Run all tools over the corpora; print and keep the figures."""
    options = arguments(__doc__ or "", ("corpus", "corpus-4x"))
    tools = Tools(options.rivals)
    names = [n for n in options.tools if n != "drystone" and tools.present(n)]
    tables: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="drystone-bench-", dir=options.work) as folder:
        held = options.work or Path(folder)
        tools.run("drystone", corpus_of("mini", held), Path(folder) / "run")  # compiles
        for corpus in options.corpora:
            source = corpus_of(corpus, held, options.files)
            for path in source.glob("*.jsonl"):
                path.read_bytes()  # into the page cache
            facts = {**machine(), "rounds": options.repeat}
            rounds = [
                (name, *pair(tools, name, source, Path(folder)))
                for _ in range(options.repeat)
                for name in names or ["drystone"]
            ]
            size = sum(path.stat().st_size for path in source.glob("*.jsonl"))
            figures = table(tools, source, rounds)
            tables[source.name] = {"machine": facts, "bytes": size, **figures}
    print(markdown(tables))
    if options.files is None:
        write_results("speed", tables, markdown)
    return 0


def pair(tools: Tools, name: str, source: Path, folder: Path) -> tuple[Ran, Ran]:
    """Run Drystone and a rival, one after the other."""
    ours = tools.run("drystone", source, folder / "drystone")
    theirs = ours if name == "drystone" else tools.run(name, source, folder / name)
    for ran in (ours, theirs):
        print(ran.kept.parent.name, ran.total.to_json(), file=sys.stderr, flush=True)
    return ours, theirs


def table(tools: Tools, source: Path, rounds: list[tuple[str, Ran, Ran]]) -> dict[str, Any]:
    """Return the figures of one corpus: the median round of each tool, and what it kept."""
    with RawInput(files_of("--input", source), AuditSettings(show=0)) as raw:
        ours = [ours for _, ours, _ in rounds]
        rows = [row("drystone", tools, ours, raw)]
        for name in dict.fromkeys(name for name, _, _ in rounds if name != "drystone"):
            mine = [(ours, theirs) for other, ours, theirs in rounds if other == name]
            rows.append(row(name, tools, [theirs for _, theirs in mine], raw))
            for key, of in (("times", "total"), ("times_without_writing", "removal")):
                ratios = [t.total.wall_s / getattr(o, of).wall_s for o, t in mine]
                rows[-1][key] = round(statistics.median(ratios), 2)
            cpu = [t.total.cpu_s / o.total.cpu_s for o, t in mine]
            rows[-1]["times_cpu"] = round(statistics.median(cpu), 2)
        return {"documents": len(raw.documents), "tools": rows}


def row(name: str, tools: Tools, runs: list[Ran], raw: RawInput) -> dict[str, Any]:
    """Return the figures of a tool: those of its run of median wall time, and its quality."""
    middle = sorted(runs, key=lambda ran: ran.total.wall_s)[(len(runs) - 1) // 2]
    found: dict[str, Any] = {
        "tool": name,
        "version": tools.version(name),
        "runs": len(runs),
        **middle.total.to_json(),
    }
    if middle.writing:
        found["removal"] = middle.removal.to_json()
        found["writing"] = middle.writing.to_json()
    return {**found, **counts(raw, runs[-1])}


def markdown(tables: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "## Speed",
        "",
        "`benchmarks/dedup_speed.py`: JSON lines in, JSON lines out, two workers. *Times*: wall time "
        "over that of Drystone's run just before it, Drystone's export of the kept text included, and "
        "(in brackets) without. Memory is that of the process tree, shared pages once (PSS) or in "
        "each process (RSS).",
        "",
    ]
    for corpus, found in tables.items():
        facts = found["machine"]
        load = ", ".join(f"{x:.1f}" for x in facts["load_before"])
        lines += [
            f"**{corpus}**: {found['documents']:,} documents, {found['bytes'] / 1e6:,.0f} MB. "
            f"{facts['date']}, {facts['cpu']}, {facts['cores']} cores (load before: {load}), "
            f"Python {facts['python']}, {facts['rounds']} round(s)",
            "",
            "| tool | wall s | CPU s | peak PSS MB | RSS MB | removed | leaked | lost | times | bar |",
            "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for tool in found["tools"]:
            lines += tool_lines(tool)
        peak = found["tools"][0]["removal"]["peak_pss_mb"]
        lines += ["", f"Memory of `drystone run`: {peak} MB; bar on the corpus: {MEMORY_MB}.", ""]
    return "\n".join(lines)


def tool_lines(tool: dict[str, Any]) -> list[str]:
    """Return the lines of one tool."""

    def cost(of: dict[str, Any]) -> str:
        return f"{of['wall_s']} | {of['cpu_s']} | {of['peak_pss_mb']:,} | {of['peak_rss_mb']:,}"

    quality = f"{tool['removed']:,} | {tool['leaked']:,} | {tool['lost']:,}"
    times, bar = "", ""
    if "times" in tool:
        times = f"{tool['times']:.1f} ({tool['times_without_writing']:.1f})"
        bar = f"{BARS[tool['tool']]:g}" if tool["tool"] in BARS else ""
    lines = [f"| {tool['tool']} {tool['version']} | {cost(tool)} | {quality} | {times} | {bar} |"]
    for part in ("removal", "writing"):
        if part in tool:
            lines.append(f"| of it {part} | {cost(tool[part])} | | | | | |")
    return lines


if __name__ == "__main__":
    sys.exit(main())

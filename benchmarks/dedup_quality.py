#!/usr/bin/env python3
"""Leak and loss of Drystone and of other tools on the same documents, judged by ``drystone audit dedup``.

    python benchmarks/install_rivals.py DIR --duplodocus SOURCE
    python benchmarks/dedup_quality.py --rivals DIR

Leak: documents kept beside a kept duplicate. Loss: documents removed of which no duplicate is kept.
Both are exact, at Jaccard 0.8 over Drystone's published tokens; the others' tokens differ somewhat.
Ends with 1 when Drystone misses more than one pair in 10,000, or loses a document. Results go to
``benchmarks/results/dedup.{json,md}``.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from dedup_tools import NAMES, Ran, Tools, corpus_of, machine, write_results

from pipelines.audit.dedup import Verdict, judge
from pipelines.audit.documents import AuditedFiles, Columns
from pipelines.audit.raw import AuditSettings, RawInput

CORPORA = ("mini", "nd-book-chapters", "nd-revisions", "corpus")
MISSED = 1e-4
"""Most missed pairs among all at the threshold."""


def main() -> int:
    """Run all tools over all corpora; print and keep the figures."""
    options = arguments(__doc__ or "", CORPORA)
    tools = Tools(options.rivals)
    names = [name for name in options.tools if tools.present(name)]
    tables: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="drystone-bench-", dir=options.work) as folder:
        for corpus in options.corpora:
            source = corpus_of(corpus, options.work or Path(folder), options.files)
            with RawInput(files_of("--input", source), AuditSettings(show=0)) as raw:
                pairs = judge(raw, files_of("--kept", source)).leaked_pairs
                rows = []
                for name in names:
                    ran = tools.run(name, source, Path(folder) / "run")
                    row = {"tool": name, "version": tools.version(name), **counts(raw, ran)}
                    rows.append({**row, **ran.total.to_json()})
                    print(rows[-1], file=sys.stderr, flush=True)
                documents = len(raw.documents)
            facts = {"machine": machine(), "documents": documents, "pairs": pairs}
            tables[source.name] = {**facts, "tools": rows}
    print(markdown(tables))
    if options.files is None:
        write_results("quality", tables, markdown)
    return check(tables)


def arguments(doc: str, corpora: tuple[str, ...]) -> argparse.Namespace:
    """Return the options that both programs take."""
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    rivals = os.environ.get("DRYSTONE_RIVALS")
    parser.add_argument("--rivals", type=Path, default=rivals and Path(rivals), metavar="DIR")
    parser.add_argument("--tools", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--corpora", nargs="*", default=corpora, choices=(*CORPORA, "corpus-4x"))
    parser.add_argument("--files", type=int, help="only so many files of the corpus, for a trial")
    parser.add_argument("--work", type=Path, help="folder that keeps the corpora and holds runs")
    parser.add_argument("--repeat", type=int, default=1, help="rounds (speed only)")
    options = parser.parse_args()
    if options.work:
        options.work.mkdir(parents=True, exist_ok=True)
    return options


def files_of(option: str, folder: Path) -> AuditedFiles:
    """Return the files of a folder, for the audit."""
    return AuditedFiles(option, [str(folder)], Columns())


def counts(raw: RawInput, ran: Ran) -> dict[str, Any]:
    """Judge what a tool kept."""
    verdict: Verdict = judge(raw, files_of("--kept", ran.kept))
    return {
        "removed": verdict.removed,
        "leaked": verdict.leaked,
        "leaked_pairs": verdict.leaked_pairs,
        "lost": verdict.lost,
        "lost_below_0.7": verdict.lost_below[0.7],
        "lost_below_0.5": verdict.lost_below[0.5],
        "unknown": len(verdict.matching.unknown),
    }


def check(tables: dict[str, Any]) -> int:
    """Return 1 when Drystone missed a bar, and say which."""
    missed = []
    for corpus, table in tables.items():
        for row in table["tools"]:
            if row["tool"] == "drystone":
                if row["leaked_pairs"] > MISSED * table["pairs"]:
                    missed.append(f"{corpus}: {row['leaked_pairs']} of {table['pairs']} missed")
                if row["lost"]:
                    missed.append(f"{corpus}: {row['lost']} documents lost")
    for line in missed:
        print(f"MISSED  {line}", file=sys.stderr)
    return 1 if missed else 0


def markdown(tables: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "## Quality",
        "",
        "`benchmarks/dedup_quality.py`. Exact counts at Jaccard 0.8 (5-grams of "
        "Drystone's tokens, `drystone audit dedup`). Leaked: kept beside a kept duplicate; lost: "
        "removed with no kept duplicate. The rivals run 14 bands of 8 rows without verification; "
        "Drystone its defaults.",
        "",
    ]
    for corpus, table in tables.items():
        lines += [
            f"**{corpus}**: {table['documents']:,} documents, {table['pairs']:,} pairs at 0.8 "
            f"({table['machine']['date']})",
            "",
            "| tool | removed | leaked | leaked pairs | lost | lost, none at 0.7 | none at 0.5 |",
            "|---|---:|---:|---:|---:|---:|---:|",
        ]
        columns = ("removed", "leaked", "leaked_pairs", "lost", "lost_below_0.7", "lost_below_0.5")
        lines += [
            f"| {row['tool']} {row['version']} | "
            + " | ".join(f"{row[name]:,}" for name in columns)
            + " |"
            for row in table["tools"]
        ]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

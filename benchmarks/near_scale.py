#!/usr/bin/env python3
"""Near-duplicate removal as a corpus grows: CPU seconds and memory per phase, and what is missed.

    python benchmarks/near_scale.py                                # 100,000, 300,000 and 1,000,000
    python benchmarks/near_scale.py --documents 100000 4000000     # 5.6 GB of text

Corpora are generated (``near_corpus.py``), so that the similarity of every copy is known. Results go
to ``benchmarks/results/near-scale.{json,md}``. Compare CPU seconds: wall time depends on what else the
machine does.
"""

import argparse
import datetime
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from main_job import machine, run
from near_corpus import Made, make_corpus
from near_split import GROUPS, grouped

HERE = Path(__file__).resolve().parent
OUTSIDE = ("read", "write", "engine")
"""Groups that are not counted as work on the text."""


def main() -> None:
    """Measure each size, print a table and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    sizes = [100_000, 300_000, 1_000_000]
    parser.add_argument("--documents", type=int, nargs="+", default=sizes)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--scratch", type=Path, help="folder with room for twice the text")
    parser.add_argument("--corpora", type=Path, help="keep corpora here; those found are not made")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        # Compiles the kernels where they are not compiled yet.
        measure(Path(folder), make_corpus(Path(folder) / "corpus", 2_000), options.workers)
    rows = []
    for documents in options.documents:
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            corpus = (options.corpora or Path(folder)) / f"{documents}"
            made = make_corpus(corpus, documents)
            rows.append(measure(Path(folder), made, options.workers))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    result = {"date": date, "machine": machine(), "workers": options.workers, "sizes": rows}
    text = markdown(result)
    print(text)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "near-scale.json").write_text(json.dumps(result, indent=1) + "\n")
    (options.results / "near-scale.md").write_text(text)


def measure(folder: Path, made: Made, workers: int) -> dict[str, Any]:
    """Run the stage on a corpus, and judge the result by what is known of the copies."""
    documents = made.documents
    workdir = folder / "w"
    recipe = folder / "recipe.toml"
    recipe.write_text(
        f'name = "near-scale"\nworkdir = "{workdir}"\n'
        f'[[sources]]\nname = "made"\npath = "{made.folder}/part-*.jsonl.zst"\n'
        f"[dedupe.exact]\n[dedupe.near]\n[runner]\nworkers = {workers}\n"
    )
    measured = run([sys.executable, str(HERE / "near_split.py"), str(recipe)])
    found = json.loads(measured.stdout.splitlines()[-1])
    [ingest] = workdir.glob("artifacts/ingest-*/manifest.json")
    [near] = workdir.glob("artifacts/dedupe.near-*/manifest.json")
    counters = json.loads(near.read_text())["counters"]
    text = json.loads(ingest.read_text())["counters"]["bytes"]
    seconds = grouped(found["seconds"])
    work = sum(s for group, s in seconds.items() if group not in OUTSIDE)
    return {
        "documents": documents,
        "text_gb": round(text / 1e9, 3),
        "cpu_s": round(measured.cpu_s, 2),
        "wall_s": round(measured.wall_s, 2),
        "cpu_s_per_gb_outside_read_and_write": round(work / text * 1e9, 2),
        "microseconds_per_document": {n: round(s / documents * 1e6, 2) for n, s in seconds.items()},
        "seconds": {name: round(s, 3) for name, s in sorted(found["seconds"].items())},
        "peak_rss_mb": round(measured.peak_rss_bytes / 1e6),
        "candidate_pairs": counters["candidate pairs"],
        "near_pairs": counters["near pairs"],
        "pairs_left_out": counters["pairs left out"],
        "removed": found["summary"]["dropped"],
        **judge(workdir, made),
    }


def judge(workdir: Path, made: Made) -> dict[str, int]:
    """Count known pairs of which both documents stayed, and removals whose keeper did not."""
    names: dict[int, int] = {}
    for file in workdir.glob("artifacts/ingest-*/[0-9a-f]*.parquet"):
        table = pq.read_table(file, columns=["doc_uid", "id"])
        names.update(
            zip(table["doc_uid"].to_pylist(), map(int, table["id"].to_pylist()), strict=True)
        )
    removed = np.zeros(made.documents, bool)
    keepers = []
    for file in workdir.glob("artifacts/dedupe.*/duplicates-*.parquet"):
        table = pq.read_table(file, columns=["doc_uid", "keeper_uid", "kind"])
        removed[[names[uid] for uid in table["doc_uid"].to_pylist()]] = True
        if "near" in table["kind"].unique().to_pylist():
            keepers += [names[uid] for uid in table["keeper_uid"].to_pylist()]
    truth = pq.read_table(made.truth)
    truth = truth.filter(pa.array(truth["jaccard"].to_numpy() >= 0.8))
    first, second = (np.array(list(map(int, truth[n].to_pylist()))) for n in ("first", "second"))
    return {
        "known_pairs": len(truth),
        "known_pairs_missed": int((~removed[first] & ~removed[second]).sum()),
        "removed_without_kept_neighbour": int(removed[keepers].sum()),
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the results as tables."""
    lines = ["# Near-duplicate removal, by size of the corpus", ""]
    lines += [f"{result['date']}, {result['machine']}, {result['workers']} workers.", ""]
    rows = result["sizes"]
    lines += ["| | " + " | ".join(f"{row['documents']:,}" for row in rows) + " |"]
    lines += ["|---|" + "---|" * len(rows)]
    for key, label, form in (
        ("text_gb", "text, GB", ".3f"),
        ("cpu_s", "CPU s, whole program", ".1f"),
        ("wall_s", "wall s", ".1f"),
        ("cpu_s_per_gb_outside_read_and_write", "CPU s per GB outside reading and writing", ".1f"),
        ("peak_rss_mb", "peak memory of all processes, MB", ","),
        ("candidate_pairs", "candidate pairs", ","),
        ("near_pairs", "pairs at 0.8 or above", ","),
        ("pairs_left_out", "pairs left out", ","),
        ("known_pairs", "known pairs at 0.8 or above", ","),
        ("known_pairs_missed", "of them, both kept", ","),
        ("removed_without_kept_neighbour", "removed without a kept neighbour", ","),
    ):
        lines.append(f"| {label} | " + " | ".join(format(row[key], form) for row in rows) + " |")
    lines += ["", "CPU microseconds per document:", ""]
    lines += ["| | " + " | ".join(f"{row['documents']:,}" for row in rows) + " |"]
    lines += ["|---|" + "---|" * len(rows)]
    for group in (*GROUPS, "engine"):
        each = [row["microseconds_per_document"][group] for row in rows]
        lines.append(f"| {group} | " + " | ".join(f"{value:.1f}" for value in each) + " |")
    sums = [sum(row["microseconds_per_document"].values()) for row in rows]
    lines.append("| **sum** | " + " | ".join(f"**{value:.1f}**" for value in sums) + " |")
    lines += [
        "",
        "`engine` is start-up (some seconds, whatever the size), Beam, receipts, catalog.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""The main job on real text, stage by stage, beside datatrove doing the same steps in the same run.

    python benchmarks/main_job.py                 # or: make bench
    python benchmarks/main_job.py --no-rival

Ours: read, exact de-duplication, a tokenizer trained inside, encode, pack, plan, catalog; through
the ``drystone`` command, start-up included, compiled kernels warm. The rival's steps are those of
``rival_datatrove.py``, in a throw-away environment. Compare CPU seconds: wall time depends on what
else the machine does. Results go to ``benchmarks/results/main-job.{json,md}``.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SHARED = ROOT.parent / "shared" / "data" / "corpus"
RIVAL = "datatrove[processing,io]==0.10.1"
BARS = {"cpu_without_encode_s": 35.0, "peak_rss_gb": 3.0, "bytes_per_token": 2.3}


@dataclass(frozen=True, slots=True)
class Measured:
    """What a command printed, and what it cost with all its children."""

    stdout: str
    cpu_s: float
    wall_s: float
    peak_rss_bytes: int


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, help="folder of source/part.jsonl* (default: found)")
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--seq-len", type=int, default=32768)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--no-rival", action="store_true", help="leave datatrove out")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="drystone-bench-") as folder:
        work = Path(folder)
        corpus = options.corpus or (SHARED if SHARED.is_dir() else python_corpus(work / "corpus"))
        result = {
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "machine": machine(),
            "corpus": describe(corpus),
            "settings": {n: getattr(options, n) for n in ("vocab", "seq_len", "workers")},
            "drystone": drystone(corpus, work, options),
        }
        if not options.no_rival:
            result["datatrove"] = datatrove(corpus, work, options)
    text = markdown(result)
    print(text)
    options.results.mkdir(parents=True, exist_ok=True)
    (options.results / "main-job.json").write_text(json.dumps(result, indent=1) + "\n")
    (options.results / "main-job.md").write_text(text)


# Ours.


def drystone(corpus: Path, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run the job with the installed command; return its figures."""
    command = shutil.which("drystone", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if command is None:
        sys.exit("no drystone command; install the project into this environment first")
    smallest = min(sources(corpus), key=lambda s: sum(f.stat().st_size for f in s.glob("*.jsonl*")))
    warm = recipe([smallest], work / "warm", 2000, 1024, options.workers)
    run([command, "run", str(warm), "--json"])
    job = recipe(sources(corpus), work / "job", options.vocab, options.seq_len, options.workers)
    measured = run([command, "run", str(job), "--json"])
    summary = json.loads(measured.stdout)
    shards = sum(f.stat().st_size for f in Path(summary["dataset"]).glob("rows-*.parquet"))
    stages = [{k: s[k] for k in ("stage", "cpu_s", "wall_s")} for s in summary["stages"]]
    rest = measured.cpu_s - sum(s["cpu_s"] for s in stages)
    stages.append({"stage": "start-up, planning, catalog", "cpu_s": round(rest, 2), "wall_s": None})
    encode = sum(s["cpu_s"] for s in stages if s["stage"] == "encode")
    return {
        "version": importlib.metadata.version("drystone"),
        "stages": stages,
        "cpu_s": round(measured.cpu_s, 2),
        "cpu_without_encode_s": round(measured.cpu_s - encode, 2),
        "wall_s": round(measured.wall_s, 2),
        "peak_rss_gb": round(measured.peak_rss_bytes / 1e9, 2),
        "documents": summary["ingested"],
        "kept": summary["kept"],
        "tokens": summary["tokens"],
        "rows": summary["packed_rows"],
        "padding": summary["padding"],
        "bytes_per_token": round(shards / summary["tokens"], 3),
    }


def sources(corpus: Path) -> list[Path]:
    """Return the folders of the corpus."""
    return sorted(path for path in corpus.iterdir() if any(path.glob("*.jsonl*")))


def recipe(folders: list[Path], work: Path, vocab: int, seq_len: int, workers: int) -> Path:
    """Write a recipe of the main job."""
    lines = ['name = "main-job"', "seed = 7", f"workdir = {json.dumps(str(work / 'w'))}"]
    for folder in folders:
        lines += ["", "[[sources]]", f"name = {json.dumps(folder.name)}"]
        lines += [f"path = {json.dumps(str(folder / '*.jsonl*'))}"]
    lines += ["", "[dedupe.exact]", "", "[tokenizer]", f"vocab_size = {vocab}", "", "[pack]"]
    lines += [f"seq_len = {seq_len}", "", "[runner]", f"workers = {workers}"]
    work.mkdir(parents=True)
    path = work / "recipe.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# The rival.


def datatrove(corpus: Path, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run the same steps in datatrove; return its figures."""
    python = rival_environment()
    command = [str(python), str(HERE / "rival_datatrove.py"), "--input", str(corpus)]
    command += ["--work", str(work / "rival"), "--workers", str(options.workers)]
    measured = run([*command, "--vocab", str(options.vocab)])
    figures: dict[str, Any] = json.loads(measured.stdout.splitlines()[-1])
    stages = figures["stages"]
    return {
        "version": RIVAL.split("==")[1],
        "stages": stages,
        "cpu_s": round(sum(s["cpu_s"] for s in stages), 2),
        "wall_s": round(sum(s["wall_s"] for s in stages), 2),
        "peak_rss_gb": round(measured.peak_rss_bytes / 1e9, 2),
        "tokens": figures["tokens"],
        "bytes_per_token": round(figures["bytes"] / figures["tokens"], 3),
    }


def rival_environment() -> Path:
    """Return the Python of an environment with the rival, made once in the temporary folder."""
    name = RIVAL.replace("[", "-").replace("]", "").replace(",", "-").replace("==", "-")
    folder = Path(tempfile.gettempdir()) / f"drystone-bench-{name}"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        print(f"installing {RIVAL} into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", RIVAL], check=True)
        (folder / "ready").touch()
    return python


# Input and measuring.


def python_corpus(folder: Path) -> Path:
    """Write this Python's own texts as JSON lines: two sources of four files."""
    found = {
        "stdlib": (Path(sysconfig.get_path("stdlib")), ("*.py",)),
        "packages": (Path(sysconfig.get_path("purelib")), ("*.py", "*.md", "*.rst", "*.txt")),
    }
    for name, (root, patterns) in found.items():
        (folder / name).mkdir(parents=True)
        paths = sorted({path for pattern in patterns for path in root.rglob(pattern)})
        if name == "stdlib":
            paths = [p for p in paths if not {"site-packages", "dist-packages"} & set(p.parts)]
        for part in range(4):
            with (folder / name / f"part-{part}.jsonl").open("w", encoding="utf-8") as out:
                for path in paths[part::4]:
                    text = path.read_text(encoding="utf-8", errors="replace")
                    doc = {"id": str(path.relative_to(root)), "text": text}
                    out.write(json.dumps(doc) + "\n")
    return folder


def run(command: list[str]) -> Measured:
    """Run a command; measure CPU and wall time, and the peak memory of its process tree."""
    print("+", *command, file=sys.stderr, flush=True)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    peak, stop = [0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.1):
            peak[0] = max(peak[0], tree_rss(process.pid))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    stdout, _ = process.communicate()
    stop.set()
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(stdout, cpu, time.perf_counter() - began, peak[0])


def tree_rss(pid: int) -> int:
    """Return the resident memory of a process and its descendants."""
    total = 0
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0
    for process in processes:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return total


def describe(corpus: Path) -> dict[str, Any]:
    """Return the corpus' name and size."""
    files = sorted(corpus.glob("*/*.jsonl*"))
    name = "shared corpus" if corpus == SHARED else corpus.name
    return {
        "name": name,
        "sources": len(sources(corpus)),
        "files": len(files),
        "file_bytes": sum(f.stat().st_size for f in files),
    }


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":")[1].strip() if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }


def markdown(result: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    ours, rival, facts = result["drystone"], result.get("datatrove"), result["machine"]
    corpus, settings = result["corpus"], result["settings"]
    lines = [
        "# Main job",
        "",
        f"{result['date']}, {facts['cpu']}, {facts['cores']} cores (load {facts['load_before']} "
        f"before), Python {facts['python']}; {corpus['name']}: {corpus['sources']} sources, "
        f"{corpus['files']} files, {corpus['file_bytes'] / 1e6:.0f} MB on disk; vocabulary "
        f"{settings['vocab']}, seq_len {settings['seq_len']}, {settings['workers']} workers. "
        "`make bench` makes this page.",
        "",
        *table(f"Drystone {ours['version']}", ours),
        f"{ours['documents']:,} documents, {ours['kept']:,} kept, {ours['rows']:,} rows, "
        f"{ours['padding']:.3%} padding, {ours['tokens']:,} tokens, "
        f"{ours['bytes_per_token']} bytes a token.",
        "",
        "| bar | limit | measured |",
        "|---|---:|---:|",
        *(f"| {bar.replace('_', ' ')} | {limit} | {ours[bar]} |" for bar, limit in BARS.items()),
        "",
    ]
    if rival:
        lines += [
            *table(f"datatrove {rival['version']}", rival),
            f"{rival['tokens']:,} tokens, {rival['bytes_per_token']} bytes a token, not packed; "
            "its tokenizer was trained beforehand, ours inside the run.",
            "",
            f"CPU seconds: {ours['cpu_s']} against {rival['cpu_s']}, "
            f"{rival['cpu_s'] / ours['cpu_s']:.1f} times less.",
            "",
        ]
    return "\n".join(lines)


def table(name: str, figures: dict[str, Any]) -> list[str]:
    """Return the stages of a tool as the lines of a table."""
    lines = [f"| {name} | CPU s | wall s |", "|---|---:|---:|"]
    for stage in figures["stages"]:
        wall = "" if stage["wall_s"] is None else f"{stage['wall_s']:.1f}"
        lines.append(f"| {stage['stage']} | {stage['cpu_s']:.1f} | {wall} |")
    lines.append(f"| **total** | **{figures['cpu_s']:.1f}** | **{figures['wall_s']:.1f}** |")
    peak = f"Peak memory {figures['peak_rss_gb']} GB, summed over the processes of the tree."
    return [*lines, "", peak, ""]


if __name__ == "__main__":
    main()

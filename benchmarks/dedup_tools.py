"""Tools that remove near-duplicates, run on one folder of JSON lines and measured; corpora for them.

Used by ``dedup_quality.py`` and ``dedup_speed.py``. All tools read the same ``*.jsonl`` and take
5-grams of words; the rivals use their usual 14 bands of 8 rows, Drystone its defaults. Rivals are found
in the folder that ``install_rivals.py`` fills, given as ``--rivals`` or DRYSTONE_RIVALS.
"""

import datetime
import gzip
import hashlib
import importlib.metadata
import io
import json
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import psutil
import zstandard
from install_rivals import PACKAGES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SHARED = ROOT.parent / "shared" / "data"
RESULTS = HERE / "results"

NAMES = ("drystone", "duplodocus", "datatrove", "text-dedup", "datasketch", "rensa")
RECIPE = """name = "dedup"
workdir = {workdir}

[[sources]]
name = "corpus"
path = {path}

[dedupe.exact]
[dedupe.near]

[runner]
workers = {workers}
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a command cost, with all its children."""

    wall_s: float
    cpu_s: float
    peak_pss: int
    """Memory with shared pages counted once, in bytes; 0 where the system does not tell."""
    peak_rss: int
    """Sum over the processes, in bytes."""
    stdout: str = ""

    def __add__(self, other: "Measured") -> "Measured":
        return Measured(
            self.wall_s + other.wall_s,
            self.cpu_s + other.cpu_s,
            max(self.peak_pss, other.peak_pss),
            max(self.peak_rss, other.peak_rss),
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "wall_s": round(self.wall_s, 2),
            "cpu_s": round(self.cpu_s, 2),
            "peak_pss_mb": round(self.peak_pss / 1e6),
            "peak_rss_mb": round(self.peak_rss / 1e6),
        }


@dataclass(frozen=True, slots=True)
class Ran:
    """One run of a tool over a corpus."""

    kept: Path
    """Folder of JSON lines."""
    removal: Measured
    """All that the tool does; of Drystone the run without writing kept text."""
    writing: Measured | None = None
    """Of Drystone: the export of the kept text."""

    @property
    def total(self) -> Measured:
        """End to end: JSON lines in, JSON lines out."""
        return self.removal + self.writing if self.writing else self.removal


class Absent(Exception):  # noqa: N818 - a state of the machine, not a failure of the program
    """A tool that is not there; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Tools:
    """How tools are found and run."""

    rivals: Path | None
    workers: int = 2

    def version(self, name: str) -> str:
        """Return the version of a tool."""
        if name == "drystone":
            return importlib.metadata.version("drystone")
        if name == "duplodocus":
            told = subprocess.run(
                [self._program("duplodocus"), "--version"],
                capture_output=True,
                text=True,
                check=True,
            )
            return told.stdout.split()[-1]
        return PACKAGES[name][0].partition("==")[2]

    def present(self, name: str) -> bool:
        """Return whether a tool can run; say what is missing where it cannot."""
        try:
            if name != "drystone":
                self._program(name)
        except Absent as missing:
            print(f"{name}: left out, {missing}", file=sys.stderr)
            return False
        return True

    def run(self, name: str, corpus: Path, work: Path) -> Ran:
        """Run a tool over the ``*.jsonl`` of a folder; ``work`` is emptied first."""
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        if name == "drystone":
            return self._drystone(corpus, work)
        if name == "duplodocus":
            return self._duplodocus(corpus, work)
        if name == "text-dedup":
            return self._text_dedup(corpus, work)
        script = [self._program(name), str(HERE / "rival_dedup.py"), name, str(corpus)]
        script += [str(work / "w"), str(work / "kept"), "--workers", str(self.workers)]
        return Ran(work / "kept", measure(script, log=work / "log"))

    def _program(self, name: str) -> str:
        """Return the program of a rival: its own, or the Python it is installed for."""
        if self.rivals is None:
            raise Absent("no folder of rivals (--rivals DIR, made by install_rivals.py)")
        path = self.rivals / name
        if name != "duplodocus":
            if not (path / "ready").exists():
                raise Absent(f"{path} is not installed")
            path = path / "bin" / "python"
        if not path.exists():
            raise Absent(f"{path} is not there")
        return str(path.absolute())

    def _drystone(self, corpus: Path, work: Path) -> Ran:
        """``drystone run --until dedupe.near``, then the export of what is kept."""
        recipe, workdir = work / "recipe.toml", work / "w"
        recipe.write_text(
            RECIPE.format(
                workdir=json.dumps(str(workdir)),
                path=json.dumps(str(corpus / "*.jsonl")),
                workers=self.workers,
            )
        )
        drystone = [sys.executable, "-m", "pipelines.cli"]
        removal = measure(
            [*drystone, "run", str(recipe), "--until", "dedupe.near", "--json"], log=work / "log"
        )
        run_id = json.loads(removal.stdout)["run_id"]
        export = [*drystone, "export", run_id, "--documents", "--to", "jsonl.zst"]
        writing = measure(
            [*export, str(work / "kept"), "--workdir", str(workdir)], log=work / "log"
        )
        return Ran(work / "kept", removal, writing)

    def _duplodocus(self, corpus: Path, work: Path) -> Ran:
        command = [self._program("duplodocus"), "--threads", str(self.workers), "minhash-memory"]
        command += ["--input-dir", str(corpus), "--storage-dir", str(work / "w")]
        command += ["--output-dir", str(work / "kept"), "--text-key", "text"]
        command += ["--num-buckets", "14", "--bucket-size", "8", "--ngram-size", "5"]
        command += ["--tokenizer", "uniseg", "--num-sig-chunks", "8"]
        return Ran(
            work / "kept", measure([*command, "--remove-duplicates", "true"], log=work / "log")
        )

    def _text_dedup(self, corpus: Path, work: Path) -> Ran:
        """Its own command; it writes an Arrow dataset, whose conversion is not measured."""
        python = self._program("text-dedup")
        command = [python, "-m", "text_dedup.minhash", "--path", "json", "--split", "train"]
        command += ["--data_files", str(corpus / "*.jsonl"), "--cache_dir", str(work / "cache")]
        command += ["--output", str(work / "out"), "--column", "text", "--ngram", "5"]
        command += ["--num_perm", "112", "--b", "14", "--r", "8", "--hash_func", "xxh3"]
        measured = measure(
            [*command, "--num_proc", str(self.workers)],
            log=work / "log",
            env={"HF_HUB_OFFLINE": "1", "HF_HOME": str(work / "hf")},
        )
        convert = "import sys; from datasets import load_from_disk as d; d(sys.argv[1]).to_json("
        (work / "kept").mkdir()
        subprocess.run(
            [python, "-c", f"{convert}sys.argv[2])", work / "out", work / "kept" / "kept.jsonl"],
            check=True,
            capture_output=True,
        )
        return Ran(work / "kept", measured)


# Measuring.


def measure(command: list[str], *, log: Path, env: dict[str, str] | None = None) -> Measured:
    """Run a command; measure time, and the peak memory of its process tree four times a second."""
    print("+", *command, file=sys.stderr, flush=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TOKENIZERS_PARALLELISM": "false"}
    if command[0] != sys.executable:
        del environment["PYTHONPATH"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with log.open("ab") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**environment, **(env or {})},
        )
    peaks, stop = [0, 0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.25):
            for k, now in enumerate(tree_memory(process.pid)):
                peaks[k] = max(peaks[k], now)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    stdout, _ = process.communicate()
    wall = time.perf_counter() - began
    stop.set()
    watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode:
        tail = log.read_text(errors="replace")[-2000:]
        raise RuntimeError(f"{command[0]} ended with {process.returncode}\n{tail}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Measured(wall, cpu, peaks[0], peaks[1], stdout)


def tree_memory(pid: int) -> tuple[int, int]:
    """Return PSS and RSS of a process and its descendants, in bytes."""
    try:
        root = psutil.Process(pid)
        processes = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0, 0
    pss = rss = 0
    for process in processes:
        try:
            rss += process.memory_info().rss
            rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            pss += 1024 * int(rollup.partition("\nPss:")[2].split()[0])
        except (psutil.Error, OSError, ValueError, IndexError):
            continue
    return pss, rss


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    info = Path("/proc/cpuinfo")
    names = [
        line.partition(":")[2].strip()
        for line in (info.read_text().splitlines() if info.exists() else [])
        if line.startswith("model name")
    ]
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        "cpu": names[0] if names else platform.processor(),
        "cores": os.cpu_count(),
        "load_before": [round(x, 2) for x in os.getloadavg()],
        "python": platform.python_version(),
    }


# Corpora.


def corpus_of(name: str, folder: Path, limit: int | None = None) -> Path:
    """Write a corpus as plain JSON lines of id and text, once; return its folder.

    Args:
        name: ``mini``, ``nd-book-chapters``, ``nd-revisions``, ``corpus``, or ``corpus-4x``: the
            corpus with three copies of every document, changed more or less.
        folder: where corpora lie.
        limit: of ``corpus``, take only so many files.
    """
    target = folder / (name if limit is None else f"{name}-{limit}-files")
    if target.exists():
        return target
    temporary = folder / f".{target.name}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    plain = name.removesuffix("-4x")
    if plain == "corpus":
        files = sorted((SHARED / "corpus").glob("*/*.jsonl*"))[:limit]
        parts = [(f"{f.parent.name}--{f.name.partition('.')[0]}", read(f)) for f in files]
    elif plain == "mini":
        parts = [(f.name.partition(".")[0], read(f)) for f in (SHARED / "mini").glob("part*")]
    else:
        documents = list(read(SHARED / "neardup" / plain / "docs.jsonl.gz"))
        parts = [(f"part-{k}", iter(documents[k::4])) for k in range(4)]
    for part, documents_of_part in parts:
        write_part(temporary, part, documents_of_part, copies=3 if name.endswith("-4x") else 0)
    temporary.rename(target)
    return target


def write_part(
    folder: Path, part: str, documents: Iterable[tuple[str, str]], *, copies: int
) -> None:
    """Write a file of documents, and one for each set of changed copies."""
    held = list(documents)
    for copy in range(copies + 1):
        with (folder / f"{part}--{copy}.jsonl").open("wb") as out:
            for name, text in held:
                row = {"id": name, "text": text} if copy == 0 else changed(name, text, copy)
                out.write(orjson.dumps(row) + b"\n")


CHANGES = (0.0, 0.002, 0.01, 0.03, 0.1, 0.3)
"""Shares of words that a copy has changed, drawn by document."""


def changed(name: str, text: str, copy: int) -> dict[str, str]:
    """Return a copy of a document with some characters replaced, none to about every third word."""
    seed = hashlib.blake2b(f"{name}\0{copy}".encode(), digest_size=8).digest()
    rng = random.Random(int.from_bytes(seed, "big"))
    spaces = text.count(" ")
    words = spaces if spaces * 12 > len(text) else len(text)
    characters = list(text)
    for _ in range(round(rng.choice(CHANGES) * words)):
        characters[rng.randrange(len(text))] = rng.choice("abcdefghijklmnopqrstuvwxyz")
    return {"id": f"{name}~{copy}", "text": "".join(characters)}


def read(path: Path) -> Iterator[tuple[str, str]]:
    """Yield id and text of JSON lines, compressed or not."""
    opened: Any = {".zst": _open_zst, ".gz": gzip.open}.get(path.suffix, open)
    with opened(path, "rb") as stream:
        for line in stream:
            row = orjson.loads(line)
            yield row["id"], row["text"]


def _open_zst(path: Path, mode: str) -> io.BufferedReader:
    return io.BufferedReader(zstandard.open(path, mode))


def write_results(
    section: str, tables: dict[str, Any], page: Callable[[dict[str, Any]], str]
) -> None:
    """Put the figures of some corpora into ``results/dedup.json``, and all pages into ``dedup.md``.

    Args:
        section: which program they are from.
        tables: figures by corpus; those of other corpora stay.
        page: returns the program's part of the page.
    """
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / "dedup.json"
    everything = json.loads(path.read_text()) if path.exists() else {}
    found = everything.setdefault(section, {"corpora": {}})
    found["corpora"].update(tables)
    found["page"] = page(found["corpora"])
    path.write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n")
    pages = [everything[name]["page"] for name in sorted(everything)]
    (RESULTS / "dedup.md").write_text("# Removal of near-duplicates\n\n" + "\n".join(pages))

"""The demo behind `make demo`: a corpus from this machine's own Python, built and looked into.

Links the standard library's sources and the text files of the installed packages below
``runs/python-world/input``, then types the commands that a user would type, and shows them.
"""

import argparse
import fnmatch
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WORKDIR = Path("runs/python-world")
TEXTS = ("METADATA", "LICEN[CS]E*", "COPYING*", "NOTICE*", "AUTHORS*", "*.md", "*.rst")
BINARY = (".py", ".pyc", ".so", ".pyi", ".html", ".json")

OVERVIEW = """
select source, count(*) documents, count(*) filter (not kept) dropped,
       sum(n_chars) // 1000 thousand_chars
from documents join selection using (doc_uid) group by source order by source
"""
LOST = """
select d.id, u.cluster_size from duplicates u join documents d using (doc_uid)
order by d.id ilike '%licen%' desc, u.cluster_size desc, d.id limit 1
"""
MADE = """
select text from texts join conversations using (doc_uid)
where scenario = 'plain' and pattern = '2i' order by record_id limit 1
"""
TRAINING = "examples/train-python-world.toml"


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", nargs="?", default="examples/python-world.toml")
    parser.add_argument("--train", action="store_true", help="train 30 steps with PyTorch")
    options = parser.parse_args()
    began = time.monotonic()

    heading("The corpus: this Python's standard library, and texts of the installed packages")
    files, size = gather(WORKDIR / "input")
    print(f"{files} files, {size / 1e6:.0f} MB, below {WORKDIR / 'input'}")

    heading("Ingest, de-duplicate, make conversations, train a tokenizer, encode, pack")
    drystone("run", options.recipe)
    dataset = newest_dataset()

    heading("What is in it, in SQL")
    drystone("query", " ".join(OVERVIEW.split()), workdir=True)

    lost = answer(LOST)
    if lost:
        heading(f"Why was this document dropped? (one of {lost[0]['cluster_size']} copies)")
        drystone("explain", lost[0]["id"], workdir=True)

    made = answer(MADE)
    if made:
        heading("A conversation that was made from the graph of these modules and packages")
        print(conversation(json.loads(made[0]["text"])["messages"]))

    heading("All of it on one page, to be opened in a browser")
    drystone("report", workdir=True)

    heading("Read the packed rows as a trainer does")
    print(read_speed(dataset))

    if options.train:
        heading("Train 30 steps")
        train()
    elif importlib.util.find_spec("torch"):
        print("PyTorch is here too: make demo-train trains 30 steps on these rows.")
    print_next(time.monotonic() - began, dataset)


def conversation(messages: list[dict[str, Any]]) -> str:
    """Return a conversation as a few lines."""
    lines = []
    for message in messages:
        for call in message.get("tool_calls", ()):
            function = call["function"]
            lines.append(f"call       {function['name']} {function['arguments']}")
        if message["role"] != "system" and message["content"]:
            lines.append(f"{message['role']:<10} {message['content']}")
    return "\n".join(line if len(line) < 160 else f"{line[:157]}..." for line in lines)


def heading(text: str) -> None:
    """Print a heading."""
    print(f"\n== {text}", flush=True)


# The corpus.


def gather(folder: Path) -> tuple[int, int]:
    """Link the files of the demo's sources; return how many, and their bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    stdlib, site = Path(sysconfig.get_path("stdlib")), Path(sysconfig.get_path("purelib"))
    links = [(folder / "stdlib", stdlib, path) for path in python_sources(stdlib)]
    links += [(folder / "packages", site, path) for path in package_texts(site)]
    size = 0
    for target, root, path in links:
        link = target / path.relative_to(root)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(path.resolve())
        size += path.stat().st_size
    return len(links), size


def python_sources(stdlib: Path) -> Iterator[Path]:
    """Yield the .py files of the standard library, without what is installed beside it."""
    for folder, folders, names in os.walk(stdlib):
        folders[:] = sorted(f for f in folders if f not in ("site-packages", "dist-packages"))
        yield from (Path(folder) / name for name in sorted(names) if name.endswith(".py"))


def package_texts(site: Path) -> Iterator[Path]:
    """Yield licenses, readmes and metadata of the installed packages."""
    for folder, folders, names in os.walk(site):
        folders.sort()
        for name in sorted(names):
            wanted = any(fnmatch.fnmatch(name, pattern) for pattern in TEXTS)
            if wanted and not name.endswith(BINARY):
                yield Path(folder) / name


# Commands.


def drystone(*words: str, workdir: bool = False) -> None:
    """Show a command, run it, and end with it when it fails."""
    words = (*words, "--workdir", str(WORKDIR)) if workdir else words
    shown = " ".join(f'"{word}"' if " " in word else word for word in words)
    print(f"$ drystone {shown}", flush=True)
    status = subprocess.run(["drystone", *words], check=False).returncode
    if status:
        sys.exit(status)


def answer(sql: str) -> list[dict[str, Any]]:
    """Return the rows of a query."""
    command = ["drystone", "query", sql, "--format", "json", "--workdir", str(WORKDIR)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows: list[dict[str, Any]] = json.loads(printed)
    return rows


def newest_dataset() -> Path:
    """Return the folder of the packed rows of the newest run."""
    newest = max((WORKDIR / "runs").glob("*/run.json"))
    return Path(json.loads(newest.read_bytes())["dataset"])


def read_speed(dataset: Path) -> str:
    """Read every row, step by step; the second time, from warm files."""
    from packing.reader import PackedReader

    tokens, cpu, shape = 0, 0.0, ""
    for _ in range(2):
        tokens, began = 0, time.process_time()
        with PackedReader(dataset) as reader:
            shape = f"{reader.n_rows:,} rows of {reader.seq_len}, {reader.n_steps} steps"
            for step in reader.steps():
                tokens += sum(len(batch.input_ids) for batch in step.micro_batches)
        cpu = time.process_time() - began
    return f"{shape}: {tokens:,} tokens in {cpu:.2f} CPU seconds, {tokens / cpu / 1e6:,.0f} M/s"


def train() -> None:
    """Train a very small model and say how its loss fell."""
    out = WORKDIR / "train"
    shutil.rmtree(out, ignore_errors=True)
    drystone("train", TRAINING)
    lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f} in {len(losses)} steps")
    if not losses[-1] < losses[0]:
        sys.exit("the loss did not fall")


def print_next(seconds: float, dataset: Path) -> None:
    """Name what can be typed next."""
    print(f"\nDone in {seconds:.0f} s. Next, with this environment active (. .venv/bin/activate):")
    for command in (
        "plan examples/python-world.toml",
        f"show {dataset} --row 0",
        f"verify {dataset}",
        f'query "select * from rejects" --workdir {WORKDIR}',
    ):
        print(f"  drystone {command}")
    print("A recipe of your own: examples/ and docs/recipe.md.")


if __name__ == "__main__":
    main()

"""Run a benchmark that prints its figures, and keep what it printed.

    python benchmarks/keep.py contamination [OPTIONS OF benchmarks/contamination.py]

What ``benchmarks/NAME.py`` prints is shown as ever, and written to ``benchmarks/results/NAME.json``
and ``NAME.md`` with the command, the machine, its load before and the CPU seconds of the process.
"""

import datetime
import io
import json
import os
import platform
import runpy
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


class _Both(io.TextIOBase):
    """A stream that shows what it is given, and remembers it."""

    def __init__(self, shown: io.TextIOBase) -> None:
        self.shown, self.parts = shown, []

    def write(self, text: str) -> int:
        self.parts.append(text)
        return self.shown.write(text)

    def flush(self) -> None:
        self.shown.flush()


def main() -> None:
    """Run the named benchmark and write its two files."""
    names = sorted(path.stem for path in HERE.glob("*.py") if path.stem != "keep")
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        sys.exit(f"{__doc__}\nNAME is one of: {', '.join(names)}")
    name, options = sys.argv[1], sys.argv[2:]
    facts = {
        "command": " ".join(["python", f"benchmarks/{name}.py", *options]),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M"),
        "cpu": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
    }
    both = _Both(sys.stdout)
    sys.stdout, sys.argv = both, [str(HERE / f"{name}.py"), *options]
    sys.path.insert(0, str(HERE.parent))
    started = time.process_time()
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        sys.stdout = both.shown
    facts["cpu_s"] = round(time.process_time() - started, 1)
    printed = "".join(both.parts)
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    value = {**facts, "lines": printed.splitlines()}
    (folder / f"{name}.json").write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
    listed = "\n".join(f"* {key}: {fact}" for key, fact in facts.items())
    page = f"# `benchmarks/{name}.py`\n\n{listed}\n\n```text\n{printed.rstrip()}\n```\n"
    (folder / f"{name}.md").write_text(page)


if __name__ == "__main__":
    main()

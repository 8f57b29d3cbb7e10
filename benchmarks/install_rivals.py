#!/usr/bin/env python3
"""Puts the tools that the de-duplication benchmarks compare with into a folder, each apart.

    python benchmarks/install_rivals.py DIR [--duplodocus SOURCE]

datatrove, text-dedup, datasketch and rensa get virtual environments; duplodocus (AI2) is built by
cargo from a folder with its source, which is not in a registry. What cannot be had is named, and the
benchmarks go without it.
"""

import argparse
import shutil
import subprocess
import sys
import venv
from pathlib import Path

PACKAGES = {
    "datatrove": ["datatrove[processing,io]==0.10.1"],
    "text-dedup": ["text-dedup==0.4.0"],
    "datasketch": ["datasketch==2.0.0", "orjson>=3.10"],
    "rensa": ["rensa==0.5.0", "orjson>=3.10"],
}


def main() -> int:
    """Install what is not there; return 1 when something could not be had."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--duplodocus", type=Path, help="folder with its Cargo.toml")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    failed = [name for name in PACKAGES if not install(options.folder / name, PACKAGES[name])]
    if options.duplodocus and not build(options.duplodocus, options.folder / "duplodocus"):
        failed.append("duplodocus")
    if failed:
        print(f"not to be had: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def install(folder: Path, packages: list[str]) -> bool:
    """Make a virtual environment with some packages; return whether it is there."""
    if (folder / "ready").exists():
        return True
    venv.create(folder, with_pip=True, clear=True)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *packages]
    if subprocess.run(command, check=False).returncode:
        return False
    (folder / "ready").touch()
    return True


def build(source: Path, binary: Path) -> bool:
    """Build duplodocus; return whether the program is there."""
    if shutil.which("cargo") is None:
        print("duplodocus: no cargo", file=sys.stderr)
        return False
    if subprocess.run(["cargo", "build", "--release"], cwd=source, check=False).returncode:
        return False
    shutil.copy2(source / "target" / "release" / "duplodocus", binary)
    return True


if __name__ == "__main__":
    sys.exit(main())

"""What the trainer needs installed."""

import ast
import sys
from pathlib import Path

ALLOWED = {"torch", "numpy", "pyarrow", "scipy", "trainer"} | set(sys.stdlib_module_names)
PACKING = {"packing.cost", "packing.format", "packing.reader"}


def test_imports():
    """Only torch, numpy, pyarrow, scipy, the standard library and three packing modules."""
    files = sorted((Path(__file__).parents[2] / "trainer").rglob("*.py"))
    assert len(files) > 20
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert name in PACKING or name.partition(".")[0] in ALLOWED, f"{path}: {name}"

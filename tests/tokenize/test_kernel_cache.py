"""Kernels on disk: a change in any source is seen by the kernels that call into it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from transforms import kernel as kernel_module

INNER = "from pack.kernel import kernel\n\n\n@kernel\ndef inner(x):\n    return x + {}\n"
OUTER = """from pack.inner import inner
from pack.kernel import kernel


@kernel
def outer(x):
    return inner(x) * 100
"""


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")
def test_a_changed_callee_recompiles_its_callers(tmp_path: Path) -> None:
    """The caller's file stays as it is; the new inner kernel is used nevertheless."""
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    shutil.copy(str(kernel_module.__file__), package / "kernel.py")
    (package / "outer.py").write_text(OUTER)
    for number in (1, 2, 2):
        (package / "inner.py").write_text(INNER.format(number))
        done = subprocess.run(
            [sys.executable, "-c", "from pack.outer import outer; print(outer(0))"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == str(100 * number)
    assert list((package / "__pycache__").glob("outer.outer-*.nbi"))

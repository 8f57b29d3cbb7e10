"""Imports without parts that nothing uses: hidden only meanwhile."""

import gc
import importlib
import subprocess
import sys

from pipelines.start import quick_imports


def test_hidden_parts_are_back_afterwards():
    """What was left out is found again, and what was there before is never hidden."""
    program = (
        "from pipelines.start import quick_imports\n"
        "with quick_imports():\n"
        "    import apache_beam, sys\n"
        "    assert not gc.isenabled()\n"
        "assert gc.isenabled()\n"
        "assert 'pymongo' not in sys.modules and 'scipy' not in sys.modules\n"
        "import pymongo, scipy.linalg\n"
        "import apache_beam.io.gcp.bigquery\n"
        "from apache_beam.io.filesystems import FileSystems\n"
        "assert 's3' in {f.scheme() for f in FileSystems.get_filesystem.__globals__["
        "'FileSystem'].get_all_subclasses()}\n"
    )
    subprocess.run([sys.executable, "-c", "import gc\n" + program], check=True)


def test_what_is_imported_already_stays(monkeypatch):
    """A module that the process has is not hidden, and the collector is left as it was."""
    importlib.import_module("scipy")
    frozen, threshold = gc.get_freeze_count(), gc.get_threshold()
    try:
        with quick_imports():
            assert sys.modules["scipy"] is not None
        assert gc.isenabled()
        assert gc.get_freeze_count() >= frozen
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()

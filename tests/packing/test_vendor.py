"""The vendored reader: one file that reads datasets with numpy and pyarrow alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import packing.vendor
from packing.format import ShardError
from packing.reader import PackedReader
from packing.vendor import vendor_reader

# Imports of anything but numpy, pyarrow, the standard library and the vendored file itself fail.
PROGRAM = """
import sys

class Fence:
    allowed = {"numpy", "pyarrow", "drystone_reader", *sys.stdlib_module_names}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in self.allowed and not name.startswith("_sysconfig"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Fence())
import json
from drystone_reader import PackedReader

with PackedReader(sys.argv[1]) as reader:
    found = [
        [batch.row_id.tolist(), batch.labels.tolist(), batch.position_ids.tolist()]
        for one in reader.steps(1, 2)
        for batch in one.micro_batches
    ]
    print(json.dumps([reader.seq_len, found]))
"""


def test_one_file_reads_without_the_package(make_world, tmp_path):
    """In a process where only numpy and pyarrow can be imported, it gives the same batches."""
    world = make_world(spans=True)
    path = vendor_reader(tmp_path / "repository")
    head = path.read_text(encoding="utf-8")[:2000]
    assert "Apache License, Version 2.0" in head
    assert "shard format 1" in head
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(world.folder)],
        cwd=path.parent,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(path.parent)},
    )
    assert done.returncode == 0, done.stderr
    with PackedReader(world.folder) as reader:
        expected = [
            [batch.row_id.tolist(), batch.labels.tolist(), batch.position_ids.tolist()]
            for one in reader.steps(1, 2)
            for batch in one.micro_batches
        ]
    assert json.loads(done.stdout) == [64, expected]


def test_same_source_every_time(tmp_path):
    """Vendoring again gives the same bytes."""
    first = vendor_reader(tmp_path / "a").read_bytes()
    assert vendor_reader(tmp_path / "b").read_bytes() == first


def test_modules_with_equal_names_are_refused(monkeypatch):
    """Two modules that define one name cannot become one file, and the name is told."""
    monkeypatch.setattr(packing.vendor, "MODULES", ("rows", "rows"))
    with pytest.raises(ShardError, match="both define Int16"):
        packing.vendor.reader_source()


def test_reader_needs_no_other_module():
    """Every module the reader is made of imports only those before it in the list."""
    seen = set()
    for module in packing.vendor.MODULES:
        source = Path(packing.vendor.__file__).with_name(f"{module}.py").read_text()
        ours = {
            line.split()[1].removeprefix("packing.")
            for line in source.splitlines()
            if line.startswith("from packing.")
        }
        assert ours <= seen, module
        seen.add(module)

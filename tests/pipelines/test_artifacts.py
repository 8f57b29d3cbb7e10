"""The store of artifacts: commits, receipts, adoption and the lock."""

import json
import subprocess
import sys

import pytest

from pipelines.artifacts import (
    FileEntry,
    Manifest,
    Receipt,
    StorageError,
    Workdir,
    fingerprint,
    write_receipt,
)

FP = "0123456789abcdef" * 4


def manifest_of(files: tuple[FileEntry, ...]) -> Manifest:
    return Manifest("ingest", FP, {}, {"a": 1}, files, {"lines": 3})


def test_fingerprint_ignores_the_order_of_keys_and_nothing_else():
    """Equal fields in another order give one fingerprint; any other value gives another."""
    assert fingerprint(a=1, b=[1, 2]) == fingerprint(b=[1, 2], a=1)
    assert fingerprint(a=1, b=[1, 2]) != fingerprint(a=1, b=[2, 1])
    assert fingerprint(a=1) != fingerprint(a="1")


def test_an_artifact_exists_from_its_manifest_on(tmp_path):
    """Files without a manifest are no artifact; with it they are, and read back as written."""
    store = Workdir(tmp_path)
    folder = store.folder("ingest", FP)
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_bytes(b"data")
    assert store.committed("ingest", FP) is None

    entry = FileEntry.of(folder / "a.parquet", rows=1, task="t")
    store.commit(manifest_of((entry,)))

    assert store.committed("ingest", FP) == manifest_of((entry,))


def test_tasks_see_the_manifest_that_is_there(tmp_path):
    """A manifest is read once, and anew when it is another one or gone."""
    store = Workdir(tmp_path)
    assert store.manifest("ingest", FP) is None
    store.commit(manifest_of(()))
    first = store.manifest("ingest", FP)
    assert first == manifest_of(())
    assert store.manifest("ingest", FP) is first

    store.commit(Manifest("ingest", FP, {}, {"a": 2}, (), {"lines": 4}))
    assert store.manifest("ingest", FP).counters == {"lines": 4}
    (store.folder("ingest", FP) / "manifest.json").unlink()
    assert store.manifest("ingest", FP) is None


@pytest.mark.parametrize("damage", ["missing", "shorter", "manifest", "other"])
def test_a_damaged_artifact_is_named(tmp_path, damage):
    """A lost or cut file, a broken manifest and a foreign fingerprint are errors with the path."""
    store = Workdir(tmp_path)
    folder = store.folder("ingest", FP)
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_bytes(b"data")
    store.commit(manifest_of((FileEntry.of(folder / "a.parquet", rows=1),)))
    asked = FP
    if damage == "missing":
        (folder / "a.parquet").unlink()
    elif damage == "shorter":
        (folder / "a.parquet").write_bytes(b"dat")
    elif damage == "manifest":
        (folder / "manifest.json").write_text("{")
    else:
        asked = FP[:12] + "f" * 52

    with pytest.raises(StorageError, match=str(folder)):
        store.committed("ingest", asked)


def test_finished_tasks_serve_other_artifacts_of_the_stage(tmp_path):
    """A receipt of an unfinished artifact is found, and its files appear in the adopting one."""
    store = Workdir(tmp_path)
    old, new = store.folder("encode", "a" * 64), store.folder("encode", "b" * 64)
    old.mkdir(parents=True)
    new.mkdir(parents=True)
    (old / "x.parquet").write_bytes(b"tokens")
    write_receipt(old, Receipt("t1", (FileEntry.of(old / "x.parquet", rows=2, task="t1"),)))

    folder, receipt = store.finished_tasks("encode")["t1"]
    store.adopt(new, folder, receipt)

    assert (new / "x.parquet").read_bytes() == b"tokens"
    assert json.loads((new / "receipts" / "t1.json").read_text())["task"] == "t1"
    (old / "x.parquet").unlink()
    (new / "x.parquet").write_bytes(b"cut")
    assert "t1" not in store.finished_tasks("encode")


def test_one_run_at_a_time_and_no_lock_survives_its_process(tmp_path):
    """A second holder is refused while the first lives, and served once it was killed."""
    code = (
        "import sys,time; from pipelines.artifacts import Workdir\n"
        f"with Workdir({str(tmp_path)!r}).lock():\n  print('held', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(StorageError, match="another run holds"), Workdir(tmp_path).lock():
            pass
    finally:
        process.kill()
        process.wait()
    with Workdir(tmp_path).lock():
        pass

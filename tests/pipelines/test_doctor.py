"""Checks of the installation, each against an installation made up to break it."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines import doctor
from pipelines.doctor import PACKAGES, Check, InstallationError, check_installation, examine


def one_folder(parent: str = "/site") -> dict[str, Path]:
    return {name: Path(parent) / name for name in PACKAGES}


def test_this_installation_is_sound(tmp_path):
    """Nothing fails where the tests run, and every check has its own name and a detail."""
    checks = examine(tmp_path / "not" / "made" / "yet")
    assert [c for c in checks if c.status == "failed"] == []
    assert len({c.name for c in checks}) == len(checks)
    assert all(c.detail for c in checks)
    check_installation()


def test_another_owner_of_a_package_name_is_refused():
    """A second distribution with one of the five names is named, with the package."""
    owners = {name: ["drystone"] for name in PACKAGES} | {"trainer": ["drystone", "coqui-tts"]}
    check = doctor._owners(owners)
    assert check.status == "failed"
    assert "trainer (also of coqui-tts)" in check.detail
    assert doctor._owners({name: ["drystone", "drystone"] for name in PACKAGES}).status == "ok"
    assert doctor._owners({}).status == "ok"


def test_packages_from_two_folders_are_refused():
    """One package from elsewhere is named with where it comes from; a missing one too."""
    check = doctor._one_folder({**one_folder(), "transforms": Path("/other/transforms")})
    assert check.status == "failed"
    assert "transforms in /other" in check.detail
    missing = one_folder()
    del missing["catalog"]
    assert "not found: catalog" in doctor._one_folder(missing).detail
    assert doctor._one_folder(one_folder()) == Check("package folder", "ok", "/site")


def test_a_shadowed_package_is_seen_by_a_real_interpreter(tmp_path):
    """A folder of one of the names earlier on the path makes `run` refuse to start."""
    (tmp_path / "transforms").mkdir()
    (tmp_path / "transforms" / "__init__.py").write_text("")
    code = "import pipelines.doctor as d\nd.check_installation()"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert f"transforms in {tmp_path}" in done.stderr


def test_refusal_says_every_reason(monkeypatch):
    """`check_installation` raises with all that is wrong."""
    monkeypatch.setattr(doctor, "_owners", lambda: Check("a", "failed", "first"))
    monkeypatch.setattr(doctor, "_one_folder", lambda: Check("b", "failed", "second"))
    with pytest.raises(InstallationError, match=r"first\nsecond"):
        check_installation()


def test_wrong_and_missing_dependencies_are_named():
    """A version outside the wanted range and an absent distribution are both named."""
    check = doctor._dependencies(
        ["numpy<1", "no-such-distribution>=1", "pyarrow", "nothing; extra == 'x'"]
    )
    assert check.status == "failed"
    assert "numpy" in check.detail
    assert "(needs <1)" in check.detail
    assert "no-such-distribution>=1 is missing" in check.detail
    assert "nothing" not in check.detail


def test_kernel_cache_that_cannot_be_written(monkeypatch, tmp_path):
    """Without a writable place for compiled kernels the check fails and names the variable."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert "NUMBA_CACHE_DIR" in doctor._kernel_cache().detail
    assert doctor._kernel_cache().status == "failed"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert doctor._kernel_cache() == Check("kernel cache", "ok", str(tmp_path))


def test_little_disk_and_missing_tools_are_notes(monkeypatch, tmp_path):
    """What only some uses need is a note, not a failure."""
    monkeypatch.setattr(doctor, "MIN_FREE_BYTES", 1 << 62)
    assert doctor._disk(tmp_path).status == "note"
    monkeypatch.setattr(doctor.shutil, "which", lambda tool: None)
    assert "java and mvn" in doctor._flink_tools().detail

"""gc: only what no kept run needs goes, in an order that no reader or run stumbles over."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest

import catalog.gc as gc
from catalog.gc import collect, collectable
from catalog.ingest import rebuild
from catalog.store import CatalogError, query, to_json_rows

OLD = 1_600_000_000


def age(path: Path) -> None:
    """Make a folder look as if it had been written long before every run."""
    for entry in (path, *path.rglob("*")):
        os.utime(entry, (OLD, OLD))


@pytest.fixture
def three(workdir, make_world):
    """Three runs: the second shares the first's ingest, the third shares nothing."""
    world = make_world()
    first = workdir.world(world)
    second = {"ingest": first["ingest"]}
    second["pack"] = workdir.artifact("pack", {}, parents=second, mark="second")
    third = workdir.world(make_world(seed=2), mark="third")
    for day, stages in enumerate((first, second, third), 1):
        workdir.run(f"run-{day}", stages, day=day)
    age(workdir.path / "artifacts")
    rebuild(workdir.path)
    return workdir, first, second, third


def folders(workdir, *runs):
    return sorted({workdir.folder(stage, mark) for run in runs for stage, mark in run.items()})


def test_what_kept_runs_need_is_kept_with_its_parents(three):
    """Closure over parents: the plan is all artifacts less those of kept runs and their ancestors."""
    workdir, first, second, third = three
    everything = set(folders(workdir, first, second, third))
    for keep, runs in ((1, [third]), (2, [second, third]), (3, [first, second, third]), (9, [])):
        stays = set(folders(workdir, *runs)) if runs else everything
        plan = collectable(workdir.path, keep)
        assert [c.path for c in plan] == sorted(everything - stays)
        for entry in plan:
            size = sum(p.stat().st_size for p in entry.path.rglob("*") if p.is_file())
            assert entry.bytes == size
    orphan = workdir.artifact("encode", {}, mark="parent")
    child = workdir.artifact("pack", {}, parents={"encode": orphan})
    workdir.run("run-4", {"pack": child}, day=4)
    age(workdir.path / "artifacts")
    assert workdir.folder("encode", orphan) not in [c.path for c in collectable(workdir.path, 1)]


def test_collecting_removes_just_the_plan_and_the_catalog_follows(three):
    """The files go, kept runs answer as before, the runs that lost something say so."""
    workdir, _first, _second, third = three
    before = query(workdir.path, "SELECT * FROM selection ORDER BY doc_uid", "run-3")
    plan = collectable(workdir.path, 1)
    assert collect(workdir.path, 1) == plan
    assert sorted((workdir.path / "artifacts").iterdir()) == folders(workdir, third)
    assert query(workdir.path, "SELECT * FROM selection ORDER BY doc_uid", "run-3") == before
    runs = to_json_rows(query(workdir.path, "SELECT run_id, available FROM runs ORDER BY run_id"))
    assert [r["available"] for r in runs] == [False, False, True]
    with pytest.raises(CatalogError, match="artifacts of run run-1 were removed"):
        query(workdir.path, "SELECT 1", "run-1")
    assert collectable(workdir.path, 1) == []
    assert collect(workdir.path, 1) == []


def test_a_failed_runs_work_stays_until_a_good_run_follows(three):
    """Artifacts of a run that failed after the newest good one serve its restart."""
    workdir, _first, _second, third = three
    left = workdir.artifact("ingest", {}, mark="failed run")
    workdir.run("run-4", {"ingest": left}, day=4, status="failed")
    age(workdir.path / "artifacts")
    assert workdir.folder("ingest", left) not in [c.path for c in collectable(workdir.path)]
    workdir.run("run-5", third, day=5)
    assert workdir.folder("ingest", left) in [c.path for c in collectable(workdir.path)]


def test_unfinished_work_stays_while_it_is_newer_than_the_runs(three):
    """A killed run's receipts are what its restart goes on from; old ones go."""
    workdir, *_ = three
    unfinished = workdir.path / "artifacts" / "encode-aaaaaaaaaaaa"
    (unfinished / "receipts").mkdir(parents=True)
    (unfinished / "receipts" / "t.json").write_text("{}")
    newest = 1_900_000_000
    for path in (unfinished, unfinished / "receipts", unfinished / "receipts" / "t.json"):
        os.utime(path, (newest, newest))
    assert unfinished not in [c.path for c in collectable(workdir.path)]
    age(unfinished)
    assert unfinished in [c.path for c in collectable(workdir.path)]


def test_nothing_is_touched_while_a_run_holds_the_work_directory(three):
    """The lock of a run refuses the removal; the plan can still be read."""
    workdir, *_ = three
    before = sorted(workdir.path.rglob("*"))
    with (workdir.path / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(CatalogError, match="a run holds this work directory"):
            collect(workdir.path)
        assert collectable(workdir.path)
    assert sorted(workdir.path.rglob("*")) == sorted([*before, workdir.path / ".lock"])
    assert collect(workdir.path)


def test_an_interrupted_removal_is_finished_by_the_next(three, monkeypatch):
    """Killed between the manifests and the files: nothing counts as committed, the rest goes later."""
    workdir, _first, _second, third = three

    def killed(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(gc.shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        collect(workdir.path)
    monkeypatch.undo()
    left = [p for p in (workdir.path / "artifacts").iterdir() if p not in folders(workdir, third)]
    assert left
    assert not any((p / "manifest.json").exists() for p in left)
    assert [c.path for c in collectable(workdir.path)] == sorted(left)
    collect(workdir.path)
    assert sorted((workdir.path / "artifacts").iterdir()) == folders(workdir, third)


def test_manifests_go_before_the_catalog_and_files_after_it(three, monkeypatch):
    """When files vanish, no manifest claims them and the published catalog names none of them."""
    workdir, _first, *_ = three
    seen = []
    real = shutil.rmtree

    def watched(folder):
        seen.append((folder / "manifest.json").exists())
        sql = "SELECT count(*) AS n FROM runs WHERE available"
        seen.append(to_json_rows(query(workdir.path, sql)) == [{"n": 1}])
        real(folder)

    monkeypatch.setattr(gc.shutil, "rmtree", watched)
    removed = collect(workdir.path)
    assert seen == [False, True] * len(removed)


def test_shared_files_free_nothing(three):
    """A file that is hard-linked into an artifact that stays does not count."""
    workdir, first, _second, third = three
    [shard, *_] = sorted(workdir.folder("ingest", first["ingest"]).glob("*-0123456789ab.parquet"))
    plain = {c.path: c.bytes for c in collectable(workdir.path)}
    os.link(shard, workdir.folder("ingest", third["ingest"]) / "linked.parquet")
    linked = {c.path: c.bytes for c in collectable(workdir.path)}
    assert plain[shard.parent] - linked[shard.parent] == shard.stat().st_size
    (workdir.folder("ingest", third["ingest"]) / "linked.parquet").unlink()
    os.link(shard, workdir.folder("encode", first["encode"]) / "linked.parquet")
    age(workdir.path / "artifacts")
    both = {c.path: c.bytes for c in collectable(workdir.path)}
    assert sum(both.values()) == sum(plain.values())


def test_gc_without_a_good_run_or_with_none_to_keep_is_refused(workdir):
    """Nothing is known to be superfluous, or everything would be."""
    workdir.run("bad", {}, status="failed")
    with pytest.raises(CatalogError, match="no run ended well"):
        collectable(workdir.path)
    with pytest.raises(CatalogError, match="at least 1 run stays"):
        collectable(workdir.path, 0)
    with pytest.raises(CatalogError, match="at least 1 run stays"):
        collect(workdir.path, -1)
    with pytest.raises(CatalogError, match="cannot be written"):
        collect(workdir.path / "nowhere")


def test_what_a_killed_run_left_half_written_goes(three):
    """Temporary files go from artifacts that stay, and nothing else of these."""
    workdir, _, _, third = three
    [kept, *_] = folders(workdir, third)
    (kept / ".part.parquet.1a2b.tmp").write_bytes(bytes(5000))
    (kept / ".tasks").write_text("1")
    before = {path for path in kept.iterdir() if path.suffix != ".tmp"}
    assert (kept / ".part.parquet.1a2b.tmp", 5000) in [
        (entry.path, entry.bytes) for entry in collectable(workdir.path)
    ]
    collect(workdir.path)
    assert set(kept.iterdir()) == before
    assert collectable(workdir.path) == []

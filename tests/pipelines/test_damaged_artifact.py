"""An artifact's file that cannot be read: what is said, and what is done again."""

import subprocess
import sys

import pytest
from small_runs import digest, write_corpus

from pipelines.artifacts import StorageError
from pipelines.recipe import load_recipe
from pipelines.run import run

RECIPE = """
name = "damaged"
workdir = "w"
[[sources]]
name = "s"
path = "in/*.jsonl"
[dedupe.near]
[pack]
enabled = false
[tokenizer]
vocab_size = 400
"""


def test_a_damaged_shard_is_named_and_the_rest_kept(tmp_path, monkeypatch):
    """One line with the file and the remedy, exit code 4; then only its own task runs again."""
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "in", n_docs=60)
    (tmp_path / "r.toml").write_text(RECIPE)
    recipe = load_recipe(tmp_path / "r.toml")
    run(recipe, until="ingest")
    [ingest] = (tmp_path / "w" / "artifacts").glob("ingest-*")
    before = digest(ingest)
    damaged = sorted(ingest.glob("*.parquet"))[1]
    content = damaged.read_bytes()
    damaged.write_bytes(content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :])
    command = [sys.executable, "-m", "pipelines.cli", "run", "r.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"{damaged}: damaged")
    with pytest.raises(StorageError, match=f"{damaged.name}.*remove it and .*manifest.json"):
        run(recipe)
    damaged.unlink()
    (ingest / "manifest.json").unlink()
    others = {path: path.stat().st_mtime_ns for path in ingest.glob("*.parquet")}
    summary = run(recipe)
    assert digest(ingest) == before
    assert {path: path.stat().st_mtime_ns for path in others} == others
    assert summary.kept

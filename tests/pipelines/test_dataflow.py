"""Dataflow: the command of the docs passes Dataflow's own checks, offline."""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from small_runs import recipe_of

from pipelines.dry_run import is_dry
from pipelines.recipe import RecipeError

PAGE = Path(__file__).parents[2] / "docs" / "dataflow.md"


def documented_options():
    """Return what stands behind ``--`` in the page's dry run."""
    [block] = [b for b in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.S) if "dry_run" in b]
    words = shlex.split(block.replace("\\\n", " "))
    return words[words.index("--") + 1 :]


def test_a_dry_run_is_dataflows_alone(corpus, tmp_path):
    """Other runners would run the job: they refuse the option, unless it says no."""
    local = recipe_of(corpus, tmp_path / "w")

    with pytest.raises(RecipeError, match="only 'dataflow' has a dry run"):
        is_dry(local, documented_options())
    assert not is_dry(local, ["--direct_num_workers=1"])


@pytest.mark.skipif(importlib.util.find_spec("apitools") is None, reason="needs the gcp extra")
def test_dataflow_accepts_the_pipeline(corpus, tmp_path):
    """The documented dry run ends 0, says so, and runs nothing."""
    recipe = tmp_path / "corpus.toml"
    recipe.write_text(
        f'name = "d"\nworkdir = "{tmp_path / "w"}"\n[[sources]]\nname = "s"\n'
        f'path = "{corpus}/*.jsonl"\n[dedupe.exact]\n[runner]\nkind = "dataflow"\n'
        'workers = 8\nshuffle = "runner"\n'
    )
    command = [str(Path(sys.executable).with_name("drystone")), "run", str(recipe), "--"]
    ended = subprocess.run(
        [*command, *documented_options()], capture_output=True, text=True, timeout=120, check=False
    )

    assert ended.returncode == 0, ended.stderr
    assert "ingest, dedupe.exact, tokenizer, encode, pack, balance is valid" in ended.stderr
    assert not (tmp_path / "w" / "artifacts").exists()

"""The examples are what the documentation says they are."""

import importlib.util
import os
import tomllib
from pathlib import Path

import pytest

from pipelines.recipe import load_recipe

ROOT = Path(__file__).parents[2]
RECIPES = sorted(p for p in (ROOT / "examples").glob("*.toml") if not p.name.startswith("train-"))


def demo():
    """Return the demo's program as a module."""
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_example_is_a_valid_recipe(path):
    """It loads, and its work directory bears its name, so that examples do not mix."""
    recipe = load_recipe(path)

    assert (recipe.name, Path(recipe.workdir).name) == (path.stem, path.stem)


def test_the_demo_links_what_its_recipe_reads(tmp_path):
    """Links lead to this Python's own files, all of them matched by the recipe's globs."""
    files, size = demo().gather(tmp_path / "input")
    links = [Path(f) / name for f, _, names in os.walk(tmp_path / "input") for name in names]
    stdlib = {p.relative_to(tmp_path / "input" / "stdlib") for p in links if p.suffix == ".py"}

    assert len(links) == files
    assert sum(link.stat().st_size for link in links) == size
    assert Path("os.py") in stdlib
    assert not any("site-packages" in p.parts for p in stdlib)
    assert any(link.name == "METADATA" for link in links)


def test_the_demos_training_reads_the_demos_run():
    """The trainer's example trains on the demo's work directory, 30 steps, below it."""
    config = tomllib.loads((ROOT / demo().TRAINING).read_text())

    assert Path(config["dataset"]) == demo().WORKDIR
    assert Path(config["out"]) == demo().WORKDIR / "train"
    assert config["training"]["steps"] == 30

"""A generated corpus and a finished run over it, once per session."""

import pytest
from small_runs import recipe_of, write_corpus

from pipelines.run import run


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """A folder with a few hundred generated documents."""
    return write_corpus(tmp_path_factory.mktemp("corpus") / "in")


@pytest.fixture(scope="session")
def finished(corpus, tmp_path_factory):
    """A finished run over the corpus: (recipe, summary)."""
    recipe = recipe_of(corpus, tmp_path_factory.mktemp("run") / "w")
    return recipe, run(recipe)

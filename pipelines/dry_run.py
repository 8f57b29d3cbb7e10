"""A dry run: the whole pipeline goes to Dataflow's checks, and nothing is run or uploaded."""

from collections.abc import Sequence

import apache_beam as beam
from apache_beam.options.pipeline_options import TestOptions

from pipelines.failures import EngineError
from pipelines.recipe import Recipe, RecipeError
from pipelines.runners import quiet_beam, runner_options
from pipelines.stages import bind, stages_of
from pipelines.steps.stage import Apply


def is_dry(recipe: Recipe, beam_options: Sequence[str]) -> bool:
    """Say whether the options ask for a dry run.

    Raises:
        RecipeError: they do, and the runner has none.
    """
    dry = any(option.partition("=")[0] == "--dry_run" for option in beam_options)
    if not dry or not runner_options(recipe.runner, beam_options).view_as(TestOptions).dry_run:
        return False
    if recipe.runner.kind != "dataflow":
        raise RecipeError(
            [f"--dry_run: runner.kind is {recipe.runner.kind!r}; only 'dataflow' has a dry run"]
        )
    return True


def dry_run(recipe: Recipe, beam_options: Sequence[str]) -> list[str]:
    """Translate the pipeline of all stages for Dataflow, without network and credentials.

    Returns:
        The names of the stages.

    Raises:
        RecordError: a source names no files.
        EngineError: Dataflow's checks refused the pipeline.
    """
    quiet_beam()
    planned = bind(stages_of(recipe), recipe.workdir)
    try:
        pipeline = beam.Pipeline(options=runner_options(recipe.runner, beam_options))
        corpora = pipeline | "Corpus" >> beam.Create([planned[0].before], reshuffle=False)
        for p in planned:
            corpora = corpora | Apply(p.stage)
        pipeline.run()
    except Exception as error:  # runners raise whatever they like
        raise EngineError(f"Dataflow's checks refused the pipeline: {error}") from error
    return [p.stage.name for p in planned]

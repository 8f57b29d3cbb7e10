"""``plan`` and ``run``."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.output import print_json, print_table, say, say_next
from pipelines.start import quick_imports

if TYPE_CHECKING:
    from pipelines.recipe import Recipe

RecipePath = Annotated[Path, typer.Argument(metavar="RECIPE", help="The recipe, a TOML file.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a key of the recipe; VALUE is TOML. Repeatable. Sources go by position or "
        "name: sources.0.path, sources.peps.path.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(plan)
    app.command()(run)


def plan(recipe: RecipePath, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Show the stages of a recipe: fingerprints, cached or to run, sizes, disk needed."""
    from pipelines.recipe import load_recipe

    loaded = load_recipe(recipe, overrides or ())
    # Beam takes seconds to import; mistakes in the recipe should not wait for it.
    from pipelines.stages import plan as plan_stages

    stages = [stage.to_json() for stage in plan_stages(loaded)]
    report: dict[str, Any] = {"name": loaded.name, "workdir": loaded.workdir, "stages": stages}
    report |= _disk(loaded, stages)
    if as_json:
        print_json(report)
    else:
        _print_plan(report)
    if any(stage["state"] != "cached" for stage in stages):
        say_next(_run_command(recipe, overrides))
    else:
        _say_after_run(loaded, None)


_COMPRESSED_GROWTH, _PLAIN_GROWTH = 1.7, 0.7
"""Size of ingested documents over that of their files, where these are compressed and where not."""
_SHARES = {
    "encode": 0.9,
    "balance": 0.9,
    "pack": 0.01,
    "dedupe.exact": 0.01,
    "dedupe.near": 0.2,
    "dedupe.sentence": 0.2,
}
"""Size of other artifacts over that of the ingested documents."""
_SCRATCH_SHARE = 3.0
"""Tokens on their way to their rows, likewise; they are gone when the run has ended."""


def _disk(recipe: "Recipe", stages: list[dict[str, Any]]) -> dict[str, int]:
    """Estimate, on the safe side, what the stages to run will write, and look what is free.

    The shares were measured on English and Chinese prose, and rounded up.
    """
    waiting = [stage["stage"] for stage in stages if stage["state"] != "cached"]
    ingested = float(next(s["bytes"] for s in stages if s["stage"] == "ingest") or 0)
    kept = 0.0
    if "ingest" in waiting:
        plain = all(s.path.endswith((".jsonl", ".txt", ".md")) for s in recipe.sources)
        ingested *= _PLAIN_GROWTH if plain else _COMPRESSED_GROWTH
        kept += ingested
    kept += ingested * sum(_SHARES.get(stage, 0.0) for stage in waiting)
    scratch = ingested * _SCRATCH_SHARE if "balance" in waiting else 0.0
    folder = Path(recipe.workdir).absolute()
    while not folder.exists():
        folder = folder.parent
    return {
        "disk_needed_bytes": round(kept),
        "disk_scratch_bytes": round(scratch),
        "disk_free_bytes": shutil.disk_usage(folder).free,
    }


def _print_plan(report: dict[str, Any]) -> None:
    from pipelines.progress import size

    rows = [
        {
            "stage": stage["stage"],
            "fingerprint": stage["fingerprint"][:12],
            "state": stage["state"],
            "tasks": _tasks(stage),
            "rows": stage["rows"],
            "size": size(stage["bytes"]) if stage["bytes"] else "",
            "note": stage["note"],
        }
        for stage in report["stages"]
    ]
    print_table(list(rows[0]), rows)
    needed, scratch, free = (report[f"disk_{name}_bytes"] for name in ("needed", "scratch", "free"))
    if any(stage["state"] != "cached" for stage in report["stages"]):
        typer.echo(
            f"disk needed in {report['workdir']}: about {size(needed)}, and {size(scratch)} more "
            f"while running; {size(free)} are free"
        )
    if needed + scratch > free:
        say("warning: that is more than is free; choose a workdir on another disk")


def _tasks(stage: dict[str, Any]) -> str:
    if stage["state"] == "cached":
        return ""
    total = "?" if stage["tasks_total"] is None else stage["tasks_total"]
    return f"{stage['tasks_done']}/{total}"


def run(
    recipe: RecipePath,
    overrides: Overrides = None,
    until: Annotated[
        str | None, typer.Option(metavar="STAGE", help="The last stage to run, e.g. encode.")
    ] = None,
    as_json: AsJson = False,
    beam_options: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- BEAM OPTIONS", help="Options for Beam and its runner.", show_default=False
        ),
    ] = None,
) -> None:
    """Run what is missing of a recipe; shows progress, ends with a table of what became of it.

    A run that was stopped goes on where it was when it is started again.
    """
    if beam_options and not beam_options[0].startswith("--"):
        raise typer.BadParameter(
            f"unexpected {beam_options[0]!r}; options for Beam stand behind --, as in: "
            "drystone run RECIPE -- --runner=FnApiRunner"
        )
    with quick_imports():
        from pipelines.recipe import load_recipe

        loaded = load_recipe(recipe, overrides or ())
        # Loads what compiled kernels need, which else happens at the first of them.
        import numba.np.arraymath  # noqa: F401

        from pipelines.dry_run import dry_run, is_dry
        from pipelines.progress import print_summary, reporter
        from pipelines.run import run as run_recipe

    if is_dry(loaded, beam_options or ()):
        names = dry_run(loaded, beam_options or ())
        say(f"dry run: the pipeline of {', '.join(names)} is valid; nothing was run")
        return
    with reporter() as progress:
        summary = run_recipe(
            loaded, until=until, beam_options=beam_options or (), progress=progress
        ).to_json()
    for warning in summary.get("warnings", ()):
        say(f"warning: {warning}")
    if as_json:
        print_json(summary)
    else:
        print_summary(summary)
    if until is not None and not summary["dataset"]:
        say_next(_run_command(recipe, overrides))
    else:
        _say_after_run(loaded, summary)


def _run_command(recipe: Path, overrides: list[str] | None) -> list[str]:
    changes = [word for text in overrides or () for word in ("--set", text)]
    return ["run", str(recipe), *changes]


def _say_after_run(recipe: "Recipe", summary: dict[str, Any] | None) -> None:
    """Name what can be asked of a finished run."""
    from pipelines.locate import workdir_option

    where = workdir_option(Path(recipe.workdir))
    commands = []
    if summary and any(summary["dropped"].values()):
        sql = (
            "select id, source, reason from selection join documents using (doc_uid) "
            "where not kept limit 5"
        )
        commands.append(["query", sql, *where])
    else:
        commands.append(["query", "select * from documents limit 5", *where])
    if summary and summary.get("dataset"):
        commands.append(["verify", str(summary["dataset"])])
    say_next(*commands)

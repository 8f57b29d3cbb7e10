"""``report``: what a run did, as a page and as JSON."""

from pathlib import Path
from typing import Annotated

import typer

from pipelines.commands.catalog import AsJson, Workdir
from pipelines.commands.output import say, say_next


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(report)


def report(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="Id of the run; by default the newest ok one.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where to; by default the run's folder in the workdir."
        ),
    ] = None,
    as_json: AsJson = False,
    workdir: Workdir = None,
) -> None:
    """Write report.html and report.json: what became of the documents, every number with its SQL.

    The page is one file without scripts, which loads nothing. A run that failed gets what is known.
    """
    from catalog.report.build import build_report
    from catalog.report.write import to_json_text, write_report
    from pipelines.locate import find_workdir, workdir_option

    home = find_workdir(workdir)
    told = build_report(home, run)
    page, numbers = write_report(told, out or home / "runs" / told.run_id)
    if as_json:
        typer.echo(to_json_text(told))
    else:
        typer.echo(page)
        typer.echo(numbers)
    if told.status != "ok":
        say(f"run {told.run_id} {told.status}: only what its record knows is shown")
    reasons = "select reason, count(*) from selection group by all"
    say_next(["query", reasons, "--run", told.run_id, *workdir_option(home)])

"""``doctor``, ``recipe schema`` and ``train``."""

import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from pipelines.commands.output import print_json, say_next, show_table

recipe_app = typer.Typer(help="What a recipe may hold.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(train)
    app.command()(doctor)
    app.add_typer(recipe_app, name="recipe")


@recipe_app.command()
def schema() -> None:
    """Print the JSON Schema of a recipe, for editors and other programs."""
    from pipelines.recipe import recipe_schema

    typer.echo(json.dumps(recipe_schema(), indent=2, ensure_ascii=False))
    say_next(["plan", "RECIPE"])


def doctor(
    workdir: Annotated[
        Path, typer.Option(metavar="DIR", help="A folder of the disk that runs will write to.")
    ] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Check the installation; exit 1 when something must be repaired."""
    from rich.table import Table
    from rich.text import Text

    from pipelines.doctor import examine

    checks = examine(workdir)
    if as_json:
        print_json([{"name": c.name, "status": c.status, "detail": c.detail} for c in checks])
    else:
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for check in checks:
            table.add_row(*map(Text, (check.name, check.status, check.detail)))
        show_table(table)
    if any(check.status == "failed" for check in checks):
        raise typer.Exit(1)
    say_next(["plan", "RECIPE"])


def train(
    config: Annotated[
        Path, typer.Argument(metavar="CONFIG", help="The trainer's configuration, a TOML file.")
    ],
    plan: Annotated[
        bool,
        typer.Option(
            "--plan", help="Predict memory and time instead of training, without PyTorch."
        ),
    ] = False,
    machine: Annotated[
        str,
        typer.Option("--machine", metavar="NAME", help="With --plan: h100, h200 or a JSON file."),
    ] = "h100",
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="DIR",
            help="Write the newest checkpoint as a Hugging Face model instead of training.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --plan: print one JSON object.")
    ] = False,
) -> None:
    """Train a model on a packed dataset with the bundled trainer; goes on from its checkpoint.

    With --plan it says whether the rows fit a machine, how long a row can be and what a step
    takes; exit code 1 where they do not fit.
    """
    from pipelines.doctor import InstallationError

    if plan and export is not None:
        raise typer.BadParameter("--plan and --export are two things; give one")
    if plan:
        options = ["--plan", "--machine", machine, *(["--json"] if as_json else [])]
        raise typer.Exit(run_child([sys.executable, "-P", "-m", "trainer", str(config), *options]))
    if as_json:
        raise typer.BadParameter("--json belongs to --plan")
    if importlib.util.find_spec("torch") is None:
        raise InstallationError(
            "drystone train needs PyTorch, which is not installed: pip install 'drystone[train]'"
        )
    # The trainer itself says what to do next: it knows whether its steps are done.
    options = [] if export is None else ["--export", str(export)]
    raise typer.Exit(run_child([sys.executable, "-P", "-m", "trainer", str(config), *options]))


def run_child(command: list[str]) -> int:
    """Run a program in the foreground and return its exit code, 128 + n after signal n.

    Ctrl-C reaches the program by itself, since it shares the terminal; a SIGTERM is handed on.
    """
    child = subprocess.Popen(command)
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: child.terminate()),
    }
    try:
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code

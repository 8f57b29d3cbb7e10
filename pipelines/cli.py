"""The command line, ``drystone``: commands, and errors turned into messages and exit codes.

Importing this module is cheap; what a command needs is imported when it runs.
"""

import atexit
import importlib.metadata
import logging
import os
import sys
import threading
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pipelines.commands import audit, catalog, report, run, setup, shards

OK, CHECK_FAILED, USAGE, INPUT, STORAGE, ENGINE = range(6)
"""Exit codes: all well; a check failed; recipe or usage; input data; storage or lock; engine."""

EXIT_CODES = {
    "pipelines.doctor.InstallationError": CHECK_FAILED,
    "pipelines.failures.CheckError": CHECK_FAILED,
    "pipelines.recipe.RecipeError": USAGE,
    "pipelines.locate.UsageError": USAGE,
    "transforms.record.RecordError": INPUT,
    "packing.format.ShardError": INPUT,
    "pipelines.artifacts.StorageError": STORAGE,
    "catalog.store.QueryError": USAGE,
    "catalog.store.CatalogError": STORAGE,
    "builtins.OSError": STORAGE,
    "pipelines.failures.EngineError": ENGINE,
}
"""The exit code of every error that has a message for the user; any other is a fault of the engine
and keeps its traceback. By name, so that no command imports what it does not need."""


def exit_code(error: BaseException) -> int | None:
    """Return the exit code of an error that a user can act on, None for a fault of the program."""
    for cls in type(error).__mro__:
        code = EXIT_CODES.get(f"{cls.__module__}.{cls.__qualname__}")
        if code is not None:
            return code
    return None


class Commands(TyperGroup):
    """All commands; the one place where errors become messages and exit codes."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            sys.stderr.write("interrupted; the same command again goes on where this one stopped\n")
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # The reader of a pipe has seen enough; leave nothing to be flushed to it.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(OK) from None
        except Exception as error:
            if type(error).__module__.partition(".")[0] in ("typer", "click"):
                raise
            code = exit_code(error)
            if code is None:
                sys.stderr.write("".join(traceback.format_exception(error)))
                code = ENGINE
            elif isinstance(error, OSError):
                place = f"{error.filename}: " if error.filename else ""
                sys.stderr.write(f"{place}{error.strerror or error}\n")
            else:
                sys.stderr.write(f"{error}\n")
            raise typer.Exit(code) from error


app = typer.Typer(
    name="drystone",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"drystone {importlib.metadata.version('drystone')}")
        raise typer.Exit


@app.callback(
    epilog="Begin with: drystone doctor. A recipe is described by: drystone recipe schema.",
)
def drystone(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens.")] = False,
) -> None:
    """Build, curate and pack training corpora for language models."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    if not verbose:
        handler.addFilter(_is_news)
    logging.basicConfig(handlers=[handler], level=logging.INFO if verbose else logging.WARNING)


def _is_news(record: logging.LogRecord) -> bool:
    """Say whether a log record tells something that the command does not."""
    # Beam warns through the root logger of what its users can do nothing about, and logs an error of
    # a task with its traceback, twice, before the command ends with it.
    return (record.name != "root" or record.levelno >= logging.ERROR) and record.name not in (
        "apache_beam.runners.common",
        "apache_beam.runners.worker.sdk_worker",
    )


for module in (run, catalog, report, shards, audit, setup):
    module.register(app)


def main() -> None:
    """Entry point of the ``drystone`` command."""
    try:
        app()
    except SystemExit as ending:
        if not isinstance(ending.code, int | None):
            raise
        _leave(ending.code or OK)


def _leave(code: int) -> None:
    """End the process after what libraries have asked to be done at its end.

    Python would take half a second more to free, one by one, objects that end with the process.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads as Python does
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        sys.exit(code)
    os._exit(code)


if __name__ == "__main__":
    main()

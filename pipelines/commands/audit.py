"""``audit``: judging what another tool made."""

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.audit_packing import packing
from pipelines.commands.catalog import AsJson
from pipelines.commands.output import amount, print_facts, print_json, say, say_next, show_table

if TYPE_CHECKING:
    from pipelines.audit.report import AuditReport, Pair

_COLUMN = 48

audit_app = typer.Typer(help="Judges what another tool made.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    audit_app.command()(packing)
    app.add_typer(audit_app, name="audit")


@audit_app.callback()
def audit() -> None:
    """Judges what another tool made."""


@audit_app.command()
def dedup(
    raw: Annotated[
        list[str],
        typer.Option(
            "--input",
            metavar="RAW",
            help="What the tool read: a file, folder or quoted glob; several times for several.",
        ),
    ],
    kept: Annotated[
        list[str],
        typer.Option("--kept", metavar="OUTPUT", help="What it kept, likewise."),
    ],
    threshold: Annotated[
        float,
        typer.Option(metavar="J", help="Jaccard similarity from which on two are duplicates."),
    ] = 0.8,
    ngram: Annotated[int, typer.Option(metavar="N", min=1, max=64, help="Tokens per n-gram.")] = 5,
    text: Annotated[str, typer.Option(metavar="NAME", help="Column or key of the text.")] = "text",
    id_column: Annotated[
        str, typer.Option("--id", metavar="NAME", help="Column or key of the id; may be absent.")
    ] = "id",
    show: Annotated[
        int, typer.Option(metavar="N", min=0, help="How many of the worst pairs are shown.")
    ] = 5,
    as_json: AsJson = False,
) -> None:
    """Judge a removal of near-duplicates by its input and output: what it leaked, what it lost.

    A leak is a kept document with a duplicate that is kept too; a loss is a removed document of
    which no duplicate is kept. Similarities are exact, and nothing is sampled. Exit 0 when there is
    neither, 1 otherwise. Files: JSON lines, Parquet, text, Markdown, compressed or not.
    """
    if not 0 < threshold <= 1:
        raise typer.BadParameter(f"--threshold {threshold:g}: give one above 0, at most 1")
    from pipelines.audit.dedup import judge
    from pipelines.audit.documents import AuditedFiles, Columns
    from pipelines.audit.raw import AuditSettings, RawInput
    from pipelines.audit.report import AuditReport

    columns = Columns(text=text, id=id_column)
    settings = AuditSettings(threshold=threshold, ngram=ngram, show=show)
    files, output = AuditedFiles("--input", raw, columns), AuditedFiles("--kept", kept, columns)
    with RawInput(files, settings, say) as documents:
        report = AuditReport.of(documents, output, judge(documents, output, say))
    if as_json:
        print_json(report.to_json())
    else:
        _print_report(report)
    if not report.verdict.clean:
        raise typer.Exit(1)
    files_of = [
        w for name, paths in (("--input", raw), ("--kept", kept)) for p in paths for w in (name, p)
    ]
    say_next(["audit", "dedup", *files_of, "--threshold", f"{threshold * 0.9:.2g}"])


def _print_report(report: "AuditReport") -> None:
    verdict, told = report.verdict, report.to_json()
    limit = f"{told['threshold']:g}"
    kept, lost = told["kept"], [amount(verdict.lost, "document")]
    if verdict.lost:
        lost += [f"{n:,} with nothing kept at {k}" for k, n in told["lost"]["best_below"].items()]
    print_facts(
        {
            "input": _counts(told["input"]["documents"], told["input"]),
            "kept": _counts(kept["documents"], kept),
            "removed": amount(verdict.removed, "document"),
            f"leaked at {limit}": f"{amount(verdict.leaked, 'document')} "
            f"in {amount(verdict.leaked_pairs, 'pair')}",
            f"lost at {limit}": ", ".join(lost),
        }
    )
    if report.unmatched:
        more = ", ..." if len(report.unmatched) < kept["unknown"] else ""
        typer.echo(f"\nkept, but not in the input: {', '.join(report.unmatched)}{more}")
    _print_pairs("leaked: both are kept", ("kept", "kept"), report.leaks)
    _print_pairs("lost: removed, and the kept one most like it", ("removed", "kept"), report.losses)


def _counts(documents: int, facts: dict[str, object]) -> str:
    """Return a number of documents and what is special about some."""
    names = ("files", "by_id", "by_text", "altered", "unknown", "without_text", "unreadable")
    rest = [f"{facts[n]:,} {n.replace('_', ' ')}" for n in names if facts.get(n)]
    return ", ".join([amount(documents, "document"), *rest])


def _print_pairs(title: str, sides: tuple[str, str], pairs: "list[Pair]") -> None:
    """Print pairs side by side."""
    from rich.table import Table
    from rich.text import Text

    if not pairs:
        return
    typer.echo(f"\n{title}")
    for pair in pairs:
        other = pair.second.name if pair.second else "nothing has an n-gram of it"
        table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        for _ in sides:
            table.add_column(width=_COLUMN, overflow="fold")
        table.add_row(Text(f"{sides[0]}: {pair.first.name}"), Text(f"{sides[1]}: {other}"))
        table.add_row(*map(Text, pair.excerpts()))
        typer.echo(f"\nsimilarity {pair.similarity:.4f}")
        show_table(table)

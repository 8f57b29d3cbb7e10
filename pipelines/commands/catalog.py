"""``query``, ``explain``, ``diff``, ``gc`` and ``catalog rebuild``."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.output import (
    amount,
    print_csv,
    print_facts,
    print_json,
    print_json_rows,
    print_table,
    say,
    say_next,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from catalog.diff import DocumentChanges
    from catalog.explain import Explanation

Workdir = Annotated[
    Path | None,
    typer.Option(
        "--workdir",
        metavar="DIR",
        help="The work directory; by default the nearest folder upwards that has a catalog.",
    ),
]
RunId = Annotated[
    str | None,
    typer.Option("--run", metavar="ID", help="The run to look at; by default the newest ok one."),
]


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    ARROW = "arrow"


catalog_app = typer.Typer(help="The catalog of a work directory.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(query)
    app.command()(explain)
    app.command()(diff)
    app.command()(gc)
    app.add_typer(catalog_app, name="catalog")


def query(
    sql: Annotated[
        str | None, typer.Argument(metavar="SQL", help="One SELECT statement.", show_default=False)
    ] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="A query that comes with drystone instead.")
    ] = None,
    form: Annotated[
        Format, typer.Option("--format", metavar="FORMAT", help="table, csv, json or arrow.")
    ] = Format.TABLE,
    workdir: Workdir = None,
    run: RunId = None,
) -> None:
    """Ask the catalog: read-only SQL over runs, documents, duplicates, selection, rows and plans.

    Without SQL and --name it lists the queries that come with drystone.
    """
    from catalog.store import named_queries, named_query
    from catalog.store import query as ask
    from pipelines.locate import find_workdir, workdir_option

    if sql is not None and name is not None:
        raise typer.BadParameter("SQL and --name exclude each other; give one")
    if sql is None and name is None:
        known = [{"name": q.name, "rows": q.description} for q in named_queries().values()]
        print_table(["name", "rows"], known)
        where = [] if workdir is None else workdir_option(find_workdir(workdir))
        say_next(["query", "--name", str(known[0]["name"]), *where])
        return
    home = find_workdir(workdir)
    _print_rows(ask(home, named_query(name).sql if name else str(sql), run), form)
    say_next(["query", *workdir_option(home)])


def _print_rows(rows: "pa.Table", form: Format) -> None:
    """Print a table in one of the formats."""
    from catalog.store import to_json_rows

    if form is Format.ARROW:
        import pyarrow as pa

        with pa.ipc.new_stream(sys.stdout.buffer, rows.schema) as stream:
            stream.write_table(rows)
        return
    plain = to_json_rows(rows)
    columns = list(plain[0]) if plain else rows.column_names
    if form is Format.JSON:
        print_json_rows(plain)
    elif form is Format.CSV:
        print_csv(columns, plain)
    else:
        print_table(columns, plain)


def explain(
    document: Annotated[
        str, typer.Argument(metavar="DOC_ID", help="The document's id, or its doc_uid.")
    ],
    source: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Its source, where several have such an id."),
    ] = None,
    as_json: AsJson = False,
    workdir: Workdir = None,
    run: RunId = None,
) -> None:
    """Say what became of one document: every decision, the duplicate it lost to, its rows, steps."""
    from catalog.explain import explain as explain_document
    from pipelines.locate import find_workdir, workdir_option

    home = find_workdir(workdir)
    told = explain_document(home, document, run, source)
    if as_json:
        print_json(told.to_json())
    elif told.found:
        _print_explanation(told)
    where = workdir_option(home) + (["--run", run] if run else [])
    if not told.found:
        _say_not_found(told, where)
        raise typer.Exit(2)
    if told.keeper and told.keeper["id"] is not None:
        if "workdir" in told.keeper:
            where = ["--workdir", told.keeper["workdir"]]
        say_next(["explain", str(told.keeper["doc_uid"]), *where])
    elif told.placements:
        row = str(told.placements[0]["row_id"])
        say_next(["show", told.run_id, "--row", row, *workdir_option(home)])
    else:
        say_next(["query", "--name", "dropped", *where])


def _print_explanation(told: "Explanation") -> None:
    """Print an explanation for people."""
    document = told.document or {}
    print_facts({k: v for k, v in document.items() if v is not None})
    fate = f"kept, {told.n_tokens} tokens" if told.kept else f"dropped: {told.reason}"
    typer.echo(f"\n{fate} (run {told.run_id})\n")
    decisions = [
        {
            "stage": d.stage,
            "": "kept" if d.kept else "dropped",
            "score": "" if d.score is None else f"{d.measure} {d.score:g}",
            "threshold": "" if d.threshold is None else f"{d.threshold:g}",
            "detail": d.detail,
        }
        for d in told.decisions
    ]
    if decisions:
        print_table(list(decisions[0]), decisions)
    if told.keeper:
        keeper = told.keeper
        source = f" of {keeper['source']}" if keeper["source"] else ""
        elsewhere = f" in {keeper['workdir']}" if "workdir" in keeper else ""
        typer.echo(
            f"\nlost to {keeper['id'] or keeper['doc_uid']}{source}{elsewhere} "
            f"({keeper['kind']}, cluster of {keeper['cluster_size']})"
        )
    for title, rows in (
        (f"{amount(told.n_lost_to_it, 'document')} lost to it", told.lost_to_it),
        ("spans", told.spans),
        ("rows that hold it", told.placements),
        ("events of training that name its rows", told.training),
    ):
        if rows:
            typer.echo(f"\n{title}")
            print_table(list(rows[0]), rows)


def _say_not_found(told: "Explanation", where: list[str]) -> None:
    """Say why no document was explained, and what may have been meant."""
    if told.candidates:
        sources = ", ".join(str(row["source"]) for row in told.candidates)
        say(f"{told.asked}: several sources have a document of this id: {sources}; give --source")
        first = told.candidates[0]
        say_next(["explain", told.asked, "--source", str(first["source"]), *where])
        return
    say(f"{told.asked}: run {told.run_id} has no such document")
    for row in told.rejects:
        say(f"rejected: {row['path']} line {row['line']}: {row['reason']}")
    if told.suggestions:
        say("did you mean: " + ", ".join(str(row["id"]) for row in told.suggestions))
        say_next(["explain", str(told.suggestions[0]["id"]), *where])
    else:
        say_next(["query", "select id, source from documents limit 20", *where])


def diff(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="Id of the older run.")],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="Id of the newer run.")],
    as_json: AsJson = False,
    workdir: Workdir = None,
) -> None:
    """Say what changed between two runs: configuration, stages, counts, documents."""
    from catalog.diff import diff as compare
    from pipelines.locate import find_workdir, workdir_option

    home = find_workdir(workdir)
    found = compare(home, run_a, run_b)
    if as_json:
        print_json(found.to_json())
    else:
        stages = {s: (_short(a), _short(b)) for s, (a, b) in found.stages.items() if a != b}
        for title, pairs in (
            ("config", found.config),
            ("stages", stages),
            ("counts", found.counts),
        ):
            _print_pairs(title, pairs)
        if found.documents is None:
            say("documents: not compared, since a run failed or its artifacts were removed")
        else:
            _print_document_changes(found.documents)
    say_next(["query", "select run_id, name, finished from runs", *workdir_option(home)])


def _short(fingerprint: str | None) -> str | None:
    return fingerprint and fingerprint[:12]


def _print_pairs(title: str, pairs: dict[str, Any]) -> None:
    if not pairs:
        typer.echo(f"{title}: the same\n")
        return
    rows = [{title: name, "before": a, "after": b} for name, (a, b) in pairs.items()]
    print_table(list(rows[0]), rows)
    typer.echo()


def _print_document_changes(changes: "DocumentChanges") -> None:
    for title, change in (
        ("added", changes.added),
        ("removed", changes.removed),
        ("text changed", changes.text_changed),
        ("selection changed", changes.selection_changed),
    ):
        typer.echo(f"documents {title}: {change.count}")
        if change.examples:
            print_table(list(change.examples[0]), change.examples)
            typer.echo()


def gc(
    keep_runs: Annotated[
        int, typer.Option(metavar="N", min=1, help="Runs that stay complete, the newest ok ones.")
    ] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    workdir: Workdir = None,
) -> None:
    """Remove the artifacts that no kept run needs."""
    from catalog.gc import collect, collectable
    from pipelines.locate import find_workdir, workdir_option
    from pipelines.progress import size

    home = find_workdir(workdir)
    found = collectable(home, keep_runs) if dry_run else collect(home, keep_runs)
    rows = [{"artifact": entry.path.name, "size": size(entry.bytes)} for entry in found]
    if rows:
        print_table(["artifact", "size"], rows)
    total = size(sum(entry.bytes for entry in found))
    typer.echo(
        f"{amount(len(rows), 'artifact')}, {total} {'would be freed' if dry_run else 'freed'}"
    )
    where = workdir_option(home)
    if dry_run and rows:
        say_next(["gc", "--keep-runs", str(keep_runs), *where])
    else:
        say_next(["query", "select stage, bytes, created from artifacts", *where])


@catalog_app.command()
def rebuild(workdir: Workdir = None) -> None:
    """Make the catalog anew from the manifests, for example after a work directory was moved."""
    from catalog.ingest import rebuild as rebuild_catalog
    from pipelines.locate import find_workdir, workdir_option

    home = find_workdir(workdir)
    typer.echo(rebuild_catalog(home))
    say_next(["query", "select * from runs", *workdir_option(home)])

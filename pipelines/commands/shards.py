"""``show``, ``verify``, ``export``, ``replan`` and ``vendor reader``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.commands.catalog import AsJson, Workdir
from pipelines.commands.output import amount, print_facts, print_json, say, say_next
from pipelines.start import quick_imports

if TYPE_CHECKING:
    from packing.findings import Findings

Dataset = Annotated[
    str, typer.Argument(metavar="DATASET", help="A packed dataset: its folder or a run id.")
]
Step = Annotated[int | None, typer.Option(metavar="S", min=0, help="A step of the plan.")]

vendor_app = typer.Typer(help="Code for other repositories.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(show)
    app.command()(verify)
    app.command()(export)
    app.command()(replan)
    app.add_typer(vendor_app, name="vendor")


def show(
    dataset: Dataset,
    row: Annotated[int | None, typer.Option(metavar="N", min=0, help="A row, by number.")] = None,
    step: Step = None,
    rank: Annotated[
        int, typer.Option(metavar="R", min=0, help="With --step: the rank whose rows are shown.")
    ] = 0,
    plan: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Another plan, as replan writes it.")
    ] = None,
    as_json: AsJson = False,
    workdir: Workdir = None,
) -> None:
    """Show packed rows decoded: documents, pieces, trained and untrained tokens.

    Give --row N, or --step S and --rank R.
    """
    if (row is None) == (step is None):
        raise typer.BadParameter("give either --row N, or --step S with --rank R")
    from packing.reader import PackedReader
    from packing.show import show_row, show_step
    from pipelines.dataset import decoder
    from pipelines.locate import find_dataset, workdir_option

    folder = find_dataset(dataset, workdir)
    decode = decoder(folder)
    with PackedReader(folder, plan, prefetch=0) as reader:
        if row is not None:
            shown = [show_row(reader, row, decode)]
        else:
            shown = show_step(reader, step or 0, rank, decode=decode)
    if as_json:
        print_json([one.to_json() for one in shown])
    else:
        typer.echo("\n\n".join(one.to_text() for one in shown))
    if shown and folder.parent.name == "artifacts":
        uid = str(shown[0].pieces[0].doc_uid)
        say_next(["explain", uid, *workdir_option(folder.parent.parent)])
    else:
        say_next(["verify", str(folder)])


def verify(dataset: Dataset, as_json: AsJson = False, workdir: Workdir = None) -> None:
    """Prove what a packed dataset promises; exit 1 and a list when something fails."""
    from packing.verify import verify as prove
    from pipelines.locate import find_dataset

    folder = find_dataset(dataset, workdir)
    findings = prove(folder)
    if as_json:
        print_json(findings.to_json())
    else:
        _print_findings(findings)
    if not findings.ok:
        raise typer.Exit(1)
    say_next(["show", str(folder), "--row", "0"])


def _print_findings(findings: "Findings") -> None:
    for check in findings.held:
        typer.echo(f"ok      {check}")
    for check, reason in findings.unproved.items():
        typer.echo(f"open    {check}: {reason}")
    for line in findings.failures:
        typer.echo(f"FAILED  {line}")
    typer.echo(", ".join(f"{name} {value:,}" for name, value in findings.counts.items()))


def export(
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="DATASET",
            help="A packed dataset (folder or run id); with --documents the id of a run.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The file, folder or prefix (megatron) that is made."),
    ],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="FORMAT",
            help="Packed rows: jsonl, hf, megatron, megatron-bridge, mds. Conversations: openai, "
            "sharegpt, hermes, swift, react, rewards, preferences. Documents: jsonl.zst, parquet, hf.",
        ),
    ],
    documents: Annotated[
        bool, typer.Option("--documents", help="The text that was kept instead of packed rows.")
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL", help="With --documents: a condition on their columns, \"lang = 'en'\"."
        ),
    ] = None,
    workdir: Workdir = None,
) -> None:
    """Write packed rows, conversations or documents in a format that other tools read."""
    if where is not None and not documents:
        raise typer.BadParameter("--where chooses documents; give --documents too")
    if documents:
        _export_documents(dataset, out, to, where, workdir)
        return
    from packing.export.formats import FORMATS, export_dataset
    from pipelines.locate import find_dataset

    folder = find_dataset(dataset, workdir)
    if to not in FORMATS:
        _export_conversations(folder, out, to)
        return
    done = export_dataset(folder, to, out)
    for path in done.files:
        typer.echo(str(path))
    say(f"{amount(done.rows, 'row')}, {amount(done.tokens, 'token')}")
    for sentence in done.lost:
        say(f"not kept: {sentence}")
    say_next(["show", str(folder), "--row", "0"])


def _export_conversations(folder: Path, out: Path, to: str) -> None:
    from packing.export.formats import FORMATS
    from pipelines.export_conversations import CONVERSATION_FORMATS, export_conversations

    if to not in CONVERSATION_FORMATS:
        raise typer.BadParameter(
            f"--to {to}: packed rows are exported to {', '.join(FORMATS)}; conversations to "
            f"{', '.join(CONVERSATION_FORMATS)}"
        )
    done = export_conversations(folder, to, out)
    typer.echo(str(done.path))
    say(amount(done.rows, "row"))
    for sentence in done.lost:
        say(f"not kept: {sentence}")
    say_next(["show", str(folder), "--row", "0"])


def _export_documents(
    run_id: str, out: Path, to: str, where: str | None, workdir: Path | None
) -> None:
    with quick_imports():
        import numba.np.arraymath  # noqa: F401  # what compiled kernels need

        from pipelines.export_documents import DocumentFormat, export_documents
        from pipelines.locate import find_workdir, workdir_option
        from pipelines.progress import size

    forms: dict[str, DocumentFormat] = {"jsonl.zst": "jsonl.zst", "parquet": "parquet", "hf": "hf"}
    if to not in forms:
        raise typer.BadParameter(f"--to {to}: documents are exported to {', '.join(forms)}")
    home = find_workdir(workdir)
    done = export_documents(home, run_id, forms[to], out, where)
    for path in done.files:
        typer.echo(str(path))
    files = amount(len(done.files), "file")
    say(f"{amount(done.documents, 'document')}, {files}, {size(done.bytes)}")
    say_next(["query", "--name", "dropped", "--run", run_id, *workdir_option(home)])


def replan(
    dataset: Dataset,
    dp: Annotated[int, typer.Option(metavar="N", min=1, help="Data-parallel ranks.")],
    global_batch: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows of one optimizer step over all ranks.")
    ],
    from_step: Annotated[
        int,
        typer.Option(
            metavar="S",
            min=0,
            help="First step that is not trained yet; rows before it are left out.",
        ),
    ] = 0,
    micro_batch: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Rows a rank computes at a time; as before by default."
        ),
    ] = None,
    ranks_per_node: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Ranks of a node, for zone plans of the new slots; as before by default.",
        ),
    ] = None,
    as_json: AsJson = False,
    workdir: Workdir = None,
) -> None:
    """Make another plan over the same shards, for other ranks or another batch.

    The plan is a file beside the dataset's own one, which is not changed; readers take it as
    plan=FILE.
    """
    from pipelines.dataset import replan_dataset
    from pipelines.locate import find_dataset

    folder = find_dataset(dataset, workdir)
    try:
        made = replan_dataset(
            folder,
            dp=dp,
            global_batch=global_batch,
            from_step=from_step,
            micro_batch=micro_batch,
            ranks_per_node=ranks_per_node,
        )
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if as_json:
        print_json(made.to_json())
    else:
        print_facts({k: v for k, v in made.to_json().items() if k not in ("plan", "zones")})
        typer.echo(f"plan  {made.path}")
        if made.zones is not None:
            typer.echo(f"zones {made.zones}")
    first = str(made.first_step)
    say_next(["show", str(folder), "--plan", str(made.path), "--step", first, "--rank", "0"])


@vendor_app.command()
def reader(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the file is written.")],
) -> None:
    """Write the reader of packed datasets as one file, for another repository.

    It needs numpy and pyarrow alone.
    """
    from packing.vendor import vendor_reader

    typer.echo(str(vendor_reader(folder)))
    say_next(["show", "DATASET", "--step", "0", "--rank", "0"])

"""``audit packing``: another tool's packing beside ours."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.commands.catalog import AsJson
from pipelines.commands.output import print_json, print_table, say_next

if TYPE_CHECKING:
    from packing.slots import BalanceSettings
    from pipelines.audit.packed import Packed
    from pipelines.audit.packing import Judged


def packing(
    lengths: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Lengths of documents, with their rows where known: npy, txt, parquet, jsonl.",
        ),
    ] = None,
    megatron: Annotated[
        Path | None, typer.Option(metavar="PREFIX", help="PREFIX.bin and PREFIX.idx.")
    ] = None,
    hf: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A tokenized dataset: Arrow or Parquet files."),
    ] = None,
    seq_len: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=2, max=1 << 24, help="Tokens of a row; default: the longest row."
        ),
    ] = None,
    eod: Annotated[
        int | None,
        typer.Option(metavar="ID", min=0, help="The token that ends a document, in packed rows."),
    ] = None,
    dp: Annotated[int, typer.Option(metavar="N", min=1, help="Data-parallel ranks.")] = 8,
    micro_batch: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows a rank computes at a time.")
    ] = 1,
    global_batch: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Rows of a step; default: 4 micro-batches a rank."),
    ] = None,
    model: Annotated[
        str, typer.Option(metavar="MODEL", help="What rows cost: 1b, 7b, 8b, 70b or a config.json.")
    ] = "1b",
    max_padding: Annotated[
        float, typer.Option(metavar="SHARE", min=0, max=1, help="Padding above which it fails.")
    ] = 0.01,
    max_imbalance: Annotated[
        float,
        typer.Option(metavar="X", min=1, help="Slowest over mean rank above which it fails."),
    ] = 1.05,
    length_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --lengths: the column of lengths.")
    ] = None,
    row_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --lengths: the column of rows.")
    ] = None,
    document_column: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --lengths: the column of documents.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Judge how another tool packed documents into rows: cuts, padding, ranks that wait.

    Beside it stands what best-fit and our plan of steps make of the same documents. Exit 1 when a
    row is over --seq-len, a document is cut that fits a row, tokens are in no row, or padding or
    waiting are over their limits; 0 otherwise. Give one of --lengths, --megatron and --hf.
    """
    if [lengths, megatron, hf].count(None) != 2:
        raise typer.BadParameter("give one of --lengths FILE, --megatron PREFIX and --hf DIR")
    settings = _settings(dp, micro_batch, global_batch, model)
    from pipelines.audit.packed import read_lengths
    from pipelines.audit.packed_tokens import read_folder, read_megatron
    from pipelines.audit.packing import Limits, judge

    if lengths is not None:
        columns = (length_column, row_column, document_column)
        packed, given = read_lengths(lengths, columns, seq_len), ["--lengths", str(lengths)]
    elif megatron is not None:
        packed, given = read_megatron(megatron, seq_len, eod), ["--megatron", str(megatron)]
    else:
        packed, given = read_folder(hf or Path(), eod), ["--hf", str(hf)]
    window = seq_len or _longest(packed)
    judged = judge(packed, window, settings, Limits(max_padding, max_imbalance))
    if as_json:
        print_json(_json(judged, packed, window, settings, model))
    else:
        _print(judged, packed, window, settings, model)
    if judged.failed:
        raise typer.Exit(1)
    say_next(["audit", "packing", *given, "--seq-len", str(window), "--dp", str(2 * dp)])


def _settings(dp: int, micro_batch: int, global_batch: int | None, model: str) -> "BalanceSettings":
    from packing.cost import SHAPE_SIZES
    from packing.slots import BalanceSettings
    from pipelines.audit.model_shape import model_shape

    shape = model_shape(model)
    batch = 4 * dp * micro_batch if global_batch is None else global_batch
    sizes = {name: getattr(shape, name) for name in SHAPE_SIZES}
    try:
        return BalanceSettings(dp=dp, micro_batch=micro_batch, global_batch=batch, **sizes)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _longest(packed: "Packed") -> int:
    """Return the tokens of the longest row."""
    import numpy as np

    placed = packed.row >= 0
    return max(2, int(np.bincount(packed.row[placed], packed.length[placed]).max(initial=0)))


def _json(
    judged: "Judged", packed: "Packed", window: int, settings: "BalanceSettings", model: str
) -> dict[str, Any]:
    return {
        "found": packed.found,
        "documents": judged.documents,
        "seq_len": window,
        "dp": settings.dp,
        "micro_batch": settings.micro_batch,
        "global_batch": settings.global_batch,
        "model": model,
        "theirs": judged.theirs.to_json(),
        "ours": judged.ours.to_json(),
        "failed": judged.failed,
    }


def _print(
    judged: "Judged", packed: "Packed", window: int, settings: "BalanceSettings", model: str
) -> None:
    typer.echo(
        f"{judged.documents:,} documents, rows of {window:,} tokens ({packed.found});\n"
        f"{settings.dp} ranks, micro-batches of {settings.micro_batch}, steps of "
        f"{settings.global_batch}, a model of {model}\n"
    )
    theirs, ours = judged.theirs.to_json(), judged.ours.to_json()
    rows = [
        {
            "": name.replace("_", " "),
            "theirs": _cell(name, theirs[name]),
            "ours": _cell(name, ours[name]),
        }
        for name in theirs
    ]
    print_table(["", "theirs", "ours"], rows)
    if theirs["imbalance_step"] is None:
        typer.echo(
            f"\nimbalance: {theirs['rows']:,} rows are not one step of {settings.global_batch}"
        )
    for line in judged.failed:
        typer.echo(f"FAILED  {line}")


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "not known" if "cut" in name else "-"
    if name == "padding":
        return f"{value:.3%}"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}"

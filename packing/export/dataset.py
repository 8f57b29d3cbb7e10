"""What every export reads: the rows of a dataset in the order of its plan."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from packing.format import PLAN_FILE, DatasetInfo, ShardError, load_manifest
from packing.rows import RowGroup
from packing.schedule import load_plan
from packing.shard import ShardFile


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote, and what its format could not hold."""

    format: str
    files: tuple[Path, ...]
    rows: int
    tokens: int
    lost: tuple[str, ...]
    """What the format cannot hold, one sentence each; empty where nothing is lost."""


@dataclass(frozen=True, slots=True)
class Packed:
    """An open dataset: its description, its plan, and its rows on demand."""

    info: DatasetInfo
    plan: pa.Table
    """Columns as PLAN_SCHEMA, in the order of the rows."""
    read: Callable[[], Iterator[RowGroup]]
    """Reads the rows anew, group by group."""


def open_dataset(folder: Path) -> Packed:
    """Open a dataset for export.

    Raises:
        ShardError: it is unfinished or damaged.
    """
    manifest = load_manifest(str(folder))
    plan = load_plan(str(folder / PLAN_FILE))

    def read() -> Iterator[RowGroup]:
        for entry in manifest.row_files:
            file = ShardFile(str(folder / entry.name), str(folder / entry.name))
            for number in range(file.n_groups):
                yield file.read(number)
            file.close()

    return Packed(plan.dataset, plan.table, read)


def lost_alignment(info: DatasetInfo) -> tuple[str, ...]:
    """Return the sentence that says that pieces are not aligned in a format, where they were."""
    if info.align == 1:
        return ()
    return (
        f"Alignment: pieces follow each other without the filling that lets each begin at a "
        f"multiple of {info.align} tokens.",
    )


def refuse_shared_rows(packed: Packed, dataset: Path, form: str) -> None:
    """Refuse a dataset with rows that several ranks share, where a format has one length of rows.

    Raises:
        ShardError: there is such a row.
    """
    cp = packed.plan["cp"].to_numpy()
    if (cp > 1).any():
        row = packed.plan["row_id"][int((cp > 1).argmax())].as_py()
        raise ShardError(
            f"{dataset}: row {row} is shared by {cp[(cp > 1).argmax()]} ranks ({(cp > 1).sum()} such "
            f'rows), and {form} has rows of one length; pack with long = "cut"'
        )

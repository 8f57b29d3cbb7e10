"""Writes packed rows and plans, byte for byte the same whatever the process.

``input_ids`` are BYTE_STREAM_SPLIT and zstd-1 without a dictionary: an id's high bytes are nearly
always equal, so they all but vanish. Every page carries a checksum.
"""

import contextlib
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from packing.check import check_rows
from packing.format import (
    PLAN_SCHEMA,
    ROW_SCHEMA,
    SPAN_TYPE,
    DatasetInfo,
    PlanInfo,
    plan_fingerprint,
)
from packing.rows import LossSpans, RowGroup

__all__ = ["LossSpans", "RowFileWriter", "RowGroup", "published", "write_plan"]

_ENCODINGS = {
    "row_id": "DELTA_BINARY_PACKED",
    "n_tokens": "DELTA_BINARY_PACKED",
    "input_ids.list.element": "BYTE_STREAM_SPLIT",
    "cu_seqlens.list.element": "DELTA_BINARY_PACKED",
    "doc_uid.list.element": "BYTE_STREAM_SPLIT",
    "loss_spans.list.element.start": "DELTA_BINARY_PACKED",
    "loss_spans.list.element.end": "DELTA_BINARY_PACKED",
}
_DICTIONARIES = [
    *(f"{name}.list.element" for name in ("doc_copy", "doc_offset", "next_token", "domain")),
    "loss_spans.list.element.weight",
]
_COMMON: dict[str, Any] = {
    "compression": "zstd",
    "compression_level": 1,
    "write_page_checksum": True,
    "store_schema": False,
}


class RowFileWriter:
    """Writes one ``rows-*.parquet``: complete and durable under its name, or not there at all.

    Args:
        path: the file to be made; an existing one is replaced when this one is closed.
        info: what the footer says of the dataset.
        longest: tokens a row may have; ``info.seq_len`` by default (more where ranks share rows).
    """

    def __init__(
        self, path: str | os.PathLike[str], info: DatasetInfo, longest: int | None = None
    ) -> None:
        self.path = Path(path)
        self.info = info
        self.longest = info.seq_len if longest is None else longest
        self.rows = 0
        self._temporary = _beside(self.path)
        self._writer = pq.ParquetWriter(
            self._temporary,
            ROW_SCHEMA,
            use_dictionary=_DICTIONARIES,
            column_encoding=_ENCODINGS,
            write_statistics=["row_id", "n_tokens"],
            # One page a column and row group: fewer pages decode faster, and a group is small.
            data_page_size=64 << 20,
            **_COMMON,
        )

    def write(self, group: RowGroup) -> None:
        """Append rows as one Parquet row group.

        Raises:
            ShardError: the rows contradict themselves or the dataset's description; nothing of
                the group is written. The message names document, value and remedy.
        """
        check_rows(group, self.info, self.longest)
        if not group.n_rows:
            return
        table = rows_table(group)
        self._writer.write_table(table, row_group_size=len(table))
        self.rows += len(table)

    def close(self) -> None:
        """Finish the file: flush it to the disk and give it its name."""
        self._writer.add_key_value_metadata(self.info.to_metadata())
        self._writer.close()
        _publish(self._temporary, self.path)

    def abort(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(OSError, pa.ArrowException):
            self._writer.close()
        self._temporary.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def write_plan(
    path: str | os.PathLike[str],
    table: pa.Table,
    info: DatasetInfo,
    *,
    dp: int,
    micro_batch: int,
    slots_per_step: int,
    horizon: int = 1,
) -> PlanInfo:
    """Write a plan, atomically.

    Args:
        path: the file to be made.
        table: columns as PLAN_SCHEMA. The first plan of a dataset stands in the order of its rows.
        info: the dataset.
        dp: ranks the plan was made for.
        micro_batch: rows of a slot per rank.
        slots_per_step: micro-batches of a full step.
        horizon: steps dealt together.

    Returns:
        What the footer says of the plan, its fingerprint included.
    """
    target = Path(path)
    table = table.select(PLAN_SCHEMA.names).cast(PLAN_SCHEMA)
    plan = PlanInfo(
        plan_fingerprint=plan_fingerprint(
            info.fingerprint, (dp, micro_batch, slots_per_step), table
        ),
        dp=dp,
        micro_batch=micro_batch,
        slots_per_step=slots_per_step,
        horizon=horizon,
    )
    with (
        published(target) as temporary,
        pq.ParquetWriter(temporary, PLAN_SCHEMA, **_COMMON) as writer,
    ):
        writer.add_key_value_metadata({**info.to_metadata(), **plan.to_metadata()})
        writer.write_table(table, row_group_size=1 << 20)
    return plan


@contextlib.contextmanager
def published(path: Path) -> Iterator[Path]:
    """Give a name beside ``path`` to write to; what was written there becomes ``path``.

    On an error nothing is left behind, and what was there before stays.
    """
    temporary = _beside(path)
    try:
        yield temporary
        _publish(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def rows_table(group: RowGroup) -> pa.Table:
    """Return rows as an Arrow table of the shard's schema; the tokens are not copied."""
    piece = group.piece_offsets.astype(np.int32)
    token = group.row_offsets.astype(np.int32)
    columns: Mapping[str, pa.Array] = {
        "row_id": pa.array(group.row_id),
        "n_tokens": pa.array(np.diff(token)),
        "input_ids": _list("input_ids", token, group.input_ids),
        "cu_seqlens": _cu_seqlens(group),
        "doc_uid": _list("doc_uid", piece, group.doc_uid),
        "doc_copy": _list("doc_copy", piece, group.doc_copy),
        "doc_offset": _list("doc_offset", piece, group.doc_offset),
        "next_token": _list("next_token", piece, group.next_token),
        "loss_spans": _loss_spans(group),
        "domain": _list("domain", piece, group.domain),
    }
    return pa.Table.from_arrays([columns[name] for name in ROW_SCHEMA.names], schema=ROW_SCHEMA)


def _list(name: str, offsets: npt.NDArray[np.int32], values: npt.NDArray[Any]) -> pa.Array:
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(values), type=ROW_SCHEMA.field(name).type
    )


def _cu_seqlens(group: RowGroup) -> pa.Array:
    """Return each row's piece bounds, from 0 to its length."""
    rows = np.arange(group.n_rows)
    first = group.piece_offsets + np.arange(group.n_rows + 1)
    values = np.empty(int(first[-1]), np.int32)
    row = np.repeat(rows, group.pieces_per_row)
    # The p-th piece of the group begins at place p + row of the list values.
    values[np.arange(len(row)) + row] = group.cu_seqlens[:-1] - group.row_offsets[row]
    values[first[1:] - 1] = np.diff(group.row_offsets)
    return _list("cu_seqlens", first.astype(np.int32), values)


def _loss_spans(group: RowGroup) -> pa.Array:
    field = ROW_SCHEMA.field("loss_spans")
    spans = group.loss_spans
    if spans is None:
        return pa.nulls(group.n_rows, field.type)
    values = pa.StructArray.from_arrays(
        [pa.array(spans.start), pa.array(spans.end), pa.array(spans.weight)],
        fields=list(SPAN_TYPE),
    )
    return pa.ListArray.from_arrays(
        pa.array(spans.offsets.astype(np.int32)),
        values,
        type=field.type,
        mask=pa.array(spans.is_null),
    )


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")


def _publish(temporary: Path, path: Path) -> None:
    """Flush a finished file to the disk and give it its name."""
    for target in (temporary, path.parent):
        handle = os.open(target, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        if target == temporary:
            temporary.replace(path)

"""Packed rows as JSON lines: one row a line, the plan's place of it included."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from packing.export.dataset import Exported, open_dataset
from packing.format import PLAN_SCHEMA
from packing.rows import RowGroup
from packing.writer import published

_PIECES = ("doc_uid", "doc_copy", "doc_offset", "next_token")


def export_jsonl(dataset: Path, out: Path) -> Exported:
    """Write every packed row as one JSON object.

    Args:
        dataset: the dataset's folder.
        out: the file to be made; a name that ends in ``.gz`` or ``.zst`` is compressed.

    Raises:
        ShardError: the dataset is unfinished or damaged.
    """
    packed = open_dataset(dataset)
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = tokens = 0
    with published(out) as temporary, _stream(temporary, out) as sink:
        for group in packed.read():
            places = packed.plan.slice(rows, group.n_rows).to_pylist()
            for line, place in zip(_lines(group, packed.info.domains), places, strict=True):
                line |= {name: place[name] for name in PLAN_SCHEMA.names}
                sink.write(orjson.dumps(line, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")
            rows += group.n_rows
            tokens += len(group.input_ids)
    lost = ("The fingerprints and settings in the footers and the manifest are not in the lines.",)
    return Exported("jsonl", (out,), rows, tokens, lost)


def _stream(temporary: Path, out: Path) -> Any:
    compression = {".gz": "gzip", ".zst": "zstd"}.get(out.suffix)
    return pa.output_stream(str(temporary), compression=compression)


def _lines(group: RowGroup, domains: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Give each row's columns, named as in the shards, domains by name."""
    for at in range(group.n_rows):
        row = group.slice(at, at + 1)
        line: dict[str, Any] = {
            "row_id": int(row.row_id[0]),
            "n_tokens": len(row.input_ids),
            "input_ids": row.input_ids,
            "cu_seqlens": row.cu_seqlens,
            **{name: getattr(row, name) for name in _PIECES},
            "domain": [domains[code] for code in row.domain.tolist()],
            "loss_spans": None,
        }
        spans = row.loss_spans
        if spans is not None and not spans.is_null[0]:
            columns = (spans.start.tolist(), spans.end.tolist(), spans.weight.tolist())
            line["loss_spans"] = [list(span) for span in zip(*columns, strict=True)]
        yield line

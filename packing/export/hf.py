"""Packed rows as a folder that ``datasets.load_dataset("parquet", data_dir=...)`` opens."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packing.export.dataset import Exported, Packed, lost_alignment, open_dataset
from packing.format import IGNORED_LABEL
from packing.rows import MicroBatch, RowGroup
from packing.writer import published

_SCHEMA = pa.schema(
    [
        ("row_id", pa.int64()),
        ("step", pa.int32()),
        ("slot", pa.int32()),
        ("rank", pa.int32()),
        ("input_ids", pa.list_(pa.int32())),
        ("labels", pa.list_(pa.int32())),
        ("position_ids", pa.list_(pa.int32())),
        ("seq_lengths", pa.list_(pa.int32())),
        ("doc_uid", pa.list_(pa.int64())),
        ("domain", pa.list_(pa.string())),
    ]
)
_FILE_TOKENS = 64 << 20
_LOST = (
    "The plan is kept as the columns step, slot and rank, which a shuffling trainer does not "
    "follow; its costs and its fingerprint are not kept, so that no trainer can refuse another "
    "order.",
    "The last token of a piece whose document goes on in another row is not trained: labels here "
    "hold the row's own tokens (a trainer shifts them), and next_token is not among them.",
    "Loss weights other than 0 and 1 are not kept: a target is trained or it is not.",
    "Which rows several ranks share (cp) is not kept: such a row is longer than the others.",
    "doc_copy and doc_offset are not kept: positions begin anew at every piece.",
)


def export_hf(dataset: Path, out: Path) -> Exported:
    """Write packed rows with labels and positions, ready for a trainer of the Hub's ecosystem.

    ``labels`` follow the convention that the model shifts them: ``labels[i]`` is ``input_ids[i]``,
    or -100 where that token is no target (the first of every piece, and what ``loss_spans`` leave
    out). ``position_ids`` restart at every piece and ``seq_lengths`` are the pieces' lengths, which
    is what padding-free trainers build their document masks from.

    Args:
        dataset: the dataset's folder.
        out: the folder to be made.

    Raises:
        ShardError: the dataset is unfinished or damaged.
    """
    packed = open_dataset(dataset)
    out.mkdir(parents=True, exist_ok=True)
    tables: list[pa.Table] = []
    files: list[Path] = []
    rows = tokens = held = 0
    for group in packed.read():
        tables.append(_table(group, packed, rows))
        rows += group.n_rows
        tokens += len(group.input_ids)
        held += len(group.input_ids)
        if held >= _FILE_TOKENS:
            files.append(_write(out, len(files), tables))
            tables, held = [], 0
    if tables or not files:
        files.append(_write(out, len(files), tables))
    card = out / "README.md"
    with published(card) as temporary:
        temporary.write_text(_card(packed, rows, tokens), encoding="utf-8")
    return Exported("hf", (*files, card), rows, tokens, (*_LOST, *lost_alignment(packed.info)))


def _table(group: RowGroup, packed: Packed, first: int) -> pa.Table:
    batch = MicroBatch.of(group)
    token, piece = (o.astype(np.int32) for o in (group.row_offsets, group.piece_offsets))
    # The target at position i + 1 is the label of token i; here a token is its own label.
    labels = np.full(len(group.input_ids), IGNORED_LABEL, np.int32)
    trained = batch.loss_weights[:-1] > 0
    labels[1:][trained] = group.input_ids[1:][trained]
    labels[group.cu_seqlens[:-1]] = IGNORED_LABEL
    names = pa.DictionaryArray.from_arrays(pa.array(group.domain), list(packed.info.domains))
    place = packed.plan.slice(first, group.n_rows)

    def lists(offsets: Any, values: Any) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(offsets), values)

    columns = [
        pa.array(group.row_id),
        *(place[name] for name in ("step", "slot", "rank")),
        lists(token, pa.array(group.input_ids)),
        lists(token, pa.array(labels)),
        lists(token, pa.array(batch.position_ids)),
        lists(piece, pa.array(group.length)),
        lists(piece, pa.array(group.doc_uid)),
        lists(piece, names.cast(pa.string())),
    ]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _write(out: Path, number: int, tables: list[pa.Table]) -> Path:
    """Write one file, a row group per group of the dataset."""
    path = out / f"train-{number:05d}.parquet"
    ids = "list.element"
    with (
        published(path) as temporary,
        pq.ParquetWriter(
            temporary,
            _SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=[f"domain.{ids}", "step", "slot", "rank"],
            column_encoding={
                f"input_ids.{ids}": "BYTE_STREAM_SPLIT",
                f"labels.{ids}": "BYTE_STREAM_SPLIT",
                f"position_ids.{ids}": "DELTA_BINARY_PACKED",
            },
        ) as writer,
    ):
        for table in tables:
            writer.write_table(table, row_group_size=len(table))
    return path


def _card(packed: Packed, rows: int, tokens: int) -> str:
    info = packed.info
    lost = "\n".join(f"* {sentence}" for sentence in (*_LOST, *lost_alignment(info)))
    return f"""# Packed rows

{rows} rows of at most {info.seq_len} tokens, {tokens} tokens in all; strategy {info.strategy},
vocabulary {info.vocab_size}, tokenizer {info.tokenizer or "not named"}
(sha256 {info.tokenizer_sha256 or "not known"}), dataset {info.fingerprint}.

```python
from datasets import load_dataset

rows = load_dataset("parquet", data_dir="PATH OF THIS FOLDER", split="train")
```

Rows are not padded. `labels` are to be shifted by the model, as usual; -100 is not trained.
`position_ids` restart at every document, and `seq_lengths` say how long each is, so that attention
can be kept inside documents.

## What this format does not hold

{lost}
"""

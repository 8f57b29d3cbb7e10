"""Packed rows as the packed Parquet that Megatron-Bridge reads (``GPTSFTPackedParquetDataset``).

Its collate function cuts a row at ``seq_start_id`` into sequences; of a sequence of ``L`` tokens the
first ``L - 1`` are inputs, the last ``L - 1`` labels, and ``loss_mask[i]`` says whether input ``i`` is
trained. So a piece whose document goes on carries its next token as a last label, and the inputs of a
row never exceed ``seq_len``.
"""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packing.export.dataset import Exported, open_dataset, refuse_shared_rows
from packing.format import DatasetInfo, ShardError
from packing.rows import MicroBatch, RowGroup, aligned, offsets_of
from packing.writer import published

_SCHEMA = pa.schema(
    [
        ("input_ids", pa.list_(pa.int32())),
        ("loss_mask", pa.list_(pa.int8())),
        ("seq_start_id", pa.list_(pa.int32())),
    ]
)
# A row read at random decodes its whole row group.
_GROUP_TOKENS = 1 << 18
_FILE_TOKENS = 64 << 20
_LOST = (
    "The plan: Megatron-Bridge shuffles rows by its own seed, so steps, slots, ranks and their "
    "balance are lost; rows stand in the order of the plan.",
    "Loss weights other than 0 and 1 are not kept: a target is trained or it is not.",
    "doc_uid, doc_copy, doc_offset and domain: which document a token comes from is not kept.",
    "Documents of one token are left out: nothing of them is trained.",
)


def export_megatron_bridge(dataset: Path, out: Path) -> Exported:
    """Write a folder to be given to Megatron-Bridge as ``packed_train_data_path``.

    Train with ``seq_length`` equal to the dataset's seq_len, ``answer_only_loss`` as it is by default,
    and ``pad_seq_to_mult`` equal to the dataset's ``align``. ``packing_metadata.json`` is for
    ``pad_cu_seqlens``.

    Args:
        dataset: the dataset's folder.
        out: the folder to be made.

    Raises:
        ShardError: the dataset is unfinished or damaged, has rows that ranks share, or aligned pieces
            but no end-of-sequence id to fill them with.
    """
    packed = open_dataset(dataset)
    refuse_shared_rows(packed, dataset, "megatron-bridge")
    if packed.info.align > 1 and packed.info.eos_id is None:
        raise ShardError(
            f"{dataset}: pieces are aligned to {packed.info.align} tokens, which Megatron-Bridge fills "
            "with the end-of-sequence id, and there is none; set tokenizer.eos_token and build the "
            "dataset again"
        )
    out.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    tables: list[pa.Table] = []
    rows = tokens = held = 0
    sizes = _Sizes()
    for group in packed.read():
        table = _table(group, packed.info, sizes)
        tables.append(table)
        rows += len(table)
        tokens += len(group.input_ids)
        held += len(group.input_ids)
        if held >= _FILE_TOKENS:
            files.append(_write(out, len(files), tables, packed.info))
            tables, held = [], 0
    if tables or not files:
        files.append(_write(out, len(files), tables, packed.info))
    metadata = out / "packing_metadata.json"
    with published(metadata) as temporary:
        temporary.write_text(json.dumps([sizes.to_json()]) + "\n", encoding="utf-8")
    return Exported("megatron-bridge", (*files, metadata), rows, tokens, _LOST)


class _Sizes:
    """What ``pad_cu_seqlens`` asks of a dataset: the most sequences of a row, and their inputs."""

    def __init__(self) -> None:
        self.sequences = self.longest = 0
        self.shortest_row: int | None = None

    def add(self, sequences: int, longest: int, shortest_row: int) -> None:
        """Take in some rows."""
        self.sequences = max(self.sequences, sequences)
        self.longest = max(self.longest, longest)
        known = self.shortest_row
        self.shortest_row = shortest_row if known is None else min(known, shortest_row)

    def to_json(self) -> dict[str, int]:
        """Return the record of Megatron-Bridge's metadata file."""
        return {
            "dataset_max_seqlen": self.longest,
            "max_samples_per_bin": self.sequences,
            "min_packed_seqlen": self.shortest_row or 0,
        }


def _table(group: RowGroup, info: DatasetInfo, sizes: _Sizes) -> pa.Table:
    """Return rows as Megatron-Bridge's columns; rows without any target are left out."""
    goes_on = group.next_token >= 0
    inputs = group.length - ~goes_on
    length = np.where(inputs > 0, aligned(inputs, info.align) + 1, 0).astype(np.int64)
    start = offsets_of(length)
    fill = info.eos_id if info.eos_id is not None else 0
    ids = np.full(int(start[-1]), fill, np.int32)
    mask = np.zeros(int(start[-1]), np.int8)
    own = np.repeat(inputs > 0, group.length)
    place = np.arange(len(own)) + np.repeat(start[:-1] - group.cu_seqlens[:-1], group.length)
    ids[place[own]] = group.input_ids[own]
    ids[(start[:-1] + group.length)[goes_on]] = group.next_token[goes_on]
    trained = own & (MicroBatch.of(group).loss_weights > 0)
    mask[place[trained]] = 1
    row = np.repeat(np.arange(group.n_rows), group.pieces_per_row)
    some = inputs > 0
    pieces = np.bincount(row[some], minlength=group.n_rows)
    kept = pieces > 0
    bounds = np.append(start[:-1][group.piece_offsets[:-1]], start[-1])
    size = np.diff(bounds)[kept]
    token = offsets_of(size)
    begins = (start[:-1] - bounds[:-1][row])[some].astype(np.int32)
    if len(size):
        sizes.add(int(pieces.max()), int(length.max()) - 1, int((size - pieces[kept]).min()))

    def lists(offsets: np.ndarray, values: np.ndarray) -> pa.Array:  # type: ignore[type-arg]
        return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))

    columns = [lists(token, ids), lists(token, mask), lists(offsets_of(pieces[kept]), begins)]
    return pa.Table.from_arrays(columns, schema=_SCHEMA)


def _write(out: Path, number: int, tables: list[pa.Table], info: DatasetInfo) -> Path:
    """Write one file, in row groups that are cheap to read at random."""
    path = out / f"train-{number:05d}.idx.parquet"
    ids = "list.element"
    with (
        published(path) as temporary,
        pq.ParquetWriter(
            temporary,
            _SCHEMA,
            compression="zstd",
            compression_level=1,
            use_dictionary=[f"loss_mask.{ids}"],
            column_encoding={
                f"input_ids.{ids}": "BYTE_STREAM_SPLIT",
                f"seq_start_id.{ids}": "DELTA_BINARY_PACKED",
            },
        ) as writer,
    ):
        for table in tables:
            writer.write_table(table, row_group_size=max(1, _GROUP_TOKENS // info.seq_len))
    return path

"""Packed rows as Megatron's ``.bin`` and ``.idx`` (IndexedDataset, version 1).

Megatron's GPTDataset shuffles the sequences of a file, joins them and cuts the stream every
``seq_length`` tokens. So each packed row becomes one sequence of exactly ``seq_len`` tokens, filled
up with the end-of-document token: cuts then fall between rows whatever the shuffle, no document is
cut that was not, and what Megatron trains on are our rows. With ``--reset-position-ids
--reset-attention-mask --eod-mask-loss`` it restarts at every document and does not train a
document's last token, nor the filling.
"""

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from packing.export.dataset import Exported, lost_alignment, open_dataset, refuse_shared_rows
from packing.format import DatasetInfo, ShardError
from packing.rows import MicroBatch
from packing.writer import published

_MAGIC = b"MMIDIDX\x00\x00"
_VERSION = 1
_CODES = {np.dtype(np.uint16): 8, np.dtype(np.int32): 4}
_UINT16_VOCABULARY = 65500
_LOST = (
    "The plan: Megatron shuffles rows by its own seed, so steps, slots, ranks and their balance "
    "are lost.",
    "loss_spans: Megatron trains every token but those after an end-of-document token.",
    "doc_uid, doc_copy, doc_offset and domain: which document a token comes from is not kept.",
    "next_token: after a piece whose document goes on elsewhere Megatron trains the first token of "
    "the row that happens to follow.",
    "The last row of an epoch's shuffle: Megatron needs one token more than the last row has.",
)


def export_megatron(dataset: Path, out: Path) -> Exported:
    """Write ``<out>.bin`` and ``<out>.idx``, to be given to Megatron as ``--data-path <out>``.

    Train with ``--seq-length`` equal to the dataset's seq_len.

    Args:
        dataset: the dataset's folder.
        out: prefix of the two files.

    Raises:
        ShardError: the dataset is unfinished or damaged, has rows of more than ``seq_len`` tokens
            or no end-of-sequence id.
    """
    packed = open_dataset(dataset)
    info = packed.info
    if info.eos_id is None:
        raise ShardError(
            f"{dataset}: has no end-of-sequence id, which Megatron tells documents apart by; "
            "set tokenizer.eos_token and build the dataset again"
        )
    refuse_shared_rows(packed, dataset, "megatron")
    prefix = out.with_suffix("") if out.suffix in (".bin", ".idx") else out
    prefix.parent.mkdir(parents=True, exist_ok=True)
    data, index = (prefix.with_name(prefix.name + suffix) for suffix in (".bin", ".idx"))
    dtype = np.dtype(np.uint16 if info.vocab_size < _UINT16_VOCABULARY else np.int32)
    rows = tokens = 0
    with published(data) as temporary, temporary.open("wb") as sink:
        for group in packed.read():
            batch = MicroBatch.of(group, seq_len=info.seq_len, pad_id=info.eos_id)
            sink.write(batch.padded().input_ids.astype(dtype.newbyteorder("<")).tobytes())
            rows += group.n_rows
            tokens += len(group.input_ids)
    with published(index) as temporary:
        temporary.write_bytes(_index(rows, info, dtype))
    return Exported("megatron", (data, index), rows, tokens, (*_LOST, *lost_alignment(packed.info)))


def _index(rows: int, info: DatasetInfo, dtype: np.dtype[np.generic]) -> bytes:
    """Return the bytes of the ``.idx``: header, lengths, byte offsets, document bounds."""
    sequences: npt.NDArray[np.int32] = np.full(rows, info.seq_len, "<i4")
    pointers = np.arange(rows, dtype="<i8") * (info.seq_len * dtype.itemsize)
    documents = np.arange(rows + 1, dtype="<i8")
    header = _MAGIC + struct.pack("<QBQQ", _VERSION, _CODES[dtype], rows, rows + 1)
    return header + sequences.tobytes() + pointers.tobytes() + documents.tobytes()

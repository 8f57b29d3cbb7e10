"""Other projects' packers, their functions loaded unchanged from their own sources.

Each takes (lengths int64[n], seq_len, vectors float32[n, d]) and returns the pieces it makes: row,
document and tokens of each. Documents longer than a row are handed to each as its project does:
split where it splits, truncated where its users must truncate.
"""

import ast
import gc
import json
import logging
import math
import re
import tempfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Optional

import numba
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rival_source import AbsentError, load

from transforms.record import mix64

Pieces = tuple[np.ndarray, np.ndarray, np.ndarray]
Packer = Callable[[np.ndarray, int, np.ndarray], Pieces]
AXOLOTL_GROUP, AXOLOTL_BIN = 100_000, 200  # its defaults: documents of a group, and of a row
TRL_WINDOW = 1000  # rows that `Dataset.map` hands over at a time


def trl(rivals: Path | None, window: int | None) -> Packer:
    """TRL, strategy ``bfd_split``; ``window``: documents packed at a time, None for all."""
    names = load(
        rivals,
        "trl/trl/data_utils.py",
        {"_check_if_columns_can_be_packed", "_SegmentTree", "_pack_bfd"},
        {"np": np, "pa": pa, "pc": pc, "pyarrow": pa, "Literal": Literal,
         "defaultdict": defaultdict, "deque": deque},
    )  # fmt: skip

    def pack(lengths: np.ndarray, seq_len: int, _: np.ndarray) -> Pieces:
        step = window or len(lengths)
        parts, rows = [], 0
        for first in range(0, len(lengths), step):
            mine = lengths[first : first + step]
            offsets = np.concatenate([[0], np.cumsum(mine)])
            # The tokens of a document are its number, so that it can be found again.
            tokens = np.repeat(np.arange(first, first + len(mine), dtype=np.int32), mine)
            table = pa.table({"input_ids": pa.LargeListArray.from_arrays(offsets, tokens)})
            packed = names["_pack_bfd"](table, seq_len, "split").combine_chunks()
            ids, sizes = (packed[c].chunk(0) for c in ("input_ids", "seq_lengths"))
            size = sizes.values.to_numpy().astype(np.int64)
            start = np.concatenate([[0], np.cumsum(size)[:-1]])
            row = np.repeat(np.arange(len(sizes)), np.diff(sizes.offsets.to_numpy()))
            parts.append((row + rows, ids.values.to_numpy()[start].astype(np.int64), size))
            rows += len(sizes)
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))  # type: ignore[return-value]

    return pack


def of_bins(bins: list[list[int]], lengths: np.ndarray) -> Pieces:
    """Pieces of whole documents."""
    document = np.array([d for b in bins for d in b], dtype=np.int64)
    row = np.repeat(np.arange(len(bins)), [len(b) for b in bins])
    return row, document, lengths[document]


def axolotl(rivals: Path | None) -> Packer:
    """Axolotl's multipack; its datasets drop or truncate what is longer than a row: truncated."""
    names = load(
        rivals,
        "axolotl/src/axolotl/utils/samplers/multipack.py",
        {"pack_group", "_process_group", "pack_parallel"},
        {"np": np, "numba": numba, "LOG": logging.getLogger("axolotl")},
    )
    names["pack_group"](np.array([2, 3]), 0, 4, 2, 2, True)  # compile

    def pack(lengths: np.ndarray, seq_len: int, _: np.ndarray) -> Pieces:
        short = np.minimum(lengths, seq_len)
        bins = names["pack_parallel"](
            short, seq_len, AXOLOTL_GROUP, AXOLOTL_BIN, 1, mp_start_method=None
        )
        return of_bins(bins, short)

    return pack


def olmo(rivals: Path | None) -> Packer:
    """OLMo-core's optimized best-fit decreasing, long documents fragmented."""
    names = load(
        rivals,
        "OLMo-core/src/olmo_core/data/utils.py",
        {"SegmentTreeNode", "SegmentTree", "InstancePacker"},
        {"np": np, "math": math, "deque": deque, "defaultdict": defaultdict, "List": list,
         "Dict": dict, "Tuple": tuple, "Optional": Optional, "dataclass": dataclass,
         "__name__": "olmo"},
    )  # fmt: skip

    def pack(lengths: np.ndarray, seq_len: int, _: np.ndarray) -> Pieces:
        parts = -(-lengths // seq_len)
        owner = np.repeat(np.arange(len(lengths)), parts)
        size = np.full(len(owner), seq_len)
        last = np.cumsum(parts) - 1
        size[last] = lengths - (parts - 1) * seq_len
        end = np.cumsum(size)
        packer = names["InstancePacker"](seq_len)
        bins, spans, _total = packer.pack_documents(np.stack([end - size, end], axis=1))
        place = np.searchsorted(end, spans[:, 1])
        row, piece, _sizes = of_bins(bins, spans[:, 1])
        return row, owner[place[piece]], size[place[piece]]

    return pack


def nemo(rivals: Path | None) -> Packer:
    """NeMo's first-fit decreasing; documents must fit, so longer ones are truncated."""
    names = load(
        rivals,
        "NeMo/nemo/utils/sequence_packing_utils.py",
        {"find_first_bin_that_fits", "first_fit", "first_fit_decreasing"},
        {"np": np, "List": list, "Tuple": tuple, "Dict": dict},
    )

    def pack(lengths: np.ndarray, seq_len: int, _: np.ndarray) -> Pieces:
        short = np.minimum(lengths, seq_len)
        bins = names["first_fit_decreasing"](short.tolist(), seq_len)
        owners = defaultdict(list)
        for document in range(len(short) - 1, -1, -1):
            owners[int(short[document])].append(document)
        return of_bins([[owners[n].pop() for n in b] for b in bins], short)

    return pack


def torchtune(rivals: Path | None) -> Packer:
    """PackedDataset of torchtune, over tokens in memory; longer documents are truncated."""
    file = "torchtune/torchtune/datasets/_packed.py"
    if rivals is None or not (rivals / file).is_file():
        load(rivals, file, set(), {})
    try:
        import torch
    except ImportError:
        raise AbsentError("torchtune packs tensors, and torch is not installed") from None

    def quiet(**_: Any) -> Any:
        return SimpleNamespace(update=lambda: None)

    names = load(
        rivals,
        file,
        {"PackedDataset"},
        {"torch": torch, "F": torch.nn.functional, "Dataset": torch.utils.data.Dataset,
         "Optional": Optional, "CROSS_ENTROPY_IGNORE_IDX": -100, "PACK_TYPE": dict, "tqdm": quiet,
         "__name__": "torchtune"},
    )  # fmt: skip

    def pack(lengths: np.ndarray, seq_len: int, _: np.ndarray) -> Pieces:
        short = np.minimum(lengths, seq_len)
        samples = [{"tokens": [d] * n, "labels": [d] * n} for d, n in enumerate(short.tolist())]
        packed = names["PackedDataset"](samples, max_seq_len=seq_len, padding_idx=-1)
        rows, documents, sizes = [], [], []
        for number, one in enumerate(packed.packs):
            at = 0
            for size in one["seq_lens"].tolist():
                document = int(one["tokens"][at])
                at += size
                if document >= 0:
                    rows.append(number)
                    documents.append(document)
                    sizes.append(size)
        return np.array(rows), np.array(documents), np.array(sizes)

    return pack


def datasculpt(rivals: Path | None) -> Packer:
    """DataSculpt's allocator, of one cluster; its windows may overflow, and it drops documents."""

    def remote(**_: Any) -> Callable[[Any], Any]:
        return lambda function: function

    names = load(
        rivals,
        "DataSculpt/src/MOCO_greedy/construct_datasculpt.py",
        {"write_with_retry", "handle_token_num", "all_bag_capacities_zero", "cosine_similarity",
         "compute_combined_score"},
        {"np": np, "ast": ast, "ujson": json, "time": time, "gc": gc,
         "ray": SimpleNamespace(remote=remote)},
    )  # fmt: skip

    def pack(lengths: np.ndarray, seq_len: int, vectors: np.ndarray) -> Pieces:
        with tempfile.TemporaryDirectory() as scratch:
            source, sink = Path(scratch, "in.jsonl"), Path(scratch, "out.jsonl")
            with source.open("w") as lines:
                for d, n in enumerate(lengths.tolist()):
                    vector = str(np.round(vectors[d].astype(float), 4).tolist())
                    record = {"id": d, "token_len": n, "vector_encoded": vector}
                    lines.write(json.dumps(record) + "\n")
            names["handle_token_num"]([str(source), str(sink), seq_len])
            bins = [[doc["id"] for doc in json.loads(line)["docs"]] for line in sink.open()]
        return of_bins(bins, lengths)

    return pack


def quest(texts: list[str]) -> Packer:
    """Documents grouped by shared keyword, joined and cut: after "Quest" (2405.19846), no model.

    A document's keyword is, of its words and Chinese character pairs that several documents have,
    the one of the most weight: 1 + log2 of its count times the log of its rarity. Documents follow
    keyword by keyword, the keywords and each one's documents in seeded order; Quest asks a model
    for queries, takes their keywords and draws short groups again, which is left out here.
    """
    find = re.compile(r"(?u)(?=([\u3400-\u9fff]{2}))|([^\W\u3400-\u9fff]+)").finditer
    counts = [Counter(m[1] or m[2] for m in find(text[:20_000].casefold())) for text in texts]
    common = Counter(word for count in counts for word in count)
    rarity = {w: math.log2(len(texts) / n) for w, n in common.items() if 5 <= n <= len(texts) // 20}
    numbers: dict[str, int] = {}
    keyword = np.empty(len(texts), np.int64)
    for d, count in enumerate(counts):
        weight = {w: (1 + math.log2(n)) * rarity[w] for w, n in count.items() if w in rarity}
        best = max(weight, key=lambda w: (weight[w], w), default="")
        keyword[d] = numbers.setdefault(best, len(numbers))

    def pack(lengths: np.ndarray, seq_len: int, _: np.ndarray) -> Pieces:
        mine = keyword[: len(lengths)]
        order = np.lexsort((mix64(np.arange(len(mine)), 5), mix64(mine, 4)))
        return joined(order, lengths, seq_len)

    return pack


def joined(order: np.ndarray, lengths: np.ndarray, seq_len: int) -> Pieces:
    """Documents in some order, joined and cut."""
    ends = np.cumsum(lengths[order])
    cuts = np.unique(np.concatenate([[0], ends, np.arange(0, ends[-1], seq_len)]))
    return cuts[:-1] // seq_len, order[np.searchsorted(ends, cuts[:-1], "right")], np.diff(cuts)


def nearest(vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k nearest others of each document, int64[n, k], and their cosines."""
    n = len(vectors)
    k = min(k, n - 1)
    index, cosine = np.empty((n, k), dtype=np.int64), np.empty((n, k), dtype=np.float32)
    for first in range(0, n, 1024):
        near = vectors[first : first + 1024] @ vectors.T
        near[np.arange(len(near)), np.arange(first, first + len(near))] = -2
        top = np.argpartition(-near, k - 1, axis=1)[:, :k]
        index[first : first + len(near)] = top
        cosine[first : first + len(near)] = np.take_along_axis(near, top, 1)
    return index, cosine


def iclm(lengths: np.ndarray, seq_len: int, vectors: np.ndarray) -> Pieces:
    """Greedy path over nearest neighbours, joined and cut ("In-Context Pretraining", 2310.10638).

    Algorithm 1 of the paper: begin at the document with the fewest links, go to the most similar
    neighbour that was not visited, begin anew where there is none. Ten neighbours, exact.
    """
    index, cosine = nearest(vectors, 10)
    links: list[list[tuple[float, int]]] = [[] for _ in lengths]
    for a, (others, near) in enumerate(zip(index.tolist(), cosine.tolist(), strict=True)):
        for b, c in zip(others, near, strict=True):
            links[a].append((c, b))
            links[b].append((c, a))
    path, seen = [], np.zeros(len(lengths), dtype=bool)
    for start in sorted(range(len(lengths)), key=lambda d: len(links[d])):
        at = -1 if seen[start] else start
        while at >= 0:
            seen[at] = True
            path.append(at)
            at = max(((c, b) for c, b in links[at] if not seen[b]), default=(0.0, -1))[1]
    return joined(np.array(path), lengths, seq_len)

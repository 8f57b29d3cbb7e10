"""Best-fit packing: rows over the bound, padding and documents per CPU second, beside rivals.

    python benchmarks/best_fit.py [--seq-len 32768] [--documents 1000000 10000000] [--trl WHEEL]

Lengths are log-normal, clipped to [16, 524288]: *web* (median 480, sigma 1.25: the published bucket
counts of DCLM-Baseline), *code* (700, 1.5: GitHub in the Pile), *book* (110,000, 0.6). No token is
lost: documents longer than a row are cut into full rows and one remainder. The rival written here
is best-fit decreasing over a segment tree as "Fewer Truncations Improve Language Modeling"
(arXiv:2404.10830) describes it, one document at a time in Python. ``--trl`` names a wheel of TRL
(``pip download --no-deps trl``): its ``_pack_bfd`` is then run from its own source, over a column
of one byte a token, in one window; its rate includes moving these bytes.

``bound`` is tokens over the window; ``fewest`` the bound of Martello and Toth, below which no
packing goes that cuts only long documents.

TRL needs pandas beside it, and moves the tokens, so it sits out above 2^30 of them.
"""

import argparse
import ast
import time
import zipfile
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packing.fit import PackSettings, fit_rows
from packing.lengths import fewest_rows
from transforms.record import mix64

LAWS = {"web": (480, 1.25, 0), "code": (700, 1.5, 2), "book": (110_000, 0.6, 5)}


def draw(law: str, n: int) -> np.ndarray:
    """Document lengths of one law, int32[n]."""
    median, sigma, seed = LAWS[law]
    normal = np.random.default_rng(seed).standard_normal(n)
    return np.clip(median * np.exp(sigma * normal), 16, 524_288).astype(np.int32)


def drystone(strategy: Literal["best_fit", "online"]) -> Callable[[np.ndarray, int], int]:
    """Our packer: rows of the lengths."""

    def pack(lengths: np.ndarray, seq_len: int) -> int:
        order = mix64(np.arange(len(lengths)), 1)
        return fit_rows(lengths, order, PackSettings(seq_len=seq_len, strategy=strategy)).rows

    return pack


def segment_tree_bfd(lengths: np.ndarray, seq_len: int) -> int:
    """Best-fit decreasing with a segment tree over rooms, document by document."""
    leaves = 1 << seq_len.bit_length()
    tree = [0] * (2 * leaves)

    def mark(room: int, value: int) -> None:
        at = leaves + room
        tree[at] = value
        while at > 1:
            at >>= 1
            tree[at] = max(tree[2 * at], tree[2 * at + 1])

    mark(seq_len, seq_len)
    rows_with: dict[int, deque[int]] = defaultdict(deque)
    full = int((lengths // seq_len).sum(dtype=np.int64))
    rows: list[list[int]] = []
    rest = lengths % seq_len
    taken = np.argsort(-rest, kind="stable")[: np.count_nonzero(rest)]
    for document, n in zip(taken.tolist(), rest[taken].tolist(), strict=True):
        at = 1
        while at < leaves:
            at = 2 * at if tree[2 * at] >= n else 2 * at + 1
        room = tree[at]
        if room == seq_len and not rows_with[room]:
            row = len(rows)
            rows.append([])
        else:
            row = rows_with[room].popleft()
            if not rows_with[room]:
                mark(room, 0)
        rows[row].append(document)
        if room > n:
            if not rows_with[room - n]:
                mark(room - n, room - n)
            rows_with[room - n].append(row)
    return full + len(rows)


def trl_bfd(wheel: Path) -> Callable[[np.ndarray, int], int]:
    """TRL's packer, its functions loaded unchanged from the wheel."""
    source = zipfile.ZipFile(wheel).read("trl/data_utils.py").decode()
    wanted = {"_check_if_columns_can_be_packed", "_SegmentTree", "_pack_bfd"}
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if getattr(node, "name", "") in wanted]
    names: dict[str, Any] = {
        "np": np, "pa": pa, "pc": pc, "pyarrow": pa, "Literal": Literal,
        "defaultdict": defaultdict, "deque": deque,
    }  # fmt: skip
    exec(compile(tree, str(wheel), "exec"), names)

    def pack(lengths: np.ndarray, seq_len: int) -> int:
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        tokens = np.zeros(int(offsets[-1]), dtype=np.int8)
        table = pa.table({"input_ids": pa.LargeListArray.from_arrays(offsets, tokens)})
        return int(names["_pack_bfd"](table, seq_len, "split").num_rows)

    return pack


def measure(
    name: str, pack: Callable[[np.ndarray, int], int], law: str, n: int, seq_len: int
) -> None:
    """Run one packer three times and print one line, with the best time."""
    lengths = draw(law, n)
    tokens = int(lengths.sum(dtype=np.int64))
    if name.startswith("TRL") and tokens > 1 << 30:
        print(f"{law:5} {n:>10,}  {name:26} sits out: {tokens:,} tokens to move", flush=True)
        return
    bound = -(-tokens // seq_len)
    fewest = max(bound, fewest_rows(lengths, seq_len))
    seconds = float("inf")
    for _ in range(3):
        start = time.process_time()
        rows = pack(lengths, seq_len)
        seconds = min(seconds, time.process_time() - start)
    print(
        f"{law:5} {n:>10,}  {name:26} {rows:>10,} {rows - bound:>+7} {(rows - bound) / bound:9.5%} "
        f"{fewest - bound:>+7} {1 - tokens / (rows * seq_len):9.5%} {n / seconds / 1e6:8.3f}",
        flush=True,
    )


def main() -> None:
    """Print a line for each law, number of documents and packer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seq-len", type=int, default=32768)
    parser.add_argument("--documents", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--rival-documents", type=int, default=100_000, help="of the Python rivals")
    parser.add_argument("--trl", type=Path, help="a wheel of TRL to run beside")
    args = parser.parse_args()
    ours = {f"drystone {s}": drystone(s) for s in ("best_fit", "online")}
    rivals = {"segment tree (2404.10830)": segment_tree_bfd}
    if args.trl:
        rivals[f"TRL {args.trl.name.split('-')[1]} bfd split"] = trl_bfd(args.trl)
    for pack in ours.values():
        pack(draw("book", 100), args.seq_len)  # load the kernels
    print(f"window {args.seq_len}; docs/s by CPU time of one core, best of 3")
    print(
        "law    documents  packer                           rows   above  of bound  fewest   padding "
        "Mdocs/s"
    )
    for law in LAWS:
        for n in sorted({args.rival_documents, *args.documents}):
            packers = {**ours, **rivals} if n == args.rival_documents else ours
            for name, pack in packers.items():
                measure(name, pack, law, n, args.seq_len)


if __name__ == "__main__":
    main()

"""Reading packed rows: tokens per CPU second and bytes per token, beside rivals in the same run.

    python benchmarks/reader.py [--dataset FOLDER] [--tokens 134217728] [--seq-len 32768]

Rows are generated (ids Zipf-distributed over 32,000, documents log-normal with median 480 and sigma
1.25) unless ``--dataset`` names a packed dataset; its rows are then what the rivals store too. The
page cache is warm; every reader hands out one row after the other and touches every token.

* ``memmap``: the ids as one flat file of int32, each row copied out of the map: no pieces, no
  checksums, 4 bytes a token. What the machine can do.
* ``pyarrow defaults``: the same columns written by ``pyarrow.parquet.write_table`` as it comes
  (dictionary, snappy), read batch by batch.
* ``ours``: ``PackedReader``, checksums verified; with the targets: labels and positions of every
  token computed as well.

``cold`` is tokens per second of wall time with the files dropped from the page cache beforehand, the
best of three rounds in which the readers take turns. Where the disk serves from a cache of its own,
it says what that cache gives.
"""

import argparse
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from packing.export.dataset import open_dataset
from packing.format import DatasetInfo, stream_sha256
from packing.layout import group_bounds
from packing.reader import PackedReader
from packing.rows import RowGroup
from packing.writer import RowFileWriter, rows_table, write_plan

VOCABULARY = 32_000


def generate(folder: Path, tokens: int, seq_len: int) -> Path:
    """Write a dataset of full rows, and return its folder."""
    rng = np.random.default_rng(0)
    rows = tokens // seq_len
    number = np.arange(rows)
    info = DatasetInfo(
        fingerprint="0" * 64,
        seq_len=seq_len,
        strategy="best_fit",
        vocab_size=VOCABULARY,
        eos_id=2,
        domains=("web",),
    )
    bounds = group_bounds(
        (number // 4).astype(np.int32), (number % 4).astype(np.int32), np.full(rows, seq_len)
    )
    with RowFileWriter(folder / "rows-00000.parquet", info) as writer:
        for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            writer.write(random_rows(rng, first, last, seq_len))
    table = pa.table(
        {
            "row_id": number,
            "step": number // 4,
            "slot": number % 4,
            "rank": number * 0,
            "cp": np.ones(rows, int),
            "cost": np.ones(rows),
        }
    )
    write_plan(folder / "plan.parquet", table, info, dp=1, micro_batch=1, slots_per_step=4)
    entries = [
        {"name": p.name, "rows": rows, "bytes": p.stat().st_size, "sha256": stream_sha256(str(p))}
        for p in sorted(folder.glob("*.parquet"))
    ]
    manifest = {
        "stage": "balance",
        "fingerprint": info.fingerprint,
        "parents": {},
        "files": entries,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def random_rows(rng: np.random.Generator, first: int, last: int, seq_len: int) -> RowGroup:
    """Return full rows of random documents."""
    lengths, per_row = [], []
    for _ in range(first, last):
        drawn = (
            np.exp(np.log(480) + 1.25 * rng.standard_normal(seq_len // 64)).astype(np.int64) + 16
        )
        ends = np.minimum(np.cumsum(drawn), seq_len)
        part = np.diff(np.r_[0, ends[: int(np.argmax(ends == seq_len)) + 1]])
        part[-1] += seq_len - part.sum()
        lengths.append(part.astype(np.int32))
        per_row.append(len(part))
    length = np.concatenate(lengths)
    zeros = np.zeros(len(length), np.int16)
    return RowGroup(
        row_id=np.arange(first, last),
        pieces_per_row=np.array(per_row, np.int32),
        doc_uid=rng.integers(0, 1 << 62, len(length)),
        doc_copy=zeros,
        doc_offset=zeros.astype(np.int32),
        length=length,
        next_token=np.full(len(length), -1, np.int32),
        domain=zeros,
        input_ids=(rng.zipf(1.2, (last - first) * seq_len) % VOCABULARY).astype(np.int32),
    )


def rivals(dataset: Path, folder: Path) -> tuple[Path, Path, list[int]]:
    """Store the dataset's rows as a flat file and as pyarrow's default Parquet."""
    flat, table = folder / "flat.bin", folder / "defaults.parquet"
    bounds = [0]
    parts = []
    with flat.open("wb") as sink:
        for group in open_dataset(dataset).read():
            group.input_ids.tofile(sink)
            bounds += (bounds[-1] + group.row_offsets[1:]).tolist()
            parts.append(rows_table(group))
    pq.write_table(pa.concat_tables(parts), table)
    return flat, table, bounds


def memmap(flat: Path, bounds: list[int]) -> Iterator[np.ndarray]:
    """Give the rows of the flat file, copied out of the map."""
    tokens = np.memmap(flat, np.int32, "r")
    for a, b in itertools.pairwise(bounds):
        yield np.array(tokens[a:b])


def defaults(table: Path) -> Iterator[np.ndarray]:
    """Give the rows of the default Parquet file."""
    for batch in pq.ParquetFile(table).iter_batches(batch_size=64):
        ids = batch["input_ids"]
        values, offsets = ids.values.to_numpy(), ids.offsets.to_numpy()
        for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            yield values[a:b]


def ours(dataset: Path, targets: bool) -> Iterator[np.ndarray]:
    """Give the rows as the reader does, by step and slot."""
    with PackedReader(dataset) as reader:
        for step in reader.steps():
            for batch in step.micro_batches:
                if targets:
                    _ = batch.labels, batch.position_ids
                yield batch.input_ids


def measure(read: Callable[[], Iterator[np.ndarray]], rounds: int = 4) -> tuple[float, int, int]:
    """Return (tokens per CPU second of the best round, tokens, sum of all ids)."""
    best = 0.0
    for _ in range(rounds):
        began, tokens, total = time.process_time(), 0, 0
        for ids in read():
            tokens += len(ids)
            total += int(ids.sum(dtype=np.int64))
        best = max(best, tokens / (time.process_time() - began))
    return best, tokens, total


def forget(files: list[Path]) -> None:
    """Drop files from the page cache."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def measure_cold(
    contestants: dict[str, tuple[Callable[[], Iterator[np.ndarray]], list[Path]]], rounds: int = 3
) -> dict[str, float]:
    """Return the tokens per second of wall time of each reader's best round."""
    best = dict.fromkeys(contestants, 0.0)
    for _ in range(rounds):
        for name, (read, files) in contestants.items():
            forget(files)
            began, tokens = time.perf_counter(), 0
            for ids in read():
                tokens += len(ids)
                ids.sum(dtype=np.int64)
            best[name] = max(best[name], tokens / (time.perf_counter() - began))
    return best


def main() -> None:
    """Measure all readers on the same rows and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", type=Path, help="a packed dataset (default: generated rows)")
    parser.add_argument("--tokens", type=int, default=1 << 27)
    parser.add_argument("--seq-len", type=int, default=32768)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        dataset = options.dataset
        if dataset is None:
            (folder / "dataset").mkdir()
            dataset = generate(folder / "dataset", options.tokens, options.seq_len)
        flat, table, bounds = rivals(dataset, folder)
        shards = sum(p.stat().st_size for p in dataset.glob("rows-*.parquet"))
        contestants = {
            "memmap": (lambda: memmap(flat, bounds), flat.stat().st_size),
            "pyarrow defaults": (lambda: defaults(table), table.stat().st_size),
            "ours": (lambda: ours(dataset, False), shards),
            "ours with targets": (lambda: ours(dataset, True), shards),
        }
        print(f"{'reader':<20}{'M tokens / CPU s':>18}{'bytes / token':>16}")
        sums = set()
        for name, (read, size) in contestants.items():
            rate, tokens, total = measure(read)
            sums.add((tokens, total))
            print(f"{name:<20}{rate / 1e6:>18.0f}{size / tokens:>16.2f}")
        print(f"{tokens:,} tokens in {len(bounds) - 1:,} rows; same ids read: {len(sums) == 1}")
        files = sorted(dataset.glob("*.parquet"))
        cold = measure_cold(
            {
                "memmap": (lambda: memmap(flat, bounds), [flat]),
                "ours": (lambda: ours(dataset, False), files),
            }
        )
        print("cold, M tokens / s: " + ", ".join(f"{n} {r / 1e6:.0f}" for n, r in cold.items()))
        print(f"ours / memmap, cold: {cold['ours'] / cold['memmap']:.2f}")


if __name__ == "__main__":
    main()

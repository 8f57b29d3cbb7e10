#!/usr/bin/env python3
"""Utility weights: what they draw for a target, and what an n-gram model learns from it.

The target is a part of one corpus, whose rest stays in the pool with all others; another part is
held out. Samples of the same number of word tokens are drawn from the pool, each document once at
most: without weights, with those of ``[mixture.utility]`` as they are by default and with wide
bounds, by similarity alone, and by importance resampling (DSIR, arXiv:2302.03169: hashed tokens and
pairs, Gumbel top-k). A trigram model is trained on each, and judged on the held-out part. Documents
of more than a fiftieth of the tokens to draw are left out of all samples, since one of them would
decide what a sample is.
"""

import argparse
import gzip
import io
import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from pipelines.recipe import from_dict
from pipelines.run import run
from transforms.draw import draw, uniform
from transforms.proxy import count, loss, target_of
from transforms.record import mix64
from transforms.shingles import token_hashes
from transforms.utility import UtilitySettings, weights

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "corpus"


def main() -> None:
    """Score a pool, draw from it in several ways, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=DATA, help="folder of folders")
    parser.add_argument("--target", default="en-rust-rfcs", help="folder that the target is from")
    parser.add_argument("--only", nargs="*", help="names of folders of the pool")
    parser.add_argument("--tokens", type=int, default=2_000_000, help="word tokens to draw")
    parser.add_argument("--candidates", type=int, default=4096)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    folders = sorted(path for path in arguments.corpus.iterdir() if path.is_dir())
    folders = [path for path in folders if not arguments.only or path.name in arguments.only]
    with tempfile.TemporaryDirectory() as scratch:
        target, held_out, rest = three_parts(arguments.corpus / arguments.target, Path(scratch))
        sources = [
            {"name": f.name, "path": str(rest if f.name == arguments.target else f / "*.jsonl*")}
            for f in folders
        ]
        settings = {"target": [str(target)], "candidates": arguments.candidates}
        recipe = from_dict(
            {
                "name": "utility",
                "seed": 1,
                "workdir": f"{scratch}/w",
                "sources": [{**source, "domain": "pool"} for source in sources],
                "dedupe": {"exact": {}},
                "mixture": {"tokens": 1, "temperature": 1.0, "utility": settings},
                "runner": {"workers": arguments.workers},
            }
        )
        done = run(recipe, until="utility")
        report(Path(scratch) / "w", done.stages, held_out, arguments.tokens)


def three_parts(folder: Path, scratch: Path) -> tuple[Path, Path, Path]:
    """Split a corpus by a hash of its ids: target and held-out part (a fifth each), the rest."""
    names = ("target", "held-out", "rest")
    parts: dict[str, list[str]] = {name: [] for name in names}
    for line in lines_of(folder):
        letters = np.frombuffer(json.loads(line)["id"].encode(), np.uint8).astype(np.int64)
        fifth = int(mix64(np.array([int(letters @ (31 + np.arange(len(letters))))]), 5)[0] % 5)
        parts[names[min(fifth, 2)]].append(line)
    for name, lines in parts.items():
        (scratch / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        print(f"{folder.name}: {name} {len(lines):,} documents")
    target, held_out, rest = (scratch / f"{name}.jsonl" for name in names)
    return target, held_out, rest


def lines_of(folder: Path) -> Iterator[str]:
    """Yield the lines of a folder's files."""
    for path in sorted(folder.glob("*.jsonl*")):
        with path.open("rb") as raw:
            stream: Any = raw
            if path.suffix == ".zst":
                stream = zstandard.ZstdDecompressor(max_window_size=1 << 26).stream_reader(raw)
            elif path.suffix == ".gz":
                stream = gzip.GzipFile(fileobj=raw)
            yield from io.TextIOWrapper(stream, encoding="utf-8", newline="\n")


def report(workdir: Path, stages: list[dict[str, Any]], held_out: Path, tokens: int) -> None:
    """Print what the stage cost, how well its student ranks, and what each sample is worth."""
    [folder] = workdir.glob("artifacts/utility-*")
    manifest = json.loads((folder / "manifest.json").read_text())
    [ingest] = workdir.glob("artifacts/ingest-*")
    size = json.loads((ingest / "manifest.json").read_text())["counters"]["bytes"]
    [cost] = [stage for stage in stages if stage["stage"] == "utility"]
    scoring = sum(
        json.loads(path.read_text())["cpu_s"] for path in (folder / "receipts").glob("*.json")
    )
    print(
        f"pool {size / 1e6:,.0f} MB; utility {cost['cpu_s']:.1f} CPU s in all, scoring "
        f"{scoring / size * 1e9:.1f} CPU s per GB"
    )
    for name in ("student", "similarity"):
        judged = manifest["config"][name]
        print(
            f"{name} on {judged['documents']:,} held-out candidates: Spearman "
            f"{judged['spearman']:.3f}, top tenth {judged['lift']:.2f} times chance"
        )
    pool = pq.read_table(sorted(folder.glob("weights-*.parquet")))
    files = sorted(p for p in ingest.glob("*.parquet") if not p.name.startswith(("rej", "ids")))
    texts = pq.read_table(files, columns=["doc_uid", "source", "text"])
    pool = pool.join(texts.select(["doc_uid", "source"]), "doc_uid").sort_by("doc_uid")
    judge = Judge(held_out, texts)
    names = sorted(set(pool["source"].to_pylist()))
    print(f"{'sample':<22}{'bits':>8}{'docs':>8}  shares of tokens in %: {' '.join(names)}")
    for name, drawn in samples(pool, tokens).items():
        chosen = pool.filter(pa.array(drawn))
        source, words = chosen["source"].to_numpy(), chosen["words"].to_numpy()
        total = max(1, words.sum())
        shares = [f"{100 * words[source == n].sum() / total:.1f}" for n in names]
        bits = judge.bits(chosen["doc_uid"])
        print(f"{name:<22}{bits:>8.4f}{len(chosen):>8,}  {' '.join(shares)}  of {total:,}")


def samples(pool: pa.Table, tokens: int) -> dict[str, np.ndarray]:
    """Return which documents each way of drawing takes."""
    uid, words = pool["doc_uid"].to_numpy(), pool["words"].to_numpy()
    utility, similarity = (
        np.nan_to_num(pool[name].to_numpy(), nan=-100.0) for name in ("utility", "similarity")
    )
    default = UtilitySettings(target=("-",))
    wide = replace(default, min_weight=0.0, max_weight=1000.0, sharpness=32.0)
    by = {
        "no weights": np.ones(len(uid)),
        "utility, default": weights(utility, similarity, words, default),
        "utility, wide": weights(utility, similarity, words, wide),
        "utility alone, wide": weights(utility, utility, words, wide),
        "similarity alone, wide": weights(similarity, similarity, words, wide),
    }
    live = (words > 0) & (words <= tokens // 50)
    found = {}
    for name, weight in by.items():
        drawn = np.zeros(len(uid), bool)
        drawn[live] = (
            draw(
                words[live].astype(np.int32),
                uid[live],
                weight[live].astype(np.float64),
                tokens,
                max_epochs=1,
                seed=3,
            )
            > 0
        )
        found[name] = drawn
    words = np.where(live, words, 0)
    gumbel = -np.log(-np.log(uniform(uid, 4)))
    found["DSIR"] = first(gumbel + similarity * np.maximum(2 * words - 1, 0), words, tokens)
    found["best by similarity"] = first(similarity, words, tokens)
    found["best by utility"] = first(utility, words, tokens)
    return found


def first(key: np.ndarray, words: np.ndarray, tokens: int) -> np.ndarray:
    """Return the documents of the highest keys, up to so many tokens; those that fit."""
    taken = np.zeros(len(key), bool)
    left = tokens
    for place in np.argsort(-key, kind="stable").tolist():
        if 0 < words[place] <= left:
            taken[place] = True
            left -= int(words[place])
    return taken


class Judge:
    """A trigram model on trial: trained on a sample, judged on the held-out part."""

    def __init__(self, held_out: Path, texts: pa.Table) -> None:
        lines = held_out.read_text(encoding="utf-8").splitlines()
        self._target = target_of(*token_hashes(pa.array([json.loads(x)["text"] for x in lines])))
        self._texts = texts

    def bits(self, uid: pa.ChunkedArray) -> float:
        """Return bits per word token of the held-out part."""
        rows = self._texts.filter(pa.compute.is_in(self._texts["doc_uid"], uid))["text"]
        counts, total = np.zeros(len(self._target.keys), np.int64), 0
        for chunk in rows.chunks:
            more, seen = count(self._target, *token_hashes(chunk))
            counts, total = counts + more, total + seen
        return loss(self._target, counts, total) / self._target.tokens


if __name__ == "__main__":
    main()

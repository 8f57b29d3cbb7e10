"""Packing beside seven others, on the same lengths and vectors: fill, cuts, relevance, speed.

    python benchmarks/packing.py --rivals DIR [--documents 20000] [--seq-len 8192]

Documents are a seeded sample of ``--corpus`` (folders of JSON lines, as the developer data has them),
their vectors our default embedding, a token for every four bytes; without a corpus, planted topics:
vectors around seeded centres, log-normal lengths. Rivals' functions come unchanged from their own
sources in ``--rivals`` (see rival_source.py); what is not there sits out.

Rivals that need minutes for thousands of documents run on the first ``--slow-documents``, and
DataSculpt's allocator, which packs one cluster, on the documents nearest to the first that fill
``--cluster-windows``; ours runs on each of these sets too.

* ``padding``: slots not filled, of rows of exactly the window. ``kept``: tokens that are in a row.
* ``cut``: documents in several pieces; ``needless``: those of them that fit a row. ``over``: rows of
  more than the window.
* ``cosine``: mean over documents, in rows of two and more, of the mean cosine to the row's others.
* ``purity``: share of the tokens of rows of several pieces that are of their row's commonest source.
* ``CV``: deviation over mean of documents per row.
* ``docs/s``: by CPU time of one process.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import rival_packing
from embed import DATA, drystone, read_corpus
from length_laws import draw
from rival_packing import Packer, Pieces
from rival_source import AbsentError

from packing.fit import PackSettings, fit_rows
from transforms.embed import EmbedSettings
from transforms.record import mix64

COLUMNS = ("padding", "kept", "cut", "needless", "over", "cosine", "purity", "CV", "docs/s")


Sample = tuple[np.ndarray, np.ndarray, np.ndarray, list[str] | None]
"""Lengths, vectors, sources (or planted topics) and texts."""


def corpus(folder: Path, n: int) -> Sample:
    """Return a sample of the corpus, without repeated texts."""
    source_of = dict(zip(*read_corpus(folder, None), strict=True))
    texts = sorted(source_of)
    chosen = np.sort(np.argsort(mix64(np.arange(len(texts)), 3), kind="stable")[:n])
    sample = [texts[k] for k in np.random.default_rng(1).permutation(chosen)]
    lengths = np.array([-(-len(t.encode()) // 4) for t in sample])
    vectors = np.asarray(drystone(sample, EmbedSettings())[0](sample))
    sources = np.unique([source_of[text] for text in sample], return_inverse=True)[1]
    return lengths, vectors.astype(np.float32), sources, sample


def planted(n: int) -> Sample:
    """Return documents on n / 50 topics."""
    rng = np.random.default_rng(2)
    centres = rng.standard_normal((max(2, n // 50), 256))
    topics = rng.integers(0, len(centres), n)
    vectors = centres[topics] + 1.5 * rng.standard_normal((n, 256))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return draw("web", n).astype(np.int64), vectors.astype(np.float32), topics, None


def ours(strategy: str) -> Packer:
    """One of our strategies."""

    def pack(lengths: np.ndarray, seq_len: int, vectors: np.ndarray) -> Pieces:
        tokens, order = lengths.astype(np.int32), mix64(np.arange(len(lengths)), 1)
        settings = PackSettings(seq_len=seq_len, strategy=strategy)  # type: ignore[arg-type]
        if strategy == "sculpt":
            from packing.sculpt import sculpt_rows

            pieces = sculpt_rows(tokens, order, vectors.astype(np.float16), settings)
        else:
            pieces = fit_rows(tokens, order, settings)
        return pieces.row, pieces.document, pieces.length.astype(np.int64)

    return pack


def figures(
    pieces: Pieces, lengths: np.ndarray, seq_len: int, vectors: np.ndarray, sources: np.ndarray
) -> dict[str, Any]:
    """Return what a packing is worth; see above."""
    row, document, length = pieces
    rows = int(row.max()) + 1
    tokens = np.bincount(row, length, rows)
    several = np.bincount(document, minlength=len(lengths)) > 1
    # Documents of a row, each once.
    once = np.unique(row * len(lengths) + document)
    at, member = once // len(lengths), once % len(lengths)
    count = np.bincount(at, minlength=rows)
    shared = np.bincount(row, minlength=rows)[row] > 1
    kinds = int(sources.max()) + 1
    key, held = np.unique((row * kinds + sources[document])[shared], return_inverse=True)
    held = np.bincount(held, length[shared])
    most = np.zeros(rows)
    np.maximum.at(most, key // kinds, held)
    own = np.einsum("ij,ij->i", vectors, vectors)[member]
    bounds = np.concatenate([[0], np.cumsum(count)])
    total = 0.0
    for r in np.flatnonzero(count > 1).tolist():
        mine = slice(bounds[r], bounds[r + 1])
        whole = vectors[member[mine]].sum(axis=0, dtype=np.float64)
        total += (float(whole @ whole) - float(own[mine].sum())) / (count[r] - 1)
    return {
        "rows": rows,
        "padding": 1 - float(np.minimum(tokens, seq_len).sum()) / (rows * seq_len),
        "kept": float(length.sum() / lengths.sum()),
        "cut": int(several.sum()),
        "needless": int((several & (lengths <= seq_len)).sum()),
        "over": int((tokens > seq_len).sum()),
        "cosine": total / max(1, int(count[count > 1].sum())),
        "purity": float(most.sum() / max(1, held.sum())),
        "CV": float(count.std() / count.mean()),
    }


def all_packers(rivals: Path | None, texts: list[str] | None) -> dict[str, dict[str, Packer | str]]:
    """Return packers by the set of documents they run on; a message for one that sits out."""

    def found(make: Callable[[], Packer]) -> Packer | str:
        try:
            return make()
        except AbsentError as absent:
            return str(absent)

    mine: dict[str, Packer | str] = {"drystone best_fit": ours("best_fit")}
    try:
        import packing.sculpt  # noqa: F401

        mine["drystone sculpt"] = ours("sculpt")
    except ImportError:
        mine["drystone sculpt"] = "this version has no sculpt"
    r = rival_packing
    return {
        "all": {
            **mine,
            f"TRL bfd_split, {r.TRL_WINDOW} at a time": found(lambda: r.trl(rivals, r.TRL_WINDOW)),
            "TRL bfd_split, all at once": found(lambda: r.trl(rivals, None)),
            "Axolotl multipack": found(lambda: r.axolotl(rivals)),
            "OLMo-core OBFD": found(lambda: r.olmo(rivals)),
            "ICLM path": r.iclm,
            "Quest-like keywords": r.quest(texts) if texts else "planted topics have no texts",
        },
        "slow": {
            **mine,
            "NeMo first-fit decreasing": found(lambda: r.nemo(rivals)),
            "torchtune PackedDataset": found(lambda: r.torchtune(rivals)),
        },
        "cluster": {**mine, "DataSculpt": found(lambda: r.datasculpt(rivals)), "ICLM path": r.iclm},
    }


def markdown(found: dict[str, Any]) -> str:
    """Return the figures as tables."""
    lines = [
        "# Packing beside others",
        "",
        f"`python benchmarks/packing.py`, documents of {found['documents']}. Columns are explained "
        "there.",
    ]
    for group in found["sets"]:
        lines += [
            "",
            f"## {group['documents']:,} documents, {group['tokens']:,} tokens, windows of "
            f"{group['seq_len']:,}",
            "",
            "| packer | rows | " + " | ".join(COLUMNS) + " |",
            "|---|" + "---|" * (len(COLUMNS) + 1),
        ]
        for name, figure in group["packers"].items():
            if isinstance(figure, str):
                lines.append(f"| {name} | sits out: {figure} |" + " |" * len(COLUMNS))
            else:
                cells = " | ".join(shown(c, figure[c]) for c in COLUMNS)
                lines.append(f"| {name} | {figure['rows']:,} | {cells} |")
    return "\n".join(lines) + "\n"


def shown(column: str, value: float) -> str:
    """Return one figure for people."""
    if column in ("padding", "kept"):
        return f"{value:.3%}"
    return f"{value:.3f}" if column in ("cosine", "purity", "CV") else f"{value:,.0f}"


def main() -> None:
    """Run all packers, print a table and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rivals", type=Path, help="folder of fetched repositories")
    parser.add_argument("--corpus", type=Path, default=DATA / "corpus")
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--slow-documents", type=int, default=2000)
    parser.add_argument("--cluster-windows", type=float, default=8.5)
    parser.add_argument("--seq-len", type=int, nargs="+", default=[8192])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    real = args.corpus.is_dir()
    sample = corpus(args.corpus, args.documents) if real else planted(args.documents)
    lengths, vectors, sources, texts = sample
    packers = all_packers(args.rivals, texts)
    near = np.argsort(-(vectors @ vectors[0]), kind="stable")
    everything = np.arange(len(lengths))
    chosen = {"all": everything, "slow": everything[: args.slow_documents]}
    found: dict[str, Any] = {
        "documents": "the developer corpus" if real else "planted topics",
        "sets": [],
    }
    for packer in (ours("best_fit"), packers["all"]["drystone sculpt"]):
        if not isinstance(packer, str):  # load the kernels
            packer(lengths[:500], min(args.seq_len), vectors[:500])
    for seq_len in args.seq_len:
        few = int(np.searchsorted(np.cumsum(lengths[near]), args.cluster_windows * seq_len)) + 1
        chosen["cluster"] = np.sort(near[:few])
        for name, of_set in packers.items():
            n, v = lengths[chosen[name]], vectors[chosen[name]]
            kinds = sources[chosen[name]]
            group: dict[str, Any] = {
                "documents": len(n), "tokens": int(n.sum()), "seq_len": seq_len, "packers": {},
            }  # fmt: skip
            found["sets"].append(group)
            print(f"\n{len(n):,} documents, {n.sum():,} tokens, windows of {seq_len:,}")
            print(f"{'':34}{'rows':>8}" + "".join(f"{c:>10}" for c in COLUMNS))
            for title, packer in of_set.items():
                if isinstance(packer, str):
                    group["packers"][title] = packer
                    print(f"{title:34}  sits out: {packer}", flush=True)
                    continue
                try:
                    if name == "all":  # load modules and kernels
                        packer(n[:20], seq_len, v[:20])
                    began = time.process_time()
                    pieces = packer(n, seq_len, v)
                except ImportError as absent:
                    group["packers"][title] = str(absent)
                    print(f"{title:34}  sits out: {absent}", flush=True)
                    continue
                spent = time.process_time() - began
                figure = figures(pieces, n, seq_len, v, kinds) | {
                    "docs/s": len(n) / max(spent, 1e-9)
                }
                group["packers"][title] = figure
                cells = "".join(f"{shown(c, figure[c]):>10}" for c in COLUMNS)
                print(f"{title:34}{figure['rows']:>8,}{cells}", flush=True)
    args.out.mkdir(exist_ok=True)
    (args.out / "packing.json").write_text(json.dumps(found, indent=1) + "\n")
    (args.out / "packing.md").write_text(markdown(found))


if __name__ == "__main__":
    main()

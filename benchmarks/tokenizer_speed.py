"""Tokenizing: MB per CPU second beside sp.encode, tokenizers and tiktoken, in one run.

    python benchmarks/tokenize.py [--families llama3 gpt2 o200k qwen cl100k] [--rival-mb 8]
                                  [--all-documents] [--vocab-size 32000]

The text is ../shared/data/corpus where that is, else the sources of Python's standard library. The
vocabularies are trained here, on one sample: sentencepiece BPE, and a byte-level BPE for each
family, which tokenizers reads as ``tokenizer.json`` and tiktoken as a file of ranks. Ours runs from
an Arrow column to arrays of ids, first with an empty cache, then once more. A library encodes about
``--rival-mb`` of each part (or every document), in one thread, and its ids are compared with ours.
"""

import argparse
import base64
import gzip
import json
import os
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import zstandard

from transforms.tokenize.encoder import Encoded, Encoder, load_encoder
from transforms.tokenize.hf_byte_level import read_byte_level
from transforms.tokenize.patterns import GPT2_ORIGINAL, PATTERNS
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.train import sample_chunks, train_sentencepiece

CORPUS = Path(__file__).parent.parent.parent / "shared" / "data" / "corpus"
PARTS = {"English": "en-*", "Chinese": "zh-*", "mixed": "mul-*", "German": "de-*"}
Library = Callable[[pa.Array], Encoded]


@dataclass(frozen=True)
class Part:
    """A part of the text, and the documents of it that the libraries encode, too."""

    name: str
    text: pa.Array
    rival_rows: np.ndarray

    @property
    def megabytes(self) -> float:
        """Size of the part's text."""
        return int(self.text.buffers()[2].size) / 1e6


def read_parts(rival_mb: float, all_documents: bool) -> list[Part]:
    """Read the text."""
    documents: dict[str, list[str]] = {}
    if CORPUS.is_dir():
        for name, pattern in PARTS.items():
            files = sorted(file for source in CORPUS.glob(pattern) for file in source.iterdir())
            documents[name] = [json.loads(line)["text"] for file in files for line in lines(file)]
    else:
        folder = Path(sysconfig.get_path("stdlib"))
        files = sorted(file for file in folder.rglob("*.py") if "site-packages" not in file.parts)
        documents["Python"] = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    parts = []
    for name, texts in documents.items():
        order = np.random.default_rng(1).permutation(len(texts))
        ends = np.cumsum([len(texts[i].encode()) for i in order])
        rows = 1 + int(np.searchsorted(ends, rival_mb * 1e6))
        chosen = np.arange(len(texts)) if all_documents else np.sort(order[:rows])
        parts.append(Part(name, pa.array(texts, pa.large_string()), chosen))
    return parts


def lines(file: Path) -> list[bytes]:
    """Read the lines of a compressed file."""
    if file.suffix == ".gz":
        return gzip.decompress(file.read_bytes()).splitlines()
    with file.open("rb") as stream:
        return zstandard.ZstdDecompressor().stream_reader(stream).read().splitlines()


def timed(encode: Library, text: pa.Array) -> tuple[Encoded, float]:
    """Encode, and count the CPU seconds of the process."""
    start = time.process_time()
    encoded = encode(text)
    return encoded, time.process_time() - start


def compare(load: Callable[[], Encoder], parts: list[Part], library: str, rival: Library) -> None:
    """Print our rates and a library's for each part."""
    starts = []
    for _ in range(2):
        start = time.process_time()
        encoder = load()
        starts.append(time.process_time() - start)
    print(f"  {encoder.path}; loaded in {starts[0]:.1f} CPU s, then in {starts[1]:.2f}")
    for part in parts:
        encoder = load()
        found, cold = timed(encoder.encode, part.text)
        _, warm = timed(encoder.encode, part.text)
        some = part.text.take(pa.array(part.rival_rows))
        expected, spent = timed(rival, some)
        rate = some.buffers()[2].size / 1e6 / spent
        differ = differing(found, part.rival_rows, expected)
        size = part.megabytes
        counters = getattr(encoder, "counters", {})
        lookups = counters.get("cache_hits", 0) + counters.get("cache_misses", 0)
        print(
            f"  {part.name:8} {size:6.1f} MB   cold {size / cold:6.1f}  warm {size / warm:6.1f}  "
            f"{library} {rate:5.1f} MB/CPU s   x{size / cold / rate:4.1f}   {differ} of "
            f"{len(some)} differ   hits {counters.get('cache_hits', 0) / max(lookups, 1):.2%}, "
            f"cache {counters.get('cache_bytes', 0) / 1e6:.0f} MB",
            flush=True,
        )
    two_threads(load, max(parts, key=lambda part: part.megabytes))


def differing(found: Encoded, rows: np.ndarray, expected: Encoded) -> int:
    """Number of documents whose ids are not the library's."""
    return sum(
        not np.array_equal(
            found.ids[found.offsets[row] : found.offsets[row + 1]],
            expected.ids[expected.offsets[i] : expected.offsets[i + 1]],
        )
        for i, row in enumerate(rows.tolist())
    )


def two_threads(load: Callable[[], Encoder], part: Part) -> None:
    """Print how much more two threads do in the same time; needs two idle cores."""
    encoder = load()
    start = time.perf_counter()
    encoder.encode(part.text)
    one = time.perf_counter() - start
    encoder = load()
    threads = [threading.Thread(target=encoder.encode, args=(part.text,)) for _ in range(2)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    two = time.perf_counter() - start
    print(f"  two threads, {part.name}, cold: x{2 * one / two:.2f} in wall time", flush=True)


def sentencepiece_part(parts: list[Part], chunks: list[str], size: int, folder: Path) -> None:
    """Compare with sp.encode."""
    settings = TokenizerSettings(vocab_size=size)
    start = time.process_time()
    trained = train_sentencepiece(chunks, settings)
    print(f"sentencepiece BPE, {trained.vocab_size} pieces, trained in ", end="")
    print(f"{time.process_time() - start:.1f} CPU s")
    file = folder / "tokenizer.model"
    file.write_bytes(trained.model)
    loaded = TokenizerSettings(model=str(file))
    encoder = load_encoder(file, loaded)
    compare(lambda: load_encoder(file, loaded), parts, "sp.encode", encoder.encode_by_library)  # type: ignore[attr-defined]


def byte_level_part(
    family: str, parts: list[Part], chunks: list[str], size: int, folder: Path
) -> None:
    """Compare with tokenizers and tiktoken."""
    start = time.process_time()
    file = folder / "tokenizer.json"
    file.write_text(train_byte_level(family, chunks, size), encoding="utf-8")
    spent = time.process_time() - start
    print(f"byte-level BPE, {family}, {size} tokens, trained by tokenizers in {spent:.1f} CPU s")
    settings = TokenizerSettings(kind="hf", model=str(file))
    encoder = load_encoder(file, settings)
    compare(lambda: load_encoder(file, settings), parts, "tokenizers", encoder.encode_by_library)  # type: ignore[attr-defined]
    model = read_byte_level(json.loads(file.read_text(encoding="utf-8")))
    if isinstance(model, str):
        raise TypeError(model)
    tokens = sorted(model.tokens, key=model.tokens.__getitem__)
    ranks = folder / "tokens.tiktoken"
    encoded = (base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))
    ranks.write_bytes(b"".join(encoded))
    other = TokenizerSettings(kind="tiktoken", model=str(ranks), pattern=family, eos=False)
    rival = load_encoder(ranks, other)
    compare(lambda: load_encoder(ranks, other), parts, "tiktoken", rival.encode_by_library)  # type: ignore[attr-defined]


def train_byte_level(family: str, chunks: list[str], size: int) -> str:
    """Train a tokenizer.json of a family."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    # tiktoken's own cl100k pattern has quantifiers that mean something else to this library.
    pattern = {**PATTERNS, "gpt2": GPT2_ORIGINAL, "cl100k": PATTERNS["llama3"]}[family]
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(chunks, trainer)
    return str(tokenizer.to_str())


def main() -> None:
    """Run and print the comparison."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--families", nargs="*", default=["llama3"], choices=sorted(PATTERNS))
    arguments.add_argument("--rival-mb", type=float, default=8.0)
    arguments.add_argument("--all-documents", action="store_true")
    arguments.add_argument("--vocab-size", type=int, default=32_000)
    given = arguments.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    parts = read_parts(given.rival_mb, given.all_documents)
    total = sum(part.megabytes for part in parts) * 1e6
    chunks: list[str] = []
    for i, part in enumerate(parts):
        uids = np.arange(len(part.text), dtype=np.int64) | i << 40
        chunks += sample_chunks(part.text, uids, 20 * 2**20 / total, 1)
    with tempfile.TemporaryDirectory() as folder:
        sentencepiece_part(parts, chunks, given.vocab_size, Path(folder))
        for family in given.families:
            byte_level_part(family, parts, chunks, given.vocab_size, Path(folder))


if __name__ == "__main__":
    main()

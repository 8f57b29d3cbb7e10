"""Exact ids on real text and on very long runs, for every way of encoding (slow)."""

import base64
import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from transforms.record import RecordError
from transforms.tokenize.encoder import Encoder, load_encoder
from transforms.tokenize.hf_byte_level import byte_alphabet
from transforms.tokenize.patterns import GPT2_ORIGINAL, PATTERNS
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.train import sample_chunks, train_sentencepiece

CORPUS = Path(__file__).parents[3] / "shared" / "data" / "corpus"
EVERY = 40
RUNS = ("a", " ", "-", "\n", "ab", "敏捷", "é", "1", " a", "\u0301", "\U0001f600")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CORPUS.is_dir(), reason="the shared corpus is not here"),
]


def _lines(file: Path) -> list[bytes]:
    if file.suffix == ".gz":
        return gzip.decompress(file.read_bytes()).splitlines()
    with file.open("rb") as stream:
        return zstandard.ZstdDecompressor().stream_reader(stream).read().splitlines()


@pytest.fixture(scope="module")
def documents() -> list[str]:
    files = sorted(CORPUS.glob("*/*.jsonl.*"))
    texts = [json.loads(line)["text"] for file in files for line in _lines(file)[::EVERY]]
    return [text for text in texts if len(text) < 400_000]


@pytest.fixture(scope="module")
def chunks(documents: list[str]) -> list[str]:
    uids = np.arange(len(documents), dtype=np.int64)
    return sample_chunks(pa.array(documents, pa.large_string()), uids, 0.3, 1)


def _byte_level(family: str, chunks: list[str]) -> Tokenizer:
    # tiktoken's own cl100k pattern has quantifiers that mean something else to this library.
    pattern = {**PATTERNS, "gpt2": GPT2_ORIGINAL, "cl100k": PATTERNS["llama3"]}[family]
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=8000, initial_alphabet=alphabet, show_progress=False, special_tokens=[]
    )
    tokenizer.train_from_iterator(chunks, trainer)
    return tokenizer


def _check(encoder: Encoder, documents: list[str]) -> None:
    """Every document, and runs of a million characters, have the library's ids."""
    runs = [[run * (1_000_000 // len(run))] for run in RUNS]
    for texts in (documents, *runs):
        column = pa.array(texts, pa.large_string())
        found = encoder.encode(column)
        try:
            expected = encoder.encode_by_library(column)  # type: ignore[attr-defined]
        except RecordError as error:  # tiktoken gives up on a million spaces
            assert "stack size" in str(error)  # noqa: PT017
            continue
        assert np.array_equal(found.offsets, expected.offsets)
        assert np.array_equal(found.ids, expected.ids)


@pytest.mark.parametrize("size", [1000, 8000, 32000])
def test_sentencepiece(tmp_path: Path, documents: list[str], chunks: list[str], size: int) -> None:
    """Models of several sizes give sp.encode's ids."""
    file = tmp_path / "tokenizer.model"
    file.write_bytes(train_sentencepiece(chunks, TokenizerSettings(vocab_size=size)).model)
    encoder = load_encoder(file, TokenizerSettings(model=str(file)))
    assert encoder.path == "safe cuts"
    _check(encoder, documents)


@pytest.mark.parametrize("family", sorted(PATTERNS))
def test_byte_level(tmp_path: Path, documents: list[str], chunks: list[str], family: str) -> None:
    """Each family gives the ids of tokenizers and of tiktoken."""
    tokenizer = _byte_level(family, chunks)
    file = tmp_path / "tokenizer.json"
    file.write_text(tokenizer.to_str(), encoding="utf-8")
    encoder = load_encoder(file, TokenizerSettings(kind="hf", model=str(file), eos=False))
    assert encoder.path == "split kernels"
    _check(encoder, documents)
    alphabet = byte_alphabet()
    tokens = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    ranks = tmp_path / "tokens.tiktoken"
    with ranks.open("wb") as lines:
        for rank, (text, _) in enumerate(tokens):
            token = bytes(alphabet[character] for character in text)
            lines.write(base64.b64encode(token) + b" %d\n" % rank)
    settings = TokenizerSettings(kind="tiktoken", model=str(ranks), pattern=family, eos=False)
    encoder = load_encoder(ranks, settings)
    assert encoder.path == "split kernels"
    _check(encoder, documents)

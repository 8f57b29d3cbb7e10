"""The safe-cut encoder: ids equal sp.encode for models of many kinds and text of every kind."""

import io
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.tokenize.encoder import load_encoder
from transforms.tokenize.proof import ADVERSARIAL, proof_documents
from transforms.tokenize.sentencepiece_model import SafeCutEncoder, SentencepieceEncoder
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.train import train_sentencepiece

STORY = [
    f"Chapter {i}: It's the {word} fox, who jumped over {i * 37} lazy dogs -- twice!!\n\n"
    f"\tif x[{i}] == 'a':\r\n    return   None  # 敏捷的狐狸跳过了{i}只懒狗。\n"
    f"<b>Ünïcode</b> naïve café über Straße; ひらがな 한국어 {word * 3} =======\n"
    for i, word in enumerate(["quick", "slow", "brown", "lazy", "happy", "sad"] * 30)
]
OPTIONS: dict[str, dict[str, Any]] = {
    "identity": {
        "normalization_rule_name": "identity",
        "add_dummy_prefix": False,
        "remove_extra_whitespaces": False,
        "byte_fallback": True,
        "user_defined_symbols": ["\n", "\t"],
        "allow_whitespace_only_pieces": True,
    },
    "llama-like": {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "byte_fallback": True,
        "split_digits": True,
        "allow_whitespace_only_pieces": True,
    },
    "defaults": {},
    "no byte fallback": {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "character_coverage": 0.98,
    },
    "pieces across words": {
        "normalization_rule_name": "identity",
        "split_by_whitespace": False,
        "split_by_unicode_script": False,
        "split_by_number": False,
        "add_dummy_prefix": False,
        "byte_fallback": True,
        "max_sentencepiece_length": 48,
    },
    "user symbols": {
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "byte_fallback": True,
        "user_defined_symbols": [
            "\n",
            "\n\n",
            "<b>",
            "</b>",
            "▁▁",
            "▁▁▁▁",
            "==",
            "ab",
            "abc",
            "敏捷",
        ],
    },
    "space at the end": {
        "treat_whitespace_as_suffix": True,
        "byte_fallback": True,
        "normalization_rule_name": "nfkc_cf",
    },
}
TEXT = st.one_of(
    st.text(max_size=40),
    st.text("ab \n<>/=▁é敏捷x1", max_size=60),
    st.sampled_from(ADVERSARIAL),
    st.sampled_from(STORY),
)


def trained(**options: Any) -> bytes:
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(STORY),
        model_writer=writer,
        **{"model_type": "bpe", "vocab_size": 700, "hard_vocab_limit": False} | options,
        minloglevel=2,
    )
    return writer.getvalue()


def load(folder: Path, model: bytes, **options: Any) -> SentencepieceEncoder:
    file = folder / "tokenizer.model"
    file.write_bytes(model)
    encoder = load_encoder(file, TokenizerSettings(model=str(file), eos=False, **options))
    assert isinstance(encoder, SentencepieceEncoder)
    return encoder


def differing(encoder: SentencepieceEncoder, documents: list[str]) -> list[str]:
    """Return the documents whose ids are not those of sp.encode."""
    encoded = encoder.encode(pa.array(documents, pa.large_string()))
    bounds = encoded.offsets.tolist()
    return [
        document
        for document, a, b in zip(documents, bounds, bounds[1:], strict=False)
        if encoded.ids[a:b].tolist() != encoder.processor.encode(document)
    ]


@pytest.fixture(scope="module", params=list(OPTIONS))
def model(request: pytest.FixtureRequest, tmp_path_factory: Any) -> SentencepieceEncoder:
    return load(tmp_path_factory.mktemp("model"), trained(**OPTIONS[request.param]))


@given(documents=st.lists(TEXT, max_size=8))
@settings(max_examples=60, deadline=None)
def test_ids_are_those_of_sp_encode(model: SentencepieceEncoder, documents: list[str]) -> None:
    """Any batch of documents, in any state of the cache, gives sentencepiece's own ids."""
    assert model.path.startswith("safe cuts")
    documents = [d.encode("utf-8", "replace").decode() for d in documents]
    assert differing(model, documents) == []


def test_long_and_adversarial_documents(model: SentencepieceEncoder) -> None:
    """Runs of 10^5 equal characters, long spans and mixed planes, too."""
    runs = [run * 30_000 for run in ("a", "-", " ", "ab", "\n", "敏捷", "é")]
    pieces = [model.processor.id_to_piece(i) for i in range(model.vocab_size)]
    assert differing(model, [*proof_documents(pieces[::-1]), *runs, "\n".join(STORY)]) == []


def test_a_slice_and_both_string_types(model: SentencepieceEncoder) -> None:
    """A sliced column with nulls is encoded as its documents."""
    documents = ["skipped", *STORY[:5], None, "", "last"]
    for dtype in (pa.string(), pa.large_string()):
        encoded = model.encode(pa.array(documents, dtype)[1:])
        expected = [model.processor.encode(document or "") for document in documents[1:]]
        assert encoded.ids.tolist() == [i for ids in expected for i in ids]
        assert encoded.lengths.tolist() == [len(ids) for ids in expected]


def test_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Several threads on one encoder give the ids of one thread, each with its own cache."""
    encoder = load(tmp_path, train_sentencepiece(STORY, TokenizerSettings(vocab_size=900)).model)
    assert isinstance(encoder, SafeCutEncoder)
    text = pa.array(STORY * 5)
    expected = encoder.encode(text)
    found: list[Any] = []

    def work() -> None:
        for _ in range(5):
            found.append(encoder.encode(text))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20
    for encoded in found:
        assert np.array_equal(encoded.ids, expected.ids)
        assert np.array_equal(encoded.offsets, expected.offsets)
    counters = encoder.counters
    assert counters["cache_hits"] > 20 * counters["cache_misses"] > 0


def test_a_line_without_a_cut_does_not_fill_the_cache(tmp_path: Path) -> None:
    """A megabyte of one character takes no room in the cache."""
    encoder = load(tmp_path, train_sentencepiece(STORY, TokenizerSettings(vocab_size=900)).model)
    assert isinstance(encoder, SafeCutEncoder)
    encoder.encode(pa.array(["warm"]))
    before = encoder.counters
    line = "fox" * 300_000 + "a" * 1_000_000
    encoded = encoder.encode(pa.array([line]))
    after = encoder.counters
    assert after["cache_bytes"] == before["cache_bytes"]
    assert after["cache_misses"] - before["cache_misses"] < 10
    assert encoder.decode(encoded.ids) == line


def test_a_tiny_cache_changes_speed_alone(tmp_path: Path) -> None:
    """A cache that is full from the start gives the same ids."""
    proto = train_sentencepiece(STORY, TokenizerSettings(vocab_size=900)).model
    random = np.random.default_rng(3)
    words = ["".join(map(chr, random.integers(97, 123, 8))) for _ in range(40_000)]
    text = pa.array([" ".join(words)])
    small = load(tmp_path, proto, encode_cache_mib=1)
    assert isinstance(small, SafeCutEncoder)
    encoded = small.encode(text)
    assert small.counters["cache_bytes"] <= 1 << 20
    assert encoded.ids.tolist() == small.processor.encode(text[0].as_py())


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"model_type": "unigram"}, "the model is not BPE"), ({"model_type": "char"}, "not BPE")],
)
def test_other_models_go_to_the_library(
    tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    """Where the way is not exact, the library encodes, and the path says why."""
    encoder = load(tmp_path, trained(**options))
    assert encoder.path.startswith("sentencepiece library: ")
    assert reason in encoder.path
    assert differing(encoder, [*STORY, *ADVERSARIAL]) == []


def test_a_way_that_is_not_exact_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the fast ids differ on the test text, the library is used and the path says so."""
    monkeypatch.setattr(
        "transforms.tokenize.safe_cut_tables._joins",
        lambda *_: __import__("transforms.tokenize.safe_cuts", fromlist=["Joins"]).Joins(
            np.ones(128 * 128, dtype=np.uint8), np.full(16, -1, dtype=np.int64)
        ),
    )
    encoder = load(tmp_path, trained(**OPTIONS["identity"]))
    assert "its ids differ on the test text" in encoder.path
    assert differing(encoder, STORY) == []


def test_kernels_run_without_the_compiler(tmp_path: Path) -> None:
    """The kernels are plain Python too: uncompiled, they give sp.encode's ids on a small input."""
    file = tmp_path / "tokenizer.model"
    file.write_bytes(trained(**OPTIONS["user symbols"]))
    program = f"""
import pathlib
import pyarrow as pa
from transforms.tokenize import proof
from transforms.tokenize.encoder import load_encoder
from transforms.tokenize.settings import TokenizerSettings
proof.LONG_RUN, proof.RANDOM_DOCUMENTS = 80, 2
proof.CODE_POINTS = range(0x20, 0x250)
file = pathlib.Path({str(file)!r})
encoder = load_encoder(file, TokenizerSettings(model=str(file), eos=False))
assert encoder.path == "safe cuts", encoder.path
text = {STORY[7] + "a" * 300!r}
assert encoder.encode(pa.array([text])).ids.tolist() == encoder.processor.encode(text)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr

"""Sampling and training: determinism, odd samples, and what text can never produce."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.record import RecordError
from transforms.tokenize.encoder import load_encoder
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.train import (
    CHUNK_BYTES,
    CONTROL_SYMBOLS,
    sample_chunks,
    train_sentencepiece,
)

STORY = [
    f"Chapter {i}: the {word} fox jumped over {i * 37} lazy dogs.\n\tIndented  twice. 敏捷的狐狸。"
    for i, word in enumerate(["quick", "slow", "brown", "Ünïcode", "naïve"] * 40)
]


def processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    return sentencepiece.SentencePieceProcessor(model_proto=model)


@given(st.lists(st.text(max_size=30).map(lambda s: s * 400), max_size=5), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_a_full_sample_is_the_text_itself(documents: list[str], skipped: int) -> None:
    """At rate 1 the chunks of a document join to the document, also in a sliced column."""
    documents = [d.encode("utf-8", "replace").decode() for d in documents]
    column = pa.array([*["no"] * skipped, *documents], pa.string())[skipped:]
    uids = np.arange(len(documents), dtype=np.int64)
    joined = "".join(sample_chunks(column, uids, 1.0, 5))
    assert joined == "".join(documents)


def test_a_sample_does_not_depend_on_partition_or_order() -> None:
    """The draw is by uid and chunk number: any split and order of the documents gives the same."""
    documents = [f"{i} word{i} " * (i * 13) for i in range(300)]
    uids = np.arange(300, dtype=np.int64) << 24
    whole = sample_chunks(pa.array(documents), uids, 0.2, 9)
    order = np.random.default_rng(1).permutation(300)
    parts: list[str] = []
    for piece in np.array_split(order, 7):
        column = pa.array([documents[i] for i in piece], pa.large_string())
        parts += sample_chunks(column, uids[piece], 0.2, 9)
    assert sorted(parts) == sorted(whole)
    total = sum(map(len, documents))
    assert 0.1 * total < sum(map(len, whole)) < 0.3 * total
    assert max(map(len, whole)) <= CHUNK_BYTES + 64
    assert sample_chunks(pa.array(documents), uids, 0.2, 10) != whole
    assert sample_chunks(pa.array(documents), uids, 0.0, 9) == []


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_training_does_not_depend_on_the_order_of_chunks(model_type: str) -> None:
    """The same chunks in another order give the same bytes of the model."""
    wanted = TokenizerSettings(vocab_size=500, model_type=model_type)  # type: ignore[arg-type]
    first = train_sentencepiece(STORY, wanted)
    assert first == train_sentencepiece(STORY[::-1], wanted)
    assert b".model" not in first.model


@pytest.mark.parametrize(
    "chunks",
    [[], [""], [" \n"], ["a"], ["\0"], ["x" * 9000], ["▅"], ["a\tb\n"], ["中文字符"], ["▁▁a b"]],
)
@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_tiny_samples_train_and_round_trip(chunks: list[str], model_type: str) -> None:
    """However little the sample gives, a model comes out that restores any text."""
    trained = train_sentencepiece(
        chunks,
        TokenizerSettings(model_type=model_type),  # type: ignore[arg-type]
    )
    text = "hello  wörld <|im_start|>\n\t中\0 🏳️‍🌈"
    model = processor(trained.model)
    assert model.decode(model.encode(text)) == text
    assert trained.vocab_size == model.get_piece_size() < 400
    assert any("vocabulary of" in note for note in trained.notes)


def test_characters_take_at_most_half_of_the_vocabulary() -> None:
    """A sample of many rare characters lowers the coverage and says so."""
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 5000)))
    trained = train_sentencepiece([rare, "abc " * 5000], TokenizerSettings(vocab_size=1000))
    model = processor(trained.model)
    pieces = [model.id_to_piece(i) for i in range(model.get_piece_size())]
    assert sum(len(piece) == 1 for piece in pieces) <= 500 + len("\n\t▁")
    assert 0.5 < trained.character_coverage < 0.98
    assert any("coverage lowered" in note for note in trained.notes)


def test_a_vocabulary_without_room_is_refused() -> None:
    """A vocabulary smaller than the bytes and the markers names the setting and the remedy."""
    with pytest.raises(RecordError, match=r"tokenizer\.vocab_size = 270 .* use \d+ or more"):
        train_sentencepiece(STORY, TokenizerSettings(vocab_size=270))


def test_text_never_yields_a_control_symbol(tmp_path: Path) -> None:
    """Markers in a document are encoded as their characters, even when the sample is full of them."""
    markers = "".join(CONTROL_SYMBOLS) + "<s></s><pad><unk><0x41>"
    trained = train_sentencepiece([markers] * 50 + STORY, TokenizerSettings(vocab_size=600))
    file = tmp_path / "tokenizer.model"
    file.write_bytes(trained.model)
    encoder = load_encoder(file, TokenizerSettings(model=str(file)))
    encoded = encoder.encode(pa.array([markers, STORY[0] + markers]))
    model = processor(trained.model)
    assert not any(model.is_control(int(i)) or model.is_unknown(int(i)) for i in encoded.ids)
    assert encoder.decode(encoded.ids) == markers + STORY[0] + markers
    assert all(model.piece_to_id(marker) > 3 for marker in CONTROL_SYMBOLS)
    assert [encoder.bos_id, encoder.eos_id, encoder.pad_id] == [1, 2, 3]

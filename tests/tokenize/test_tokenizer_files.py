"""Loading tokenizer files and encoding through the interface; the libraries are the oracles."""

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sentencepiece
import tiktoken
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, trainers

from transforms.record import RecordError
from transforms.tokenize.encoder import (
    Encoded,
    Encoder,
    SpecialTokenError,
    load_encoder,
    with_special_tokens,
)
from transforms.tokenize.patterns import PATTERNS
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.train import train_sentencepiece

STORY = [
    f"It's number {i}, the naïve fox said:\n\tI'LL jump! 敏捷的狐狸 {i * 7}" for i in range(90)
]
LOOKALIKE = "a <|endoftext|> b</s> <s> <|im_start|>c"


def hf_tokenizer(specials: list[str]) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        show_progress=False,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(STORY, trainer)
    return tokenizer


def tiktoken_lines(extra: list[bytes]) -> bytes:
    tokens = [bytes([i]) for i in range(256)] + extra
    return b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(tokens))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tokenizers")
    paths = {
        "sentencepiece": folder / "tokenizer.model",
        "hf": folder / "tokenizer.json",
        "tiktoken": folder / "story.tiktoken",
    }
    model = train_sentencepiece(STORY, TokenizerSettings(vocab_size=400)).model
    paths["sentencepiece"].write_bytes(model)
    hf_tokenizer(["<|endoftext|>"]).save(str(paths["hf"]))
    paths["tiktoken"].write_bytes(tiktoken_lines([b"th", b"the", b" the", b"fo", b"fox", b" fox"]))
    return paths


def loaded(files: dict[str, Path], kind: Any, **kwargs: Any) -> Encoder:
    if kind == "tiktoken":
        kwargs = {"eos_token": "<|endoftext|>"} | kwargs
    return load_encoder(files[kind], TokenizerSettings(kind=kind, model=str(files[kind]), **kwargs))


def library_ids(files: dict[str, Path], kind: str, text: str) -> list[int]:
    if kind == "sentencepiece":
        model = sentencepiece.SentencePieceProcessor(model_file=str(files[kind]))
        return list(model.encode(text))
    if kind == "hf":
        tokenizer = tokenizers.Tokenizer.from_file(str(files[kind]))
        tokenizer.encode_special_tokens = True
        return list(tokenizer.encode(text, add_special_tokens=False).ids)
    lines = [line.split() for line in files[kind].read_bytes().splitlines()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    encoding = tiktoken.Encoding(
        "x", pat_str=PATTERNS["cl100k"], mergeable_ranks=ranks, special_tokens={}
    )
    return encoding.encode_ordinary(text)


@pytest.mark.parametrize("kind", ["sentencepiece", "hf", "tiktoken"])
@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string()])
def test_ids_are_the_librarys(files: dict[str, Path], kind: str, dtype: pa.DataType) -> None:
    """A sliced column with empty and null documents gives each document the library's ids."""
    documents = ["skipped", "", *STORY, None, LOOKALIKE, " lead\r\n\0", "🏳️‍🌈 é"]
    column = pa.array(documents, dtype)[1:]
    encoder = loaded(files, kind)
    encoded = encoder.encode(column)
    assert encoded.offsets.dtype == np.int64
    assert encoded.ids.dtype == np.int32
    assert len(encoded.offsets) == len(column) + 1
    for i, document in enumerate(documents[1:]):
        ids = encoded.ids[encoded.offsets[i] : encoded.offsets[i + 1]].tolist()
        assert ids == library_ids(files, kind, document or "")
        assert encoder.decode(ids) == (document or "")
    assert encoder.encode(column[:0]).lengths.tolist() == []
    assert int(encoded.ids.max()) < encoder.vocab_size
    assert encoder.path


@pytest.mark.parametrize("kind", ["sentencepiece", "hf", "tiktoken"])
def test_special_text_is_refused_where_asked(files: dict[str, Path], kind: str) -> None:
    """With special_tokens = refuse the first document that holds a special token is named."""
    encoder = loaded(files, kind, special_tokens="refuse")
    assert len(encoder.encode(pa.array(["fine", "<|endof", "|>"])).lengths) == 3
    token = "<|im_end|>" if kind == "sentencepiece" else "<|endoftext|>"
    with pytest.raises(SpecialTokenError, match="document 2 holds") as caught:
        encoder.encode(pa.array(["fine", "", f"a {token} b"]))
    assert (caught.value.row, caught.value.token) == (2, token)


@pytest.mark.parametrize("kind", ["hf", "tiktoken"])
def test_end_of_sequence_is_found_by_name(files: dict[str, Path], kind: str) -> None:
    """Eos comes from the named or well-known special token, pad falls back to it."""
    encoder = loaded(files, kind)
    assert encoder.eos_id is not None
    assert encoder.pad_id == encoder.eos_id
    assert encoder.bos_id is None
    assert encoder.decode([encoder.eos_id]) == "<|endoftext|>"


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("sentencepiece", {"bos_token": "<bos>"}, r"bos_token = '<bos>' is not a piece"),
        ("hf", {"bos": True}, r"tokenizer\.bos = true, but none of"),
        ("hf", {"eos_token": "<end>"}, r"eos_token = '<end>' is not a special token"),
        ("tiktoken", {"bos": True}, r"tokenizer\.bos = true, but none of"),
        ("tiktoken", {"special_ids": {"<x>": 3}}, r"special_ids gives '<x>' the id 3"),
        ("tiktoken", {"pattern": "("}, r"tokenizer\.pattern = '\('"),
        ("tiktoken", {"special_ids": {"<x>": 1 << 31}}, r"vocabulary of 2147483650 ids"),
    ],
)
def test_missing_tokens_name_file_and_field(
    files: dict[str, Path], kind: str, options: dict[str, Any], message: str
) -> None:
    """A token that the settings need and the file lacks is an error with file and field."""
    with pytest.raises(RecordError, match=message):
        loaded(files, kind, **options)


@pytest.mark.parametrize(("kind", "token"), [("sentencepiece", "\n"), ("hf", "x")])
def test_text_cannot_end_a_document(files: dict[str, Path], kind: str, token: str) -> None:
    """A token that text produces ends documents only where such text is refused."""
    with pytest.raises(RecordError, match="is an ordinary token, which the text"):
        loaded(files, kind, eos_token=token)
    encoder = loaded(files, kind, eos_token=token, special_tokens="refuse")
    assert len(encoder.encode(pa.array(["fine"])).ids)
    with pytest.raises(SpecialTokenError):
        encoder.encode(pa.array([f"a{token}b"]))


@pytest.mark.parametrize("kind", ["sentencepiece", "hf", "tiktoken"])
@pytest.mark.parametrize("content", [b"", b"\xff\xfe garbage", b'{"version": 1}', b"YQ== 0\n"])
def test_a_file_that_does_not_parse_is_named(tmp_path: Path, kind: Any, content: bytes) -> None:
    """Broken tokenizer files are data errors that name the file, for every kind."""
    file = tmp_path / "broken.model"
    file.write_bytes(content)
    with pytest.raises(RecordError, match=r"broken\.model: "):
        load_encoder(file, TokenizerSettings(kind=kind, model=str(file), eos=False))
    with pytest.raises(RecordError, match=r"absent\.model: "):
        load_encoder(tmp_path / "absent.model", TokenizerSettings(kind=kind, model="x", eos=False))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "hf"}, "needs model"),
        ({"kind": "hf", "model": "x", "vocab_size": 5}, "vocab_size belongs to training"),
        ({"model": "x", "vocab_size": 5}, "exclude each other"),
        ({"pattern": "qwen"}, "belong to kind = 'tiktoken'"),
    ],
)
def test_settings_that_exclude_each_other(options: dict[str, Any], message: str) -> None:
    """Rules across the fields are checked when the settings are made."""
    with pytest.raises(ValueError, match=message):
        TokenizerSettings(**options)
    assert TokenizerSettings().vocab_size == 32_000
    assert TokenizerSettings() == TokenizerSettings(vocab_size=32_000)


@given(
    st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=6),
    st.none() | st.just(10),
    st.none() | st.just(11),
)
def test_bos_and_eos_go_to_documents_with_a_token(
    documents: list[list[int]], bos: int | None, eos: int | None
) -> None:
    """Every document with a token gets bos and eos; one without stays empty."""
    lengths = [len(d) for d in documents]
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    ids = np.array([i for d in documents for i in d], dtype=np.int32)
    result = with_special_tokens(Encoded(offsets, ids), bos, eos)
    expected = [
        ([bos] if bos is not None else []) + d + ([eos] if eos is not None else []) if d else []
        for d in documents
    ]
    found = [
        result.ids[a:b].tolist()
        for a, b in zip(result.offsets[:-1], result.offsets[1:], strict=True)
    ]
    assert found == expected

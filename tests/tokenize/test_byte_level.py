"""Byte-level BPE by split kernels: ids equal the library's, for every pattern family."""

import base64
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import tiktoken
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from transforms.record import RecordError
from transforms.tokenize.byte_level import joined_characters
from transforms.tokenize.encoder import load_encoder
from transforms.tokenize.hf_byte_level import byte_alphabet
from transforms.tokenize.hf_file import HfEncoder
from transforms.tokenize.patterns import GPT2_ORIGINAL, PATTERNS
from transforms.tokenize.proof import ADVERSARIAL, proof_documents
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.split_proof import rule_texts
from transforms.tokenize.tiktoken_file import TiktokenEncoder

STORY = [
    f"Chapter {i}: It's the {word} fox, who'LL jump over {i * 37} lazy dogs -- twice!!\n\n"
    f"\tif x[{i}] == 'a':\r\n    return   None  # 敏捷的狐狸跳过了{i}只懒狗。而且很快乐地跑了。\n"
    f"<b>Ünïcode</b> naïve CAFÉ über Straße; ひらがなとカタカナ 한국어를 배웁니다 {word * 3} ====\n"
    f"Это предложение на русском языке. ภาษาไทย हिन्दी में ১২৩ HTTPServer getValue2 {i}{i}{i}\n"
    for i, word in enumerate(["quick", "slow", "brown", "lazy", "happy", "sad"] * 30)
]
HF_PATTERNS = {**PATTERNS, "gpt2": GPT2_ORIGINAL, "cl100k": PATTERNS["llama3"]}
TEXT = st.one_of(
    st.text(max_size=40),
    st.text("aS's TlLé中\u0301 \n\r\t!/1٣\u3000", max_size=60),
    st.sampled_from(ADVERSARIAL),
    st.sampled_from(STORY),
)


@functools.cache
def trained(family: str) -> str:
    """Train a tokenizer.json of a family."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    if family == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        split = pre_tokenizers.Split(tokenizers.Regex(HF_PATTERNS[family]), "isolated")
        level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, level])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1500,
        show_progress=False,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(STORY, trainer)
    return str(tokenizer.to_str())


def load_hf(folder: Path, content: str) -> HfEncoder:
    file = folder / "tokenizer.json"
    file.write_text(content, encoding="utf-8")
    encoder = load_encoder(file, TokenizerSettings(kind="hf", model=str(file)))
    assert isinstance(encoder, HfEncoder)
    return encoder


def token_bytes(content: str) -> list[bytes]:
    """Return the tokens of a tokenizer.json, by id, without the special ones."""
    alphabet = byte_alphabet()
    vocabulary = json.loads(content)["model"]["vocab"]
    texts = sorted(vocabulary, key=vocabulary.__getitem__)
    return [bytes(alphabet[c] for c in text) for text in texts if text != "<|endoftext|>"]


def load_tiktoken(folder: Path, tokens: list[bytes], **options: Any) -> TiktokenEncoder:
    file = folder / "tokens.tiktoken"
    lines = [base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens)]
    file.write_bytes(b"".join(lines))
    settings = TokenizerSettings(kind="tiktoken", model=str(file), eos=False, **options)
    encoder = load_encoder(file, settings)
    assert isinstance(encoder, TiktokenEncoder)
    return encoder


def differing(encoder: HfEncoder | TiktokenEncoder, documents: list[str]) -> list[str]:
    """Return the documents whose ids are not those of the library."""
    if isinstance(encoder, HfEncoder):
        own: Callable[[str], list[int]] = lambda text: list(  # noqa: E731
            encoder.tokenizer.encode(text, add_special_tokens=False).ids
        )
    else:
        own = encoder.encoding.encode_ordinary
    encoded = encoder.encode(pa.array(documents, pa.large_string()))
    ids = np.split(encoded.ids, encoded.offsets[1:-1])
    return [d for d, found in zip(documents, ids, strict=True) if found.tolist() != own(d)]


@pytest.fixture(scope="module", params=[f"{kind} {f}" for f in PATTERNS for kind in ("hf", "tt")])
def encoder(request: pytest.FixtureRequest, tmp_path_factory: Any) -> HfEncoder | TiktokenEncoder:
    kind, family = request.param.split()
    folder = tmp_path_factory.mktemp("family")
    if kind == "hf":
        return load_hf(folder, trained(family))
    return load_tiktoken(folder, token_bytes(trained(family)), pattern=family)


@given(documents=st.lists(TEXT, min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_ids_are_the_librarys(encoder: HfEncoder | TiktokenEncoder, documents: list[str]) -> None:
    """Any batch of documents gives the library's ids, in every family and by both libraries."""
    assert encoder.path == "split kernels"
    documents = [d.encode("utf-8", "replace").decode() for d in documents]
    assert differing(encoder, documents) == []


def test_adversarial_documents(encoder: HfEncoder | TiktokenEncoder) -> None:
    """Sequences of all classes, unassigned code points, and runs of 30,000 characters, too."""
    runs = [run * 30_000 for run in ("a", "-", " ", "\n", "敏捷", " a", "é", "1", "' s")]
    points = ["".join(map(chr, range(low, low + 64))) for low in range(0x700, 0xD800, 640)]
    pieces = ["fox", " jump", "敏捷"]
    documents = [*proof_documents(pieces), *rule_texts()[:600], *runs, *points, "\n".join(STORY)]
    assert differing(encoder, documents) == []


def test_new_characters_are_proved_before_they_are_used(tmp_path: Path) -> None:
    """Where the library's Unicode differs from Python's, those documents go to the library."""
    encoder = load_hf(tmp_path, trained("o200k"))
    assert encoder._faster is not None
    state = encoder._faster.code_points.state
    documents = [f"ab{chr(point)}cd {chr(point)}" for point in (0x1C89, 0xA7CC, 0x10D4A, 0x4E00)]
    assert differing(encoder, documents) == []
    assert state[0x4E00] == state[0x9000] == 1
    assert state[0x0D8B] == 0  # not asked for yet


def test_nfc_and_literal_tokens(tmp_path: Path) -> None:
    """A tokenizer that composes text, or cuts out added tokens, keeps the library's ids."""
    config = json.loads(trained("qwen"))
    config["normalizer"] = {"type": "NFC"}
    added = dict(config["added_tokens"][0], id=1500, content="<tool_call>", special=False)
    config["added_tokens"].append(added)
    encoder = load_hf(tmp_path, json.dumps(config))
    assert encoder.path == "split kernels"
    documents = [
        "e\u0301a cafe\u0301 fox",
        "café fox",
        "\u1112\u1161\u11ab 한",
        "a <tool_call> b",
        "ภาษาไทย ที่",
        *STORY[:3],
    ]
    assert differing(encoder, documents) == []
    literal = encoder.tokenizer.token_to_id("<tool_call>")
    assert literal in encoder.encode(pa.array(documents)).ids
    assert encoder.encode(pa.array(["", None])).lengths.tolist() == [0, 0]


def test_tokens_that_merging_does_not_give(tmp_path: Path) -> None:
    """A pre-token that is a token stays whole with ignore_merges, and always in tiktoken."""
    config = json.loads(trained("llama3"))
    vocabulary = config["model"]["vocab"]
    odd = ["foxdog", "ĠlazyĠ", "敏".encode().decode("latin-1"), "qzqz", "æķıæį·çļĦ"]
    for text in odd:
        vocabulary.setdefault(text, len(vocabulary))
    config["model"]["ignore_merges"] = True
    documents = [
        "foxdog foxdogs qzqz qzqzq 敏捷的 敏捷的狐 a敏捷的 敏捷的é",
        *STORY[:5],
        *ADVERSARIAL,
    ]
    encoder = load_hf(tmp_path, json.dumps(config))
    assert encoder.path == "split kernels"
    assert vocabulary["foxdog"] in encoder.encode(pa.array(documents)).ids
    assert differing(encoder, documents) == []
    tokens = [*token_bytes(trained("llama3")), b"foxdog", b"qzqz", "敏捷的狐狸跳过了".encode()]
    other = load_tiktoken(tmp_path, tokens, pattern="llama3")
    assert other.path == "split kernels"
    assert differing(other, [*documents, "敏捷的狐狸跳过了", "敏捷的狐狸跳过了只"]) == []


def _other(change: Callable[[dict[str, Any]], Any]) -> str:
    config = json.loads(trained("llama3"))
    change(config)
    return json.dumps(config)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            _other(lambda c: c["model"].update(dropout=0.0, end_of_word_suffix="</w>")),
            "end_of_word",
        ),
        (_other(lambda c: c.update(normalizer={"type": "Lowercase"})), "normalizer is Lowercase"),
        (_other(lambda c: c.update(pre_tokenizer={"type": "Whitespace"})), "its pre-tokenizer"),
        (
            _other(lambda c: c["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex="a|b")),
            "not a known one",
        ),
        (
            _other(lambda c: c["pre_tokenizer"]["pretokenizers"][1].update(add_prefix_space=True)),
            "its pre-tokenizer",
        ),
    ],
)
def test_other_tokenizers_go_to_the_library(tmp_path: Path, content: str, reason: str) -> None:
    """What the kernels do not know is encoded by the library, and the path says why."""
    encoder = load_hf(tmp_path, content)
    assert encoder.path.startswith("tokenizers library: ")
    assert reason in encoder.path
    assert encoder.counters == {}
    assert differing(encoder, [*STORY[:20], *ADVERSARIAL]) == []


def test_wordpiece_and_unigram_go_to_the_library(tmp_path: Path) -> None:
    """Models that are not BPE work through the library."""
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.NFD()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[UNK]", "<|endoftext|>"]
    trainer = trainers.WordPieceTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(STORY, trainer)
    encoder = load_hf(tmp_path, tokenizer.to_str())
    assert "not BPE" in encoder.path
    assert differing(encoder, STORY[:20]) == []


def test_an_unknown_tiktoken_pattern_goes_to_the_library(tmp_path: Path) -> None:
    """A split pattern of the user's own works, through tiktoken."""
    encoder = load_tiktoken(tmp_path, token_bytes(trained("gpt2")), pattern=r"\p{L}+|\P{L}+")
    assert encoder.path == "tiktoken library: its split pattern is not a known one"
    assert differing(encoder, [*STORY[:20], *ADVERSARIAL]) == []


def test_a_document_that_tiktoken_gives_up_on_is_named(tmp_path: Path) -> None:
    """Where the library's regular expressions fail, the message tells the document and a remedy."""
    pattern = r"\s+(?!\S)|\S+|\s"
    encoder = load_tiktoken(tmp_path, token_bytes(trained("gpt2")), pattern=pattern)
    with pytest.raises(RecordError, match=r"cannot split the document of 1000007 char.*max_chars"):
        encoder.encode(pa.array(["fine", "It is: " + " " * 1_000_000]))


def test_rules_that_do_not_fit_are_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules that split differently from the library are refused with the text that shows it."""
    from transforms.tokenize import patterns, split_encoder

    wrong = dict(patterns.RULES)
    wrong[PATTERNS["llama3"]] = patterns.SplitRules(patterns.Shape.CL100K, digits=2)
    monkeypatch.setattr(split_encoder, "RULES", wrong)
    encoder = load_hf(tmp_path, trained("llama3"))
    assert encoder.path.startswith("tokenizers library: its split of ")
    assert differing(encoder, STORY[:5]) == []


def test_published_patterns_are_tiktokens_own() -> None:
    """The patterns named after tiktoken's encodings are those of the installed version."""
    from tiktoken_ext import openai_public

    assert PATTERNS["gpt2"] == openai_public.r50k_pat_str
    source = Path(openai_public.__file__).read_text(encoding="utf-8")
    assert PATTERNS["cl100k"] in source
    for part in PATTERNS["o200k"].split("|")[-4:]:
        assert part in source


def test_joined_characters_match_bytes() -> None:
    """Characters join exactly where an end of the left and a beginning of the right one do."""
    boundaries = [
        (b"a", b"b"),
        ("中".encode(), "国".encode()),
        (b"\xad", b"\xe5"),
        (b" ", b"\xce"),
        (b"\xb8\xad", "国".encode()),
        ("é".encode()[1:], b"x"),
        ("xé".encode(), "éx".encode()),
        (b"\xe4\xb8", b"\xad"),
    ]
    table = joined_characters(boundaries)
    characters = "ab xéÎΑ中国丨家丢\U0001f600"
    for first in characters:
        for second in characters:
            a, b = first.encode(), second.encode()
            expected = any(
                (a.endswith(left) or left.endswith(a))
                and (b.startswith(right) or right.startswith(b))
                for left, right in boundaries
                if right[0] & 0xC0 != 0x80
            )
            key = ord(first) << 21 | ord(second)
            found = bool(
                key in table.joins
                or table.parts[table.lefts[ord(first)], table.rights[ord(second)]]
            )
            assert found == expected, (first, second)


def test_kernels_run_without_the_compiler(tmp_path: Path) -> None:
    """Uncompiled, the kernels give the library's ids on a small input."""
    file = tmp_path / "tokenizer.json"
    file.write_text(trained("o200k"), encoding="utf-8")
    program = f"""
import pathlib
import pyarrow as pa
from transforms.tokenize import proof, split_proof
from transforms.tokenize.encoder import load_encoder
from transforms.tokenize.settings import TokenizerSettings
proof.LONG_RUN, proof.RANDOM_DOCUMENTS = 80, 2
proof.CODE_POINTS = range(0x20, 0x100)
split_proof.RANDOM_TEXTS, split_proof.TRIPLES = 30, "aS 1'"
file = pathlib.Path({str(file)!r})
encoder = load_encoder(file, TokenizerSettings(kind="hf", model=str(file)))
assert encoder.path == "split kernels", encoder.path
text = {STORY[7] + "a" * 200!r}
expected = encoder.tokenizer.encode(text, add_special_tokens=False).ids
assert encoder.encode(pa.array([text])).ids.tolist() == expected
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_installed_packages_tokenizers(tmp_path: Path) -> None:
    """Every tokenizer.json that an installed package ships keeps its library's ids."""
    roots = {Path(entry) for entry in sys.path if entry.endswith("site-packages")}
    shipped = [file for root in roots for file in root.glob("*/**/tokenizer.json")]
    if not shipped:
        pytest.skip("no installed package ships a tokenizer.json")
    for file in shipped:
        encoder = load_encoder(file, TokenizerSettings(kind="hf", model=str(file), eos=False))
        assert isinstance(encoder, HfEncoder)
        assert differing(encoder, [*STORY[:20], *ADVERSARIAL]) == []


@pytest.mark.parametrize("vocabulary", ["gpt2", "cl100k"])
def test_pair_vocabulary_shows_a_wrong_split(vocabulary: str) -> None:
    """The vocabulary of pairs tells a pattern from another by ids alone."""
    from transforms.tokenize.patterns import RULES
    from transforms.tokenize.split_proof import agreement_by_ids

    texts = rule_texts()
    right = agreement_by_ids(RULES[PATTERNS[vocabulary]], PATTERNS[vocabulary])
    wrong = agreement_by_ids(RULES[PATTERNS["o200k"]], PATTERNS[vocabulary])
    assert not wrong(texts).all()
    assert right(["It's 1234 中文 a\u0301!\n\n  b", "\u3000x"]).all()
    assert isinstance(tiktoken.__version__, str)

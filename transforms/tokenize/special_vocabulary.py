"""The special tokens of a tokenizer file: those that text of documents never becomes."""

import json
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

from transforms.record import RecordError
from transforms.tokenize.settings import TokenizerSettings


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """A token that only a template, or the pipeline itself, puts into a document."""

    id: int
    lstrip: bool = False
    """Whether it swallows the white space before it."""
    rstrip: bool = False
    """Whether it swallows the white space after it."""
    reserved: bool = True
    """False for a token that its library also makes from a document's text."""


def special_vocabulary(file: Path, settings: TokenizerSettings) -> dict[str, SpecialToken]:
    """Return the special tokens of a tokenizer file by their texts.

    Args:
        file: a file that :func:`transforms.tokenize.encoder.load_encoder` has loaded.
        settings: the tokenizer's settings.

    Raises:
        RecordError: the file does not parse.
    """
    found = added_vocabulary(file, settings)
    return {text: token for text, token in found.items() if token.reserved}


def added_vocabulary(file: Path, settings: TokenizerSettings) -> dict[str, SpecialToken]:
    """Return special tokens, and those added to the vocabulary as words (``reserved`` false).

    Raises:
        RecordError: the file does not parse.
    """
    if settings.kind == "sentencepiece":
        return _sentencepiece(file)
    if settings.kind == "hf":
        return _hf(file)
    return _tiktoken(file, settings)


def _sentencepiece(file: Path) -> dict[str, SpecialToken]:
    processor = sentencepiece.SentencePieceProcessor()
    processor.load_from_serialized_proto(file.read_bytes())
    return {
        processor.id_to_piece(number): SpecialToken(number)
        for number in range(processor.get_piece_size())
        if processor.is_control(number)
    }


def _hf(file: Path) -> dict[str, SpecialToken]:
    try:
        added = json.loads(file.read_bytes()).get("added_tokens") or []
        return {
            token["content"]: SpecialToken(
                int(token["id"]),
                bool(token.get("lstrip")),
                bool(token.get("rstrip")),
                bool(token.get("special")),
            )
            for token in added
        }
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise RecordError(f"{file}: added_tokens cannot be read ({error!r})") from error


def _tiktoken(file: Path, settings: TokenizerSettings) -> dict[str, SpecialToken]:
    from transforms.tokenize.patterns import DEFAULT_PATTERN
    from transforms.tokenize.tiktoken_file import _specials, read_ranks

    tokens = _specials(read_ranks(file), file, settings.pattern or DEFAULT_PATTERN, settings)
    return {text: SpecialToken(number) for text, number in tokens.items()}

"""Special tokens: which ids begin, end and pad documents, and text that looks like them."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from transforms.record import RecordError
from transforms.tokenize.encoder import SpecialTokenError
from transforms.tokenize.settings import TokenizerSettings

BOS_NAMES = ("<s>", "<|begin_of_text|>", "<bos>", "<|startoftext|>", "<｜begin▁of▁sentence｜>")
EOS_NAMES = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "<｜end▁of▁sentence｜>")
PAD_NAMES = ("<pad>", "<|pad|>", "[PAD]", "<|finetune_right_pad_id|>", "<｜▁pad▁｜>")


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Ids of the tokens that begin, end and pad documents."""

    bos: int | None
    eos: int | None
    pad: int


def find_special_ids(
    settings: TokenizerSettings, file: Path, find: Callable[[str], int | None]
) -> SpecialIds:
    """Find the special tokens of a tokenizer file that only lists tokens.

    A token named in the settings must exist; otherwise the first well-known name that exists is
    taken.

    Args:
        settings: names the tokens, and says which are needed.
        file: the tokenizer's file, for messages.
        find: returns the id of a special token's text, or None.

    Raises:
        RecordError: a named or needed token does not exist.
    """
    found: dict[str, int | None] = {}
    for kind, named, known, needed in (
        ("bos", settings.bos_token, BOS_NAMES, settings.bos),
        ("eos", settings.eos_token, EOS_NAMES, settings.eos),
        ("pad", settings.pad_token, PAD_NAMES, False),
    ):
        candidates = known if named is None else (named,)
        ids = [number for name in candidates if (number := find(name)) is not None]
        if not ids and named is not None:
            raise RecordError(
                f"{file}: tokenizer.{kind}_token = {named!r} is not a special token of this file"
            )
        if not ids and needed:
            raise RecordError(
                f"{file}: tokenizer.{kind} = true, but none of {', '.join(known)} is a special "
                f"token of this file; name it as tokenizer.{kind}_token or set "
                f"tokenizer.{kind} = false"
            )
        found[kind] = ids[0] if ids else None
    return special_ids(found["bos"], found["eos"], found["pad"])


def special_ids(bos: int | None, eos: int | None, pad: int | None) -> SpecialIds:
    """Return the ids; rows are padded with eos, then with id 0, where there is no padding token."""
    if pad is None:
        pad = 0 if eos is None else eos
    return SpecialIds(bos, eos, pad)


def refuse_text_tokens(
    settings: TokenizerSettings, file: Path, texts: Mapping[int, str], special: SpecialIds
) -> list[str]:
    """Make sure that the begin and end of documents cannot come from their text.

    Args:
        settings: say which tokens are added to documents.
        file: the tokenizer's file, for messages.
        texts: tokens that the tokenizer makes from text, by id.
        special: the tokens that begin and end documents.

    Returns:
        The texts of such tokens; with ``special_tokens = "refuse"`` no document may hold them.

    Raises:
        RecordError: such a token is added to documents, and text with it is not refused.
    """
    found = []
    for kind, number, added in (
        ("bos", special.bos, settings.bos),
        ("eos", special.eos, settings.eos),
    ):
        if added and number is not None and number in texts:
            if settings.special_tokens != "refuse":
                raise RecordError(
                    f"{file}: the {kind} token {texts[number]!r} is an ordinary token, which the "
                    f"text of a document can produce; name a special token as "
                    f"tokenizer.{kind}_token, or set tokenizer.special_tokens = 'refuse'"
                )
            found.append(texts[number])
    return found


class SpecialTextGuard:
    """Refuses documents that hold the text of a special token."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self.tokens = sorted(filter(None, tokens), key=lambda token: (-len(token), token))
        self.pattern = "|".join(re.escape(token) for token in self.tokens)

    def check(self, text: pa.Array) -> None:
        """Check a batch of documents.

        Raises:
            SpecialTokenError: names the first such document and its first special token.
        """
        if not self.tokens:
            return
        found = pc.match_substring_regex(text, self.pattern)
        row = pc.index(found, True).as_py()
        if row >= 0:
            document = text[row].as_py()
            token = min(filter(document.__contains__, self.tokens), key=document.index)
            raise SpecialTokenError(row, token)

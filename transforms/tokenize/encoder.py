"""The encoder interface: a column of text in, one flat array of token ids out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.record import RecordError
from transforms.tokenize.settings import TokenizerSettings

MAX_VOCAB_SIZE = 1 << 31
"""Ids are int32."""


class SpecialTokenError(RecordError):
    """A document holds the text of a special token, and the settings refuse that.

    Attributes:
        row: index of the document in the array given to the encoder.
        token: text of the special token.
    """

    def __init__(self, row: int, token: str, document: str | None = None) -> None:
        super().__init__(
            f"document {document or row} holds the text of the special token {token!r}; remove it, or set "
            "tokenizer.special_tokens = 'text' to encode it as ordinary text"
        )
        self.row = row
        self.token = token


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of a batch of documents.

    Attributes:
        offsets: int64 [documents + 1]; document ``i`` is ``ids[offsets[i]:offsets[i + 1]]``.
        ids: int32 [tokens].
    """

    offsets: npt.NDArray[np.int64]
    ids: npt.NDArray[np.int32]

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each document, int64 [documents]."""
        return np.diff(self.offsets)


class Encoder(Protocol):
    """A loaded tokenizer. Its methods may be called from several threads at once."""

    @property
    def vocab_size(self) -> int:
        """Number of ids; every id is below it."""
        ...

    @property
    def bos_id(self) -> int | None:
        """Id of the begin-of-sequence token, None where there is none."""
        ...

    @property
    def eos_id(self) -> int | None:
        """Id of the end-of-sequence token, None where there is none."""
        ...

    @property
    def pad_id(self) -> int:
        """Id that fills rows: the padding token's, else the end-of-sequence token's, else 0."""
        ...

    @property
    def path(self) -> str:
        """Which way the text goes, and why, in a few words."""
        ...

    def encode(self, text: pa.Array) -> Encoded:
        """Encode documents, without bos and eos; special tokens never come from text.

        Args:
            text: string or large_string [documents]; null counts as empty.

        Returns:
            The ids that the tokenizer's own library gives for each document.

        Raises:
            SpecialTokenError: a document holds a special token's text and the settings refuse it.
        """
        ...

    def decode(self, ids: Sequence[int] | npt.NDArray[np.int32]) -> str:
        """Return the text of some ids; bytes that are no UTF-8 become U+FFFD."""
        ...


def load_encoder(file: Path, settings: TokenizerSettings) -> Encoder:
    """Load a tokenizer from its file.

    Args:
        file: a sentencepiece ``.model``, a ``tokenizer.json`` or a ``.tiktoken`` file, as
            ``settings.kind`` says.
        settings: the tokenizer's settings; ``model`` is not read, ``file`` takes its place.

    Raises:
        RecordError: the file does not parse, a token that the settings need is missing, or the
            vocabulary does not fit int32 ids.
    """
    if settings.kind == "sentencepiece":
        from transforms.tokenize.sentencepiece_model import load_sentencepiece

        return load_sentencepiece(file, settings)
    if settings.kind == "hf":
        from transforms.tokenize.hf_file import load_hf

        return load_hf(file, settings)
    from transforms.tokenize.tiktoken_file import load_tiktoken

    return load_tiktoken(file, settings)


def with_special_tokens(encoded: Encoded, bos_id: int | None, eos_id: int | None) -> Encoded:
    """Add bos and eos to every document that has a token.

    A document without a token stays empty: it is dropped as ``empty``, and an end-of-sequence
    token alone would make it look like text.

    Args:
        encoded: ids without bos and eos.
        bos_id: id put before each document, None for none.
        eos_id: id put after each document, None for none.

    Returns:
        The ids with bos and eos; the argument itself where both are None.
    """
    extra = (bos_id is not None) + (eos_id is not None)
    if not extra:
        return encoded
    full = encoded.offsets[1:] > encoded.offsets[:-1]
    offsets = encoded.offsets.copy()
    offsets[1:] += extra * np.cumsum(full)
    ids = np.empty(int(offsets[-1]), dtype=np.int32)
    is_text = np.ones(len(ids), dtype=np.bool_)
    for special, places in ((bos_id, offsets[:-1][full]), (eos_id, offsets[1:][full] - 1)):
        if special is not None:
            ids[places] = special
            is_text[places] = False
    ids[is_text] = encoded.ids
    return Encoded(offsets, ids)


def checked_vocab_size(size: int, file: Path) -> int:
    """Return the vocabulary size.

    Raises:
        RecordError: the vocabulary is empty, or an id would not fit int32.
    """
    if not 0 < size <= MAX_VOCAB_SIZE:
        raise RecordError(
            f"{file}: a vocabulary of {size} ids; from 1 to {MAX_VOCAB_SIZE} (int32) can be used"
        )
    return size

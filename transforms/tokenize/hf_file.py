"""Hugging Face ``tokenizer.json`` files, encoded by the tokenizers library."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tokenizers

from transforms.record import RecordError
from transforms.tokenize.encoder import Encoded, Encoder, checked_vocab_size
from transforms.tokenize.library import encode_in_batches
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.special import SpecialIds, SpecialTextGuard, find_special_ids


class HfEncoder:
    """A ``tokenizer.json`` and ``encode_batch_fast``, which releases the GIL."""

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        special: SpecialIds,
        guard: SpecialTextGuard | None,
        path: str,
    ) -> None:
        self.tokenizer = tokenizer
        self.vocab_size = 1 + max(tokenizer.get_vocab(with_added_tokens=True).values())
        self.bos_id = special.bos
        self.eos_id = special.eos
        self.pad_id = special.pad
        self.path = path
        self._guard = guard

    def encode(self, text: pa.Array) -> Encoded:
        """Encode documents; see :class:`transforms.tokenize.encoder.Encoder`."""
        if self._guard is not None:
            self._guard.check(text)
        return encode_in_batches(text, self._encode_batch)

    def _encode_batch(self, documents: list[str]) -> list[list[int]]:
        encoded = self.tokenizer.encode_batch_fast(documents, add_special_tokens=False)
        return [item.ids for item in encoded]

    def decode(self, ids: Sequence[int] | npt.NDArray[np.int32]) -> str:
        """Return the text of some ids, special tokens included."""
        numbers = np.asarray(ids, dtype=np.int32).tolist()
        text: str = self.tokenizer.decode(numbers, skip_special_tokens=False)
        return text


def load_hf(file: Path, settings: TokenizerSettings) -> Encoder:
    """Load a ``tokenizer.json``.

    Truncation and padding that the file may ask for are switched off: a document is encoded whole.

    Raises:
        RecordError: the file does not parse, or lacks a token that the settings need.
    """
    # One thread a call: the pipeline's own workers are the parallel part.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        tokenizer = tokenizers.Tokenizer.from_str(file.read_text(encoding="utf-8"))
    except Exception as error:
        raise RecordError(
            f"{file}: not a tokenizer.json ({error}); tokenizer.model must name one"
        ) from error
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    checked_vocab_size(1 + max(vocabulary.values(), default=-1), file)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # their text is ordinary text
    added = tokenizer.get_added_tokens_decoder()
    specials = {token.content for token in added.values() if token.special}
    # Tokens named in the settings may be ordinary entries of the vocabulary.
    named = {settings.bos_token, settings.eos_token, settings.pad_token}
    special = find_special_ids(
        settings, file, lambda name: vocabulary.get(name) if name in specials | named else None
    )
    guard = SpecialTextGuard(specials) if settings.special_tokens == "refuse" else None
    return HfEncoder(tokenizer, special, guard, "tokenizers library")

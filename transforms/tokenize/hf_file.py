"""Hugging Face ``tokenizer.json`` files, encoded by the tokenizers library."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tokenizers

from transforms.record import RecordError
from transforms.tokenize.encoder import Encoded, Encoder, checked_vocab_size
from transforms.tokenize.hf_byte_level import read_byte_level
from transforms.tokenize.library import encode_in_batches
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.special import (
    SpecialIds,
    SpecialTextGuard,
    find_special_ids,
    refuse_text_tokens,
)
from transforms.tokenize.split_encoder import SplitEncoder, split_encoder
from transforms.tokenize.split_proof import agreement_by_ends


class HfEncoder:
    """A ``tokenizer.json``: by split kernels where they are proved, else ``encode_batch_fast``."""

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        special: SpecialIds,
        guard: SpecialTextGuard | None,
    ) -> None:
        self.tokenizer = tokenizer
        self.vocab_size = 1 + max(tokenizer.get_vocab(with_added_tokens=True).values())
        self.bos_id = special.bos
        self.eos_id = special.eos
        self.pad_id = special.pad
        self.path = "tokenizers library"
        self._guard = guard
        self._faster: SplitEncoder | None = None

    def encode(self, text: pa.Array) -> Encoded:
        """Encode documents; see :class:`transforms.tokenize.encoder.Encoder`."""
        if self._guard is not None:
            self._guard.check(text)
        if self._faster is not None:
            return self._faster.encode(text)
        return self.encode_by_library(text)

    def encode_by_library(self, text: pa.Array) -> Encoded:
        """Encode documents with the tokenizers library, which releases the GIL."""
        return encode_in_batches(text, self._encode_batch)

    def use(self, faster: SplitEncoder | str) -> None:
        """Take the faster way, or note the reason why there is none."""
        if isinstance(faster, str):
            self.path = f"tokenizers library: {faster}"
        else:
            self._faster = faster
            self.path = "split kernels"

    @property
    def counters(self) -> dict[str, int]:
        """How often the cache of spans was asked, and its size; empty for the library's way."""
        return {} if self._faster is None else self._faster.spans.counters

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
        content = file.read_text(encoding="utf-8")
        tokenizer = tokenizers.Tokenizer.from_str(content)
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
    ordinary = {number: text for text, number in vocabulary.items() if text not in specials}
    specials.update(refuse_text_tokens(settings, file, ordinary, special))
    guard = SpecialTextGuard(specials) if settings.special_tokens == "refuse" else None
    encoder = HfEncoder(tokenizer, special, guard)
    encoder.use(_faster(encoder, json.loads(content), settings.encode_cache_mib << 20))
    return encoder


def _faster(encoder: HfEncoder, config: dict[str, Any], cache_bytes: int) -> SplitEncoder | str:
    """Return the encoder by split kernels, or the reason why the library is used."""
    model = read_byte_level(config)
    if isinstance(model, str):
        return model
    pre_tokenizer = encoder.tokenizer.pre_tokenizer

    def ends(text: str) -> list[int]:
        return [end for _, (_, end) in pre_tokenizer.pre_tokenize_str(text)]

    return split_encoder(
        model, lambda rules: agreement_by_ends(rules, ends), encoder.encode_by_library, cache_bytes
    )

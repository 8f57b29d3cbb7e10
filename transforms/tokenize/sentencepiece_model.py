"""sentencepiece models: BPE by safe cuts where that is proved exact, all else by the library."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sentencepiece

from transforms.record import RecordError
from transforms.tokenize.arrow_text import text_buffers, with_leading_space
from transforms.tokenize.encoder import Encoded, Encoder, checked_vocab_size
from transforms.tokenize.library import batches, encode_in_batches
from transforms.tokenize.proof import disproof
from transforms.tokenize.safe_cut_tables import safe_cut_tables, unsuitable
from transforms.tokenize.safe_cuts import Joins, encode_by_cuts
from transforms.tokenize.sentencepiece_proto import (
    CONTROL,
    NORMAL,
    USER_DEFINED,
    ModelFacts,
    read_model,
)
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.span_encoder import SpanEncoder
from transforms.tokenize.special import (
    SpecialIds,
    SpecialTextGuard,
    refuse_text_tokens,
    special_ids,
)
from transforms.tokenize.vocabulary import NO_SYMBOL, Vocabulary


class SentencepieceEncoder:
    """A sentencepiece model and ``sp.encode``, which releases the GIL."""

    def __init__(
        self,
        processor: sentencepiece.SentencePieceProcessor,
        special: SpecialIds,
        guard: SpecialTextGuard | None,
        path: str,
    ) -> None:
        self.processor = processor
        self.special = special
        self.guard = guard
        self.vocab_size: int = processor.get_piece_size()
        self.bos_id = special.bos
        self.eos_id = special.eos
        self.pad_id = special.pad
        self.path = path

    def encode(self, text: pa.Array) -> Encoded:
        """Encode documents; see :class:`transforms.tokenize.encoder.Encoder`."""
        if self.guard is not None:
            self.guard.check(text)
        return self._encode(text)

    def _encode(self, text: pa.Array) -> Encoded:
        return self.encode_by_library(text)

    def encode_by_library(self, text: pa.Array) -> Encoded:
        """Encode documents with the sentencepiece library, which releases the GIL."""
        return encode_in_batches(text, self._encode_batch)

    def _encode_batch(self, documents: list[str]) -> list[npt.NDArray[np.int32]]:
        encoded: list[npt.NDArray[np.int32]] = self.processor.encode(
            documents, return_type="numpy", num_threads=1
        )
        return encoded

    def decode(self, ids: Sequence[int] | npt.NDArray[np.int32]) -> str:
        """Return the text of some ids; control symbols have none."""
        text: str = self.processor.decode(np.asarray(ids, dtype=np.int32).tolist())
        return text


class SafeCutEncoder(SentencepieceEncoder):
    """A sentencepiece BPE model, encoded span by span (:mod:`transforms.tokenize.safe_cuts`)."""

    def __init__(
        self,
        library: SentencepieceEncoder,
        facts: ModelFacts,
        vocabulary: Vocabulary,
        joins: Joins,
        cache_bytes: int,
    ) -> None:
        super().__init__(library.processor, library.special, library.guard, "safe cuts")
        # A space outside the vocabulary is spelled as the three bytes of U+2581.
        space_known = vocabulary.characters[ord(" ")] != NO_SYMBOL
        self.spans = SpanEncoder(
            partial(encode_by_cuts, joins, vocabulary), cache_bytes, 1 if space_known else 3
        )
        self._library_normalizes = facts.character_map or facts.trims_spaces
        self._leading_space = facts.dummy_prefix
        if self._library_normalizes:
            self.path += " after the library's normalization"

    @property
    def counters(self) -> dict[str, int]:
        """How often the cache of spans was asked, and its size; over all threads."""
        return self.spans.counters

    def _encode(self, text: pa.Array) -> Encoded:
        if self._library_normalizes:
            normalized = [s for batch in batches(text) for s in self.processor.normalize(batch)]
            return self.spans.encode(*text_buffers(pa.array(normalized, pa.large_string())))
        data, offsets = text_buffers(text)
        if self._leading_space:
            data, offsets = with_leading_space(data, offsets)
        return self.spans.encode(data, offsets)


def load_sentencepiece(file: Path, settings: TokenizerSettings) -> Encoder:
    """Load a sentencepiece model.

    Raises:
        RecordError: the file is no sentencepiece model, or lacks a token that the settings need.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        model = file.read_bytes()
        processor.load_from_serialized_proto(model)
        facts = read_model(model)
    except (OSError, RuntimeError, ValueError) as error:
        raise RecordError(
            f"{file}: not a sentencepiece model ({error}); tokenizer.model must name a .model file"
        ) from error
    checked_vocab_size(len(facts.pieces), file)
    special = _special_ids(processor, file, settings)
    ordinary = np.flatnonzero(np.isin(facts.types, (NORMAL, USER_DEFINED))).tolist()
    named = refuse_text_tokens(settings, file, {i: facts.pieces[i] for i in ordinary}, special)
    guard = None
    if settings.special_tokens == "refuse":
        controls = [facts.pieces[i] for i in np.flatnonzero(facts.types == CONTROL)]
        guard = SpecialTextGuard([*controls, *named])
    library = SentencepieceEncoder(processor, special, guard, "sentencepiece library")
    faster = _faster(library, facts, settings.encode_cache_mib << 20)
    if isinstance(faster, str):
        library.path += f": {faster}"
        return library
    return faster


def _faster(
    library: SentencepieceEncoder, facts: ModelFacts, cache_bytes: int
) -> SafeCutEncoder | str:
    """Return the encoder by safe cuts, or the reason why the library is used."""
    reason = unsuitable(facts)
    if reason is not None:
        return reason
    tables = safe_cut_tables(facts)
    if isinstance(tables, str):
        return tables
    texts = [facts.pieces[i] for i in np.flatnonzero(np.isin(facts.types, (NORMAL, USER_DEFINED)))]
    faster = SafeCutEncoder(library, facts, *tables, cache_bytes)
    reason = disproof(texts, faster._encode, library.encode_by_library)
    faster.spans.forget()
    return reason or faster


def _special_ids(
    processor: sentencepiece.SentencePieceProcessor, file: Path, settings: TokenizerSettings
) -> SpecialIds:
    """Return bos, eos and pad: the tokens named in the settings, else what the model says."""
    found: dict[str, int | None] = {}
    for kind, named, own, needed in (
        ("bos", settings.bos_token, processor.bos_id(), settings.bos),
        ("eos", settings.eos_token, processor.eos_id(), settings.eos),
        ("pad", settings.pad_token, processor.pad_id(), False),
    ):
        if named is not None:
            own = processor.piece_to_id(named)
            if processor.id_to_piece(own) != named:
                raise RecordError(
                    f"{file}: tokenizer.{kind}_token = {named!r} is not a piece of this model"
                )
        if own < 0 and needed:
            raise RecordError(
                f"{file}: tokenizer.{kind} = true, but the model has no {kind} piece; name one as "
                f"tokenizer.{kind}_token or set tokenizer.{kind} = false"
            )
        found[kind] = own if own >= 0 else None
    return special_ids(found["bos"], found["eos"], found["pad"])

"""sentencepiece models, encoded by the sentencepiece library."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sentencepiece

from transforms.record import RecordError
from transforms.tokenize.encoder import Encoded, Encoder, checked_vocab_size
from transforms.tokenize.library import encode_in_batches
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.special import SpecialIds, SpecialTextGuard, special_ids


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
        self.vocab_size: int = processor.get_piece_size()
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

    def _encode_batch(self, documents: list[str]) -> list[npt.NDArray[np.int32]]:
        encoded: list[npt.NDArray[np.int32]] = self.processor.encode(
            documents, return_type="numpy", num_threads=1
        )
        return encoded

    def decode(self, ids: Sequence[int] | npt.NDArray[np.int32]) -> str:
        """Return the text of some ids; control symbols have none."""
        text: str = self.processor.decode(np.asarray(ids, dtype=np.int32).tolist())
        return text


def load_sentencepiece(file: Path, settings: TokenizerSettings) -> Encoder:
    """Load a sentencepiece model.

    Raises:
        RecordError: the file is no sentencepiece model, or lacks a token that the settings need.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(file.read_bytes())
    except (OSError, RuntimeError, ValueError) as error:
        raise RecordError(
            f"{file}: not a sentencepiece model ({error}); tokenizer.model must name a .model file"
        ) from error
    checked_vocab_size(processor.get_piece_size(), file)
    special = _special_ids(processor, file, settings)
    guard = None
    if settings.special_tokens == "refuse":
        guard = SpecialTextGuard(
            processor.id_to_piece(i)
            for i in range(processor.get_piece_size())
            if processor.is_control(i)
        )
    return SentencepieceEncoder(processor, special, guard, "sentencepiece library")


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

"""What a sentencepiece model says of itself, read from its protocol buffer.

The classes that ship with sentencepiece need the newest protobuf runtime; the few fields needed here
(sentencepiece_model.proto, ModelProto) are read from the wire format.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE = 1, 2

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The parts of a model that decide how it encodes.

    Attributes:
        pieces: text of each piece, by id.
        scores: float32 [pieces].
        types: int8 [pieces], NORMAL to BYTE.
        model_type: UNIGRAM, BPE or another number.
        byte_fallback: whether characters outside the vocabulary are spelled in bytes.
        whitespace_suffix: whether the dummy space goes to the end.
        character_map: whether a normalization table is applied.
        dummy_prefix: whether a space is put before each document.
        trims_spaces: whether spaces at the ends and repeated ones are removed.
        escapes_spaces: whether the space is written as U+2581 in pieces.
    """

    pieces: list[str]
    scores: npt.NDArray[np.float32]
    types: npt.NDArray[np.int8]
    model_type: int
    byte_fallback: bool
    whitespace_suffix: bool
    character_map: bool
    dummy_prefix: bool
    trims_spaces: bool
    escapes_spaces: bool


def read_model(model: bytes) -> ModelFacts:
    """Read a serialized ModelProto.

    Raises:
        ValueError: the bytes are no protocol buffer of this shape.
    """
    pieces: list[str] = []
    scores: list[bytes] = []
    types: list[int] = []
    trainer: dict[int, int | bytes] = {}
    normalizer: dict[int, int | bytes] = {}
    for number, value in _fields(model):
        if number == 1:
            text, score, kind = _piece(_as_bytes(value))
            pieces.append(text.decode())
            scores.append(score)
            types.append(kind)
        elif number == 2:
            trainer = dict(_fields(_as_bytes(value)))
        elif number == 3:
            normalizer = dict(_fields(_as_bytes(value)))
    return ModelFacts(
        pieces=pieces,
        scores=np.frombuffer(b"".join(scores), dtype="<f4").astype(np.float32),
        types=np.array(types, dtype=np.int8),
        model_type=int(trainer.get(3, UNIGRAM)),
        byte_fallback=bool(trainer.get(35, 0)),
        whitespace_suffix=bool(trainer.get(24, 0)),
        character_map=bool(normalizer.get(2, b"")),
        dummy_prefix=bool(normalizer.get(3, 1)),
        trims_spaces=bool(normalizer.get(4, 1)),
        escapes_spaces=bool(normalizer.get(5, 1)),
    )


def _piece(message: bytes) -> tuple[bytes, bytes, int]:
    """Return text, score (4 bytes) and type of a piece."""
    # Nearly every piece is written as text, score and no type: read without the general way.
    plain = len(message) > 7 and message[0] == 0x0A and message[1] == len(message) - 7 < 128
    if plain and message[-5] == 0x15:
        return message[2:-5], message[-4:], NORMAL
    fields = dict(_fields(message))
    score = _as_bytes(fields.get(2, bytes(4)))
    return _as_bytes(fields.get(1, b"")), score, int(fields.get(3, NORMAL))


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError(f"a message was expected, the number {value} found")
    return value


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield field number and value of a message; fixed-width numbers come as their bytes."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == _VARINT:
            value, place = _varint(message, place)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, place = _varint(message, place)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"wire type {kind} at byte {place}")
        if place + size > len(message):
            raise ValueError(f"field {key >> 3} runs past the end, byte {place}")
        yield key >> 3, message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(message) and shift < 64:
        byte = message[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7
    raise ValueError(f"a number breaks off at byte {place}")

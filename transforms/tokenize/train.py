"""Training a sentencepiece model on a sample drawn in chunks from all documents."""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sentencepiece

from transforms.record import RecordError, mix64
from transforms.tokenize.arrow_text import text_buffers
from transforms.tokenize.settings import DEFAULT_VOCAB_SIZE, TokenizerSettings

CHUNK_BYTES = 3072
"""Documents are cut into chunks of about this size, at white space where there is some."""
BOUNDARY_SEARCH_BYTES = 64

CONTROL_SYMBOLS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|system|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<|end|>",
    "<|tools|>",
    "<|/tools|>",
    "<|tool_call|>",
    "<|/tool_call|>",
    "<|tool_response|>",
    "<|/tool_response|>",
    "<|fim_prefix|>",
    "<|fim_middle|>",
    "<|fim_suffix|>",
)
"""Chat, tool and fill-in-the-middle markers of a trained model. Text can never produce them."""
USER_SYMBOLS = ("\n", "\t")
"""Always tokens of their own, and the only ones that text produces."""
RESERVED_IDS = 4 + len(CONTROL_SYMBOLS) + len(USER_SYMBOLS) + 256
"""unk, bos, eos, pad, the markers, newline and tab, and one id for each byte."""
CHARACTER_COVERAGE = 0.9995
# Stored in the model and used to share out the counting, so it is the same on every machine.
TRAINING_THREADS = 2


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """A trained model and what a user should know about its training.

    Attributes:
        model: bytes of the ``.model`` file.
        vocab_size: number of its pieces.
        character_coverage: share of the sample's characters that are pieces or in one; the rest is
            spelled in bytes.
        notes: sentences about what was changed to make the training possible.
    """

    model: bytes
    vocab_size: int
    character_coverage: float
    notes: tuple[str, ...]


def sample_chunks(
    text: pa.Array, doc_uid: npt.NDArray[np.int64], rate: float, seed: int
) -> list[str]:
    """Draw the training sample of some documents.

    Each document is cut into chunks of about 3 KB, and a chunk is drawn when the hash of (uid,
    chunk number, seed) falls under ``rate``: the draw does not depend on partitions or order, and
    costs time for the drawn chunks only.

    Args:
        text: string or large_string [documents]; null counts as empty.
        doc_uid: int64 [documents].
        rate: share of the chunks to draw, 0 to 1.
        seed: seed of the draw.

    Returns:
        The drawn chunks, in document order.
    """
    data, offsets = text_buffers(text)
    lengths = np.diff(offsets)
    chunks = -(-lengths // CHUNK_BYTES)
    document = np.repeat(np.arange(len(lengths)), chunks)
    number = np.arange(len(document)) - np.repeat(np.cumsum(chunks) - chunks, chunks)
    key = mix64(doc_uid[document], seed).view(np.int64) + number
    threshold = np.uint64(max(0.0, min(rate, 1.0)) * (1 << 63))
    drawn = np.flatnonzero(mix64(key, seed) >> np.uint64(1) < threshold)
    found = []
    for i in drawn.tolist():
        start, end = int(offsets[document[i]]), int(offsets[document[i] + 1])
        low = _boundary(data, start, end, start + int(number[i]) * CHUNK_BYTES)
        high = _boundary(data, start, end, start + (int(number[i]) + 1) * CHUNK_BYTES)
        if low < high:
            found.append(bytes(data[low:high]).decode())
    return found


def _boundary(data: npt.NDArray[np.uint8], start: int, end: int, place: int) -> int:
    """Return where a chunk begins or ends: at white space after ``place``, else at a character."""
    if place <= start or place >= end:
        return max(start, min(place, end))
    window = bytes(data[place : min(end, place + BOUNDARY_SEARCH_BYTES)])
    space = re.search(rb"[ \n]", window)
    if space:
        return place + space.start()
    character = re.search(rb"[\x00-\x7f\xc0-\xff]", window)
    return place + character.start() if character else end


def train_sentencepiece(chunks: Sequence[str], settings: TokenizerSettings) -> TrainedModel:
    """Train a sentencepiece model.

    Its bytes depend on the set of chunks and the settings alone. Bytes spell characters outside
    the vocabulary, digits stand alone, text is not normalized, white space is kept, newline and
    tab are tokens of their own and :data:`CONTROL_SYMBOLS` are control symbols.

    Args:
        chunks: text to train on, in any order; may be empty, the vocabulary is then the bytes.
        settings: vocabulary size and model type.

    Returns:
        The model. Where the sample is too small for the vocabulary size, it is the largest that
        the sample gives; the notes say so.

    Raises:
        RecordError: the vocabulary size has no room for the bytes and the markers.
    """
    size = settings.vocab_size or DEFAULT_VOCAB_SIZE
    if size < RESERVED_IDS + 2:
        raise RecordError(
            f"tokenizer.vocab_size = {size} has no room for text: bytes and special tokens take "
            f"{RESERVED_IDS}; use {RESERVED_IDS + 256} or more"
        )
    notes = []
    texts = sorted(filter(str.strip, map(_without_reserved, chunks)))
    if not texts:
        notes.append("there was no text to train on: the vocabulary is the bytes")
        texts = ["a"]
    limit = min(size // 2, size - RESERVED_IDS - 1)
    coverage, rare = _character_coverage(texts, limit)
    if coverage < CHARACTER_COVERAGE:
        notes.append(
            f"character coverage lowered to {coverage:.4%}, so that characters take at most half "
            f"of the vocabulary ({limit} of {size})"
        )
        texts = [text.translate(rare) for text in texts]
    model = _train(texts, settings.model_type, size, coverage)
    trained = sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()
    if trained < size:
        notes.append(f"vocabulary of {trained}: the sample gives no {size} pieces")
    return TrainedModel(model, trained, coverage, tuple(notes))


def _without_reserved(chunk: str) -> str:
    """Replace the characters whose lines the trainer would skip."""
    return chunk.replace("\0", "\n").replace("\u2585", "\n")


def _character_coverage(texts: Sequence[str], limit: int) -> tuple[float, dict[int, str]]:
    """Choose the characters that enter the vocabulary, the most frequent first.

    Returns:
        The share of the characters that they cover, and a translation that replaces all others by
        a newline, empty where the usual coverage needs at most ``limit`` characters.
    """
    counts = np.zeros(0x110000, dtype=np.int64)
    for start in range(0, len(texts), 1024):
        joined = "".join(texts[start : start + 1024])
        points = np.frombuffer(joined.encode("utf-32-le"), dtype=np.uint32)
        counts += np.bincount(points, minlength=len(counts))
    counts[[ord(character) for character in USER_SYMBOLS]] = 0
    used = np.flatnonzero(counts)
    ranked = used[np.argsort(-counts[used], kind="stable")]
    covered = np.cumsum(counts[ranked]) / counts.sum()
    if np.searchsorted(covered, CHARACTER_COVERAGE) < limit:
        return CHARACTER_COVERAGE, {}
    return float(covered[limit - 1]), dict.fromkeys(ranked[limit:].tolist(), "\n")


def _train(texts: Sequence[str], model_type: str, size: int, coverage: float) -> bytes:
    # The trainer wants a coverage of 0.98 or more; below the usual one, rare characters are gone
    # from the texts already.
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=writer,
        model_type=model_type,
        vocab_size=size,
        hard_vocab_limit=False,
        character_coverage=coverage if coverage == CHARACTER_COVERAGE else 1.0,
        required_chars="\u2581",  # the space: as bytes it would not decode to a space
        max_sentence_length=max(10, *(len(text.encode()) for text in texts)),
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        allow_whitespace_only_pieces=True,
        split_digits=True,
        byte_fallback=True,
        user_defined_symbols=list(USER_SYMBOLS),
        control_symbols=list(CONTROL_SYMBOLS),
        unk_id=0,
        bos_id=1,
        eos_id=2,
        pad_id=3,
        num_threads=TRAINING_THREADS,
        minloglevel=2,
    )
    return writer.getvalue()

"""tiktoken files (one base64 token and its rank a line), encoded by the tiktoken library."""

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tiktoken

from transforms.record import RecordError
from transforms.tokenize.encoder import Encoded, Encoder, checked_vocab_size
from transforms.tokenize.library import encode_in_batches
from transforms.tokenize.patterns import DEFAULT_PATTERN, PATTERNS
from transforms.tokenize.settings import TokenizerSettings
from transforms.tokenize.special import SpecialIds, SpecialTextGuard, find_special_ids
from transforms.tokenize.split_encoder import (
    ByteLevelModel,
    SplitEncoder,
    spelled_pairs,
    split_encoder,
)
from transforms.tokenize.split_proof import agreement_by_ids

# A tiktoken file holds no special tokens: these are the published ids, by pattern and the number
# of ranks.
PUBLISHED_SPECIALS: dict[tuple[str, int], dict[str, int]] = {
    ("gpt2", 50_256): {"<|endoftext|>": 50_256},
    ("gpt2", 50_280): {"<|endoftext|>": 50_256},
    ("cl100k", 100_256): {
        "<|endoftext|>": 100_257,
        "<|fim_prefix|>": 100_258,
        "<|fim_middle|>": 100_259,
        "<|fim_suffix|>": 100_260,
        "<|endofprompt|>": 100_276,
    },
    ("o200k", 199_998): {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018},
    ("llama3", 128_000): {
        "<|begin_of_text|>": 128_000,
        "<|end_of_text|>": 128_001,
        "<|finetune_right_pad_id|>": 128_004,
        "<|start_header_id|>": 128_006,
        "<|end_header_id|>": 128_007,
        "<|eom_id|>": 128_008,
        "<|eot_id|>": 128_009,
    },
    ("qwen", 151_643): {
        "<|endoftext|>": 151_643,
        "<|im_start|>": 151_644,
        "<|im_end|>": 151_645,
    },
}


class TiktokenEncoder:
    """A tiktoken vocabulary: by split kernels where they are proved, else ``encode_to_numpy``."""

    def __init__(
        self,
        encoding: tiktoken.Encoding,
        special: SpecialIds,
        guard: SpecialTextGuard | None,
    ) -> None:
        self.encoding = encoding
        self.vocab_size: int = encoding.n_vocab
        self.bos_id = special.bos
        self.eos_id = special.eos
        self.pad_id = special.pad
        self.path = "tiktoken library"
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
        """Encode documents with the tiktoken library, which releases the GIL."""
        return encode_in_batches(text, self._encode_batch)

    def use(self, faster: SplitEncoder | str) -> None:
        """Take the faster way, or note the reason why there is none."""
        if isinstance(faster, str):
            self.path = f"tiktoken library: {faster}"
        else:
            self._faster = faster
            self.path = "split kernels"

    @property
    def counters(self) -> dict[str, int]:
        """How often the cache of spans was asked, and its size; empty for the library's way."""
        return {} if self._faster is None else self._faster.spans.counters

    def _encode_batch(self, documents: list[str]) -> list[npt.NDArray[np.int32]]:
        return [self._encode_document(text) for text in documents]

    def _encode_document(self, text: str) -> npt.NDArray[np.int32]:
        try:
            ids = self.encoding.encode_to_numpy(text, disallowed_special=())
        except ValueError as error:  # its regular expressions give up on very long runs
            raise RecordError(
                f"tiktoken cannot split the document of {len(text)} characters that begins with "
                f"{text[:40]!r} ({error}); leave it out with ingest.max_chars, or use one of the "
                f"patterns {', '.join(PATTERNS)}"
            ) from error
        return np.asarray(ids, dtype=np.int32)

    def decode(self, ids: Sequence[int] | npt.NDArray[np.int32]) -> str:
        """Return the text of some ids, special tokens included."""
        numbers = np.asarray(ids, dtype=np.int32).tolist()
        text: str = self.encoding.decode(numbers, errors="replace")
        return text


def load_tiktoken(file: Path, settings: TokenizerSettings) -> Encoder:
    """Load a tiktoken file.

    Raises:
        RecordError: the file does not parse, a byte has no rank, or the settings need a token
            that has no id.
    """
    ranks = read_ranks(file)
    pattern = settings.pattern or DEFAULT_PATTERN
    specials = _specials(ranks, file, pattern, settings)
    checked_vocab_size(1 + max(*ranks.values(), *specials.values()), file)
    try:
        encoding = tiktoken.Encoding(
            file.name,
            pat_str=PATTERNS.get(pattern, pattern),
            mergeable_ranks=ranks,
            special_tokens=specials,
        )
    except ValueError as error:
        raise RecordError(f"tokenizer.pattern = {pattern!r}: {error}") from error
    special = find_special_ids(settings, file, specials.get)
    guard = SpecialTextGuard(specials) if settings.special_tokens == "refuse" else None
    encoder = TiktokenEncoder(encoding, special, guard)
    text = PATTERNS.get(pattern, pattern)
    model = ByteLevelModel(ranks, spelled_pairs(ranks), text, whole_tokens=True)
    cache_bytes = settings.encode_cache_mib << 20
    encoder.use(
        split_encoder(
            model,
            lambda rules: agreement_by_ids(rules, text),
            encoder.encode_by_library,
            cache_bytes,
        )
    )
    return encoder


def read_ranks(file: Path) -> dict[bytes, int]:
    """Read the tokens and ranks of a tiktoken file.

    Raises:
        RecordError: names the line that does not parse, the rank given twice, or the byte that has
            no rank.
    """
    ranks: dict[bytes, int] = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise RecordError(f"{file}: {error}; tokenizer.model must name a tiktoken file") from error
    for number, line in enumerate(lines, start=1):
        if not line:
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error) as error:
            raise RecordError(
                f"{file}: line {number} is not a base64 token and its rank ({error}); "
                "tokenizer.model must name a tiktoken file"
            ) from error
    checked_vocab_size(1 + max(ranks.values(), default=-1), file)
    if min(ranks.values()) < 0 or len(set(ranks.values())) != len(ranks):
        raise RecordError(f"{file}: ranks must be distinct and not negative")
    absent = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if absent:
        raise RecordError(f"{file}: byte 0x{absent[0]:02x} has no rank; all 256 bytes need one")
    return ranks


def _specials(
    ranks: dict[bytes, int], file: Path, pattern: str, settings: TokenizerSettings
) -> dict[str, int]:
    """Return the special tokens: published ones, those of the settings, then named ones."""
    specials = dict(PUBLISHED_SPECIALS.get((pattern, len(ranks)), {})) | settings.special_ids
    taken = {number: token.decode(errors="replace") for token, number in ranks.items()}
    for token, number in settings.special_ids.items():
        if number in taken:
            raise RecordError(
                f"{file}: tokenizer.special_ids gives {token!r} the id {number}, which is the "
                f"rank of {taken[number]!r}"
            )
        taken[number] = token
    free = 1 + max(*ranks.values(), *specials.values(), 0)
    for name in (settings.bos_token, settings.eos_token, settings.pad_token):
        if name is not None and name not in specials:
            specials[name] = free
            free += 1
    return specials

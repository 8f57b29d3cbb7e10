"""Vectors of documents without any model: hashed TF-IDF under a sparse projection by random signs.

The definition, whose reasons stand in docs/embedding.md. A document's **terms** are

* its words: tokens of :mod:`transforms.shingles`, case folded and without invisible characters;
* in scripts that write no spaces, the pairs of characters that follow each other; such a character
  without another one beside it is a term of its own.

A term weighs ``(1 + log2 tf) * (1 + log2((N + 1) / (df + 1)))``: ``tf`` is its count in the document,
``df`` the number of the corpus's N documents that have it, counted by buckets of its hash (of a large
corpus, both in a sample). The hash
and the seed choose eight dimensions, one in each eighth of the vector, and a sign in each (the block
construction of Kane and Nelson, "Sparser Johnson-Lindenstrauss Transforms", 2014, section 3). The
sum over the terms is scaled to length 1. A document of more than ``part`` terms is the mean of the
unit vectors of its parts, weighted by their terms.

Sums are float32 in the order in which terms first occur, logarithms are rounded to fixed steps: the
same text and counts give the same bytes everywhere.
"""

import functools
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from annotated_types import Ge, Gt, Le

from transforms.embed_kernels import HASH_BITS, NONZEROS, Vectors, count_documents, project
from transforms.record import mix64
from transforms.shingles import token_table
from transforms.text import string_buffers

RARITY_STEPS = 8
"""Steps per factor of 2 to which the rarity of a term is rounded."""
_FREQUENCY_STEPS = 1 << 10
_MOST_COUNTED = 1 << 16
_ROWS_AT_ONCE = 4096

Counts = npt.NDArray[np.int64]
Halves = npt.NDArray[np.float16]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedSettings:
    """Vectors of documents (`[embed]`): of their words, or given in a column."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    width: Annotated[int, Ge(8), Le(8192)] = 768
    """Dimensions of a vector; a multiple of 8 unless a column gives the vectors."""
    column: str | None = None
    """Column that holds a vector of `width` numbers for each document, one of `columns` of every
    source; without it vectors are made of the text."""
    buckets: Annotated[int, Ge(256), Le(1 << 24)] = 1 << 18
    """Counters for the number of documents that have a term; a power of 2. More of them tell rare
    terms apart better, at 4 bytes each."""
    count: Annotated[int, Gt(0)] = 1 << 15
    """Documents whose terms are counted, about. Of a larger corpus a half, a quarter or less is
    counted, chosen by the seed and their addresses, so that it is this many to half as many."""
    min_documents: Annotated[int, Gt(0)] = 1
    """Terms that fewer documents have are left out."""
    part: Annotated[int, Ge(64), Le(1 << 20)] = 8192
    """Terms from which on a document is embedded by parts."""
    frequencies: str | None = None
    """`frequencies-*.parquet` of an earlier run, whose counts are used instead of new ones: vectors
    of unchanged files then stay as they are when the corpus grows."""

    def __post_init__(self) -> None:
        """Check the rules across fields.

        Raises:
            ValueError: `buckets` is no power of 2, `width` does not divide, or a column is named
                together with settings that it leaves without effect.
        """
        if self.buckets & (self.buckets - 1):
            raise ValueError(
                f"buckets = {self.buckets} is no power of 2; "
                f"take {1 << self.buckets.bit_length() - 1}"
            )
        if self.column is None and self.width % NONZEROS:
            raise ValueError(
                f"width = {self.width} is no multiple of {NONZEROS}; "
                f"take {-(-self.width // NONZEROS) * NONZEROS}"
            )
        if self.column is not None and self.frequencies is not None:
            raise ValueError(
                "column and frequencies exclude each other: vectors of a column are taken as they "
                "are; remove one"
            )

    @property
    def shift(self) -> int:
        """Bits by which a term's hash is shifted to give its bucket."""
        return HASH_BITS + 1 - self.buckets.bit_length()


def halvings(documents: int, count: int) -> int:
    """Return how often a corpus is halved until no more than ``count`` documents are left."""
    return max(0, -(-documents // count) - 1).bit_length()


def counted_rows(doc_uid: Counts, times: int, seed: int) -> npt.NDArray[np.bool_]:
    """Return which documents are counted where the corpus is halved so many times.

    Args:
        doc_uid: addresses, any shape.
        times: see :func:`halvings`, at most 63.
        seed: chooses them.
    """
    last = np.uint64((1 << 64 - times) - 1)
    chosen: npt.NDArray[np.bool_] = mix64(doc_uid, seed) <= last
    return chosen


class DocumentCounter:
    """Counts in how many texts each bucket of terms occurs.

    Args:
        settings: how many buckets there are.
    """

    def __init__(self, settings: EmbedSettings) -> None:
        self._shift = settings.shift
        self._seen = np.zeros((settings.buckets, 2), np.int32)
        self.documents = 0
        """Texts so far, those without terms included."""

    def add(self, texts: pa.StringArray) -> None:
        """Count some texts; valid UTF-8."""
        offsets, data = string_buffers(texts)
        count_documents(offsets, data, *token_table(), self._shift, self.documents + 1, self._seen)
        self.documents += len(texts)

    @property
    def counts(self) -> Counts:
        """Texts that have each bucket, shape [buckets]."""
        return self._seen[:, 1].astype(np.int64)


def term_rarity(counts: Counts, documents: int, min_documents: int) -> Vectors:
    """Return the weight of each bucket: 1 + log2((documents + 1) / (count + 1)), rounded.

    Args:
        counts: documents that have each bucket, [buckets].
        documents: how many were counted.
        min_documents: buckets of fewer documents weigh nothing.

    Returns:
        float32 [buckets], multiples of 1 / RARITY_STEPS.
    """
    ratio = np.log2((documents + 1) / (counts + 1))
    weights = np.maximum(1 + np.rint(ratio * RARITY_STEPS) / RARITY_STEPS, 0)
    rarity: Vectors = np.where(counts < min_documents, 0, weights).astype(np.float32)
    return rarity


def embed_texts(
    texts: pa.StringArray, settings: EmbedSettings, rarity: Vectors, seed: int
) -> Halves:
    """Return the vectors of texts.

    Args:
        texts: valid UTF-8; nulls read as empty.
        settings: width, buckets and length of parts.
        rarity: weight of each bucket, see :func:`term_rarity`.
        seed: chooses dimensions and signs.

    Returns:
        float16 [texts, width], of length 1; zeros for a text without terms that weigh anything.
    """
    table, expansions = token_table()
    mixed_seed = mix64(np.zeros(1, np.int64), seed)[0]
    result = np.empty((len(texts), settings.width), np.float16)
    for start in range(0, len(texts), _ROWS_AT_ONCE):
        offsets, data = string_buffers(texts.slice(start, _ROWS_AT_ONCE))
        vectors = np.empty((len(offsets) - 1, settings.width), np.float32)
        project(
            offsets,
            data,
            table,
            expansions,
            settings.shift,
            settings.part,
            mixed_seed,
            rarity,
            _frequency_weights(),
            vectors,
        )
        result[start : start + len(vectors)] = vectors
    return result


@functools.cache
def _frequency_weights() -> Vectors:
    """Return 1 + log2 of each count, rounded; longer counts weigh like the last one."""
    counts = np.maximum(np.arange(_MOST_COUNTED), 1)
    weights = 1 + np.rint(np.log2(counts) * _FREQUENCY_STEPS) / _FREQUENCY_STEPS
    rounded: Vectors = weights.astype(np.float32)
    return rounded


def unicode_version() -> str:
    """Return the version of Unicode that says what a term is."""
    return unicodedata.unidata_version

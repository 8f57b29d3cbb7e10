"""Split patterns of the byte-level BPE families, as their publishers wrote them."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

DEFAULT_PATTERN = "cl100k"
UNLIMITED = 1 << 62

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"

PATTERNS = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"
        r"| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    "o200k": (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}?"
        rf"|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}?"
        rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_TAIL}"
    ),
    "llama3": (
        rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_TAIL}"
    ),
    "qwen": (
        rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_TAIL}"
    ),
}
"""Pattern by family: tiktoken's own of version 0.14 (gpt2, cl100k, o200k), Meta's and Qwen's."""

GPT2_ORIGINAL = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""GPT-2's pattern as it was published first, and as Hugging Face's ByteLevel splits."""


class Shape(IntEnum):
    """How the alternatives of a pattern are built."""

    GPT2 = 0
    CL100K = 1
    O200K = 2


@dataclass(frozen=True, slots=True)
class SplitRules:
    """A split pattern as the kernels follow it.

    Attributes:
        shape: how its alternatives are built.
        digits: longest run of digits that stays together.
        whole_tail: whether all white space at the end of a text is one part, newlines or not.
        long_s: whether ``'ſ`` counts as ``'s`` (Unicode case folding of the contractions).
    """

    shape: Shape
    digits: int = UNLIMITED
    whole_tail: bool = False
    long_s: bool = False

    def as_array(self) -> npt.NDArray[np.int64]:
        """Return int64 [4] for the kernels: shape, digits, whole_tail, long_s."""
        return np.array([self.shape, self.digits, self.whole_tail, self.long_s], dtype=np.int64)


RULES = {
    GPT2_ORIGINAL: SplitRules(Shape.GPT2),
    PATTERNS["gpt2"]: SplitRules(Shape.GPT2),
    PATTERNS["cl100k"]: SplitRules(Shape.CL100K, digits=3, whole_tail=True),
    PATTERNS["llama3"]: SplitRules(Shape.CL100K, digits=3),
    PATTERNS["qwen"]: SplitRules(Shape.CL100K, digits=1),
    PATTERNS["o200k"]: SplitRules(Shape.O200K, digits=3),
}
"""Rules by the text of the pattern. They are proved against the library before they are used, with
``long_s`` on and off, since the libraries' regular expressions differ in it."""

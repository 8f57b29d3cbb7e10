"""Split patterns of the byte-level BPE families, as their publishers wrote them."""

DEFAULT_PATTERN = "cl100k"

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"

PATTERNS = {
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "cl100k": (
        rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
        rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_TAIL}"
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
"""Pattern by family. In tiktoken's published files cl100k is written with possessive quantifiers
and ``\\s++$``, which splits the white space at the end of a document differently; give that pattern
itself as ``tokenizer.pattern`` where those ids are wanted."""

"""Settings of the tokenizer: which vocabulary, trained here or loaded, and its special tokens."""

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le, MinLen

DEFAULT_VOCAB_SIZE = 32_000

TokenizerKind = Literal["sentencepiece", "hf", "tiktoken"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FimSettings:
    """Fill in the middle (`[tokenizer.fim]`)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    rate: Annotated[float, Ge(0), Le(1)] = 0.5
    """Share of the documents that are rearranged."""
    spm_rate: Annotated[float, Ge(0), Le(1)] = 0.5
    """Share of these that are written suffix first; the others prefix first."""
    domains: tuple[str, ...] = ()
    """Domains whose documents are taken; all where none is named. Conversations never are."""
    prefix: Annotated[str, MinLen(1)] = "<|fim_prefix|>"
    """Special token before the prefix."""
    middle: Annotated[str, MinLen(1)] = "<|fim_middle|>"
    """Special token before the middle."""
    suffix: Annotated[str, MinLen(1)] = "<|fim_suffix|>"
    """Special token before the suffix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerSettings:
    """Which tokenizer encodes the documents."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    kind: TokenizerKind = "sentencepiece"
    """``sentencepiece`` (trained here, or a ``.model`` file), ``hf`` (a ``tokenizer.json``) or
    ``tiktoken`` (a file of base64 tokens and ranks)."""
    model: str | None = None
    """Path of the tokenizer's file. Without it a sentencepiece model is trained on a sample of the
    kept documents."""
    vocab_size: Annotated[int, Gt(0)] | None = None
    """Vocabulary size of a sentencepiece model trained here, special tokens included (default
    32000); not together with ``model``."""
    model_type: Literal["bpe", "unigram"] = "bpe"
    """Algorithm of a model trained here."""
    sample_mib: Annotated[int, Gt(0)] = 20
    """MiB of text that a model is trained on, drawn in chunks from all kept documents."""
    bos: bool = False
    """Begin every document with the begin-of-sequence token."""
    eos: bool = True
    """End every document with the end-of-sequence token."""
    bos_token: str | None = None
    """Text of the begin-of-sequence token, where the file does not tell it (hf, tiktoken)."""
    eos_token: str | None = None
    """Text of the end-of-sequence token, where the file does not tell it (hf, tiktoken)."""
    pad_token: str | None = None
    """Text of the padding token, where the file does not tell it (hf, tiktoken); without one, rows
    are padded with the end-of-sequence token."""
    special_tokens: Literal["text", "refuse"] = "text"
    """What happens to a special token's text inside a document: ``text`` encodes it as ordinary
    text, ``refuse`` ends the run with the document's name. Text never yields a special token."""
    pattern: str | None = None
    """Split pattern of a tiktoken file, which does not hold it: ``gpt2``, ``cl100k``, ``o200k``,
    ``llama3``, ``qwen`` or a regular expression (default ``cl100k``)."""
    special_ids: dict[str, Annotated[int, Ge(0)]] = field(default_factory=dict)
    """Special tokens of a tiktoken file, which does not hold them: text to id. The tokens of the
    published vocabularies are known; other named tokens follow the highest rank."""
    chat_template: str | None = None
    """Template of conversations: a Jinja file, or `chatml`, `hermes` or `llama3`; default: the one
    beside the tokenizer's file or inside it, `hermes` for a tokenizer trained here. Read only where
    there are conversations."""
    fim: FimSettings | None = None
    """Fill in the middle; without this table documents stay as they are."""
    encode_cache_mib: Annotated[int, Gt(0)] = 256
    """Bound of the cache of encoded spans, in MiB per worker. It never changes the ids."""

    def __post_init__(self) -> None:
        """Check the rules across fields, and fill the default vocabulary size.

        Raises:
            ValueError: settings that exclude each other, or a model that is needed and absent.
        """
        if self.kind != "sentencepiece":
            if self.model is None:
                raise ValueError(
                    f"kind = {self.kind!r} needs model = the path of the tokenizer's file; "
                    "only sentencepiece models are trained here"
                )
            if self.vocab_size is not None:
                raise ValueError(f"vocab_size belongs to training; remove it for {self.kind!r}")
        elif self.model is not None and self.vocab_size is not None:
            raise ValueError("model and vocab_size exclude each other: load a model or train one")
        elif self.model is None and self.vocab_size is None:
            object.__setattr__(self, "vocab_size", DEFAULT_VOCAB_SIZE)
        if self.kind != "tiktoken" and (self.pattern is not None or self.special_ids):
            raise ValueError("pattern and special_ids belong to kind = 'tiktoken'; remove them")

    @property
    def trains(self) -> bool:
        """Whether a model is trained from the documents."""
        return self.model is None

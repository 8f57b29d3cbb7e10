"""Sources: what a recipe says of them, and which files their globs name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, MinLen

from pipelines.formats.find import FoundFile, find_files
from pipelines.formats.stream import Compression
from transforms.record import RecordError
from transforms.tokenize.conversation import ROLES, TOOL_CALLS, Role, Training

Format = Literal["jsonl", "parquet", "txt", "md", "megatron"]

DEFAULT_ID = "id"
"""The id column of sources that name none; a record without it is named by its place."""

DEFAULT_LANG = "lang"

RESERVED_COLUMNS = frozenset(
    [
        "doc_uid",
        "id",
        "source",
        "domain",
        "lang",
        "n_chars",
        "n_bytes",
        "exact_hash",
        "reason",
        "text",
        "source_path",
        "source_line",
    ]
)
"""Columns every ingested shard has; a source's own columns take other names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """One input of the run (`[[sources]]`)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    name: Annotated[str, MinLen(1)]
    """Name of the source, part of every document's identity; unique in the recipe."""
    path: Annotated[str, MinLen(1)]
    """Glob of the files: a local path or any Beam file system (`gs://...`); `**` is any depth."""
    domain: Annotated[str, MinLen(1)] | None = None
    """Mixture domain of the documents; default: the source's name."""
    text: Annotated[str, MinLen(1)] = "text"
    """Column or key of the text."""
    id: Annotated[str, MinLen(1)] = DEFAULT_ID
    """Column or key of the id; without an `id` a record is named `path#row` (from 1), without one
    of another name it is rejected."""
    lang: Annotated[str, MinLen(1)] = DEFAULT_LANG
    """Column or key of the language."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Further columns to keep: name in the catalog = name in the input."""
    messages: Annotated[str, MinLen(1)] | None = None
    """Column or key of a conversation's messages; the source then holds conversations, and `text`
    is not read."""
    tokens: Annotated[str, MinLen(1)] | None = None
    """Parquet column of token ids (lists of integers); the source then holds tokenized documents,
    and `text` is not read. The ids are those of `tokenizer.model`, and enter as they are."""
    tools: Annotated[str, MinLen(1)] | None = None
    """Column or key of a conversation's tool definitions; a record may lack it."""
    train_on: tuple[Role, ...] = ("assistant",)
    """Roles whose messages are trained, in a source with `messages`."""
    train_turns: Literal["all", "last"] = "all"
    """`last` trains only messages after the last one of the user."""
    weights: Mapping[str, Annotated[float, Ge(0)]] = field(default_factory=dict)
    """Weight in the loss by role, 1 where none is given; `tool_calls` for messages that call tools.
    A message's own `weight` multiplies it, and its own `loss = false` leaves the message out."""
    format: Format | None = None
    """Format of the files; default: by their suffix (`.jsonl`, `.parquet`, `.txt`, `.md`; with
    `.gz` or `.zst` behind it, but for Parquet; `.idx` for Megatron's token files, whose `.bin` lies
    beside it)."""

    def __post_init__(self) -> None:
        """Check the rules across fields.

        Raises:
            ValueError: a name in `columns` is one that every document has.
        """
        taken = sorted(name for name in self.columns if name.lower() in RESERVED_COLUMNS)
        if taken:
            raise ValueError(
                f"columns of source {self.name!r} named {', '.join(map(repr, taken))} would hide "
                "columns that every document has; give them other names"
            )
        self._check_chat()
        self._check_tokens()

    def _check_tokens(self) -> None:
        if self.tokens is not None and self.messages is not None:
            raise ValueError(
                f"source {self.name!r} has tokens and messages; its documents are either tokenized "
                "or conversations: remove one"
            )
        if self.tokens is not None and self.format not in (None, "parquet"):
            raise ValueError(
                f"source {self.name!r} has tokens, a column of Parquet files, and format = "
                f'"{self.format}"; remove one of them'
            )
        named = [name for name in ("messages", "columns") if getattr(self, name)]
        if self.format == "megatron" and named:
            raise ValueError(
                f"source {self.name!r} has {named[0]}, and Megatron's files hold token ids alone; "
                f"remove {named[0]}"
            )

    def _check_chat(self) -> None:
        chat = {
            "tools": self.tools is not None,
            "train_on": self.train_on != ("assistant",),
            "train_turns": self.train_turns != "all",
            "weights": bool(self.weights),
        }
        used = [name for name, is_used in chat.items() if is_used]
        if self.messages is None and used:
            raise ValueError(
                f"{', '.join(used)} of source {self.name!r} belong to conversations; "
                "set messages or remove them"
            )
        if self.messages is not None and self.format in ("txt", "md"):
            raise ValueError(
                f"source {self.name!r} has messages, which {self.format} files do not hold; "
                "remove one of messages and format"
            )
        if not self.train_on:
            raise ValueError(f"train_on of source {self.name!r} is empty; name a role")
        unknown = sorted(set(self.weights) - {*ROLES, TOOL_CALLS})
        if unknown:
            raise ValueError(
                f"weights of source {self.name!r} names {', '.join(unknown)}; known: "
                f"{', '.join(ROLES)}, {TOOL_CALLS}"
            )

    @property
    def training(self) -> Training:
        """What is trained of the source's conversations."""
        return Training(self.train_on, self.train_turns, self.weights)

    @property
    def holds_tokens(self) -> bool:
        """Whether the documents come as token ids."""
        return token_ids_expected(self.tokens, self.format, self.path)

    @property
    def domain_name(self) -> str:
        """The mixture domain, the source's name where none is given."""
        return self.domain or self.name


def token_ids_expected(tokens: Any, form: Any, path: Any) -> bool:
    """Return whether a source of such settings holds token ids instead of text."""
    named = isinstance(path, str) and path.lower().endswith(".idx") and form is None
    return tokens is not None or form == "megatron" or named


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source."""

    source: str
    path: str
    """Absolute path or URL."""
    relative: str
    """Path below the fixed part of the source's glob, with forward slashes."""
    size: int
    """Bytes as stored."""
    mtime_ns: int
    format: Format
    compression: Compression | None


def list_files(source: SourceSettings) -> list[SourceFile]:
    """Return the files of a source, sorted by their relative paths.

    Raises:
        RecordError: the glob names a folder or nothing, or a file of no known format.
    """
    found = find_files(source.path)
    if not found:
        raise RecordError(f"source {source.name!r}: {source.path} names no file; correct the path")
    return [_source_file(source, file) for file in found]


def refuse_absent_columns(source: SourceSettings, documents: int, found: Mapping[str, int]) -> None:
    """Check that the columns which a source's settings name occur in its documents.

    Args:
        source: the settings.
        documents: how many documents the source gave.
        found: how many of them have a value in ``lang`` and in each of the source's columns.

    Raises:
        RecordError: a named column has no value in any document.
    """
    named = {name: f"columns.{name} = {key!r}" for name, key in source.columns.items()}
    if source.lang != DEFAULT_LANG:
        named["lang"] = f"lang = {source.lang!r}"
    absent = [label for name, label in named.items() if not found.get(name, 0)]
    if documents and absent:
        raise RecordError(
            f"source {source.name!r}: none of its {documents} documents has a value for "
            f"{', '.join(absent)}; correct the name or leave it out"
        )


_SUFFIXES: dict[str, Format] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".txt": "txt",
    ".md": "md",
    ".idx": "megatron",
}
_COMPRESSIONS: dict[str, Compression] = {".gz": "gz", ".zst": "zst"}


def _source_file(source: SourceSettings, file: FoundFile) -> SourceFile:
    """Tell format and compression of a file, by its suffixes or as the source says."""
    stem = Path(file.relative)
    compression = _COMPRESSIONS.get(stem.suffix.lower())
    if compression:
        stem = stem.with_suffix("")
    form = source.format or _SUFFIXES.get(stem.suffix.lower())
    if form is None or (form == "parquet" and compression):
        known = ", ".join(_SUFFIXES)
        raise RecordError(
            f"source {source.name!r}: {file.path} has no suffix of a known format ({known}, all but "
            ".parquet also with .gz or .zst); narrow the path or set format"
        )
    if form == "megatron" and not source.holds_tokens:
        raise RecordError(
            f"source {source.name!r}: {file.path} holds token ids; narrow the path, or set "
            'format = "megatron"'
        )
    if (source.tokens is not None and form != "parquet") or (form == "megatron" and compression):
        raise RecordError(
            f"source {source.name!r}: {file.path} is {form}; tokens are a column of Parquet files, and "
            "Megatron's files are not compressed: narrow the path"
        )
    if source.messages is not None and form in ("txt", "md", "megatron"):
        raise RecordError(
            f"source {source.name!r}: {file.path} is no file of conversations; narrow the path, or "
            "remove messages"
        )
    return SourceFile(
        source.name, file.path, file.relative, file.size, file.mtime_ns, form, compression
    )

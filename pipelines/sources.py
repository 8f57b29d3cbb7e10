"""Sources: which files a glob names, and how they divide into parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import MinLen

RESERVED_COLUMNS = frozenset(
    "doc_uid id source domain lang n_chars n_bytes exact_hash reason text source_path source_line".split()
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
    id: Annotated[str, MinLen(1)] = "id"
    """Column or key of the id; a record without one is named `path#row`."""
    lang: Annotated[str, MinLen(1)] = "lang"
    """Column or key of the language."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Further columns to keep: name in the catalog = name in the input."""
    format: Literal["jsonl", "parquet", "txt", "md"] | None = None
    """Format of the files; default: by their suffix (`.jsonl`, `.jsonl.gz`, `.jsonl.zst`,
    `.parquet`, `.txt`, `.md`)."""

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

    @property
    def domain_name(self) -> str:
        """The mixture domain, the source's name where none is given."""
        return self.domain or self.name

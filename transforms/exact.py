"""Exact duplicates: documents with the same hash of their normalized text."""

from dataclasses import dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactSettings:
    """Removal of exact duplicates (`[dedupe.exact]`); the table has no keys."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

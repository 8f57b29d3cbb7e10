"""Text as it is ingested: Unicode form, line ends, control characters, and its lengths."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings:
    """How records become documents (`[ingest]`)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    min_chars: Annotated[int, Ge(0)] = 1
    """A document with fewer characters, after normalization, is dropped (`under min_chars`)."""
    max_chars: Annotated[int, Gt(0)] | None = None
    """A record with more characters, after normalization, is rejected (`over max_chars`)."""
    unicode: Literal["NFC", "none"] = "NFC"
    """Unicode normalization form of the text; `none` leaves it as it is."""
    line_ends: Literal["lf", "keep"] = "lf"
    """`lf` turns CR LF and lone CR into LF."""
    control: Literal["remove", "keep"] = "remove"
    """`remove` takes out C0 and C1 control characters but tab and line ends, DEL, and a byte order
    mark at the start; joiners and other format characters stay."""
    part_size_mib: Annotated[int, Gt(0), Le(128)] = 64
    """MiB of decompressed input per part: the unit of work, of caching and of output files."""
    max_rejected: Annotated[float, Ge(0), Le(1)] = 1.0
    """The share of rejected lines above which the run ends with exit code 3."""
    ids: Literal["suffix", "unique"] = "suffix"
    """A repeated id of a source gets `#2`, `#3` (`suffix`) or is rejected (`unique`)."""

    def __post_init__(self) -> None:
        """Check the rules across fields.

        Raises:
            ValueError: no length satisfies both `min_chars` and `max_chars`.
        """
        if self.max_chars is not None and self.max_chars < self.min_chars:
            raise ValueError(
                f"max_chars = {self.max_chars} is below min_chars = {self.min_chars}: "
                "no document could pass; raise max_chars or lower min_chars"
            )

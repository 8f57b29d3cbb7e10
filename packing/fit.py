"""Which documents share a row: the fit of documents into rows of ``seq_len`` tokens."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le


@dataclass(frozen=True, slots=True, kw_only=True)
class PackSettings:
    """How documents are fitted into rows."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    enabled: bool = True
    """Whether documents are packed at all; without packing there are no rows and no dataset."""
    seq_len: Annotated[int, Ge(2), Le(1 << 24)] = 32768
    """Tokens of a packed row."""
    strategy: Literal["best_fit", "online", "concat"] = "best_fit"
    """``best_fit``: exact best-fit decreasing over all documents, the fewest rows; ``online``:
    best-fit over ``open_rows`` open rows in seeded order, which mixes lengths in every row;
    ``concat``: documents joined in seeded order and cut every ``seq_len`` tokens."""
    long: Literal["cut", "drop"] = "cut"
    """Documents of more than ``seq_len`` tokens: ``cut`` into full rows and one remainder, or
    ``drop`` with the reason ``too long``."""
    max_docs_per_row: Annotated[int, Gt(0)] | None = None
    """The most pieces one row may hold; no limit when absent."""
    open_rows: Annotated[int, Gt(0), Le(65536)] = 64
    """Rows that ``online`` keeps open at a time."""

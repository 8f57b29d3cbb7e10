"""Settings of ``sculpt``: how it weighs what belongs into one row."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le


@dataclass(frozen=True, slots=True, kw_only=True)
class SculptSettings:
    """How ``sculpt`` weighs what belongs into one row."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True}

    score: Literal["sum", "product"] = "sum"
    """What a row is chosen by while documents are placed: the weighted ``sum`` of the three terms
    below, or DataSculpt's own ``product`` of similarity and room, which has no weights."""
    relevance: Annotated[float, Ge(0)] = 0.5
    """Weight of the cosine of a document and the mean of a row."""
    residual: Annotated[float, Ge(0)] = 0.1
    """Weight of the room that a row has left, as a share of ``seq_len``."""
    count: Annotated[float, Ge(0)] = 0.0
    """Weight against the documents that a row has, as a share of those of the mean row."""
    rows_per_cluster: Annotated[int, Ge(2), Le(1024)] = 8
    """Rows that a cluster fills on average; from it and the tokens follows the number of
    clusters."""
    refine_passes: Annotated[int, Ge(0), Le(100)] = 5
    """Rounds of moving and swapping documents between the rows of a cluster."""
    count_penalty: Annotated[float, Ge(0)] = 0.0
    """What a row's squared number of documents costs while rows are refined: higher values give
    rows of more equal numbers of documents, and less similar ones. In units of relevance."""
    alike: Annotated[float, Ge(0), Le(1)] = 0.5
    """How like a row a document must be to fill it up, as a share of the similarity in the mean row
    of its cluster. In the last pass, any document may."""
    count_spread: Annotated[float, Gt(0)] = 0.495
    """Spread (standard deviation over mean) of documents per row that is aimed at, as a share of
    that of ``best_fit``: the shortest documents of clusters of short ones are shared out among
    rows of few, at the price of similarity. 0.495 halves the spread."""
    near_duplicate: Annotated[float, Gt(0), Le(1)] = 0.98
    """Cosine above which two documents count as near-duplicates of each other."""
    near_duplicate_cap: Annotated[int, Gt(0)] = 1
    """The most documents of one group of near-duplicates in a row, where that can be had; copies
    that a mixture draws of one document count as such."""
    fill: Annotated[float, Gt(0), Le(1)] = 0.9985
    """Share of ``seq_len`` to which the rows of a cluster are filled. Documents of rows that stay
    below it are packed in a second pass with those of neighbouring clusters."""

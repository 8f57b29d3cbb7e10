"""How a tool world looks: what its tools are called, take and give. All of it follows from a seed."""

from dataclasses import dataclass, fields
from typing import Any, Literal

import orjson

from transforms.synthesis.draw import Draw

Naming = Literal["snake", "camel", "pascal", "prefixed", "service"]
Signature = Literal["scalar", "batch", "grouped", "handle"]
Envelope = Literal["list", "results", "rows", "data"]

_NAMINGS: tuple[Naming, ...] = ("snake", "snake", "camel", "pascal", "prefixed", "service")
_ENVELOPES: tuple[Envelope, ...] = ("list", "results", "rows", "data")
_PREFIXES = ("kb", "graph", "catalog", "db", "api", "facts", "kg", "dir", "svc", "wiki")
_ENTITY = ("entity", "name", "subject", "item", "of", "entity_name", "target", "key")
_ENTITIES = ("entities", "names", "subjects", "items", "entity_list", "name_list")
_ITEMS = ("items", "names", "members", "entries", "candidates", "values")
_PAIRS = (
    ("first", "second", "third"),
    ("left", "right", "other"),
    ("list_a", "list_b", "list_c"),
    ("group_1", "group_2", "group_3"),
    ("a", "b", "c"),
)
_DIFFERENCES = (
    ("keep", "remove"),
    ("from_items", "exclude"),
    ("base", "without"),
    ("included", "excluded"),
)
_QUERIES = ("query", "text", "name", "q", "label")
_COUNTS = ("k", "n", "top", "how_many", "number")
_ORDERS = (("order", "largest", "smallest"), ("sort", "desc", "asc"), ("direction", "high", "low"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The choices of one world."""

    seed: int
    """Names and descriptions are drawn from it."""
    naming: Naming = "snake"
    prefix: str = ""
    """Begins the names of ``prefixed`` and ``service``."""
    signature: Signature = "scalar"
    """How many entities a relation is asked for at once: one; a list, with one list as the answer
    (``batch``) or one for each (``grouped``); or a name or the handle of an earlier result."""
    envelope: Envelope = "list"
    ids: bool = False
    """Whether tools take and give ids, which a search tool finds."""
    page: int = 0
    """Rows of a page of results; 0: results come whole."""
    options: bool = False
    """Whether relations take optional parameters."""
    nested_errors: bool = True
    """Whether an error is an object with code and message, or a text."""

    def key(self) -> str:
        """Write the style as JSON, without what is as usual."""
        content = {f.name: getattr(self, f.name) for f in fields(self)}
        usual = Style(seed=self.seed)
        kept = {k: v for k, v in content.items() if k == "seed" or v != getattr(usual, k)}
        return orjson.dumps(kept).decode()

    @classmethod
    def read(cls, key: str) -> "Style":
        """Read what :meth:`key` wrote."""
        content: dict[str, Any] = orjson.loads(key)
        return cls(**content)

    def draw(self, *keys: int | str) -> Draw:
        """Return the draw of one choice of this world."""
        return Draw(self.seed, *keys)


@dataclass(frozen=True, slots=True)
class Words:
    """Names of parameters in one world."""

    entity: str
    entities: str
    items: str
    parts: tuple[str, str, str]
    keep: str
    remove: str
    query: str
    k: str
    order: str
    largest: str
    smallest: str

    @classmethod
    def of(cls, style: Style) -> "Words":
        """Draw the names of a world."""
        draw = style.draw("words")
        keep, remove = draw.choose(_DIFFERENCES)
        order, largest, smallest = draw.choose(_ORDERS)
        return cls(
            draw.choose(_ENTITY),
            draw.choose(_ENTITIES),
            draw.choose(_ITEMS),
            draw.choose(_PAIRS),
            keep,
            remove,
            draw.choose(_QUERIES),
            draw.choose(_COUNTS),
            order,
            largest,
            smallest,
        )


def draw_style(
    draw: Draw,
    *,
    scalar: bool = True,
    handle: bool = False,
    page: int = 0,
    ids: bool | None = None,
) -> Style:
    """Draw a style.

    Args:
        draw: where choices come from.
        scalar: whether tools that take one entity are allowed.
        handle: whether tools must take handles of results.
        page: rows of a page; 0: results come whole.
        ids: whether ids are used; None: sometimes.
    """
    naming = draw.choose(_NAMINGS)
    signatures: tuple[Signature, ...] = ("batch", "batch", "grouped", "handle")
    if page:
        signatures = ("batch",)  # the others' results are not cut into pages
    if scalar:
        signatures = (*signatures, "scalar", "scalar", "scalar", "scalar")
    signature: Signature = "handle" if handle else draw.choose(signatures)
    envelope = draw.choose(_ENVELOPES)
    prefix = draw.choose(_PREFIXES)
    with_ids = draw.chance(0.15) if ids is None else ids
    return Style(
        seed=draw.bits() >> 24,
        naming=naming,
        prefix=prefix if naming in ("prefixed", "service") else "",
        signature=signature,
        envelope=envelope,
        ids=with_ids and signature != "handle",
        page=page,
        options=draw.chance(0.25),
        nested_errors=draw.chance(0.5),
    )

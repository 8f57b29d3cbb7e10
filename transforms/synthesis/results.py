"""What tools give back: the JSON of sets, numbers, values and errors in the style of a world."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transforms.synthesis.graph import Graph
from transforms.synthesis.style import Style

Members = frozenset[int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a call gave."""

    content: Any
    """JSON-able: what the tool message holds."""
    members: Members | None = None
    """The entities of it, where it is a set; of this page where results come in pages."""
    number: float | str | None = None
    """The count or value."""
    handle: str = ""
    """What later calls may name the set by."""
    next_token: str = ""
    """Token of the next page."""
    fault: str = ""
    """Code of the error, where it is one."""
    suggestions: tuple[str, ...] = ()
    """Names that may have been meant."""


class Faulty(Exception):  # noqa: N818
    """A call cannot be answered."""

    def __init__(self, code: str, message: str, suggestions: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code, self.message, self.suggestions = code, message, tuple(suggestions)


def entity_id(entity: int) -> str:
    """Return the id that worlds with ids know an entity by."""
    return f"E{entity:07d}"


class Shapes:
    """Writes results in one style."""

    def __init__(self, graph: Graph, style: Style) -> None:
        self._graph, self._style = graph, style

    def ordered(self, members: Members) -> list[int]:
        """Return entities in the order of their labels."""
        labels = self._graph.labels
        return sorted(members, key=lambda entity: labels[entity])

    def row(self, entity: int) -> Any:
        """Return how one entity is shown."""
        label = self._graph.labels[entity]
        if self._style.ids:
            return {"id": entity_id(entity), "name": label}
        if self._style.envelope == "rows":
            kind = self._graph.type_of(entity)
            label_of = self._graph.type_labels[kind] if kind >= 0 else None
            return {"name": label, "type": label_of} if label_of else {"name": label}
        return label

    def entities(
        self, entities: Sequence[int], *, total: int, handle: str = "", token: str | None = None
    ) -> Any:
        """Return the JSON of a result, or of a page of one.

        Args:
            entities: what is shown, in order.
            total: entities of all pages.
            handle: what the set may be named by.
            token: token of the next page; None: results come whole.
        """
        rows = [self.row(entity) for entity in entities]
        extra: dict[str, Any] = {}
        if handle:
            extra = {"handle": handle}
        if token is not None:
            extra |= {"total": total, "next_page": token or None}
        envelope = self._style.envelope
        if envelope == "data":
            return {"status": "ok", "data": {"items": rows, **extra}}
        if envelope == "results":
            return {"results": rows, **extra}
        return {"items": rows, **extra} if extra else rows

    def groups(self, groups: Sequence[tuple[int, Members]]) -> Any:
        """Return the JSON of one result for each of some entities."""
        shown: dict[str, Any] = {}
        for entity, members in groups:
            key = entity_id(entity) if self._style.ids else self._graph.labels[entity]
            shown[key] = [self.row(member) for member in self.ordered(members)]
        return {"status": "ok", "data": shown} if self._style.envelope == "data" else shown

    def number(self, value: float | str | None, key: str, unit: str = "") -> Any:
        """Return the JSON of a number or value."""
        plain = int(value) if isinstance(value, float) and value.is_integer() else value
        if self._style.envelope == "list":
            return plain
        found = {key: plain, "unit": unit} if unit else {key: plain}
        return {"status": "ok", "data": found} if self._style.envelope == "data" else found

    def error(self, fault: Faulty) -> Any:
        """Return the JSON of an error."""
        extra: dict[str, Any] = {}
        if fault.suggestions:
            extra = {"did_you_mean": list(fault.suggestions)}
        if self._style.nested_errors:
            return {"error": {"code": fault.code, "message": fault.message, **extra}}
        return {"error": f"{fault.code}: {fault.message}", **extra}

"""Plans read back from their canonical text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Count,
    Filter,
    Intersect,
    Plan,
    PlanGraph,
    Project,
    Subtract,
    Top,
    Unite,
    Value,
)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a graph's ids, for reading plans."""

    entities: Mapping[str, int]
    relations: Mapping[str, int]
    attributes: Mapping[str, int]

    @classmethod
    def of(cls, graph: PlanGraph) -> "Numbers":
        """Number the ids of a graph."""
        return cls(
            {name: number for number, name in enumerate(graph.entity_ids)},
            {item.id: number for number, item in enumerate(graph.relations)},
            {item.id: number for number, item in enumerate(graph.attributes)},
        )


def parse(text: str, numbers: Numbers) -> Plan:
    """Read what :func:`transforms.synthesis.plan.canonical` wrote.

    Raises:
        ValueError: it is no plan.
        KeyError: an id is not of this graph.
    """
    plan: Plan = _read(orjson.loads(text), numbers)
    return plan


def _read(item: Any, numbers: Numbers) -> Any:
    kind, *rest = item
    match kind, rest:
        case "anchor", [name]:
            return Anchor(numbers.entities[name])
        case (("project" | "inverse"), [name, source]):
            return Project(_read(source, numbers), numbers.relations[name], kind == "inverse")
        case "intersect", parts:
            return Intersect(tuple(_read(part, numbers) for part in parts))
        case "unite", parts:
            return Unite(tuple(_read(part, numbers) for part in parts))
        case "subtract", [keep, remove]:
            return Subtract(_read(keep, numbers), _read(remove, numbers))
        case "filter", [name, op, value, source]:
            return Filter(_read(source, numbers), numbers.attributes[name], op, value)
        case "top", [name, k, order, source]:
            attribute = numbers.attributes[name]
            return Top(_read(source, numbers), attribute, k, order == "largest")
        case "count", [source]:
            return Count(_read(source, numbers))
        case "value", [name, source]:
            return Value(_read(source, numbers), numbers.attributes[name])
        case "compare", [order, left, right]:
            return Compare(_read(left, numbers), _read(right, numbers), order == "largest")
    raise ValueError(f"no plan: {item!r}")

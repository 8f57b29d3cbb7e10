"""Values to filter by: between two values of a set, and as round as they can be."""

import math

from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.plan import Operator


def threshold(
    graph: Graph, members: frozenset[int], attribute: int, kept: int, draw: Draw
) -> tuple[Operator, float | str] | None:
    """Draw a condition that one entity of a set meets and another does not.

    Args:
        graph: the graph.
        members: the set.
        attribute: what the condition is about.
        kept: an entity of the set that meets it.
        draw: where choices come from.

    Returns:
        The operator and the value; None where the others have the same value or none.
    """
    own = graph.value(kept, attribute)
    others = {graph.value(entity, attribute) for entity in members if entity != kept}
    rivals = sorted(value for value in others if value is not None and value != own)  # type: ignore[type-var]
    if own is None or not rivals:
        return None
    if graph.attributes[attribute].kind == "text":
        return "is", own
    other = draw.choose(rivals)
    op: Operator = "min" if own > other else "max"  # type: ignore[operator]
    if isinstance(own, str) or isinstance(other, str):
        return op, _round_date(str(own), str(other))
    return op, _round_number(own, other)


def _round_number(own: float, other: float) -> float:
    """Return the roundest number from ``own`` (included) towards ``other`` (not included)."""
    low, high = min(own, other), max(own, other)
    power = math.floor(math.log10(high - low)) + 1
    for exponent in range(power, power - 6, -1):
        for factor in (5, 2, 1):
            # Dividing by a whole number keeps 0.1 what it is; multiplying by 10**-1 does not.
            unit = factor * 10**exponent if exponent >= 0 else 10**-exponent / factor
            found = _multiple(low, high, own, unit, exponent >= 0)
            if found is not None:
                return found
    return own


def _multiple(low: float, high: float, own: float, unit: float, whole: bool) -> float | None:
    up = own > low
    steps = math.floor(high / unit if whole else high * unit)
    if not up:
        steps = math.ceil(low / unit if whole else low * unit)
    found = float(steps * unit if whole else steps / unit)
    return found if (low < found <= own if up else own <= found < high) else None


def _round_date(own: str, other: str) -> str:
    """Return the first day of a year or month between two dates of one form, or the first date."""
    later = max(own, other)
    for kept in (4, 7):
        short = later[:kept]
        if len(own) == len(other) == 10:
            candidate = short + "-01-01"[kept - 4 :] if kept == 4 else short + "-01"
            if own > other and other < candidate <= own:
                return candidate
    return own

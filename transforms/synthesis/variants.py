"""Plans with a part or an anchor exchanged."""

from collections.abc import Callable
from dataclasses import replace

from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Intersect,
    Plan,
    SetPlan,
    Subtract,
    Unite,
)


def replaced_anchor(plan: Plan, old: int, new: int) -> Plan:
    """Return a plan with another anchor."""

    def change(part: Plan) -> Plan | None:
        return Anchor(new) if part == Anchor(old) else None

    return rebuilt(plan, change)


def exchanged(plan: Plan, old: Plan, new: Plan) -> Plan:
    """Return a plan with another part in the place of one (this object)."""
    return rebuilt(plan, lambda part: new if part is old else None)


def rebuilt(plan: Plan, change: Callable[[Plan], Plan | None]) -> Plan:
    """Return a plan with the parts that ``change`` gives in place of its own; None: as it is."""
    new = change(plan)
    if new is not None:
        return new

    def inner(part: SetPlan) -> SetPlan:
        return rebuilt(part, change)  # type: ignore[return-value]

    match plan:
        case Anchor():
            return plan
        case Intersect(parts) | Unite(parts):
            return type(plan)(tuple(inner(part) for part in parts))
        case Subtract(keep, remove):
            return Subtract(inner(keep), inner(remove))
        case Compare(left, right, largest):
            sides = [rebuilt(side, change) for side in (left, right)]
            return Compare(sides[0], sides[1], largest)  # type: ignore[arg-type]
        case _:
            return replace(plan, source=inner(plan.source))

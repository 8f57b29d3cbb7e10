"""Plans with a part exchanged or left out."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Filter,
    Intersect,
    Plan,
    SetPlan,
    Subtract,
    Top,
    Unite,
    children,
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


def parts_of(plan: Plan) -> Iterator[Plan]:
    """Yield a plan and all that it is made of, the whole before its parts."""
    yield plan
    for part in children(plan):
        yield from parts_of(part)


def reduced(plan: Plan) -> Iterator[Plan]:
    """Yield plans with an operation of sets, and what feeds it alone, left out."""
    for part in parts_of(plan):
        match part:
            case Intersect(parts) | Unite(parts):
                for place in range(len(parts)):
                    rest = (*parts[:place], *parts[place + 1 :])
                    yield exchanged(plan, part, type(part)(rest) if len(rest) > 1 else rest[0])
            case Subtract(keep, _):
                yield exchanged(plan, part, keep)
            case Filter(source) | Top(source):
                yield exchanged(plan, part, source)

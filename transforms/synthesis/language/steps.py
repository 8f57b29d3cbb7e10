"""Which inner sets of a plan are told in sentences of their own."""

from collections.abc import Callable

from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Count,
    Intersect,
    Plan,
    SetPlan,
    Subtract,
    Unite,
    Value,
    children,
)

_COMBINED = (Intersect, Unite, Subtract)

Stranding = Callable[[Plan], bool]


def sets_to_tell(plan: Plan, early: bool, stranding: Stranding = lambda _: False) -> list[SetPlan]:
    """Return the inner sets to name first, inner ones first, so that no phrase nests deeper than two.

    A combination within a combination is told too: "A or B but not C" could be read in two ways.

    Args:
        plan: what is asked.
        early: tell a set although it nests but one deep.
        stranding: whether words must follow the source of a part, which must then be a mention.
    """
    found: list[SetPlan] = []

    def visit(node: Plan) -> int:
        if isinstance(node, Anchor):
            return 0
        levels = [(visit(part), part) for part in children(node)]
        if isinstance(node, Count | Value | Compare):
            return max(level for level, _ in levels)
        limit = 1 if (early and not found) or stranding(node) else 2
        own = 0
        for level, part in levels:
            if (level >= limit and not isinstance(part, Anchor | Count | Value | Compare)) or (
                isinstance(node, _COMBINED) and isinstance(part, _COMBINED)
            ):
                found.append(part)
                level = 0
            own = max(own, level)
        return own + 1

    visit(plan)
    return found

"""Which tools a plan takes."""

from transforms.synthesis.plan import (
    Anchor,
    Count,
    Filter,
    Intersect,
    Plan,
    Project,
    Subtract,
    Top,
    Unite,
    Value,
    children,
)
from transforms.synthesis.style import Style
from transforms.synthesis.voice import Op


def needed_ops(plan: Plan, style: Style) -> list[Op]:
    """Return the tools that a plan takes, each once, in order of use."""
    found: dict[Op, None] = {}

    def visit(part: Plan) -> None:
        for inner in children(part):
            visit(inner)
        match part:
            case Anchor():
                if style.ids:
                    found[("search",)] = None
            case Project(_, relation, inverse):
                found[("project", relation, inverse)] = None
            case Intersect() | Unite() | Subtract() | Count():
                found[(type(part).__name__.lower(),)] = None
            case Filter() | Top() | Value():
                found[(type(part).__name__.lower(), part.attribute)] = None

    visit(plan)
    return list(found)

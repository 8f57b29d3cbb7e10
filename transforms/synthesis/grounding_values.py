"""Plans over attributes, and comparisons, grounded backwards from an answer."""

from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.grounding import Grounding, NoGround, project
from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Count,
    Filter,
    Plan,
    SetPlan,
    Top,
    Value,
    members,
)
from transforms.synthesis.threshold import threshold


class ValueGrounding:
    """Draws plans that read attributes or compare numbers."""

    def __init__(self, graph: Graph, grounding: Grounding) -> None:
        self._graph, self._grounding = graph, grounding

    def valued(self, pattern: str, entity: int, attribute: int, draw: Draw) -> Plan:
        """Draw a plan of ``filter``, ``top``, ``value`` or ``compare`` over an attribute.

        Raises:
            NoGround: no relation leads to the entity, or it has no fellow to be compared with.
        """
        if pattern == "value":
            if draw.chance(0.3) and (link := self._grounding.narrow.draw(entity, draw)):
                edge, source = link
                return Value(project(self._grounding.anchor(source), edge), attribute)
            return Value(Anchor(entity), attribute)
        if pattern == "compare":
            other = self._fellow(entity, self._graph.holders(attribute).tolist(), draw)
            sides = draw.shuffled([Value(Anchor(e), attribute) for e in (entity, other)])
            return Compare(sides[0], sides[1], draw.chance(0.6))
        link = self._grounding.wide.draw(entity, draw)
        if link is None:
            raise NoGround
        source_plan: SetPlan = (
            project(self._grounding.anchor(link[1]), link[0])
            if draw.chance(0.7)
            else self._grounding.chain(entity, link[0], draw, 2)
        )
        found = members(source_plan, self._graph)
        if pattern == "top":
            k = 1 if draw.chance(0.6) else draw.between(2, 3)
            return Top(source_plan, attribute, min(k, max(1, len(found) - 1)), draw.chance(0.6))
        condition = threshold(self._graph, found, attribute, entity, draw)
        if condition is None:
            raise NoGround
        return Filter(source_plan, attribute, *condition)

    def compared(self, entity: int, edge: int, draw: Draw) -> Compare:
        """Draw a comparison of how many targets two entities have by an edge.

        Raises:
            NoGround: the entity has no fellow to be compared with.
        """
        relation, inverse = divmod(edge, 2)
        heads = self._graph.heads(relation, bool(inverse)).tolist()
        pair = (entity, self._fellow(entity, heads, draw))
        sides = draw.shuffled([Count(project(Anchor(e), edge)) for e in pair])
        return Compare(sides[0], sides[1], draw.chance(0.6))

    def _fellow(self, entity: int, pool: list[int], draw: Draw) -> int:
        """Draw another entity of the same main type from a pool."""
        kind = self._graph.type_of(entity)
        for _ in range(8):
            other = draw.choose(pool)
            if other != entity and self._graph.type_of(other) == kind:
                return other
        raise NoGround

"""Names that several entities bear, and plans that begin with one of them."""

from transforms.synthesis.draw import Draw, combine
from transforms.synthesis.graph import Graph, name_key
from transforms.synthesis.plan import Anchor, Plan, Project, SetPlan
from transforms.synthesis.sampler import Sampler, permuted

Shared = list[tuple[str, int]]

_TRIES = 48
_CHAINS = 6
_STRIDE = 7919
_MOST_BEARERS = 5
_PATTERNS = {"1p": 1, "2p": 2, "3p": 3}


def ambiguous_names(graph: Graph) -> Shared:
    """Return the aliases that two to five entities bear and that are nobody's label, with each."""
    labels = {name_key(label) for label in graph.labels}
    bearers: dict[str, list[tuple[str, int]]] = {}
    for entity, aliases in enumerate(graph.aliases):
        for key, alias in {name_key(alias): alias for alias in aliases}.items():
            if key and key not in labels:
                bearers.setdefault(key, []).append((alias, entity))
    kept = [key for key in sorted(bearers) if 2 <= len(bearers[key]) <= _MOST_BEARERS]
    return [pair for key in kept for pair in bearers[key]]


def forward_plan(
    graph: Graph, sampler: Sampler, shared: Shared, pattern: str, place: int, draw: Draw
) -> tuple[Plan, str, int] | None:
    """Draw a valid chain that starts from an entity with a name it shares.

    Args:
        graph: the graph.
        sampler: its sampler, whose rules hold.
        shared: what :func:`ambiguous_names` found, at least one.
        pattern: ``1p``, ``2p`` or ``3p``.
        place: which of the names to begin with.
        draw: where choices come from.

    Returns:
        The plan, the name and the entity; None where none was found.
    """
    offset = combine(sampler.seed, pattern)
    for attempt in range(_TRIES):
        # A few chains from one name, then from the next: no name comes oftener than the others.
        turn = place + attempt // _CHAINS * _STRIDE
        name, entity = shared[permuted(turn % len(shared), len(shared), offset)]
        plan: SetPlan = Anchor(entity)
        at = entity
        for _ in range(_PATTERNS[pattern]):
            edges = graph.edges_of(at)
            if not edges:
                break
            relation, inverse = draw.choose(edges)
            plan = Project(plan, relation, inverse)
            at = int(draw.choose(graph.targets(at, relation, inverse).tolist()))
        else:
            if not sampler.rules.check(plan) and sampler.let_through(plan, draw.uniform()):
                return plan, name, entity
    return None

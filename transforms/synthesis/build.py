"""Candidates by place: what stands at a place of a cell (pattern, scenario) depends on it alone.

``(graph, seed, pattern, scenario, index)`` fix a candidate; blocks only say which are made together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from transforms.synthesis.distractors import KINDS
from transforms.synthesis.executor import TRANSIENT
from transforms.synthesis.grounding import LONG_PATTERNS
from transforms.synthesis.plan import FOURTEEN, PATTERNS
from transforms.synthesis.record import Candidate
from transforms.synthesis.scenarios import (
    Maker,
    ambiguous_parameter,
    long_result,
    missing_parameter,
    missing_tool,
    no_tool,
    paging,
    partial_tool,
    plain,
    trouble,
    unknown_entity,
    with_distractors,
)
from transforms.synthesis.scenarios_turns import (
    correct,
    empty_relax,
    follow_up,
    in_context,
    refine,
    saved_set,
    topic_return,
)
from transforms.synthesis.scene import Kit, NoScene, Scene
from transforms.synthesis.trajectory import WrongWay

NO_PATTERN = "none"
"""Pattern of conversations that have no plan."""

_WALKS = tuple(pattern for pattern in PATTERNS if pattern != "value")
_SETS = (*FOURTEEN, "filter", "top")
_FEW = ("1p", "2p", "2i", "pi", "2u", "2in")

SCENARIOS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "plain": (plain, PATTERNS),
    **{
        f"distractors_{kind}": (
            with_distractors(kind),
            PATTERNS if kind in ("random", "deprecated") else _WALKS,
        )
        for kind in KINDS
    },
    "missing_tool": (missing_tool, PATTERNS),
    "partial_tool": (partial_tool, ("2p", "3p", "ip", "2u", "up", "inp")),
    "missing_parameter": (
        missing_parameter,
        ("1p", "2p", "3p", "filter", "top", "count", "value"),
    ),
    "ambiguous_parameter": (ambiguous_parameter, ("1p", "2p", "3p")),
    "follow_up": (follow_up, PATTERNS),
    "refine": (refine, ("1p", "2p", "2i", "2u", "2in")),
    "correct": (correct, PATTERNS),
    "topic_return": (topic_return, _FEW),
    "saved_set": (saved_set, ("1p", "2p", "2i", "2u", "2in")),
    "in_context": (in_context, _SETS),
    "unknown_entity": (unknown_entity, PATTERNS),
    **{kind: (trouble(kind), PATTERNS) for kind in TRANSIENT},
    "empty_relax": (empty_relax, ("2i",)),
    "paging": (paging, tuple(pattern for pattern in _WALKS if pattern != "compare")),
    "long_result": (long_result, LONG_PATTERNS),
    "no_tool": (no_tool, (NO_PATTERN,)),
}
"""How each scenario is made, and the patterns it has."""

_NUMBERS = {name: number for number, name in enumerate(SCENARIOS)}


@dataclass(frozen=True, slots=True)
class Block:
    """Some places of one cell."""

    pattern: str
    scenario: str
    start: int
    stop: int


def cells(
    patterns: Sequence[str] = PATTERNS, scenarios: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Return the cells (pattern, scenario) of some patterns and scenarios; all of them by default.

    Conversations without a plan are of the pattern ``none``, which needs not be named.
    """
    wanted = {*patterns, NO_PATTERN}
    return [
        (pattern, scenario)
        for scenario in (scenarios or SCENARIOS)
        for pattern in SCENARIOS[scenario][1]
        if pattern in wanted
    ]


def generate(kit: Kit, pattern: str, scenario: str, index: int) -> Candidate:
    """Make the candidate of one place."""
    place = index * len(SCENARIOS) + _NUMBERS[scenario]
    scene = Scene(kit, pattern, scenario, index, place)
    try:
        record = SCENARIOS[scenario][0](scene)
    except (NoScene, WrongWay) as lacking:
        return Candidate(pattern, scenario, index, None, str(lacking), max(scene.tries, 1))
    return Candidate(pattern, scenario, index, record, "", max(scene.tries, 1))


def generate_block(kit: Kit, block: Block) -> Iterator[Candidate]:
    """Make the candidates of a block."""
    for index in range(block.start, block.stop):
        yield generate(kit, block.pattern, block.scenario, index)

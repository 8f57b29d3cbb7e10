"""Which share of the records each cell (pattern, scenario) has."""

from collections.abc import Mapping, Sequence

from transforms.record import RecordError
from transforms.synthesis.build import NO_PATTERN, SCENARIOS
from transforms.synthesis.plan import PATTERNS

SHARES: Mapping[str, float] = {
    "plain": 16,
    "distractors_random": 8,
    "distractors_sibling": 8,
    "distractors_near_name": 5,
    "distractors_inverse": 5,
    "distractors_deprecated": 3,
    "missing_tool": 6,
    "partial_tool": 3,
    "missing_parameter": 4,
    "ambiguous_parameter": 2,
    "follow_up": 6,
    "refine": 4,
    "correct": 4,
    "topic_return": 3,
    "saved_set": 3,
    "in_context": 4,
    "unknown_entity": 4,
    "rate_limit": 2,
    "timeout": 2,
    "bad_response": 1,
    "unavailable": 1,
    "empty_relax": 1,
    "paging": 3,
    "long_result": 2,
    "no_tool": 2,
}
"""Parts of the records by scenario, out of 102; each is divided over its patterns alike."""


def shares_of(
    patterns: Mapping[str, float], scenarios: Mapping[str, float], possible: Sequence[str]
) -> dict[tuple[str, str], float]:
    """Return the share of each cell.

    Args:
        patterns: share of each pattern; without any, all that are possible are alike.
        scenarios: share of each scenario, where it is not that of SHARES.
        possible: patterns that the graph has at all; a graph without numbers has no ``top``.

    Raises:
        RecordError: a name is unknown, or no scenario that is asked for has a pattern that is.
    """
    for given, known, key in ((patterns, PATTERNS, "patterns"), (scenarios, SHARES, "scenarios")):
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise RecordError(
                f"synthesize.{key}: {', '.join(unknown)} is not known; there are {', '.join(known)}"
            )
    given_patterns = patterns or dict.fromkeys(possible, 1.0)
    wanted = {pattern: float(given_patterns.get(pattern, 0)) for pattern in PATTERNS}
    wanted[NO_PATTERN] = 1.0
    cells: dict[tuple[str, str], float] = {}
    for scenario, share in (scenarios or SHARES).items():
        allowed = [(p, wanted[p]) for p in SCENARIOS[scenario][1] if wanted[p] > 0]
        total = sum(weight for _, weight in allowed)  # 0 only where nothing is allowed
        for pattern, weight in allowed:
            cells[pattern, scenario] = share * weight / total
    if not any(cells.values()):
        raise RecordError(
            "synthesize: no scenario that is asked for has a pattern that is; see docs/synthesis.md"
        )
    return cells

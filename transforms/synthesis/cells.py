"""Which share of the records each cell (pattern, scenario) has."""

from collections.abc import Mapping, Sequence

from transforms.record import RecordError
from transforms.synthesis.build import NO_PATTERN, SCENARIOS
from transforms.synthesis.plan import PATTERNS
from transforms.synthesis.settings import SHARES


def shares_of(
    patterns: Mapping[str, float], scenarios: Mapping[str, float], possible: Sequence[str]
) -> dict[tuple[str, str], float]:
    """Return the share of each cell.

    Args:
        patterns: share of each pattern; without any, all that are possible are alike.
        scenarios: share of each scenario, where it is not that of SHARES.
        possible: patterns that the graph has at all; a graph without numbers has no ``top``.

    Raises:
        RecordError: no scenario that is asked for has a pattern that is.
    """
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

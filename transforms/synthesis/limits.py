"""How large the sets of a plan may be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes that plans keep to."""

    answers: int = 20
    """Entities that a question may have as its answer."""
    items: int = 20
    """Entities of a set that is given to another operation."""
    fan_out: int = 8
    """Entities of a set whose relations are asked one by one."""
    long_least: int = 100
    """Entities of a long result at least."""
    long_most: int = 2000
    """Entities of a long result at most."""
    text: int = 160
    """Characters of a text that is an answer."""
    tries: int = 90
    """Plans drawn before a place of a cell is given up; a third of them also use the graph evenly."""

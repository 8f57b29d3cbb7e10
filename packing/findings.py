"""What a verification found: what holds, what fails, what could not be proved, and counts."""

from dataclasses import dataclass, field
from typing import Any

_EXAMPLES = 5


@dataclass(slots=True)
class Findings:
    """Collects the results of checks; each check has a name and at most a few examples."""

    dataset: str
    held: list[str] = field(default_factory=list)
    """Names of the checks that were carried out and hold."""
    failed: dict[str, list[str]] = field(default_factory=dict)
    """Check that fails: its first few violations."""
    violations: dict[str, int] = field(default_factory=dict)
    """Check that fails: how many violations were seen."""
    unproved: dict[str, str] = field(default_factory=dict)
    """Check that could not be carried out: why."""
    absent: set[str] = field(default_factory=set)
    """Checks of what the dataset does not have."""
    counts: dict[str, int | float] = field(default_factory=dict)
    """Figures of the dataset: rows, tokens, documents, padding, balance."""

    @property
    def ok(self) -> bool:
        """Whether no check fails; what could not be proved does not count."""
        return not self.failed

    @property
    def failures(self) -> list[str]:
        """One line per check that fails, with its first violation and their number."""
        return [
            f"{check}: {details[0]}"
            + (f" (and {self.violations[check] - 1} more)" if self.violations[check] > 1 else "")
            for check, details in sorted(self.failed.items())
        ]

    def fail(self, check: str, detail: str, count: int = 1) -> None:
        """Record violations of a check, the first of them in words."""
        examples = self.failed.setdefault(check, [])
        if len(examples) < _EXAMPLES:
            examples.append(detail)
        self.violations[check] = self.violations.get(check, 0) + count

    def cannot(self, check: str, reason: str) -> None:
        """Record that a check could not be carried out."""
        self.unproved.setdefault(check, reason)

    def skip(self, check: str) -> None:
        """Record that a check is of something the dataset does not have."""
        self.absent.add(check)

    def close(self, checks: tuple[str, ...]) -> None:
        """Count every check that neither failed nor was left open as one that holds."""
        open_ones = self.failed.keys() | self.unproved.keys() | self.absent
        self.held = [c for c in checks if c not in open_ones]

    def to_json(self) -> dict[str, Any]:
        """Return the findings as plain JSON values."""
        return {
            "dataset": self.dataset,
            "ok": self.ok,
            "held": self.held,
            "failures": [
                {"check": check, "violations": self.violations[check], "examples": details}
                for check, details in sorted(self.failed.items())
            ],
            "unproved": [
                {"check": check, "reason": reason} for check, reason in self.unproved.items()
            ],
            "counts": self.counts,
        }

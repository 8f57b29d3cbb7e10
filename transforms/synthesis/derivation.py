"""That the calls of a conversation find what a plan asks: every step made, and no call too many.

A plan is walked from its anchors up. Each operation has to be asked for by calls that mean just
that, over just the sets that earlier calls gave; the result of the last one is the answer. Calls
that no step of any turn needs are superfluous.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from transforms.synthesis.executor import TRANSIENT, Meaning
from transforms.synthesis.plan import (
    Anchor,
    Compare,
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
from transforms.synthesis.results import Members, Outcome

Found = Members | float | str | None


class Called(Protocol):
    """One call of a conversation."""

    @property
    def meaning(self) -> Meaning | None: ...  # noqa: D102
    @property
    def outcome(self) -> Outcome: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def turn(self) -> int: ...  # noqa: D102
    @property
    def arguments(self) -> Mapping[str, Any]: ...  # noqa: D102


class Underived(Exception):  # noqa: N818
    """A step of a plan was not asked for, or a call was not needed."""


class Derivation:
    """Follows plans through the calls of one conversation."""

    def __init__(self, calls: Sequence[Called], *, by_id: bool) -> None:
        """Index the calls.

        Args:
            calls: in their order, with what they gave.
            by_id: whether entities that the user names have to be searched for.
        """
        self._calls, self._by_id = calls, by_id
        self._used: set[int] = set()
        self._asked: dict[Meaning, list[int]] = {}
        self._sets: set[Members] = set()
        for number, call in enumerate(calls):
            if call.meaning is not None and not call.outcome.fault:
                self._asked.setdefault(call.meaning, []).append(number)

    def find(self, plan: Plan) -> Found:
        """Return what the calls give for a plan; None for a comparison, whose parts are found.

        Raises:
            Underived: a step was not asked for.
        """
        found = self._find(plan)
        if isinstance(found, frozenset):
            self._sets.add(found)
        return found

    def _find(self, plan: Plan) -> Found:
        match plan:
            case Anchor(entity):
                if self._by_id:
                    self._answer(("search", entity))
                return frozenset((entity,))
            case Project(source, relation, inverse):
                return self._walk(relation, inverse, self._set(source))
            case Intersect(parts) | Unite(parts):
                kind = type(plan).__name__.lower()
                return self._answer((kind, frozenset(self._set(part) for part in parts)))
            case Subtract(keep, remove):
                return self._answer(("subtract", self._set(keep), self._set(remove)))
            case Filter(source, attribute, op, value):
                key = "equals" if op == "is" else op
                return self._answer(("filter", attribute, self._set(source), (key, value)))
            case Top(source, attribute, k, largest):
                return self._answer(("top", attribute, self._set(source), k, largest))
            case Count(source):
                return self._answer(("count", self._set(source)))
            case Value(source, attribute):
                (entity,) = self._set(source)
                return self._answer(("value", attribute, entity))
            case Compare():
                for part in children(plan):
                    self.find(part)
                return None

    def _set(self, plan: Plan) -> Members:
        found = self.find(plan)
        if not isinstance(found, frozenset):
            raise Underived("a set that is none")
        return found

    def _walk(self, relation: int, inverse: bool, sources: Members) -> Members:
        whole: Meaning = ("project", relation, inverse, sources)
        if whole in self._asked:
            found = self._answer(whole)
            return found if isinstance(found, frozenset) else frozenset()
        sets = [self._answer(("project", relation, inverse, frozenset((e,)))) for e in sources]
        return frozenset().union(*(found for found in sets if isinstance(found, frozenset)))

    def _answer(self, meaning: Meaning) -> Found:
        """Return what all pages of the calls of one meaning gave."""
        numbers = self._asked.get(meaning)
        if numbers is None:
            raise Underived(f"nobody asked for {meaning[0]}")
        self._used.update(numbers)
        outcomes = [self._calls[number].outcome for number in numbers]
        if outcomes[-1].next_token:
            raise Underived(f"pages of {meaning[0]} are missing")
        if outcomes[0].members is None:
            return outcomes[0].number
        return frozenset().union(*(outcome.members or () for outcome in outcomes))

    def check_all_used(self, behaviours: Sequence[str]) -> None:
        """Check that every call was needed.

        Args:
            behaviours: what the assistant did in each turn.

        Raises:
            Underived: one was not.
        """
        for number in self._superfluous(behaviours):
            raise Underived(f"call {number} ({self._calls[number].name}) is not needed")
        saved = [
            call.meaning[1] for call in self._calls if call.meaning and call.meaning[0] == "save"
        ]
        for name in saved:
            if ("load", name) not in self._asked:
                raise Underived(f"the list {name!r} is not used")

    def _superfluous(self, behaviours: Sequence[str]) -> Iterator[int]:
        pages: set[tuple[Meaning, str]] = set()
        for number, call in enumerate(self._calls):
            if call.outcome.fault:
                if not self._is_mended(number, behaviours[call.turn]):
                    yield number
                continue
            kind = call.meaning[0] if call.meaning is not None else ""
            if kind == "save":
                needed = behaviours[call.turn] == "act"
            elif kind == "load":
                needed = call.outcome.members in self._sets
            else:
                needed = number in self._used
            page = (call.meaning or (), str(call.arguments.get("page_token", "")))
            if not needed or page in pages:
                yield number
            pages.add(page)

    def _is_mended(self, number: int, behaviour: str) -> bool:
        """Return whether a call that failed was followed by what is to be done about it."""
        failed = self._calls[number]
        fault = failed.outcome.fault
        later = [call for call in self._calls[number + 1 :] if call.name == failed.name]
        if fault == "ambiguous":
            named = failed.outcome.suggestions
            asked = any(_holds(call.arguments, name) for call in later for name in named)
            return behaviour == "clarify" and asked
        if fault in TRANSIENT:
            return any(call.arguments == failed.arguments for call in later)
        suggested = failed.outcome.suggestions[:1]
        return bool(suggested) and any(_holds(call.arguments, suggested[0]) for call in later)


def _holds(arguments: Mapping[str, Any], text: str) -> bool:
    return any(value == text or text in value for value in arguments.values() if value)

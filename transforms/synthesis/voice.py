"""What conversations need of a language: the sentences of users, assistants, tools and systems.

:mod:`transforms.synthesis.language` says these things; trajectories are built against this page.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from transforms.synthesis.draw import Draw
from transforms.synthesis.plan import Plan, Result, SetPlan

Op: TypeAlias = tuple[str | int | bool, ...]
"""What a tool does, in numbers of the graph: ``("project", relation, inverse)``, ``("value",
attribute)``, ``("filter", attribute)``, ``("top", attribute)``, and ``("intersect",)``, ``("unite",)``,
``("subtract",)``, ``("count",)``, ``("search",)``, ``("save",)``, ``("load",)``."""


@dataclass(frozen=True, slots=True)
class Other:
    """The same question about another entity, by ellipsis: "And X?"."""

    plan: Plan
    """The new plan, which differs from ``before`` in one anchor."""
    before: Plan
    entity: int
    """The new anchor."""
    back: bool = False
    """Whether there was another topic in between ("Back to the directors: and X?")."""


@dataclass(frozen=True, slots=True)
class Refine:
    """Of the entities just answered, those that are in another set too: "Which of them also ...?"."""

    before: SetPlan
    extra: SetPlan


@dataclass(frozen=True, slots=True)
class Correct:
    """The user meant another entity: "Sorry, I meant X."."""

    plan: Plan
    wrong: int
    right: int


@dataclass(frozen=True, slots=True)
class Save:
    """Keep the entities just answered under a name."""

    plan: SetPlan
    name: str


@dataclass(frozen=True, slots=True)
class UseSaved:
    """Of the entities kept under a name, those that are in another set too."""

    name: str
    before: SetPlan
    extra: SetPlan


@dataclass(frozen=True, slots=True)
class Recall:
    """Something about the last answer that needs no call."""

    plan: Plan
    entity: int = -1
    """-1: how many were they; else: was this one among them."""


@dataclass(frozen=True, slots=True)
class Relax:
    """After an empty answer: the same without one condition."""

    before: SetPlan
    plan: SetPlan


Edit: TypeAlias = Other | Refine | Correct | Save | UseSaved | Recall | Relax
Trouble = Literal["rate_limit", "timeout", "bad_response", "unavailable"]


class Said(Protocol):
    """What a user says, and the same with mentions and numbers masked."""

    @property
    def text(self) -> str: ...  # noqa: D102
    @property
    def skeleton(self) -> str: ...  # noqa: D102


class Voice(Protocol):
    """One language over one graph. ``names`` gives other mentions than the labels."""

    def question(self, plan: Plan, draw: Draw, *, names: Mapping[int, str] | None = None) -> Said:
        """Ask for what a plan means."""

    def vague(self, plan: Plan, draw: Draw) -> Said:
        """Ask for it, and leave out which anchor is meant ("Who directed the film?")."""

    def supply(self, entity: int, draw: Draw) -> Said:
        """Name the entity that was asked for."""

    def follow_up(self, edit: Edit, draw: Draw) -> Said:
        """Say the next turn of a conversation."""

    def small_talk(self, draw: Draw) -> tuple[Said, str]:
        """Say something that needs no tool, and what the assistant says to it."""

    def answer(self, plan: Plan, result: Result, draw: Draw, *, edit: Edit | None = None) -> str:
        """State a result; an empty set is stated as such."""

    def done(self, edit: Edit, draw: Draw) -> str:
        """Confirm that something was saved."""

    def refusal(self, plan: Plan, lacking: Plan, draw: Draw) -> str:
        """Say that no tool gives what ``lacking`` needs, so that the question has no answer."""

    def partial(self, plan: Plan, known: SetPlan, result: Result, lacking: Plan, draw: Draw) -> str:
        """State what could be found, and that no tool gives the rest."""

    def clarify(
        self, plan: Plan, draw: Draw, *, name: str = "", candidates: Sequence[int] = ()
    ) -> str:
        """Ask which entity is meant: one was not named, or several bear ``name``."""

    def correction(self, wrong: str, right: str, draw: Draw) -> str:
        """Say that a name was not found and which one is tried."""

    def retry(self, trouble: Trouble, draw: Draw) -> str:
        """Say that a call failed and is made again."""

    def thought(self, plan: Plan, draw: Draw) -> str:
        """Say what is looked up, before the first call."""

    def system_prompt(self, draw: Draw) -> str:
        """Write a system prompt."""

    def tool_description(self, op: Op, draw: Draw) -> str:
        """Describe a tool."""

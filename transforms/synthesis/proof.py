"""What makes the calls of a record right: same results again, each needed, no other tool as good."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from transforms.synthesis.dialogue import Turn
from transforms.synthesis.executor import Directory, Meaning
from transforms.synthesis.plan_text import Numbers
from transforms.synthesis.record import Record
from transforms.synthesis.replay import executor_of, tools_of
from transforms.synthesis.results import Outcome
from transforms.synthesis.schema import value_problem
from transforms.synthesis.style import Style
from transforms.synthesis.tools import Tool


@dataclass(frozen=True, slots=True)
class Made:
    """A call that was made again."""

    tool: Tool
    arguments: Mapping[str, Any]
    outcome: Outcome
    turn: int
    meaning: Meaning | None
    """None where a name in it is unknown."""

    @property
    def name(self) -> str:
        """Name of the tool."""
        return self.tool.name


class Proof:
    """Makes the calls of one record again."""

    def __init__(
        self, record: Record, turns: Sequence[Turn], directory: Directory, numbers: Numbers
    ) -> None:
        """Set the world up.

        Raises:
            Wrong: the record does not say what its tools do.
        """
        try:
            self.tools = tools_of(record, numbers)
            self._executor = executor_of(record, directory, numbers)
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise Wrong("a world that cannot be read", repr(error)) from error
        self._by_name = {tool.name: tool for tool in self.tools}
        self._directory = directory
        self.by_id = Style.read(record.world).ids
        self.calls = [
            self._make(number, call, result)
            for number, turn in enumerate(turns)
            for call, result in zip(turn.calls, turn.results, strict=True)
        ]

    def _make(self, turn: int, call: Mapping[str, Any], result: str) -> Made:
        name, text = call["function"]["name"], call["function"]["arguments"]
        tool = self._by_name.get(name)
        if tool is None:
            raise Wrong("a call of no tool", name)
        try:
            arguments = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise Wrong("arguments that are no JSON", f"{name}: {error}") from error
        problem = value_problem(tool.parameters, arguments)
        if problem is not None:
            raise Wrong("arguments that the tool does not take", f"{name}: {problem}")
        outcome = self._executor.call(name, arguments)
        meaning = None
        if not outcome.fault:
            meaning = self._executor.meaning(tool.op, arguments)
        if orjson.dumps(outcome.content).decode() != result:
            raise Wrong("another result when called again", name)
        return Made(tool, arguments, outcome, turn, meaning)

    def check_distractors(self) -> None:
        """Check that no other tool could stand in for the ones that were called.

        Raises:
            Wrong: a tool gives what a called tool gave, for all its calls.
        """
        called = {made.name for made in self.calls}
        for tool in self.tools:
            if tool.name in called or tool.op[0] != "project":
                continue
            for name in called:
                ours = [made for made in self.calls if made.name == name]
                if all(self._same(tool, made) for made in ours):
                    raise Wrong("a distractor that answers too", f"{tool.name} for {name}")

    def _same(self, tool: Tool, made: Made) -> bool:
        outcome = made.outcome
        if made.tool.op[0] != "project" or outcome.fault or outcome.next_token:
            return False
        if value_problem(tool.parameters, dict(made.arguments)) is not None:
            return False
        return self._executor.peek(tool.op, made.arguments) == outcome.members

    def mentions(self, entity: int, text: str, *, clearly: bool = True) -> bool:
        """Return whether a text names an entity, by its label or an alias.

        Args:
            entity: its number.
            text: what was said.
            clearly: leave out names that other entities bear too.
        """
        graph = self._directory.graph
        names = (graph.labels[entity], *graph.aliases[entity])
        return any(
            _stands_in(name, text)
            for name in names
            if not clearly or name == names[0] or len(graph.named(name)) == 1
        )


def _stands_in(name: str, text: str) -> bool:
    """Return whether a name stands in a text, and not as a part of a longer word."""
    start = text.find(name) if name else -1
    while start >= 0:
        stop = start + len(name)
        if not _joins(text[start - 1 : start], name[:1]) and not _joins(
            name[-1:], text[stop : stop + 1]
        ):
            return True
        start = text.find(name, start + 1)
    return False


def _joins(left: str, right: str) -> bool:
    # Scripts without spaces have no words to be a part of.
    return left.isascii() and right.isascii() and left.isalnum() and right.isalnum()


class Wrong(Exception):  # noqa: N818
    """A record is not what it says; the arguments are a short reason and what was found."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail

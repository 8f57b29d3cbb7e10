"""Turns of a conversation: what the user said, the calls that followed, and the answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Turn:
    """One turn of the user and what the assistant made of it."""

    question: str
    calls: list[Mapping[str, Any]] = field(default_factory=list)
    """Calls in OpenAI's form."""
    results: list[str] = field(default_factory=list)
    """Contents of the answers to the calls, in their order."""
    said: list[str] = field(default_factory=list)
    """What the assistant said beside its calls."""
    answer: str = ""


def turns_of(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Turn], str]:
    """Divide a conversation into turns.

    Returns:
        The turns, and what is wrong with the order of messages or the ids of calls, or nothing.
    """
    reader = _Reader()
    for place, message in enumerate(messages):
        problem = reader.read(message)
        if problem:
            return reader.turns, f"message {place}: {problem}"
    if reader.open or not reader.turns:
        return reader.turns, "the last turn has no answer"
    return reader.turns, ""


class _Reader:
    """Reads a conversation message by message."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.open = False
        """Whether the last turn waits for its answer."""
        self._waiting: list[str] = []
        self._ids: set[str] = set()

    def read(self, message: Mapping[str, Any]) -> str:
        """Take a message; return what is wrong with it, or nothing."""
        role = message["role"]
        if role == "tool":
            return self._result(message)
        if self._waiting:
            return f"{len(self._waiting)} calls without an answer"
        if role == "user":
            if self.open:
                return "the turn before has no answer"
            self.turns.append(Turn(message["content"]))
            self.open = True
        elif role == "assistant":
            return self._assistant(message) if self.open else "the assistant begins"
        return ""

    def _assistant(self, message: Mapping[str, Any]) -> str:
        turn, calls = self.turns[-1], message.get("tool_calls")
        if calls is None:
            turn.answer = message["content"]
            self.open = False
            return "" if turn.answer.strip() else "an empty answer"
        problem = _problem(calls, self._ids)
        if not problem:
            turn.said.append(message["content"])
            turn.calls += calls
            self._waiting = [call["id"] for call in calls]
            self._ids.update(self._waiting)
        return problem

    def _result(self, message: Mapping[str, Any]) -> str:
        if not self._waiting or message["tool_call_id"] != self._waiting[0]:
            return "answers no call, or not in their order"
        self._waiting.pop(0)
        self.turns[-1].results.append(message["content"])
        return ""


def _problem(calls: Any, ids: set[str]) -> str:
    if not isinstance(calls, list) or not calls:
        return "tool_calls is no list of calls"
    for call in calls:
        if not isinstance(call, dict) or set(call) != {"id", "type", "function"}:
            return "a malformed call"
        function = call["function"]
        if call["type"] != "function" or set(function) != {"name", "arguments"}:
            return "a malformed call"
        if not isinstance(call["id"], str) or not isinstance(function["arguments"], str):
            return "a malformed call"
    new = [call["id"] for call in calls]
    if len(set(new)) != len(new) or ids & set(new):
        return "an id of a call twice"
    return ""

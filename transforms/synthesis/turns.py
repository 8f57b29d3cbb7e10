"""Turns of a conversation: what every format of a tool-use record says, apart from its wrapping.

A record in OpenAI's form is read into turns, and each format is a rendering of turns with a parser
that gives the same turns back. Ids of calls are not kept: they only tie results to calls.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from transforms.record import RecordError

Tools = list[dict[str, Any]]
Messages = list[dict[str, Any]]


class FormatError(RecordError):
    """A conversation that a format cannot hold, or a row that is not of the format."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call: the tool's name and its arguments."""

    name: str
    arguments: dict[str, Any]

    def to_json(self) -> str:
        """Write ``{"name", "arguments"}``."""
        return orjson.dumps({"name": self.name, "arguments": self.arguments}).decode()


@dataclass(frozen=True, slots=True)
class Turn:
    """What one side says; calls and their results stand in the assistant's turn that makes them."""

    role: str
    content: str
    calls: tuple[ToolCall, ...] = ()
    results: tuple[str, ...] = field(default=())


def turns_of(messages: Messages) -> list[Turn]:
    """Read messages in OpenAI's form.

    Raises:
        FormatError: a call has no result, or a result no call; arguments are no JSON object.
    """
    turns: list[Turn] = []
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        if message["role"] == "tool":
            raise FormatError(f"message {place}: a tool result without a call before it")
        given = message.get("tool_calls") or []
        if not given:
            turns.append(Turn(message["role"], message.get("content") or ""))
            continue
        results: dict[str, str] = {}
        while place < len(messages) and messages[place]["role"] == "tool":
            results[messages[place]["tool_call_id"]] = messages[place]["content"]
            place += 1
        ids = [call["id"] for call in given]
        if sorted(ids) != sorted(results):
            raise FormatError(f"message {place}: calls {ids} have results for {list(results)}")
        calls = tuple(_call(one["function"], place) for one in given)
        content = message.get("content") or ""
        turns.append(Turn("assistant", content, calls, tuple(results[one] for one in ids)))
    return turns


def _call(function: dict[str, Any], place: int) -> ToolCall:
    arguments = function["arguments"]
    if isinstance(arguments, str):
        try:
            arguments = orjson.loads(arguments)
        except orjson.JSONDecodeError as error:
            raise FormatError(f"message {place}: arguments are no JSON: {error}") from error
    if not isinstance(arguments, dict):
        raise FormatError(f"message {place}: arguments {arguments!r} are no object")
    return ToolCall(function["name"], arguments)


def messages_of(turns: Sequence[Turn]) -> Messages:
    """Write turns as messages in OpenAI's form, with ids by number."""
    messages: Messages = []
    number = 0
    for turn in turns:
        message: dict[str, Any] = {"role": turn.role, "content": turn.content}
        messages.append(message)
        if not turn.calls:
            continue
        ids = [f"call_{number + place}" for place in range(len(turn.calls))]
        number += len(ids)
        message["tool_calls"] = [
            {
                "id": one,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": orjson.dumps(call.arguments).decode(),
                },
            }
            for one, call in zip(ids, turn.calls, strict=True)
        ]
        for one, result in zip(ids, turn.results, strict=True):
            messages.append({"role": "tool", "tool_call_id": one, "content": result})
    return messages


def read_call(text: str | bytes, where: str) -> ToolCall:
    """Read ``{"name", "arguments"}``.

    Raises:
        FormatError: the text is something else.
    """
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FormatError(f"{where}: no JSON: {error}") from error
    if not isinstance(content, dict) or set(content) != {"name", "arguments"}:
        raise FormatError(f"{where}: {content!r} is no call with name and arguments")
    if not isinstance(content["arguments"], dict):
        raise FormatError(f"{where}: arguments {content['arguments']!r} are no object")
    return ToolCall(content["name"], content["arguments"])

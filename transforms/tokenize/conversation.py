"""Conversations: what a record of a chat source must be, and its text as a document.

A document of a chat source is the JSON text ``{"messages": [...], "tools": [...]}``, so that ids,
hashes, de-duplication and exports treat it like any other. Keys of messages are sorted; inside
tools and tool calls the order of keys is kept, because templates write it into the prompt.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import orjson

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]

ROLES: tuple[str, ...] = get_args(Role)

NO_TRAINED_TOKEN = "no trained token"

TOOL_CALLS = "tool_calls"
"""Key of a message's calls, and of their weight in :attr:`Training.weights`."""


class ConversationError(Exception):
    """Why a record is no conversation, or cannot be encoded as one.

    Attributes:
        reason: one of a small set of short strings.
        detail: what was found, and where.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Training:
    """Which messages of a conversation are trained, and with which weight."""

    roles: tuple[str, ...] = ("assistant",)
    """Roles whose messages are trained."""
    turns: Literal["all", "last"] = "all"
    """``last`` trains only messages after the last one of the user (SWIFT's ``last_round``)."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Weight by role, 1 by default; under ``tool_calls`` that of messages that call tools."""

    def of(self, messages: list[dict[str, Any]]) -> list[float]:
        """Return the weight of each message, 0 where it is not trained.

        A message's own ``weight`` (a number) multiplies that of its role; its own ``loss = false``
        leaves it out.
        """
        users = [number for number, message in enumerate(messages) if message["role"] == "user"]
        first = users[-1] + 1 if users and self.turns == "last" else 0
        return [
            self._weight(message) if number >= first else 0.0
            for number, message in enumerate(messages)
        ]

    def _weight(self, message: dict[str, Any]) -> float:
        if message["role"] not in self.roles or message.get("loss") is False:
            return 0.0
        weight = self.weights.get(message["role"], 1.0)
        if message.get(TOOL_CALLS):
            weight = self.weights.get(TOOL_CALLS, weight)
        own = message.get("weight")
        return float(weight) * (1.0 if own is None else float(own))


def conversation_text(
    messages: Any,
    tools: Any,
    training: Training,
    normalize: Callable[[str], str] | None = None,
) -> str:
    """Return a conversation as the text of a document.

    Args:
        messages: list of messages, or its JSON text.
        tools: list of tool definitions, or its JSON text; null for none.
        training: a conversation without a message to train is refused.
        normalize: applied to every string; null for none.

    Raises:
        ConversationError: the record is malformed, or no message of it is trained.
    """
    messages = _parsed(messages, "messages")
    if not isinstance(messages, list):
        raise ConversationError("messages is not a list", f"found {_kind(messages)}")
    if not messages:
        raise ConversationError("messages is empty", "a conversation needs a message")
    checked = [_message(message, number) for number, message in enumerate(messages)]
    tools = _parsed(tools, "tools")
    if tools is None:
        tools = []
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise ConversationError("tools is not a list", f"of objects; found {_kind(tools)}")
    if not any(training.of(checked)):
        roles = ", ".join(training.roles)
        raise ConversationError(NO_TRAINED_TOKEN, f"no message of {roles} that is to be trained")
    value: Any = {"messages": checked, "tools": tools}
    if normalize is not None:
        value = mapped(value, normalize)
    try:
        text = orjson.dumps(value).decode()
    except (TypeError, ValueError) as error:
        raise ConversationError("conversation is not JSON", str(error)) from error
    return _ESCAPE.sub(_shielded, text)


def read_conversation(text: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return messages and tools of a document of a chat source."""
    value = orjson.loads(text)
    return value["messages"], value["tools"]


def mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with every string and key changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {change(key): mapped(item, change) for key, item in value.items()}
    return value


def _message(message: Any, number: int) -> dict[str, Any]:
    """Return a checked message: keys sorted, text parts joined."""
    where = f"message {number}"
    if not isinstance(message, dict):
        raise ConversationError("message is not an object", f"{where} is {_kind(message)}")
    role = message.get("role")
    if role is None:
        raise ConversationError("message without role", f"{where} has {_keys(message)}")
    if role not in ROLES:
        found = repr(role)[:80]
        raise ConversationError("unknown role", f"{where}: {found}; known: {', '.join(ROLES)}")
    calls = message.get(TOOL_CALLS)
    if calls is not None and not _are_calls(calls):
        raise ConversationError(
            "tool_calls is not a list of calls", f"{where}: {_kind(calls)}; each needs a name"
        )
    content = message.get("content")
    if content is None and not calls:
        raise ConversationError("message without content", f"{where} has {_keys(message)}")
    _check_weight(message, where)
    checked = {key: message[key] for key in sorted(message) if message[key] is not None}
    checked["content"] = None if content is None else _joined(content, where)
    return dict(sorted(checked.items()))


def _joined(content: Any, where: str) -> str:
    """Return a message's text; parts of type text are joined."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [
            part["text"]
            for part in content
            if isinstance(part, dict)
            and part.get("type", "text") == "text"
            and isinstance(part.get("text"), str)
        ]
        if len(texts) == len(content):
            return "".join(texts)
    raise ConversationError("content is not text", f"{where}: content is {_kind(content)}")


def _are_calls(calls: Any) -> bool:
    if not isinstance(calls, list):
        return False
    for call in calls:
        function = call.get("function", call) if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            return False
    return True


def _check_weight(message: dict[str, Any], where: str) -> None:
    weight, loss = message.get("weight"), message.get("loss")
    number = isinstance(weight, int | float) and not isinstance(weight, bool)
    if not (weight is None or (number and 0 <= weight < float("inf"))):
        raise ConversationError("bad weight", f"{where}: weight is {weight!r:.80}; give a number")
    if not (loss is None or isinstance(loss, bool)):
        raise ConversationError("bad weight", f"{where}: loss is {loss!r:.80}; give true or false")


def _parsed(value: Any, name: str) -> Any:
    """Return a value that may have been stored as its JSON text."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise ConversationError(
            f"{name} is not a list", f"a string that is no JSON: {error}"
        ) from error


def _kind(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"{type(value).__name__}: {text if len(text) <= 80 else text[:77] + '...'}"


def _keys(message: dict[str, Any]) -> str:
    return "the keys " + ", ".join(map(repr, list(message)[:8])) if message else "no keys"


# Unicode normalization of the whole text must not join a combining mark to the letter of an escape.
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|[^u])([^\x00-\u02ff]*)")


def _shielded(match: re.Match[str]) -> str:
    following = match[1]
    count = 0
    while count < len(following) and unicodedata.combining(following[count]):
        count += 1
    if not count:
        return match[0]
    marks = json.dumps(following[:count])[1:-1]
    return match[0][: match.start(1) - match.start()] + marks + following[count:]

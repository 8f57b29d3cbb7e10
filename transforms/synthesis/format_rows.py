"""Rows of messages: OpenAI's own, ShareGPT's (as LLaMA-Factory reads it) and ms-swift's.

* ``openai``: ``tools`` and ``messages`` as they are.
* ``sharegpt``: ``conversations`` of ``from`` (human, gpt, function_call, observation) and ``value``,
  ``system`` and ``tools`` (JSON) apart; sides alternate, so parallel calls are one JSON list and
  their observations too. What the assistant says with a call stands under ``thought``.
* ``swift``: ``tools`` (JSON) and ``messages`` with the roles ``tool_call`` and ``tool_response``; what
  the assistant says with a call is a message before it.
"""

from typing import Any

import orjson

from transforms.synthesis.turns import (
    FormatError,
    Messages,
    ToolCall,
    Tools,
    Turn,
    messages_of,
    read_call,
    turns_of,
)

Row = dict[str, Any]

_FROM = {"user": "human", "assistant": "gpt"}
_ROLE = {value: key for key, value in _FROM.items()}


def to_openai(tools: Tools, messages: Messages) -> Row:
    """Write a record for OpenAI's interface."""
    turns_of(messages)
    return {"tools": tools, "messages": messages}


def from_openai(row: Row) -> tuple[Tools, Messages]:
    """Read such a record."""
    turns_of(row["messages"])
    return row["tools"], row["messages"]


def to_sharegpt(tools: Tools, messages: Messages) -> Row:
    """Write a record for LLaMA-Factory's ``sharegpt``.

    Raises:
        FormatError: there is a system message after the first message.
    """
    turns = turns_of(messages)
    system = ""
    if turns and turns[0].role == "system":
        system, turns = turns[0].content, turns[1:]
    talk: list[Row] = []
    for turn in turns:
        if turn.role not in _FROM:
            raise FormatError(f"sharegpt: a {turn.role} message after the first one has no place")
        if not turn.calls:
            talk.append({"from": _FROM[turn.role], "value": turn.content})
            continue
        calls = [{"name": call.name, "arguments": call.arguments} for call in turn.calls]
        one = len(calls) == 1
        call = {"from": "function_call", "value": _json(calls[0] if one else calls)}
        if turn.content:
            call["thought"] = turn.content
        talk.append(call)
        value = turn.results[0] if one else _json(list(turn.results))
        talk.append({"from": "observation", "value": value})
    row: Row = {"conversations": talk, "tools": _json(tools)}
    return {"system": system, **row} if system else row


def from_sharegpt(row: Row) -> tuple[Tools, Messages]:
    """Read such a row.

    Raises:
        FormatError: it is something else.
    """
    turns = [Turn("system", row["system"])] if row.get("system") else []
    calls: tuple[ToolCall, ...] = ()
    thought = ""
    for message in row["conversations"]:
        kind, value = message["from"], message["value"]
        if kind == "function_call":
            content = orjson.loads(value)
            many = content if isinstance(content, list) else [content]
            calls = tuple(read_call(_json(one), "sharegpt") for one in many)
            thought = message.get("thought", "")
        elif kind == "observation":
            results = (value,) if len(calls) == 1 else tuple(orjson.loads(value))
            if len(results) != len(calls):
                raise FormatError(f"sharegpt: {len(results)} results of {len(calls)} calls")
            turns.append(Turn("assistant", thought, calls, results))
            calls = ()
        elif kind in _ROLE:
            turns.append(Turn(_ROLE[kind], value))
        else:
            raise FormatError(f"sharegpt: from {kind!r} is not known")
    return orjson.loads(row["tools"]), messages_of(turns)


def to_swift(tools: Tools, messages: Messages) -> Row:
    """Write a record for ms-swift."""
    out: list[Row] = []
    for turn in turns_of(messages):
        if turn.content or not turn.calls:
            out.append({"role": turn.role, "content": turn.content})
        out.extend({"role": "tool_call", "content": call.to_json()} for call in turn.calls)
        out.extend({"role": "tool_response", "content": result} for result in turn.results)
    return {"tools": _json(tools), "messages": out}


def from_swift(row: Row) -> tuple[Tools, Messages]:
    """Read such a row.

    Raises:
        FormatError: calls and responses do not match.
    """
    turns: list[Turn] = []
    messages, place = row["messages"], 0

    def run(role: str) -> list[str]:
        nonlocal place
        start = place
        while place < len(messages) and messages[place]["role"] == role:
            place += 1
        return [message["content"] for message in messages[start:place]]

    while place < len(messages):
        calls = tuple(read_call(text, "swift") for text in run("tool_call"))
        results = tuple(run("tool_response"))
        if len(calls) != len(results):
            raise FormatError(f"swift: {len(results)} responses to {len(calls)} calls")
        if calls:
            said = ""
            if turns and turns[-1].role == "assistant" and not turns[-1].calls:
                said = turns.pop().content
            turns.append(Turn("assistant", said, calls, results))
            continue
        turns.append(Turn(messages[place]["role"], messages[place]["content"]))
        place += 1
    return orjson.loads(row["tools"]), messages_of(turns)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()

r"""Records as one text: Hermes (ChatML with XML tags) and ReAct (Thought, Action, Observation).

What a text format marks turns with must not stand in what is said, or the text could not be read
back; such a record is refused by the name of the mark. Inside JSON, ``<`` is written ``\\u003c``
where it would begin a mark.
"""

import re
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

START, END = "<|im_start|>", "<|im_end|>"
_MARKS = (
    START, END, "<tools>", "</tools>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>",
)  # fmt: skip
_HEAD = (
    "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n"
)
_TAIL = (
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
    "within <tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)
_PART = re.compile(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>\n", re.DOTALL)
_CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
_RESPONSE = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)


def to_hermes(tools: Tools, messages: Messages) -> Row:
    """Write a record as ChatML with Hermes' tags (the template of Qwen2.5).

    Raises:
        FormatError: a content holds one of the format's marks.
    """
    turns = turns_of(messages)
    system = ""
    if turns and turns[0].role == "system":
        system, turns = _free(turns[0].content, _MARKS, "hermes"), turns[1:]
    listed = "\n".join(_safe(tool) for tool in tools)
    parts = [_part("system", f"{system}\n\n{_HEAD}{listed}{_TAIL}" if tools else system)]
    for turn in turns:
        said = _free(turn.content, _MARKS, "hermes")
        if not turn.calls:
            parts.append(_part(turn.role, said))
            continue
        called = "\n".join(
            f"<tool_call>\n{_safe({'name': call.name, 'arguments': call.arguments})}\n</tool_call>"
            for call in turn.calls
        )
        parts.append(_part("assistant", f"{said}\n{called}" if said else called))
        told = [_free(result, _MARKS, "hermes") for result in turn.results]
        answered = "\n".join(f"<tool_response>\n{one}\n</tool_response>" for one in told)
        parts.append(_part("user", answered))
    return {"text": "".join(parts)}


def from_hermes(row: Row) -> tuple[Tools, Messages]:
    """Read such a text.

    Raises:
        FormatError: it is something else.
    """
    text: str = row["text"]
    turns: list[Turn] = []
    tools: Tools = []
    calls: tuple[ToolCall, ...] = ()
    said, at = "", 0
    for number, match in enumerate(_PART.finditer(text)):
        if match.start() != at:
            raise FormatError(f"hermes: text between messages at {at}")
        at = match.end()
        role, content = match.groups()
        if number == 0 and role == "system":
            system, tools = _tools_of(content)
            if system:
                turns.append(Turn("system", system))
        elif role == "assistant" and _CALL.search(content):
            calls = tuple(read_call(one, "hermes") for one in _CALL.findall(content))
            said = content[: content.index("<tool_call>")].removesuffix("\n")
        elif calls:
            results = tuple(_RESPONSE.findall(content))
            if len(results) != len(calls):
                raise FormatError(f"hermes: {len(results)} responses to {len(calls)} calls")
            turns.append(Turn("assistant", said, calls, results))
            calls = ()
        else:
            turns.append(Turn(role, content))
    if at != len(text):
        raise FormatError(f"hermes: text after the last message at {at}")
    return tools, messages_of(turns)


def _tools_of(content: str) -> tuple[str, Tools]:
    if _HEAD not in content:
        return content, []
    system, _, rest = content.partition(f"\n\n{_HEAD}")
    listed = rest.removesuffix(_TAIL)
    return system, [orjson.loads(line) for line in listed.split("\n")]


def _part(role: str, content: str) -> str:
    return f"{START}{role}\n{content}{END}\n"


def _safe(value: Any) -> str:
    return orjson.dumps(value).decode().replace("<", "\\u003c")


def _free(text: str, marks: tuple[str, ...], name: str) -> str:
    for mark in marks:
        if mark in text:
            raise FormatError(
                f"{name}: {mark!r} stands in a message; it cannot be told from a mark"
            )
    return text


_LABELS = ("Question:", "Thought:", "Action:", "Action Input:", "Observation:", "Final Answer:")
_REACT_HEAD = (
    "Answer the following questions as best you can. You have access to the following tools:"
)
_REACT_TAIL = (
    "Use the following format:\n\n"
    "Thought: you should always think about what to do\n"
    "Action: the action to take, should be one of the tools\n"
    "Action Input: the input to the action\n"
    "Observation: the result of the action\n"
    "... (this Thought/Action/Action Input/Observation can be repeated zero or more times)\n"
    "Final Answer: the final answer to the original input question\n\nBegin!"
)
_LABEL = re.compile(
    r"^(Question|Thought|Action|Action Input|Observation|Final Answer): ?", re.MULTILINE
)


def to_react(tools: Tools, messages: Messages) -> Row:
    """Write a record in the ReAct form; calls made at once stand one after another.

    Raises:
        FormatError: a content has a line that begins with one of the format's labels.
    """
    turns = turns_of(messages)
    system = ""
    if turns and turns[0].role == "system":
        system, turns = _free(turns[0].content, (_REACT_HEAD, "Begin!"), "react"), turns[1:]
    listed = "\n".join(orjson.dumps(tool["function"]).decode() for tool in tools)
    lines = []
    for turn in turns:
        said = _unlabelled(turn.content)
        if turn.role == "user":
            lines.append(f"Question: {said}")
        elif not turn.calls:
            lines.append(f"Final Answer: {said}")
        elif said:
            lines.append(f"Thought: {said}")
        for call, result in zip(turn.calls, turn.results, strict=True):
            lines.append(f"Action: {call.name}")
            lines.append(f"Action Input: {orjson.dumps(call.arguments).decode()}")
            lines.append(f"Observation: {_unlabelled(result)}")
    head = "\n\n".join(part for part in (system, _REACT_HEAD, listed, _REACT_TAIL) if part)
    return {"system": head, "text": "\n".join(lines)}


def from_react(row: Row) -> tuple[Tools, Messages]:
    """Read such a text; every call is a turn of its own.

    Raises:
        FormatError: it is something else.
    """
    turns: list[Turn] = []
    system, _, rest = row["system"].partition(_REACT_HEAD)
    listed = rest.removesuffix(_REACT_TAIL).strip("\n")
    tools = [
        {"type": "function", "function": orjson.loads(one)} for one in listed.split("\n") if one
    ]
    if system:
        turns.append(Turn("system", system.removesuffix("\n\n")))
    text = row["text"]
    found = list(_LABEL.finditer(text))
    thought, name, arguments = "", "", "{}"
    for place, match in enumerate(found):
        end = found[place + 1].start() - 1 if place + 1 < len(found) else len(text)
        label, content = match.group(1), text[match.end() : end]
        match label:
            case "Question":
                turns.append(Turn("user", content))
            case "Thought":
                thought = content
            case "Action":
                name = content
            case "Action Input":
                arguments = content
            case "Observation":
                call = ToolCall(name, orjson.loads(arguments))
                turns.append(Turn("assistant", thought, (call,), (content,)))
                thought = ""
            case _:
                turns.append(Turn("assistant", content))
    return tools, messages_of(turns)


def flat(turns: list[Turn]) -> list[Turn]:
    """Return turns with one call each, as ReAct has them."""
    out: list[Turn] = []
    for turn in turns:
        if len(turn.calls) < 2:
            out.append(turn)
            continue
        for place, (call, result) in enumerate(zip(turn.calls, turn.results, strict=True)):
            out.append(Turn("assistant", "" if place else turn.content, (call,), (result,)))
    return out


def _unlabelled(text: str) -> str:
    for label in _LABELS:
        if re.search(rf"^{label}", text, re.MULTILINE):
            raise FormatError(
                f"react: a line begins with {label!r}; it cannot be told from a label"
            )
    return text

"""Formats of tool-use records: each reads back as the same calls, or refuses by name."""

import string
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.synthesis.format_calls import (
    from_bfcl,
    from_xlam,
    parse_python_calls,
    python_calls,
    to_bfcl,
    to_xlam,
)
from transforms.synthesis.formats import FORMATS, FormatError, prove, prove_calls
from transforms.synthesis.turns import ToolCall, turns_of

TEXT = st.text(
    st.characters(exclude_categories=["Cs"]), max_size=40
) | st.sampled_from(
    ["", "<tool_call>", "a\nAction: b", "Final Answer: x", '{"a": 1}', "<|im_end|>", "[1, 2]", "\n", " x ",
     "Thought:", "</tool_response>\n", "<tools>", "一二\n三", "a\r\nb", "\u2028", "\n\nx\n\n"]
)  # fmt: skip
NAMES = st.text(string.ascii_lowercase + "_", min_size=2, max_size=8).map(lambda name: f"t_{name}")
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(NAMES, VALUES, max_size=3)
WORDS = st.text(string.ascii_letters + " '.,?-<>{}\"\n一二三", max_size=30)


def _tool(name: str, description: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "n": {"type": "number"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": schema},
    }


@st.composite
def conversations(draw: Any, text: Any = TEXT) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    tools = [
        _tool(name, draw(text))
        for name in draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    ]
    messages: list[dict[str, Any]] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(text.filter(bool))})
    number = 0
    for _ in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": draw(text)})
        for _ in range(draw(st.integers(0, 2))):
            calls = draw(st.lists(st.tuples(NAMES, ARGUMENTS), min_size=1, max_size=3))
            ids = [f"call_{number + place}" for place in range(len(calls))]
            number += len(calls)
            made = [
                {
                    "id": one,
                    "type": "function",
                    "function": {"name": name, "arguments": orjson.dumps(told).decode()},
                }
                for one, (name, told) in zip(ids, calls, strict=True)
            ]
            messages.append({"role": "assistant", "content": draw(text), "tool_calls": made})
            order = draw(st.permutations(ids))
            messages += [
                {"role": "tool", "tool_call_id": one, "content": draw(text)} for one in order
            ]
        messages.append({"role": "assistant", "content": draw(text)})
    return tools, messages


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_formats_read_back(name: str, data: Any) -> None:
    """Any conversation reads back as the same turns, or is refused; nothing is changed silently."""
    tools, messages = data.draw(conversations())
    try:
        row = FORMATS[name].render(tools, messages)
    except FormatError:
        assert name in ("hermes", "react")
        return
    row = orjson.loads(orjson.dumps(row))
    found_tools, found = FORMATS[name].parse(row)
    assert turns_of(found) == FORMATS[name].kept(turns_of(messages))
    assert found_tools == tools


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_plain_words_are_never_refused(name: str, data: Any) -> None:
    """Conversations in plain words fit into every format."""
    tools, messages = data.draw(
        conversations(WORDS.map(lambda text: text.replace("<", "").replace("\n", " ")))
    )
    prove(tools, messages, name)


@given(conversations())
@settings(max_examples=60, deadline=None)
def test_calls_read_back_from_rows(given_: Any) -> None:
    """The leaderboard's rows and xLAM's give the same calls, one row for each step."""
    tools, messages = given_
    if any(
        value == ""
        for turn in turns_of(messages)
        for c in turn.calls
        for value in c.arguments.values()
    ):
        with pytest.raises(FormatError, match="left out"):
            to_bfcl(tools, messages, "r")
        return
    steps = [turn for turn in turns_of(messages) if turn.role == "assistant"]
    rows = to_bfcl(tools, messages, "r")
    assert len(rows) == len(steps) == prove_calls(tools, messages, "r")
    for turn, (question, answer) in zip(steps, rows, strict=True):
        assert question["id"] == answer["id"]
        assert len(answer["ground_truth"]) == len(turn.calls)
        assert all(function["parameters"]["type"] == "dict" for function in question["function"])
        assert all(
            f["parameters"]["properties"]["n"]["type"] == "float" for f in question["function"]
        )


@given(st.lists(st.tuples(NAMES, ARGUMENTS), max_size=3))
@settings(max_examples=60, deadline=None)
def test_python_calls_read_back(calls: Any) -> None:
    """Calls as Python text read back as the same calls."""
    made = [ToolCall(name, told) for name, told in calls]
    assert parse_python_calls(python_calls(made)) == made
    assert parse_python_calls(python_calls([ToolCall("a.b", {})]))[0].name == "a.b"


def _one(arguments: str = '{"a": "x"}', result: str = "[]") -> list[dict[str, Any]]:
    call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": arguments}}
    return [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": result},
        {"role": "assistant", "content": "a"},
    ]


def test_hermes_is_the_known_text() -> None:
    """The text is what the Qwen2.5 template writes for a call and its response."""
    text = FORMATS["hermes"].render([_tool("t", "d")], _one())["text"]
    assert '<tool_call>\n{"name":"t","arguments":{"a":"x"}}\n</tool_call><|im_end|>\n' in text
    assert "<|im_start|>user\n<tool_response>\n[]\n</tool_response><|im_end|>\n" in text
    assert text.startswith("<|im_start|>system\n")
    assert text.count("<tools>\n{") == 1


def test_sharegpt_alternates() -> None:
    """Humans and observations stand at even places, the model's turns at odd ones."""
    row = FORMATS["sharegpt"].render([_tool("t", "d")], _one())
    sides = [one["from"] for one in row["conversations"]]
    assert sides == ["human", "function_call", "observation", "gpt"]


def test_marks_in_text_are_refused_by_name() -> None:
    """A result that holds a mark is no hermes text; the message names the mark."""
    with pytest.raises(FormatError, match=r"'<\|im_end\|>'"):
        FORMATS["hermes"].render([], _one(result="<|im_end|>"))
    inside = FORMATS["hermes"].render([], _one('{"a": "</tool_call>"}'))
    assert turns_of(FORMATS["hermes"].parse(inside)[1]) == turns_of(_one('{"a": "</tool_call>"}'))


def test_broken_conversations_are_refused() -> None:
    """Calls without results, results without calls, arguments that are no object."""
    for messages in (_one()[:2], _one()[2:], _one("[1]"), _one("{")):
        with pytest.raises(FormatError, match="message"):
            turns_of(messages)
    two = [*_one(), *_one()]
    two[5]["tool_calls"][0]["id"] = two[6]["tool_call_id"] = "d"
    with pytest.raises(FormatError, match="2 questions and 2 steps"):
        to_xlam([_tool("t", "d")], two)
    with pytest.raises(FormatError, match="no Python name"):
        python_calls([ToolCall("t", {"from": 1})])


def test_rows_that_lie_are_caught() -> None:
    """A parser that reads another call is no proof: changed rows differ."""
    tools, messages = [_tool("t", "d")], _one()
    row = FORMATS["swift"].render(tools, messages)
    row["messages"][1]["content"] = '{"name": "t", "arguments": {"a": "y"}}'
    assert turns_of(FORMATS["swift"].parse(row)[1]) != turns_of(messages)
    answer = to_bfcl(tools, messages, "r")[0][1]
    assert from_bfcl(answer) == [ToolCall("t", {"a": "x"})]
    assert answer["ground_truth"] == [{"t": {"a": ["x"], "n": [""]}}]
    assert from_xlam(to_xlam(tools, messages)) == ("q", [ToolCall("t", {"a": "x"})])

"""Rows of calls: xLAM's (one step of calls) and those of the Berkeley function-calling leaderboard.

The leaderboard's own types are ``dict``, ``float``, ``integer``, ``string``, ``boolean``, ``array`` (with
``items``) and ``any``; JSON Schema's ``object`` and ``number`` are written so (bfcl-eval 2026.3.23,
``ast_checker``). An answer row lists the acceptable values of each argument.
"""

import ast
import keyword
from typing import Any

import orjson

from transforms.synthesis.turns import FormatError, Messages, ToolCall, Tools, Turn, turns_of

Row = dict[str, Any]

_XLAM = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict"}  # fmt: skip
_XLAM_BACK = {value: key for key, value in _XLAM.items()}
_BFCL = {"object": "dict", "number": "float"}


def to_xlam(tools: Tools, messages: Messages) -> Row:
    """Write a record of one question and at most one step of calls.

    Raises:
        FormatError: there are more questions or steps.
    """
    turns = turns_of(messages)
    asked = [turn for turn in turns if turn.role == "user"]
    steps = [turn for turn in turns if turn.calls]
    if len(asked) != 1 or len(steps) > 1:
        raise FormatError(
            f"xlam: {len(asked)} questions and {len(steps)} steps of calls; a row holds one of each"
        )
    answers = [{"name": c.name, "arguments": c.arguments} for turn in steps for c in turn.calls]
    return {
        "query": asked[0].content,
        "tools": orjson.dumps([_xlam_tool(tool["function"]) for tool in tools]).decode(),
        "answers": orjson.dumps(answers).decode(),
    }


def _xlam_tool(function: dict[str, Any]) -> Row:
    schema = function["parameters"]
    required = schema.get("required", [])
    parameters = {}
    for name, one in schema.get("properties", {}).items():
        kind = _XLAM.get(one.get("type", ""), "str")
        parameters[name] = {
            "description": one.get("description", ""),
            "type": kind if name in required else f"{kind}, optional",
        }
    return {
        "name": function["name"],
        "description": function["description"],
        "parameters": parameters,
    }


def from_xlam(row: Row) -> tuple[str, list[ToolCall]]:
    """Return the question and the calls of a row."""
    answers = orjson.loads(row["answers"])
    return row["query"], [ToolCall(one["name"], one["arguments"]) for one in answers]


def bfcl_function(function: dict[str, Any]) -> Row:
    """Write a tool for the leaderboard."""
    return {
        "name": function["name"],
        "description": function["description"],
        "parameters": _bfcl_schema(function["parameters"]),
    }


def _bfcl_schema(schema: dict[str, Any]) -> Row:
    out = {key: value for key, value in schema.items() if key != "additionalProperties"}
    kind = out.get("type", "any")
    out["type"] = _BFCL.get(kind, kind) if isinstance(kind, str) else "any"
    if out["type"] == "array":
        out["items"] = _bfcl_schema(out.get("items", {"type": "string"}))
    if "properties" in out:
        out["properties"] = {name: _bfcl_schema(one) for name, one in out["properties"].items()}
    return out


def bfcl_category(calls: int) -> str:
    """Return the category of a step: by its number of calls."""
    return {0: "irrelevance", 1: "multiple"}.get(calls, "parallel_multiple")


def to_bfcl(tools: Tools, messages: Messages, record_id: str) -> list[tuple[Row, Row]]:
    """Write each step of the assistant as a question row and an answer row.

    Args:
        tools: of the record.
        messages: in OpenAI's form.
        record_id: begins the ids of the rows.

    Returns:
        (question, answer) by step; a turn without calls has an empty ``ground_truth``.

    Raises:
        FormatError: an argument is an empty text.
    """
    functions = [bfcl_function(tool["function"]) for tool in tools]
    optional = {
        one["name"]: set(one["parameters"].get("properties", {}))
        - set(one["parameters"].get("required", []))
        for one in functions
    }
    rows: list[tuple[Row, Row]] = []
    before: list[Row] = []
    for turn in turns_of(messages):
        if turn.role == "assistant":
            name = f"{record_id}_{bfcl_category(len(turn.calls))}_{len(rows)}"
            question = {"id": name, "question": [list(before)], "function": functions}
            truth = [_bfcl_answer(call, optional.get(call.name, set())) for call in turn.calls]
            rows.append((question, {"id": name, "ground_truth": truth}))
        before.extend(_said(turn))
    return rows


def _said(turn: Turn) -> list[Row]:
    out = [{"role": turn.role, "content": turn.content}]
    if turn.calls:
        out[0]["content"] = (turn.content + "\n" + python_calls(turn.calls)).strip()
    out.extend({"role": "tool", "content": result} for result in turn.results)
    return out


def _bfcl_answer(call: ToolCall, optional: set[str]) -> Row:
    for name, value in call.arguments.items():
        if value == "":
            raise FormatError(
                f"bfcl: {call.name}: {name} is an empty text, which there means left out"
            )
    values: Row = {name: [_acceptable(value)] for name, value in call.arguments.items()}
    values.update({name: [""] for name in sorted(optional - set(call.arguments))})
    return {call.name: values}


def _acceptable(value: Any) -> Any:
    """Nested objects list acceptable values too."""
    if isinstance(value, dict):
        return {name: [_acceptable(one)] for name, one in value.items()}
    return value


def from_bfcl(answer: Row) -> list[ToolCall]:
    """Return the calls that an answer row stands for: the first acceptable values."""
    calls = []
    for one in answer["ground_truth"]:
        (name, values), *rest = one.items()
        if rest:
            raise FormatError(f"bfcl: {answer['id']}: more than one name in a call")
        told = {key: _given(accepted) for key, accepted in values.items() if accepted != [""]}
        calls.append(ToolCall(name, told))
    return calls


def _given(accepted: list[Any]) -> Any:
    first = accepted[0]
    if isinstance(first, dict):
        return {name: _given(inner) for name, inner in first.items()}
    return first


def python_calls(calls: "tuple[ToolCall, ...] | list[ToolCall]") -> str:
    """Write calls as the leaderboard reads them: ``[f(a="x"), g(b=[1])]``.

    Raises:
        FormatError: a name is no Python name.
    """
    return f"[{', '.join(_python(call) for call in calls)}]"


def _python(call: ToolCall) -> str:
    for name in (*call.name.split("."), *call.arguments):
        if not name.isidentifier() or keyword.iskeyword(name):
            raise FormatError(f"bfcl: {name!r} in a call of {call.name!r} is no Python name")
    told = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({told})"


def parse_python_calls(text: str) -> list[ToolCall]:
    """Read what :func:`python_calls` wrote.

    Raises:
        FormatError: it is something else.
    """
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        raise FormatError(f"bfcl: {text!r} is no Python") from error
    if not isinstance(body, ast.List):
        raise FormatError(f"bfcl: {text!r} is no list of calls")
    return [_parsed(one) for one in body.elts]


def _parsed(node: ast.expr) -> ToolCall:
    if not isinstance(node, ast.Call) or node.args:
        raise FormatError("bfcl: not a call by keywords")
    arguments = {}
    for one in node.keywords:
        if one.arg is None:
            raise FormatError("bfcl: not a call by keywords")
        arguments[one.arg] = ast.literal_eval(one.value)
    return ToolCall(ast.unparse(node.func), arguments)

"""Records made wrong in their calls and results."""

import copy
from collections.abc import Callable
from typing import Any

import orjson

from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.record import Record


def _calls(record: Record) -> list[tuple[int, dict[str, Any]]]:
    """Return the calls with the places of their messages."""
    return [
        (place, call)
        for place, message in enumerate(record.messages)
        for call in message.get("tool_calls", ())
    ]


def _remove(record: Record, place: int, call: dict[str, Any]) -> None:
    message = record.messages[place]
    message["tool_calls"].remove(call)
    if not message["tool_calls"]:
        del record.messages[place]
    record.messages[:] = [m for m in record.messages if m.get("tool_call_id") != call["id"]]


def dropped_call(record: Record, graph: Graph, draw: Draw) -> bool:
    """Leave out a call."""
    calls = _calls(record)
    if not calls:
        return False
    _remove(record, *draw.choose(calls))
    return True


def repeated_call(record: Record, graph: Graph, draw: Draw) -> bool:
    """Make a call again that succeeded."""
    # A page or a failed call may be asked for again; what succeeded whole may not.
    good = [
        (place, call)
        for place, call in _calls(record)
        if '"error"' not in _result(record, call["id"])["content"]
    ]
    if not good:
        return False
    place, call = draw.choose(good)
    again = {**copy.deepcopy(call), "id": call["id"] + "x"}
    result = {**_result(record, call["id"]), "tool_call_id": again["id"]}
    last = place + len(record.messages[place]["tool_calls"])
    record.messages[place]["tool_calls"].append(again)
    record.messages.insert(last + 1, result)
    return True


def _result(record: Record, key: str) -> dict[str, Any]:
    return next(m for m in record.messages if m.get("tool_call_id") == key)


def unknown_function(record: Record, graph: Graph, draw: Draw) -> bool:
    """Call a tool that there is not."""
    calls = _calls(record)
    if not calls:
        return False
    draw.choose(calls)[1]["function"]["name"] += "_all"
    return True


def other_function(record: Record, graph: Graph, draw: Draw) -> bool:
    """Call another tool that is at hand."""
    calls = [call for _, call in _calls(record)]
    if not calls or len(record.tools) < 2:
        return False
    function = draw.choose(calls)["function"]
    names = [
        t["function"]["name"] for t in record.tools if t["function"]["name"] != function["name"]
    ]
    function["name"] = draw.choose(names)
    return True


def _with_arguments(
    record: Record, draw: Draw, change: Callable[[dict[str, Any], dict[str, Any]], bool]
) -> bool:
    schemas = {t["function"]["name"]: t["function"]["parameters"] for t in record.tools}
    for _, call in draw.shuffled(_calls(record)):
        function = call["function"]
        arguments = orjson.loads(function["arguments"])
        if change(arguments, schemas[function["name"]]):
            function["arguments"] = orjson.dumps(arguments).decode()
            return True
    return False


def missing_argument(record: Record, graph: Graph, draw: Draw) -> bool:
    """Leave out an argument that is required."""

    def change(arguments: dict[str, Any], schema: dict[str, Any]) -> bool:
        if not schema["required"]:
            return False
        del arguments[draw.choose(schema["required"])]
        return True

    return _with_arguments(record, draw, change)


def extra_argument(record: Record, graph: Graph, draw: Draw) -> bool:
    """Give an argument that there is not."""

    def change(arguments: dict[str, Any], schema: dict[str, Any]) -> bool:
        arguments["verbose"] = True
        return True

    return _with_arguments(record, draw, change)


def argument_of_another_type(record: Record, graph: Graph, draw: Draw) -> bool:
    """Give a list for a text, or a text for a list."""

    def change(arguments: dict[str, Any], schema: dict[str, Any]) -> bool:
        if not arguments:
            return False
        name = draw.choose(sorted(arguments))
        value = arguments[name]
        arguments[name] = [value] if not isinstance(value, list) else ", ".join(map(str, value))
        return True

    return _with_arguments(record, draw, change)


def other_entity(record: Record, graph: Graph, draw: Draw) -> bool:
    """Name another entity of the same type in a call."""

    def change(arguments: dict[str, Any], schema: dict[str, Any]) -> bool:
        for name, value in arguments.items():
            items = value if isinstance(value, list) else [value]
            for place, item in enumerate(items):
                other = _another(item, graph, draw) if isinstance(item, str) else None
                if other is not None and other not in items:
                    arguments[name] = (
                        [*items[:place], other, *items[place + 1 :]]
                        if isinstance(value, list)
                        else other
                    )
                    return True
        return False

    return _with_arguments(record, draw, change)


def _another(label: str, graph: Graph, draw: Draw) -> str | None:
    found = graph.named(label)
    if len(found) != 1:
        return None
    kind = graph.type_of(found[0])
    pool = graph.members_of(kind) if kind >= 0 else range(graph.n_entities)
    other = int(pool[draw.below(len(pool))])
    return None if other == found[0] else graph.labels[other]


def dropped_item(record: Record, graph: Graph, draw: Draw) -> bool:
    """Leave out an item of a list."""

    def change(arguments: dict[str, Any], schema: dict[str, Any]) -> bool:
        lists = [n for n, v in arguments.items() if isinstance(v, list) and len(v) > 1]
        if not lists:
            return False
        items = arguments[draw.choose(lists)]
        del items[draw.below(len(items))]
        return True

    return _with_arguments(record, draw, change)


def swapped_arguments(record: Record, graph: Graph, draw: Draw) -> bool:
    """Exchange what is kept and what is removed."""
    ops = {t["function"]["name"]: op for t, op in zip(record.tools, record.ops, strict=True)}
    for _, call in draw.shuffled(_calls(record)):
        function = call["function"]
        if ops[function["name"]][0] == "subtract":
            arguments = orjson.loads(function["arguments"])
            first, second = arguments
            arguments[first], arguments[second] = arguments[second], arguments[first]
            function["arguments"] = orjson.dumps(arguments).decode()
            return True
    return False


def altered_result(record: Record, graph: Graph, draw: Draw) -> bool:
    """Change the text of a result."""
    results = [m for m in record.messages if m["role"] == "tool"]
    if not results:
        return False
    message = draw.choose(results)
    message["content"] = message["content"] + " "
    return True


def wrong_id(record: Record, graph: Graph, draw: Draw) -> bool:
    """Let a result be of another call."""
    results = [m for m in record.messages if m["role"] == "tool"]
    if not results:
        return False
    draw.choose(results)["tool_call_id"] += "0"
    return True


def unanswered_call(record: Record, graph: Graph, draw: Draw) -> bool:
    """Leave out a result."""
    results = [m for m in record.messages if m["role"] == "tool"]
    if not results:
        return False
    record.messages.remove(draw.choose(results))
    return True


def premature_answer(record: Record, graph: Graph, draw: Draw) -> bool:
    """Answer a turn without any of its last calls."""
    calls = _calls(record)
    if not calls:
        return False
    place = calls[-1][0]
    for call in list(record.messages[place]["tool_calls"]):
        _remove(record, place, call)
    return True

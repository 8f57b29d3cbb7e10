"""Records made wrong in one way each: what the gate must refuse, and what a model must not prefer.

Every mutation changes what a model would write (calls, arguments, answers) or what proves it
(results, plan, gold, definitions). A mutation that leaves a record right by chance, such as another
entity with the same answer, is not made where that can be seen; what survives is listed by
``benchmarks/synthesis.py``.
"""

import copy
from collections.abc import Callable
from typing import Any

import orjson

from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.record import Record

Mutation = Callable[[Record, Graph, Draw], bool]
"""Changes a record in place; returns whether there was something to change."""


def mutated(record: Record, kind: str, graph: Graph, draw: Draw) -> Record | None:
    """Return a record made wrong in one way; None where it has nothing to be made wrong so.

    Args:
        record: is not changed.
        kind: one of MUTATIONS.
        graph: the record's.
        draw: where choices come from.
    """
    changed = copy.deepcopy(record)
    return changed if MUTATIONS[kind](changed, graph, draw) else None


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


def _dropped_call(record: Record, graph: Graph, draw: Draw) -> bool:
    calls = _calls(record)
    if not calls:
        return False
    _remove(record, *draw.choose(calls))
    return True


def _repeated_call(record: Record, graph: Graph, draw: Draw) -> bool:
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


def _unknown_function(record: Record, graph: Graph, draw: Draw) -> bool:
    calls = _calls(record)
    if not calls:
        return False
    draw.choose(calls)[1]["function"]["name"] += "_all"
    return True


def _other_function(record: Record, graph: Graph, draw: Draw) -> bool:
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


def _missing_argument(record: Record, graph: Graph, draw: Draw) -> bool:
    def change(arguments: dict[str, Any], schema: dict[str, Any]) -> bool:
        if not schema["required"]:
            return False
        del arguments[draw.choose(schema["required"])]
        return True

    return _with_arguments(record, draw, change)


def _extra_argument(record: Record, graph: Graph, draw: Draw) -> bool:
    def change(arguments: dict[str, Any], schema: dict[str, Any]) -> bool:
        arguments["verbose"] = True
        return True

    return _with_arguments(record, draw, change)


def _argument_of_another_type(record: Record, graph: Graph, draw: Draw) -> bool:
    def change(arguments: dict[str, Any], schema: dict[str, Any]) -> bool:
        if not arguments:
            return False
        name = draw.choose(sorted(arguments))
        value = arguments[name]
        arguments[name] = [value] if not isinstance(value, list) else ", ".join(map(str, value))
        return True

    return _with_arguments(record, draw, change)


def _other_entity(record: Record, graph: Graph, draw: Draw) -> bool:
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


def _dropped_item(record: Record, graph: Graph, draw: Draw) -> bool:
    def change(arguments: dict[str, Any], schema: dict[str, Any]) -> bool:
        lists = [n for n, v in arguments.items() if isinstance(v, list) and len(v) > 1]
        if not lists:
            return False
        items = arguments[draw.choose(lists)]
        del items[draw.below(len(items))]
        return True

    return _with_arguments(record, draw, change)


def _swapped_arguments(record: Record, graph: Graph, draw: Draw) -> bool:
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


def _altered_result(record: Record, graph: Graph, draw: Draw) -> bool:
    results = [m for m in record.messages if m["role"] == "tool"]
    if not results:
        return False
    message = draw.choose(results)
    message["content"] = message["content"] + " "
    return True


def _wrong_id(record: Record, graph: Graph, draw: Draw) -> bool:
    results = [m for m in record.messages if m["role"] == "tool"]
    if not results:
        return False
    draw.choose(results)["tool_call_id"] += "0"
    return True


def _unanswered_call(record: Record, graph: Graph, draw: Draw) -> bool:
    results = [m for m in record.messages if m["role"] == "tool"]
    if not results:
        return False
    record.messages.remove(draw.choose(results))
    return True


def _premature_answer(record: Record, graph: Graph, draw: Draw) -> bool:
    """Answer a turn without any of its last calls."""
    calls = _calls(record)
    if not calls:
        return False
    place = calls[-1][0]
    for call in list(record.messages[place]["tool_calls"]):
        _remove(record, place, call)
    return True


def _stated(record: Record) -> list[dict[str, Any]]:
    return [t for t in record.turns if t["gold"]["kind"] == "entities" and t["gold"]["labels"]]


def _unsaid_answer(record: Record, graph: Graph, draw: Draw) -> bool:
    """Leave an entity of the answer out of what is said."""
    for turn in draw.shuffled(_stated(record)):
        message = record.messages[turn["last_message"]]
        said = [label for label in turn["gold"]["labels"] if label in message["content"]]
        if turn["behaviour"] in ("answer", "partial") and said and len(said) <= 10:
            message["content"] = message["content"].replace(draw.choose(said), "...")
            return True
    return False


def _missing_gold(record: Record, graph: Graph, draw: Draw) -> bool:
    for turn in draw.shuffled(_stated(record)):
        place = draw.below(len(turn["gold"]["ids"]))
        turn["gold"] = {
            **turn["gold"],
            "ids": _without(turn["gold"]["ids"], place),
            "labels": _without(turn["gold"]["labels"], place),
        }
        _note_last(record)
        return True
    return False


def _without(items: list[Any], place: int) -> list[Any]:
    return [*items[:place], *items[place + 1 :]]


def _other_number(record: Record, graph: Graph, draw: Draw) -> bool:
    for turn in draw.shuffled(record.turns):
        if turn["gold"]["kind"] == "number":
            turn["gold"] = {**turn["gold"], "number": turn["gold"]["number"] + 1}
            _note_last(record)
            return True
    return False


def _other_anchor(record: Record, graph: Graph, draw: Draw) -> bool:
    """Let the plan be about an entity that is not the user's."""
    for turn in draw.shuffled(record.turns):
        found = [part for part in _parts(orjson.loads(turn["plan"] or "[]")) if part[0] == "anchor"]
        if found:
            old = draw.choose(found)[1]
            new = graph.entity_ids[draw.below(graph.n_entities)]
            if new != old:
                turn["plan"] = turn["plan"].replace(f'["anchor","{old}"]', f'["anchor","{new}"]')
                _note_last(record)
                return True
    return False


def _parts(plan: Any) -> list[list[Any]]:
    if not isinstance(plan, list) or not plan:
        return []
    found = [plan] if isinstance(plan[0], str) else []
    return found + [part for item in plan for part in _parts(item)]


def _needless_refusal(record: Record, graph: Graph, draw: Draw) -> bool:
    """Refuse what the tools at hand give."""
    if len(record.turns) != 1 or record.turns[0]["behaviour"] != "answer":
        return False
    record.messages[:] = [
        m for m in record.messages if m["role"] != "tool" and "tool_calls" not in m
    ]
    record.faults.clear()
    record.turns[0] |= {"behaviour": "refuse", "gold": {"kind": "none"}}
    _note_last(record)
    return True


def _bad_definition(record: Record, graph: Graph, draw: Draw) -> bool:
    if not record.tools:
        return False
    draw.choose(record.tools)["function"]["parameters"]["required"].append("nothing")
    return True


def _calm_environment(record: Record, graph: Graph, draw: Draw) -> bool:
    """Leave out what the environment did."""
    if not record.faults:
        return False
    record.faults.clear()
    return True


def _other_style(record: Record, graph: Graph, draw: Draw) -> bool:
    """Let the world return something else than it did."""
    if not any(m["role"] == "tool" for m in record.messages):
        return False
    world = orjson.loads(record.world)
    world["envelope"] = "list" if world.get("envelope") == "data" else "data"
    _set(record, world=orjson.dumps(world).decode())
    return True


def _note_last(record: Record) -> None:
    """Let the record answer what its last turn does."""
    _set(record, plan=record.turns[-1]["plan"], gold=record.turns[-1]["gold"])


def _set(record: Record, **fields: Any) -> None:
    # Records do not change elsewhere; this one is a copy made to be changed.
    for name, value in fields.items():
        object.__setattr__(record, name, value)


MUTATIONS: dict[str, Mutation] = {
    "dropped call": _dropped_call,
    "repeated call": _repeated_call,
    "unknown function": _unknown_function,
    "other function": _other_function,
    "missing argument": _missing_argument,
    "extra argument": _extra_argument,
    "argument of another type": _argument_of_another_type,
    "other entity": _other_entity,
    "dropped item": _dropped_item,
    "swapped arguments": _swapped_arguments,
    "altered result": _altered_result,
    "wrong id": _wrong_id,
    "unanswered call": _unanswered_call,
    "premature answer": _premature_answer,
    "unsaid answer": _unsaid_answer,
    "missing gold": _missing_gold,
    "other number": _other_number,
    "other anchor": _other_anchor,
    "needless refusal": _needless_refusal,
    "bad definition": _bad_definition,
    "calm environment": _calm_environment,
    "other style": _other_style,
}
"""Ways to make a record wrong, by name."""

"""Records made wrong in what they say, and in what proves them."""

from typing import Any

import orjson

from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.record import Record


def _stated(record: Record) -> list[dict[str, Any]]:
    return [t for t in record.turns if t["gold"]["kind"] == "entities" and t["gold"]["labels"]]


def unsaid_answer(record: Record, graph: Graph, draw: Draw) -> bool:
    """Leave an entity of the answer out of what is said."""
    for turn in draw.shuffled(_stated(record)):
        message = record.messages[turn["last_message"]]
        said = [label for label in turn["gold"]["labels"] if label in message["content"]]
        if turn["behaviour"] in ("answer", "partial") and said and len(said) <= 10:
            message["content"] = message["content"].replace(draw.choose(said), "...")
            return True
    return False


def missing_gold(record: Record, graph: Graph, draw: Draw) -> bool:
    """Leave an entity out of the answer that is noted."""
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


def other_number(record: Record, graph: Graph, draw: Draw) -> bool:
    """Note another number as the answer."""
    for turn in draw.shuffled(record.turns):
        if turn["gold"]["kind"] == "number":
            turn["gold"] = {**turn["gold"], "number": turn["gold"]["number"] + 1}
            _note_last(record)
            return True
    return False


def other_anchor(record: Record, graph: Graph, draw: Draw) -> bool:
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


def needless_refusal(record: Record, graph: Graph, draw: Draw) -> bool:
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


def bad_definition(record: Record, graph: Graph, draw: Draw) -> bool:
    """Let a tool require what it does not define."""
    if not record.tools:
        return False
    draw.choose(record.tools)["function"]["parameters"]["required"].append("nothing")
    return True


def calm_environment(record: Record, graph: Graph, draw: Draw) -> bool:
    """Leave out what the environment did."""
    if not record.faults:
        return False
    record.faults.clear()
    return True


def other_style(record: Record, graph: Graph, draw: Draw) -> bool:
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

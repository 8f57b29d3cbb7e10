"""Records made to run again: the tools of a record, and its calls in a fresh executor."""

from collections.abc import Sequence
from typing import Any

import orjson

from transforms.synthesis.executor import Directory, Executor
from transforms.synthesis.plan_text import Numbers
from transforms.synthesis.record import Record
from transforms.synthesis.results import Outcome
from transforms.synthesis.style import Style
from transforms.synthesis.tools import Tool
from transforms.synthesis.voice import Op


def read_op(written: Sequence[Any], numbers: Numbers) -> Op:
    """Read what a tool does from the ids that a record holds.

    Raises:
        KeyError: an id is not of this graph.
    """
    kind, *rest = written
    if kind == "deprecated":
        return ("deprecated", *read_op(rest, numbers))
    if kind in ("project", "inverse"):
        return ("project", numbers.relations[rest[0]], kind == "inverse")
    if kind in ("value", "filter", "top"):
        return (kind, numbers.attributes[rest[0]])
    return (kind,)


def tools_of(record: Record, numbers: Numbers) -> list[Tool]:
    """Return the tools of a record as it holds them.

    Raises:
        KeyError: an id is not of this graph.
    """
    ops = [read_op(op, numbers) for op in record.ops]
    pairs = zip(record.tools, ops, strict=True)
    return [Tool(spec["function"]["name"], op, spec) for spec, op in pairs]


def executor_of(record: Record, directory: Directory, numbers: Numbers) -> Executor:
    """Return the tool world of a record before its first call.

    Raises:
        KeyError: an id is not of this graph.
    """
    style = Style.read(record.world)
    return Executor(directory, style, tools_of(record, numbers), record.faults)


def replay(record: Record, directory: Directory, numbers: Numbers) -> tuple[list[Outcome], str]:
    """Make a record's calls again, in order.

    Returns:
        What they gave, and the first difference from what the record says; empty: there is none.

    Raises:
        KeyError: an id is not of this graph.
    """
    executor = executor_of(record, directory, numbers)
    outcomes: list[Outcome] = []
    waiting: list[tuple[str, Outcome]] = []
    for message in record.messages:
        if message["role"] == "tool":
            if not waiting:
                return outcomes, "a result without a call"
            key, outcome = waiting.pop(0)
            if key != message["tool_call_id"]:
                return outcomes, "a result of another call"
            if orjson.dumps(outcome.content).decode() != message["content"]:
                return outcomes, f"another result of call {len(outcomes) - len(waiting) - 1}"
            continue
        if waiting:
            return outcomes, "a call without a result"
        for call in message.get("tool_calls", ()):
            function = call["function"]
            outcome = executor.call(function["name"], orjson.loads(function["arguments"]))
            outcomes.append(outcome)
            waiting.append((call["id"], outcome))
    return outcomes, "a call without a result" if waiting else ""

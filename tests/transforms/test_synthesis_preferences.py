"""Preference pairs: the rejected trajectory is executable, fits its schemas, and answers wrongly."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from jsonschema import Draft202012Validator
from small_voice import SmallVoice

from transforms.synthesis.build import Block, cells, generate_block
from transforms.synthesis.executor import Directory
from transforms.synthesis.graph import Graph
from transforms.synthesis.limits import Limits
from transforms.synthesis.plan import Count, evaluate
from transforms.synthesis.plan_text import Numbers, parse
from transforms.synthesis.preferences import KINDS, Preference, Preferences
from transforms.synthesis.record import Record
from transforms.synthesis.replay import replay
from transforms.synthesis.scene import Kit
from transforms.synthesis.synthetic_graph import synthetic_graph

SCENARIOS = ("plain", "distractors_sibling", "distractors_inverse", "missing_tool", "no_tool")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return synthetic_graph(3, 14)


@pytest.fixture(scope="module")
def records(graph: Graph) -> dict[str, Record]:
    kit = Kit(graph, SmallVoice(graph), "en", 7, Limits())
    found = {}
    for pattern, scenario in cells(scenarios=SCENARIOS):
        for candidate in generate_block(kit, Block(pattern, scenario, 0, 5)):
            if candidate.record is not None:
                found[candidate.record.record_id] = candidate.record
    return found


@pytest.fixture(scope="module")
def pairs(graph: Graph, records: dict[str, Record]) -> list[Preference]:
    maker = Preferences(Kit(graph, SmallVoice(graph), "en", 7, Limits()))
    return [pair for record in records.values() for pair in maker.pairs(record)]


def test_every_kind_is_made(pairs: list[Preference]) -> None:
    """Each kind of wrong trajectory comes several times."""
    counts = Counter(pair.kind for pair in pairs)
    assert set(counts) == set(KINDS)
    assert min(counts.values()) >= 5


def test_prompts_and_choices_are_the_records(
    pairs: list[Preference], records: dict[str, Record]
) -> None:
    """Prompt and chosen messages are the record; the rejected ones differ and end with an answer."""
    for pair in pairs:
        record = records[pair.record_id]
        assert pair.prompt + pair.chosen == record.messages
        assert pair.prompt[-1]["role"] == "user"
        assert pair.rejected != pair.chosen
        assert pair.rejected[-1]["role"] == "assistant"
        assert "tool_calls" not in pair.rejected[-1]
        json.loads(pair.to_json())


def test_rejected_calls_are_real(
    pairs: list[Preference], records: dict[str, Record], graph: Graph
) -> None:
    """Rejected calls fit their schemas and give what is written, in a fresh world."""
    directory, numbers = Directory(graph), Numbers.of(graph)
    for pair in pairs:
        record = records[pair.record_id]
        other = replace(record, messages=[*pair.prompt, *pair.rejected])
        assert replay(other, directory, numbers)[1] == ""
        schemas = {t["function"]["name"]: t["function"]["parameters"] for t in pair.tools}
        for message in pair.rejected:
            for call in message.get("tool_calls", ()):
                arguments = json.loads(call["function"]["arguments"])
                Draft202012Validator(schemas[call["function"]["name"]]).validate(arguments)


def test_rejected_answers_are_wrong(
    pairs: list[Preference], records: dict[str, Record], graph: Graph
) -> None:
    """The wrong plan evaluates to what is answered, and that is not the gold answer."""
    numbers = Numbers.of(graph)
    for pair in pairs:
        record = records[pair.record_id]
        plan = parse(pair.plan, numbers)
        found = evaluate(plan, graph)
        if pair.answer["kind"] == "entities":
            ids = {graph.entity_ids[e] for e in found.tolist()}
            assert set(pair.answer["ids"]) == ids != set(record.gold.get("ids", ()))
        else:
            assert pair.answer["number" if isinstance(plan, Count) else "value"] == found
            assert pair.answer != record.gold
        if pair.kind == "over_calling":
            assert record.turns[-1]["behaviour"] in ("refuse", "chat")
            assert not any("tool_calls" in message for message in pair.chosen)
            assert any("tool_calls" in message for message in pair.rejected)


def test_pairs_depend_on_the_record_alone(graph: Graph, records: dict[str, Record]) -> None:
    """Another maker that sees the records in another order makes the same pairs."""
    some = list(records.values())[::7]
    one = Preferences(Kit(graph, SmallVoice(graph), "en", 7, Limits()))
    other = Preferences(Kit(graph, SmallVoice(graph), "en", 7, Limits()))
    first = {record.record_id: one.pairs(record) for record in some}
    for record in reversed(some):
        assert other.pairs(record) == first[record.record_id]

"""Conversations of every scenario: they replay, they answer what was asked, they say what they are."""

import json
from itertools import product

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from small_voice import SmallVoice

from transforms.synthesis.build import SCENARIOS, Block, cells, generate, generate_block
from transforms.synthesis.closure import Steps, derive
from transforms.synthesis.executor import TRANSIENT, Directory
from transforms.synthesis.graph import Graph
from transforms.synthesis.limits import Limits
from transforms.synthesis.plan import Intersect, anchors, evaluate
from transforms.synthesis.plan_text import Numbers, parse
from transforms.synthesis.record import Candidate, Record
from transforms.synthesis.replay import read_op, replay
from transforms.synthesis.scene import Kit
from transforms.synthesis.synthetic_graph import synthetic_graph

LIMITS = Limits(long_least=30)
EACH = 3


@pytest.fixture(scope="module")
def graph() -> Graph:
    return synthetic_graph(3, 14)


@pytest.fixture(scope="module")
def made(graph: Graph) -> list[Candidate]:
    kit = Kit(graph, SmallVoice(graph), "en", 7, LIMITS)
    blocks = [Block(pattern, scenario, 0, EACH) for pattern, scenario in cells()]
    return [candidate for block in blocks for candidate in generate_block(kit, block)]


@pytest.fixture(scope="module")
def records(made: list[Candidate]) -> list[Record]:
    return [candidate.record for candidate in made if candidate.record is not None]


def _of(records: list[Record], *scenarios: str) -> list[Record]:
    found = [record for record in records if record.labels["scenario"] in scenarios]
    assert found
    return found


def test_every_scenario_is_made(made: list[Candidate], records: list[Record]) -> None:
    """Most places of most cells have a record, every scenario has some, others say what lacks."""
    assert {record.labels["scenario"] for record in records} == set(SCENARIOS)
    assert len(records) > 0.8 * len(made)
    assert all(candidate.reason for candidate in made if candidate.record is None)


def test_records_replay(records: list[Record], graph: Graph) -> None:
    """A record read from its JSON gives the same results in a fresh world."""
    directory, numbers = Directory(graph), Numbers.of(graph)
    for record in records:
        again = Record.from_json(record.to_json())
        assert again == record
        assert replay(again, directory, numbers)[1] == ""


def test_replay_sees_what_was_changed(records: list[Record], graph: Graph) -> None:
    """A result, a call's id or an argument that was changed is found."""
    directory, numbers = Directory(graph), Numbers.of(graph)
    record = next(r for r in _of(records, "plain") if r.pattern == "2i")
    for change in ("content", "tool_call_id"):
        again = Record.from_json(record.to_json())
        message = next(m for m in again.messages if m["role"] == "tool")
        message[change] += "x"
        assert replay(again, directory, numbers)[1]
    again = Record.from_json(record.to_json())
    again.messages[:] = [m for m in again.messages if m["role"] != "tool"]
    assert replay(again, directory, numbers)[1] == "a call without a result"


def test_calls_fit_their_schemas(records: list[Record]) -> None:
    """Every call names a tool of the record and fits its JSON Schema; every call is answered."""
    validators: dict[str, Draft202012Validator] = {}
    for record in records:
        schemas = {t["function"]["name"]: t["function"]["parameters"] for t in record.tools}
        assert len(schemas) == len(record.tools)
        for schema in schemas.values():
            key = json.dumps(schema)
            if key not in validators:
                Draft202012Validator.check_schema(schema)
                validators[key] = Draft202012Validator(schema)
        open_calls: list[str] = []
        for message in record.messages:
            assert isinstance(message["content"], str)
            for call in message.get("tool_calls", ()):
                function = call["function"]
                arguments = json.loads(function["arguments"])
                validators[json.dumps(schemas[function["name"]])].validate(arguments)
                open_calls.append(call["id"])
            if message["role"] == "tool":
                assert message["tool_call_id"] == open_calls.pop(0)
        assert not open_calls
        assert record.messages[-1]["role"] == "assistant"
        assert "tool_calls" not in record.messages[-1]


def test_golds_are_the_plans_answers(records: list[Record], graph: Graph) -> None:
    """The answer of a turn is what its plan evaluates to; entities are told in the text."""
    numbers = Numbers.of(graph)
    for record in records:
        for turn in record.turns:
            gold = turn["gold"]
            text = record.messages[turn["last_message"]]["content"]
            if gold["kind"] in ("none", "truth") or turn["behaviour"] == "recall":
                continue
            found = evaluate(parse(turn["plan"], numbers), graph)
            if isinstance(found, np.ndarray):
                assert sorted(gold["ids"]) == sorted(graph.entity_ids[e] for e in found.tolist())
                if turn["behaviour"] == "answer":
                    assert all(graph.labels[e] in text for e in found.tolist())
            else:
                assert found in (gold.get("number"), gold.get("value"))


def test_last_results_hold_the_answers(records: list[Record], graph: Graph) -> None:
    """Of plain records, the last call's entities are the answer, where tools take all at once."""
    directory, numbers = Directory(graph), Numbers.of(graph)
    checked = 0
    for record in _of(records, "plain"):
        last = replay(record, directory, numbers)[0][-1]
        if record.pattern in ("2i", "3i", "pi", "2u", "2in", "3in", "pin", "pni", "top", "filter"):
            ids = sorted(graph.entity_ids[e] for e in last.members or ())
            assert ids == sorted(record.gold["ids"])
            checked += 1
        if record.pattern == "count":
            assert last.number == record.gold["number"]
    assert checked > 10


def test_plain_records_have_no_tool_too_many(records: list[Record]) -> None:
    """Every tool of a plain record is called."""
    for record in _of(records, "plain"):
        assert set(_names(record)) == {tool["function"]["name"] for tool in record.tools}


def _names(record: Record) -> list[str]:
    calls = [c for message in record.messages for c in message.get("tool_calls", ())]
    return [call["function"]["name"] for call in calls]


def test_distractors_are_there_and_not_called(records: list[Record]) -> None:
    """The label counts the tools that are not called, and they are of the kind that it names."""
    for kind in ("random", "sibling", "near_name", "inverse", "deprecated"):
        for record in _of(records, f"distractors_{kind}"):
            called = set(_names(record))
            others = [
                op
                for op, tool in zip(record.ops, record.tools, strict=True)
                if tool["function"]["name"] not in called
            ]
            assert len(others) == record.labels["distractors"] > 0
            used = [op for op in record.ops if op not in others]
            if kind == "inverse":
                turned = {("inverse" if op[0] == "project" else "project", op[1]) for op in used
                          if op[0] in ("project", "inverse")}  # fmt: skip
                assert {tuple(op) for op in others} <= turned
            if kind == "deprecated":
                assert all(op[0] == "deprecated" and op[1:] in used for op in others)


def test_no_distractor_can_replace_a_call(records: list[Record], graph: Graph) -> None:
    """No relation beside the needed ones gives a projection of the plan from one of its sources."""
    numbers = Numbers.of(graph)
    for record in records:
        if record.pattern != "1p" or not record.labels["scenario"].startswith("distractors"):
            continue
        plan = parse(record.plan, numbers)
        found = evaluate(plan, graph).tolist()
        for op in (read_op(op, numbers) for op in record.ops):
            if op[0] == "project" and op[1:] != (plan.relation, plan.inverse):
                assert graph.targets(plan.source.entity, op[1], op[2]).tolist() != found


def test_missing_tools_are_missing(records: list[Record], graph: Graph) -> None:
    """The refused plan takes a relation or attribute that no tool gives; nothing is called."""
    for record in _of(records, "missing_tool"):
        assert record.turns[-1]["behaviour"] == "refuse"
        assert not _names(record)
        needed = _ids(json.loads(record.plan or record.turns[-1]["plan"]))
        assert needed - {tuple(op) for op in record.ops}


def test_answers_are_out_of_reach_without_the_tool(records: list[Record], graph: Graph) -> None:
    """The search finds no way to what is refused or open, and one to what is answered."""
    numbers = Numbers.of(graph)
    for record in _of(records, "missing_tool", "plain"):
        ops = [read_op(op, numbers) for op in record.ops]
        steps = Steps(
            frozenset((op[1], op[2]) for op in ops if op[0] == "project"),
            frozenset(op[1] for op in ops if op[0] in ("value", "filter", "top")),
        )
        found = derive(parse(record.turns[-1]["plan"], numbers), graph, steps)
        assert found.decided
        assert (found.plan is None) == (record.labels["scenario"] == "missing_tool")


def _ids(plan: list) -> set[tuple]:
    own = {(plan[0], plan[1])} if plan[0] in ("project", "inverse", "value") else set()
    return own.union(*(_ids(part) for part in plan if isinstance(part, list)))


def test_partial_answers_answer_a_part(records: list[Record]) -> None:
    """A partial answer's plan is smaller than what was asked, and its calls were made."""
    for record in _of(records, "partial_tool"):
        assert record.turns[-1]["behaviour"] == "partial"
        assert _names(record)
        assert record.gold["ids"]


def test_parameters_are_asked_for(records: list[Record]) -> None:
    """What is missing or ambiguous is asked for, and no later call fails."""
    for record in _of(records, "missing_parameter", "ambiguous_parameter"):
        assert [turn["behaviour"] for turn in record.turns] == ["clarify", "answer"]
        asked = record.turns[0]["last_message"]
        before = [m["content"] for m in record.messages[:asked] if m["role"] == "tool"]
        ambiguous = record.labels["scenario"] == "ambiguous_parameter"
        assert ["ambiguous" in content for content in before] == [True] * ambiguous
        after = [m["content"] for m in record.messages[asked:] if m["role"] == "tool"]
        assert not any('"error"' in content for content in after)


def test_faults_are_where_they_are_declared(records: list[Record]) -> None:
    """A declared fault is the result of its call, and no other call fails."""
    for record in _of(records, *TRANSIENT):
        results = [m["content"] for m in record.messages if m["role"] == "tool"]
        failed = [n for n, content in enumerate(results) if '"error"' in content]
        assert failed == [fault["call"] for fault in record.faults]
        assert record.faults[0]["kind"] == record.labels["scenario"]


def test_misspelt_names_are_mended(records: list[Record], graph: Graph) -> None:
    """The first use of the name fails with a suggestion, and nobody says the right one before."""
    numbers = Numbers.of(graph)
    for record in _of(records, "unknown_entity"):
        first = next(n for n, m in enumerate(record.messages) if m["role"] == "tool")
        before = "\n".join(m["content"] for m in record.messages[:first])
        named = [graph.labels[e] for e in anchors(parse(record.plan, numbers))]
        assert not all(label in before for label in named)
        results = [m["content"] for m in record.messages if m["role"] == "tool"]
        assert any("did_you_mean" in content for content in results)
        assert record.turns[-1]["behaviour"] == "answer"


def test_pages_are_read_to_their_end(records: list[Record]) -> None:
    """Some result has several pages, and what is read is the whole answer."""
    for record in _of(records, "paging"):
        assert "page_token" in json.dumps([m.get("tool_calls") for m in record.messages])


def test_turns_follow_on(records: list[Record], graph: Graph) -> None:
    """Later turns have other plans than the first; refinements shrink the answer before them."""
    numbers = Numbers.of(graph)
    for record in _of(records, "follow_up", "correct", "topic_return"):
        plans = [turn["plan"] for turn in record.turns]
        assert len(set(plans)) == len(plans) >= 2
    for record in _of(records, "refine", "saved_set"):
        before, after = record.turns[0]["plan"], record.turns[-1]["plan"]
        assert isinstance(parse(after, numbers), Intersect)
        first = set(evaluate(parse(before, numbers), graph).tolist())
        second = set(evaluate(parse(after, numbers), graph).tolist())
        assert second
        assert second < first


def test_saved_lists_are_saved_and_read(records: list[Record]) -> None:
    """A saved list is saved in one turn and read in a later one."""
    for record in _of(records, "saved_set"):
        kinds = {
            t["function"]["name"]: op[0] for t, op in zip(record.tools, record.ops, strict=True)
        }
        called = [kinds[name] for name in _names(record)]
        assert called.index("save") < called.index("load")


def test_nothing_is_called_where_no_tool_is_needed(records: list[Record]) -> None:
    """Small talk and recalled answers end without a call."""
    for record in _of(records, "no_tool"):
        assert not _names(record)
        assert record.tools
    for record in _of(records, "in_context", "empty_relax"):
        first = record.turns[0]["last_message"]
        assert not any("tool_calls" in m for m in record.messages[first:])


def test_empty_answers_are_empty(records: list[Record]) -> None:
    """The first answer is the empty set, the relaxed one is not."""
    for record in _of(records, "empty_relax"):
        assert record.turns[0]["gold"]["ids"] == []
        assert record.turns[1]["gold"]["ids"]


def test_long_results_are_long(records: list[Record]) -> None:
    """A tool's result has as many rows as the label says."""
    for record in _of(records, "long_result"):
        rows = record.labels["long_rows"]
        assert rows >= LIMITS.long_least
        results = [json.loads(m["content"]) for m in record.messages if m["role"] == "tool"]
        assert rows in [_size(result) for result in results]


def _size(result: object) -> int:
    """Return the length of the longest list in a result."""
    if isinstance(result, dict):
        return max((_size(value) for value in result.values()), default=0)
    return len(result) if isinstance(result, list) else 0


def test_every_call_is_needed(records: list[Record], graph: Graph) -> None:
    """No plain record makes a call twice, and labels count calls, turns and parallel calls."""
    for record in records:
        calls = [c for m in record.messages for c in m.get("tool_calls", ())]
        assert record.labels["calls"] == len(calls)
        assert record.labels["turns"] == len(record.turns)
        rounds = [m["tool_calls"] for m in record.messages if "tool_calls" in m]
        assert (record.labels["parallel"] != "none") == any(len(calls) > 1 for calls in rounds)
        if record.labels["scenario"] == "plain":
            texts = [(c["function"]["name"], c["function"]["arguments"]) for c in calls]
            assert len(set(texts)) == len(texts)


def test_worlds_differ(records: list[Record]) -> None:
    """All signatures and envelopes come, and one relation has many names."""
    assert {record.labels["signature"] for record in records} == {
        "scalar",
        "batch",
        "grouped",
        "handle",
    }
    assert {record.labels["ids"] for record in records} == {True, False}
    names = {
        tool["function"]["name"]
        for record in records
        for tool, op in zip(record.tools, record.ops, strict=True)
        if op == ["project", "directed_by"]
    }
    assert len(names) > 15


def test_candidates_depend_on_their_place_alone(graph: Graph) -> None:
    """Another kit that makes the places backwards makes the same bytes."""
    some = [cell for number, cell in enumerate(cells()) if number % 4 == 0]
    one, other = (Kit(graph, SmallVoice(graph), "en", 3, LIMITS) for _ in range(2))
    first = {place: generate(one, *place[0], place[1]) for place in product(some, range(2))}
    for place in reversed(first):
        again = generate(other, *place[0], place[1])
        assert again == first[place]
        if again.record is not None:
            assert again.record.to_json() == first[place].record.to_json()
    third = Kit(graph, SmallVoice(graph), "en", 4, LIMITS)
    others = [generate(third, *place[0], place[1]) for place in first]
    same = sum(c.record == first[p].record for c, p in zip(others, first, strict=True) if c.record)
    assert same < len(first) / 20


def test_keys_tell_records_apart(records: list[Record]) -> None:
    """What is asked and planned is in the key: few records share one."""
    assert len({record.query_key for record in records}) > 0.95 * len(records)
    assert len({record.record_id for record in records}) == len(records)

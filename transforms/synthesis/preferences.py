"""Pairs of a right and a wrong trajectory for preference training; the wrong one is proved wrong.

A wrong trajectory follows another plan with the same tools: with a tool of another relation, another
entity of the same type, arguments exchanged, an operation left out, or an answer given before the
last operation. Its calls are really made and fit their schemas; it is kept only where what it
answers differs from the gold answer. Where the right behaviour is to make no call, the wrong one
makes one all the same. (Negatives by edits of a reference trajectory: Magnet, arXiv 2503.07826,
section 3.3; proving them by execution is possible since the graph answers.)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from transforms.synthesis.draw import Draw
from transforms.synthesis.needs import needed_ops
from transforms.synthesis.plan import (
    Anchor,
    Count,
    Filter,
    Plan,
    Project,
    Subtract,
    Top,
    Value,
    canonical,
    children,
)
from transforms.synthesis.plan_text import Numbers, parse
from transforms.synthesis.record import Record
from transforms.synthesis.replay import tools_of
from transforms.synthesis.scene import Kit
from transforms.synthesis.style import Style
from transforms.synthesis.tools import Tool
from transforms.synthesis.trajectory import Trajectory, WrongWay
from transforms.synthesis.variants import exchanged, parts_of, reduced, replaced_anchor

Kind = Literal[
    "wrong_tool",
    "wrong_entity",
    "swapped_arguments",
    "dropped_call",
    "premature_answer",
    "over_calling",
]
KINDS: tuple[Kind, ...] = (
    "wrong_tool",
    "wrong_entity",
    "swapped_arguments",
    "dropped_call",
    "premature_answer",
    "over_calling",
)

_TRIES = 12
_MOST_SAID = 40
_CALM = ("answer",)
_WITHOUT_CALLS = ("refuse", "chat")


@dataclass(frozen=True, slots=True)
class Preference:
    """A pair for one prompt."""

    record_id: str
    kind: Kind
    tools: list[dict[str, Any]]
    prompt: list[dict[str, Any]]
    """Messages up to the last one of the user."""
    chosen: list[dict[str, Any]]
    """What the record has after the prompt."""
    rejected: list[dict[str, Any]]
    """What is wrong."""
    plan: str
    """What the wrong trajectory answers (canonical)."""
    answer: dict[str, Any]
    """Its answer, which is not the gold one."""

    def to_json(self) -> bytes:
        """Write the pair, keys in order of the fields."""
        return orjson.dumps({name: getattr(self, name) for name in self.__slots__})


class Preferences:
    """Makes pairs from the records of one kit."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._numbers = Numbers.of(kit.graph)

    def pairs(self, record: Record) -> list[Preference]:
        """Return a pair of each kind that a record has; records that something fails in have none.

        A record must have one turn: what an earlier turn found could not be told apart from what
        the wrong trajectory found itself.
        """
        if len(record.turns) != 1 or record.faults or record.labels.get("misspelt"):
            return []
        tools = tools_of(record, self._numbers)
        draw = Draw(self._kit.seed, "preferences", record.record_id)
        found = []
        for kind in KINDS:
            pair = self._pair(record, tools, kind, draw.child(kind))
            if pair is not None:
                found.append(pair)
        return found

    def _pair(self, record: Record, tools: list[Tool], kind: Kind, draw: Draw) -> Preference | None:
        for plan in self._plans(record, tools, kind, draw):
            style = Style.read(record.world)
            if not set(needed_ops(plan, style)) <= {tool.op for tool in tools}:
                continue
            answer = self._answer(plan)
            if answer is None or _same(answer, record.gold):
                continue
            rejected = self._followed(plan, style, tools, draw, record)
            if rejected is not None:
                split = 1 + max(n for n, m in enumerate(record.messages) if m["role"] == "user")
                written = canonical(plan, self._kit.graph)
                prompt, chosen = record.messages[:split], record.messages[split:]
                return Preference(
                    record.record_id, kind, record.tools, prompt, chosen, rejected, written, answer
                )
        return None

    def _answer(self, plan: Plan) -> dict[str, Any] | None:
        """Answer a plan; None where it has none, or more than anybody would say."""
        try:
            answer = self._kit.gold(plan)
        except ValueError:
            return None  # the value of several entities, or of none
        return None if len(answer.get("ids", ())) > _MOST_SAID else answer

    def _followed(
        self, plan: Plan, style: Style, tools: list[Tool], draw: Draw, record: Record
    ) -> list[dict[str, Any]] | None:
        """Return the messages that follow a plan; None where a call on the way cannot be made.

        They begin with the record's own opening sentence, and make calls at once where it does, so
        that nothing but the defect tells the two apart.
        """
        kit = self._kit
        rounds = [m for m in record.messages if m.get("tool_calls")]
        at_once = not rounds or any(len(m["tool_calls"]) > 1 for m in rounds)
        words = draw.child("words")
        trajectory = Trajectory(kit.directory, kit.voice, style, tools, words, parallel=at_once)
        try:
            trajectory.work(plan, rounds[0]["content"] if rounds else "")
        except WrongWay:
            return None
        text = kit.voice.answer(plan, kit.result(plan), draw.child("answer"))
        trajectory.say("assistant", text)
        return trajectory.messages

    def _plans(self, record: Record, tools: list[Tool], kind: Kind, draw: Draw) -> Iterator[Plan]:
        behaviour = record.turns[-1]["behaviour"]
        if kind == "over_calling":
            if behaviour in _WITHOUT_CALLS:
                yield from self._needless(tools, draw)
            return
        if behaviour not in _CALM:
            return
        plan = parse(record.plan, self._numbers)
        match kind:
            case "wrong_tool":
                yield from self._other_tools(plan, tools, draw)
            case "wrong_entity":
                yield from self._other_entities(plan, draw)
            case "swapped_arguments":
                yield from _swapped(plan)
            case "dropped_call":
                yield from draw.shuffled(list(reduced(plan)))
            case "premature_answer":
                yield from draw.shuffled(list(_inner(plan)))

    def _other_tools(self, plan: Plan, tools: list[Tool], draw: Draw) -> Iterator[Plan]:
        walks = [part for part in parts_of(plan) if isinstance(part, Project)]
        others = [tool.op for tool in tools if tool.op[0] == "project"]
        for _ in range(_TRIES if walks else 0):
            part = draw.choose(walks)
            _, relation, inverse = draw.choose(others)
            if (relation, inverse) != (part.relation, part.inverse):
                yield exchanged(plan, part, Project(part.source, int(relation), bool(inverse)))

    def _other_entities(self, plan: Plan, draw: Draw) -> Iterator[Plan]:
        graph = self._kit.graph
        named = [part.entity for part in parts_of(plan) if isinstance(part, Anchor)]
        for _ in range(_TRIES):
            entity = draw.choose(named)
            kind = graph.type_of(entity)
            if kind >= 0:
                other = draw.choose(graph.members_of(kind).tolist())
                if other not in named:
                    yield replaced_anchor(plan, entity, other)

    def _needless(self, tools: list[Tool], draw: Draw) -> Iterator[Plan]:
        graph = self._kit.graph
        walks = [tool.op for tool in tools if tool.op[0] == "project"]
        for _ in range(_TRIES if walks else 0):
            _, relation, inverse = draw.choose(walks)
            degrees = graph.degrees(int(relation), bool(inverse))
            heads = graph.heads(int(relation), bool(inverse))
            few = heads[degrees <= self._kit.limits.answers].tolist()
            if few:
                yield Project(Anchor(draw.choose(few)), int(relation), bool(inverse))


def _same(answer: dict[str, Any], gold: dict[str, Any]) -> bool:
    """Return whether two answers say the same, whatever the order of their entities."""
    if answer["kind"] != gold["kind"]:
        return False
    if answer["kind"] == "entities":
        return set(answer["ids"]) == set(gold["ids"])
    return answer == gold


def _swapped(plan: Plan) -> Iterator[Plan]:
    """Yield plans with the arguments of an operation exchanged or turned round."""
    for part in parts_of(plan):
        match part:
            case Subtract(keep, remove):
                yield exchanged(plan, part, Subtract(remove, keep))
            case Top(source, attribute, k, largest):
                yield exchanged(plan, part, Top(source, attribute, k, not largest))
            case Filter(source, attribute, op, value) if op != "is":
                turned = Filter(source, attribute, "max" if op == "min" else "min", value)
                yield exchanged(plan, part, turned)


def _inner(plan: Plan) -> Iterator[Plan]:
    """Yield the parts whose result could be taken for the answer too early."""
    for part in children(plan):
        if not isinstance(part, Anchor | Count | Value):
            yield part
            yield from _inner(part)

"""A conversation as it is written: messages, calls that are really made, and their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from transforms.synthesis.draw import Draw, combine
from transforms.synthesis.executor import TRANSIENT, Directory, Executor
from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Count,
    Filter,
    Intersect,
    Plan,
    Project,
    SetPlan,
    Subtract,
    Top,
    Unite,
    Value,
    children,
)
from transforms.synthesis.results import Members, Outcome, Shapes, entity_id
from transforms.synthesis.style import Style, Words
from transforms.synthesis.tools import PAGE_TOKEN, Tool
from transforms.synthesis.voice import Op, Voice

Call = tuple[Op, dict[str, Any]]


class WrongWay(Exception):  # noqa: N818
    """A call did not give what the plan needs; the argument says how."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a part of a plan gave."""

    members: Members = frozenset()
    handle: str = ""
    number: float | str | None = None


class Trajectory:
    """Writes one conversation and makes its calls."""

    def __init__(
        self,
        directory: Directory,
        voice: Voice,
        style: Style,
        tools: Sequence[Tool],
        draw: Draw,
        *,
        faults: Sequence[Mapping[str, Any]] = (),
        parallel: bool = True,
        names: Mapping[int, str] | None = None,
    ) -> None:
        """Begin a conversation.

        Args:
            directory: the graph.
            voice: says the assistant's sentences.
            style: the world's.
            tools: what can be called.
            draw: where choices come from.
            faults: what the environment does, see Executor.
            parallel: whether calls that need nothing of each other are made at once.
            names: what the user calls entities by, where it is not the label.
        """
        self.style, self.tools = style, list(tools)
        self.messages: list[dict[str, Any]] = []
        self.names = dict(names or {})
        self.calls = 0
        self._graph, self._voice, self._draw = directory.graph, voice, draw
        self._executor = Executor(directory, style, tools, faults)
        self._words = Words.of(style)
        self._shapes = Shapes(directory.graph, style)
        self._by_op = {tool.op: tool for tool in reversed(self.tools)}
        self._found: dict[Plan, Found] = {}
        self._made: dict[str, list[Outcome]] = {}
        self._parallel = parallel

    def say(self, role: str, content: str) -> None:
        """Add a message without calls."""
        self.messages.append({"role": role, "content": content})

    def work(self, plan: Plan, thought: str = "") -> Found:
        """Make the calls that a plan takes and that were not made before.

        Args:
            plan: what is to be known.
            thought: what the assistant says with the first calls.

        Raises:
            WrongWay: a fault that is not gone when the call is made again.
        """
        while plan not in self._found:
            ready = self._ready(plan)
            if not self._parallel:
                ready = ready[:1]
            asked = [(part, self._calls_for(part)) for part in ready]
            todo = {_key(call): call for _, calls in asked for call in calls}
            todo = {key: call for key, call in todo.items() if key not in self._made}
            if todo:
                outcomes = self._make(list(todo.values()), thought)
                self._made.update(zip(todo, outcomes, strict=True))
                thought = ""
            for part, calls in asked:
                ours = [self._made[_key(call)] for call in calls]
                self._found[part] = self._joined(part, ours)
        return self._found[plan]

    def probe(self, plan: Plan, thought: str = "") -> list[Outcome]:
        """Make the first calls that a plan takes, and leave what goes wrong as it is."""
        ready = self._ready(plan)
        return self._send([call for part in ready[:1] for call in self._calls_for(part)], thought)

    def call(self, op: Op, arguments: dict[str, Any], thought: str = "") -> list[Outcome]:
        """Make one call, with its pages."""
        return self._make([(op, arguments)], thought)[0]

    def keep(self, plan: Plan, name: str) -> None:
        """Save what a plan gave under a name."""
        self.call(("save",), {"list_name": name, self._words.items: self._set(plan)})

    def restore(self, plan: Plan, name: str) -> None:
        """Read what was saved, as what a plan gave."""
        self._found.pop(plan, None)
        self._found[plan] = self._joined(plan, [self.call(("load",), {"list_name": name})])

    def known(self, plan: Plan) -> bool:
        """Return whether a plan's answer was found already."""
        return plan in self._found

    def _ready(self, plan: Plan) -> list[Plan]:
        """Return the parts of a plan whose own parts are known, each once."""
        found: dict[Plan, None] = {}

        def visit(part: Plan) -> None:
            if part in self._found:
                return
            if isinstance(part, Anchor) and not self.style.ids:
                self._found[part] = Found(frozenset((part.entity,)))
                return
            unknown = False
            for inner in children(part):
                visit(inner)
                unknown = unknown or inner not in self._found
            if unknown:
                return
            if isinstance(part, Compare):
                self._found[part] = Found()
            else:
                found[part] = None

        visit(plan)
        return list(found)

    def _calls_for(self, part: Plan) -> list[Call]:
        """Return the calls for a part whose own parts are known."""
        words = self._words
        match part:
            case Anchor(entity):
                return [(("search",), {words.query: self._name(entity)})]
            case Project(source, relation, inverse):
                return self._walk(("project", relation, inverse), source)
            case Intersect(parts) | Unite(parts):
                sets = [self._set(inner) for inner in parts]
                op = (type(part).__name__.lower(),)
                return [(op, dict(zip(words.parts, sets, strict=False)))]
            case Subtract(keep, remove):
                sets = [self._set(keep), self._set(remove)]
                return [(("subtract",), {words.keep: sets[0], words.remove: sets[1]})]
            case Filter(source, attribute, op, value):
                key = "equals" if op == "is" else op
                number = int(value) if isinstance(value, float) and value.is_integer() else value
                given = {words.items: self._set(source), key: number}
                return [(("filter", attribute), given)]
            case Top(source, attribute, k, largest):
                order = words.largest if largest else words.smallest
                given = {words.items: self._set(source), words.k: k, words.order: order}
                return [(("top", attribute), given)]
            case Count(source):
                return [(("count",), {words.items: self._set(source)})]
            case Value(source, attribute):
                (entity,) = self._found[source].members
                name = self._token(entity, isinstance(source, Anchor))
                return [(("value", attribute), {words.entity: name})]
        raise WrongWay(f"no call for {part}")

    def _walk(self, op: Op, source: SetPlan) -> list[Call]:
        named = isinstance(source, Anchor)
        found = self._found[source]
        entities = self._shapes.ordered(found.members)
        words = self._words
        if self.style.signature in ("batch", "grouped"):
            return [(op, {words.entities: [self._token(e, named) for e in entities]})]
        if found.handle:
            return [(op, {words.entity: found.handle})]
        return [(op, {words.entity: self._token(e, named)}) for e in entities]

    def _set(self, plan: Plan) -> Any:
        found = self._found[plan]
        if self.style.signature == "handle":
            return found.handle
        return [self._token(entity, False) for entity in self._shapes.ordered(found.members)]

    def _token(self, entity: int, named: bool) -> str:
        """Return what a call names an entity by; ``named``: as the user did."""
        if self.style.ids:
            return entity_id(entity)
        return self._name(entity) if named else self._graph.labels[entity]

    def _name(self, entity: int) -> str:
        return self.names.get(entity, self._graph.labels[entity])

    def _joined(self, part: Plan, outcomes: list[list[Outcome]]) -> Found:
        pages = [outcome for answer in outcomes for outcome in answer]
        if not pages:
            return Found()  # nothing to ask about
        sets = [outcome.members for outcome in pages if outcome.members is not None]
        return Found(frozenset().union(*sets), pages[0].handle, pages[0].number)

    def _make(self, calls: list[Call], thought: str) -> list[list[Outcome]]:
        """Make calls, at once or one by one, until each has all its pages."""
        if not self._parallel and len(calls) > 1:
            found = []
            for call in calls:
                found += self._make([call], thought)
                thought = ""
            return found
        answers: list[list[Outcome]] = [[] for _ in calls]
        open_: list[tuple[int, Call]] = list(enumerate(calls))
        while open_:
            outcomes = self._send([call for _, call in open_], thought)
            again: list[tuple[int, Call]] = []
            thought = ""
            for (place, (op, arguments)), outcome in zip(open_, outcomes, strict=True):
                if outcome.fault:
                    arguments, thought = self._mended(arguments, outcome)
                    again.append((place, (op, arguments)))
                    continue
                answers[place].append(outcome)
                if outcome.next_token:
                    again.append((place, (op, {**arguments, PAGE_TOKEN: outcome.next_token})))
            open_ = again
        return answers

    def _mended(self, arguments: dict[str, Any], outcome: Outcome) -> tuple[dict[str, Any], str]:
        """Return the arguments to call with again after a fault, and what is said with it."""
        if outcome.fault in TRANSIENT:
            said = self._draw.chance(0.6)
            trouble: Any = outcome.fault
            return arguments, self._voice.retry(trouble, self._draw) if said else ""
        if outcome.fault == "not_found" and outcome.suggestions:
            for entity, wrong in list(self.names.items()):
                right = self._graph.labels[entity]
                if right == outcome.suggestions[0] and wrong in _texts(arguments):
                    del self.names[entity]
                    mended = {key: _with(value, wrong, right) for key, value in arguments.items()}
                    return mended, self._voice.correction(wrong, right, self._draw)
        raise WrongWay(outcome.fault)

    def _send(self, calls: list[Call], thought: str) -> list[Outcome]:
        """Write one message of the assistant with its calls, and the answers."""
        shown, answers, outcomes = [], [], []
        for op, arguments in calls:
            tool = self._by_op[op]
            number = combine(self.style.seed, "call", self.calls) >> 16
            self.calls += 1
            key = f"call_{number:012x}"
            text = orjson.dumps(arguments).decode()
            function = {"name": tool.name, "arguments": text}
            shown.append({"id": key, "type": "function", "function": function})
            outcome = self._executor.call(tool.name, arguments)
            outcomes.append(outcome)
            content = orjson.dumps(outcome.content).decode()
            answers.append({"role": "tool", "tool_call_id": key, "content": content})
        self.messages.append({"role": "assistant", "content": thought, "tool_calls": shown})
        self.messages += answers
        return outcomes


def _key(call: Call) -> str:
    return orjson.dumps(call).decode()


def _texts(arguments: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for value in arguments.values():
        found += value if isinstance(value, list) else [value] if isinstance(value, str) else []
    return found


def _with(value: Any, wrong: str, right: str) -> Any:
    if isinstance(value, list):
        return [right if item == wrong else item for item in value]
    return right if value == wrong else value

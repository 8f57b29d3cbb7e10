"""The gate: what a record must be, proved from its serialized form alone.

Each record is parsed, its definitions and calls are checked against their schemas, its calls are
made again by a new executor, its answers are compared with those of an independent oracle, and
every call must be needed. Nothing that made the record is trusted: names of relations are looked up
anew, and the plan is read from its text. The steps are those of APIGen (arXiv 2406.18518, section
3.2: format, execution, semantics), with an exact oracle in place of a model as judge.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from transforms.synthesis.closure import Steps, out_of_reach
from transforms.synthesis.derivation import Derivation, Underived
from transforms.synthesis.dialogue import Turn, turns_of
from transforms.synthesis.executor import Directory
from transforms.synthesis.graph import Graph
from transforms.synthesis.plan import Plan, anchors
from transforms.synthesis.plan_text import Numbers, parse
from transforms.synthesis.proof import Proof, Wrong
from transforms.synthesis.record import Record
from transforms.synthesis.schema import definition_problem

Oracle = Callable[[Sequence[Plan]], Sequence[Any]]
"""Plans to answers, in their order: numbers of entities, a number, or a value."""

_KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
_STATED = ("answer", "partial", "act")
"""Behaviours that come from the plan's own answer."""
_BEHAVIOURS = (*_STATED, "recall", "refuse", "clarify", "chat")
_LISTED = 10
"""Entities that an answer lists at least, of one that is longer."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate found; without a reason the record passes."""

    reason: str = ""
    """One of a small set of short strings."""
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class _Claim:
    """An answer that a record gives, to be compared with the oracle's."""

    record: int
    plan: Plan
    behaviour: str
    gold: Mapping[str, Any]
    text: str


class Gate:
    """Judges records over one graph."""

    def __init__(self, graph: Graph, oracle: Oracle) -> None:
        """Open the gate.

        Args:
            graph: the graph.
            oracle: independent of the executor, over the same graph.
        """
        self._graph, self._oracle = graph, oracle
        self._directory = Directory(graph)
        self._numbers = Numbers.of(graph)

    def judge(self, texts: Sequence[bytes]) -> list[Verdict]:
        """Judge serialized records; the oracle is asked once for all of them."""
        verdicts: list[Verdict] = []
        claims: list[_Claim] = []
        for place, text in enumerate(texts):
            try:
                claims += self._claims(place, text)
                verdicts.append(Verdict())
            except Wrong as wrong:
                verdicts.append(Verdict(wrong.reason, wrong.detail))
        answers = self._oracle([claim.plan for claim in claims])
        for claim, answer in zip(claims, answers, strict=True):
            if verdicts[claim.record].passed:
                problem = self._difference(claim, answer)
                if problem:
                    verdicts[claim.record] = Verdict("another answer than the oracle's", problem)
        return verdicts

    def _claims(self, place: int, text: bytes) -> list[_Claim]:
        """Check one record by itself; return what it answers.

        Raises:
            Wrong: it is not what it says.
        """
        try:
            record = Record.from_json(text)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Wrong("not a record", repr(error)) from error
        _check_definitions(record)
        turns = _check_messages(record)
        proof = Proof(record, turns, self._directory, self._numbers)
        proof.check_distractors()
        claims = self._answers(place, record, turns, proof)
        self._check_clarified(record, turns, proof)
        if (record.turns[-1]["plan"], record.turns[-1]["gold"]) != (record.plan, record.gold):
            raise Wrong("the last turn is not what the record answers", record.record_id)
        return claims

    def _answers(
        self, place: int, record: Record, turns: Sequence[Turn], proof: Proof
    ) -> list[_Claim]:
        """Follow the plans of a record through its calls; return what is stated of them."""
        derivation = Derivation(proof.calls, by_id=proof.by_id)
        asked, claims = "", []
        for number, (noted, turn) in enumerate(zip(record.turns, turns, strict=True)):
            # Names come from the user, or from what a tool suggested for one that it did not know.
            failed = [m.outcome for m in proof.calls if m.turn == number and m.outcome.fault]
            suggested = [name for outcome in failed for name in outcome.suggestions]
            asked = "\n".join([asked, turn.question, *suggested])
            behaviour, gold = noted["behaviour"], noted["gold"]
            if behaviour not in _BEHAVIOURS:
                raise Wrong("unknown behaviour", str(behaviour))
            if noted["plan"]:
                plan = self._plan(noted["plan"])
                self._check_named(plan, asked, proof)
                if behaviour != "refuse":
                    self._check_found(derivation, plan, noted)
                self._check_refused(noted, plan, proof)
                claims.append(_Claim(place, plan, behaviour, gold, turn.answer))
            elif gold["kind"] != "none":
                raise Wrong("an answer without a plan", turn.answer)
        try:
            derivation.check_all_used([noted["behaviour"] for noted in record.turns])
        except Underived as error:
            raise Wrong("a call that is not needed", str(error)) from error
        return claims

    def _plan(self, text: str) -> Plan:
        try:
            return parse(text, self._numbers)
        except (ValueError, KeyError, TypeError) as error:
            raise Wrong("a plan that cannot be read", repr(error)) from error

    def _check_named(self, plan: Plan, asked: str, proof: Proof) -> None:
        for entity in anchors(plan):
            if not proof.mentions(entity, asked):
                raise Wrong("an entity that nobody named", self._graph.labels[entity])

    def _check_refused(self, noted: Mapping[str, Any], plan: Plan, proof: Proof) -> None:
        """Check that what is refused, or answered in part, cannot be had from the tools at hand."""
        if noted["behaviour"] not in ("refuse", "partial"):
            return
        if noted["behaviour"] == "partial":
            plan = self._plan(noted.get("asked", ""))
        if not out_of_reach(plan, self._graph, Steps.of(tool.op for tool in proof.tools)):
            raise Wrong("an answer that can be derived", noted["behaviour"])

    def _check_clarified(self, record: Record, turns: Sequence[Turn], proof: Proof) -> None:
        """Check that the user is asked back where it was not clear who is meant, and only there."""
        for number, noted in enumerate(record.turns):
            if noted["behaviour"] != "clarify":
                continue
            if any(made.turn == number and made.outcome.fault for made in proof.calls):
                continue
            plans = [later["plan"] for later in record.turns[number + 1 :] if later["plan"]]
            named = anchors(self._plan(plans[0])) if plans else []
            if not named or any(
                proof.mentions(e, turns[number].question, clearly=False) for e in named
            ):
                raise Wrong("a needless question back", turns[number].answer)

    def _check_found(self, derivation: Derivation, plan: Plan, noted: Mapping[str, Any]) -> None:
        """Check that the calls so far give what is noted as the answer."""
        try:
            found = derivation.find(plan)
        except Underived as error:
            raise Wrong("a step that is missing", str(error)) from error
        gold = noted["gold"]
        if noted["behaviour"] in _STATED and isinstance(found, frozenset):
            ids = sorted(self._graph.entity_ids[entity] for entity in found)
            if gold["kind"] != "entities" or sorted(gold["ids"]) != ids:
                raise Wrong("another answer than the calls gave", f"{len(found)} entities")

    def _difference(self, claim: _Claim, answer: Any) -> str:
        """Say how an answer differs from the oracle's; nothing where it does not."""
        gold, kind = claim.gold, claim.gold["kind"]
        if claim.behaviour == "refuse":
            return "" if kind == "none" else "a refusal with an answer"
        if kind == "entities":
            return self._other_entities(claim, [int(entity) for entity in answer])
        if claim.behaviour == "recall":
            members = {self._graph.entity_ids[int(entity)] for entity in answer}
            if kind == "number":
                answer = len(members)
            else:
                found, answer = gold["truth"], gold["ids"][0] in members
                return "" if found == answer else f"{found}, the oracle has {answer}"
        if kind not in ("number", "value"):
            return f"an answer of kind {kind}"
        found = gold[kind]
        answer = answer.item() if isinstance(answer, np.generic) else answer
        if found != answer:
            return f"{found!r}, the oracle has {answer!r}"
        return "" if _states(claim.text, found) else f"{found!r} is not said"

    def _other_entities(self, claim: _Claim, answer: list[int]) -> str:
        graph, gold = self._graph, claim.gold
        expected = sorted(graph.entity_ids[entity] for entity in answer)
        if sorted(gold["ids"]) != expected:
            return f"{len(gold['ids'])} entities, the oracle has {len(expected)}"
        labels = sorted(graph.labels[entity] for entity in answer)
        if sorted(gold["labels"]) != labels:
            return "labels that are not those of the entities"
        if claim.behaviour == "act":
            return ""
        said = _said(claim.text, labels)
        if said < min(len(labels), _LISTED):
            return f"{said} of {len(labels)} entities are said"
        if said < len(labels) and not _states(claim.text, len(labels)):
            return f"{said} of {len(labels)} entities are said, and not that there are more"
        return ""


def _said(text: str, labels: Sequence[str]) -> int:
    """Return how many labels a text says, each apart from the longer ones that it is a part of."""
    found = 0
    for label in sorted(labels, key=len, reverse=True):
        if label in text:
            text = text.replace(label, "\0")
            found += 1
    return found


def _states(text: str, value: Any) -> bool:
    """Return whether a text states a number or value."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) in text or (isinstance(value, int) and f"{value:,}" in text)


def _check_definitions(record: Record) -> None:
    for tool in record.tools:
        problem = definition_problem(tool)
        if problem is not None:
            raise Wrong("a bad definition of a tool", problem)
    if len({tool["function"]["name"] for tool in record.tools}) != len(record.tools):
        raise Wrong("two tools of one name")


def _check_messages(record: Record) -> list[Turn]:
    """Check roles, keys and the ids of calls; return the turns of the user."""
    for place, message in enumerate(record.messages):
        role = message.get("role")
        if role not in _KEYS or set(message) - _KEYS[role]:
            raise Wrong("a malformed message", f"message {place}")
        if not isinstance(message.get("content"), str):
            raise Wrong("a content that is no text", f"message {place}")
        if role == "system" and place:
            raise Wrong("a malformed message", f"message {place}: system is not the first")
    turns, problem = turns_of(record.messages)
    if problem:
        raise Wrong("a malformed conversation", problem)
    if len(turns) != len(record.turns):
        raise Wrong("a malformed conversation", f"{len(turns)} turns, {len(record.turns)} noted")
    return turns

"""Plain sentences that stand in for a language where only what is around them is tested."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Count,
    Filter,
    Intersect,
    Plan,
    Project,
    Result,
    SetPlan,
    Subtract,
    Top,
    Unite,
    Value,
    anchors,
)
from transforms.synthesis.voice import Edit, Op, Trouble


@dataclass(frozen=True)
class Words:
    text: str
    skeleton: str = ""


class SmallVoice:
    """Says plans with brackets."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def phrase(self, plan: Plan, names: Mapping[int, str] | None = None) -> str:
        graph = self._graph

        def say(part: Plan) -> str:
            match part:
                case Anchor(entity):
                    return (names or {}).get(entity, graph.labels[entity])
                case Project(source, relation, inverse):
                    label = graph.relations[relation].label
                    return (
                        f"[what has {label}" * inverse
                        + f"[{label} of" * (not inverse)
                        + f" {say(source)}]"
                    )
                case Intersect(parts):
                    return "[" + " and ".join(map(say, parts)) + "]"
                case Unite(parts):
                    return "[" + " or ".join(map(say, parts)) + "]"
                case Subtract(keep, remove):
                    return f"[{say(keep)} but not {say(remove)}]"
                case Filter(source, attribute, op, value):
                    return f"[{say(source)} with {graph.attributes[attribute].label} {op} {value}]"
                case Top(source, attribute, k, largest):
                    word = "most" if largest else "least"
                    return f"[{k} of {say(source)} with {word} {graph.attributes[attribute].label}]"
                case Count(source):
                    return f"[number of {say(source)}]"
                case Value(source, attribute):
                    return f"[{graph.attributes[attribute].label} of {say(source)}]"
                case Compare(left, right, largest):
                    return f"[{'larger' if largest else 'smaller'}: {say(left)}, {say(right)}]"
            raise AssertionError(part)

        return say(plan)

    def question(self, plan: Plan, draw: Draw, *, names: Mapping[int, str] | None = None) -> Words:
        return Words(f"What is {self.phrase(plan, names)}?")

    def vague(self, plan: Plan, draw: Draw) -> Words:
        return Words(f"What is {self.phrase(plan, {anchors(plan)[0]: 'it'})}?")

    def supply(self, entity: int, draw: Draw) -> Words:
        return Words(self._graph.labels[entity])

    def follow_up(self, edit: Edit, draw: Draw) -> Words:
        return Words(f"{type(edit).__name__}: {getattr(edit, 'entity', getattr(edit, 'name', ''))}")

    def small_talk(self, draw: Draw) -> tuple[Words, str]:
        return Words(f"Hello {draw.below(1000)}!"), "Hello."

    def answer(self, plan: Plan, result: Result, draw: Draw, *, edit: Any = None) -> str:
        if isinstance(result, np.ndarray):
            return ", ".join(self._graph.labels[entity] for entity in result.tolist()) or "none"
        return str(result)

    def done(self, edit: Edit, draw: Draw) -> str:
        return "Saved."

    def refusal(self, plan: Plan, lacking: Plan, draw: Draw) -> str:
        return "No tool gives that."

    def partial(self, plan: Plan, known: SetPlan, result: Result, lacking: Plan, draw: Draw) -> str:
        return f"Only {self.answer(known, result, draw)}."

    def clarify(
        self, plan: Plan, draw: Draw, *, name: str = "", candidates: Sequence[int] = ()
    ) -> str:
        return "Which one?"

    def correction(self, wrong: str, right: str, draw: Draw) -> str:
        return f"{wrong} is not known; trying {right}."

    def retry(self, trouble: Trouble, draw: Draw) -> str:
        return "Trying again."

    def thought(self, plan: Plan, draw: Draw) -> str:
        return "Looking it up."

    def system_prompt(self, draw: Draw) -> str:
        return "Answer with the tools."

    def tool_description(self, op: Op, draw: Draw) -> str:
        return " ".join(map(str, op))

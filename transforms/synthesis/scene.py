"""What scenarios are made from: a plan, a world with its tools, a conversation, its record."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from transforms.synthesis.distractors import Distractors, Kind
from transforms.synthesis.draw import Draw
from transforms.synthesis.executor import Directory
from transforms.synthesis.graph import Graph
from transforms.synthesis.limits import Limits
from transforms.synthesis.needs import needed_ops
from transforms.synthesis.plan import (
    Compare,
    Count,
    Plan,
    Project,
    Result,
    Value,
    anchors,
    canonical,
    children,
    hops,
    members_by,
)
from transforms.synthesis.record import Label, Record
from transforms.synthesis.sampler import Sample, Sampler
from transforms.synthesis.style import Style, draw_style
from transforms.synthesis.tools import ToolFactory
from transforms.synthesis.trajectory import Trajectory
from transforms.synthesis.validity import removable
from transforms.synthesis.voice import Op, Said, Voice

_SUBDRAWS = 6


class NoScene(Exception):  # noqa: N818
    """A scenario cannot be made at a place; the argument says what is lacking."""


class Kit:
    """What the scenes of one graph, language and seed share."""

    def __init__(self, graph: Graph, voice: Voice, lang: str, seed: int, limits: Limits) -> None:
        self.graph, self.voice, self.lang, self.seed = graph, voice, lang, seed
        self.limits = limits
        self.sampler = Sampler(graph, limits, seed)
        self.directory = Directory(graph)
        self.factory = ToolFactory(graph, voice)
        self.distractors = Distractors(graph, self.sampler.step)
        self.key = int(graph.fingerprint[:16], 16)
        self.names: Any = None
        """Names that several entities bear; found when they are first asked for."""

    def result(self, plan: Plan) -> Result:
        """Answer a plan; entities in the order of their labels."""
        step = self.sampler.step
        if isinstance(plan, Count):
            return len(members_by(plan.source, self.graph, step))
        if isinstance(plan, Value):
            (entity,) = members_by(plan.source, self.graph, step)
            return self.graph.value(entity, plan.attribute)
        # In the order of the tools' results: what is said follows from what was seen.
        labels = self.graph.labels
        found = sorted(members_by(plan, self.graph, step), key=lambda entity: labels[entity])
        return np.array(found, np.int32)

    def gold(self, plan: Plan) -> dict[str, Any]:
        """Return a plan's answer as records hold it."""
        found = self.result(plan)
        if isinstance(found, np.ndarray):
            entities = found.tolist()
            labels = [self.graph.labels[entity] for entity in entities]
            ids = [self.graph.entity_ids[entity] for entity in entities]
            return {"kind": "entities", "ids": ids, "labels": labels}
        if isinstance(plan, Count):
            return {"kind": "number", "number": found}
        return {"kind": "value", "value": found}


class Scene:
    """One conversation in the making."""

    def __init__(self, kit: Kit, pattern: str, scenario: str, index: int, place: int) -> None:
        """Begin at one place.

        Args:
            kit: what scenes share.
            pattern: of the plan.
            scenario: name of the scenario.
            index: place in the cell of pattern and scenario.
            place: place among all cells of the pattern, where its plan starts.
        """
        self.kit, self.pattern, self.scenario, self.index = kit, pattern, scenario, index
        self.place, self.tries = place, 0
        self.draw = Draw(kit.seed, kit.key, pattern, scenario, index)
        self.labels: dict[str, Label] = {"scenario": scenario}
        self.turns: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.skeleton = ""
        self.faults: list[dict[str, Any]] = []
        self._plans: list[Plan] = []

    def sample(
        self,
        accept: Callable[[Sample], bool] = lambda _: True,
        *,
        pattern: str = "",
        key: str = "",
        long: bool = False,
    ) -> Sample:
        """Draw a valid plan that a scenario can use.

        Raises:
            NoScene: none was found.
        """
        lacking = "no plan"
        for turn in range(_SUBDRAWS):
            draw = self.draw.child("sample", key, turn)
            place = self.place if not turn else draw.bits() >> 40
            found = self.kit.sampler.draw(pattern or self.pattern, place, draw, long)
            if found is None:
                self.tries += self.kit.limits.tries
                if not turn:
                    continue
                break
            self.tries += found.tries
            if accept(found):
                self.labels["assumption"] = found.assumption
                return found
            lacking = "no plan for the scenario"
        raise NoScene(lacking)

    def style(self, plans: Sequence[Plan], **fixed: Any) -> Style:
        """Draw a style whose calls all matter."""
        step = self.kit.sampler.step
        scalar = not any(removable(plan, self.kit.graph, step) for plan in plans)
        return draw_style(self.draw.child("style"), scalar=scalar, **fixed)

    def stage(
        self,
        plans: Sequence[Plan],
        style: Style,
        *,
        kind: Kind | None = None,
        distractors: int = -1,
        extra: Sequence[Op] = (),
        lacking: Sequence[Op] = (),
        names: Mapping[int, str] | None = None,
    ) -> Trajectory:
        """Set up the tools and begin the conversation.

        Args:
            plans: what the conversation asks for.
            style: the world's.
            kind: of distractors; None: random and siblings.
            distractors: how many; -1: a few or none.
            extra: tools needed beside those of the plans.
            lacking: tools that are left out.
            names: what the user calls entities by.
        """
        draw = self.draw.child("stage")
        needed = list(dict.fromkeys([*(op for p in plans for op in needed_ops(p, style)), *extra]))
        if distractors < 0:
            distractors = 0 if draw.chance(0.35) else draw.between(1, 6)
        usual: tuple[Kind, ...] = ("random", "sibling")
        chosen: Kind = draw.choose(usual) if kind is None else kind
        others = self.kit.distractors.choose(chosen, distractors, needed, plans, draw)
        ops = [op for op in draw.shuffled([*needed, *others]) if op not in lacking]
        self.labels["distractors"] = len(others)
        self.labels["distractor_kind"] = chosen if others else "none"
        tools = self.kit.factory.tools(ops, style)
        self._plans = list(plans)
        trajectory = Trajectory(
            self.kit.directory,
            self.kit.voice,
            style,
            tools,
            self.draw.child("words"),
            faults=self.faults,
            parallel=draw.chance(0.7),
            names=names,
        )
        if draw.chance(0.75):
            trajectory.say("system", self.kit.voice.system_prompt(draw))
        return trajectory

    def ask(self, trajectory: Trajectory, said: Said, key: str = "") -> None:
        """Let the user say something.

        Args:
            trajectory: the conversation.
            said: what is said.
            key: stands for it where records are compared; the text where it is left out.
        """
        trajectory.say("user", said.text)
        self.skeleton = self.skeleton or said.skeleton
        self.asked.append(key or said.text)

    def reply(
        self,
        trajectory: Trajectory,
        text: str,
        behaviour: str,
        plan: Plan | None = None,
        gold: dict[str, Any] | None = None,
        *,
        asked: Plan | None = None,
    ) -> None:
        """Let the assistant end a turn, and note what it was to do.

        Args:
            trajectory: the conversation.
            text: what is said.
            behaviour: what it was to do.
            plan: what is answered or refused.
            gold: the answer; the plan's where it is left out.
            asked: the whole question's plan, where a part of it is answered.
        """
        trajectory.say("assistant", text)
        none = {"kind": "none"}
        found = gold or (self.kit.gold(plan) if plan is not None else none)
        written = canonical(plan, self.kit.graph) if plan is not None else ""
        turn: dict[str, Any] = {"behaviour": behaviour, "plan": written, "gold": found}
        if asked is not None:
            turn["asked"] = canonical(asked, self.kit.graph)
        self.turns.append({**turn, "last_message": len(trajectory.messages) - 1})

    def thought(self, plan: Plan) -> str:
        """Return what the assistant says before its first call; mostly nothing."""
        draw = self.draw.child("thought")
        return self.kit.voice.thought(plan, draw) if draw.chance(0.3) else ""

    def record(self, trajectory: Trajectory) -> Record:
        """Write the record."""
        kit, style = self.kit, trajectory.style
        last = self.turns[-1]
        rounds = [m["tool_calls"] for m in trajectory.messages if "tool_calls" in m]
        labels: dict[str, Label] = {
            **self.labels,
            "hops": max((hops(plan) for plan in self._plans), default=0),
            "anchors": max((len(anchors(plan)) for plan in self._plans), default=0),
            "width": max((self._width(plan) for plan in self._plans), default=0),
            "calls": trajectory.calls,
            "parallel": _parallel(rounds),
            "turns": len(self.turns),
            "faults": len(self.faults),
            "tools": len(trajectory.tools),
            "signature": style.signature,
            "ids": style.ids,
            "behaviour": last["behaviour"],
        }
        asked = "\x1f".join([*self.asked, *(turn["plan"] for turn in self.turns)])
        return Record(
            record_id=f"{kit.graph.name}-{self.pattern}-{self.scenario}-{self.index:07d}",
            world=style.key(),
            pattern=self.pattern,
            labels=labels,
            lang=kit.lang,
            tools=[tool.spec for tool in trajectory.tools],
            ops=[self._named(tool.op) for tool in trajectory.tools],
            messages=trajectory.messages,
            plan=last["plan"],
            gold=last["gold"],
            turns=self.turns,
            faults=self.faults,
            query_key=hashlib.sha256(asked.encode()).hexdigest()[:32],
            skeleton=self.skeleton,
        )

    def _width(self, plan: Plan) -> int:
        """Return the entities of the largest set that relations are asked of."""
        step, graph = self.kit.sampler.step, self.kit.graph
        inner = max((self._width(part) for part in children(plan)), default=0)
        if isinstance(plan, Project):
            return max(inner, len(members_by(plan.source, graph, step)))
        return max(inner, 1) if isinstance(plan, Count | Value | Compare) else inner

    def _named(self, op: Op) -> list[Any]:
        """Return a tool's operation with ids for numbers."""
        kind, *rest = op
        if kind == "deprecated":
            return ["deprecated", *self._named(op[1:])]
        if kind == "project":
            relation = self.kit.graph.relations[int(rest[0])].id
            return ["inverse" if rest[1] else "project", relation]
        if kind in ("value", "filter", "top"):
            return [kind, self.kit.graph.attributes[int(rest[0])].id]
        return [kind]


def _parallel(rounds: Sequence[Sequence[Mapping[str, Any]]]) -> str:
    """Return whether calls were made at once, of one tool or of several."""
    kinds = [{call["function"]["name"] for call in calls} for calls in rounds if len(calls) > 1]
    if not kinds:
        return "none"
    return "different tools" if any(len(names) > 1 for names in kinds) else "same tool"

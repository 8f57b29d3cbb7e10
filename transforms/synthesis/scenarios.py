"""Scenarios of one question: what is around it, what is missing, what goes wrong.

Each function makes one scene; the axes are those of papers_synth's stage 3. Faults come from the
environment alone: every call fits its tool's schema.
"""

from collections.abc import Callable

from transforms.synthesis.ambiguous import ambiguous_names, forward_plan
from transforms.synthesis.closure import Steps, out_of_reach
from transforms.synthesis.distractors import Kind
from transforms.synthesis.draw import Draw
from transforms.synthesis.executor import TRANSIENT
from transforms.synthesis.graph import name_key
from transforms.synthesis.needs import needed_ops
from transforms.synthesis.plan import (
    Anchor,
    Plan,
    Project,
    SetPlan,
    Unite,
    anchors,
    children,
    members_by,
    relations,
)
from transforms.synthesis.record import Record
from transforms.synthesis.scene import NoScene, Scene
from transforms.synthesis.style import Style
from transforms.synthesis.trajectory import Trajectory
from transforms.synthesis.voice import Op

Maker = Callable[[Scene], Record]

_ROUNDS = 20
"""Records of one pattern that begin with one ambiguous name, at most."""
_AMOUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 30)


def answered(scene: Scene, trajectory: Trajectory, plan: Plan, thought: str = "") -> None:
    """Let the assistant find and state the answer of a plan."""
    trajectory.work(plan, thought)
    text = scene.kit.voice.answer(plan, scene.kit.result(plan), scene.draw.child("answer"))
    scene.reply(trajectory, text, "answer", plan)


def _single(scene: Scene, plan: Plan, trajectory: Trajectory) -> Record:
    names = trajectory.names
    said = scene.kit.voice.question(plan, scene.draw.child("question"), names=names or None)
    scene.ask(trajectory, said)
    # Whoever is told a name that no tool knows cannot say the right one beforehand.
    answered(scene, trajectory, plan, "" if names else scene.thought(plan))
    return scene.record(trajectory)


def plain(scene: Scene) -> Record:
    """Ask with the needed tools alone."""
    plan = scene.sample().plan
    return _single(scene, plan, scene.stage([plan], scene.style([plan]), distractors=0))


def with_distractors(kind: Kind) -> Maker:
    """Return the scenario with tools beside the needed ones that are near to them in one way."""

    def make(scene: Scene) -> Record:
        plan = scene.sample().plan
        count = scene.draw.child("amount").choose(_AMOUNTS)
        style = scene.style([plan])
        trajectory = scene.stage([plan], style, kind=kind, distractors=count)
        if not scene.labels["distractors"]:
            raise NoScene(f"no tool to distract ({kind})")
        return _single(scene, plan, trajectory)

    return make


def missing_tool(scene: Scene) -> Record:
    """Leave out a tool without which there is no answer."""
    plan = scene.sample().plan
    style = scene.style([plan])
    draw = scene.draw.child("missing")
    for op, lacking in draw.shuffled(_essential(plan, style))[:3]:
        trajectory = scene.stage([plan], style, lacking=[op, ("deprecated", *op)])
        if _out_of_reach(scene, plan, trajectory):
            scene.ask(trajectory, scene.kit.voice.question(plan, draw))
            text = scene.kit.voice.refusal(plan, lacking, draw)
            scene.reply(trajectory, text, "refuse", plan, {"kind": "none"})
            return scene.record(trajectory)
    raise NoScene("the answer can be found without the tool")


def partial_tool(scene: Scene) -> Record:
    """Leave out a tool; a part of what is asked can still be found, and is told as such."""
    plan = scene.sample(lambda s: _part(s.plan) is not None).plan
    parts = _part(plan)
    if parts is None:
        raise NoScene("no part to answer")
    known, lacking = parts
    style = scene.style([plan])
    kept = set(needed_ops(known, style))
    gone = [op for op in needed_ops(lacking, style) if op not in kept and op[0] == "project"]
    if not gone:
        raise NoScene("the part takes the same tools")
    trajectory = scene.stage([plan], style, lacking=[*gone, *(("deprecated", *op) for op in gone)])
    if not _out_of_reach(scene, plan, trajectory):
        raise NoScene("the answer can be found without the tool")
    draw = scene.draw.child("partial")
    scene.ask(trajectory, scene.kit.voice.question(plan, draw))
    trajectory.work(known, scene.thought(plan))
    text = scene.kit.voice.partial(plan, known, scene.kit.result(known), lacking, draw)
    scene.reply(trajectory, text, "partial", known, asked=plan)
    return scene.record(trajectory)


def missing_parameter(scene: Scene) -> Record:
    """Let the user leave out an entity, and name it when asked."""
    plan = scene.sample(lambda s: len(anchors(s.plan)) == 1).plan
    trajectory = scene.stage([plan], scene.style([plan]))
    draw, voice = scene.draw.child("vague"), scene.kit.voice
    scene.ask(trajectory, voice.vague(plan, draw))
    scene.reply(trajectory, voice.clarify(plan, draw), "clarify")
    scene.ask(trajectory, voice.supply(anchors(plan)[0], draw))
    answered(scene, trajectory, plan)
    return scene.record(trajectory)


def ambiguous_parameter(scene: Scene) -> Record:
    """Let the user name an entity as several are named; the tool says so, and the user is asked."""
    kit, draw = scene.kit, scene.draw.child("ambiguous")
    if kit.names is None:
        kit.names = ambiguous_names(kit.graph)
    if not kit.names:
        raise NoScene("no name is borne by several entities")
    if scene.index >= _ROUNDS * len(kit.names):
        raise NoScene("every name that several entities bear is used up")
    found = forward_plan(kit.graph, kit.sampler, kit.names, scene.pattern, scene.index, draw)
    if found is None:
        raise NoScene("no plan")
    plan, name, entity = found
    scene.labels["assumption"] = "none"
    trajectory = scene.stage([plan], scene.style([plan]), names={entity: name})
    scene.ask(trajectory, kit.voice.question(plan, draw, names={entity: name}))
    (outcome, *_) = trajectory.probe(plan)
    if outcome.fault != "ambiguous":
        raise NoScene("the name is not ambiguous")
    scene.labels["candidates"] = len(outcome.suggestions)
    bearers = list(kit.graph.named(name))
    scene.reply(trajectory, kit.voice.clarify(plan, draw, name=name, candidates=bearers), "clarify")
    scene.ask(trajectory, kit.voice.supply(entity, draw))
    trajectory.names.clear()
    answered(scene, trajectory, plan)
    return scene.record(trajectory)


def unknown_entity(scene: Scene) -> Record:
    """Let the user misspell an entity; the tool does not know it, and suggests the right name."""
    plan = scene.sample().plan
    draw, kit = scene.draw.child("typo"), scene.kit
    named = draw.shuffled(anchors(plan))
    for entity in named:
        wrong = _misspelt(kit.graph.labels[entity], draw)
        near = kit.directory.near(wrong) if wrong and not kit.graph.named(wrong) else []
        if near[:1] == [kit.graph.labels[entity]]:
            trajectory = scene.stage([plan], scene.style([plan]), names={entity: wrong})
            scene.labels["misspelt"] = True
            return _single(scene, plan, trajectory)
    raise NoScene("no name to misspell")


def trouble(kind: str) -> Maker:
    """Return the scenario where the environment fails once or twice, and answers when asked again."""

    def make(scene: Scene) -> Record:
        plan = scene.sample().plan
        draw = scene.draw.child("trouble")
        first = draw.below(_operations(plan))
        scene.faults = [{"call": first, "kind": kind}]
        if draw.chance(0.2):
            scene.faults.append({"call": first + 1, "kind": draw.choose((kind, *TRANSIENT))})
        trajectory = scene.stage([plan], scene.style([plan]))
        record = _single(scene, plan, trajectory)
        if any(fault["call"] >= trajectory.calls for fault in scene.faults):
            raise NoScene("too few calls for the fault")
        return record

    return make


def paging(scene: Scene) -> Record:
    """Give results in pages."""
    largest = 0

    def long_enough(sample: object) -> bool:
        nonlocal largest
        largest = _largest(scene, sample.plan)  # type: ignore[attr-defined]
        return largest >= 3

    plan = scene.sample(long_enough).plan
    page = scene.draw.child("page").between(2, max(2, min(largest - 1, 8)))
    scene.labels["page"] = page
    trajectory = scene.stage([plan], scene.style([plan], page=page))
    record = _single(scene, plan, trajectory)
    if '"page_token"' not in str(record.messages):
        raise NoScene("no result has two pages")
    return record


def long_result(scene: Scene) -> Record:
    """Let a tool return a long list, of which the question needs a part."""
    sample = scene.sample(long=True)
    plan = sample.plan
    rows = len(members_by(sample.long, scene.kit.graph, scene.kit.sampler.step))  # type: ignore[arg-type]
    scene.labels["long_rows"] = rows
    trajectory = scene.stage([plan], scene.style([plan], handle=True))
    return _single(scene, plan, trajectory)


def no_tool(scene: Scene) -> Record:
    """Say a thing or a few that need no tool, with tools at hand."""
    draw = scene.draw.child("talk")
    style = scene.style([])
    trajectory = scene.stage([], style, distractors=draw.choose(_AMOUNTS[:7]), kind="random")
    scene.labels["assumption"] = "none"
    said: list[str] = []
    for _ in range(draw.choose((1, 2, 2, 3, 3, 3, 3))):
        spoken, reply = scene.kit.voice.small_talk(draw)
        if spoken.text not in said:
            said.append(spoken.text)
            scene.ask(trajectory, spoken)
            scene.reply(trajectory, reply, "chat")
    return scene.record(trajectory)


def _out_of_reach(scene: Scene, plan: Plan, trajectory: Trajectory) -> bool:
    """Return whether it is proved that the tools at hand do not give a plan's answer."""
    steps = Steps.of(tool.op for tool in trajectory.tools)
    return out_of_reach(plan, scene.kit.graph, steps)


def _essential(plan: Plan, style: Style) -> list[tuple[Op, Plan]]:
    """Return the tools that read the graph for a plan, with the part that each is for."""
    found: list[tuple[Op, Plan]] = []

    def visit(part: Plan) -> None:
        for inner in children(part):
            visit(inner)
        ops = needed_ops(part, style)
        if ops and ops[-1][0] in ("project", "value"):
            found.append((ops[-1], part))

    visit(plan)
    return found


def _part(plan: Plan) -> tuple[SetPlan, Plan] | None:
    """Return a part of a plan that is worth telling, and the part that is then lacking."""
    match plan:
        case Unite((first, second)) if not set(relations(first)) & set(relations(second)):
            return first, second
        case Project(source) if not isinstance(source, Anchor):
            return source, plan
    return None


def _operations(plan: Plan) -> int:
    """Return the calls that a plan takes at least."""
    seen: set[Plan] = set()

    def visit(part: Plan) -> None:
        if not isinstance(part, Anchor):
            seen.add(part)
        for inner in children(part):
            visit(inner)

    visit(plan)
    return max(1, len(seen) - (type(plan).__name__ == "Compare"))


def _largest(scene: Scene, plan: Plan) -> int:
    """Return the size of the largest result of a single relation."""
    step, graph = scene.kit.sampler.step, scene.kit.graph
    inner = max((_largest(scene, part) for part in children(plan)), default=0)
    if isinstance(plan, Project) and isinstance(plan.source, Anchor):
        return max(inner, len(members_by(plan, graph, step)))
    return inner


def _misspelt(label: str, draw: Draw) -> str:
    """Return a label with one slip inside one of its words; an empty text where it is too short."""
    inner = [n for n in range(1, len(label) - 1) if label[n].isalpha() and label[n + 1].isalpha()]
    if len(name_key(label)) < (5 if label.isascii() else 4) or not inner:
        return ""
    at = draw.choose(inner)
    slip = draw.below(3)
    if slip == 0 and label[at] != label[at + 1]:
        return label[:at] + label[at + 1] + label[at] + label[at + 2 :]
    if slip == 1:
        return label[:at] + label[at + 1 :]
    return label[:at] + label[at] + label[at:]

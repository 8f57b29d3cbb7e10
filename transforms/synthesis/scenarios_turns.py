"""Scenarios of several questions: each turn is an edit of a plan that was answered before."""

import itertools

from transforms.synthesis.draw import Draw
from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Count,
    Intersect,
    Plan,
    Project,
    SetPlan,
    Subtract,
    Value,
    anchors,
    canonical,
    children,
    members_by,
)
from transforms.synthesis.record import Record
from transforms.synthesis.sampler import Sample
from transforms.synthesis.scenarios import answered
from transforms.synthesis.scene import NoScene, Scene
from transforms.synthesis.trajectory import Trajectory
from transforms.synthesis.variants import replaced_anchor
from transforms.synthesis.voice import Correct, Edit, Other, Recall, Refine, Relax, Save, UseSaved

_TRIES = 24
_MOST_SOURCES = 200
_NAMES = ("favourites", "shortlist", "picks", "list1", "saved", "todo", "later", "group_a")


def follow_up(scene: Scene) -> Record:
    """Ask the same about another entity, by ellipsis, once or twice."""
    plans = [scene.sample().plan]
    for turn in range(1 + scene.draw.child("turns").below(2)):
        found = _exchanged(scene, plans[-1], scene.draw.child("other", turn), plans)
        if found is not None:
            plans.append(found[0])
    if len(plans) == 1:
        raise NoScene("no other entity to ask about")
    trajectory = _first(scene, plans)
    for turn, (before, plan) in enumerate(itertools.pairwise(plans)):
        _turn(scene, trajectory, plan, Other(plan, before, _new(before, plan)), turn)
    return scene.record(trajectory)


def correct(scene: Scene) -> Record:
    """Ask about an entity, and then say that another one was meant."""
    plan = scene.sample().plan
    found = _exchanged(scene, plan, scene.draw.child("other"), [])
    if found is None:
        raise NoScene("no other entity to ask about")
    meant, wrong = found
    trajectory = _first(scene, [plan, meant])
    _turn(scene, trajectory, meant, Correct(meant, wrong, _new(plan, meant)), 0)
    return scene.record(trajectory)


def topic_return(scene: Scene) -> Record:
    """Ask something else, and come back to the first question for another entity."""
    plan = scene.sample().plan
    found = _exchanged(scene, plan, scene.draw.child("other"), [])
    if found is None:
        raise NoScene("no other entity to ask about")
    # Written canonically: "both a and b" is the question "both b and a".
    graph = scene.kit.graph
    asked = {canonical(one, graph) for one in (plan, found[0])}
    between = scene.sample(lambda s: canonical(s.plan, graph) not in asked, key="between").plan
    trajectory = _first(scene, [plan, between, found[0]])
    scene.ask(trajectory, scene.kit.voice.question(between, scene.draw.child("between")))
    answered(scene, trajectory, between)
    _turn(scene, trajectory, found[0], Other(found[0], plan, _new(plan, found[0]), True), 0)
    return scene.record(trajectory)


def refine(scene: Scene) -> Record:
    """Ask which of the entities just answered are in another set too."""
    plan, refined, extra = _refined(scene)
    trajectory = _first(scene, [plan, refined])
    _turn(scene, trajectory, refined, Refine(plan, extra), 0)
    return scene.record(trajectory)


def saved_set(scene: Scene) -> Record:
    """Save an answer under a name, and use it later by its name."""
    plan, refined, extra = _refined(scene)
    draw, voice = scene.draw.child("save"), scene.kit.voice
    name = draw.choose(_NAMES)
    style = scene.style([plan, refined])
    trajectory = scene.stage([plan, refined], style, extra=[("save",), ("load",)])
    _ask_first(scene, trajectory, plan)
    save, use = Save(plan, name), UseSaved(name, plan, extra)
    scene.ask(trajectory, voice.follow_up(save, draw))
    trajectory.keep(plan, name)
    scene.reply(trajectory, voice.done(save, draw), "act", plan)
    scene.ask(trajectory, voice.follow_up(use, draw))
    trajectory.restore(plan, name)
    trajectory.work(refined)
    text = voice.answer(refined, scene.kit.result(refined), draw, edit=use)
    scene.reply(trajectory, text, "answer", refined)
    return scene.record(trajectory)


def empty_relax(scene: Scene) -> Record:
    """Ask for what there is nothing of, and then for it without one of the conditions."""
    kit, draw = scene.kit, scene.draw.child("empty")
    plan = scene.sample(lambda s: _size(scene, s.plan) >= 2, pattern="1p").plan
    if not isinstance(plan, Project):
        raise NoScene("no plan")
    both = _disjoint(scene, plan, draw)
    if both is None:
        raise NoScene("no second condition")
    trajectory = scene.stage([both], scene.style([both]))
    scene.ask(trajectory, kit.voice.question(both, draw))
    answered(scene, trajectory, both, scene.thought(both))
    edit = Relax(both, plan)
    scene.ask(trajectory, kit.voice.follow_up(edit, draw))
    text = kit.voice.answer(plan, kit.result(plan), draw, edit=edit)
    scene.reply(trajectory, text, "answer", plan)
    return scene.record(trajectory)


def in_context(scene: Scene) -> Record:
    """Ask something about the last answer, which takes no call."""
    plan = scene.sample(lambda s: _size(scene, s.plan) >= 1).plan
    draw, kit = scene.draw.child("recall"), scene.kit
    trajectory = _first(scene, [plan])
    found = sorted(members_by(plan, kit.graph, kit.sampler.step))  # type: ignore[arg-type]
    if len(found) >= 2 and draw.chance(0.5):
        recall = Recall(plan)
        gold = {"kind": "number", "number": len(found)}
    else:
        entity, among = _asked_about(scene, found, draw)
        recall = Recall(plan, entity)
        gold = {"kind": "truth", "truth": among, "ids": [kit.graph.entity_ids[entity]]}
    scene.ask(trajectory, kit.voice.follow_up(recall, draw))
    text = kit.voice.answer(plan, kit.result(plan), draw, edit=recall)
    scene.reply(trajectory, text, "recall", plan, gold)
    return scene.record(trajectory)


def _first(scene: Scene, plans: list[Plan]) -> Trajectory:
    trajectory = scene.stage(plans, scene.style(plans))
    _ask_first(scene, trajectory, plans[0])
    return trajectory


def _ask_first(scene: Scene, trajectory: Trajectory, plan: Plan) -> None:
    scene.ask(trajectory, scene.kit.voice.question(plan, scene.draw.child("question")))
    answered(scene, trajectory, plan, scene.thought(plan))


def _turn(scene: Scene, trajectory: Trajectory, plan: Plan, edit: Edit, turn: int) -> None:
    draw = scene.draw.child("turn", turn)
    scene.ask(trajectory, scene.kit.voice.follow_up(edit, draw))
    trajectory.work(plan)
    text = scene.kit.voice.answer(plan, scene.kit.result(plan), draw, edit=edit)
    scene.reply(trajectory, text, "answer", plan)


def _refined(scene: Scene) -> tuple[SetPlan, SetPlan, SetPlan]:
    """Draw a plan and a further condition on its answer; return plan, both, and the condition.

    Raises:
        NoScene: there is none.
    """
    found: list[tuple[SetPlan, SetPlan, SetPlan]] = []

    def has_more(sample: Sample) -> bool:
        if _size(scene, sample.plan) >= 2:
            found.extend(_further(scene, sample.plan))  # type: ignore[arg-type]
        return bool(found)

    scene.sample(has_more)
    return found[0]


def _further(scene: Scene, plan: SetPlan) -> list[tuple[SetPlan, SetPlan, SetPlan]]:
    """Return a plan with a further condition that its answer can meet, if there is one."""
    kit = scene.kit
    found = sorted(members_by(plan, kit.graph, kit.sampler.step))
    for attempt in range(_TRIES):
        draw = scene.draw.child("refine", attempt)
        extra = kit.sampler.single_into(draw.choose(found), draw, 2 * attempt < _TRIES)
        if extra is not None:
            both = Intersect((plan, extra))
            if not kit.sampler.rules.check(both):
                return [(plan, both, extra)]
    return []


def _disjoint(scene: Scene, plan: Project, draw: Draw) -> Intersect | None:
    """Draw a second set of entities of the same type that has none of a plan's."""
    kit = scene.kit
    found = members_by(plan, kit.graph, kit.sampler.step)
    kind = kit.graph.type_of(min(found))
    pool = kit.graph.members_of(kind).tolist() if kind >= 0 else range(kit.graph.n_entities)
    for _ in range(_TRIES):
        extra = kit.sampler.single_into(draw.choose(pool), draw)
        if extra is None or set(anchors(extra)) & {*anchors(plan), *found}:
            continue
        others = members_by(extra, kit.graph, kit.sampler.step)
        if not others & found and not set(anchors(plan)) & others:
            return Intersect((plan, extra))
    return None


def _asked_about(scene: Scene, found: list[int], draw: Draw) -> tuple[int, bool]:
    """Draw an entity to ask about: one of the answer, or one of the same type."""
    graph = scene.kit.graph
    kind = graph.type_of(found[0])
    pool = graph.members_of(kind).tolist() if kind >= 0 else []
    other = draw.choose(pool) if pool and draw.chance(0.5) else draw.choose(found)
    return other, other in found


def _size(scene: Scene, plan: Plan) -> int:
    if isinstance(plan, Count | Value | Compare):
        return 0
    return len(members_by(plan, scene.kit.graph, scene.kit.sampler.step))


def _new(before: Plan, plan: Plan) -> int:
    return next(b for a, b in zip(anchors(before), anchors(plan), strict=True) if a != b)


def _exchanged(
    scene: Scene, plan: Plan, draw: Draw, without: list[Plan]
) -> tuple[Plan, int] | None:
    """Draw a plan that differs in one anchor; return it and the old anchor."""
    sampler = scene.kit.sampler
    pools = {entity: _alike(scene, plan, entity) for entity in anchors(plan)}
    for attempt in range(2 * _TRIES):
        old = draw.choose(list(pools))
        pool = pools[old]
        new = draw.choose(pool) if pool else old
        if new in anchors(plan):
            continue
        found = replaced_anchor(plan, old, new)
        if found in without or not sampler.other_anchor(found, new, draw, attempt < _TRIES):
            continue
        if scene.kit.gold(found) != scene.kit.gold(plan):
            return found, old
    return None


def _alike(scene: Scene, plan: Plan, entity: int) -> list[int]:
    """Return the entities that have what a plan asks of an anchor.

    Beside another set, those whose own set has something in common with it.
    """
    graph = scene.kit.graph
    match plan:
        case Project(Anchor(own), relation, inverse) if own == entity:
            few = graph.degrees(relation, inverse) <= scene.kit.limits.items
            return graph.heads(relation, inverse)[few].tolist()  # type: ignore[no-any-return]
        case Value(Anchor(own), attribute) if own == entity:
            return graph.holders(attribute).tolist()  # type: ignore[no-any-return]
        case Intersect(parts):
            for part in parts:
                if isinstance(part, Project) and part.source == Anchor(entity):
                    others = tuple(other for other in parts if other is not part)
                    return _meeting(scene, part, others)
        case Subtract(keep, Project(Anchor(own)) as remove) if own == entity:
            return _meeting(scene, remove, (keep,))
    return next((pool for part in children(plan) if (pool := _alike(scene, part, entity))), [])


def _meeting(scene: Scene, part: Project, others: tuple[SetPlan, ...]) -> list[int]:
    """Return the anchors with which a relation leads to something that other sets share."""
    kit = scene.kit
    sets = [members_by(other, kit.graph, kit.sampler.step) for other in others]
    found: dict[int, None] = {}
    for entity in sorted(sets[0].intersection(*sets[1:]))[: kit.limits.items]:
        sources = kit.graph.targets(entity, part.relation, not part.inverse)
        found |= dict.fromkeys(sources[:_MOST_SOURCES].tolist())
    return list(found)

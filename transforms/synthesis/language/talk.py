"""The sentences around questions, in either language: filled from one page of frames."""

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

from transforms.synthesis.draw import Draw
from transforms.synthesis.language import chinese_talk, english_talk
from transforms.synthesis.language.surface import entity_mark, lower_first, upper_first
from transforms.synthesis.language.words import Noun
from transforms.synthesis.plan import Anchor, Plan, Project, SetPlan, anchors, attributes, depth
from transforms.synthesis.voice import (
    Correct,
    Edit,
    Op,
    Other,
    Recall,
    Refine,
    Relax,
    Save,
    UseSaved,
)

LISTED = 20
"""Names that an answer lists at most; of more it lists the first ten."""
FIRST = 10


class Speech(Protocol):
    """What a language's grammar gives to the sentences around questions."""

    def thing(self, plan: Plan, draw: Draw) -> tuple[str, bool]:
        """Return a noun phrase for what a plan gives, and whether it is a plural."""

    def told(self, plan: SetPlan, draw: Draw) -> str:
        """Return what can be said of several members of a set, such as "have X as a director"."""

    def noun(self, plan: SetPlan) -> Noun:
        """Return what the members of a set are called."""

    def entity_noun(self, entity: int) -> Noun:
        """Return what an entity is called."""

    def described(self, relation: int, inverse: bool, draw: Draw) -> str:
        """Return a noun phrase for what a relation gives for some entity."""

    def given(self, attribute: int, draw: Draw) -> str:
        """Return "a given film" for what has an attribute."""

    def attribute(self, attribute: int) -> tuple[str, str]:
        """Return the name and the unit of an attribute."""

    def plural(self, noun: Noun) -> str:
        """Return a noun in the plural."""


class Talk:
    """Fills the frames of one language; texts hold marks (see surface)."""

    def __init__(self, speech: Speech, lang: str) -> None:
        self._speech = speech
        self._chinese = lang == "zh"
        self.page: ModuleType = chinese_talk if self._chinese else english_talk

    def fill(self, frame: str, **slots: str) -> str:
        """Put texts into the slots of a frame; a sentence begins with a capital, but a name as it is."""
        named = frame.startswith(("{L}", "{X}"))
        for name, text in slots.items():
            frame = frame.replace(f"{{{name}}}", text)
        return frame if self._chinese or named else upper_first(frame)

    def choose(self, name: str, draw: Draw) -> Any:
        """Draw a frame of the page."""
        return draw.choose(getattr(self.page, name))

    def quoted(self, name: str) -> str:
        """Return a name in quotes."""
        return f"“{name}”" if self._chinese else f'"{name}"'

    def listed(self, labels: Sequence[str]) -> str:
        """Return names as a list in a sentence."""
        if len(labels) == 1:
            return labels[0]
        if self._chinese:
            mark = "；" if any("、" in label or "，" in label for label in labels) else "、"
            return mark.join(labels)
        if any("," in label or " and " in label for label in labels):
            return "; ".join(labels)
        return f"{', '.join(labels[:-1])} and {labels[-1]}"

    def names(self, labels: Sequence[str], noun: Noun, draw: Draw) -> str:
        """State the members of a set."""
        count = len(labels)
        if not count:
            return self.fill(self.choose("NONE", draw))
        if count == 1:
            return _stopped(self.fill(self.choose("ONE_FOUND", draw), L=labels[0]))
        plural = self._speech.plural(noun)
        if count > LISTED:
            text = self.fill(
                self.choose("FIRST", draw),
                N=str(count),
                K=str(FIRST),
                L=self.listed(labels[:FIRST]),
            )
            return _stopped(text)
        if count >= 4 and draw.chance(0.35):
            head = self.fill(self.choose("BULLETS", draw), N=str(count), H=plural)
            return "\n".join([head, *(f"- {label}" for label in labels)])
        text = self.fill(self.choose("SOME", draw), N=str(count), H=plural, L=self.listed(labels))
        return _stopped(text)

    def follow_up(self, edit: Edit, draw: Draw) -> str:
        """Say the next turn of a conversation."""
        match edit:
            case Other():
                return self._other(edit, draw)
            case Refine(_, extra):
                told = self._speech.told(extra, draw) if draw.chance(0.5) else ""
                if told:
                    return self.fill(self.choose("REFINE_VERB", draw), P=told)
                return self.fill(self.choose("REFINE", draw), F=self._speech.thing(extra, draw)[0])
            case Correct(_, wrong, right):
                frame = self.choose("CORRECT", draw)
                return self.fill(frame, X=entity_mark(right), Y=entity_mark(wrong))
            case Save(_, name):
                return self.fill(self.choose("SAVE", draw), name=self.quoted(name))
            case UseSaved(name, _, extra):
                text = self._speech.thing(extra, draw)[0]
                return self.fill(self.choose("USE", draw), name=self.quoted(name), F=text)
            case Recall(_, entity):
                if entity < 0:
                    return self.fill(self.choose("RECALL_COUNT", draw))
                return self.fill(self.choose("RECALL_ONE", draw), X=entity_mark(entity))
            case Relax(_, plan):
                text, many = self._speech.thing(plan, draw)
                return self.fill(self.choose("RELAX", draw), F=text, be="are" if many else "is")

    def _other(self, edit: Other, draw: Draw) -> str:
        old = [entity for entity in anchors(edit.before) if entity != edit.entity]
        gone = [entity for entity in old if entity not in anchors(edit.plan)]
        if len(anchors(edit.before)) > 1 and gone:
            frame = self.choose("OTHER_OF", draw)
            text = self.fill(frame, X=entity_mark(edit.entity), Y=entity_mark(gone[0]))
        else:
            text = self.fill(self.choose("OTHER", draw), X=entity_mark(edit.entity))
        if not edit.back:
            return text
        small = text if self._chinese else lower_first(text)
        return self.fill(self.choose("BACK", draw), rest=small, Rest=text)

    def lacking(self, frame: str, lacking: Plan, draw: Draw, **slots: str) -> str:
        """Say what no tool gives; of a long way to a set, its last step is told."""
        return self.fill(frame, F=self._needed(lacking, draw), **slots)

    def _needed(self, plan: Plan, draw: Draw) -> str:
        if isinstance(plan, Project) and not isinstance(plan.source, Anchor):
            text = self._speech.described(plan.relation, plan.inverse, draw)
            return text if self._chinese else f"the {text}"
        need: str = self.page.NEEDS.get(type(plan).__name__, "")
        if depth(plan) <= 2 or not need:
            return self._speech.thing(plan, draw)[0]
        numbers = attributes(plan)
        name = self._speech.attribute(numbers[-1])[0] if numbers else ""
        return need.replace("{attribute}", name)

    def which(self, entity: int, draw: Draw) -> str:
        """Ask which entity is meant."""
        noun = self._speech.entity_noun(entity)
        return self.fill(self.choose("WHICH", draw), h=noun.single, m=noun.plural)

    def that(self, entity: int, draw: Draw) -> str:
        """Return "that film" for an entity that is not named."""
        noun = self._speech.entity_noun(entity)
        text: str = self.choose("THAT", draw).replace("{h}", noun.single)
        return text.replace("{m}", noun.plural)

    def system_prompt(self, draw: Draw) -> str:
        """Write a system prompt: a role, a family's way of working, rules."""
        family = draw.choose(list(self.page.FAMILIES.values()))
        parts = [self.choose("ROLES", draw), *draw.sample(family, 1 + draw.below(3))]
        rules = draw.sample(self.page.RULES, draw.below(5))
        if draw.chance(0.35):
            rules.append(self.choose("SETTINGS", draw))
        if len(rules) > 1 and draw.chance(0.3):
            return "\n".join([self._run(parts), *(f"- {rule}" for rule in rules)])
        return self._run([*parts, *rules])

    def _run(self, sentences: Sequence[str]) -> str:
        return ("" if self._chinese else " ").join(sentences)

    def tool_description(self, op: Op, draw: Draw) -> str:
        """Describe a tool."""
        kind = str(op[0])
        if kind == "deprecated":
            inner = self.tool_description(op[1:], draw)
            return self.fill(self.choose("DEPRECATED", draw), D=inner)
        frame = draw.choose(self.page.OPS[kind])
        slots: dict[str, str] = {"V": self.choose("VERBS", draw)}
        if kind == "project":
            slots["F"] = self._speech.described(int(op[1]), bool(op[2]), draw)
        elif kind in ("value", "filter", "top"):
            slots["attribute"] = self._speech.attribute(int(op[1]))[0]
            slots["G"] = self._speech.given(int(op[1]), draw)
        return self.fill(frame, **slots) + str(self.choose("EXTRA", draw))


def _stopped(text: str) -> str:
    """Leave one stop at the end where a name brought its own."""
    return text[:-1] if text.endswith(("..", "!.", "?.")) else text


Names = Mapping[int, str]

"""What the synthesizer asks of language: one object per graph and language."""

from collections.abc import Mapping, Sequence

from transforms.record import RecordError
from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.language.chinese_lexicon import ChineseLexicon
from transforms.synthesis.language.chinese_speech import ChineseSpeech
from transforms.synthesis.language.english_lexicon import EnglishLexicon
from transforms.synthesis.language.english_speech import EnglishSpeech
from transforms.synthesis.language.overrides import Overrides
from transforms.synthesis.language.surface import entity_mark, mention, number_text, utterance
from transforms.synthesis.language.talk import Talk
from transforms.synthesis.language.words import Utterance
from transforms.synthesis.plan import (
    Compare,
    Count,
    Plan,
    Result,
    SetPlan,
    Value,
    anchors,
    depth,
)
from transforms.synthesis.rewriter import Rewriter
from transforms.synthesis.voice import Edit, Op, Recall, Trouble

LANGUAGES = ("en", "zh")
_QUOTING = (0, 0, 0, 1, 1, 1, 1, 2)


class Realizer:
    """Speaks about one graph in one language; a ``voice.Voice``."""

    def __init__(
        self,
        graph: Graph,
        lang: str,
        overrides: Overrides | None = None,
        rewriter: Rewriter | None = None,
    ) -> None:
        """Learn the words of a graph.

        Args:
            graph: what is spoken about.
            lang: ``en`` or ``zh``.
            overrides: entries of a lexicon file for this language.
            rewriter: rewords questions; none by default.

        Raises:
            RecordError: the language is not known.
        """
        self.graph, self.lang = graph, lang
        self.grammar: EnglishSpeech | ChineseSpeech
        if lang == "en":
            self.grammar = EnglishSpeech(EnglishLexicon(graph, overrides))
        elif lang == "zh":
            self.grammar = ChineseSpeech(ChineseLexicon(graph, overrides))
        else:
            raise RecordError(f"language {lang!r}: not known; use en or zh")
        self.rewriter = rewriter
        self.talk = Talk(self.grammar, lang)

    def question(
        self,
        plan: Plan,
        draw: Draw,
        *,
        names: Mapping[int, str] | None = None,
        style: str | None = None,
    ) -> Utterance:
        """Ask for what a plan means.

        Args:
            plan: a plan over the graph.
            draw: where choices come from.
            names: other mentions than the labels.
            style: family of the frame (see frames); drawn where it is not told.
        """
        style = style or self.grammar.style(draw)
        core = self.grammar.core(plan, draw, style)
        text, noise = self.grammar.dressed(core, draw, style)
        said = self._said(text, draw, style, noise, names)
        return said if self.rewriter is None else self.rewriter.reword(said, self.lang)

    def vague(self, plan: Plan, draw: Draw) -> Utterance:
        """Ask for it, and leave out which anchor is meant ("Who directed that film?")."""
        entity = anchors(plan)[0]
        return self.question(plan, draw, names={entity: self.talk.that(entity, draw)})

    def supply(self, entity: int, draw: Draw) -> Utterance:
        """Name the entity that was asked for."""
        frame = self.talk.choose("SUPPLY", draw)
        return self._said(self.talk.fill(frame, X=entity_mark(entity)), draw, "supply")

    def follow_up(self, edit: Edit, draw: Draw) -> Utterance:
        """Say the next turn of a conversation."""
        return self._said(self.talk.follow_up(edit, draw), draw, "follow up")

    def small_talk(self, draw: Draw) -> tuple[Utterance, str]:
        """Say something that needs no tool, and what the assistant says to it."""
        said, reply = self.talk.choose("SMALL_TALK", draw)
        return Utterance(said, said, "small talk"), reply

    def answer(self, plan: Plan, result: Result, draw: Draw, *, edit: Edit | None = None) -> str:
        """State a result; an empty set is stated as such."""
        talk = self.talk
        if isinstance(edit, Recall):
            return self._recalled(edit, result, draw)
        if isinstance(plan, Count):
            are = "is" if result == 1 else "are"
            return talk.fill(talk.choose("COUNTED", draw), N=str(result), are=are)
        if isinstance(plan, Value):
            return self._value(plan, result, draw)
        labels = self._labels(result)
        if isinstance(plan, Compare):
            frame = talk.choose("WINS" if labels else "TIE", draw)
            return talk.fill(frame, X=labels[0] if labels else "")
        return talk.names(labels, self.grammar.noun(plan), draw)

    def done(self, edit: Edit, draw: Draw) -> str:
        """Confirm that something was saved."""
        name = self.talk.quoted(getattr(edit, "name", ""))
        return self.talk.fill(self.talk.choose("DONE", draw), name=name)

    def refusal(self, plan: Plan, lacking: Plan, draw: Draw) -> str:
        """Say that no tool gives what ``lacking`` needs, so that the question has no answer."""
        frame = self.talk.choose("REFUSAL", draw)
        return self._stated(self.talk.lacking(frame, lacking, draw))

    def partial(self, plan: Plan, known: SetPlan, result: Result, lacking: Plan, draw: Draw) -> str:
        """State what could be found, and that no tool gives the rest."""
        labels = self._labels(result)
        frame = self.talk.choose("PARTIAL" if labels else "PARTIAL_NONE", draw)
        found = self.grammar.thing(known, draw)[0]
        listed = self.talk.listed(labels) if labels else ""
        return self._stated(self.talk.lacking(frame, lacking, draw, K=found, L=listed))

    def clarify(
        self, plan: Plan, draw: Draw, *, name: str = "", candidates: Sequence[int] = ()
    ) -> str:
        """Ask which entity is meant: one was not named, or several bear ``name``."""
        if not candidates:
            return self.talk.which(anchors(plan)[0], draw)
        labels = [self._described(entity) for entity in candidates]
        word = "还是" if self.lang == "zh" else " or "
        options = word.join(labels)
        frame = self.talk.choose("AMBIGUOUS", draw)
        quoted = self.talk.quoted(name)
        return self.talk.fill(frame, name=quoted, L=self.talk.listed(labels), O=options)

    def correction(self, wrong: str, right: str, draw: Draw) -> str:
        """Say that a name was not found and which one is tried."""
        frame = self.talk.choose("CORRECTION", draw)
        return self.talk.fill(frame, Y=self.talk.quoted(wrong), X=self.talk.quoted(right))

    def retry(self, trouble: Trouble, draw: Draw) -> str:
        """Say that a call failed and is made again."""
        return str(draw.choose(self.talk.page.RETRY[trouble]))

    def thought(self, plan: Plan, draw: Draw) -> str:
        """Say what is looked up, before the first call."""
        if depth(plan) > 2:
            return str(self.talk.choose("THOUGHT_STEPS", draw))
        frame = self.talk.choose("THOUGHT", draw)
        return self._stated(self.talk.fill(frame, F=self.grammar.thing(plan, draw)[0]))

    def system_prompt(self, draw: Draw) -> str:
        """Write a system prompt."""
        return self.talk.system_prompt(draw)

    def tool_description(self, op: Op, draw: Draw) -> str:
        """Describe a tool."""
        return self.talk.tool_description(op, draw)

    def _value(self, plan: Value, result: Result, draw: Draw) -> str:
        name, unit = self.grammar.attribute(plan.attribute)
        of = self.grammar.thing(plan.source, draw)[0]
        if result is None or not isinstance(result, str | float | int):
            text = self.talk.fill(self.talk.choose("NO_VALUE", draw), attribute=name, X=of)
            return self._stated(text)
        value = number_text(result if isinstance(result, str) else float(result))
        if unit:
            value += unit if self.lang == "zh" else f" {unit}"
        frame = self.talk.choose("VALUED", draw)
        return self._stated(self.talk.fill(frame, attribute=name, X=of, V=value))

    def _recalled(self, edit: Recall, result: Result, draw: Draw) -> str:
        labels = self._labels(result)
        if edit.entity < 0:
            count = 1 if not labels and not hasattr(result, "tolist") else len(labels)
            frame = self.talk.choose("RECALLED", draw)
            return self.talk.fill(frame, N=str(count), were="was" if count == 1 else "were")
        label = self.graph.labels[edit.entity]
        frame = self.talk.choose("YES" if label in labels else "NO", draw)
        return self.talk.fill(frame, X=label)

    def _labels(self, result: Result) -> list[str]:
        if result is None or isinstance(result, str | int | float):
            return []
        return [self.graph.labels[entity] for entity in result.tolist()]

    def _described(self, entity: int) -> str:
        label, described = self.graph.labels[entity], self.graph.descriptions[entity]
        if not described:
            return label
        return f"{label}（{described}）" if self.lang == "zh" else f"{label} ({described})"

    def _stated(self, marked: str) -> str:
        return self._said(marked, Draw(0), "assistant").text

    def _said(
        self,
        marked: str,
        draw: Draw,
        style: str,
        noise: tuple[str, ...] = (),
        names: Mapping[int, str] | None = None,
    ) -> Utterance:
        quoting = _QUOTING[draw.below(len(_QUOTING))]
        told = names or {}

        def name(entity: int) -> str:
            return told.get(entity) or mention(self.graph.labels[entity], quoting, self.lang)

        return utterance(marked, name, style, noise)

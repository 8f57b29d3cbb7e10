"""Chinese questions for plans: noun phrases whose scope brackets show, and frames around them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from transforms.synthesis.draw import Draw
from transforms.synthesis.language import chinese_frames as frames
from transforms.synthesis.language.chinese_lexicon import ChineseLexicon, ChineseWay
from transforms.synthesis.language.chinese_words import GENERAL, is_person
from transforms.synthesis.language.steps import sets_to_tell
from transforms.synthesis.language.surface import entity_mark, value_mark
from transforms.synthesis.language.words import ANY, SOURCE, Noun
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
    anchors,
)

_TOTALS = tuple(accumulate(frames.WEIGHTS))
_NUMBERS = "一二三四五六七八"


@dataclass(frozen=True, slots=True)
class ChinesePhrase:
    """A noun phrase for a set: its text, the noun of its members, whether it has one at most."""

    text: str
    noun: Noun
    single: bool
    depth: int


Known = Mapping[int, ChinesePhrase]


class ChineseQuestions:
    """Asks plans in Chinese; texts hold marks (see surface)."""

    def __init__(self, lexicon: ChineseLexicon) -> None:
        self.lexicon = lexicon

    def style(self, draw: Draw) -> str:
        """Draw the style of a frame."""
        place = draw.below(_TOTALS[-1])
        return next(s for s, total in zip(frames.STYLES, _TOTALS, strict=True) if place < total)

    def phrase(self, plan: SetPlan, draw: Draw, known: Known) -> ChinesePhrase:
        """Return a noun phrase for a set."""
        if id(plan) in known:
            return known[id(plan)]
        match plan:
            case Anchor(entity):
                return ChinesePhrase(
                    entity_mark(entity), self.lexicon.noun_of_entity(entity), True, 0
                )
            case Project():
                return self._project(plan, draw, known)
            case Intersect(parts) | Unite(parts):
                both = isinstance(plan, Intersect)
                return self._joined(parts, both, draw, known)
            case Subtract(keep, remove):
                a, c = self.phrase(keep, draw, known), self.phrase(remove, draw, known)
                text = f"属于（{a.text}）但不属于（{c.text}）的{a.noun.single}"
                return ChinesePhrase(text, a.noun, False, 1 + max(a.depth, c.depth))
            case Filter():
                source = self.phrase(plan.source, draw, known)
                text = f"{source.text}中{self._condition(plan)}的{source.noun.single}"
                return ChinesePhrase(text, source.noun, source.single, source.depth + 1)
            case Top():
                source = self.phrase(plan.source, draw, known)
                name, noun = self.lexicon.attributes[plan.attribute].name, source.noun
                count = f"{value_mark(plan.k) if plan.k > 1 else '那'}{noun.plural}"
                text = f"{source.text}中{name}{self._best(plan, draw)}的{count}{noun.single}"
                return ChinesePhrase(text, noun, plan.k == 1, source.depth + 1)

    def _project(self, plan: Project, draw: Draw, known: Known) -> ChinesePhrase:
        way = self.lexicon.way(plan.relation, plan.inverse)
        return self.with_source(way, self.phrase(plan.source, draw, known), draw)

    def with_source(self, way: ChineseWay, source: ChinesePhrase, draw: Draw) -> ChinesePhrase:
        """Return a noun phrase for what a way gives for a source."""
        options = [(True, text) for text in way.phrases] + [
            (False, text) for text in way.predicates
        ]
        whole, text = draw.choose(options)
        text = _fill(text, source)
        if not whole:
            text = f"{text}的{way.head.single}"
        return ChinesePhrase(text, way.head, way.single and source.single, source.depth + 1)

    def predicate(self, plan: SetPlan, draw: Draw) -> str:
        """Return what can be said of the members of a set whose source is named, or ""."""
        if not isinstance(plan, Project) or not isinstance(plan.source, Anchor):
            return ""
        way = self.lexicon.way(plan.relation, plan.inverse)
        if not way.predicates:
            return ""
        return _fill(draw.choose(way.predicates), self.phrase(plan.source, draw, {}))

    def _joined(
        self, parts: tuple[SetPlan, ...], both: bool, draw: Draw, known: Known
    ) -> ChinesePhrase:
        told = [self.phrase(part, draw, known) for part in parts]
        noun = common([one.noun for one in told])
        depth = 1 + max(one.depth for one in told)
        predicates = (
            []
            if any(id(part) in known for part in parts)
            else [self.predicate(p, draw) for p in parts]
        )
        if predicates and all(predicates) and noun is not GENERAL and draw.chance(0.7):
            word = "并且" if both else "或者"
            return ChinesePhrase(f"{word.join(predicates)}的{noun.single}", noun, False, depth)
        texts = [one.text for one in told]
        return ChinesePhrase(f"{_belonging(texts, both)}的{noun.single}", noun, False, depth)

    def _condition(self, plan: Filter) -> str:
        attribute = self.lexicon.attributes[plan.attribute]
        value = value_mark(plan.value) + attribute.unit
        if attribute.kind == "text":
            return f"{attribute.name}为“{value}”"
        if plan.op == "is":
            return f"{attribute.name}等于{value}"
        if attribute.kind == "date":
            return f"{attribute.name}不{'早' if plan.op == 'min' else '晚'}于{value}"
        return f"{attribute.name}不{'低' if plan.op == 'min' else '高'}于{value}"

    def _best(self, plan: Top, draw: Draw) -> str:
        kind = self.lexicon.attributes[plan.attribute].kind
        if kind == "text":
            return "按字符顺序最靠后" if plan.largest else "按字符顺序最靠前"
        if kind == "date":
            return "最晚" if plan.largest else "最早"
        return draw.choose(("最高", "最大")) if plan.largest else draw.choose(("最低", "最小"))

    def core(self, plan: Plan, draw: Draw, style: str) -> str:
        """Return the question without what a person says around it."""
        known: dict[int, ChinesePhrase] = {}
        wanted = sets_to_tell(plan, draw.chance(0.1))
        told = []
        for number, inner in enumerate(wanted):
            phrase = self.phrase(inner, draw, known)
            letter = "ABCDEFGH"[number] if len(wanted) > 1 else ""
            told.append((letter, phrase.text))
            these = f"这{phrase.noun.plural}" if phrase.single else "这些"
            name = (
                f"{letter}组里的{phrase.noun.single}" if letter else f"{these}{phrase.noun.single}"
            )
            known[id(inner)] = ChinesePhrase(name, phrase.noun, phrase.single and not letter, 0)
        if not told:
            return self._ask(plan, draw, style, known)
        style = "imperative" if style in ("keyword", "terse") else style
        if len(told) == 1 and draw.chance(0.75):
            return draw.choose(_fitting(frames.START, told[0][1])).replace(
                "{F}", told[0][1]
            ) + self._ask(plan, draw, style, known)
        lines = [draw.choose(frames.STEPS)]
        for number, (letter, text) in enumerate(told):
            frame = draw.choose(frames.GROUP) if letter else "找出{F}。"
            lines.append(
                f"第{_NUMBERS[number]}步：{frame.replace('{F}', text).replace('{L}', letter)}"
            )
        lines.append(f"第{_NUMBERS[len(told)]}步：{self._ask(plan, draw, style, known)}")
        return "\n".join(lines)

    def _ask(self, plan: Plan, draw: Draw, style: str, known: Known) -> str:
        match plan:
            case Count(source):
                phrase = self.phrase(source, draw, known)
                return _framed(draw.choose(frames.COUNT[style]), phrase)
            case Value():
                return self._value(plan, draw, known)
            case Compare():
                return self._compare(plan, draw)
            case Intersect(parts) | Unite(parts) if draw.chance(0.55):
                told = [self.phrase(part, draw, known) for part in parts]
                return self._groups(told, isinstance(plan, Intersect), draw)
            case Subtract() if draw.chance(0.6):
                kept = self.phrase(plan.keep, draw, known)
                gone = self.phrase(plan.remove, draw, known)
                frame = draw.choose(frames.BUT).replace("{A}", kept.text)
                return frame.replace("{C}", gone.text).replace("{H}", kept.noun.single)
            case Filter() if draw.chance(0.5):
                inner = self.phrase(plan.source, draw, known)
                frame = draw.choose(frames.KEEP).replace("{A}", inner.text)
                frame = frame.replace("{whose}", self._condition(plan))
                return frame.replace("{H}", inner.noun.single)
            case Top() if draw.chance(0.6):
                return self._rank(plan, draw, known)
            case Project() if style in ("interrogative", "terse") and draw.chance(0.3):
                way = self.lexicon.way(plan.relation, plan.inverse)
                if way.questions:
                    return _fill(draw.choose(way.questions), self.phrase(plan.source, draw, known))
        phrase = self.phrase(plan, draw, known)
        options = frames.PHRASE[style]
        if phrase.single and style in frames.SINGLE:
            options = frames.SINGLE[style]
        elif phrase.single:
            options = tuple(frame for frame in options if "哪些" not in frame)
        return _framed(draw.choose(_fitting(options, phrase.text)), phrase)

    def _groups(self, told: list[ChinesePhrase], both: bool, draw: Draw) -> str:
        texts = [one.text for one in told]
        frame = draw.choose(frames.BOTH if both else frames.EITHER)
        groups = "；".join(f"（{n}）{text}" for n, text in zip(_NUMBERS, texts, strict=False))
        belonging = _belonging(texts, both)
        frame = frame.replace("{both}", belonging).replace("{either}", belonging)
        noun = common([one.noun for one in told])
        return frame.replace("{groups}", groups).replace("{H}", noun.single)

    def _rank(self, plan: Top, draw: Draw, known: Known) -> str:
        source = self.phrase(plan.source, draw, known)
        name = self.lexicon.attributes[plan.attribute].name
        frame = draw.choose(frames.RANK).replace("{A}", source.text).replace("{attribute}", name)
        if plan.k == 1:
            frame = frame.replace("是哪些", f"是哪{source.noun.plural}").replace("前{k}", "{k}")
            frame = frame.replace("{k}", "一")
        frame = frame.replace("{best}", self._best(plan, draw)).replace("{k}", value_mark(plan.k))
        return frame.replace("{m}", source.noun.plural).replace("{H}", source.noun.single)

    def _value(self, plan: Value, draw: Draw, known: Known) -> str:
        source = self.phrase(plan.source, draw, known)
        attribute = self.lexicon.attributes[plan.attribute]
        what = {"number": "多少", "date": "什么时候"}.get(attribute.kind, "什么")
        if attribute.kind == "text" and is_person(attribute.name):
            what = "谁"
        frame = draw.choose(frames.VALUE).replace("{S}", source.text)
        return frame.replace("{attribute}", attribute.name).replace("{what}", what)

    def _compare(self, plan: Compare, draw: Draw) -> str:
        left, right = plan.left, plan.right
        x, y = entity_mark(anchors(left)[0]), entity_mark(anchors(right)[0])
        if draw.chance(0.5):
            x, y, left, right = y, x, right, left
        if isinstance(left, Value):
            attribute = self.lexicon.attributes[left.attribute]
            pairs = {"date": (("晚", "早"),), "text": (("靠后", "靠前"),)}
            pair = draw.choose(pairs.get(attribute.kind, (("高", "低"), ("大", "小"))))
            frame = draw.choose(frames.COMPARE_VALUE).replace("{attribute}", attribute.name)
            if attribute.kind == "text":
                frame = frame.replace("更{more}", "按字符顺序更{more}")
            return (
                frame.replace("{more}", pair[0 if plan.largest else 1])
                .replace("{X}", x)
                .replace("{Y}", y)
            )
        key = draw.bits()
        texts = [self.phrase(side.source, Draw(key), {}).text for side in (left, right)]
        frame = (
            draw.choose(frames.COMPARE_COUNT).replace("{FX}", texts[0]).replace("{FY}", texts[1])
        )
        return (
            frame.replace("{more}", "多" if plan.largest else "少")
            .replace("{X}", x)
            .replace("{Y}", y)
        )

    def dressed(self, core: str, draw: Draw, style: str) -> tuple[str, tuple[str, ...]]:
        """Add what a person says around a question, and noise; told which."""
        text, noise = core, []
        if style != "keyword":
            if draw.chance(0.55):
                text = draw.choose(frames.OPENERS) + text
                noise.append("opener")
            if draw.chance(0.35):
                stop = "" if text[-1] in "？。！" else "。"
                text = (
                    f"{text}{stop}{chr(10) if chr(10) in text else ''}{draw.choose(frames.CLOSERS)}"
                )
                noise.append("closer")
        if text[-1] in "。？" and draw.chance(0.08):
            text = text[:-1]
            noise.append("no stop")
        return text, tuple(noise)


def _fill(text: str, source: ChinesePhrase) -> str:
    any_of = source.text
    if source.depth:
        any_of = f"（{any_of}）"
    if not source.single:
        any_of = f"{any_of}中的任意一{source.noun.plural}"
    return text.replace(ANY, any_of).replace(SOURCE, source.text)


def _fitting(options: tuple[str, ...], text: str) -> tuple[str, ...]:
    """Leave out frames that would stack two prepositions: "把把"."""
    if text[0] not in "把以从":
        return options
    return tuple(one for one in options if not re.search("[把以从]{F}", one))


def _framed(frame: str, phrase: ChinesePhrase) -> str:
    who = "谁" if phrase.noun.animate else "什么"
    frame = frame.replace("{F}", phrase.text).replace("{who}", who)
    return frame.replace("{m}", phrase.noun.plural).replace("{H}", phrase.noun.single)


def _belonging(texts: list[str], both: bool) -> str:
    if both and len(texts) == 2:
        return f"既属于（{texts[0]}）又属于（{texts[1]}）"
    if both:
        return "同时属于" + "、".join(f"（{text}）" for text in texts)
    return "属于" + "或者".join(f"（{text}）" for text in texts)


def common(nouns: list[Noun]) -> Noun:
    """Return the noun that some sets share, else a general one."""
    first = nouns[0]
    return first if all(noun.single == first.single for noun in nouns) else GENERAL

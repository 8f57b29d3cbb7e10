"""English questions for plans: a frame around noun phrases, in one sentence or in steps."""

from collections.abc import Mapping
from itertools import accumulate

from transforms.synthesis.draw import Draw
from transforms.synthesis.language import english_frames as frames
from transforms.synthesis.language.english_lexicon import EnglishLexicon
from transforms.synthesis.language.english_phrase import Phrase, among, fill
from transforms.synthesis.language.english_phrases import EnglishPhrases
from transforms.synthesis.language.steps import sets_to_tell
from transforms.synthesis.language.surface import (
    entity_mark,
    lower_first,
    on_words,
    typo,
    upper_first,
    value_mark,
)
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

_LETTERS = "ABCDEFGH"
_TOTALS = tuple(accumulate(frames.WEIGHTS))

Known = Mapping[int, Phrase]


class EnglishQuestions:
    """Asks plans in English; texts hold marks (see surface)."""

    def __init__(self, lexicon: EnglishLexicon) -> None:
        self.lexicon = lexicon
        self.phrases = EnglishPhrases(lexicon)

    def style(self, draw: Draw) -> str:
        """Draw the style of a frame."""
        place = draw.below(_TOTALS[-1])
        return next(s for s, total in zip(frames.STYLES, _TOTALS, strict=True) if place < total)

    def core(self, plan: Plan, draw: Draw, style: str) -> str:
        """Return the question without what a person says around it."""
        told, known = self._told(plan, draw)
        if not told:
            return self._ask(plan, draw, style, known)
        if len(told) == 1 and not told[0][0] and draw.chance(0.75):
            start = draw.choose(frames.START).replace("{F}", told[0][1])
            return f"{start} {upper_first(self._ask(plan, draw, _full(style), known))}"
        lines = [draw.choose(frames.STEPS)]
        for number, (letter, text) in enumerate(told, 1):
            frame = draw.choose(frames.GROUP) if letter else "Find {F}."
            lines.append(f"{number}. {frame.replace('{F}', text).replace('{L}', letter)}")
        last = upper_first(self._ask(plan, draw, _full(style), known))
        lines.append(f"{len(told) + 1}. {last}")
        return "\n".join(lines)

    def _told(self, plan: Plan, draw: Draw) -> tuple[list[tuple[str, str]], dict[int, Phrase]]:
        """Name inner sets until what is left nests no deeper than two: (letter, phrase) each."""
        known: dict[int, Phrase] = {}
        wanted = sets_to_tell(plan, draw.chance(0.1), self._stranding)
        told = []
        for number, inner in enumerate(wanted):
            phrase = self.phrases.phrase(inner, draw, named=known)
            letter = _LETTERS[number] if len(wanted) > 1 else ""
            told.append((letter, phrase.text))
            noun = phrase.noun
            if letter:
                text = f"the {noun.plural} in group {letter}"
                known[id(inner)] = Phrase(text, text[4:], noun, not noun.mass, 0)
            else:
                demonstrative = "those" if phrase.plural else "that"
                text = f"{demonstrative} {noun.of(phrase.plural)}"
                known[id(inner)] = Phrase(text, "", noun, phrase.plural, 0)
        return told, known

    def _stranding(self, node: Plan) -> bool:
        """Whether a verb or preposition must follow the source, which must then be short."""
        if not isinstance(node, Project):
            return False
        way = self.lexicon.way(node.relation, node.inverse)
        return not any(form.last for form in (*way.phrases, *way.clauses))

    def _ask(self, plan: Plan, draw: Draw, style: str, known: Known) -> str:
        match plan:
            case Count(source):
                return self._count(source, draw, style, known)
            case Value():
                return self._value(plan, draw, known)
            case Compare():
                return self._compare(plan, draw)
            case Intersect() | Unite() if draw.chance(0.55):
                return self._joined(plan, draw, style, known)
            case Subtract() if draw.chance(0.6):
                return self._but(plan, draw, style, known)
            case Filter() if draw.chance(0.5):
                return self._keep(plan, draw, known)
            case Top() if draw.chance(0.6):
                return self._rank(plan, draw, known)
            case Project() if draw.chance(0.3) and style in ("interrogative", "terse"):
                asked = self._direct(plan, draw, known)
                if asked:
                    return asked
        assert_set: SetPlan = plan
        return self._phrase(assert_set, draw, style, known)

    def _phrase(self, plan: SetPlan, draw: Draw, style: str, known: Known) -> str:
        phrase = self.phrases.phrase(plan, draw, named=known, bare=style == "keyword")
        options = frames.PHRASE[style]
        if phrase.depth <= 1:
            options += frames.LIGHT.get(style, ()) * 2
        if phrase.plural:
            options += frames.MANY.get(style, ())
        return self.framed(draw.choose(options), phrase)

    def framed(self, frame: str, phrase: Phrase) -> str:
        """Put a phrase into a frame."""
        who = "who" if phrase.noun.animate else "what"
        return upper_first(
            frame.replace("{F}", phrase.text)
            .replace("{B}", phrase.bare or phrase.text)
            .replace("{be}", "are" if phrase.plural else "is")
            .replace("{W}", upper_first(who))
            .replace("{w}", who)
            .replace("{H}", phrase.noun.plural)
        )

    def _direct(self, plan: Project, draw: Draw, known: Known) -> str:
        """Ask with the verb of the relation: "Who directed X?"."""
        way = self.lexicon.way(plan.relation, plan.inverse)
        source = self.phrases.phrase(plan.source, draw, named=known)
        heavy = source.depth > 0 or source.plural
        many = not (way.single and not source.plural) and not way.head.mass
        asked = [form for form in way.questions if not heavy or form.texts[0][-2:-1] > "\x02"]
        if heavy:
            asked = [form for form in way.questions if form.texts[0][-2] in "\x01\x03\x04"]
        told = [form for form in way.predicates if form.last or not heavy]
        count = len(asked) + len(told)
        if not count:
            return ""
        place = draw.below(count)
        if place < len(asked):
            return fill(asked[place].of(many, source.plural), source, draw)
        form = told[place - len(asked)]
        head = way.head.of(many)
        return f"Which {head} {fill(form.of(many, source.plural), source, draw)}?"

    def _count(self, source: SetPlan, draw: Draw, style: str, known: Known) -> str:
        phrase = self.phrases.phrase(source, draw, named=known, bare=True, plural=True)
        if not phrase.plural or not phrase.bare:
            if not phrase.plural:
                return f"How many entries are there for {phrase.text}?"
            frame = draw.choose(
                ("Count {F}.", "How many are {F}?", "What is the size of the group of {F}?")
            )
            return frame.replace("{F}", phrase.text)
        options = frames.COUNT[style]
        if phrase.depth > 1:
            options = tuple(
                o for o in options if "{B} can" not in o and "{B} do " not in o and "there" not in o
            )
            options = options or ("Count {F}.",)
        return self.framed(draw.choose(options), phrase)

    def _value(self, plan: Value, draw: Draw, known: Known) -> str:
        source = self.phrases.phrase(plan.source, draw, named=known)
        name = self.lexicon.attributes[plan.attribute].name
        frame = draw.choose(frames.VALUE)
        return upper_first(frame.replace("{attribute}", name).replace("{S}", source.text))

    def _compare(self, plan: Compare, draw: Draw) -> str:
        left, right = plan.left, plan.right
        x, y = entity_mark(anchors(left)[0]), entity_mark(anchors(right)[0])
        if draw.chance(0.5):
            x, y, left, right = y, x, right, left
        if isinstance(left, Value):
            attribute = self.lexicon.attributes[left.attribute]
            pairs = {
                "date": (("later", "earlier"),),
                "text": (("alphabetically later", "alphabetically earlier"),),
            }.get(attribute.kind, (("higher", "lower"), ("larger", "smaller")))
            more = draw.choose(pairs)[0 if plan.largest else 1]
            frame = draw.choose(frames.COMPARE_VALUE).replace("{attribute}", attribute.name)
            return frame.replace("{more}", more).replace("{X}", x).replace("{Y}", y)
        more, size = ("more", "larger") if plan.largest else ("fewer", "smaller")
        inner = left.source
        if isinstance(inner, Project) and draw.chance(0.4):
            way = self.lexicon.way(inner.relation, inner.inverse)
            plain = (
                way.own and way.phrases and not way.head.mass and '"' not in way.phrases[0].texts[0]
            )
            if plain and " of \x01" in way.phrases[0].texts[0]:
                frame = draw.choose(frames.COMPARE_OWN).replace("{H}", way.head.plural)
                return frame.replace("{more}", more).replace("{X}", x).replace("{Y}", y)
        key = draw.bits()
        sides = []
        for side in (left, right):
            sides.append(self.phrases.phrase(side.source, Draw(key), bare=True, plural=True))
        frame = draw.choose(frames.COMPARE_COUNT)
        if not all(side.bare and side.plural for side in sides):
            frame = frames.COMPARE_COUNT[2]
        for name, told in (("X", sides[0]), ("Y", sides[1])):
            frame = frame.replace(f"{{B{name}}}", told.bare).replace(f"{{F{name}}}", told.text)
        return (
            frame.replace("{more}", more)
            .replace("{size}", size)
            .replace("{X}", x)
            .replace("{Y}", y)
        )

    def _joined(self, plan: Intersect | Unite, draw: Draw, style: str, known: Known) -> str:
        both = isinstance(plan, Intersect)
        fresh = not any(id(part) in known for part in plan.parts)
        if both and fresh and draw.chance(0.3):
            told = self._predicates(plan, draw)
            if told:
                return told
        parts = [
            self.phrases.phrase(part, draw, named=known, plural=True, bare=True)
            for part in plan.parts
        ]
        if style == "keyword" and all(part.bare and part.depth <= 1 for part in parts):
            return (" AND " if both else " OR ").join(part.bare for part in parts)
        noun = self.phrases.common_noun([part.noun for part in parts])
        texts = [part.text for part in parts]
        options = frames.EITHER if not both else frames.BOTH if len(parts) == 2 else frames.ALL
        frame = draw.choose(options)
        if both and not all(part.plural for part in parts):
            frame = frames.ALL[draw.below(3)] if len(parts) > 2 else frames.BOTH[2 + draw.below(3)]
        groups = "; ".join(f"({letter}) {text}" for letter, text in zip("abc", texts, strict=False))
        frame = frame.replace("{among}", among(texts, both, draw)).replace("{groups}", groups)
        frame = _ones(frame, texts[0])
        return frame.replace("{A}", texts[0]).replace("{C}", texts[1]).replace("{H}", noun.plural)

    def _predicates(self, plan: Intersect | Unite, draw: Draw) -> str:
        """Ask "Which films were directed by X and also have Y as a genre?"."""
        told, heads = [], []
        for part in plan.parts:
            if not isinstance(part, Project) or not isinstance(part.source, Anchor):
                return ""
            way = self.lexicon.way(part.relation, part.inverse)
            if not way.predicates:
                return ""
            source = self.phrases.phrase(part.source, draw)
            forms = [
                form for form in way.predicates if form.texts[0][-3:-1] != '" '
            ] or way.predicates
            told.append(fill(draw.choose(forms).of(True, False), source, draw))
            heads.append(way.head)
        if len({head.single for head in heads}) > 1 or heads[0].mass:
            return ""
        middle = " and ".join([*told[:-1], f"also {told[-1]}"])
        return f"Which {heads[0].plural} {middle}?"

    def _but(self, plan: Subtract, draw: Draw, style: str, known: Known) -> str:
        keep = self.phrases.phrase(plan.keep, draw, named=known, plural=True, bare=True)
        remove = self.phrases.phrase(plan.remove, draw, named=known, plural=True, bare=True)
        if style == "keyword" and keep.bare and remove.bare and keep.depth + remove.depth <= 2:
            return f"{keep.bare} NOT {remove.bare}"
        options = frames.BUT if keep.plural else frames.BUT[2:4]
        frame = (
            _ones(draw.choose(options), keep.text)
            .replace("{A}", keep.text)
            .replace("{C}", remove.text)
        )
        return frame.replace("{H}", keep.noun.plural)

    def _keep(self, plan: Filter, draw: Draw, known: Known) -> str:
        source = self.phrases.phrase(plan.source, draw, named=known, plural=True)
        if not source.plural:
            return self._phrase(plan, draw, "imperative", known)
        whose, having = self.phrases.condition(plan, draw)
        frame = _ones(draw.choose(frames.KEEP), source.text)
        if frame.startswith("Which of {A} have"):
            having = having.removeprefix("with ")
        return (
            frame.replace("{A}", source.text).replace("{whose}", whose).replace("{having}", having)
        )

    def _rank(self, plan: Top, draw: Draw, known: Known) -> str:
        source = self.phrases.phrase(plan.source, draw, named=known, plural=True)
        if not source.plural:
            return self._phrase(plan, draw, "imperative", known)
        name = self.lexicon.attributes[plan.attribute].name
        best = self.phrases.extreme(plan.attribute, plan.largest, draw)
        frame = draw.choose(frames.RANK if plan.k > 1 else frames.RANK_ONE)
        frame = frame.replace("{A}", source.text).replace("{best}", best)
        return frame.replace("{attribute}", name).replace("{k}", value_mark(plan.k))

    def dressed(self, core: str, draw: Draw, style: str) -> tuple[str, tuple[str, ...]]:
        """Add what a person says around a question, and noise; told which."""
        text, noise = core, []
        plain = style != "keyword"
        if plain and draw.chance(0.55):
            opener = draw.choose(frames.OPENERS)
            text = f"{opener} {lower_first(text) if opener[-1] == ',' else text}"
            noise.append("opener")
        if plain and draw.chance(0.35):
            text = f"{text}{chr(10) if chr(10) in text else ' '}{draw.choose(frames.CLOSERS)}"
            noise.append("closer")
        if draw.chance(0.05):
            typed = typo(text, draw, frames.TYPO_WORDS)
            if typed != text:
                text = typed
                noise.append("typo")
        if style == "keyword" or draw.chance(0.06):
            text = on_words(text, _lower)
            noise.append("lower")
        if text[-1] in ".?" and draw.chance(0.05):
            text = text[:-1]
            noise.append("no stop")
        return text, tuple(noise)


def _ones(frame: str, text: str) -> str:
    """Avoid "those of those films"."""
    return frame.replace("those of", "the ones among") if text.startswith("those ") else frame


def _lower(text: str) -> str:
    return "".join(part if part in _KEPT else part.lower() for part in _split_words(text))


_KEPT = frozenset((*"ABCDEFGH", "AND", "OR", "NOT", "DVD", "GDP", "GNI", "PPP", "TV", "ID", "URL"))


def _split_words(text: str) -> list[str]:
    out, word = [], ""
    for char in text:
        if char.isalnum():
            word += char
            continue
        if word:
            out.append(word)
            word = ""
        out.append(char)
    return [*out, word] if word else out


def _full(style: str) -> str:
    return "imperative" if style in ("keyword", "terse") else style

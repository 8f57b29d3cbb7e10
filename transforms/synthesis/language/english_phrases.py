"""English noun phrases for plans: what a set is, said so that only this set is meant.

Every conjunction either joins clauses whose sources are named entities ("films that were directed
by X and whose genre is Y"), or repeats "among", so that its scope cannot be mistaken. What would nest
deeper than two sets is parted into sentences by the caller, which passes names for inner sets.
"""

from collections.abc import Mapping, Sequence

from transforms.synthesis.draw import Draw
from transforms.synthesis.language import english_words as words
from transforms.synthesis.language.english_lexicon import EnglishLexicon
from transforms.synthesis.language.english_phrase import (
    RELATIVE,
    Phrase,
    after_quote,
    among,
    fill,
    listed,
)
from transforms.synthesis.language.surface import entity_mark, value_mark
from transforms.synthesis.language.words import ANY, POSSESSIVE, Form, Noun, Way
from transforms.synthesis.plan import (
    Anchor,
    Filter,
    Intersect,
    Project,
    SetPlan,
    Subtract,
    Top,
    Unite,
)


class EnglishPhrases:
    """Says plans as noun phrases."""

    def __init__(self, lexicon: EnglishLexicon, possessive: frozenset[int] | None = None) -> None:
        self.lexicon = lexicon

    def phrase(
        self,
        plan: SetPlan,
        draw: Draw,
        *,
        named: Mapping[int, Phrase] | None = None,
        bare: bool = False,
        plural: bool | None = None,
    ) -> Phrase:
        """Return a noun phrase for a set.

        Args:
            plan: the set.
            draw: choices.
            named: phrases of inner plans that were told before, by the ``id`` of their object.
            bare: the phrase must have a form without the article.
            plural: the number, where it is not left to the plan.
        """
        known = named or {}
        if id(plan) in known:
            return known[id(plan)]
        match plan:
            case Anchor(entity):
                noun = self.lexicon.noun_of_entity(entity)
                mark = entity_mark(entity)
                return Phrase(mark, mark, noun, False, 0)
            case Project():
                return self._project(plan, draw, known, bare, plural)
            case Intersect() | Unite():
                return self._joined(plan, draw, known)
            case Subtract():
                return self._subtract(plan, draw, known)
            case Filter():
                return self._filter(plan, draw, known)
            case Top():
                return self._top(plan, draw, known)

    def _project(
        self,
        plan: Project,
        draw: Draw,
        known: Mapping[int, Phrase],
        bare: bool,
        plural: bool | None,
    ) -> Phrase:
        way = self.lexicon.way(plan.relation, plan.inverse)
        source = self.phrase(plan.source, draw, named=known)
        return self.with_source(way, source, draw, bare=bare, plural=plural)

    def with_source(
        self,
        way: Way,
        source: Phrase,
        draw: Draw,
        *,
        bare: bool = False,
        plural: bool | None = None,
    ) -> Phrase:
        """Return a noun phrase for what a way gives for a source."""
        many = not (way.single and not source.plural) if plural is None else plural
        if way.head.mass:
            many = False
        options = [(True, form) for form in way.phrases] + [(False, form) for form in way.clauses]
        chosen = self._usable(options, source, bare)
        own, form = draw.choose(chosen)
        text = fill(form.of(many, source.plural), source, draw)
        if form.texts[0][0] == POSSESSIVE:
            return Phrase(text, "", way.head, many, source.depth + 1)
        if not own:
            text = f"{way.head.of(many)} {text}"
        return Phrase(f"the {text}", text, way.head, many, source.depth + 1)

    def _usable(
        self, options: Sequence[tuple[bool, Form]], source: Phrase, bare: bool
    ) -> Sequence[tuple[bool, Form]]:
        if bare or source.depth or source.plural or not self.lexicon.takes_possessive(source.text):
            options = [pair for pair in options if POSSESSIVE not in pair[1].texts[0]] or options
        if not (source.depth or source.plural):
            options = [pair for pair in options if not after_quote(pair[1])] or options
        else:
            return [pair for pair in options if pair[1].last] or options
        return options

    def clause(self, plan: SetPlan, draw: Draw, *, many: bool = True) -> str | None:
        """Return a relative clause for what a plan gives, where its sources are all mentions."""
        if not isinstance(plan, Project) or not isinstance(plan.source, Anchor):
            return None
        way = self.lexicon.way(plan.relation, plan.inverse)
        chosen = [
            form
            for form in way.clauses
            if form.texts[0].startswith(RELATIVE) and not after_quote(form)
        ]
        source = self.phrase(plan.source, draw)
        if not chosen or (way.own and way.phrases):
            verb = "are" if many else "is"
            return f"that {verb} among {self.phrase(plan, draw, bare=True, plural=True).text}"
        return fill(draw.choose(chosen).of(many, False), source, draw)

    def _same_way(self, parts: Sequence[SetPlan]) -> tuple[Way, list[str]] | None:
        """Return the way and the mentions where parts differ in their named source alone."""
        mentions, ways = [], set()
        for part in parts:
            if not isinstance(part, Project) or not isinstance(part.source, Anchor):
                return None
            ways.add((part.relation, part.inverse))
            mentions.append(entity_mark(part.source.entity))
        if len(ways) != 1:
            return None
        return self.lexicon.way(*ways.pop()), mentions

    def common_noun(self, nouns: Sequence[Noun]) -> Noun:
        """Return the noun that some sets share, else a general one."""
        first = nouns[0]
        if all(noun.single == first.single for noun in nouns) and not first.mass:
            return first
        if all(noun.animate for noun in nouns):
            return Noun("person", "people", True)
        return Noun(*("entity", "entities"))

    def noun_of(self, plan: SetPlan) -> Noun:
        """Return what the members of a set are called."""
        match plan:
            case Anchor(entity):
                return self.lexicon.noun_of_entity(entity)
            case Project(_, relation, inverse):
                return self.lexicon.way(relation, inverse).head
            case Intersect(parts) | Unite(parts):
                return self.common_noun([self.noun_of(part) for part in parts])
            case Subtract(keep):
                return self.noun_of(keep)
            case Filter(source) | Top(source):
                return self.noun_of(source)

    def _joined(self, plan: Intersect | Unite, draw: Draw, known: Mapping[int, Phrase]) -> Phrase:
        both = isinstance(plan, Intersect)
        word = "and" if both else "or"
        fresh = not any(id(part) in known for part in plan.parts)
        noun = self.common_noun([self._noun_known(part, known) for part in plan.parts])
        same = self._same_way(plan.parts) if fresh else None
        if same is not None and draw.chance(0.6):
            found = self._one_verb(*same, both, draw)
            if found is not None:
                return found
        clauses = [self.clause(part, draw) for part in plan.parts] if fresh else [None]
        shared = same is not None or self._one_head(plan.parts)
        if all(clauses) and shared and draw.chance(0.7):
            told = f" {word} ".join(clause for clause in clauses if clause)
            text = f"{noun.plural} {told}"
            return Phrase(f"the {text}", text, noun, True, 2)
        parts = [self.phrase(part, draw, named=known, plural=True) for part in plan.parts]
        text = f"{noun.plural} that are {among([part.text for part in parts], both, draw)}"
        return Phrase(f"the {text}", text, noun, True, 1 + max(part.depth for part in parts))

    def _noun_known(self, plan: SetPlan, known: Mapping[int, Phrase]) -> Noun:
        return known[id(plan)].noun if id(plan) in known else self.noun_of(plan)

    def _one_head(self, parts: Sequence[SetPlan]) -> bool:
        heads = {self.noun_of(part).single for part in parts}
        return len(heads) == 1

    def _one_verb(self, way: Way, mentions: list[str], both: bool, draw: Draw) -> Phrase | None:
        """Say "films directed by both X and Y", where the source ends the clause."""
        chosen = [form for form in way.clauses if form.texts[0][-1] == ANY]
        if not chosen:
            return None
        if both:
            told = (
                f"both {mentions[0]} and {mentions[1]}"
                if len(mentions) == 2
                else listed(mentions, "and")
            )
            if len(mentions) > 2:
                told = f"all of {told}"
        else:
            told = listed(mentions, "or")
            if len(mentions) == 2 and draw.chance(0.5):
                told = f"either {told}"
        text = draw.choose(chosen).texts[2].replace(ANY, told)
        text = f"{way.head.plural} {text}"
        return Phrase(f"the {text}", text, way.head, True, 1)

    def _subtract(self, plan: Subtract, draw: Draw, known: Mapping[int, Phrase]) -> Phrase:
        keep = self.phrase(plan.keep, draw, named=known, bare=True, plural=True)
        remove = self.phrase(plan.remove, draw, named=known, plural=True)
        depth = 1 + max(keep.depth, remove.depth)
        if keep.depth == 1 and isinstance(plan.keep, Project) and keep.bare:
            clause = keep.bare.removeprefix(keep.noun.of(keep.plural)).lstrip()
            but = "that"
            if clause.startswith(RELATIVE):
                but = "but who" if clause.startswith("who ") else "but that"
            text = f"{keep.bare} {but} {'are' if keep.plural else 'is'} not among {remove.text}"
            return Phrase(f"the {text}", text, keep.noun, keep.plural, depth)
        noun = self.common_noun([keep.noun])
        text = f"{noun.plural} that are among {keep.text} but not among {remove.text}"
        return Phrase(f"the {text}", text, noun, True, depth)

    def condition(self, plan: Filter, draw: Draw) -> tuple[str, str]:
        """Return a filter as "whose height is at least 5" and as "with a height of at least 5"."""
        attribute = self.lexicon.attributes[plan.attribute]
        value = value_mark(plan.value) + (f" {attribute.unit}" if attribute.unit else "")
        if attribute.kind == "text" or plan.op == "is":
            if attribute.kind == "text":
                value = f'"{value}"'
            exactly = draw.choose(("", "exactly ")) if attribute.kind != "text" else ""
            of = f"{exactly}{value}"
            return (
                f"whose {attribute.name} is {of}",
                f"with {words.with_article(attribute.name)} of {of}",
            )
        if attribute.kind == "date":
            after = draw.choose(("on or after", "no earlier than"))
            before = draw.choose(("on or before", "no later than"))
            of = f"{after if plan.op == 'min' else before} {value}"
            return (
                f"whose {attribute.name} is {of}",
                f"with {words.with_article(attribute.name)} {of}",
            )
        least, most = draw.choose((("at least", "at most"), ("no less than", "no more than")))
        of = f"{least if plan.op == 'min' else most} {value}"
        return (
            f"whose {attribute.name} is {of}",
            f"with {words.with_article(attribute.name)} of {of}",
        )

    def _filter(self, plan: Filter, draw: Draw, known: Mapping[int, Phrase]) -> Phrase:
        source = self.phrase(plan.source, draw, named=known, bare=True, plural=True)
        whose, having = self.condition(plan, draw)
        simple = source.depth == 1 and isinstance(plan.source, Project)
        noun = self.common_noun([source.noun])
        if simple and source.bare and draw.chance(0.6):
            text = f"{source.bare} {whose}"
        else:
            text = f"{noun.plural} {having} among {source.text}"
        return Phrase(f"the {text}", text, noun, source.plural or not simple, source.depth + 1)

    def extreme(self, attribute: int, largest: bool, draw: Draw) -> str:
        """Return "highest" or the like for an attribute."""
        kind = self.lexicon.attributes[attribute].kind
        if kind == "text":
            return "alphabetically last" if largest else "alphabetically first"
        if kind == "date":
            return draw.choose(("latest", "most recent") if largest else ("earliest", "oldest"))
        return draw.choose(("highest", "largest") if largest else ("lowest", "smallest"))

    def _top(self, plan: Top, draw: Draw, known: Mapping[int, Phrase]) -> Phrase:
        source = self.phrase(plan.source, draw, named=known, plural=True)
        name = self.lexicon.attributes[plan.attribute].name
        extreme = self.extreme(plan.attribute, plan.largest, draw)
        many = plan.k > 1
        noun = self.common_noun([source.noun])
        count = f"{value_mark(plan.k)} " if many else ""
        text = f"{count}{noun.of(many)} with the {extreme} {name} among {source.text}"
        return Phrase(f"the {text}", text, noun, many, source.depth + 1)

"""Parts of English sentences around questions: noun phrases for plans, relations and attributes."""

from transforms.synthesis.draw import Draw
from transforms.synthesis.language.english_phrase import Phrase, fill
from transforms.synthesis.language.english_questions import EnglishQuestions
from transforms.synthesis.language.steps import sets_to_tell
from transforms.synthesis.language.words import Noun
from transforms.synthesis.plan import (
    Anchor,
    Compare,
    Count,
    Plan,
    Project,
    SetPlan,
    Value,
    depth,
)


class EnglishSpeech(EnglishQuestions):
    """What the sentences around questions need of the grammar; a ``talk.Speech``."""

    def thing(self, plan: Plan, draw: Draw) -> tuple[str, bool]:
        """Return a noun phrase for what a plan gives, and whether it is a plural."""
        if isinstance(plan, Count):
            inner = self._shallow(plan.source, draw, bare=True, plural=True)
            return f"the number of {inner.bare or inner.text}", False
        if isinstance(plan, Value):
            name = self.lexicon.attributes[plan.attribute].name
            return f"the {name} of {self._shallow(plan.source, draw).text}", False
        if isinstance(plan, Compare):
            sides = [self.thing(side, draw)[0] for side in (plan.left, plan.right)]
            return f"{sides[0]} and {sides[1]}", True
        phrase = self._shallow(plan, draw)
        return phrase.text, phrase.plural

    def _shallow(
        self, plan: SetPlan, draw: Draw, *, bare: bool = False, plural: bool | None = None
    ) -> Phrase:
        """Return a phrase that does not nest deeply: what lies further inside is "those films"."""
        known: dict[int, Phrase] = {}
        if depth(plan) > 2:
            for inner in sets_to_tell(plan, False, self._stranding):
                noun = self.phrases.noun_of(inner)
                text = f"those {noun.plural}"
                known[id(inner)] = Phrase(text, "", noun, True, 0)
        return self.phrases.phrase(plan, draw, named=known, bare=bare, plural=plural)

    def told(self, plan: SetPlan, draw: Draw) -> str:
        """Return what can be said of several members of a set, such as "have X as a director"."""
        if not isinstance(plan, Project) or not isinstance(plan.source, Anchor):
            return ""
        way = self.lexicon.way(plan.relation, plan.inverse)
        chosen = [form for form in way.predicates if form.texts[0][-3:-1] != '" ']
        if not chosen:
            return ""
        return fill(
            draw.choose(chosen).of(True, False), self.phrases.phrase(plan.source, draw), draw
        )

    def noun(self, plan: SetPlan) -> Noun:
        """Return what the members of a set are called."""
        return self.phrases.noun_of(plan)

    def entity_noun(self, entity: int) -> Noun:
        """Return what an entity is called."""
        return self.lexicon.noun_of_entity(entity)

    def described(self, relation: int, inverse: bool, draw: Draw) -> str:
        """Return a noun phrase for what a relation gives for some entity, without an article."""
        noun = self.lexicon.source_noun(relation, inverse)
        given = _given(noun, draw)
        source = Phrase(given, given, noun, False, 0)
        way = self.lexicon.way(relation, inverse)
        return self.phrases.with_source(way, source, draw, bare=True).bare

    def given(self, attribute: int, draw: Draw) -> str:
        """Return "a given film" for what has an attribute."""
        return _given(self.lexicon.type_noun(self.lexicon.holders(attribute)), draw)

    def attribute(self, attribute: int) -> tuple[str, str]:
        """Return the name and the unit of an attribute."""
        return self.lexicon.attributes[attribute].name, self.lexicon.attributes[attribute].unit

    def plural(self, noun: Noun) -> str:
        """Return a noun in the plural."""
        return noun.plural if not noun.mass else "entries"


def _given(noun: Noun, draw: Draw) -> str:
    return draw.choose(("a given {}", "the given {}", "one given {}")).format(noun.single)

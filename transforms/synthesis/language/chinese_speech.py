"""Parts of Chinese sentences around questions: noun phrases for plans, relations and attributes."""

from transforms.synthesis.draw import Draw
from transforms.synthesis.language.chinese_questions import ChinesePhrase, ChineseQuestions, common
from transforms.synthesis.language.steps import sets_to_tell
from transforms.synthesis.language.words import Noun
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
    depth,
)


class ChineseSpeech(ChineseQuestions):
    """What the sentences around questions need of the grammar; a ``talk.Speech``."""

    def thing(self, plan: Plan, draw: Draw) -> tuple[str, bool]:
        """Return a noun phrase for what a plan gives; Chinese has no plural."""
        if isinstance(plan, Count):
            return f"{self._shallow(plan.source, draw)}的数量", False
        if isinstance(plan, Value):
            name = self.lexicon.attributes[plan.attribute].name
            return f"{self._shallow(plan.source, draw)}的{name}", False
        if isinstance(plan, Compare):
            sides = [self.thing(side, draw)[0] for side in (plan.left, plan.right)]
            return f"{sides[0]}和{sides[1]}", False
        return self._shallow(plan, draw), False

    def _shallow(self, plan: SetPlan, draw: Draw) -> str:
        """Return a phrase that does not nest deeply: what lies further inside is "这些电影"."""
        known: dict[int, ChinesePhrase] = {}
        if depth(plan) > 2:
            for inner in sets_to_tell(plan, False):
                noun = self.noun(inner)
                known[id(inner)] = ChinesePhrase(f"这些{noun.single}", noun, False, 0)
        return self.phrase(plan, draw, known).text

    def told(self, plan: SetPlan, draw: Draw) -> str:
        """Return what can be said of the members of a set, such as "以X为导演", or ""."""
        return self.predicate(plan, draw)

    def noun(self, plan: SetPlan) -> Noun:
        """Return what the members of a set are called."""
        match plan:
            case Anchor(entity):
                return self.lexicon.noun_of_entity(entity)
            case Project(_, relation, inverse):
                return self.lexicon.way(relation, inverse).head
            case Intersect(parts) | Unite(parts):
                return common([self.noun(part) for part in parts])
            case Subtract(keep):
                return self.noun(keep)
            case Filter(source) | Top(source):
                return self.noun(source)

    def entity_noun(self, entity: int) -> Noun:
        """Return what an entity is called."""
        return self.lexicon.noun_of_entity(entity)

    def described(self, relation: int, inverse: bool, draw: Draw) -> str:
        """Return a noun phrase for what a relation gives for some entity."""
        noun = self.lexicon.source_noun(relation, inverse)
        source = ChinesePhrase(_given(noun, draw), noun, True, 0)
        return self.with_source(self.lexicon.way(relation, inverse), source, draw).text

    def given(self, attribute: int, draw: Draw) -> str:
        """Return "给定电影" for what has an attribute."""
        return _given(self.lexicon.type_noun(self.lexicon.holders(attribute)), draw)

    def attribute(self, attribute: int) -> tuple[str, str]:
        """Return the name and the unit of an attribute."""
        return self.lexicon.attributes[attribute].name, self.lexicon.attributes[attribute].unit

    def plural(self, noun: Noun) -> str:
        """Return a noun; Chinese has no plural."""
        return noun.single


def _given(noun: Noun, draw: Draw) -> str:
    return draw.choose(
        (f"给定{noun.single}", f"某{noun.plural}{noun.single}", f"指定{noun.single}")
    )

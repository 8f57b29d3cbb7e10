"""English ways to speak of a relation, by what kind of words its label is (see english_templates)."""

import re

from transforms.synthesis.language import english_verbs as verbs
from transforms.synthesis.language import english_words as words
from transforms.synthesis.language.english_labels import ENDINGS, Reading
from transforms.synthesis.language.english_templates import (
    forms,
    inflected,
    named,
    noun_in,
)
from transforms.synthesis.language.english_verb_forms import active, copular, passive, stranded
from transforms.synthesis.language.words import POSSESSIVE, Noun, Way


def both_ways(
    reading: Reading, head: Noun, tail: Noun, single: tuple[bool, bool]
) -> tuple[Way, Way]:
    """Return how to speak of the tails and of the heads of a relation.

    Args:
        reading: the label as English.
        head: noun of the type of heads.
        tail: noun of the type of tails.
        single: whether a head has at most one tail; whether a tail has at most one head.
    """
    match reading.kind:
        case "noun":
            own = noun_in(reading)
            name = named(own, tail)
            context = reading.context
            return _having(name, context, single[0]), _had(name, head, context, single)
        case "noun of":
            name = named(noun_in(reading), head)
            back = _had(name, _titled(reading, tail), "", (single[1], single[0]), reading.after)
            return back, _having(name, "", single[1], reading.after)
        case "noun by":
            return _noun_by(noun_in(reading).single, head, tail, single)
        case "within":
            return _within(reading, head, tail, single)
        case "stranded":
            return stranded(reading, head, tail, single)
        case "copular":
            return copular(reading, head, tail, single, f"be {reading.form}")
        case "passive":
            be = "were" if reading.past else "are"
            return passive(reading, head, tail, single, be)
        case _:
            return active(reading, head, tail, single)


def _titled(reading: Reading, noun: Noun) -> Noun:
    """Return the noun that a label in two parts gives its tails, else that of the type."""
    if not reading.context:
        return noun
    return Noun(
        reading.context, words.plural_word(reading.context), words.is_animate(reading.context)
    )


def _listed(context: str) -> str:
    inner = re.sub(r"[\x00-\x1f<>|\[\]{}]", "", context.replace('"', "'"))
    return f' listed under "{inner}"'


def _closed(name: Noun) -> bool:
    """Whether a noun ends in what "of X" cannot follow: "awards won", "people with this title"."""
    parts = name.plural.split()
    ends = len(parts) > 1 and (verbs.is_participle(parts[-1]) or parts[-1] in ENDINGS)
    return ends or bool(words.PREPOSITIONS & set(parts) - {"of"})


def _simple_context(context: str) -> bool:
    parts = context.split()
    plain = all(part.isalpha() and part not in words.PREPOSITIONS for part in parts)
    last = parts[-1]
    verbal = last == "available" or (len(parts) > 1 and words.is_plural_word(parts[0]))
    verbal = (
        verbal or verbs.is_participle(last) or verbs.is_participle(parts[0]) or last == "majoring"
    )
    return plain and not verbal and verbs.base_of_third(parts[0]) is None and len(parts) <= 3


def _having(name: Noun, context: str, single: bool, preposition: str = "of") -> Way:
    """The answers are what the label's noun names: "the directors of X"."""
    noun = inflected(name)
    if context:
        under = _listed(context)
        phrases = [f"{noun}{under} for {{S}}", f"{noun} recorded{under[7:]} for {{S}}"]
        phrases.append(f"{noun}{under} in the record of {{S}}")
        questions = [f"Which {noun} [does|do] {{S}} have{under}?"]
        questions.append(f"Which {noun} <is|are>{under} for {{S}}?")
        if _simple_context(context):
            phrases.append(f"{noun} of the {context} of {{S}}")
            phrases.append(f"{noun} in the {context} of {{S}}")
    else:
        phrases = [f"{noun} {preposition} {{S}}"]
        if preposition == "of" and _closed(name):
            phrases = [
                f"{noun} listed for {{S}}",
                f"{noun} given for {{S}}",
                f"{noun} recorded for {{S}}",
            ]
        elif preposition == "of":
            phrases += [
                f"{POSSESSIVE} {noun}",
                f"{noun} listed for {{S}}",
                f"{noun} given for {{S}}",
            ]
            phrases.append(f"{noun} recorded for {{S}}")
        questions = [f"Which {noun} [does|do] {{S}} have?"]
        questions.append(
            f"Which {noun} <is|are> {preposition if preposition != 'of' else 'listed for'} {{S}}?"
        )
    return Way(name, True, forms(phrases), (), (), forms(questions), single)


def _had(
    name: Noun, head: Noun, context: str, single: tuple[bool, bool], preposition: str = ""
) -> Way:
    """The answers are what has something the label's noun names: "the films whose director is X"."""
    one, many = name.single, name.plural
    under = _listed(context) if context else ""
    as_one = one if name.mass else words.with_article(one)
    their = "<their|their>" if head.animate else "<its|their>"
    if context:
        clauses = [f"that <lists|list> {{S}} as {as_one} under{under[13:]}"]
        predicates = [f"<lists|list> {{S}} as {as_one} under{under[13:]}"]
        predicates.append(f"<has|have> {{S}} as {as_one}{under}")
        clauses.append(f"that <has|have> {{S}} as {as_one}{under}")
        clauses.append(f"with {{S}} listed as {as_one} under{under[13:]}")
    else:
        clauses = [f"that <has|have> {{S}} as {as_one}", f"that <lists|list> {{S}} as {as_one}"]
        predicates = [f"<has|have> {{S}} as {as_one}", f"<lists|list> {{S}} as {as_one}"]
        clauses.append(f"for {'whom' if head.animate else 'which'} {{S}} is listed as {as_one}")
        if not name.mass and not single[0]:
            clauses.append(f"with {{S}} among {their} {many}")
            predicates.append(f"<counts|count> {{S}} among {their} {many}")
    if name.mass:
        clauses.append(f"whose {one}{under} is {{O}}")
    elif single[0]:
        clauses.append(f"whose {one}{under} is {{O}}")
        predicates.append(f"<has|have> as {their} {one}{under} {{O}}")
    else:
        clauses.append(f"whose {many}{under} include {{A}}")
        clauses.append(f"that <has|have> among {their} {many}{under} {{A}}")
        predicates.append(f"<has|have> among {their} {many}{under} {{A}}")
    questions: list[str] = []
    if preposition:
        clauses.append(f"that {{S}} [is {as_one}|are {many}] {preposition}")
        questions.append(f"What [is|are] {{S}} [{as_one}|{many}] {preposition}?")
    return Way(head, False, (), forms(clauses), forms(predicates), forms(questions), single[1])


def _noun_by(thing: str, head: Noun, tail: Noun, single: tuple[bool, bool]) -> tuple[Way, Way]:
    forward = Way(
        tail,
        False,
        (),
        forms(
            [
                f"responsible for the {thing} of {{S}}",
                f"credited with the {thing} of {{S}}",
            ]
        ),
        forms(
            [
                f"<is|are> responsible for the {thing} of {{S}}",
                f"<is|are> credited with the {thing} of {{S}}",
            ]
        ),
        forms(
            [
                f"{'Who' if tail.animate else 'Who or what'} is the {thing} of {{S}} by?",
                f"Who is credited with the {thing} of {{S}}?",
                f"Who did the {thing} of {{S}}?",
            ]
        ),
        single[0],
    )
    backward = Way(
        head,
        False,
        (),
        forms(
            [
                f"whose {thing} is by {{A}}",
                f"with {thing} by {{A}}",
                f"that <has|have> {thing} by {{A}}",
            ]
        ),
        forms([f"<has|have> {thing} by {{A}}", f"<lists|list> {thing} by {{A}}"]),
        (),
        single[1],
    )
    return forward, backward


def _within(reading: Reading, head: Noun, tail: Noun, single: tuple[bool, bool]) -> tuple[Way, Way]:
    noun = named(noun_in(reading), tail)
    forward = _having(noun, "", single[0], reading.after)
    place = reading.after
    backward = Way(
        head,
        False,
        (),
        forms(
            [
                f"with {{A}} among the {noun.plural} {place} <it|them>",
                f"that <has|have> {place} <it|them> {{A}}",
            ]
        ),
        forms([f"<has|have> {place} <it|them> {{A}}"]),
        (),
        single[1],
    )
    return forward, backward

"""English ways to speak of a relation, by what kind of words its label is.

A template marks what agrees with the head as ``<one|many>`` and what agrees with the source as
``[one|many]``; ``{S}`` is the source, ``{P}`` its possessive, ``{A}`` "any of" it and ``{O}`` "one of"
it where it is a set. A head is a plural in "the films that were directed by X".
"""

import re
from collections.abc import Iterable

from transforms.synthesis.language import english_words as words
from transforms.synthesis.language.english_labels import ENDINGS, Reading
from transforms.synthesis.language.words import ANY, ONE, POSSESSIVE, SOURCE, Form, Noun, Way

_SLOTS = {"{S}": SOURCE, "{P}": POSSESSIVE, "{A}": ANY, "{O}": ONE}
_HEAD = re.compile(r"<([^<>|]*)\|([^<>|]*)>")
_FROM = re.compile(r"\[([^\[\]|]*)\|([^\[\]|]*)\]")


def form(template: str) -> Form:
    """Return the four inflected texts of a template."""
    for name, slot in _SLOTS.items():
        template = template.replace(name, slot)
    texts = []
    for head in (1, 2):
        for source in (1, 2):
            text = _HEAD.sub(lambda match, group=head: match.group(group), template)  # type: ignore[misc]
            texts.append(_FROM.sub(lambda match, group=source: match.group(group), text))  # type: ignore[misc]
    return Form((texts[0], texts[1], texts[2], texts[3]), template[-1:] in (SOURCE, ANY, ONE))


def forms(templates: Iterable[str]) -> tuple[Form, ...]:
    """Return the forms of some templates, each once."""
    return tuple(form(template) for template in dict.fromkeys(templates))


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
            own = _noun(reading)
            name = _named(own, tail)
            context = reading.context
            return _having(name, context, single[0]), _had(name, head, context, single)
        case "noun of":
            name = _named(_noun(reading), head)
            back = _had(name, _titled(reading, tail), "", (single[1], single[0]), reading.after)
            return back, _having(name, "", single[1], reading.after)
        case "noun by":
            return _noun_by(_noun(reading).single, head, tail, single)
        case "within":
            return _within(reading, head, tail, single)
        case "stranded":
            return _stranded(reading, head, tail, single)
        case "copular":
            return _verbal(reading, head, tail, single, f"be {reading.form}")
        case "passive":
            be = "were" if reading.past else "are"
            return _passive(reading, head, tail, single, be)
        case _:
            return _active(reading, head, tail, single)


def _noun(reading: Reading) -> Noun:
    if reading.noun is None:
        raise ValueError(f"a label of kind {reading.kind} without a noun")
    return reading.noun


def _titled(reading: Reading, noun: Noun) -> Noun:
    """Return the noun that a label in two parts gives its tails, else that of the type."""
    if not reading.context:
        return noun
    return Noun(
        reading.context, words.plural_word(reading.context), words.is_animate(reading.context)
    )


def _named(noun: Noun, kind: Noun) -> Noun:
    """Return a relation's noun; whether it names people is told by the type where that is known."""
    known = kind.single not in GENERIC
    animate = noun.animate and (kind.animate or not known)
    return Noun(noun.single, noun.plural, animate, noun.mass)


GENERIC = ("entity", "item")


def _n(noun: Noun) -> str:
    return f"<{noun.single}|{noun.plural}>"


def _who(noun: Noun) -> str:
    return "who" if noun.animate else "that"


def _listed(context: str) -> str:
    inner = re.sub(r"[\x00-\x1f<>|\[\]{}]", "", context.replace('"', "'"))
    return f' listed under "{inner}"'


def _closed(name: Noun) -> bool:
    """Whether a noun ends in what "of X" cannot follow: "awards won", "people with this title"."""
    parts = name.plural.split()
    ends = len(parts) > 1 and (words.is_participle(parts[-1]) or parts[-1] in ENDINGS)
    return ends or bool(words.PREPOSITIONS & set(parts) - {"of"})


def _simple_context(context: str) -> bool:
    parts = context.split()
    plain = all(part.isalpha() and part not in words.PREPOSITIONS for part in parts)
    last = parts[-1]
    verbal = last == "available" or (len(parts) > 1 and words.is_plural_word(parts[0]))
    verbal = (
        verbal or words.is_participle(last) or words.is_participle(parts[0]) or last == "majoring"
    )
    return plain and not verbal and words.base_of_third(parts[0]) is None and len(parts) <= 3


def _having(name: Noun, context: str, single: bool, preposition: str = "of") -> Way:
    """The answers are what the label's noun names: "the directors of X"."""
    noun = _n(name)
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
    noun = _named(_noun(reading), tail)
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


def _stranded(
    reading: Reading, head: Noun, tail: Noun, single: tuple[bool, bool]
) -> tuple[Way, Way]:
    noun = _named(_noun(reading), tail)
    be = "<was|were>" if reading.past else "<is|are>"
    from_be = be.replace("<", "[").replace(">", "]")
    what = f"{reading.form} {reading.after}"
    forward = Way(
        noun,
        True,
        (),
        forms(
            [
                f"that {{S}} {from_be} {what}",
                f"{reading.after} which {{S}} {from_be} {reading.form}",
            ]
        ),
        (),
        forms([f"Which {_n(noun)} {from_be} {{S}} {what}?"]),
        single[0],
    )
    backward = Way(
        head,
        False,
        (),
        forms([f"{what} {{A}}", f"{_who(head)} {be} {what} {{A}}"]),
        forms([f"{be} {what} {{A}}"]),
        (),
        single[1],
    )
    return forward, backward


def _verbal(
    reading: Reading, head: Noun, tail: Noun, single: tuple[bool, bool], phrase: str
) -> tuple[Way, Way]:
    """An adjective and its preposition: "similar to"."""
    what = phrase.removeprefix("be ")
    forward = Way(
        tail,
        False,
        (),
        forms(
            [f"that {{S}} [is|are] {what}", f"{_which(what, tail)} {{S}} [is|are]{_front(what)}"]
        ),
        (),
        forms([f"{_wh(tail)} [is|are] {{S}} {what}?"]),
        single[0],
    )
    backward = Way(
        head,
        False,
        (),
        forms([f"{what} {{A}}", f"{_who(head)} <is|are> {what} {{A}}"]),
        forms([f"<is|are> {what} {{A}}"]),
        (),
        single[1],
    )
    return forward, backward


def _which(what: str, noun: Noun) -> str:
    return f"{what.split()[-1]} {'whom' if noun.animate else 'which'}"


def _front(what: str) -> str:
    rest = what.split()[:-1]
    return " " + " ".join(rest) if rest else ""


def _wh(noun: Noun) -> str:
    if noun.animate:
        return "Who"
    return "Who or what" if noun.single in GENERIC else "What"


def _passive(
    reading: Reading, head: Noun, tail: Noun, single: tuple[bool, bool], be: str
) -> tuple[Way, Way]:
    one = "was" if be == "were" else "is"
    head_be, source_be = f"<{one}|{be}>", f"[{one}|{be}]"
    what = f"{reading.adverb}{reading.form} {reading.after}"
    object_ = "whom" if tail.animate else "which"
    clauses = [f"that {{S}} {source_be} {what}"]
    clauses.append(f"{reading.after} {object_} {{S}} {source_be} {reading.adverb}{reading.form}")
    predicates: list[str] = []
    questions = [f"{_wh(tail)} {source_be} {{S}} {what}?"]
    questions.append(f"Which {_n(tail)} {source_be} {{S}} {what}?")
    back_clauses = [f"{what} {{A}}", f"that <{one}|{be}> {what} {{A}}"]
    back_questions: list[str] = []
    if reading.after == "by" and reading.verb and reading.adverb.strip() != "executive":
        past, base = words.past_of(reading.verb), reading.verb
        active = past if reading.past else f"<{words.third(base)}|{base}>"
        clauses.append(f"{_who(tail)} {reading.adverb}{active} {{A}}")
        predicates.append(f"{reading.adverb}{active} {{A}}")
        asked = past if reading.past else words.third(base)
        questions.append(f"{_wh(tail)} {reading.adverb}{asked} {{A}}?")
        does = "did" if reading.past else "[does|do]"
        told = past if reading.past else f"[{words.third(base)}|{base}]"
        back_clauses.append(f"that {{S}} {reading.adverb}{told}")
        back_questions.append(f"Which {_n(head)} {does} {{S}} {reading.adverb}{base}?")
    forward = Way(tail, False, (), forms(clauses), forms(predicates), forms(questions), single[0])
    back_predicates = [f"{head_be} {what} {{A}}"]
    backward = Way(
        head,
        False,
        (),
        forms(back_clauses),
        forms(back_predicates),
        forms(back_questions),
        single[1],
    )
    return forward, backward


def _active(reading: Reading, head: Noun, tail: Noun, single: tuple[bool, bool]) -> tuple[Way, Way]:
    base, adverb = reading.verb, reading.adverb
    after = f" {reading.after}" if reading.after else ""
    if reading.past:
        told = source_told = words.past_of(base)
        does = "did"
    else:
        told, source_told = f"<{words.third(base)}|{base}>", f"[{words.third(base)}|{base}]"
        does = "[does|do]"
    own = reading.kind == "verb object"
    noun = _named(_noun(reading), tail) if own else tail
    wh = f"Which {_n(noun)}"
    questions = [f"{wh} {does} {{S}} {adverb}{base}{after}?"]
    if not own:
        questions.append(f"{_wh(tail)} {does} {{S}} {adverb}{base}{after}?")
    forward = Way(
        noun,
        own,
        (),
        forms([f"that {{S}} {adverb}{source_told}{after}"]),
        (),
        forms(questions),
        single[0],
    )
    clauses = [f"{_who(head)} {adverb}{told}{after} {{A}}", f"that {adverb}{told}{after} {{A}}"]
    if not reading.past and base not in ("have", "be"):
        clauses.append(f"{adverb}{words.gerund(base)}{after} {{A}}")
    backward = Way(
        head, False, (), forms(clauses), forms([f"{adverb}{told}{after} {{A}}"]), (), single[1]
    )
    return forward, backward

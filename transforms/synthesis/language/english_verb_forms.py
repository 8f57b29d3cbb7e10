"""English ways to speak of a relation whose label is a verb, a passive or an adjective."""

from transforms.synthesis.language import english_verbs as verbs
from transforms.synthesis.language.english_labels import Reading
from transforms.synthesis.language.english_templates import (
    asking,
    forms,
    inflected,
    named,
    noun_in,
    relative,
)
from transforms.synthesis.language.words import Noun, Way


def stranded(
    reading: Reading, head: Noun, tail: Noun, single: tuple[bool, bool]
) -> tuple[Way, Way]:
    """Speak of "countries spoken in": the noun of the tails, a participle, a preposition."""
    noun = named(noun_in(reading), tail)
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
        forms([f"Which {inflected(noun)} {from_be} {{S}} {what}?"]),
        single[0],
    )
    backward = Way(
        head,
        False,
        (),
        forms([f"{what} {{A}}", f"{relative(head)} {be} {what} {{A}}"]),
        forms([f"{be} {what} {{A}}"]),
        (),
        single[1],
    )
    return forward, backward


def copular(
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
        forms([f"{asking(tail)} [is|are] {{S}} {what}?"]),
        single[0],
    )
    backward = Way(
        head,
        False,
        (),
        forms([f"{what} {{A}}", f"{relative(head)} <is|are> {what} {{A}}"]),
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


def passive(
    reading: Reading, head: Noun, tail: Noun, single: tuple[bool, bool], be: str
) -> tuple[Way, Way]:
    """Speak of "directed by", "born in"."""
    one = "was" if be == "were" else "is"
    head_be, source_be = f"<{one}|{be}>", f"[{one}|{be}]"
    what = f"{reading.adverb}{reading.form} {reading.after}"
    object_ = "whom" if tail.animate else "which"
    clauses = [f"that {{S}} {source_be} {what}"]
    clauses.append(f"{reading.after} {object_} {{S}} {source_be} {reading.adverb}{reading.form}")
    predicates: list[str] = []
    questions = [f"{asking(tail)} {source_be} {{S}} {what}?"]
    questions.append(f"Which {inflected(tail)} {source_be} {{S}} {what}?")
    back_clauses = [f"{what} {{A}}", f"that <{one}|{be}> {what} {{A}}"]
    back_questions: list[str] = []
    if reading.after == "by" and reading.verb and reading.adverb.strip() != "executive":
        past, base = verbs.past_of(reading.verb), reading.verb
        active = past if reading.past else f"<{verbs.third(base)}|{base}>"
        clauses.append(f"{relative(tail)} {reading.adverb}{active} {{A}}")
        predicates.append(f"{reading.adverb}{active} {{A}}")
        asked = past if reading.past else verbs.third(base)
        questions.append(f"{asking(tail)} {reading.adverb}{asked} {{A}}?")
        does = "did" if reading.past else "[does|do]"
        told = past if reading.past else f"[{verbs.third(base)}|{base}]"
        back_clauses.append(f"that {{S}} {reading.adverb}{told}")
        back_questions.append(f"Which {inflected(head)} {does} {{S}} {reading.adverb}{base}?")
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


def active(reading: Reading, head: Noun, tail: Noun, single: tuple[bool, bool]) -> tuple[Way, Way]:
    """Speak of "contains", "died in", "speaks language"."""
    base, adverb = reading.verb, reading.adverb
    after = f" {reading.after}" if reading.after else ""
    if reading.past:
        told = source_told = verbs.past_of(base)
        does = "did"
    else:
        told, source_told = f"<{verbs.third(base)}|{base}>", f"[{verbs.third(base)}|{base}]"
        does = "[does|do]"
    own = reading.kind == "verb object"
    noun = named(noun_in(reading), tail) if own else tail
    wh = f"Which {inflected(noun)}"
    questions = [f"{wh} {does} {{S}} {adverb}{base}{after}?"]
    if not own:
        questions.append(f"{asking(tail)} {does} {{S}} {adverb}{base}{after}?")
    forward = Way(
        noun,
        own,
        (),
        forms([f"that {{S}} {adverb}{source_told}{after}"]),
        (),
        forms(questions),
        single[0],
    )
    clauses = [f"{relative(head)} {adverb}{told}{after} {{A}}", f"that {adverb}{told}{after} {{A}}"]
    if not reading.past and base not in ("have", "be"):
        clauses.append(f"{adverb}{verbs.gerund(base)}{after} {{A}}")
    backward = Way(
        head, False, (), forms(clauses), forms([f"{adverb}{told}{after} {{A}}"]), (), single[1]
    )
    return forward, backward

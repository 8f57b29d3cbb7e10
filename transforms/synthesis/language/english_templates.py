"""Templates of English forms: what agrees with a head and with a source.

A template marks what agrees with the head as ``<one|many>`` and what agrees with the source as
``[one|many]``; ``{S}`` is the source, ``{P}`` its possessive, ``{A}`` "any of" it and ``{O}`` "one of"
it where it is a set. A head is a plural in "the films that were directed by X".
"""

import re
from collections.abc import Iterable

from transforms.synthesis.language.english_labels import Reading
from transforms.synthesis.language.words import ANY, ONE, POSSESSIVE, SOURCE, Form, Noun

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


def noun_in(reading: Reading) -> Noun:
    """Return the noun of a reading that has one."""
    if reading.noun is None:
        raise ValueError(f"a label of kind {reading.kind} without a noun")
    return reading.noun


def named(noun: Noun, kind: Noun) -> Noun:
    """Return a relation's noun; whether it names people is told by the type where that is known."""
    known = kind.single not in GENERIC
    animate = noun.animate and (kind.animate or not known)
    return Noun(noun.single, noun.plural, animate, noun.mass)


GENERIC = ("entity", "item")


def inflected(noun: Noun) -> str:
    """Return a noun that agrees with the head of a template."""
    return f"<{noun.single}|{noun.plural}>"


def relative(noun: Noun) -> str:
    """Return the relative pronoun of a noun."""
    return "who" if noun.animate else "that"


def asking(noun: Noun) -> str:
    """Return the word that asks for a noun."""
    if noun.animate:
        return "Who"
    return "Who or what" if noun.single in GENERIC else "What"

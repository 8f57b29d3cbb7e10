"""One English noun phrase, and how sources are put into forms."""

from collections.abc import Sequence
from dataclasses import dataclass

from transforms.synthesis.draw import Draw
from transforms.synthesis.language import english_words as words
from transforms.synthesis.language.english_lexicon import EnglishLexicon
from transforms.synthesis.language.words import ANY, ONE, POSSESSIVE, SOURCE, Form, Noun
from transforms.synthesis.plan import (
    Anchor,
    Filter,
    Plan,
    Project,
    Top,
)

RELATIVE = ("that ", "who ", "whose ", "for which ", "for whom ")


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase for a set.

    Attributes:
        text: the whole phrase, with its article.
        bare: without the article, or "" where that cannot be said.
        noun: what its members are called.
        plural: its number.
        depth: sets nested in it; 0 for a mention or a name of a set.
    """

    text: str
    bare: str
    noun: Noun
    plural: bool
    depth: int


def is_single(plan: Plan, lexicon: EnglishLexicon) -> bool:
    """Return whether a set has at most one member whatever the facts are."""
    match plan:
        case Anchor():
            return True
        case Project(source, relation, inverse):
            return lexicon.way(relation, inverse).single and is_single(source, lexicon)
        case Top(k=k):
            return k == 1
        case Filter(source):
            return is_single(source, lexicon)
    return False


def after_quote(form: Form) -> bool:
    """Whether the source follows a closing quote, where a mention in quotes would be hard to see."""
    return form.texts[0][-3:-1] == '" '


def fill(text: str, source: Phrase, draw: Draw) -> str:
    """Put a source into the slots of a form."""
    if POSSESSIVE in text:
        text = text.replace(POSSESSIVE, words.possessive(source.text, source.plural))
    if ANY in text:
        any_of = source.text
        if source.plural:
            options = ("any of", "any of" if f"at {ANY}" in text else "at least one of")
            any_of = f"{draw.choose(options)} {source.text}"
        text = text.replace(ANY, any_of)
    if ONE in text:
        text = text.replace(ONE, f"one of {source.text}" if source.plural else source.text)
    return text.replace(SOURCE, source.text)


def listed(items: Sequence[str], word: str) -> str:
    """Return "a, b and c"."""
    if len(items) == 1:
        return items[0]
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def among(texts: Sequence[str], both: bool, draw: Draw) -> str:
    """Return "both among A and among B", with its scope marked at every part."""
    if both:
        opening = "both " if len(texts) == 2 else "at once "
        parts = [f"among {text}" for text in texts]
        return opening + (
            f"{parts[0]} and {parts[1]}"
            if len(parts) == 2
            else ", ".join(parts[:-1]) + f" and {parts[-1]}"
        )
    opening = draw.choose(("", "either "))
    return opening + " or ".join(f"among {text}" for text in texts)

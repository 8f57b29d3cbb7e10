"""What both languages share: nouns, ways to speak of a relation, utterances."""

from collections.abc import Sequence
from dataclasses import dataclass

SOURCE, POSSESSIVE, ANY, ONE = "\x01", "\x02", "\x03", "\x04"
"""Slots of a form: the source, its possessive, "any of" and "one of" it where it is a set."""
ENTITY = "\x05"
"""Stands before a number of a mention in a text that is being built, and after it."""


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun phrase without an article.

    Attributes:
        single: in the singular.
        plural: in the plural.
        animate: whether it names people.
        mass: whether it is not counted.
    """

    single: str
    plural: str
    animate: bool = False
    mass: bool = False

    def of(self, plural: bool) -> str:
        """Return the noun in a number."""
        return self.plural if plural else self.single


@dataclass(frozen=True, slots=True)
class Form:
    """A text with slots, inflected for the number of its head and of its source.

    Attributes:
        texts: by ``2 * (head is plural) + (source is plural)``.
        last: whether the source ends the text, so that it may be long.
    """

    texts: tuple[str, str, str, str]
    last: bool

    def of(self, head_plural: bool, source_plural: bool) -> str:
        """Return the text for two numbers."""
        return self.texts[2 * head_plural + source_plural]


@dataclass(frozen=True, slots=True)
class Way:
    """How to speak of what one direction of a relation gives.

    Attributes:
        head: what the answers are called.
        own: whether the head is the relation's own noun ("director"), not that of a type ("film").
        phrases: noun phrases without the article: "directors of S".
        clauses: what follows the head: "whose director is S".
        predicates: finite: "have S as a director".
        questions: whole questions: "Who directed S?".
        single: whether one source gives at most one answer.
    """

    head: Noun
    own: bool
    phrases: tuple[Form, ...]
    clauses: tuple[Form, ...]
    predicates: tuple[Form, ...]
    questions: tuple[Form, ...]
    single: bool

    def all_forms(self) -> Sequence[Form]:
        """Return every form."""
        return (*self.phrases, *self.clauses, *self.predicates, *self.questions)


@dataclass(frozen=True, slots=True)
class Utterance:
    """What a user says.

    Attributes:
        text: the words.
        skeleton: the words with entity mentions and numbers masked.
        style: name of the frame's family.
        noise: what was done to the text after it was built, such as ``lower`` or ``typo``.
        mentions: entities in the text with the half-open character spans of their mentions.
    """

    text: str
    skeleton: str
    style: str
    noise: tuple[str, ...] = ()
    mentions: tuple[tuple[int, int, int], ...] = ()

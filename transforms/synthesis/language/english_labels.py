"""Reads a relation's label as English: a noun, a verb, a passive, an adjective.

A label is whatever a schema says: "director", "directed by", "hasCapital", "parent_of", "born in",
"regular cast / actor", "P36". What cannot be read is quoted, and so stays a noun.
"""

import re
from dataclasses import dataclass
from typing import Literal

from transforms.synthesis.language import english_verbs as verbs
from transforms.synthesis.language import english_words as words
from transforms.synthesis.language.english_nouns import (
    FILLERS,
    label_words,
    noun_of,
    quoted,
    readable,
)
from transforms.synthesis.language.words import Noun

Kind = Literal[
    "noun",
    "noun of",
    "noun by",
    "passive",
    "active",
    "copular",
    "verb object",
    "stranded",
    "within",
]
_ROLES = frozenset(
    [
        "member",
        "instance",
        "part",
        "subclass",
        "citizen",
        "employee",
        "resident",
        "component",
        "subset",
        "example",
    ]
)
"""Nouns of heads: in "member of sports team" the tail is the team."""
_GERUNDS = {"starring": "star", "featuring": "feature", "containing": "contain"}
ENDINGS = frozenset(["available", "majoring", "possible", "present", "spoken", "born"])


@dataclass(frozen=True, slots=True)
class Reading:
    """A label as English.

    Attributes:
        kind: how it is used.
        noun: its noun, for the kinds that have one.
        verb: base of its verb, or "" where only the given form is known.
        form: the participle, third person or past that the label holds.
        past: whether the verb is told in the past.
        adverb: words before the verb, with a space after them, or "".
        after: words after the verb: a preposition or more, or "".
        context: the first part of a label in two parts, or "".
    """

    kind: Kind
    noun: Noun | None = None
    verb: str = ""
    form: str = ""
    past: bool = False
    adverb: str = ""
    after: str = ""
    context: str = ""


def read_label(label: str) -> Reading:
    """Read a relation's label."""
    text = label_words(label.replace("./", " / "))
    parts = [part for part in (re.sub(r" s$", "", p.strip()) for p in text.split(" / ")) if part]
    if len(parts) < 2:
        return _read(parts[0] if parts else label_words(label) or label)
    first, last = parts[0], parts[-1]
    reading = _read(last)
    own = [words.singular_word(word) for word in first.split()]
    target = [words.singular_word(word) for word in last.split()]
    if reading.kind != "noun":
        if reading.kind == "active" and own == [words.singular_word(w) for w in last.split()]:
            return reading
        reading = Reading("noun", quoted(last))
    opening = _read(first)
    if opening.kind == "noun of" and opening.noun and reading.noun:
        return Reading("noun of", opening.noun, after=opening.after, context=reading.noun.single)
    if target == own or (len(target) == 1 and target[0] in (own[-1], own[0]) and len(own) <= 2):
        return reading if target == own or target[0] == own[-1] else _merged(first, reading)
    if own[-1] == target[-1] and opening.kind == "noun":
        return reading
    return Reading("noun", reading.noun, context=first)


def _merged(first: str, reading: Reading) -> Reading:
    """Return "awards won" for "awards won / award": the first part says it all."""
    opening = _read(first)
    if opening.kind == "noun" and verbs.is_participle(first.split()[-1]):
        return opening
    return Reading("noun", reading.noun, context=first)


def _read(text: str) -> Reading:
    if not readable(text):
        return Reading("noun", quoted(text))
    parts = text.split()
    had_be = False
    if len(parts) > 1 and parts[0] in words.HAVE and parts[1] not in ("been", "to"):
        rest = parts[2:] if len(parts) > 2 and parts[1] in FILLERS else parts[1:]
        done = verbs.base_of_participle(rest[0]) if len(rest) > 1 else None
        if done and not rest[0].endswith("ed"):
            return Reading("verb object", noun_of(" ".join(rest[1:])), done, past=True)
        return Reading("noun", noun_of(" ".join(rest)))
    while len(parts) > 1 and parts[0] in words.BE | {"has"}:
        had_be, parts = True, parts[1:]
    while len(parts) > 1 and parts[0] in FILLERS:
        parts = parts[1:]
    if parts[-1] in words.PREPOSITIONS and len(parts) == 1:
        return Reading("copular", form=parts[0])
    if parts[0] in words.PREPOSITIONS | FILLERS or parts[-1] in FILLERS:
        return Reading("noun", quoted(text))
    if parts[-1] in words.PREPOSITIONS:
        return _with_preposition(parts, had_be)
    return _without_preposition(parts, had_be)


def _split_adverb(parts: list[str]) -> tuple[str, list[str]]:
    count = 0
    while count < len(parts) - 1 and (parts[count] in words.ADVERBS or parts[count].endswith("ly")):
        count += 1
    return "".join(part + " " for part in parts[:count]), parts[count:]


def _with_preposition(parts: list[str], had_be: bool) -> Reading:
    preposition, core = parts[-1], parts[:-1]
    adverb, bare = _split_adverb(core)
    word = bare[0]
    if len(bare) == 1 and verbs.is_participle(word):
        return _participle(adverb, word, preposition, had_be)
    if len(bare) == 1 and word in words.ADJECTIVES_WITH_PREPOSITION | {"part"}:
        if word == "part":
            return Reading("noun of", Noun("part", "parts"), after=preposition)
        return Reading("copular", form=" ".join(parts))
    base = verbs.base_of_third(word)
    past = verbs.base_of_past(word)
    usual = verbs.is_verb(word) and word in verbs.INTRANSITIVE and preposition != "of"
    if (base or usual) and not had_be:
        return Reading(
            "active",
            verb=base or word,
            adverb=adverb,
            after=" ".join(parts[len(adverb.split()) + 1 :]),
        )
    if past and len(bare) == 1:
        return Reading("active", verb=past, past=True, adverb=adverb, after=preposition)
    if past and verbs.is_participle(word) is False:
        return Reading(
            "active", verb=past, past=True, adverb=adverb, after=" ".join([*bare[1:], preposition])
        )
    if preposition == "by":
        return Reading("noun by", noun_of(" ".join(core)))
    if len(core) > 1 and verbs.is_participle(core[-1]):
        return Reading("stranded", noun_of(" ".join(core[:-1])), form=core[-1], after=preposition)
    if preposition != "of" and words.is_plural_word(core[-1]):
        if preposition in ("in", "within", "at", "on", "inside", "under", "near"):
            return Reading("within", noun_of(" ".join(core)), after=preposition)
        return Reading("noun", quoted(" ".join(parts)))
    noun = noun_of(" ".join(core))
    if noun.single.startswith('"'):
        return Reading("noun", quoted(" ".join(parts)))
    return Reading("noun of", noun, after=preposition)


def _participle(adverb: str, word: str, preposition: str, had_be: bool) -> Reading:
    base = verbs.base_of_participle(word) or ""
    if base in verbs.INTRANSITIVE and preposition != "by" and not had_be:
        return Reading("active", verb=base, past=True, adverb=adverb, after=preposition)
    past = base not in verbs.STATIVE and word not in verbs.STATIVE
    return Reading("passive", verb=base, form=word, past=past, adverb=adverb, after=preposition)


def _without_preposition(parts: list[str], had_be: bool) -> Reading:
    adverb, bare = _split_adverb(parts)
    word, rest = bare[0], bare[1:]
    if not rest and word in verbs.TWO_WAYS:
        return Reading("noun", quoted(" ".join(parts)))
    if not rest and word in _GERUNDS:
        return Reading("active", verb=_GERUNDS[word])
    if rest and verbs.is_participle(word) and rest[0] in words.PREPOSITIONS and len(rest) > 1:
        return _participle_object(adverb, word, rest, had_be)
    base, past = verbs.base_of_third(word), verbs.base_of_past(word)
    if verbs.is_participle(word):
        past = past if not rest else None
    sure = bool(base) and (
        verbs.only_verb(word) or bool(adverb) or not verbs.is_verb(words.singular_word(word))
    )
    if not rest and base and not had_be and sure:
        return Reading("active", verb=base, adverb=adverb)
    if not rest and past and not had_be and word not in ("cast", "set", "cut", "split", "born"):
        return Reading("active", verb=past, past=True, adverb=adverb)
    if rest and not had_be and not adverb:
        object_ = _object(base if verbs.only_verb(word) else None, past, rest, adverb)
        if object_:
            return object_
    if len(bare) > 1 and (verbs.is_participle(bare[-1]) or bare[-1] in ENDINGS):
        head = bare[:-1]
        if words.is_plural_word(head[-1]) or len(head) == 1:
            return Reading("noun", noun_of(" ".join(head), after=bare[-1]))
    if len(parts) > 2 and parts[1] == "of" and parts[0] in _ROLES:
        whole = noun_of(" ".join(parts[2:]))
        return Reading("noun of", noun_of(parts[0]), after="of", context=whole.single)
    return Reading("noun", noun_of(" ".join(parts)))


def _participle_object(adverb: str, word: str, rest: list[str], had_be: bool) -> Reading:
    """Read "located in the country": the object names the tails."""
    noun = noun_of(" ".join(part for part in rest[1:] if part not in FILLERS))
    reading = _participle(adverb, word, rest[0], had_be)
    if reading.kind == "active":
        return Reading("verb object", noun, reading.verb, past=True, adverb=adverb, after=rest[0])
    return Reading("stranded", noun, form=word, past=reading.past, after=rest[0])


def _object(base: str | None, past: str | None, rest: list[str], adverb: str) -> Reading | None:
    """Read a verb and its object: the object names the tails."""
    verb = base or past
    if not verb or (past and not base and rest[-1] in ("by",)):
        return None
    after = ""
    if rest[0] in words.PREPOSITIONS:
        after, rest = rest[0], rest[1:]
    rest = [part for part in rest if part not in FILLERS]
    if not rest:
        return None
    noun = noun_of(" ".join(rest))
    return Reading(
        "verb object", noun, verb, past=bool(past and not base), adverb=adverb, after=after
    )

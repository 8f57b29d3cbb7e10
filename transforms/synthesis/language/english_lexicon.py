"""The English words of a graph: its types, attributes and relations, both ways, all distinct.

Two relations whose words would be the same ("genre" of films and of programmes) get the words of
their domains in front, else of their ids, so that a question names one relation alone.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from transforms.synthesis.graph import Graph
from transforms.synthesis.language import english_words as words
from transforms.synthesis.language.english_forms import both_ways
from transforms.synthesis.language.english_labels import Reading, read_label
from transforms.synthesis.language.english_nouns import label_words, noun_of, quoted, readable
from transforms.synthesis.language.overrides import Overrides
from transforms.synthesis.language.surface import mention
from transforms.synthesis.language.words import ENTITY, Noun, Way

_ENTITY = Noun("entity", "entities")


@dataclass(frozen=True, slots=True)
class AttributeWords:
    """An attribute as a noun.

    Attributes:
        name: the noun, such as "release date".
        kind: number, date or text.
        unit: the unit behind a number, or "".
    """

    name: str
    kind: str
    unit: str


class EnglishLexicon:
    """The English words of one graph.

    Attributes:
        types: noun of each type.
        attributes: words of each attribute.
        readings: how each relation's label is read.
        ways: of each relation, the way to its tails and the way to its heads.
    """

    def __init__(self, graph: Graph, overrides: Overrides | None = None) -> None:
        self._graph = graph
        given = overrides or Overrides()
        self.types = [
            given.types.get(name) or _type_noun(label, name)
            for name, label in zip(graph.type_names, graph.type_labels, strict=True)
        ]
        self.attributes = [
            AttributeWords(
                given.attributes.get(one.id, ("", ""))[0] or _attribute_name(one.label),
                one.kind,
                given.attributes.get(one.id, ("", ""))[1] or one.unit,
            )
            for one in graph.attributes
        ]
        self._given = given
        self.readings = [
            given.readings.get(one.id) or read_label(one.label or one.id) for one in graph.relations
        ]
        self.ways: list[tuple[Way, Way]] = []
        self._tell_apart()

    def way(self, relation: int, inverse: bool) -> Way:
        """Return how to speak of what one direction of a relation gives."""
        return self.ways[relation][inverse]

    def type_noun(self, number: int) -> Noun:
        """Return the noun of a type, a general one where it is not known."""
        return self.types[number] if number >= 0 else _ENTITY

    def source_noun(self, relation: int, inverse: bool) -> Noun:
        """Return the noun of what one direction of a relation is asked for."""
        one = self._graph.relations[relation]
        return self.type_noun(one.range if inverse else one.domain)

    def holders(self, attribute: int) -> int:
        """Return the number of the type that has an attribute."""
        return self._graph.attributes[attribute].domain

    def noun_of_entity(self, entity: int) -> Noun:
        """Return the noun of the main type of an entity."""
        return self.type_noun(self._graph.type_of(entity))

    def takes_possessive(self, mark: str) -> bool:
        """Return whether "'s" may follow a mention."""
        if not mark.startswith(ENTITY):
            return True
        label = self._graph.labels[int(mark.strip(ENTITY))]
        return mention(label, 1) == label and label[-1:].isalnum() and label[-1:] != "s"

    def _build(self) -> None:
        self.ways = []
        for one, reading in zip(self._graph.relations, self.readings, strict=True):
            nouns = self._given.nouns.get(one.id, (None, None))
            head = nouns[0] or self.type_noun(one.domain)
            tail = nouns[1] or self.type_noun(one.range)
            single = (one.functional, one.inverse_functional)
            self.ways.append(both_ways(reading, head, tail, single))

    def _tell_apart(self) -> None:
        schemes = (self._by_type, self._by_id, lambda _: [one.id for one in self._graph.relations])
        for scheme in schemes:
            self._build()
            clashes = self._clashes()
            if not clashes:
                return
            for group in clashes:
                texts = scheme(group)
                for number in group:
                    self.readings[number] = _qualified(
                        self.readings[number], texts[number], self._label(number)
                    )
        self._build()

    def _label(self, number: int) -> str:
        one = self._graph.relations[number]
        return label_words(one.label or one.id)

    def _clashes(self) -> list[list[int]]:
        """Return groups of relations that some form cannot tell apart, each relation once."""
        owners: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for number, pair in enumerate(self.ways):
            for inverse, way in enumerate(pair):
                texts = [form.texts[2] for form in way.phrases]
                texts += [
                    f"{way.head.plural} {f.texts[2]}" for f in (*way.clauses, *way.predicates)
                ]
                for text in dict.fromkeys(text.lower() for text in texts):
                    owners[text].append((number, bool(inverse)))
        parent = list(range(len(self.ways)))

        def root(number: int) -> int:
            while parent[number] != number:
                number = parent[number]
            return number

        for _, group in sorted(owners.items()):
            for place, one in enumerate(group):
                for other in group[:place]:
                    if root(one[0]) != root(other[0]) and self._meet(one, other):
                        parent[max(root(one[0]), root(other[0]))] = min(
                            root(one[0]), root(other[0])
                        )
        groups: dict[int, list[int]] = defaultdict(list)
        for number in range(len(self.ways)):
            groups[root(number)].append(number)
        return [group for group in groups.values() if len(group) > 1]

    def _meet(self, one: tuple[int, bool], other: tuple[int, bool]) -> bool:
        """Return whether an entity can be asked for both, so that equal words would be one question."""
        mine, theirs = self._graph.heads(*one), self._graph.heads(*other)
        return bool(len(np.intersect1d(mine, theirs, assume_unique=True)))

    def _by_type(self, group: Sequence[int]) -> dict[int, str]:
        relations = self._graph.relations
        for side in ("domain", "range"):
            texts = {n: self.type_noun(getattr(relations[n], side)).single for n in group}
            texts = {n: text if _plain(text) else "" for n, text in texts.items()}
            if len(set(texts.values())) == len(group) and all(texts.values()):
                return texts
        return self._by_id(group)

    def _by_id(self, group: Sequence[int]) -> dict[int, str]:
        segments = {n: _segments(self._graph.relations[n].id) for n in group}
        counts = Counter(part for parts in segments.values() for part in dict.fromkeys(parts))
        texts = {}
        for number, parts in segments.items():
            own = [part for part in parts if counts[part] == 1]
            some = [part for part in parts if counts[part] < len(group)]
            texts[number] = own[0] if own else " ".join(dict.fromkeys(some))
        if len(set(texts.values())) == len(group) and all(texts.values()):
            return texts
        return {n: self._graph.relations[n].id for n in group}


def _segments(relation_id: str) -> list[str]:
    return [label_words(part) for part in re.split(r"[/.#:]+", relation_id) if part]


def _type_noun(label: str, name: str) -> Noun:
    text = label_words(label or name)
    noun = noun_of(text) if readable(text) else quoted(text)
    if noun.mass or noun.single == noun.plural:
        return Noun(f"{noun.single} item", f"{noun.single} items")
    return noun


def _attribute_name(label: str) -> str:
    text = label_words(label)
    return text if readable(text) else quoted(text).single.replace(" entry", " value")


def _plain(text: str) -> bool:
    return readable(text) and not words.PREPOSITIONS & set(text.split())


def _qualified(reading: Reading, text: str, label: str) -> Reading:
    if reading.kind == "noun" and reading.context:
        return replace(reading, context=f"{text}: {reading.context}")
    noun = reading.noun
    if (
        reading.kind in ("noun", "noun of", "noun by")
        and noun is not None
        and _plain(text)
        and not noun.single.startswith('"')
    ):
        return replace(
            reading,
            noun=Noun(f"{text} {noun.single}", f"{text} {noun.plural}", noun.animate, noun.mass),
        )
    name = noun.single.strip('"') if noun is not None and " / " in label else label
    return Reading("noun", quoted(f"{name} ({text})"))


__all__ = ["AttributeWords", "EnglishLexicon", "words"]

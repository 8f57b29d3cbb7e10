"""The Chinese words of a graph: nouns of types, ways to speak of relations, all distinct."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from transforms.synthesis.graph import Graph
from transforms.synthesis.language.chinese_words import (
    GENERAL,
    ChineseReading,
    is_person,
    measure_of,
    read_chinese,
    type_noun,
)
from transforms.synthesis.language.overrides import Overrides
from transforms.synthesis.language.words import ANY, SOURCE, Noun


@dataclass(frozen=True, slots=True)
class ChineseWay:
    """How to speak of what one direction of a relation gives.

    Attributes:
        head: what the answers are called; the noun's plural is its measure word.
        own: whether the head is the relation's own noun.
        phrases: whole noun phrases: "S的导演".
        predicates: what is said of an answer, without a subject: "以S为导演".
        questions: whole questions.
        single: whether one source gives at most one answer.
    """

    head: Noun
    own: bool
    phrases: tuple[str, ...]
    predicates: tuple[str, ...]
    questions: tuple[str, ...]
    single: bool


@dataclass(frozen=True, slots=True)
class ChineseAttribute:
    """An attribute: its name, kind and unit."""

    name: str
    kind: str
    unit: str


class ChineseLexicon:
    """The Chinese words of one graph."""

    def __init__(self, graph: Graph, overrides: Overrides | None = None) -> None:
        self._graph = graph
        given = overrides or Overrides()
        told = given.section("types")
        self.types = [
            _told_noun(told[name]) if name in told else type_noun(label, name)
            for name, label in zip(graph.type_names, graph.type_labels, strict=True)
        ]
        names = given.attributes
        self.attributes = []
        for one in graph.attributes:
            name, unit = names.get(one.id, ("", ""))
            read = read_chinese(name or one.label)
            text = read.text if read.kind == "noun" else f"“{read.text}”"
            self.attributes.append(ChineseAttribute(text, one.kind, unit or one.unit))
        self._entries = given.section("relations")
        self.readings = [self._read(one.id, one.label) for one in graph.relations]
        self._tell_apart()

    def way(self, relation: int, inverse: bool) -> ChineseWay:
        """Return how to speak of what one direction of a relation gives."""
        return self.ways[relation][inverse]

    def type_noun(self, number: int) -> Noun:
        """Return the noun of a type, a general one where it is not known."""
        return self.types[number] if number >= 0 else GENERAL

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

    def _read(self, name: str, label: str) -> ChineseReading:
        entry = self._entries.get(name, {})
        if "noun" in entry:
            person = entry.get("animate", is_person(entry["noun"]))
            measure = entry.get("measure", measure_of(entry["noun"], person))
            return ChineseReading("noun", entry["noun"], person, measure)
        return read_chinese(entry.get("label", label or name))

    def _build(self) -> None:
        self.ways = []
        for one, reading in zip(self._graph.relations, self.readings, strict=True):
            entry = self._entries.get(one.id, {})
            head = (
                _told_noun({"noun": entry["head"]})
                if "head" in entry
                else self.type_noun(one.domain)
            )
            tail = (
                _told_noun({"noun": entry["tail"]})
                if "tail" in entry
                else self.type_noun(one.range)
            )
            self.ways.append(_ways(reading, head, tail, (one.functional, one.inverse_functional)))

    def _tell_apart(self) -> None:
        for last in (False, True):
            self._build()
            for group in self._clashes():
                texts = self._qualifiers(group, last)
                for number in group:
                    old = self.readings[number]
                    text = f"{texts[number]}：{old.text.strip('“”')}"
                    self.readings[number] = replace(old, kind="noun", text=f"“{text}”")
        self._build()

    def _qualifiers(self, group: Sequence[int], last: bool) -> dict[int, str]:
        relations = self._graph.relations
        if not last:
            texts = {n: self.type_noun(relations[n].domain).single.strip("“”") for n in group}
            if len(set(texts.values())) == len(group):
                return texts
        return {n: relations[n].id for n in group}

    def _clashes(self) -> list[list[int]]:
        owners: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for number, pair in enumerate(self.ways):
            for inverse, way in enumerate(pair):
                texts = [*way.phrases, *(f"{text}{way.head.single}" for text in way.predicates)]
                for text in dict.fromkeys(texts):
                    owners[text].append((number, bool(inverse)))
        found: Counter[tuple[int, ...]] = Counter()
        for group in owners.values():
            numbers = sorted({number for number, _ in group})
            if len(numbers) > 1 and self._meet(group):
                found[tuple(numbers)] += 1
        taken: set[int] = set()
        groups = []
        for numbers_, _ in sorted(found.items(), key=lambda item: (-len(item[0]), item[0])):
            if not taken & set(numbers_):
                groups.append(list(numbers_))
                taken.update(numbers_)
        return groups

    def _meet(self, group: Sequence[tuple[int, bool]]) -> bool:
        heads = [self._graph.heads(*one) for one in group]
        merged = np.concatenate(heads)
        return len(np.unique(merged)) < len(merged)


def _told_noun(table: Mapping[str, Any]) -> Noun:
    word = table["noun"]
    person = table.get("animate", is_person(word))
    return Noun(word, table.get("measure", measure_of(word, person)), person)


def _ways(
    reading: ChineseReading, head: Noun, tail: Noun, single: tuple[bool, bool]
) -> tuple[ChineseWay, ChineseWay]:
    text = reading.text
    if reading.kind == "verb":
        forward = ChineseWay(
            tail,
            False,
            (f"{SOURCE}{text}的{tail.single}", f"{SOURCE}所{text}的{tail.single}"),
            (),
            (f"{SOURCE}{text}哪些{tail.single}？", f"{SOURCE}{text}的都是哪些{tail.single}？"),
            single[0],
        )
        return forward, ChineseWay(head, False, (), (f"{text}{ANY}",), (), single[1])
    named = Noun(text, reading.measure, reading.animate)
    if reading.context:
        text = f"“{reading.context}”中的{text}"
    who = "谁" if reading.animate else "什么"
    asked = [
        f"{SOURCE}的{text}有哪些？",
        f"{SOURCE}的{text}都有{'谁' if reading.animate else '哪些'}？",
    ]
    if single[0]:
        asked = [f"{SOURCE}的{text}是{who}？", f"{SOURCE}的{text}是哪{reading.measure}？"]
    phrases = (f"{SOURCE}的{text}", f"{SOURCE}所对应的{text}")
    includes = f"{text}是{ANY}" if single[0] else f"{text}包括{ANY}"
    predicates = (includes, f"以{ANY}为{text}", f"把{ANY}列为{text}")
    return (
        ChineseWay(named, True, phrases, (), tuple(asked), single[0]),
        ChineseWay(head, False, (), predicates, (), single[1]),
    )

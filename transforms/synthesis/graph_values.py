"""Literal tails become values of attributes, or entities where they name things.

``genre: drama`` names a genre that other films have too; ``address: 4 Hill Road`` describes one
place alone. Texts become entities where they are short, and shared between heads, or several of one
head, or beside tails of the same relation that are entities.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from transforms.synthesis.graph_tables import NamedAttribute, NamedEntity
from transforms.synthesis.literals import Values, read_values
from transforms.synthesis.names import clean

_MOST_WIDTH = 48
_MOST_NAME = 120
_LEAST_SHORT = 0.9
_LEAST_MIXED = 0.5
_LEAST_SEVERAL = 0.1
_MOST_DISTINCT = 0.8
_LEAST_VALUES = 8
_SENTENCE = re.compile(r"[。！？!?；;\n]|\.\s|[,，、].*[,，、]|》\s*《")
_LISTED = re.compile(r"[，、；;/\n]|等$|, |》\s*《")
_ALIASES = frozenset(
    [
        "alias",
        "aliases",
        "also_known_as",
        "nickname",
        "other_name",
        "别名",
        "又名",
        "别称",
        "昵称",
        "其它译名",
        "其他译名",
        "外文名",
        "外文名称",
        "英文名",
        "英文名称",
        "中文名",
        "中文名称",
        "其它名称",
        "其他名称",
        "本名",
    ]
)

# Between digits they count: 1.5 is not 15.
_SEPARATORS = re.compile(r"(?<![0-9])[ ,./_*^-]+|[ ,./_*^-]+(?![0-9])")

VALUE = "value/"
"""Ids of entities that were literals begin with this."""


@dataclass(frozen=True, slots=True)
class Literals:
    """The literal tails of one relation: head ids, texts, and whether any was said to be literal."""

    relation: str
    heads: Sequence[str]
    texts: Sequence[str]
    said: bool
    entity_tails: int


@dataclass(slots=True)
class Valued:
    """What became of literals.

    Attributes:
        attributes: by relation id.
        entities: new entities by id.
        facts: (head id, tail id) by relation id, of new entities.
        unused: literals that are neither, by relation id.
    """

    attributes: dict[str, NamedAttribute] = field(default_factory=dict)
    entities: dict[str, NamedEntity] = field(default_factory=dict)
    facts: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    unused: Counter[str] = field(default_factory=Counter)


def take_literals(
    groups: Sequence[Literals], labels: Mapping[str, str], entities: Mapping[str, NamedEntity]
) -> Valued:
    """Decide for the literals of every relation what they are.

    Args:
        groups: by relation.
        labels: words by relation id.
        entities: the entities of the graph; names in another language or form become aliases.
    """
    found = Valued()
    naming: list[Literals] = []
    for group in groups:
        read = read_values(group.texts)
        if read.kind == "text" and group.relation.lower() in _ALIASES:
            for head, text in zip(group.heads, group.texts, strict=True):
                if len(text) <= _MOST_WIDTH and not _LISTED.search(text):
                    entities[head].aliases = (*entities[head].aliases, text)
        elif read.kind == "text" and _name_things(group):
            naming.append(group)
            continue
        _describe(group, labels[group.relation], read, found)
    _promote(naming, found)
    return found


def _name_things(group: Literals) -> bool:
    """Return whether texts name things that can be asked for."""
    texts = group.texts
    if not group.said:
        # A name that is nowhere a head is as good a name.
        return 2 * sum(_width(text) <= _MOST_NAME for text in texts) > len(texts)
    short = [_width(text) <= _MOST_WIDTH and not _SENTENCE.search(text) for text in texts]
    if group.entity_tails:
        return sum(short) >= _LEAST_MIXED * len(texts)
    if sum(short) < _LEAST_SHORT * len(texts):
        return False
    if len(texts) < _LEAST_VALUES:
        return False
    per_head = Counter(group.heads)
    several = sum(count > 1 for count in per_head.values())
    shared = len(set(texts)) <= _MOST_DISTINCT * len(texts)
    return shared or several >= _LEAST_SEVERAL * len(per_head)


def _width(text: str) -> int:
    """Return the columns a text takes on a terminal, nearly."""
    return sum(2 if ord(one) > 0x2E80 else 1 for one in text)


def _promote(groups: Sequence[Literals], found: Valued) -> None:
    """Make entities of texts; texts that differ in case and separators alone are one entity."""
    spellings: dict[str, Counter[str]] = defaultdict(Counter)
    for group in groups:
        for text in group.texts:
            if group.said:
                spellings[_value_key(clean(text))][clean(text)] += 1
    best = {
        key: min(counts, key=lambda one: (-counts[one], one)) for key, counts in spellings.items()
    }
    for group in groups:
        pairs = found.facts.setdefault(group.relation, [])
        for head, text in zip(group.heads, group.texts, strict=True):
            name = best[_value_key(clean(text))] if group.said else clean(text)
            if not name or _too_much(name, group.said):
                found.unused[group.relation] += 1
                continue
            entity = VALUE + name if group.said else text
            found.entities.setdefault(entity, NamedEntity(name if group.said else ""))
            pairs.append((head, entity))


def _too_much(name: str, said: bool) -> bool:
    if not said:
        return _width(name) > _MOST_NAME
    return _width(name) > _MOST_WIDTH or _LISTED.search(name) is not None


def _value_key(text: str) -> str:
    return _SEPARATORS.sub("", text.casefold())


def _describe(group: Literals, label: str, read: Values, found: Valued) -> None:
    """Make an attribute; heads with several values have none."""
    values: dict[str, tuple[str, float]] = {}
    several: set[str] = set()
    for head, value in zip(group.heads, read.read, strict=True):
        if value is None:
            found.unused[group.relation] += 1
        elif values.setdefault(head, value)[0] != value[0]:
            found.unused[group.relation] += 1
            several.add(head)
    for head in several:
        del values[head]
    found.unused[group.relation] += len(several)
    if values:
        found.attributes[group.relation] = NamedAttribute(label, read.kind, read.unit, values)

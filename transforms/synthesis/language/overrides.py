"""A lexicon file: better words for some relations, types and attributes of a graph.

::

    [en.relations."/film/film/other_crew"]
    label = "crew member"            # read like a label of the graph: noun, verb, passive
    [en.relations."P161"]
    noun = "cast member"             # or the noun itself: what the tails are called
    plural = "cast members"
    animate = true                   # who, not which
    head = "film"                    # nouns of the types on both sides
    tail = "actor"
    [en.types."Q11424"]
    noun = "film"
    [en.attributes."P1082"]
    label = "population"
    unit = "people"
    [zh.relations."位于"]
    label = "位于"
    [zh.types."film"]
    noun = "电影"
    measure = "部"

A wrong entry is refused by name.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transforms.record import RecordError
from transforms.synthesis.graph import Graph
from transforms.synthesis.language import english_words as words
from transforms.synthesis.language.english_labels import Reading, read_label
from transforms.synthesis.language.english_nouns import noun_of
from transforms.synthesis.language.words import Noun

_KEYS: dict[str, dict[str, type]] = {
    "relations": {
        "label": str, "noun": str, "plural": str, "animate": bool, "mass": bool,
        "head": str, "tail": str, "measure": str,
    },
    "types": {"noun": str, "plural": str, "animate": bool, "measure": str},
    "attributes": {"label": str, "unit": str},
}  # fmt: skip
_LANGUAGES = ("en", "zh")
_MARKS = frozenset("<>[]{}\n\r\t") | {chr(code) for code in range(32)}


@dataclass(frozen=True, slots=True)
class Overrides:
    """Entries of a lexicon file for one language.

    Attributes:
        entries: by section and id, the checked keys of each entry.
    """

    entries: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)

    def section(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        """Return the entries of a section by id."""
        return self.entries.get(name, {})

    @property
    def readings(self) -> dict[str, Reading]:
        """Readings of relations that have a label or a noun, in English."""
        return {
            name: _reading(entry)
            for name, entry in self.section("relations").items()
            if "label" in entry or "noun" in entry
        }

    @property
    def nouns(self) -> dict[str, tuple[Noun | None, Noun | None]]:
        """Nouns of heads and tails of relations, in English."""
        return {
            name: (_side(entry, "head"), _side(entry, "tail"))
            for name, entry in self.section("relations").items()
        }

    @property
    def types(self) -> dict[str, Noun]:
        """Nouns of types, in English."""
        return {name: _noun(entry) for name, entry in self.section("types").items()}

    @property
    def attributes(self) -> dict[str, tuple[str, str]]:
        """Names and units of attributes, "" where not told."""
        found = self.section("attributes").items()
        return {name: (entry.get("label", ""), entry.get("unit", "")) for name, entry in found}


def read_overrides(path: Path, lang: str, graph: Graph) -> Overrides:
    """Read a lexicon file.

    Args:
        path: a TOML file.
        lang: ``en`` or ``zh``.
        graph: the graph whose ids the entries name.

    Raises:
        RecordError: the file cannot be read, or an entry is wrong; the message names the entry.
    """
    try:
        with path.open("rb") as file:
            given = tomllib.load(file)
    except OSError as error:
        raise RecordError(f"lexicon {path}: {error.strerror}; give a readable TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"lexicon {path}: not TOML: {error}") from error
    for name in given:
        if name not in _LANGUAGES:
            raise RecordError(f"lexicon {path}: unknown table {name!r}; use en or zh")
    known = {
        "relations": {one.id for one in graph.relations},
        "types": set(graph.type_names),
        "attributes": {one.id for one in graph.attributes},
    }
    entries = {}
    for section, table in _table(given.get(lang, {}), f"lexicon {path}: {lang}").items():
        where = f"lexicon {path}: {lang}.{section}"
        if section not in _KEYS:
            raise RecordError(f"{where}: unknown table; use {', '.join(_KEYS)}")
        entries[section] = {
            name: _checked(entry, section, name in known[section], f'{where}."{name}"')
            for name, entry in _table(table, where).items()
        }
    return Overrides(entries)


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordError(f"{where}: {value!r} is no table")
    return value


def _checked(entry: Any, section: str, known: bool, where: str) -> dict[str, Any]:
    if not known:
        raise RecordError(f"{where}: the graph has no such id; correct or remove the entry")
    kinds = _KEYS[section]
    for key, value in _table(entry, where).items():
        if key not in kinds:
            raise RecordError(f"{where}: unknown key {key!r}; use {', '.join(kinds)}")
        if type(value) is not kinds[key]:
            expected = "true or false" if kinds[key] is bool else "a text"
            raise RecordError(f"{where}.{key}: {value!r} is not {expected}")
        if isinstance(value, str) and (not value.strip() or set(value) & _MARKS):
            raise RecordError(
                f"{where}.{key}: {value!r} is empty or holds one of <>[]{{}} or a control character"
            )
    if "label" in entry and "noun" in entry:
        raise RecordError(f"{where}: has both label and noun; keep one")
    if section == "types" and "noun" not in entry:
        raise RecordError(f"{where}: has no noun; add one")
    if "plural" in entry and "noun" not in entry:
        raise RecordError(f"{where}.plural: {entry['plural']!r} without a noun; add noun")
    return dict(entry)


def _reading(entry: Mapping[str, Any]) -> Reading:
    if "label" in entry:
        reading = read_label(entry["label"])
        if reading.noun is None or "animate" not in entry:
            return reading
        noun = reading.noun
        noun = Noun(noun.single, noun.plural, entry["animate"], entry.get("mass", noun.mass))
        return Reading(reading.kind, noun, after=reading.after, context=reading.context)
    return Reading("noun", _noun(entry))


def _noun(entry: Mapping[str, Any]) -> Noun:
    noun = noun_of(entry["noun"])
    plural = entry.get("plural", noun.plural)
    return Noun(
        entry["noun"] if "plural" in entry else noun.single,
        plural,
        entry.get("animate", words.is_animate(entry["noun"])),
        entry.get("mass", noun.mass),
    )


def _side(entry: Mapping[str, Any], key: str) -> Noun | None:
    return noun_of(entry[key]) if key in entry else None

"""Names of tools: verb, relation and type, in the style of a world."""

import re

from transforms.synthesis.graph import Graph
from transforms.synthesis.style import Style
from transforms.synthesis.voice import Op

LONGEST = 64
"""Characters of a tool's name at most."""

_LONGEST_SLUG = 36

_GET = ("get", "get", "fetch", "lookup", "list", "query", "retrieve", "find", "read", "show")
_BY = ("find", "search", "list", "get", "query", "lookup")
_VERBS = {
    "intersect": ("intersect", "common_items", "in_all", "overlap", "shared_members"),
    "unite": ("unite", "merge_lists", "union", "combine", "in_any"),
    "subtract": ("subtract", "difference", "exclude", "remove_items", "except_items"),
    "count": ("count", "count_items", "size_of", "how_many", "length"),
    "search": ("search", "search_entity", "find_entity", "resolve_name", "lookup_id"),
    "save": ("save_list", "save_result", "store_list", "remember", "keep_list"),
    "load": ("load_list", "get_saved", "read_list", "recall", "open_list"),
}
_ASCII_WORD = re.compile(r"[A-Za-z]+|[0-9]+")


class Slugs:
    """The words of relations, types and attributes as names of tools use them."""

    def __init__(self, graph: Graph) -> None:
        self._relations = [
            slug(relation.label) or f"relation_{number:03d}"
            for number, relation in enumerate(graph.relations)
        ]
        self._attributes = [
            slug(attribute.label) or f"field_{number:03d}"
            for number, attribute in enumerate(graph.attributes)
        ]
        self._types = [slug(label) for label in graph.type_labels]
        self._graph = graph

    def type(self, number: int) -> str:
        """Return the word for a type; an empty text where there is none."""
        return self._types[number] if number >= 0 else ""

    def words(self, op: Op, style: Style) -> str:
        """Return the name of a tool in lower case with underscores."""
        draw = style.draw("name", *op)
        kind, *rest = op
        if kind == "deprecated":
            return draw.choose(("{}_v1", "old_{}", "{}_legacy", "{}_deprecated")).format(
                self.words(op[1:], style)
            )
        if kind == "project":
            relation = self._graph.relations[int(rest[0])]
            label = self._relations[int(rest[0])]
            if not rest[1]:
                of = self.type(relation.domain)
                name = f"{draw.choose(_GET)}_{label}"
                return f"{name}_of_{of}" if of and draw.chance(0.5) else name
            found = self.type(relation.domain)
            verb = draw.choose(_BY)
            if found and draw.chance(0.6):
                return f"{verb}_{found}_by_{label}"
            return f"{verb}_by_{label}"
        if kind in ("value", "filter", "top"):
            label = self._attributes[int(rest[0])]
            forms = {
                "value": (f"{draw.choose(_GET)}_{label}",),
                "filter": (f"filter_by_{label}", f"where_{label}", f"select_by_{label}"),
                "top": (f"top_by_{label}", f"rank_by_{label}", f"best_{label}"),
            }
            return draw.choose(forms[str(kind)])
        return draw.choose(_VERBS[str(kind)])

    def name(self, op: Op, style: Style) -> str:
        """Return the name of a tool in the style of its world."""
        words = self.words(op, style)
        if style.naming in ("camel", "pascal"):
            first, *others = words.split("_")
            start = first.title() if style.naming == "pascal" else first
            return (start + "".join(word.title() for word in others))[:LONGEST]
        if style.naming == "prefixed":
            words = f"{style.prefix}_{words}"
        elif style.naming == "service":
            words = f"{style.prefix}__{words}"
        return words[:LONGEST].rstrip("_")


def slug(text: str) -> str:
    """Return the first ASCII words of a text joined by underscores, none of them twice."""
    words = list(dict.fromkeys(word.lower() for word in _ASCII_WORD.findall(text)))
    if words and not words[0].isalpha():
        words.insert(0, "n")
    while len("_".join(words)) > _LONGEST_SLUG and len(words) > 1:
        words.pop()
    return "_".join(words)[:_LONGEST_SLUG]


def distinct(names: list[str]) -> list[str]:
    """Number the names that are already taken, from 2, also those that differ in case alone."""
    taken: set[str] = set()
    found: list[str] = []
    for name in names:
        number, one = 1, name
        while _loose(one) in taken:
            number += 1
            one = f"{name[: LONGEST - 3]}_{number}"
        taken.add(_loose(one))
        found.append(one)
    return found


def _loose(name: str) -> str:
    return name.replace("_", "").lower()

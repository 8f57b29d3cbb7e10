"""Tools: what a call may say (an OpenAI function with a JSON Schema) and what it does."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transforms.synthesis.draw import Draw
from transforms.synthesis.graph import Graph
from transforms.synthesis.style import Style, Words
from transforms.synthesis.tool_names import Slugs, distinct
from transforms.synthesis.voice import Op, Voice

PAGE_TOKEN = "page_token"
_DESCRIPTIONS = 12
"""Ways to describe one tool, each made once."""

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of a world."""

    name: str
    op: Op
    spec: Schema
    """OpenAI's ``{"type": "function", "function": {"name", "description", "parameters"}}``."""

    @property
    def parameters(self) -> Schema:
        """The JSON Schema of its arguments."""
        found: Schema = self.spec["function"]["parameters"]
        return found


class ToolFactory:
    """Makes the tools of worlds over one graph in one language."""

    def __init__(self, graph: Graph, voice: Voice) -> None:
        self._graph, self._voice = graph, voice
        self._slugs = Slugs(graph)
        self._described: dict[tuple[Op, int], str] = {}

    def tools(self, ops: Sequence[Op], style: Style) -> list[Tool]:
        """Make the tools that do some operations, in their order; names differ."""
        words = Words.of(style)
        names = distinct([self._slugs.name(op, style) for op in ops])
        return [self._tool(name, op, style, words) for name, op in zip(names, ops, strict=True)]

    def _tool(self, name: str, op: Op, style: Style, words: Words) -> Tool:
        function = {
            "name": name,
            "description": self._description(op, style),
            "parameters": schema(op, style, words, self._graph),
        }
        return Tool(name, op, {"type": "function", "function": function})

    def _description(self, op: Op, style: Style) -> str:
        variant = style.draw("description", *op).below(_DESCRIPTIONS)
        found = self._described.get((op, variant))
        if found is None:
            draw = Draw(variant, "description", *op)
            found = self._described[op, variant] = self._voice.tool_description(op, draw)
        return found


def schema(op: Op, style: Style, words: Words, graph: Graph) -> Schema:
    """Return the JSON Schema of a tool's arguments."""
    kind = op[0]
    if kind == "deprecated":
        return schema(op[1:], style, words, graph)
    optional: dict[str, Schema] = {}
    if kind == "project":
        required = _source(style, words)
        optional = _options(style)
    elif kind == "value":
        required = {words.entity: _text("id" if style.ids else "name")}
    elif kind in ("filter", "top"):
        required, optional = _by_attribute(op, style, words, graph)
    else:
        required, optional = _of_sets(str(kind), style, words)
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
        "additionalProperties": False,
    }


def _options(style: Style) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    if style.options:
        found["limit"] = {"type": "integer", "minimum": 1}
        found["descending"] = {"type": "boolean"}
    if style.page:
        found[PAGE_TOKEN] = {"type": "string"}
    return found


def _by_attribute(
    op: Op, style: Style, words: Words, graph: Graph
) -> tuple[dict[str, Schema], dict[str, Schema]]:
    attribute = graph.attributes[int(op[1])]
    items = {words.items: _set(style)}
    if op[0] == "top":
        order = {"type": "string", "enum": [words.largest, words.smallest]}
        return {**items, words.k: {"type": "integer", "minimum": 1}, words.order: order}, {}
    if attribute.kind == "text":
        return {**items, "equals": {"type": "string"}}, {}
    kind = "number" if attribute.kind == "number" else "string"
    return items, {"min": {"type": kind}, "max": {"type": kind}}


def _of_sets(kind: str, style: Style, words: Words) -> tuple[dict[str, Schema], dict[str, Schema]]:
    first, second, third = words.parts
    name: dict[str, Schema] = {"list_name": {"type": "string"}}
    match kind:
        case "intersect" | "unite":
            return {first: _set(style), second: _set(style)}, {third: _set(style)}
        case "subtract":
            return {words.keep: _set(style), words.remove: _set(style)}, {}
        case "count":
            return {words.items: _set(style)}, {}
        case "search":
            return {words.query: _text("name")}, {}
        case "save":
            return {**name, words.items: _set(style)}, {}
    return name, {}


def _source(style: Style, words: Words) -> dict[str, Schema]:
    if style.signature in ("batch", "grouped"):
        return {words.entities: _set(style)}
    if style.signature == "handle":
        return {words.entity: _text("name or handle of a result, such as set_1")}
    return {words.entity: _text("id" if style.ids else "name")}


def _set(style: Style) -> Schema:
    if style.signature == "handle":
        return _text("handle of a result, such as set_1")
    return {"type": "array", "items": {"type": "string"}, "minItems": 1}


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}

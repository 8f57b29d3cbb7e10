"""Definitions of tools and the arguments of calls, by the part of JSON Schema that tools use.

A general validator takes milliseconds for the schemas of one conversation, and every conversation
has others; this part is enough for every definition the synthesizer writes, and a definition that
uses anything else is refused. Tests compare it with ``jsonschema``.
"""

import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_KEYS = {
    "object": {"type", "properties", "required", "additionalProperties", "description"},
    "array": {"type", "items", "minItems", "maxItems", "uniqueItems", "description", "default"},
    "string": {"type", "enum", "description", "default"},
    "integer": {"type", "enum", "minimum", "maximum", "description", "default"},
    "number": {"type", "enum", "minimum", "maximum", "description", "default"},
    "boolean": {"type", "description", "default"},
}


def definition_problem(tool: Any) -> str | None:
    """Say what is wrong with the definition of a tool (OpenAI's form); None where nothing is."""
    if (
        not isinstance(tool, dict)
        or set(tool) != {"type", "function"}
        or tool["type"] != "function"
    ):
        return "not an object of type function"
    function = tool["function"]
    if not isinstance(function, dict) or set(function) != {"name", "description", "parameters"}:
        return "a function needs name, description and parameters"
    name, description = function["name"], function["description"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"{name!r} is no name of a function"
    if not isinstance(description, str) or not description.strip():
        return f"{name} has no description"
    parameters = function["parameters"]
    if not isinstance(parameters, dict) or parameters.get("type") != "object":
        return f"{name}: parameters are no object"
    problem = _schema_problem(parameters)
    return None if problem is None else f"{name}: {problem}"


def _schema_problem(schema: Any) -> str | None:
    kind = schema.get("type") if isinstance(schema, dict) else None
    if not isinstance(kind, str) or kind not in _KEYS:
        return f"a schema of type {kind!r}"
    extra = sorted(set(schema) - _KEYS[kind])
    if extra:
        return f"{kind} with {', '.join(extra)}"
    if not isinstance(schema.get("description", ""), str):
        return "a description that is no text"
    if kind == "object":
        return _object_problem(schema)
    if kind == "array":
        problem = _schema_problem(schema["items"]) if "items" in schema else "array without items"
        if problem is not None:
            return problem
    elif "enum" in schema:
        values = schema["enum"]
        typed = {**schema}
        del typed["enum"]
        typed.pop("default", None)
        if not isinstance(values, list) or not values:
            return "an enum without values"
        if any(value_problem(typed, value) is not None for value in values):
            return f"an enum with values that are no {kind}"
    if "default" in schema and value_problem(schema, schema["default"]) is not None:
        return f"the default {schema['default']!r} is not allowed by its own schema"
    return None


def _object_problem(schema: Mapping[str, Any]) -> str | None:
    properties, required = schema.get("properties"), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return "an object without properties, or with required that is no list"
    unknown = [name for name in required if name not in properties]
    if unknown:
        return f"required but not there: {', '.join(map(str, unknown))}"
    for name, inner in properties.items():
        problem = _schema_problem(inner)
        if problem is not None:
            return f"{name}: {problem}"
    return None


def value_problem(schema: Mapping[str, Any], value: Any) -> str | None:
    """Say why a value is not what a schema allows; None where it is.

    Args:
        schema: of a definition without problems.
        value: parsed JSON.
    """
    kind = schema["type"]
    if not _is_a(kind, value):
        return f"{value!r} is no {kind}"
    if "enum" in schema and not any(_same(value, one) for one in schema["enum"]):
        return f"{value!r} is none of {schema['enum']}"
    if kind in ("integer", "number"):
        if "minimum" in schema and value < schema["minimum"]:
            return f"{value} is below {schema['minimum']}"
        if "maximum" in schema and value > schema["maximum"]:
            return f"{value} is above {schema['maximum']}"
    if kind == "array":
        return _items_problem(schema, value)
    if kind == "object":
        return _members_problem(schema, value)
    return None


def _items_problem(schema: Mapping[str, Any], value: list[Any]) -> str | None:
    if len(value) < schema.get("minItems", 0):
        return f"{len(value)} items, at least {schema['minItems']}"
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        return f"{len(value)} items, at most {schema['maxItems']}"
    if schema.get("uniqueItems") and any(
        _same(one, other) for n, one in enumerate(value) for other in value[:n]
    ):
        return "an item twice"
    problems = (value_problem(schema["items"], item) for item in value)
    return next((problem for problem in problems if problem is not None), None)


def _members_problem(schema: Mapping[str, Any], value: dict[str, Any]) -> str | None:
    properties = schema["properties"]
    missing = [name for name in schema.get("required", ()) if name not in value]
    if missing:
        return f"without {', '.join(missing)}"
    for name, inner in value.items():
        if name in properties:
            problem = value_problem(properties[name], inner)
            if problem is not None:
                return f"{name}: {problem}"
        elif schema.get("additionalProperties") is False:
            return f"unknown argument {name}"
    return None


def _is_a(kind: str, value: Any) -> bool:
    if kind == "boolean":
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if kind == "number":
        return isinstance(value, int | float)
    return isinstance(value, {"string": str, "array": list, "object": dict}[kind])


def _same(one: Any, other: Any) -> bool:
    """Compare as JSON does: true is not 1, but 1.0 is."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)
